"""What the tests end with: how many were skipped for want of what, and the line that would enable them."""

import re
from collections import Counter
from collections.abc import Iterable

# Programs by whose absence a test is skipped, and the packages of envs/apt-tests.txt that have them
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
}


def packages_of(reason: str) -> list[str]:
    """Return the packages that a reason to skip a test asks for."""
    if not re.search(r"not installed|is missing|\bneeds\b", reason):
        return []
    asked = reason.partition(" (apt-get install")[0]  # which names more than is missing
    found = (package for program, package in PACKAGES.items() if re.search(rf"(?<![\w-]){program}(?![\w.-])", asked))
    return list(dict.fromkeys(found))


def summary(reasons: Iterable[str]) -> list[str]:
    """Return the lines that sum up why tests were skipped; none where none was."""
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
