"""A reader's own traces in config.yaml: planned cells, and errors that are reported before a run."""

from pathlib import Path
from typing import Any

import park2009
import pytest
import yaml
from support import FIXTURE_GRID, ROOT, Project

from iopatterns import calls
from iopatterns.analysis import applications
from iopatterns.base import yaml_schema
from iopatterns.calls import stand_ins
from iopatterns.configuration import config, grid, iologs
from iopatterns.measuring import cell as measuring
from iopatterns.measuring import fio
from iopatterns.workflow import batches, capture, study_rules
from iopatterns.workflow.capture import CaptureError
from iopatterns.workflow.planned_cells import load_cells

RECORDED = ROOT / "data/traces/park2009/calls"
# A text as `strace -f -y -ttt -T` writes it: process 7 reads 12000 bytes, process 8 writes 30000 and syncs
STRACE = (
    '7 1.000000 openat(AT_FDCWD, "/run/in", O_RDONLY) = 3</run/in> <0.000010>\n'
    '7 1.000100 read(3</run/in>, ""..., 8192) = 8192 <0.000010>\n'
    '7 1.000200 read(3</run/in>, ""..., 8192) = 3808 <0.000010>\n'
    '8 1.000300 openat(AT_FDCWD, "/run/out", O_WRONLY|O_CREAT, 0644) = 4</run/out> <0.000010>\n'
    '8 1.000400 write(4</run/out>, ""..., 30000) = 30000 <0.000010>\n'
    "8 1.000500 fsync(4</run/out>) = 0 <0.000010>\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "my.strace"
    path.write_text(STRACE)
    return path


def cells_of(traces: dict[str, Any], **overrides: Any) -> list[grid.Cell]:
    asked = {"drives": ["caviar-se"], "studies": ["park2009"], "traces": traces, **overrides}
    return [cell for cell in grid.expand_grid(config.load_config(ROOT, asked), "park2009") if "own" in cell.experiments]


def refused(traces: object, **overrides: Any) -> str:
    with pytest.raises(yaml_schema.ConfigError) as caught:
        cells_of(traces, **overrides)  # type: ignore[arg-type]
    return str(caught.value)


# ---- Planned cells


def test_without_traces_the_study_has_no_experiment_for_them() -> None:
    conf = config.load_config(ROOT, {"studies": ["park2009"]})
    assert "own" not in conf.studies["park2009"]["experiments"]
    conf = config.load_config(ROOT, {"studies": ["park2009"]})
    outputs = [*study_rules.table_files(conf, "park2009"), *study_rules.figure_files(conf, "park2009")]
    assert not [path for path in outputs if "own" in path]
    assert study_rules.shown_trace_files(conf, "park2009") == []
    assert set(study_rules.notebook_parameters(conf, "park2009")) == {"confidence", "interval"}


def test_the_process_with_most_data_is_replayed_by_default(trace: Path) -> None:
    (cell,) = cells_of({"mine": {"path": str(trace)}})
    assert cell.specification["calls"]["process"] == 8
    assert cell.specification["fio"]["rw"] == "randwrite"
    log = iologs.read_syscall_trace(ROOT, str(trace))
    assert log.requests == [iologs.LogRequest(0, "write", 0, 32768), iologs.LogRequest(0, "sync", 0, 0)]


@pytest.mark.parametrize("entry", [{"process": 7}, {"process": "7"}, {"only": "/run/in"}])
def test_a_reading_trace_becomes_a_reading_cell(trace: Path, entry: dict[str, Any]) -> None:
    (cell,) = cells_of({"mine": {"path": str(trace), **entry}})
    assert cell.name.startswith("randread-8k-j1-mine-")
    assert fio.only_reads(cell.specification["fio"])


def test_a_cell_only_depends_on_the_replayed_process(trace: Path) -> None:
    def name(**entry: Any) -> str:
        return cells_of({"mine": {"path": str(trace), **entry}})[0].name

    before = [name(), name(process=7)]
    trace.write_text(STRACE.replace("30000", "40000"))
    after = [name(), name(process=7)]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_trace_that_changed_after_planning_is_refused(trace: Path) -> None:
    (cell,) = cells_of({"mine": {"path": str(trace)}})
    log = measuring._user_log(ROOT, cell.specification)
    assert log is not None
    assert log.end_bytes == 32768
    trace.write_text(STRACE.replace("write(4", "read(4").replace("O_WRONLY", "O_RDONLY"))
    with pytest.raises(measuring.MeasureError, match=r"my\.strace: has changed since the run was planned\. Run again"):
        measuring._user_log(ROOT, cell.specification)


def test_a_study_can_use_some_or_all_traces(project: Project, trace: Path) -> None:
    study = yaml.safe_load((project.root / FIXTURE_GRID).read_text())
    traces = {name: {"path": str(trace), "process": process} for name, process in {"a": 7, "b": 8}.items()}

    def names(vary: object) -> set[str]:
        experiments = {**study["experiments"], "mine": {"vary": {"trace": vary}}}
        project.edit(FIXTURE_GRID, experiments=experiments)
        conf = config.load_config(project.root, {"traces": traces})
        found = [cell.specification["fio"].get("trace") for cell in grid.expand_grid(conf, "tiny")]
        return {name for name in found if name}

    assert names(["b"]) == {"b"}
    assert names("traces") == {"a", "b"}
    with pytest.raises(yaml_schema.ConfigError, match=r"experiments\.mine: no trace 'c' is under traces in config"):
        names(["c"])


# ---- Errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "no such file"),
        ("nothing of the kind\n", "not a trace of system calls. Give "),
        (STRACE + "8 1.0006 write(4, 5\n", "my.strace, line 7: no result after the call of 'write'"),
        ('7 1.0 openat(AT_FDCWD, "/f", O_RDONLY) = 3 <0.1>\n', "no call reads or writes a file"),
    ],
)
def test_a_trace_that_cannot_be_replayed_is_named(tmp_path: Path, text: str | None, expected: str) -> None:
    path = tmp_path / "my.strace"
    if text is not None:
        path.write_text(text)
    message = refused({"mine": {"path": str(path)}})
    assert message.startswith(f"config/config.yaml: traces.mine: {path}")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"only": "/elsewhere/*"}, "no call reads or writes a file that matches '/elsewhere/*'"),
        ({"process": 9}, "process 9 reads and writes nothing. Processes that do: 7, 8."),
        ({"process": -1}, "process: -1 is not valid"),
        ({"process": "first"}, "process: 'first' is not valid"),
        ({"onlyy": "*"}, "unknown key 'onlyy'. Did you mean 'only'?"),
    ],
)
def test_an_invalid_choice_of_calls_is_named(trace: Path, entry: dict[str, Any], expected: str) -> None:
    assert expected in refused({"mine": {"path": str(trace), **entry}})


