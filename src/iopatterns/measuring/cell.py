"""Measure a cell: prepare its drive, then run fio once for each repetition.

A cell is one configuration: a drive, its settings and a workload. To start quickly, this module does not import pandas,
and imports the code for real drives only when a real drive is measured.
"""

import os
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, cast

from iopatterns.base import files, messages, signals, subprocess_env
from iopatterns.base.errors import IoPatternsError, os_error_text
from iopatterns.base.messages import printable
from iopatterns.configuration import iologs, kinds
from iopatterns.measuring import builds, drives, fio, machine, progress
from iopatterns.raw import cells, records, tuning_steps
from iopatterns.raw.metadata_files import UNPACKED, read_metadata, write_metadata
from iopatterns.raw.records import Specification

# A repetition is doubtful if other programs transferred more bytes than this share of its own, and than this number
_MAX_OTHERS_SHARE = 0.05
_MAX_OTHERS_BYTES = 2**20
# A lower limit of the rate at which fio transfers a file once
_SLOWEST_BYTES_PER_S = 1e6
# How often a repetition is tried if something disturbs it each time
_MAX_ATTEMPTS = 3


class MeasureError(IoPatternsError):
    """The error raised if a cell (drive, settings and workload) could not be measured.

    The message names the raw file or the folder of the cell, or the drive.
    """


def measure_cells(root: Path, specifications: Sequence[Specification], raw_files: Sequence[Path]) -> int:
    """Measure several cells one after another, up to the first error.

    A cell is one configuration: a drive, its settings and a workload. A repetition is one run of fio for a cell, and a
    raw file is its output. A repetition whose raw file exists is not measured again, unless its drive is simulated and
    another simulator or another fio made the file.

    Args:
        root: The project folder.
        specifications: The specifications of the cells.
        raw_files: The raw files to make, one for each repetition, such as
            ``data/raw/c400/park2009/randread-4k-q1-j1-1a2b3c4d/01.json``. The folder of a raw file has the name of the
            cell. The cells are measured in the order in which their raw files first appear.

    Returns:
        The number of repetitions measured.

    Raises:
        MeasureError: A folder matches no specification, or a cell could not be measured.
        IoPatternsError: A cell could not be measured for another reason, see `measure_cell`.
    """
    measured = 0
    for folder in dict.fromkeys(raw.parent for raw in raw_files):
        specification = next((each for each in specifications if cells.folder_matches(folder.name, each)), None)
        if specification is None:
            raise MeasureError(f"{folder}: the name of the folder matches none of the given specifications")
        measured += measure_cell(root, specification, [raw for raw in raw_files if raw.parent == folder])
    return measured


def measure_cell(root: Path, specification: Specification, raw_files: Sequence[Path]) -> int:
    """Measure the repetitions of a cell whose raw files are missing or stale.

    A cell is one configuration: a drive, its settings and a workload. A repetition is one run of fio for the cell, and
    a raw file is its output. A raw file of a simulated drive is stale if another simulator or another fio made it. A
    raw file of a real drive is never stale, because its measurement cannot be repeated exactly.

    The drive is locked while it is measured. If another process holds the lock, this process prints a message and
    waits. At the end, changed settings of the drive are restored.

    If a drive setting of the cell does not take effect, nothing is measured. Each raw file then stores the settings and
    the reasons instead of a result.

    Args:
        root: The project folder.
        specification: The specification of the cell.
        raw_files: The raw files of the wanted repetitions, at least one, all in the folder of the cell. The stem of
            each name is the number of the repetition: ``03.json``.

    Returns:
        The number of repetitions measured. It is 0 if all raw files exist, or if a setting did not take effect.

    Raises:
        DriveError: The drive cannot be measured, or must not be.
        FioError: fio failed.
        MeasureError: A repetition is not valid or was disturbed each time; or the folder, the environment or a replayed
            log does not permit the measurement.
        MetadataError: An existing raw file has changed since it was measured.
        NoRoomError: The file system of the raw files is full.
        RestoreError: A setting of the drive could not be restored.
    """
    cell = raw_files[0].parent
    try:
        with files.full_disk_reported(cell):
            return _measure_missing(root, specification, raw_files)
    except fio.FioError:
        files.require_room(cell)  # a full file system explains all other errors
        raise
    except OSError as error:  # which names no file if a descriptor was used
        raise MeasureError(
            f"{cell}: {os_error_text(error)}. Does the disk still answer? Finished repetitions are kept; run again."
        ) from None


