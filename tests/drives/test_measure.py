"""Measuring a cell with real fio: what is kept, what is refused, and what an interruption leaves."""

import json
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
from patience import communicate, stretched, wait_for
from support import processes_matching

from iopatterns.base import files
from iopatterns.measuring import fio
from iopatterns.measuring.cell import MeasureError, measure_cell
from iopatterns.measuring.drives import DriveError
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import MetadataError, is_measured, metadata_path, read_metadata
from iopatterns.raw.records import MetadataFile
from iopatterns.twin import models

Spec = Any  # a `records.Specification`, or one that a test has spoilt


def raw_paths(folder: Path, specification: Spec, count: int) -> list[Path]:
    cell = folder / f"raw/test/study/randread-4k-j1-{cells.specification_digest(specification)[:8]}"
    return [cell / f"{number:02d}.json" for number in range(1, count + 1)]


def test_each_execution_gives_a_raw_file_and_a_sidecar(specification: Spec, disk_folder: Path) -> None:
    raws = raw_paths(disk_folder, specification, 2)
    assert measure_cell(Path.cwd(), specification, raws) == 2
    for number, raw in enumerate(raws, start=1):
        sidecar = read_metadata(raw)
        assert sidecar.keys() == get_type_hints(MetadataFile).keys() - {"counters"}  # which twins alone have
        assert sidecar["execution"] == number
        assert sidecar["specification"] == specification
        assert sidecar["fio_version"] == fio.version()
        assert sidecar["drive"]["path"] == specification["drive"]["path"]
        assert sidecar["machine"]["kernel"].startswith("Linux")
        assert (sidecar["before"]["memory_available_bytes"] or 0) > 0
        assert 0.1 <= sidecar["wall_s"] < 60
        assert sidecar["started"] < sidecar["ended"]
    assert {path.name for path in raws[0].parent.iterdir()} == {
        *(raw.name for raw in raws),
        *(metadata_path(raw).name for raw in raws),
    }


def test_executions_differ_in_their_seed_and_in_nothing_else(specification: Spec, disk_folder: Path) -> None:
    raws = raw_paths(disk_folder, specification, 2)
    measure_cell(Path.cwd(), specification, raws)
    commands = [shlex.join(read_metadata(raw)["command"]) for raw in raws]
    seeds = [re.search(r"--randseed=(\d+)", command) for command in commands]
    assert seeds[0]
    assert seeds[1]
    assert seeds[0][1] != seeds[1][1]
    plain = [re.sub(r"--randseed=\d+|\.0\d\.json", "", command) for command in commands]
    assert plain[0] == plain[1]


def test_every_run_is_one_killable_process_that_creates_nothing(specification: Spec) -> None:
    argv = fio.fio_command_line(specification, "drive.bin", 7, 100, "out.json")
    for option in ("--thread=1", "--randrepeat=0", "--randseed=7", "--allow_file_create=0", "--output-format=json+"):
        assert option in argv
    assert "--readonly" in argv
    writing = specification | {"fio": {**specification["fio"], "rw": "randrw"}}
    assert "--readonly" not in fio.fio_command_line(writing, "drive.bin", 7, 100, "out.json")


def test_colon_in_a_path_is_not_a_second_drive(specification: Spec, disk_folder: Path) -> None:
    specification["drive"]["path"] = str(disk_folder / "a:b.bin")
    assert measure_cell(Path.cwd(), specification, raw_paths(disk_folder, specification, 1)) == 1
    assert (disk_folder / "a:b.bin").exists()


def test_what_is_there_is_kept(specification: Spec, disk_folder: Path) -> None:
    raws = raw_paths(disk_folder, specification, 3)
    measure_cell(Path.cwd(), specification, raws[:2])
    before = [raw.read_bytes() for raw in raws[:2]]
    assert measure_cell(Path.cwd(), specification, raws) == 1
    assert [raw.read_bytes() for raw in raws[:2]] == before


