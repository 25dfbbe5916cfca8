"""Count the tests of fio that pass on simulated drives, and explain the others: `snakemake fio-suite`.

Run it as ``python tests/benchmarks/fio_suite.py SOURCE [--fio FIO] [--output FILE]``. SOURCE is a source tree of fio,
FIO an executable of the same version (default: SOURCE/fio). The scripts in SOURCE/t test fio on files. Here a script
calls this program as fio, which runs fio on a twin (simulated drive) with kept data in place of the files. Each script
also runs with fio alone, to recognise cases that fail without a twin, too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

TWIN = [str(Path(sys.executable).with_name("twin")), "run"]
MODEL = "px05smb040"
# Arguments of each script; {fio} is the program that it calls as fio, {folder} a folder that it may write
COMMON = ["--fio", "{fio}", "--artifact-root", "{folder}/artifacts"]
SCRIPTS = {
    "verify.py": [*COMMON, "--skip-req", "--csum", "md5"],
    "verify-trim.py": [*COMMON, "--skip-req", "--dut", "{folder}/drive"],
    "verify_state_save.py": COMMON,
    "numberio_overlap.py": [*COMMON, "--skip-req", "--file", "{folder}/file", "--ioengines", "psync,libaio"],
    "sprandom.py": COMMON,
    "strided.py": COMMON,
    "random_seed.py": COMMON,
    "sequence.py": COMMON,
    "steadystate_tests.py": ["{fio}"],
    "log_compression.py": ["--fio", "{fio}"],
    "readonly.py": COMMON,
}
# Scripts of t that do not run, with the reason
NOT_RUN = {
    "client_server.py": "fio's jobs run in another process, which has no drive",
    "io_uring_cmd.py": "io_uring's requests do not pass through the program's calls",
    "io_uring_pi.py": "io_uring's requests do not pass through the program's calls",
    "nvmept_*.py": "NVMe pass-through commands, which twins do not support",
    "sgunmap-*.py": "UNMAP by SG_IO, which twins support only for settings",
    "jsonplus2csv_test.py": "a tool of fio's that makes no I/O",
    "latency_percentiles.py": "takes many minutes with fio alone, and checks fio's percentiles against fio's own logs",
    "run-fio-tests.py": "it runs the scripts above, and job files that need files, io_uring or null devices",
}
CASE = re.compile(
    r"^(?:\**Test (?P<id>[^:]*?):? (?P<outcome>PASSED|FAILED|SKIPPED)|(?P<first>PASSED|FAILED)\b)(?P<why>.*)$"
)


def as_fio(words: Sequence[str]) -> int:
    """Run fio on a twin in place of the files in its folder; return its exit status.

    ioengine=null becomes psync, because requests of the null engine do not reach a drive. All jobs share one processor,
    as they do on a twin. The outcome is appended to the file FIO_SUITE_LOG.
    """
    folder = Path.cwd()
    given: list[str] = []
    drive_named = False
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if name == "directory":
            folder = Path(value)
        elif name == "filename":
            given.append("--filename={drive}")
            drive_named = True
        elif name == "filesize":
            given.append(f"--size={value}")
        elif name == "ioengine" and value == "null":
            given.append("--ioengine=psync")
        elif name == "cpus_allowed":
            given.append(f"--cpus_allowed={min(os.sched_getaffinity(0))}")  # the scripts ask for four processors
        elif name == "fallocate":
            continue  # has no meaning on a drive
        else:
            given.append(word)
    if not drive_named and any(word.startswith("--name=") for word in words):
        given.insert(0, "--filename={drive}")
    folder.mkdir(parents=True, exist_ok=True)
    command = [*TWIN, "--state", str(folder / "twin"), "--keep-data", MODEL, "--", os.environ["FIO_SUITE_FIO"], *given]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    messages = [line for line in done.stderr.splitlines() if line.startswith("twin")]
    entry = {"folder": str(Path.cwd()), "status": done.returncode, "messages": messages[:1], "command": list(words)}
    with open(os.environ["FIO_SUITE_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")
    return done.returncode


def cases_of(script: Path, words: Sequence[str], folder: Path, log: Path) -> Iterator[tuple[str, str]]:
    """Run a script; yield the outcome of each case (``PASSED``, ``FAILED`` or ``SKIPPED``) and the reason.

    If the twin refused fio in a case, ``log`` has the twin's message before the script prints the case.
    """
    read = 0
    with subprocess.Popen(
        [sys.executable, "-u", str(script), *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            case = CASE.match(line)
            if case is None:
                continue
            entries = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
            messages = [message for entry in entries[read:] for message in json.loads(entry)["messages"]]
            read = len(entries)
            yield case["outcome"] or case["first"], reason(messages[0] if messages else case["why"])


def reason(text: str) -> str:
    """Return a message without names of jobs, folders and numbers, which differ from case to case."""
    text = re.sub(r"^twin: error: (?:job '[^']*' \([^)]*\): )?", "twin: ", text.strip(" :,"))
    return re.sub(r"\d+(?:\.\d+)?", "N", re.sub(r"/\S+", "…", text))[:160]


def run(source: Path, fio: Path, work: Path) -> dict[str, dict[str, Any]]:
    """Return for each script the number of cases, of passing cases, and of failing cases by reason."""
    adapter = work / "fio"
    adapter.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} "$@"\n', encoding="utf-8")
    adapter.chmod(0o755)
    log = work / "log"
    found = {}
    for name, words in SCRIPTS.items():
        script = source / "t" / name
        if not script.is_file():
            continue
        outcomes: dict[str, list[tuple[str, str]]] = {}
        for kind, executable in (("alone", fio), ("twin", adapter)):
            folder = work / f"{kind}-{script.stem}"
            folder.mkdir()
            log.unlink(missing_ok=True)
            os.environ |= {"FIO_SUITE_LOG": str(log), "FIO_SUITE_FIO": str(fio)}
            filled = [word.format(fio=executable, folder=folder) for word in words]
            outcomes[kind] = list(cases_of(script, filled, folder, log))
        found[name] = summary(outcomes["twin"], outcomes["alone"])
        print(f"{name:<24} {found[name]['passed']:>4} of {found[name]['cases']} pass", flush=True)
        for why, count in found[name]["not passed"].items():
            print(f"{'':<24} {count:>4} {why}", flush=True)
    return found


def summary(twin: Sequence[tuple[str, str]], alone: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the counts of a script; skipped cases do not count, and cases that fail with fio alone are marked."""
    cases = [
        each
        for each in zip_longest(twin, alone, fillvalue=("MISSING", ""))
        if "SKIPPED" not in {each[0][0], each[1][0]}
    ]
    reasons: Counter[str] = Counter()
    for (outcome, why), (without, _) in cases:
        if outcome != "PASSED":
            reasons["fails with fio alone, too" if without != "PASSED" else why or outcome.lower()] += 1
    return {
        "cases": len(cases),
        "passed": sum(outcome == "PASSED" for (outcome, _), _ in cases),
        "not passed": dict(reasons.most_common()),
    }