def _measure_missing(root: Path, specification: Specification, raw_files: Sequence[Path]) -> int:
    cell = raw_files[0].parent
    label = f"{cell.parent.parent.name} {cell.parent.name} {cell.name}"
    if not cells.folder_matches(cell.name, specification):
        raise MeasureError(f"{cell}: the name of the folder does not match the given specification")
    _require_no_archive(cell.parent.parent)
    all_exist = f"{label}: all {len(raw_files)} repetitions exist; delete {cell} to measure them again"
    if not missing_repetitions(raw_files):
        from iopatterns.measuring.tuning import journal

        # locking the drive restores the settings that an interrupted run left changed
        if not journal.has_unrestored_settings(specification["drive"]["name"], root):
            messages.note(all_exist)
            return 0

    _require_no_preloads(specification["drive"])
    log = _user_log(root, specification)
    drive = drives.open_drive(root, specification)
    replaying = _replaying_drive(drive, specification) if "replay" in specification else None
    with drive.hold():
        # another process may have measured this cell before it released the lock
        missing = missing_repetitions(raw_files)
        if not missing:
            messages.note(all_exist)
            return 0
        cell.mkdir(parents=True, exist_ok=True)
        for leftover in [*cell.glob(".*.partial"), *cell.glob(".*.partial_*.log")]:
            leftover.unlink()
        drive.guard()
        drive.prepare()
        steps = drive.tune(specification.get("settings", {}))
        for stale in missing:
            stale.unlink(missing_ok=True)
        metadata = _cell_metadata(specification, drive, steps)
        if ineffective := tuning_steps.steps_not_in_effect(steps):
            for raw in missing:
                _write_not_measured(raw, metadata)
                progress.count_repetition()
            reasons = "; ".join(step["reason"] for step in ineffective)
            messages.note(f"{label}: not measured, because settings did not take effect: {reasons}")
            return 0
        metadata["fio_version"] = fio.version()
        is_real = specification["drive"]["kind"] not in kinds.SIMULATED_KINDS
        condition = _read_condition(drive, metadata["drive"]["device"]) if is_real else None
        prepared = _PreparedCell(drive, metadata, log, condition)
        started = time.monotonic()
        if specification["warmup_ms"]:  # so that all repetitions start from the same state of the drive
            _run(prepared, specification["warmup_ms"], cell / "00.json")
            _discard(files.partial_path(cell / "00.json"))
        for raw in missing:
            if replaying is not None:
                _replay(root, replaying, raw, metadata)
            else:
                _measure_repetition(prepared, raw)
            progress.count_repetition()
        taken_s = time.monotonic() - started
        messages.note(f"{label}: {len(missing)} repetitions in {taken_s:.1f} s{progress.progress_text()}")
    return len(missing)


def _require_no_archive(folder: Path) -> None:
    """Raise MeasureError if the folder of a drive has raw files from an archive."""
    if (folder / UNPACKED).exists():
        raise MeasureError(
            f"{folder}: contains raw files from an archive. Give the drive that is measured here another name in"
            " config/drives.yaml, or delete that folder."
        )


