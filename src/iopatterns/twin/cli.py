"""The command line `twin`, but for `twin run`, which has a module of its own."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from iopatterns.base import messages, schedulers, units
from iopatterns.base.errors import IoPatternsError
from iopatterns.twin import state


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Simulated drives that unmodified fio, sdparm and sg3-utils drive in virtual time."""


@commands.command(name="run", add_help_option=False)
def run_command() -> None:
    """Run a program on a twin: twin run MODEL -- COMMAND…"""


class _Size(click.ParamType[int]):
    """A size such as 512M, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return units.size_bytes(value)
        except ValueError as error:
            self.fail(f"{error}; give such as '512 MiB'", param, ctx)


class _Duration(click.ParamType[int]):
    """A time such as 10min, in whole seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            seconds = units.duration_us(value) // 1_000_000
        except ValueError as error:
            self.fail(f"{error}; give such as '10 min'", param, ctx)
        if seconds < 1:
            self.fail(f"{value!r} is less than a second", param, ctx)
        return seconds


_FILE = click.Path(path_type=Path, dir_okay=False)


@commands.command(name="linux", context_settings={"allow_interspersed_args": False})
@click.option(
    "--fs",
    "file_system",
    type=click.Choice(["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs", "none"]),
    default="ext4",
    show_default=True,
    help="File system on the drive; none: the bare drive.",
)
@click.option("--fs-size", "file_system_bytes", type=_Size(), help="Of the file system.  [default: the drive's]")
@click.option("--mkfs-options", default="", help="Options for mkfs, in one word.")
@click.option("--mount-options", default="", help="Options for mount, such as discard,noatime.")
@click.option(
    "--scheduler",
    type=click.Choice(schedulers.TODAY),
    help="Scheduler of the block layer.  [default: the model's]",
)
@click.option(
    "--queue",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another setting of the block layer, by its file in /sys/block/vda/queue, such as wbt_lat_usec=0.",
)
@click.option("--memory", "memory_bytes", type=_Size(), default="512 MiB", show_default=True, help="Of the guest.")
@click.option("--queue-depth", type=int, default=32, show_default=True, help="Requests that the drive holds at once.")
@click.option("--trace", type=_FILE, help="Write every request of the command (.parquet, .csv).")
@click.option("--trace-all", is_flag=True, help="Begin the trace with mkfs and mount.")
@click.option("--counters", type=_FILE, help="Write the drive's series over time (.parquet, .csv).")
@click.option("--interval", help="Virtual time between two snapshots of the counters.  [default: 100 ms]")
@click.option("--interval-bytes", help="Bytes written between two snapshots.")
@click.option("--state", type=click.Path(path_type=Path), help="Folder in which the drive keeps its settings.")
@click.option("--set", "settings", multiple=True, metavar="GROUP.NAME=VALUE", help="Another value of a parameter.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of all that is left to chance.")
@click.option("--keep", type=_FILE, metavar="IMAGE", help="Keep what is on the drive, as a sparse file.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The one folder of the host in which the command may write, at /mnt/folder ({folder}).",
)
@click.option(
    "--wall-limit",
    "wall_limit_s",
    type=_Duration(),
    default="10 min",
    show_default=True,
    help="Time on the wall after which all is ended.",
)
@click.option(
    "--real-time",
    is_flag=True,
    help="By the host's clock, with Debian's user-mode-linux: to try things out. Neither virtual nor repeatable.",
)
@click.option(
    "--drop-caches",
    is_flag=True,
    help="In the guest, reading /mnt/drop-caches empties the page cache. Moves the times of all else by a microsecond.",
)
@click.option("--kernel", type=_FILE, help="A kernel other than that of `./reproduce.sh linux`.")
@click.argument("model")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def linux_command(model: str, command: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND in a real Linux kernel whose /dev/vda is the twin MODEL, in virtual time.

    COMMAND is any program of this host. It runs as an ordinary user, on the file system of the drive (/mnt/drive), or
    beside the bare drive ({drive}, /dev/vda); all else is this host's, to be read alone. Output and exit status are
    the command's; 124: the wall limit, 125: the guest failed.
    """
    from iopatterns.twin import linux

    words = command[1:] if command[0] == "--" else command
    if not words:
        raise click.UsageError("needs a command after --")
    given = {name: value for name, value in options.items() if value is not None}
    linux.main(model, words, linux.Options(**given))


@commands.command(name="list")
def list_models() -> None:
    """List the models in data/twins."""
    from iopatterns.twin import models

    for name in models.names():
        model = models.load(name)
        size = f"{model.size_bytes / 1e9:.0f} GB"
        click.echo(f"{name:<16} {model.identity['transport']:<5} {size:>8}  {model.description}")


@commands.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def describe(model: str, as_json: bool) -> None:
    """Show every parameter of MODEL: its value, its unit, where it comes from."""
    from iopatterns.twin import models

    loaded = models.load(model)
    rows = models.describe(loaded)
    if as_json:
        names = ("value", "provenance", "source", "meaning")
        content = {
            "name": loaded.name,
            "description": loaded.description,
            "kind": loaded.kind,
            "identity": dict(loaded.identity),
            "digest": loaded.digest,
            "parameters": {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows},
            "fit": dict(loaded.fit),
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    click.echo(f"{loaded.name}: {loaded.description}")
    click.echo("  " + ", ".join(f"{key} {value}" for key, value in loaded.identity.items()))
    group = ""
    for name, value, provenance, source, meaning in rows:
        head, short = name.split(".")
        if head != group:
            group = head
            click.echo(f"\n{group}")
        click.echo(f"  {short:<22} {value:<20} {provenance:<10} {meaning}")
        click.echo(f"  {'':<22} {'':<20} {'':<10} ({source})")
    if loaded.fit:
        click.echo(f"\nfit to {loaded.fit['points']}")
        for use in ("fitted", "predicted"):
            for name, text in loaded.fit.get(use, {}).items():
                click.echo(f"  {use:<10} {name:<38} {text}")


@commands.command()
@click.argument("model")
@click.option("--state", "folder", type=click.Path(path_type=Path), help="The twin's folder.")
def reset(model: str, folder: Path | None) -> None:
    """Make a twin as it left the factory: forget its settings, saved ones included, and kept data."""
    folder = _folder(model, folder)
    for path in (folder / "mode-pages", folder / "content", *folder.glob("model-*")):
        path.unlink(missing_ok=True)
    click.echo(f"{folder}: as it left the factory")


def _folder(model: str, folder: Path | None) -> Path:
    """Return a twin's folder. Raises TwinError when there is no such model."""
    from iopatterns.twin import models

    path = models.locate(model)
    return folder or Path(state.default_state(str(path)))


def _lose_unsaved(settings: Path) -> None:
    """Make the saved settings the current ones, while no program changes them. Raises TwinError."""
    import fcntl
    import re

    from iopatterns.base import files
    from iopatterns.twin.error import TwinError

    descriptor = os.open(settings.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        found = re.fullmatch(r"current [0-9a-f]{40}\nsaved ([0-9a-f]{40})\n", settings.read_text(errors="replace"))
        if not found:
            raise TwinError(
                f"{settings}: no settings of a simulated drive. `twin reset` makes it as it left the factory."
            )
        files.write(settings, lambda temporary: temporary.write_text(f"current {found[1]}\nsaved {found[1]}\n"))
    finally:
        os.close(descriptor)


@commands.command("power-cycle")
@click.argument("model")
@click.option("--state", "folder", type=click.Path(path_type=Path), help="The twin's folder.")
def power_cycle(model: str, folder: Path | None) -> None:
    """Turn a twin off and on: settings that were not saved are lost."""
    folder = _folder(model, folder)
    settings = folder / "mode-pages"
    if settings.exists():
        _lose_unsaved(settings)
    click.echo(f"{folder}: settings are those that were saved")


@commands.command()
@click.argument("model")
@click.argument("trace", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--depth", type=click.IntRange(1), help="Requests in flight per thread; without it, by the trace's times."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads that submit.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Latencies of all requests (.parquet, .csv)."
)
@click.option("--counters", "counters_file", type=click.Path(path_type=Path, dir_okay=False), help="Series over time.")
@click.option("--interval", help="Simulated time between two snapshots of the counters.  [default: 100 ms]")
@click.option("--interval-bytes", help="Bytes written between two snapshots.")
@click.option("--set", "settings", multiple=True, metavar="GROUP.NAME=VALUE", help="Another value of a parameter.")
@click.option("--skip-bad", is_flag=True, help="Leave out faulty lines of the trace, and count them.")
def replay(  # noqa: PLR0917 - click calls it by names
    model: str,
    trace: Path,
    depth: int | None,
    threads: int,
    output: Path | None,
    counters_file: Path | None,
    interval: str | None,
    interval_bytes: str | None,
    settings: tuple[str, ...],
    skip_bad: bool,
) -> None:
    """Replay TRACE on MODEL without fio. Prints a summary and the drive's counters as JSON.

    TRACE is in any form that `twin trace` takes. It is replayed by its times (open loop), or with --depth requests in
    flight (closed loop).
    """
    from iopatterns.twin import counters, models, traces
    from iopatterns.twin.replaying import replay_to_files

    loaded = models.load(model).overridden(settings) if settings else models.load(model)
    skipped = traces.Skipped() if skip_bad else None
    summary, totals = replay_to_files(
        loaded,
        trace,
        depth=depth,
        threads=threads,
        output=output,
        counters_file=counters_file,
        interval_ns=counters.interval_ns(interval),
        interval_bytes=counters.interval_bytes(interval_bytes),
        skipped=skipped,
    )
    click.echo(json.dumps({"summary": summary, **_told(skipped), "counters": totals}, indent=2))


def _told(skipped: Any) -> dict[str, int]:
    """Say which lines of a trace were left out, and return their number for the JSON; nothing where none may be."""
    if skipped is None:
        return {}
    if skipped.count:
        print(
            messages.bounded("\n".join([f"twin: {skipped.count} faulty lines left out:", *skipped.first])),
            file=sys.stderr,
        )
    return {"skipped": skipped.count}


@commands.command()
@click.argument("trace", metavar="IN", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("output", metavar="OUT", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--issued", is_flag=True, help="Of blktrace: the requests as they went to the drive, not as queued.")
@click.option("--skip-bad", is_flag=True, help="Leave out faulty lines of the trace, and count them.")
def trace(trace: Path, output: Path, issued: bool, skip_bad: bool) -> None:
    """Convert the trace IN, of any form, to OUT, a Parquet file of our own form. Prints a summary as JSON.

    IN is CSV with a head or Parquet (operation, offset_bytes, size_bytes, and time_ns or time_us), an I/O log of fio,
    CSV of MSR Cambridge, the text of blkparse, or the binary records of blktrace.
    """
    from iopatterns.twin import traces

    skipped = traces.Skipped() if skip_bad else None
    done = traces.convert(trace, output, skipped=skipped, issued=issued)
    summary = {"form": done.form, "requests": done.requests, "duration_ns": done.duration_ns}
    click.echo(json.dumps({**summary, **_told(skipped)}, indent=2))


@commands.command()
@click.argument("model")
@click.option(
    "--points", type=click.Path(path_type=Path, dir_okay=False), multiple=True, help="Measured points: CSV or fio JSON."
)
@click.option("--move", multiple=True, metavar="GROUP.NAME", help="A parameter that may move.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the fitted model to this file.")
@click.option(
    "--most-error",
    type=click.FloatRange(0, min_open=True),
    help="Mean error of the fitted points, in percent, above which there is no fit.  [default: 20]",
)
@click.option("--ramp-time", type=click.FloatRange(0), metavar="S", help="Seconds that are not counted.  [default: 0]")
@click.option(
    "--runtime", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds that are counted.  [default: 2]"
)
@click.option("--set", "settings", multiple=True, metavar="GROUP.NAME=VALUE", help="Of the drive, for the fit alone.")
def fit(  # noqa: PLR0917 - click calls it by names
    model: str,
    points: tuple[Path, ...],
    move: tuple[str, ...],
    output: Path | None,
    most_error: float | None,
    ramp_time: float | None,
    runtime: float | None,
    settings: tuple[str, ...],
) -> None:
    """Fit MODEL to measured points: find the values of the parameters that may move.

    Without --points and --move, repeats the fit that the model's own file records. Of fio's results each section of the
    job file is a point, all its jobs together. Exits with 1, and writes nothing, where the model stays too far from the
    points (--most-error).
    """
    from iopatterns.twin import models
    from iopatterns.twin.fitting import MOST_ERROR, NoFitError, fit_files

    loaded = models.load(model)
    limit = MOST_ERROR if most_error is None else most_error / 100
    run = {"ramp_time_s": ramp_time, "runtime_s": runtime, "set": models.settings_of(settings) or None}
    given = {name: value for name, value in run.items() if value is not None}
    try:
        click.echo(fit_files(loaded, list(points), list(move), output, Path.cwd(), most_error=limit, given=given))
    except NoFitError as error:
        click.echo(error.report)
        raise


def main(arguments: list[str] | None = None, **extra: Any) -> None:
    """Run the command line: 2 for wrong usage or a bad model, 1 for a failure."""
    try:
        commands(arguments, prog_name="twin", standalone_mode=False, **extra)
    except click.ClickException as error:
        error.show(told := io.StringIO())
        print(messages.bounded(told.getvalue().rstrip()), file=sys.stderr)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except IoPatternsError as error:
        print(messages.bounded(f"twin: {error}"), file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        about = [str(part) for part in (error.filename, error.strerror or error) if part is not None]
        print(messages.bounded(f"twin: {': '.join(about)}"), file=sys.stderr)
        sys.exit(1)
