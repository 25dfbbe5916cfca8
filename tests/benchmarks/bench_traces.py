"""Speed and memory of converting block traces, by form.

For each form, the benchmark converts traces of one and of four million requests, to show that memory does not grow with
the length. A record is a line or a binary record; in traces of events, a request has three. The files take half a
gigabyte.
"""

import argparse
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

REQUESTS = 1_000_000
LONGER = 4
MIB = 2**20


def offsets(count: int) -> Iterable[tuple[int, int]]:
    """Yield number and sector of 4 KiB requests over 4 GiB, in a non-repeating order."""
    return ((number, number * 2_654_435_761 % MIB * 8) for number in range(count))


def csv(count: int) -> Iterable[bytes]:
    yield b"operation,offset_bytes,size_bytes,time_ns\n"
    for number, sector in offsets(count):
        yield b"write,%d,4096,%d\n" % (sector * 512, number * 1000)


def iolog(count: int) -> Iterable[bytes]:
    yield b"fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n"
    for number, sector in offsets(count):
        yield b"%d /dev/sda write %d 4096\n" % (number, sector * 512)


def msr(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        yield b"%d,hm,1,Write,%d,4096,800\n" % (128166372003061629 + 10 * number, sector * 512)


def alibaba(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        yield b"3,W,%d,4096,%d\n" % (sector * 512, 1577808000000046 + number)


def spc(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        yield b"0,%d,4096,W,%d.%06d\n" % (sector, number // 10**6, number % 10**6)


def mqsim(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        yield b"%d 0 %d 8 0\n" % (number * 1000, sector)


def blkparse(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        for later, action in enumerate((b"Q", b"D", b"C")):
            time_ns = number * 1000 + later * 10
            yield b"  8,0    0 %8d %5d.%09d   697  %s   W %d + 8 [fio]\n" % (
                number * 3 + later,
                time_ns // 10**9,
                time_ns % 10**9,
                action,
                sector,
            )


def blktrace(count: int) -> Iterable[bytes]:
    record = struct.Struct("<IIQQIIIIIHH")
    for number, sector in offsets(count):
        for later, action in enumerate((1, 7, 8)):
            time_ns = number * 1000 + later * 10
            yield record.pack(0x65617407, number, time_ns, sector, 4096, action | 2 << 16, 697, 8 << 20, 0, 0, 0)


def perf(count: int) -> Iterable[bytes]:
    for number, sector in offsets(count):
        for later, action in enumerate((b"bio_queue", b"rq_issue", b"rq_complete")):
            time_ns = number * 1000 + later * 10
            size = (b"", b"4096 () ", b"() ")[later]
            yield b"             fio   697 [001] %5d.%09d: block:block_%s: 8,0 W %s%d + 8 [fio]\n" % (
                time_ns // 10**9,
                time_ns % 10**9,
                action,
                size,
                sector,
            )


def biosnoop(count: int) -> Iterable[bytes]:
    yield b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n"
    for number, sector in offsets(count):
        yield b"%-11s fio            697    sda     W %-10d 4096      0.07\n" % (
            b"%d.%06d" % (number // 10**6, number % 10**6),
            sector,
        )


def oracle_general(count: int) -> Iterable[bytes]:
    record = struct.Struct("<IQIq")
    for number, sector in offsets(count):
        yield record.pack(number // 10**6, sector, 4096, -1)


FORMS: dict[str, Callable[[int], Iterable[bytes]]] = {
    "CSV with a head": csv,
    "I/O log of fio": iolog,
    "MSR Cambridge": msr,
    "Alibaba": alibaba,
    "SPC (UMass)": spc,
    "MQSim": mqsim,
    "text of blkparse": blkparse,
    "binary records of blktrace": blktrace,
    "perf script": perf,
    "biosnoop": biosnoop,
    "oracleGeneral of libCacheSim": oracle_general,
}
EVENTS = (blkparse, blktrace, perf)  # with three records a request: queued, issued, completed


def convert(trace: Path, output: Path, *, issued: bool = False) -> tuple[float, int]:
    """Convert a trace in a process of its own; return processor time in seconds and peak memory in bytes."""
    code = (
        "import resource, sys; from pathlib import Path; from iopatterns.twin import traces;"
        "traces.convert_trace(*map(Path, sys.argv[1:3]), issued=sys.argv[3] == 'True', overwrite=True);"
        "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, trace, output, str(issued)], stdout=subprocess.PIPE, text=True, check=True
    )
    seconds, memory = done.stdout.split()
    return float(seconds), int(memory) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of the shorter trace  [default: %(default)s]")
    parser.add_argument("--form", action="append", choices=FORMS, help="form to convert  [default: all]")
    given_options = parser.parse_args()
    count = given_options.requests
    with tempfile.TemporaryDirectory() as folder:
        ours: list[Path] = []
        for name in given_options.form or FORMS:
            lines = FORMS[name]
            given, ours = [], []
            for times in (1, LONGER):
                given.append(Path(folder) / f"{lines.__name__}-{times}")
                ours.append(given[-1].with_suffix(".parquet"))
                with given[-1].open("wb") as file:
                    file.writelines(lines(count * times))
            if lines in EVENTS:
                report(f"{name}, queued requests", 3 * count, given, ours)
                report(f"{name}, issued requests", 3 * count, given, ours, issued=True)
            else:
                report(name, count, given, ours)
            for trace in given:
                trace.unlink()
        report("Parquet", count, ours, [Path(folder) / "again.parquet"] * 2)


def report(name: str, count: int, traces: list[Path], outputs: list[Path], *, issued: bool = False) -> None:
    """Convert the shorter and the longer trace of a form; print processor time and peak memory.

    Args:
        name: Name of the form.
        count: Records of the shorter trace.
        traces: The shorter and the longer trace.
        outputs: The files to write.
        issued: Whether the issued requests are converted.
    """
    (_, memory), (seconds, more) = (convert(*each, issued=issued) for each in zip(traces, outputs, strict=True))
    print(
        f"{name}: {count * LONGER} records, {traces[1].stat().st_size / MIB:.0f} MiB, {seconds:.1f} processor seconds,"
        f" {count * LONGER / seconds / 1e6:.2f} million records a second;"
        f" at most {more / MIB:.0f} MiB of memory, {more / memory:.2f} times the"
        f" {memory / MIB:.0f} MiB for a quarter of the trace",
        flush=True,
    )


if __name__ == "__main__":
    main()