def _cell_metadata(
    specification: Specification, drive: drives.Drive, steps: Sequence[tuning_steps.TuningStep]
) -> records.CellMetadata:
    metadata: records.CellMetadata = {
        "specification": specification,
        "drive": drive.identify(),
        "tuning": steps,
        "host": socket.gethostname(),
    }
    if specification["drive"]["kind"] in kinds.SIMULATED_KINDS:
        metadata["simulator"] = builds.simulator()
    return metadata


def _require_no_preloads(drive: records.DriveSpecification) -> None:
    """Raise MeasureError if a real drive is to be measured and this process has preloaded libraries.

    Such a library may give this process a wrong time (faketime), or omit its flushes (eatmydata).
    """
    libraries = "" if drive["kind"] in kinds.SIMULATED_KINDS else subprocess_env.preloaded_libraries()
    if libraries:
        raise MeasureError(
            f"drive '{printable(drive['name'])}': not measured, because this process runs with LD_PRELOAD or LD_AUDIT"
            f" ({printable(libraries)}), which may change times and flushes. Unset both, and run again."
        )


def missing_repetitions(raw_files: Sequence[Path]) -> list[Path]:
    """Return the raw files that must be measured, in the given order.

    These are the raw files that do not exist, and those of a simulated drive that another simulator or another fio made
    than those installed here.

    Args:
        raw_files: The raw files of repetitions, such as ``data/raw/c400/zhou/read-4k-j1-1a2b3c4d/01.json``.

    Raises:
        MetadataError: An existing raw file does not match its metadata file.
    """
    return [raw for raw in raw_files if not raw.exists() or not _is_current(raw)]


def _is_current(raw: Path) -> bool:
    return builds.are_current(builds.programs_of(read_metadata(raw)))


def _user_log(root: Path, specification: Specification) -> iologs.IoLog | None:
    """Return the I/O log or recording of system calls that a cell replays with fio.

    Args:
        root: The project folder.
        specification: The specification of the cell.

    Returns:
        The log. None if the cell replays none.

    Raises:
        MeasureError: The log has changed since the run was planned.
    """
    options = specification["fio"]
    log: iologs.IoLog
    if "read_iolog" in options:
        path = options["read_iolog"]
        log = iologs.load_iolog(root / path)
        planned = specification["iolog"]["sha256"] if "iolog" in specification else None
    elif "calls" in specification:
        calls = specification["calls"]
        path, planned = calls["path"], calls["sha256"]
        log = iologs.read_syscall_trace(root, path, calls["only"], calls["process"])
    else:
        return None
    # `rw` must not have changed either: it decides whether the drive may be written
    if (log.sha256, log.rw) != (planned, options["rw"]):
        raise MeasureError(f"{path}: has changed since the run was planned. Run again.")
    return log


def _discard(output: Path) -> None:
    """Delete fio's result file `output` and the latency log beside it, if they exist."""
    output.unlink(missing_ok=True)
    fio.histogram_log(output).unlink(missing_ok=True)


class _Condition(NamedTuple):
    """The condition of a real drive before the first repetition of its cell.

    Attributes:
        health: The health that the drive reports.
        write_cache: The state of the write cache, according to the drive and to the kernel.
        doubts: What makes all repetitions doubtful, a short text for each doubt.
    """

    health: records.Health
    write_cache: records.WriteCache
    doubts: list[str]


def _read_condition(drive: drives.Drive, device: str | None) -> _Condition:
    """Return the condition of a real drive.

    Args:
        drive: The drive.
        device: The kernel's name of the disk, such as ``sda``; None if it is unknown.
    """
    from iopatterns.measuring import health
    from iopatterns.measuring.tuning import disk_settings

    unknown: records.WriteCache = {"drive": None, "kernel": None}
    write_cache = disk_settings.read_write_cache(device) if device else unknown
    doubts = drive.doubts()
    if libraries := subprocess_env.system_preloads():
        doubts.append(f"libraries in every program (/etc/ld.so.preload: {libraries})")
    return _Condition(health.read_health(device), write_cache, doubts)


