"""The command line `twin`, but for `twin run`, which has a module of its own."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.twin import state


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Simulated drives that unmodified fio, sdparm and sg3-utils drive in virtual time."""


@commands.command(name="run", add_help_option=False)
def run_command() -> None:
    """Run a program on a twin: twin run MODEL -- COMMAND…"""


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
) -> None:
    """Replay TRACE on MODEL without fio. Prints a summary and the drive's counters as JSON.

    TRACE is CSV or Parquet (operation, offset_bytes, size_bytes, and time_ns or time_us) or an I/O log of fio. It is
    replayed by its times (open loop), or with --depth requests in flight (closed loop).
    """
    from iopatterns.twin import counters, models
    from iopatterns.twin.replaying import replay_to_files

    loaded = models.load(model).overridden(settings) if settings else models.load(model)
    summary, totals = replay_to_files(
        loaded,
        trace,
        depth=depth,
        threads=threads,
        output=output,
        counters_file=counters_file,
        interval_ns=counters.interval_ns(interval),
        interval_bytes=counters.interval_bytes(interval_bytes),
    )
    click.echo(json.dumps({"summary": summary, "counters": totals}, indent=2))


@commands.command()
@click.argument("model")
@click.option(
    "--points", type=click.Path(path_type=Path, dir_okay=False), multiple=True, help="Measured points: CSV or fio JSON."
)
@click.option("--move", multiple=True, metavar="GROUP.NAME", help="A parameter that may move.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the fitted model to this file.")
def fit(model: str, points: tuple[Path, ...], move: tuple[str, ...], output: Path | None) -> None:
    """Fit MODEL to measured points: find the values of the parameters that may move.

    Without --points and --move, repeats the fit that the model's own file records.
    """
    from iopatterns.twin import models
    from iopatterns.twin.fitting import fit_files

    loaded = models.load(model)
    click.echo(fit_files(loaded, list(points), list(move), output, Path.cwd()))


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
