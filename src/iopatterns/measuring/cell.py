"""Measures one cell: holds, identifies and guards the drive, then runs fio once per execution.

Imports no pandas, and what real drives alone need only for these: so a measurement starts at once.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NamedTuple, cast

from iopatterns.base import files, messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.base.signals import STOP_SIGNALS
from iopatterns.configuration import iologs, kinds
from iopatterns.measuring import drives, fio, machine, progress
from iopatterns.raw import cells, records, tuning_steps
from iopatterns.raw.metadata_files import UNPACKED, read_metadata, write_metadata
from iopatterns.raw.records import Specification

# Other programs' I/O on the disk makes an execution doubtful from this share of its own on, and from so many bytes
_OTHERS_SHARE = 0.05
_OTHERS_LEAST_BYTES = 2**20
# How often an execution is begun that something keeps holding up
_ATTEMPTS = 3


class MeasureError(IoPatternsError):
    """A cell could not be measured; the message names the cell and the execution."""


class Interrupted(BaseException):
    """A signal asked to stop; what is measured is kept. ``signal_number`` says which."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(signal.Signals(signal_number).name)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted` while the context lasts."""

    def stop(signal_number: int, _frame: FrameType | None) -> None:
        for number in STOP_SIGNALS:  # the second Ctrl-C of an impatient user must not cut the clean-up short
            signal.signal(number, signal.SIG_IGN)
        raise Interrupted(signal_number)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def measure_cells(root: Path, specifications: Sequence[Specification], raw_files: Sequence[Path]) -> int:
    """Measure cells one after another, in the order of their raw files: `measure_cell` for each; return how many executions.

    The name of a raw file's folder tells which of the specifications is its cell's. The first cell that fails ends it.
    """
    of_cells: dict[Path, list[Path]] = {}
    for raw in raw_files:
        of_cells.setdefault(raw.parent, []).append(raw)
    measured = 0
    for folder, raws in of_cells.items():
        specification = next((each for each in specifications if cells.folder_matches(folder.name, each)), None)
        if specification is None:
            raise MeasureError(f"{folder}: the folder's name is not that of a specification given")
        measured += measure_cell(root, specification, raws)
    return measured


def measure_cell(root: Path, specification: Specification, raw_files: Sequence[Path]) -> int:
    """Measure the executions of a cell whose raw files are not there yet; return how many that were.

    The number of an execution is the stem of its raw file. A raw file that is there with its sidecar is kept as it is.
    Where the drive does not take the cell's settings, nothing is measured: each raw file then says so in place of what
    fio would have written, and why (`is_measured` tells them apart). Raises DriveError, FioError, MeasureError, or
    NoRoomError where the raw files' file system is full; finished executions stay.
    """
    try:
        return _measure(root, specification, raw_files)
    except (OSError, fio.FioError):
        files.require_room(raw_files[0].parent)  # if that is what it came of, nothing else is worth saying
        raise


def _measure(root: Path, specification: Specification, raw_files: Sequence[Path]) -> int:
    cell = raw_files[0].parent
    label = f"{cell.parent.parent.name} {cell.parent.name} {cell.name}"
    if not cells.folder_matches(cell.name, specification):
        raise MeasureError(f"{cell}: the folder's name is not that of the specification given")
    if (cell.parent.parent / UNPACKED).exists():
        raise MeasureError(
            f"{cell.parent.parent}: holds what was measured elsewhere and unpacked from an archive. Give the drive that"
            " is measured here another name in config/drives.yaml, or delete that folder."
        )
    all_there = f"{label}: all {len(raw_files)} executions are there; delete {cell} to measure them again"
    if not _missing(raw_files) and not _is_noted(specification, root):
        messages.note(all_there)
        return 0

    log = _own_log(root, specification)
    drive = drives.open_drive(root, specification)
    replaying = _replaying(drive, specification) if "replay" in specification else None
    with drive.hold():
        missing = _missing(raw_files)  # whoever held the drive before may have measured this very cell
        if not missing:
            messages.note(all_there)
            return 0
        cell.mkdir(parents=True, exist_ok=True)
        for leftover in [*cell.glob(".*.partial"), *cell.glob(".*.partial_*.log")]:
            leftover.unlink()
        drive.guard()
        drive.prepare()
        steps = [step.record() for step in drive.tune(specification.get("settings", {}))]
        about: records.CellMetadata = {"specification": specification, "drive": drive.identify(), "tuning": steps}
        if tuning_steps.steps_not_in_effect(steps):
            for raw in missing:
                _leave_out(raw, about)
                progress.count_repetition()
            reasons = "; ".join(step["reason"] for step in tuning_steps.steps_not_in_effect(steps))
            messages.note(f"{label}: not measured, for the drive does not take its settings: {reasons}")
            return 0
        about["fio_version"] = fio.version()
        real = specification["drive"]["kind"] not in kinds.SIMULATED_KINDS
        condition = _condition(about["drive"]["device"]) if real else None
        started = time.monotonic()
        _warm_up(drive, specification, log, cell)
        for raw in missing:
            if replaying is not None:
                _replay(root, replaying, raw, about)
            else:
                _execute(drive, raw, about, log, condition)
            progress.count_repetition()
        messages.note(
            f"{label}: {len(missing)} executions in {time.monotonic() - started:.1f} s{progress.progress_text()}"
        )
    return len(missing)