def test_changed_raw_file_is_found(specification: Spec, disk_folder: Path) -> None:
    raws = raw_paths(disk_folder, specification, 1)
    measure_cell(Path.cwd(), specification, raws)
    raws[0].write_bytes(raws[0].read_bytes().replace(b'"error" : 0', b'"error" : 1'))
    with pytest.raises(MetadataError, match=r"01\.json: changed since it was measured"):
        measure_cell(Path.cwd(), specification, raws)


def test_folder_of_another_specification_is_refused(specification: Spec, disk_folder: Path) -> None:
    raws = raw_paths(disk_folder, specification, 1)
    with pytest.raises(MeasureError, match="not that of the specification"):
        measure_cell(Path.cwd(), specification | {"runtime_ms": 200}, raws)


def test_failing_fio_gives_its_own_words_and_leaves_no_raw_file(specification: Spec, disk_folder: Path) -> None:
    specification["fio"]["random_distribution"] = "nonsense"
    raws = raw_paths(disk_folder, specification, 1)
    with pytest.raises(fio.FioError) as caught:
        measure_cell(Path.cwd(), specification, raws)
    assert "nonsense" in str(caught.value)
    assert "--random_distribution=nonsense" in str(caught.value)
    assert list(raws[0].parent.iterdir()) == []


def test_run_without_io_is_no_measurement(specification: Spec, disk_folder: Path) -> None:
    # no file is there and fio may make none; its result says error 0 all the same
    writing = specification | {"fio": {**specification["fio"], "rw": "randwrite"}}
    output = disk_folder / "out.json"
    with pytest.raises(fio.FioError, match="file creation disallowed"):
        fio.run_fio(fio.fio_command_line(writing, specification["drive"]["path"], 1, 100, str(output)), expected_s=1)
    with pytest.raises(fio.FioError, match="did no write I/O"):
        fio.check_result(output, writing)


def measured(specification: Spec, disk_folder: Path) -> Path:
    raws = raw_paths(disk_folder, specification, 1)
    measure_cell(Path.cwd(), specification, raws)
    return raws[0]


def test_run_cut_short_is_no_measurement(specification: Spec, disk_folder: Path) -> None:
    raw = measured(specification, disk_folder)
    with pytest.raises(fio.FioError, match="ms were asked for"):
        fio.check_result(raw, specification | {"runtime_ms": 60_000})


