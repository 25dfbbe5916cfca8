#!/bin/bash
# Builds the kernel of `twin linux` from Debian's source package; `./reproduce.sh linux` calls it.
#
# usage: build.sh TARGET   (the kernel is put there, with TARGET.txt, which says what it was built from)
#
# A kernel is built once for each version of the source, of the compiler and of this folder, and is then kept in
# ${XDG_CACHE_HOME:-~/.cache}/iopatterns/linux, for all checkouts. One build runs at a time; the others wait and take its
# result.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(realpath -m "$1")
say() { printf '%s\n' "$*" >&2; }

source=$(find /usr/src -maxdepth 1 -name 'linux-source-*.tar.xz' | sort -V | tail -n 1)
[ -n "$source" ] || {
    say "No kernel source at /usr/src/linux-source-*.tar.xz. Install Debian's package: apt-get install linux-source"
    exit 1
}
name=$(basename "$source" .tar.xz)
version=$(dpkg-query --show --showformat='${Version}' "$name" 2>/dev/null || sha256sum "$source" | cut -c1-12)
gcc_version=$(gcc -dumpfullversion)
key=$({ printf '%s\n' "$name" "$version" "$gcc_version"; cat "$here/um.config" "$here"/*.patch "$here/build.sh"; } | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/iopatterns/linux
kept=$cache/$name-$key
export LC_ALL=C
mkdir -p "$cache" "$(dirname "$target")"

# The lock is held until the last process of the build has ended, so what lies in $cache/work is of a build that was cut
# off with the machine.
exec 9>"$cache/lock"
flock --nonblock 9 || {
    say "Another build of a kernel is running; waiting for it"
    flock 9
}
rm -rf "$cache/work"

if [ ! -e "$kept/linux" ]; then
    say "Building $name $version as User-mode Linux (more than seven minutes of processor time, and 0.9 GB, which are freed again)"
    work=$cache/work
    trap 'rm -rf "$work"' EXIT
    # kill -9 runs no trap. This process waits until all processes of the build have ended, and keeps the lock till then.
    exec 8> >(exec setsid sh -c 'cat; rm -rf "$1"' sh "$work" >/dev/null 2>&1)
    mkdir -p "$work/source" "$work/build" "$work/result"
    # what no setting of ours builds is half of the source
    tar --extract --xz --file="$source" --directory="$work/source" --strip-components=1 \
        --exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/*/*.[ch]' --exclude='*/sound/*.[ch]' --exclude='*.rst'
    # UML has no setting for its tick: 100 Hz, where Debian's kernels have 250. Write-back goes by ticks.
    sed -i '/^config HZ$/,/default/s/default [0-9]*/default 250/' "$work/source/arch/um/Kconfig"
    grep -A3 '^config HZ$' "$work/source/arch/um/Kconfig" | grep -q 'default 250' || {
        say "$name: arch/um/Kconfig has no HZ where this script looks for it"
        exit 1
    }
    patch --quiet --strip=1 --directory="$work/source" <"$here/failing-calls.patch"
    clock_page=$here/clock-page-${name#linux-source-}.patch
    if [ -e "$clock_page" ]; then
        patch --quiet --strip=1 --directory="$work/source" <"$clock_page"
        patch --quiet --strip=1 --directory="$work/source" <"$here/program-time.patch"
    else
        say "There is no ${clock_page##*/} in src/kernel: runs take three times as long, and need --call-ns 0 --fault-ns 0"
    fi
    # Which pages lie side by side in memory is up to the host's libraries. A request takes each by itself, as it does where
    # the kernel looks for memory that was never written, so that its size does not depend on that.
    sed -i 's/IS_ENABLED(CONFIG_KMSAN)/true/' "$work/source/block/bio.c"
    grep -q 'if (true)' "$work/source/block/bio.c" || {
        say "$name: block/bio.c does not join pages where this script looks for it"
        exit 1
    }
    # Where the code of a kernel lies is mixed into its random numbers, which file systems use. A fixed address, that of the
    # first kernel of data/traces, keeps them from changing with each line of code.
    sed -i 's/: _RET_IP_) ^ swab/: 0x60074f37UL) ^ swab/' "$work/source/drivers/char/random.c"
    grep -q '0x60074f37UL' "$work/source/drivers/char/random.c" || {
        say "$name: drivers/char/random.c does not mix addresses where this script looks for it"
        exit 1
    }
    # what is built depends on nothing else of this machine
    export KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=twin KBUILD_BUILD_HOST=linux KBUILD_BUILD_VERSION=1
    build() { nice -n 19 make --silent --directory="$work/source" ARCH=um O="$work/build" "$@" >>"$work/log" 2>&1; }
    build KCONFIG_ALLCONFIG="$here/um.config" alldefconfig && build --jobs="$(nproc)" linux || {
        cp "$work/log" "$target.log"
        say "$name does not build. The end of $target.log:"
        tail -n 20 "$target.log" >&2
        exit 1
    }
    # a setting whose name a kernel does not know is dropped without a word
    sort "$work/build/.config" >"$work/set"
    grep -v '^$' "$here/um.config" | grep -E '^(CONFIG_|# CONFIG_)' | sort | comm -23 - "$work/set" |
        grep -v 'is not set' >"$work/dropped" || true
    [ ! -s "$work/dropped" ] || say "$name has not taken: $(tr '\n' ' ' <"$work/dropped")"
    strip -o "$work/result/linux" "$work/build/linux"
    cp "$work/build/.config" "$work/result/config"
    rm -rf "$kept"
    mv "$work/result" "$kept"
fi
rm -f "$target.log"
cp "$kept/linux" "$target.part"
chmod 755 "$target.part"
mv "$target.part" "$target"
{
    printf 'source %s %s\n' "$name" "$version"
    printf 'gcc %s\n' "$gcc_version"
    printf 'config sha256 %s\n' "$(sha256sum <"$here/um.config" | cut -d' ' -f1)"
    printf 'kernel sha256 %s\n' "$(sha256sum <"$target" | cut -d' ' -f1)"
} >"$target.txt"