def _is_noted(specification: Specification, root: Path) -> bool:
    """Return whether a disk's journal has settings that are still to be put back, see `journal.has_unrestored_settings`."""
    from iopatterns.measuring.tuning import journal

    return journal.has_unrestored_settings(specification["drive"]["name"], root)


def _missing(raw_files: Sequence[Path]) -> list[Path]:
    """Return the raw files that are not there. Raises SidecarError for one that is there but not as measured."""
    missing = [raw for raw in raw_files if not raw.exists()]
    for raw in set(raw_files).difference(missing):
        read_metadata(raw)
    return missing


def _own_log(root: Path, specification: Specification) -> iologs.IoLog | None:
    """Return the user's log or trace that a cell replays, if it does.

    Raises MeasureError where it is not as it was planned.
    """
    options = specification["fio"]
    log: iologs.IoLog
    if "read_iolog" in options:
        path = options["read_iolog"]
        log, planned = (
            iologs.load_iolog(root / path),
            specification["iolog"]["sha256"] if "iolog" in specification else None,
        )
    elif "calls" in specification:
        asked = specification["calls"]
        path, planned = asked["path"], asked["sha256"]
        log = iologs.read_syscall_trace(root, path, asked["only"], asked["process"])
    else:
        return None
    # what was planned decides whether the drive may be written
    if (log.sha256, log.rw) != (planned, options["rw"]):
        raise MeasureError(f"{path}: has changed since the run was planned. Run again.")
    return log


def _warm_up(drive: drives.Drive, specification: Specification, log: iologs.IoLog | None, cell: Path) -> None:
    """Run the workload once for nothing, so that the first execution finds the drive as the others do."""
    if specification["warmup_ms"]:
        raw = cell / "00.json"
        _run(drive, specification, specification["warmup_ms"], raw, log)
        _discard(files.partial_path(raw))


def _discard(output: Path) -> None:
    """Delete what fio wrote, if anything."""
    output.unlink(missing_ok=True)
    fio.histogram_log(output).unlink(missing_ok=True)


def _run(
    drive: drives.Drive, specification: Specification, runtime_ms: int, raw: Path, log: iologs.IoLog | None
) -> tuple[list[str], fio.FioOutcome, Sequence[iologs.LogRequest] | None]:
    """Run fio into the temporary file of ``raw``; return its command line, how it went, and what it replayed if it did.

    ``log`` is the one that the cell names. Whatever log is replayed lies beside the raw file for as long as fio runs.
    """
    seed = cells.randseed(specification, int(raw.stem))
    output, iolog = files.partial_path(raw), files.partial_path(raw.with_suffix(".iolog"))
    requests = iologs.replayed_requests(specification, log, seed, runtime_ms)
    path = None if requests is None else str(iolog)
    argv = drive.prefix + fio.fio_command_line(specification, drive.target, seed, runtime_ms, str(output), iolog=path)
    try:
        if requests is not None:
            iolog.write_text(iologs.iolog_text(requests), encoding="utf-8")
        drive.verify()
        ramp_s = specification["fio"].get("ramp_time", 0) / 1e6
        outcome = drive.run(argv, expected_s=ramp_s + runtime_ms / 1000)
        drive.verify()  # else what was measured may be of another drive, or have written where it must not
        return argv, outcome, requests
    except BaseException:
        _discard(output)
        raise
    finally:
        iolog.unlink(missing_ok=True)