def main() -> None:
    """Run all scripts; print the counts, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="", help="source tree of fio")
    parser.add_argument("--fio", type=Path, help="executable of the same version (default: SOURCE/fio)")
    parser.add_argument("--output", type=Path, help="JSON file for the counts")
    parser.add_argument("--only", choices=SCRIPTS, help="run only this script")
    given = parser.parse_args()
    source = Path(given.source).resolve()
    if not given.source or not (source / "t/fiotestlib.py").is_file():
        sys.exit(
            f"{given.source or 'fio_source'}: no source tree of fio with t/fiotestlib.py (3.36 or later). Give one:"
            " snakemake --cores 1 fio-suite --config fio_source=/path/to/fio"
        )
    fio = (given.fio or source / "fio").resolve()
    if not os.access(fio, os.X_OK) or fio.is_dir():
        sys.exit(
            f"{fio}: not an executable. Build fio there (./configure && make), or give an executable of the"
            " same version: --fio FIO"
        )
    if given.only:
        for name in set(SCRIPTS) - {given.only}:
            del SCRIPTS[name]
    with tempfile.TemporaryDirectory(prefix="fio-suite-") as work:
        version = subprocess.run([fio, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        found = run(source, fio, Path(work))
    if given.output:
        content = {"fio": version, "model": MODEL, "scripts": found, "not run": NOT_RUN}
        given.output.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    # a script of fio calls this program as fio
    if "FIO_SUITE_LOG" in os.environ:
        sys.exit(as_fio(sys.argv[1:]))
    main()