def test_a_run_that_was_too_short_is_tried_again_where_time_is_the_machine_s(
    specification: Spec, disk_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = fio.fio_command_line, []

    def once_too_short(*arguments: Any, **others: Any) -> list[str]:
        argv = real(*arguments, **others)
        tried.append(argv)
        return [re.sub(r"^--runtime=.*", "--runtime=20ms", word) for word in argv] if len(tried) == 1 else argv

    monkeypatch.setattr(fio, "fio_command_line", once_too_short)
    raws = raw_paths(disk_folder, specification, 1)
    measure_cell(Path.cwd(), specification, raws)
    (held_up,) = read_metadata(raws[0])["held_up"]
    assert "ms were asked for" in held_up
    assert len(tried) == 2


def test_wrong_number_of_jobs_is_no_measurement(specification: Spec, disk_folder: Path) -> None:
    raw = measured(specification, disk_folder)
    four = {**specification["fio"], "numjobs": 4, "group_reporting": 0}
    with pytest.raises(fio.FioError, match="reported 1 jobs where 4 were expected"):
        fio.check_result(raw, specification | {"fio": four})


def test_cut_file_is_no_measurement(specification: Spec, disk_folder: Path) -> None:
    raw = measured(specification, disk_folder)
    raw.write_bytes(raw.read_bytes()[:-100])
    with pytest.raises(fio.FioError, match="no valid result"):
        fio.check_result(raw, specification)


def test_error_in_the_middle_of_a_run_is_no_measurement(specification: Spec, disk_folder: Path) -> None:
    measured(specification, disk_folder)
    writing = specification | {"fio": {**specification["fio"], "rw": "randwrite"}}
    output = disk_folder / "out.json"
    # long enough for a write beyond the first MiB on any machine; the error ends it
    argv = fio.fio_command_line(writing, specification["drive"]["path"], 1, 10_000, str(output))
    # the kernel lets no process so limited write beyond the first MiB of any file
    limited = ["env", "--ignore-signal=XFSZ", "prlimit", f"--fsize={2**20}", *argv]
    with pytest.raises(fio.FioError, match="File too large"):
        fio.run_fio(limited, expected_s=1)
    with pytest.raises(fio.FioError, match=r"error 27 \(File too large\)"):
        fio.check_result(output, writing)


def start(specification: Spec, raws: list[Path], *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iopatterns", "measure", "--specification", json.dumps(specification), *options]
    return subprocess.Popen([*command, *map(str, raws)], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signal_stops_fio_at_once_and_keeps_what_is_done(
    number: signal.Signals, specification: Spec, disk_folder: Path
) -> None:
    specification["runtime_ms"] = 1000
    raws = raw_paths(disk_folder, specification, 20)
    running = start(specification, raws)
    wait_for(lambda: raws[0].exists() and processes_matching(f"{files.partial_path(raws[1])}"))
    started = time.monotonic()
    running.send_signal(number)
    _, said = communicate(running, 20)
    took_s = time.monotonic() - started
    assert took_s < 1.0 or took_s < stretched(1.0)  # not what was left of the execution, and of nineteen others
    assert running.returncode == 128 + number
    assert f"stopped by {number.name}" in said
    assert not processes_matching(specification["drive"]["path"])
    assert not raws[1].exists()
    assert not list(raws[0].parent.glob(".*"))
    fio.check_result(raws[0], specification)


def test_killed_measurement_takes_fio_with_it_and_the_next_one_goes_on(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 400
    raws = raw_paths(disk_folder, specification, 3)
    running = start(specification, raws)
    wait_for(lambda: raws[0].exists() and processes_matching(f"{files.partial_path(raws[1])}"))
    running.kill()
    communicate(running, 20)
    wait_for(lambda: not processes_matching(specification["drive"]["path"]), 5)
    first = raws[0].read_bytes()
    assert measure_cell(Path.cwd(), specification, raws) == 2
    assert raws[0].read_bytes() == first
    assert not list(raws[0].parent.glob(".*"))


def test_measurement_ends_with_the_process_that_asked_for_it(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 60_000
    raws = raw_paths(disk_folder, specification, 1)
    command = [sys.executable, "-m", "iopatterns", "measure", "--die-with-parent", "--specification"]
    command += [json.dumps(specification), *map(str, raws)]
    parent = subprocess.Popen([sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command])
    wait_for(lambda: processes_matching(f"{files.partial_path(raws[0])}"))
    parent.kill()
    parent.wait()
    wait_for(lambda: not processes_matching(specification["drive"]["path"]), 5)


def test_two_measurements_of_one_drive_take_turns(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 300
    raws = raw_paths(disk_folder, specification, 2)
    first = start(specification, raws)
    wait_for(lambda: processes_matching(f"{files.partial_path(raws[0])}"))
    second = start(specification, raws)
    _, said = communicate(second, 60)
    communicate(first, 60)
    assert f"is being measured by process {first.pid}; waiting" in said
    assert (first.returncode, second.returncode) == (0, 0)
    measured_once = {read_metadata(raw)["raw"]["sha256"] for raw in raws}
    assert len(measured_once) == 2


def test_two_jobs_that_have_one_cell_of_a_twin_measure_it_once(disk_folder: Path) -> None:
    twin = models.load_model("px05smb040")
    drive = {"kind": "twin", "name": "test", "model": "px05smb040", "model_digest": twin.digest}
    options = {"rw": "randread", "bs": 4096, "ioengine": "psync", "direct": 1, "group_reporting": 1}
    common = {"protocol": 2, "runtime_ms": 100, "warmup_ms": 0, "seed": 1}
    specification = {**common, "drive": {**drive, "file_size_bytes": 8 * 2**20}, "fio": options}
    raws = raw_paths(disk_folder, specification, 40)
    began = [start(specification, raws) for _ in range(2)]  # as where a cluster has lost sight of a host
    told = [communicate(each, 60)[1] for each in began]
    assert [each.returncode for each in began] == [0, 0], told
    assert "this cell is being measured by process " in "".join(told)
    for raw in raws:
        assert read_metadata(raw)["raw"]["sha256"] == files.sha256(raw)
    assert sorted(text.count("40 executions in") for text in told) == [0, 1]
    assert not list((Path.cwd() / "data/raw/.twins").glob(f"{cells.specification_digest(specification)[:16]}*"))


def test_a_drive_of_another_host_is_not_measured(specification: Spec, disk_folder: Path) -> None:
    (raw,) = raw_paths(disk_folder, specification, 1)
    refused = start(specification, [raw], "--host", "node7")
    _, said = communicate(refused, 20)
    assert refused.returncode == 1
    here = os.uname().nodename
    assert said == f"iopatterns: error: the drive is on host node7, and this is {here}. Measure it there.\n"
    assert not raw.exists()
    assert not Path(specification["drive"]["path"]).exists()
    taken = start(specification, [raw], "--host", os.uname().nodename)
    communicate(taken, 60)
    assert (taken.returncode, raw.exists()) == (0, True)


def test_wrong_usage_ends_with_2() -> None:
    ran = subprocess.run([sys.executable, "-m", "iopatterns", "measure"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "Missing argument 'RAW_FILES...'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_measuring_command_imports_no_pandas() -> None:
    code = (
        "import sys, iopatterns.cli, iopatterns.measuring.cell; print('pandas' in sys.modules, 'yaml' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert ran.stdout.split() == ["False", "False"]


def test_a_twin_is_measured_without_what_real_drives_alone_need() -> None:
    code = "import sys, iopatterns.measuring.cell, iopatterns.measuring.drives.twin; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    of_real_drives = {f"iopatterns.measuring.{name}" for name in ("health", "tuning.disk_settings", "tuning.journal")}
    assert not of_real_drives & set(ran.stdout.split())


@pytest.mark.parametrize("kind", ["tape", "archive"])
def test_a_drive_of_a_kind_that_nothing_measures_is_refused(specification: Spec, disk_folder: Path, kind: str) -> None:
    specification["drive"]["kind"] = kind
    said = rf"drive 'test': none of the kind '{kind}' can be measured\. Valid are twin, file, block\."
    with pytest.raises(DriveError, match=said):
        measure_cell(Path.cwd(), specification, raw_paths(disk_folder, specification, 1))
    assert not list(disk_folder.iterdir())


def test_a_drive_that_cannot_replay_a_trace_says_so_before_anything_is_written(
    specification: Spec, disk_folder: Path
) -> None:
    specification["replay"] = {"trace": "data/traces/a.parquet", "phase": "all"}
    said = r"one of the kind 'file' cannot replay the trace data/traces/a\.parquet\. Name a simulated drive\."
    with pytest.raises(MeasureError, match=said):
        measure_cell(Path.cwd(), specification, raw_paths(disk_folder, specification, 1))
    assert not list(disk_folder.iterdir())


def test_a_file_drive_has_no_settings(specification: Spec, disk_folder: Path) -> None:
    tuned = specification | {"settings": {"scheduler": "none", "DRA": 1}}
    raws = raw_paths(disk_folder, tuned, 2)
    assert measure_cell(Path.cwd(), tuned, raws) == 0
    for raw in raws:
        sidecar = read_metadata(raw)
        assert not is_measured(sidecar)
        assert {step["setting"]: step["outcome"] for step in sidecar["tuning"]} == {
            "scheduler": "not applicable",
            "DRA": "not applicable",
        }
