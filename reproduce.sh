#!/bin/bash
# Commands of the project: `./reproduce.sh` builds the complete report, `./reproduce.sh test` runs the tests. Every command first
# installs missing Debian packages (envs/apt.txt), and Python packages into .venv (hash-locked: envs/requirements.txt).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
unset PYTHONPATH PYTHONHOME # modules of the user must not hide those of Python and of the locked packages
PATH=${PATH//"$PWD/.venv/bin:"/} # an active .venv must not be used to make .venv

usage() {
    cat <<'TEXT'
usage: ./reproduce.sh [COMMAND]

Each command first sets up: it installs missing Debian and Python packages and builds the simulated drives.

  (no command)    make the complete report, results/report.pdf, and print a summary
  quick           measure one study with two repetitions of each cell, and make its report, results/quick/report.pdf
  test [ARGS]     run the tests in parallel; ARGS are passed to pytest
  test --quick [ARGS]   run only the fast unit tests and the fast tests of simulated drives
  test --all [ARGS]     install the packages that only some tests need (envs/apt-tests.txt), then run all tests
  test --nightly [ARGS] install these packages, then let every system call of a measurement fail, and fuzz for an hour
  setup           only set up; then run `source .venv/bin/activate` and `snakemake --cores 1`
  lab [ARGS]      open JupyterLab with working copies of the notebooks; ARGS, such as --no-browser, are passed to JupyterLab
  lab save [NAME...]   copy edits of working copies back into the notebooks
  linux           build the kernel of `twin linux` from Debian's source package; needed once
  check           run every formatter, linter and type check
  docs            build the documentation as a site, results/site/index.html
TEXT
}

say() { printf '%s\n' "$*" >&2; }

packages() { sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$@"; }

present() { # return whether the program or file for which a Debian package is needed exists, from whatever source
    local PATH=$PATH:/usr/sbin:/sbin # folders that are not in the PATH of ordinary users
    case $1 in
    python3-venv) python3 -c 'import ensurepip, venv' ;;
    ca-certificates) [ -e /etc/ssl/certs/ca-certificates.crt ] ;;
    python3-dev) python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ;;
    sg3-utils) command -v sg_modes ;;
    doctest-dev) [ -e /usr/include/doctest/doctest.h ] ;;
    qemu-system-x86) command -v qemu-system-x86_64 ;;
    lvm2) command -v lvcreate ;;
    libclang-rt-dev) compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a' ;;
    linux-source) compgen -G '/usr/src/linux-source-*.tar.xz' ;;
    libelf-dev) [ -e /usr/include/libelf.h ] ;;
    xz-utils) command -v xz ;;
    xfsprogs) command -v mkfs.xfs ;;
    btrfs-progs) command -v mkfs.btrfs ;;
    f2fs-tools) command -v mkfs.f2fs ;;
    e2fsprogs) command -v mkfs.ext4 ;;
    nvme-cli) command -v nvme ;;
    slurm-wlm) command -v slurmd && command -v slurmctld && command -v sbatch ;;
    munge) command -v munged ;;
    smartmontools) command -v smartctl ;;
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/pgbench' ;;
    rocksdb-tools) command -v db_bench ;;
    lmdb-utils) command -v mdb_stat ;;
    mariadb-server-core) command -v mariadbd ;;
    mariadb-client-core) command -v mariadb ;;
    user-mode-linux) command -v linux.uml ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

install_packages() { # install the missing packages of some lists, and print why each package is needed
    local missing=() package
    for package in $(packages "$@"); do present "$package" || missing+=("$package"); done
    [ ${#missing[@]} -eq 0 ] && return
    if ! command -v apt-get >/dev/null; then
        say "These Debian packages are missing, and this system has no apt-get to install them: ${missing[*]}"
        say "Install equivalent packages ($* lists the purpose of each package), then run ./reproduce.sh again."
        exit 1
    fi
    local install=(apt-get install --yes --no-install-recommends "${missing[@]}")
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -v; then
            say "These Debian packages are missing, and only root may install them: ${missing[*]}"
            say "Run this line as root, then ./reproduce.sh again:"
            say ""
            say "    apt-get update && ${install[*]}"
            exit 1
        fi
        as_root=(sudo)
    fi
    say "Installing Debian packages:"
    for package in "${missing[@]}"; do say "  $(grep -h "^$package " "$@" | sed 's/  *# */: /')"; done
    "${as_root[@]}" apt-get update --quiet=2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" --quiet=2 -o Dpkg::Use-Pty=0 >&2
}

check_python() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        say "python3 is $(python3 -V 2>&1), but 3.11 or later is needed (Debian 12, Ubuntu 24.04 or later have it)."
        exit 1
    }
}