class _PreparedCell(NamedTuple):
    """A cell whose drive is locked, checked and tuned.

    Attributes:
        drive: The drive.
        metadata: The metadata that all repetitions of the cell share.
        log: The user's I/O log or recording of system calls that the cell replays. None if it replays none.
        condition: The condition of a real drive before the first repetition. None for a simulated drive.
    """

    drive: drives.Drive
    metadata: records.CellMetadata
    log: iologs.IoLog | None
    condition: _Condition | None


def _run(
    cell: _PreparedCell, runtime_ms: int, raw: Path
) -> tuple[list[str], fio.FioOutcome, Sequence[iologs.LogRequest] | None]:
    """Run fio for `runtime_ms`; write its result to the temporary file of `raw`.

    If the cell replays a log, the log is written beside the raw file, and deleted when fio has ended.

    Args:
        cell: The cell.
        runtime_ms: How long fio runs; 0 for one pass over the file.
        raw: The path of the raw file. Its stem is the number of the repetition, from which fio's seed follows.

    Returns:
        The command line, the outcome of the fio process, and the requests of the replayed log (None without a log).
    """
    signals.raise_if_interrupted()
    drive, specification = cell.drive, cell.metadata["specification"]
    seed = cells.randseed(specification, int(raw.stem))
    output, iolog = files.partial_path(raw), files.partial_path(raw.with_suffix(".iolog"))
    requests = iologs.replayed_requests(specification, cell.log, seed, runtime_ms)
    path = None if requests is None else str(iolog)
    argv = drive.prefix + fio.fio_command_line(specification, drive.target, seed, runtime_ms, str(output), iolog=path)
    try:
        if requests is not None:
            iolog.write_text(iologs.iolog_text(requests), encoding="utf-8")
        drive.verify()
        ramp_s = specification["fio"].get("ramp_time", 0) / 1e6
        expected_s = runtime_ms / 1000 or fio.one_pass_bytes(specification) / _SLOWEST_BYTES_PER_S
        outcome = drive.run(argv, expected_s=ramp_s + expected_s)
        drive.verify()  # otherwise the result may be of another drive
        return argv, outcome, requests
    except BaseException:
        _discard(output)
        raise
    finally:
        iolog.unlink(missing_ok=True)


def _write_not_measured(raw: Path, metadata: records.CellMetadata) -> None:
    """Write a raw file and a metadata file that say why a cell was not measured.

    Instead of fio's result, the raw file lists the settings of the cell with their outcomes and reasons.
    """
    temporary = files.partial_path(raw)
    steps = [{key: step[key] for key in ("setting", "wanted", "outcome", "reason")} for step in metadata["tuning"]]
    try:
        files.write_json(temporary, {"not measured": steps})
        _keep(temporary, raw, cast(records.RepetitionMetadata, {**metadata, "execution": int(raw.stem)}))
    finally:
        temporary.unlink(missing_ok=True)


def _keep(temporary: Path, raw: Path, metadata: records.RepetitionMetadata) -> None:
    """Write the metadata file of a temporary file, then rename that file to `raw`.

    In this order, a raw file under its final name always has a metadata file.
    """
    checksum: records.RawFile = {"sha256": files.sha256(temporary), "size_bytes": temporary.stat().st_size}
    write_metadata(raw, cast(records.MetadataFile, {**metadata, "raw": checksum}))
    files.commit_file(temporary, raw)


