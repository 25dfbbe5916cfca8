"""Measuring a cell with real fio on a file."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from measurements import Spec, measured, raw_files, start, twin_cell, writing
from patience import communicate, stretched, wait_for
from support import processes_matching

from iopatterns.base import files
from iopatterns.measuring import fio
from iopatterns.measuring.cell import MeasureError, measure_cell
from iopatterns.measuring.drives import DriveError
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import is_measured, metadata_path, read_metadata
from iopatterns.raw.records import MetadataFile


def test_each_repetition_gives_a_raw_file_and_a_metadata_file(specification: Spec, disk_folder: Path) -> None:
    raws = measured(disk_folder, specification, 2)
    for number, raw in enumerate(raws, start=1):
        metadata = read_metadata(raw)
        assert metadata.keys() == get_type_hints(MetadataFile).keys() - {
            "counters",
            "simulator",
        }  # of simulated drives only
        assert metadata["execution"] == number
        assert metadata["specification"] == specification
        assert metadata["fio_version"] == fio.version()
        assert metadata["drive"]["path"] == specification["drive"]["path"]
        assert metadata["machine"]["kernel"].startswith("Linux")
        assert (metadata["before"]["memory_available_bytes"] or 0) > 0
        assert 0.1 <= metadata["wall_s"] < 60
        assert metadata["started"] < metadata["ended"]
        assert metadata["held_up"] == []
    assert set(raws[0].parent.iterdir()) == {*raws, *map(metadata_path, raws)}


def test_commands_of_repetitions_differ_only_in_seed_and_output(specification: Spec, disk_folder: Path) -> None:
    raws = measured(disk_folder, specification, 2)
    commands = [shlex.join(read_metadata(raw)["command"]) for raw in raws]
    seeds = [re.findall(r"--randseed=(\d+)", command) for command in commands]
    assert seeds[0] != seeds[1]
    same = [re.sub(r"--randseed=\d+|--output=\S+", "", command) for command in commands]
    assert same[0] == same[1]


def test_command_has_the_options_that_every_measurement_needs(specification: Spec) -> None:
    argv = fio.fio_command_line(specification, "drive.bin", 7, 100, "out.json")
    options = {"--thread=1", "--randrepeat=0", "--randseed=7", "--allow_file_create=0", "--output-format=json+"}
    assert options < set(argv)
    assert "--readonly" in argv
    assert "--readonly" not in fio.fio_command_line(writing(specification), "drive.bin", 7, 100, "out.json")


def test_colon_in_a_path_is_not_a_second_drive(specification: Spec, disk_folder: Path) -> None:
    specification["drive"]["path"] = str(disk_folder / "a:b.bin")
    assert measured(disk_folder, specification)[0].exists()
    assert (disk_folder / "a:b.bin").exists()


def test_existing_raw_files_are_kept(specification: Spec, disk_folder: Path) -> None:
    before = [raw.read_bytes() for raw in measured(disk_folder, specification, 2)]
    raws = raw_files(disk_folder, specification, 3)
    assert measure_cell(disk_folder, specification, raws) == 1
    assert [raw.read_bytes() for raw in raws[:2]] == before


def test_the_folder_of_another_specification_is_refused(specification: Spec, disk_folder: Path) -> None:
    raws = raw_files(disk_folder, specification)
    with pytest.raises(MeasureError, match="does not match the given specification"):
        measure_cell(disk_folder, specification | {"runtime_ms": 200}, raws)


def test_an_error_of_fio_contains_its_output_and_leaves_nothing(specification: Spec, disk_folder: Path) -> None:
    specification["fio"]["random_distribution"] = "nonsense"
    with pytest.raises(fio.FioError, match=r"(?s)nonsense.*--random_distribution=nonsense"):
        measured(disk_folder, specification)
    assert list(raw_files(disk_folder, specification)[0].parent.iterdir()) == []


# ---- Results that are not valid


def test_a_result_without_io_is_refused(specification: Spec, disk_folder: Path) -> None:
    # the file does not exist, and fio may not create it; its result has error 0 nevertheless
    output = disk_folder / "out.json"
    argv = fio.fio_command_line(writing(specification), specification["drive"]["path"], 1, 100, str(output))
    with pytest.raises(fio.FioError, match="file creation disallowed"):
        fio.run_fio(argv, expected_s=1)
    with pytest.raises(fio.FioError, match="did no write I/O"):
        fio.check_result(output, writing(specification))


def test_an_incomplete_result_is_refused(specification: Spec, disk_folder: Path) -> None:
    (raw,) = measured(disk_folder, specification)
    with pytest.raises(fio.FioError, match="ms were asked for"):
        fio.check_result(raw, specification | {"runtime_ms": 60_000})
    four = {**specification["fio"], "numjobs": 4, "group_reporting": 0}
    with pytest.raises(fio.FioError, match="reported 1 jobs where 4 were expected"):
        fio.check_result(raw, specification | {"fio": four})
    raw.write_bytes(raw.read_bytes()[:-100])
    with pytest.raises(fio.FioError, match="no valid result"):
        fio.check_result(raw, specification)


def test_without_a_runtime_the_file_is_transferred_once_and_an_incomplete_transfer_is_refused(
    specification: Spec, disk_folder: Path
) -> None:
    once = specification | {"runtime_ms": 0}
    (raw,) = measured(disk_folder, once)
    size_bytes = once["drive"]["file_size_bytes"]
    assert fio.check_result(raw, once) == fio.one_pass_bytes(once) == size_bytes
    larger = once | {"drive": {**once["drive"], "file_size_bytes": 2 * size_bytes}}
    with pytest.raises(fio.FioError, match=f"transferred {size_bytes} bytes where one pass has {2 * size_bytes}"):
        fio.check_result(raw, larger)


def test_a_repetition_on_a_real_drive_that_ended_early_is_repeated(
    specification: Spec, disk_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, attempts = fio.fio_command_line, []

    def short_at_first(*arguments: Any, **others: Any) -> list[str]:
        argv = real(*arguments, **others)
        attempts.append(argv)
        return [re.sub(r"^--runtime=.*", "--runtime=20ms", word) for word in argv] if len(attempts) == 1 else argv

    monkeypatch.setattr(fio, "fio_command_line", short_at_first)
    (raw,) = measured(disk_folder, specification)
    (held_up,) = read_metadata(raw)["held_up"]
    assert "ms were asked for" in held_up
    assert len(attempts) == 2


def test_an_io_error_during_a_repetition_is_an_error(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, specification)
    output = disk_folder / "out.json"
    # long enough for a write beyond the first MiB on any machine; the error ends it
    argv = fio.fio_command_line(writing(specification), specification["drive"]["path"], 1, 10_000, str(output))
    # with this limit, the kernel permits no write beyond the first MiB of a file
    limited = ["env", "--ignore-signal=XFSZ", "prlimit", f"--fsize={2**20}", *argv]
    with pytest.raises(fio.FioError, match="File too large"):
        fio.run_fio(limited, expected_s=1)
    with pytest.raises(fio.FioError, match=r"error 27 \(File too large\)"):
        fio.check_result(output, writing(specification))


# ---- Interruptions


def started(specification: Spec, disk_folder: Path, count: int) -> tuple["subprocess.Popen[str]", list[Path]]:
    """Start measuring, and wait until the second repetition runs."""
    raws = raw_files(disk_folder, specification, count)
    process = start(Path.cwd(), specification, raws)
    wait_for(lambda: raws[0].exists() and processes_matching(f"{files.partial_path(raws[1])}"))
    return process, raws


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_stop_signal_ends_fio_and_keeps_finished_repetitions(
    number: signal.Signals, specification: Spec, disk_folder: Path
) -> None:
    specification["runtime_ms"] = 1000
    running, raws = started(specification, disk_folder, 20)
    clock = time.monotonic()
    running.send_signal(number)
    _, printed = communicate(running, 20)
    took_s = time.monotonic() - clock
    assert took_s < 1.0 or took_s < stretched(1.0)  # less than the rest of the repetition
    assert running.returncode == 128 + number
    assert f"stopped by {number.name}" in printed
    assert not processes_matching(specification["drive"]["path"])
    assert not raws[1].exists()
    assert not list(raws[0].parent.glob(".*"))
    fio.check_result(raws[0], specification)


def test_fio_dies_with_a_killed_measurement_and_the_next_run_continues(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 400
    running, raws = started(specification, disk_folder, 3)
    running.kill()
    communicate(running, 20)
    wait_for(lambda: not processes_matching(specification["drive"]["path"]), 5)
    first = raws[0].read_bytes()
    assert measure_cell(Path.cwd(), specification, raws) == 2
    assert raws[0].read_bytes() == first
    assert not list(raws[0].parent.glob(".*"))


def test_a_measurement_dies_with_its_parent(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 60_000
    (raw,) = raw_files(disk_folder, specification)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'iopatterns', *sys.argv[1:]])"
    words = ["measure", "--die-with-parent", f"--specification={cells.canonical_json(specification)}", str(raw)]
    parent = subprocess.Popen([sys.executable, "-c", code, *words])
    wait_for(lambda: processes_matching(f"{files.partial_path(raw)}"))
    parent.kill()
    parent.wait()
    wait_for(lambda: not processes_matching(specification["drive"]["path"]), 5)


def test_two_jobs_with_the_same_cell_of_a_twin_measure_it_once(disk_folder: Path) -> None:
    # as on a cluster that has lost contact to a host and starts its job elsewhere
    specification = {**twin_cell(), "runtime_ms": 100}
    raws = raw_files(disk_folder, specification, 40)
    jobs = [start(Path.cwd(), specification, raws) for _ in range(2)]
    printed = [communicate(job, 60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], printed
    assert "this cell is being measured by process " in "".join(printed)
    for raw in raws:
        assert read_metadata(raw)["raw"]["sha256"] == files.sha256(raw)
    assert sorted(text.count("40 repetitions in") for text in printed) == [0, 1]
    digest = cells.specification_digest(specification)[:16]
    assert not list((Path.cwd() / "data/raw/.twins").glob(f"{digest}*"))


# ---- The command


def test_a_drive_of_another_host_is_not_measured(specification: Spec, disk_folder: Path) -> None:
    (raw,) = raw_files(disk_folder, specification)
    refused = start(Path.cwd(), specification, [raw], "--host", "node7")
    _, printed = communicate(refused, 20)
    assert refused.returncode == 1
    here = os.uname().nodename
    reason = f"the drive belongs to host node7, and this host is {here}. Measure the drive on node7."
    assert printed == f"iopatterns: error: {reason}\n"
    assert not raw.exists()
    assert not Path(specification["drive"]["path"]).exists()
    accepted = start(Path.cwd(), specification, [raw], "--host", here)
    communicate(accepted, 60)
    assert (accepted.returncode, raw.exists()) == (0, True)


def test_wrong_usage_has_exit_status_2() -> None:
    ran = subprocess.run([sys.executable, "-m", "iopatterns", "measure"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "Missing argument 'RAW_FILES...'" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("imported", "not_imported"),
    [
        ("iopatterns.cli", {"pandas", "yaml"}),
        (
            "iopatterns.measuring.drives.twin",
            {f"iopatterns.measuring.{name}" for name in ("health", "tuning.disk_settings", "tuning.journal")},
        ),
    ],
)
def test_measuring_imports_only_what_it_needs(imported: str, not_imported: set[str]) -> None:
    code = f"import sys, iopatterns.measuring.cell, {imported}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not not_imported & set(ran.stdout.split())


@pytest.mark.parametrize("kind", ["tape", "archive"])
def test_a_kind_of_drive_that_cannot_be_measured_is_refused(specification: Spec, disk_folder: Path, kind: str) -> None:
    specification["drive"]["kind"] = kind
    message = rf"drive 'test': drives of kind '{kind}' cannot be measured\. Valid kinds are twin, file, block\."
    with pytest.raises(DriveError, match=message):
        measured(disk_folder, specification)
    assert not list(disk_folder.iterdir())


def test_a_real_drive_cannot_replay_a_block_trace(specification: Spec, disk_folder: Path) -> None:
    specification["replay"] = {"trace": "data/traces/a.parquet", "phase": "all"}
    message = r"a drive of kind 'file' cannot replay the trace data/traces/a\.parquet\. Name a simulated drive\."
    with pytest.raises(MeasureError, match=message):
        measured(disk_folder, specification)
    assert not list(disk_folder.iterdir())


def test_a_file_drive_has_no_settings(specification: Spec, disk_folder: Path) -> None:
    tuned = specification | {"settings": {"scheduler": "none", "DRA": 1}}
    for raw in measured(disk_folder, tuned, 2):
        metadata = read_metadata(raw)
        assert not is_measured(metadata)
        outcomes = {step["setting"]: step["outcome"] for step in metadata["tuning"]}
        assert outcomes == {"scheduler": "not applicable", "DRA": "not applicable"}