check_compiler() {
    [ "$(g++ -dumpversion | cut -d. -f1)" -ge 12 ] || {
        say "g++ is version $(g++ -dumpversion), but 12 or later is needed (Debian 12, Ubuntu 24.04 or later have it)."
        exit 1
    }
}

make_environment() { # make .venv as locked, unless neither the lock nor Python has changed
    local stamp
    stamp=$({ cat envs/requirements.txt; python3 -V; pwd; } | sha256sum)
    [ -f .venv/.stamp ] && [ "$(cat .venv/.stamp)" = "$stamp" ] && return
    say "Making .venv from envs/requirements.txt"
    rm -rf .venv
    python3 -m venv .venv
    awk '/^uv==/ {found = 1} found {print} found && !/\\$/ {exit}' envs/requirements.txt >.venv/uv.txt
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt
    .venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes --compile-bytecode envs/requirements.txt
    printf '%s\n' "$stamp" >.venv/.stamp
}

build_package() { # build the package and its simulated drives, unless their sources have not changed
    local stamp
    # only the names of Python files matter: the editable installation reads their content from the checkout
    stamp=$({ find src/twin -type f | sort | xargs sha256sum; find src -name '*.py' | sort; cat pyproject.toml src/fio_parser_json/pyproject.toml .venv/.stamp; g++ --version; } | sha256sum)
    [ -f .venv/.package ] && [ "$(cat .venv/.package)" = "$stamp" ] && return
    say "Building the package and its simulated drives"
    # the build calls cmake and ninja, which are in .venv, by name
    PATH="$PWD/.venv/bin:$PATH" .venv/bin/uv pip install --quiet --python .venv/bin/python \
        --no-deps --no-build-isolation --editable src/fio_parser_json --editable .
    printf '%s\n' "$stamp" >.venv/.package
}

set_up() { # set up, with the packages of additional lists
    install_packages envs/apt.txt "$@"
    check_python
    check_compiler
    make_environment
    build_package
    export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"
}

case "${1:-run}" in
quick)
    set_up
    started=$(date +%s)
    study=$(iopatterns study list --names | head -n 1)
    IOPATTERNS_COMMAND='./reproduce.sh quick' snakemake --cores "$(nproc)" --configfile config/quick.yaml \
        --config "studies=[$study]"
    iopatterns summary --since "$started" --results results/quick
    say "To make the complete report, run ./reproduce.sh. It reuses these measurements."
    ;;
run)
    set_up
    started=$(date +%s)
    snakemake --cores 1
    iopatterns summary --since "$started"
    ;;
test)
    shift
    case "${1:-}" in
    --all)
        shift
        set_up envs/apt-tests.txt
        ;;
    --nightly)
        shift
        set_up envs/apt-tests.txt
        set -- --nightly tests/attacks/test_failing_calls.py tests/fuzz "$@"
        ;;
    --quick)
        shift
        set_up
        set -- -m "not slow" --hypothesis-profile=quick tests/unit tests/twin tests/studies "$@"
        ;;
    *) set_up ;;
    esac
    # The tests of one file share measurements, and therefore run in one process; `-n 0` runs all tests in one process.
    # Files that take longest come first (tests/conftest.py).
    exec python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder "$@"
    ;;
setup) set_up ;;
lab)
    shift
    set_up
    case "${1:-}" in
    save)
        shift
        exec iopatterns lab save "$@"
        ;;
    esac
    iopatterns lab copy
    options=(--ServerApp.root_dir="$PWD" --LabApp.default_url=/lab/tree/notebooks/working/explore.ipynb)
    options+=(--LabApp.app_settings_dir="$PWD/envs/jupyterlab") # these settings keep JupyterLab from contacting other hosts
    [ "$(id -u)" -ne 0 ] || options+=(--allow-root)
    exec jupyter lab "${options[@]}" "$@"
    ;;
linux)
    set_up envs/apt-linux.txt
    src/kernel/build.sh .linux/linux
    say "The kernel is .linux/linux; .linux/linux.txt lists its sources. \`twin linux --help\` describes its use."
    ;;
check)
    set_up
    exec pre-commit run --all-files
    ;;
docs)
    set_up
    NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
    say "The documentation is results/site/index.html"
    ;;
-h | --help) usage ;;
*)
    say "reproduce.sh: there is no command '$1'"
    usage >&2
    exit 2
    ;;
esac
