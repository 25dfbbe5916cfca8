#!/bin/bash
# The two commands: `./reproduce.sh` builds the whole report, `./reproduce.sh test` runs the tests; `quick` is a first look.
# All first install what the machine lacks (envs/apt.txt) and make .venv from the hash-locked envs/requirements.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
PATH=${PATH//"$PWD/.venv/bin:"/} # .venv may be active, and is no Python to make .venv from

usage() {
    cat <<'TEXT'
usage: ./reproduce.sh [COMMAND]

  (nothing)       set up, run `snakemake --cores 1`, say what was measured and where the report lies
  quick           set up, measure one study with two repetitions a cell, and make its report in results/quick: two minutes
  test [ARGS]     set up, run the tests, some at once (ARGS go to pytest)
  test --quick [ARGS]   of them the unit tests and those of simulated drives, but for slow ones: two minutes
  test --all [ARGS]     first install what some tests need besides (envs/apt-tests.txt), then run all of them
  setup           set up only; afterwards `source .venv/bin/activate` and plain `snakemake --cores 1`
  lab [ARGS]      set up, open JupyterLab at working copies of the notebooks (ARGS, such as --no-browser, go to it)
  lab save [NAME...]   copy the edits of working copies back into the notebooks
  linux           set up, build the kernel of `twin linux`: once, from Debian's source package
  check           set up, run every formatter, linter and type check
  docs            set up, build the documentation as a site: results/site/index.html
TEXT
}

say() { printf '%s\n' "$*" >&2; }

packages() { sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$@"; }

present() { # whether what a package is needed for is there, whoever installed it
    local PATH=$PATH:/usr/sbin:/sbin # where others than root do not look
    case $1 in
    python3-venv) python3 -c 'import ensurepip, venv' ;;
    ca-certificates) [ -e /etc/ssl/certs/ca-certificates.crt ] ;;
    python3-dev) python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ;;
    sg3-utils) command -v sg_modes ;;
    doctest-dev) [ -e /usr/include/doctest/doctest.h ] ;;
    qemu-system-x86) command -v qemu-system-x86_64 ;;
    lvm2) command -v lvcreate ;;
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
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

install_packages() { # of some lists, what is missing, named with the reason that the list gives
    local missing=() package
    for package in $(packages "$@"); do present "$package" || missing+=("$package"); done
    [ ${#missing[@]} -eq 0 ] && return
    if ! command -v apt-get >/dev/null; then
        say "These are missing, and this is no Debian or Ubuntu on which I could install them: ${missing[*]}"
        say "Install them as this system does ($* says what each is for), then run ./reproduce.sh again."
        exit 1
    fi
    local install=(apt-get install --yes --no-install-recommends "${missing[@]}")
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -v; then
            say "These Debian packages are missing and only root may install them: ${missing[*]}"
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

make_environment() { # .venv, exactly as locked; nothing to do when neither lock nor Python have changed
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

build_package() { # the package and its simulated drives; nothing to do when their sources have not changed
    local stamp
    # of the package's own files the names alone: what is in them is read where it lies
    stamp=$({ find src/twin -type f | sort | xargs sha256sum; find src -name '*.py' | sort; cat pyproject.toml src/fio_parser_json/pyproject.toml .venv/.stamp; g++ --version; } | sha256sum)
    [ -f .venv/.package ] && [ "$(cat .venv/.package)" = "$stamp" ] && return
    say "Building the package and its simulated drives"
    # the build calls cmake and ninja by name; they are in .venv
    PATH="$PWD/.venv/bin:$PATH" .venv/bin/uv pip install --quiet --python .venv/bin/python \
        --no-deps --no-build-isolation --editable src/fio_parser_json --editable .
    printf '%s\n' "$stamp" >.venv/.package
}

set_up() { # with what these lists of packages name besides
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
    say "The complete report, ./reproduce.sh, measures none of this again."
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
    --quick)
        shift
        set_up
        set -- -m "not slow" --hypothesis-profile=quick tests/unit tests/twin tests/studies "$@"
        ;;
    *) set_up ;;
    esac
    # tests of one file run one after another, for they share what they have measured; `-n 0` runs all of them so. The
    # files that take longest come first (tests/conftest.py)
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
    options+=(--LabApp.app_settings_dir="$PWD/envs/jupyterlab") # it asks no other host for news or newer versions
    [ "$(id -u)" -ne 0 ] || options+=(--allow-root)
    exec jupyter lab "${options[@]}" "$@"
    ;;
linux)
    set_up envs/apt-linux.txt
    src/kernel/build.sh .linux/linux
    say "The kernel is .linux/linux; .linux/linux.txt says what it was built from. \`twin linux --help\` says what it is for."
    ;;
check)
    set_up
    exec pre-commit run --all-files
    ;;
docs)
    set_up
    NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
    say "The documentation lies in results/site/index.html"
    ;;
-h | --help) usage ;;
*)
    say "reproduce.sh: no command '$1'"
    usage >&2
    exit 2
    ;;
esac