def _measure_repetition(cell: _PreparedCell, raw: Path) -> None:
    """Measure one repetition; write its raw file and its metadata file.

    A repetition that was disturbed, such as by other I/O or by a suspended machine, is discarded and tried again, up to
    three times in total. The metadata of the valid repetition say what disturbed the earlier attempts (``held_up``).

    Raises:
        MeasureError: Each attempt was disturbed, or the result is not valid.
    """
    held_up: list[str] = []
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            return _attempt(cell, raw, held_up)
        except fio.DisturbedError as error:
            held_up.append(str(error))
            if attempt < _MAX_ATTEMPTS:
                messages.say(f"{raw}: discarded: {error} Measuring again, attempt {attempt + 1} of {_MAX_ATTEMPTS}.")
    raise MeasureError(
        f"{raw}: not measured: each of {_MAX_ATTEMPTS} attempts was disturbed, at last: {held_up[-1]} Find out what"
        " stops fio or keeps this machine busy, and run again. Finished repetitions are kept."
    )


def _attempt(cell: _PreparedCell, raw: Path, held_up: Sequence[str]) -> None:
    """Run fio for one repetition, check its result, and store it.

    Args:
        cell: The cell.
        raw: The path of the raw file.
        held_up: What disturbed earlier attempts, a sentence for each. It is stored in the metadata file.

    Raises:
        DisturbedError: The repetition was disturbed. Another attempt may succeed.
        MeasureError: The result is not valid, or a drive setting changed meanwhile.
    """
    metadata, condition = cell.metadata, cell.condition
    specification = metadata["specification"]
    before = machine.load_snapshot()
    device = metadata["drive"].get("device")
    traffic_bytes = machine.disk_traffic_bytes(device)
    temporary = files.partial_path(raw)
    try:
        errors_before = machine.disk_error_count(device)
        argv, outcome, requests = _run(cell, specification["runtime_ms"], raw)
        errors_after = machine.disk_error_count(device)
        try:
            transfers = None if requests is None else iologs.count_transfers(requests)
            # nothing can disturb a drive in virtual time
            moved_bytes = fio.check_result(temporary, specification, transfers, outcome if condition else None)
        except fio.DisturbedError:
            raise
        except fio.FioError as error:
            files.require_room(raw.parent)
            raise MeasureError(f"{raw}: discarded: {error}\n  Command: {' '.join(argv)}") from None
        if changed := cell.drive.changed_settings(metadata["tuning"]):
            raise MeasureError(
                f"{raw}: discarded, because settings changed meanwhile: {'; '.join(changed)}. Another program changes"
                " them, such as tuned, or a rule of udev. Stop it, and run again."
            )
        complete = _repetition_metadata(metadata, raw, argv, before, outcome)
        if condition:
            from iopatterns.measuring import health

            traffic_after_bytes = machine.disk_traffic_bytes(device)
            complete["health"] = {"before": condition.health, "after": health.read_health(device)}
            complete["write_cache"], complete["held_up"] = condition.write_cache, held_up
            complete["others_bytes"] = (
                None
                if traffic_bytes is None or traffic_after_bytes is None
                else max(0, traffic_after_bytes - traffic_bytes - moved_bytes)
            )
            has_errors = errors_after is not None and errors_after > (errors_before or 0)
            failed = ["commands to the disk failed meanwhile"] if has_errors else []
            complete["doubts"] = [*condition.doubts, *failed, *_doubts(complete, moved_bytes)]
        if "log_hist_msec" in specification["fio"]:
            log = fio.histogram_log(temporary)
            if not log.exists():  # fio ends well even if it cannot create its log
                raise MeasureError(f"{raw}: discarded: fio wrote no latency log. Run again.")
            files.commit_file(log, latency_log_path(raw))
        _keep(temporary, raw, complete)
    finally:
        _discard(temporary)


def latency_log_path(raw: Path) -> Path:
    """Return the path of fio's latency log beside a raw file.

    For ``03.json``, the log is ``03_clat_hist.log``. The log exists only if the cell has the fio option
    ``log_hist_msec``.

    Args:
        raw: The path of the raw file (fio's JSON output) of a repetition.
    """
    return raw.with_name(f"{raw.stem}_clat_hist.log")


