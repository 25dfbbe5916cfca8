"""The summary of skipped tests: how many were skipped, why, and the command that would enable them."""

import re
from collections import Counter
from collections.abc import Iterable

# Packages of envs/apt-tests.txt, by the programs without which a test is skipped
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mdadm": "mdadm",
    "pvcreate": "lvm2",
    "vgcreate": "lvm2",
    "lvcreate": "lvm2",
    "lvm": "lvm2",
    "dmsetup": "dmsetup",
    "mkfs.ext4": "e2fsprogs",
    "hdparm": "hdparm",
    "nvme": "nvme-cli",
    "smartctl": "smartmontools",
    "blkparse": "blktrace",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
    "munged": "munge",
    "chromium": "chromium",
    "strace": "strace",
    "linux.uml": "user-mode-linux",
    "clang": "clang",
    "libclang_rt": "libclang-rt-dev",
    "initdb": "postgresql",
    "pg_ctl": "postgresql",
    "pgbench": "postgresql",
    "sqlite3": "sqlite3",
    "db_bench": "rocksdb-tools",
    "mdb_load": "lmdb-utils",
    "mdb_stat": "lmdb-utils",
    "mariadbd": "mariadb-server-core",
    "mariadb": "mariadb-client-core",
    "rsync": "rsync",
    "sysbench": "sysbench",
}


def packages_of(reason: str) -> list[str]:
    """Return the packages whose absence is the reason to skip a test."""
    if not re.search(r"not installed|is missing|\bneeds\b", reason):
        return []
    missing = reason.partition(" (apt-get install")[0]  # the command may name more packages
    found = (package for program, package in PACKAGES.items() if re.search(rf"(?<![\w-]){program}(?![\w.-])", missing))
    return list(dict.fromkeys(found))


def summary(reasons: Iterable[str]) -> list[str]:
    """Return the lines of the summary; none if no test was skipped."""
    by_package: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for reason in reasons:
        packages = packages_of(reason)
        if packages:
            by_package[" ".join(packages)] += 1
        else:
            others[reason] += 1
    lines = []
    for names, count in by_package.most_common():
        need = "a guest kernel" if names == "qemu-system-x86" else names.replace(" ", ", ")
        lines.append(f"{_tests(count)} {need}: apt-get install {names}")
    if by_package:
        lines.append("All of these are installed and then run by: ./reproduce.sh test --all")
    return lines + [f"{count} × {reason}" for reason, count in others.most_common()]


def _tests(count: int) -> str:
    return "1 test needs" if count == 1 else f"{count} tests need"
