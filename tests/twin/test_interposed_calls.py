"""The calls that the preload library intercepts: all are documented, and pass through without a drive."""

import ctypes.util
import os
import re
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from support import ROOT, script

from iopatterns.twin import state

FOLDER = ROOT / "src/twin/preload"


@pytest.fixture(scope="module")
def listing() -> ModuleType:
    return script(FOLDER / "list_calls.py")


def defined_in(file: Path) -> set[str]:
    """Return the calls that a source file exports."""
    return set(re.findall(r"^TWIN_EXPORT .*?(\w+)\(", file.read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_the_documented_calls_are_those_that_the_library_exports(listing: ModuleType) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", state.preload_library()], capture_output=True, text=True, check=True
    )
    exported = [name for _, kind, name in (line.split() for line in done.stdout.splitlines()) if kind == "T"]
    listed = [call for group in listing.read().groups for entry in group.entries for call in entry.calls]
    assert Counter(listed) == Counter(exported)


# Types of a time or a clock, and names of parameters that are a time, in the headers of glibc
ABOUT_TIME = re.compile(
    r"\b(timespec|timeval|sysinfo|timeb|timex|tms?|ntptimeval|itimerval|itimerspec|rusage|utimbuf"
    r"|(__)?(time_t|clock_t|clockid_t|timer_t|useconds_t))\b|\b__(timeout|seconds|useconds)\b"
)


def declarations() -> dict[str, str]:
    """Return the functions that all headers of the C library declare: their types and parameters, by name."""
    files = subprocess.run(["dpkg", "-L", "libc6-dev"], capture_output=True, text=True, check=True).stdout
    folders = r"/usr/include/(?:[\w-]+-linux-gnu/)?"
    headers = sorted(re.findall(rf"^{folders}((?:arpa/|net/|sys/)?[\w.]+\.h)$", files, re.MULTILINE))
    command = ["gcc", "-E", "-P", "-D_GNU_SOURCE", "-x", "c", "-"]
    includes = "".join(f"#include <{header}>\n" for header in headers)
    # some headers only have #error, after which the preprocessor continues
    source = subprocess.run(command, input=includes, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"extern ([^;{}()]*?)\b(\w+) ?\(((?:[^;{}()]|\([^()]*\))*)\)", re.sub(r"\s+", " ", source))
    return {name: f"{result} ({parameters})" for result, name, parameters in found}


def test_each_function_about_time_is_listed(listing: ModuleType) -> None:
    about_time = {name for name, types in declarations().items() if ABOUT_TIME.search(types)}
    assert {"clock", "alarm", "poll", "mktime", "timer_getoverrun"} <= about_time
    # programs also call second names, and variants with checks, which no header declares
    c_library = ctypes.util.find_library("c")
    printed = subprocess.run(
        ["nm", "-D", "--defined-only", f"/lib/{sysconfig.get_config_var('MULTIARCH')}/{c_library}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    public = set(re.findall(r" (\w+)@@?GLIBC_(?!PRIVATE)", printed))
    variants = {f"{start}{name}{end}" for name in about_time for start in ("", "__") for end in ("", "64", "_chk")}
    table = listing.read()
    listed = {call for group in table.groups for entry in group.entries for call in entry.calls}
    unreplaced = {call for row in table.unreplaced for call in row.calls}
    assert sorted((variants & public) - listed - unreplaced) == []
    assert listed & unreplaced == set()
    assert sorted(unreplaced - public) == []


def test_each_call_is_defined_in_a_file_of_its_group(listing: ModuleType) -> None:
    by_file = {file.name: defined_in(file) for file in FOLDER.glob("*.cc")}
    for group in listing.read().groups:
        calls = {call for entry in group.entries for call in entry.calls}
        assert calls - set().union(*(by_file[file] for file in group.files)) == set(), group.heading
        assert [file for file in group.files if not by_file[file] & calls] == [], group.heading


def test_each_call_has_an_effect_and_a_reason(listing: ModuleType) -> None:
    entries = [entry for group in listing.read().groups for entry in group.entries]
    assert [entry.calls for entry in entries if not (entry.calls and entry.happens.strip() and entry.why.strip())] == []


def test_the_page_of_interposed_calls_is_up_to_date(listing: ModuleType) -> None:
    written = listing.PAGE.read_text(encoding="utf-8")
    assert written == listing.page(listing.read()), "update it: python src/twin/preload/list_calls.py"


def test_libaio_works_without_a_drive(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    command = ["fio", "--name=job", f"--filename={file}", "--size=1m", "--rw=read", "--ioengine=libaio", "--iodepth=4"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIN_")}
    environment["LD_PRELOAD"] = str(state.preload_library())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
