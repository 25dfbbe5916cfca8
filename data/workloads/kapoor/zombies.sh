#!/bin/sh
# Section 3.3: THREADS threads create 120 files of 1 MB in chunks of CHUNK bytes and overwrite them, with fsync() after every FSYNC
# overwriting requests (0: no fsync()): zombies.sh in-order|at-random
#
# fio would pause between a creating and an overwriting group of jobs, long enough for the kernel to write the page cache. Instead,
# each thread replays a log of requests without pauses. Random offsets may be any byte, as in section 2.1; the generator of S. K. Park and
# K. W. Miller (Communications of the ACM, 1988) gives the same numbers with every awk.
set -e
case ${1:?in-order or at-random} in
in-order) random=0 ;;
at-random) random=1 ;;
*) exit 2 ;;
esac
for thread in $(seq 0 $((THREADS - 1))); do
    awk -v thread="$thread" -v fsync="${FSYNC:-10}" -v files=$((120 / THREADS)) -v chunk="$CHUNK" -v random=$random 'BEGIN {
        size = 1048576
        number = thread + 1
        print "fio version 2 iolog"
        for (pass = 0; pass < 2; pass++) {
            for (each = 0; each < files; each++) {
                file = "f." thread "." each
                if (!pass) print file, "add"
                print file, "open"
                for (at = 0; at < size; at += chunk) {
                    number = number * 16807 % 2147483647
                    print file, "write", pass && random ? number % (size - chunk) : at, chunk
                    if (pass && fsync && ++requests % fsync == 0) print file, "sync", 0, 0
                }
                print file, "close"
            }
        }
    }' > "$JOBS/log.$thread"
done
# If the file system is full, a thread ends, as in the source (`pthread_exit`); any other error of fio is an error of this script
LOGS=$(seq -s : -f "$JOBS/log.%g" 0 $((THREADS - 1))) fio "$JOBS/zombies.fio" > "$JOBS/fio" 2>&1 || grep -q "No space left on device" "$JOBS/fio" || {
    cat "$JOBS/fio"
    exit 1
}