@pytest.mark.parametrize("name", ["", "-x", "my program", "a/b", "../x", "x" * 41, "{x}"])
def test_an_invalid_name_is_refused(trace: Path, name: str) -> None:
    assert "Use letters, digits, '_', '-' and '.'" in refused({name: {"path": str(trace)}})


@pytest.mark.parametrize("name", ["Sandia-cth", "lanl-64kb", "web-server"])
def test_the_name_of_a_stand_in_is_refused(trace: Path, name: str) -> None:
    assert f"traces.{name}: " in (message := refused({name: {"path": str(trace)}}))
    assert "is the name of a stand-in. Use another name" in message


def test_a_trace_that_does_not_fit_into_the_file_is_refused(trace: Path) -> None:
    trace.write_text(STRACE.replace("30000", "90000000"))
    message = refused({"mine": {"path": str(trace)}}, file_size="64 MiB")
    assert "experiments.own: the trace mine extends to byte 90001408" in message
    assert "Use a larger file" in message


def test_an_entry_must_have_a_path(trace: Path) -> None:
    assert "traces.mine: the key 'path' is missing" in refused({"mine": {}})
    assert "traces.mine: 'my.strace' is not valid" in refused({"mine": trace.name})


# ---- Results


def test_own_traces_are_listed_below_the_stand_ins(tmp_path: Path) -> None:
    calls.convert_calls(calls.open_trace([RECORDED / "mpi-hdf5.parquet"], name="mine"), tmp_path / "mine.parquet")
    own = calls.open_trace([tmp_path / "mine.parquet"])
    table = applications.characteristics_frame(park2009.workload_characteristics([own]))
    assert list(table["trace"]) == [*stand_ins.STAND_IN_NAMES, "mine"]
    assert (table["label"].iloc[-1], table["origin"].iloc[-1]) == ("mine", "recorded")
    figure = applications.access_maps([own, own])
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center") if axes.get_title(loc)]
    assert titles == ["Reads: mine", "Writes: mine"] * 2
    assert own.coverage.short_text().startswith(f"{int(table['reads'].iloc[-1]):,} reads, ")


# ---- Live recordings


@pytest.mark.slow
def test_without_a_kernel_a_message_says_how_to_build_it(project: Project) -> None:
    asked = {"drives": ["mtron-7500"], "studies": ["park2009"], "live": "true"}
    with pytest.raises(
        CaptureError, match=r"live: recording requires a kernel in .*`\./reproduce\.sh linux`, or set live to false"
    ):
        load_cells(project.root, asked)
    done = project.snakemake("-n", "--config", "live=true", "studies=[park2009]", "drives=[mtron-7500]")
    assert done.returncode == 2
    assert "Traceback" not in done.stdout
    assert "./reproduce.sh linux" in done.stdout


def test_a_live_replay_depends_on_the_inputs_of_its_recording(project: Project) -> None:
    kernel = project.root / ".linux/linux"
    kernel.parent.mkdir()
    kernel.write_bytes(b"one kernel")  # nothing is recorded here
    project.edit("config/drives.yaml", mine={"kind": "twin", "model": "c400"})
    studies = ["park2009", "kapoor"]
    asked = {"drives": ["mtron-7500", "mine"], "studies": studies, "live": True, "file_size": "64 MiB"}

    def replays() -> dict[str, str]:
        cells = load_cells(project.root, asked)
        traces = {
            trace for batch in batches.batches_by_name(cells).values() for trace in batches.recorded_traces(batch)
        }
        found = {}
        for study in cells.studies:
            for cell in cells.of_study(study):
                if "replay" in cell.specification:
                    replay = cell.specification["replay"]
                    assert "sha256" not in replay
                    found[replay["trace"]] = replay["made_of"]
                    parts = Path(replay["trace"])
                    assert capture.recording_digest(cells.config, parts.parent.name, parts.stem) == replay["made_of"]
        assert traces == set(found)
        return found

    first = replays()
    assert "results/traces/park2009/sequential-sandia-cth-mtron-7500.parquet" in first
    assert "results/traces/kapoor/mix.parquet" in first
    assert replays() == first
    twins = yaml.safe_load((project.root / "config/studies/park2009.yaml").read_text())["twins"]
    twins["mtron-7500"]["set"] = {"flash.read_time": "99 us"}
    project.edit("config/studies/park2009.yaml", twins=twins)
    changed = {name for name, made_of in replays().items() if made_of != first[name]}
    assert changed == {name for name in first if name.endswith("mtron-7500.parquet")}
    kernel.write_bytes(b"another kernel")
    assert not set(first.values()) & set(replays().values())