def _repetition_metadata(
    metadata: records.CellMetadata, raw: Path, command: list[str], before: records.LoadSnapshot, outcome: fio.FioOutcome
) -> records.RepetitionMetadata:
    """Return the metadata of a repetition that do not depend on the kind of drive.

    Args:
        metadata: The metadata that all repetitions of the cell share.
        raw: The path of the raw file. Its stem is the number of the repetition.
        command: The command line.
        before: The load of the machine before the start.
        outcome: Times of start and end, and the counters of a simulated drive.
    """
    repetition = int(raw.stem)
    complete = {
        **metadata,
        "execution": repetition,
        "randseed": cells.randseed(metadata["specification"], repetition),
        "command": command,
        "machine": machine.machine_facts(),
        "before": before,
        "started": _timestamp(outcome.started_s),
        "ended": _timestamp(outcome.ended_s),
        "wall_s": round(outcome.wall_s, 6),
    }
    if outcome.counters is not None:
        complete["counters"] = outcome.counters
    return cast(records.RepetitionMetadata, complete)


def _replaying_drive(drive: drives.Drive, specification: Specification) -> drives.ReplayingDrive:
    """Return `drive`, after checking that its kind can replay block traces.

    Raises MeasureError if it cannot: only simulated drives can.
    """
    if isinstance(drive, drives.ReplayingDrive):
        return drive
    name, kind = specification["drive"]["name"], specification["drive"]["kind"]
    raise MeasureError(
        f"drive '{printable(name)}': a drive of kind '{kind}' cannot replay the trace"
        f" {printable(specification['replay']['trace'])}. Name a simulated drive."
    )


def _replay(root: Path, drive: drives.ReplayingDrive, raw: Path, metadata: records.CellMetadata) -> None:
    """Replay a phase of a block trace on a simulated drive, instead of running fio.

    A summary of the replay is written to the raw file, and its metadata file beside it.

    Args:
        root: The project folder.
        drive: The simulated drive.
        raw: The path of the raw file.
        metadata: The metadata that all repetitions of the cell share. Its specification names the trace and the phase.
    """
    replay = metadata["specification"]["replay"]
    before, started_s, clock = machine.load_snapshot(), time.time(), time.monotonic()
    command, content, counters = drive.replay(root, replay)
    temporary = files.partial_path(raw)
    try:
        files.write_json(temporary, content)
        outcome = fio.FioOutcome(started_s, time.time(), time.monotonic() - clock, counters=counters)
        _keep(temporary, raw, _repetition_metadata(metadata, raw, command, before, outcome))
    finally:
        temporary.unlink(missing_ok=True)


def _doubts(metadata: records.RepetitionMetadata, moved_bytes: int) -> list[str]:
    """Return what makes a repetition on a real drive doubtful, given its metadata.

    Each doubt is a short text, such as "a busy machine". The list is empty if there is no doubt.

    Args:
        metadata: The metadata of the repetition.
        moved_bytes: How many bytes fio read and wrote.
    """
    from iopatterns.measuring import health
    from iopatterns.measuring.tuning import disk_settings

    specification, before = metadata["specification"], metadata["before"]
    is_kernel_view_set = "write_cache" in specification.get("settings", {})
    disagree = disk_settings.write_caches_disagree(metadata["write_cache"])
    doubts = [
        (
            (metadata["others_bytes"] or 0) > max(_MAX_OTHERS_SHARE * moved_bytes, _MAX_OTHERS_BYTES),
            "other I/O on the disk",
        ),
        (not specification["fio"].get("direct"), "through the page cache"),
        (before["cpu_governor"] not in {None, "performance"}, f"CPU governor {before['cpu_governor']}"),
        (before["load_average"][0] > (os.cpu_count() or 1), "a busy machine"),
        (disagree and not is_kernel_view_set, "drive and kernel disagree on the write cache"),
    ]
    found = [text for is_doubtful, text in doubts if is_doubtful]
    return found + health.health_doubts(metadata["health"]["before"], metadata["health"]["after"])


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