def _leave_out(raw: Path, about: records.CellMetadata) -> None:
    """Write a raw file that says which settings the drive did not take, and its sidecar."""
    temporary = files.partial_path(raw)
    left_out = [
        {key: value for key, value in step.items() if key in {"setting", "wanted", "outcome", "reason"}}
        for step in about["tuning"]
    ]
    try:
        files.write_json(temporary, {"not measured": left_out})
        _keep(temporary, raw, _of_execution(about, raw))
    finally:
        temporary.unlink(missing_ok=True)


def _of_execution(about: records.CellMetadata, raw: Path) -> records.RepetitionMetadata:
    """Return what a sidecar says of an execution before it has begun."""
    return cast(records.RepetitionMetadata, {**about, "execution": int(raw.stem)})


def _keep(temporary: Path, raw: Path, sidecar: records.RepetitionMetadata) -> None:
    """Give a raw file its name. The sidecar first: a raw file under its own name always has one."""
    measured: records.RawFile = {"sha256": files.sha256(temporary), "size_bytes": temporary.stat().st_size}
    write_metadata(raw, cast(records.MetadataFile, {**sidecar, "raw": measured}))
    files.commit_file(temporary, raw)


class _Condition(NamedTuple):
    """What a real drive says of itself before its cell's first execution."""

    health: records.Health
    write_cache: records.WriteCache


def _condition(device: str | None) -> _Condition:
    from iopatterns.measuring import health
    from iopatterns.measuring.tuning import disk_settings

    unknown: records.WriteCache = {"drive": None, "kernel": None}
    return _Condition(health.read_health(device), disk_settings.read_write_cache(device) if device else unknown)


def _execute(
    drive: drives.Drive, raw: Path, about: records.CellMetadata, log: iologs.IoLog | None, condition: _Condition | None
) -> None:
    """Run one execution into its raw file and sidecar; ``about`` is what the sidecars of all executions share.

    ``condition`` is that of a real drive before the first of them, as `_condition` returned it; None for a twin. An
    execution that something held up is run again, and the sidecar says why (``held_up``). Raises MeasureError where
    that happens each time.
    """
    held_up: list[str] = []
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _attempt(drive, raw, about, log, condition, held_up=held_up)
        except fio.DisturbedError as error:
            held_up.append(str(error))
            if attempt < _ATTEMPTS:
                messages.say(f"{raw}: not kept, for {error} Measuring it again, try {attempt + 1} of {_ATTEMPTS}.")
    raise MeasureError(
        f"{raw}: not measured: each of {_ATTEMPTS} tries was held up, the last one thus: {held_up[-1]} Find out what"
        " stops fio or keeps this machine busy, and run again; what is finished is kept."
    )


def _attempt(
    drive: drives.Drive,
    raw: Path,
    about: records.CellMetadata,
    log: iologs.IoLog | None,
    condition: _Condition | None,
    *,
    held_up: Sequence[str],
) -> None:
    """Run fio for one execution, check what it wrote, and keep it with its sidecar.

    ``condition`` as of `_execute`; ``held_up`` says what happened to earlier tries.
    Raises MeasureError where it is no measurement, and DisturbedError where another try may give one.
    """
    specification = about["specification"]
    before = machine.load_snapshot()
    device = about["drive"].get("device")
    traffic_bytes = machine.disk_traffic_bytes(device)
    temporary = files.partial_path(raw)
    try:
        argv, outcome, requests = _run(drive, specification, specification["runtime_ms"], raw, log)
        try:
            # in virtual time nothing can hold a drive up
            moved_bytes = fio.check_result(
                temporary,
                specification,
                None if requests is None else iologs.count_transfers(requests),
                outcome if condition else None,
            )
        except fio.DisturbedError:
            raise
        except fio.FioError as error:
            files.require_room(raw.parent)
            raise MeasureError(f"{raw}: not kept, for {error}\n  Command: {' '.join(argv)}") from None
        if changed := drive.changed_settings(about["tuning"]):
            raise MeasureError(
                f"{raw}: not kept, for settings changed while it was measured: {'; '.join(changed)}. Something else"
                " changes them: another program, a rule of udev's, tuned? Stop that, and run again."
            )
        sidecar = _of_execution(about, raw)
        sidecar["randseed"] = cells.randseed(specification, sidecar["execution"])
        sidecar["command"], sidecar["machine"], sidecar["before"] = argv, machine.machine_facts(), before
        sidecar["started"], sidecar["ended"] = _timestamp(outcome.started_s), _timestamp(outcome.ended_s)
        sidecar["wall_s"] = round(outcome.wall_s, 6)
        if outcome.counters is not None:
            sidecar["counters"] = outcome.counters
        if condition:
            from iopatterns.measuring import health

            traffic = (traffic_bytes, machine.disk_traffic_bytes(device))
            sidecar["health"] = {"before": condition.health, "after": health.read_health(device)}
            sidecar["write_cache"], sidecar["held_up"] = condition.write_cache, held_up
            sidecar["others_bytes"] = _bytes_of_others(traffic, moved_bytes)
            sidecar["doubts"] = _doubts(sidecar, moved_bytes)
        if fio.histogram_log(temporary).exists():
            files.commit_file(fio.histogram_log(temporary), latency_log_path(raw))
        _keep(temporary, raw, sidecar)
    finally:
        _discard(temporary)


def latency_log_path(raw: Path) -> Path:
    """Return where the log of latencies of an execution lies that asked for one (``log_hist_msec``)."""
    return raw.with_name(f"{raw.stem}_clat_hist.log")


def _replaying(drive: drives.Drive, specification: Specification) -> drives.ReplayingDrive:
    """Return the drive of a cell that replays a phase of a trace. Raises MeasureError for one that cannot do that."""
    if isinstance(drive, drives.ReplayingDrive):
        return drive
    of, trace = specification["drive"], specification["replay"]["trace"]
    raise MeasureError(
        f"drive '{printable(of['name'])}': one of the kind '{of['kind']}' cannot replay the trace {printable(trace)}."
        " Name a simulated drive."
    )


def _replay(root: Path, drive: drives.ReplayingDrive, raw: Path, about: records.CellMetadata) -> None:
    """Replay a phase of a trace into a raw file and its sidecar, on a drive of the cell's model."""
    specification = about["specification"]
    asked = specification["replay"]
    before, started_s, clock = machine.load_snapshot(), time.time(), time.monotonic()
    command, content, counters = drive.replay(root / asked["trace"], asked)
    temporary = files.partial_path(raw)
    try:
        files.write_json(temporary, content)
        sidecar = _of_execution(about, raw)
        sidecar["randseed"] = cells.randseed(specification, sidecar["execution"])
        sidecar["command"] = command
        sidecar["machine"], sidecar["before"] = machine.machine_facts(), before
        sidecar["started"], sidecar["ended"] = _timestamp(started_s), _timestamp(time.time())
        sidecar["wall_s"] = round(time.monotonic() - clock, 6)
        sidecar["counters"] = counters
        _keep(temporary, raw, sidecar)
    finally:
        temporary.unlink(missing_ok=True)


def _bytes_of_others(traffic: tuple[int | None, int | None], moved_bytes: int) -> int | None:
    """Return the bytes that others moved meanwhile; ``traffic`` is what the disk had moved before, and has after."""
    before, after = traffic
    return None if before is None or after is None else max(0, after - before - moved_bytes)


def _doubts(sidecar: records.RepetitionMetadata, moved_bytes: int) -> list[str]:
    """Return what makes an execution on a real drive doubtful, by its sidecar."""
    from iopatterns.measuring import health
    from iopatterns.measuring.tuning import disk_settings

    specification, before = sidecar["specification"], sidecar["before"]
    found = []
    if (sidecar["others_bytes"] or 0) > max(_OTHERS_SHARE * moved_bytes, _OTHERS_LEAST_BYTES):
        found.append("other I/O on the disk")
    if not specification["fio"].get("direct"):
        found.append("through the page cache")
    if before["cpu_governor"] not in {None, "performance"}:
        found.append(f"CPU governor {before['cpu_governor']}")
    if before["load_average"][0] > (os.cpu_count() or 1):
        found.append("a busy machine")
    if disk_settings.write_caches_disagree(sidecar["write_cache"]) and "write_cache" not in specification.get(
        "settings", {}
    ):
        found.append("drive and kernel disagree on the write cache")
    return found + health.health_doubts(sidecar["health"]["before"], sidecar["health"]["after"])


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
