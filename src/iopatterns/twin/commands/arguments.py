"""Arguments and options that several commands of `twin` share, and their types."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iopatterns.base import units
from iopatterns.base.command_line import CompletedName
from iopatterns.twin import state

if TYPE_CHECKING:
    from iopatterns.twin import traces


class ModelNameType(CompletedName):
    """Type of a click argument: name of a model in data/twins, or path of a file.

    A model is a YAML file with the parameters of a simulated drive. The value is text, which this type does not check.
    The shell completes the names.
    """

    name = "model"

    def names(self) -> Iterable[str]:
        """Return the names of the models in data/twins, in any order."""
        return [path.stem for path in Path(state.models_folder()).glob("*.yaml")]


class QuantityType(click.ParamType[int]):
    """Type of a click option whose value is a number with a unit, such as ``512 MiB``.

    The option's function receives an integer in a base unit, such as bytes.
    """

    def __init__(self, name: str, parse: Callable[[str], int], example: str) -> None:
        """Define a type of option for one kind of quantity.

        Args:
            name: Name of the quantity in help texts and messages, such as ``size``.
            parse: Converts the text to an integer in the base unit, such as bytes. It raises ValueError if the text is
                not valid.
            example: A valid text, for messages, such as ``512 MiB``.
        """
        self.name = name
        self._parse = parse
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the value of an option in its base unit, such as bytes.

        Args:
            value: The text, such as ``512 MiB``; or an integer in the base unit, which is returned unchanged.
            param: The option, for the error message.
            ctx: The context of the command, for the error message.

        Raises:
            click.BadParameter: The text is not valid.
        """
        try:
            return value if isinstance(value, int) else self._parse(value)
        except ValueError as error:
            self.fail(f"{error}; give a {self.name} such as '{self._example}'", param, ctx)


def _parse_seconds(text: str) -> int:
    """Return a time such as ``10 min`` in seconds, rounded down.

    Raises:
        ValueError: The text is not a time with a unit, or the time is less than a second.
    """
    seconds = units.parse_duration_us(text) // 1_000_000
    if seconds < 1:
        raise ValueError(f"{text!r} is less than a second")
    return seconds


SIZE_TYPE = QuantityType("size", units.parse_size, "512 MiB")
SECONDS_TYPE = QuantityType("time", _parse_seconds, "10 min")
FILE_TYPE = click.Path(path_type=Path, dir_okay=False)
MODEL_ARGUMENT = click.argument("model", type=ModelNameType())
STATE_OPTION = click.option(
    "--state",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the settings of the drive.  [default: a folder of the model in your home]",
)
SET_OPTION = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="GROUP.NAME=VALUE",
    help="Value of a parameter, which overrides the model; may be given several times.",
)
INTERVAL_OPTION = click.option(
    "--interval",
    "interval_ns",
    type=QuantityType("time", lambda text: units.parse_duration_us(text) * 1000, "10 ms"),
    default="100 ms",
    show_default=True,
    help="Virtual time between two snapshots of the counters.",
)
INTERVAL_BYTES_OPTION = click.option(
    "--interval-bytes", type=SIZE_TYPE, default=0, help="Written bytes between two snapshots."
)
PATHS_ARGUMENT = click.argument("paths", metavar="[PATH]...", nargs=-1)
_TRACE_OPTIONS = (
    click.option(
        "--volume",
        "volumes",
        multiple=True,
        metavar="NAME",
        help="Disk or file of the trace to read; may be given several times.  [default: all, one after another]",
    ),
    click.option(
        "--sample",
        type=click.FloatRange(0, 1, min_open=True),
        default=1,
        metavar="SHARE",
        help="Share of the blocks of 4 KiB whose requests are read, such as 0.01.",
    ),
    click.option("--sample-seed", type=click.IntRange(0, 2**62), default=0, help="Seed of the choice of blocks."),
    click.option("--adapter", default="", metavar="FILE.py:CLASS", help="Class that reads another format."),
    click.option("--skip-bad", is_flag=True, help="Skip and count faulty lines of the trace."),
)


def trace_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading a block trace to the function of a click command.

    `reading_options` returns their values.
    """
    for option in reversed(_TRACE_OPTIONS):
        function = option(function)
    return function


def reading_options(path: Path, given: dict[str, Any]) -> "traces.ReadingOptions":
    """Return how to read a block trace, from the values of the options that `trace_options` adds.

    A message on standard error says what the format of a file without a header is taken to be.

    Args:
        path: The trace file.
        given: The values by name, which are removed from this dictionary.

    Raises:
        TwinError: The file is missing, or is not a trace.
    """
    from iopatterns.twin import traces

    skipped = traces.SkippedLines() if given.pop("skip_bad") else None
    chosen = traces.ReadingOptions(
        skipped=skipped,
        volumes=given.pop("volumes"),
        sample=given.pop("sample"),
        sample_seed=given.pop("sample_seed"),
        adapter=given.pop("adapter"),
        coverage=traces.Coverage(),
    )
    if not chosen["adapter"] and (guess := traces.describe_guess(path)):
        click.echo(f"twin: {guess}. Give --adapter FILE.py:CLASS if it is something else.", err=True)
    return chosen


def state_folder_of(model: str, folder: Path | None) -> Path:
    """Return the state folder of a simulated drive, which is created if it is missing.

    The drive keeps its settings in this folder from one run to the next.

    Args:
        model: Name of a model in data/twins, such as ``px05smb040``, or path of a model file.
        folder: The folder that the user gave; None for the default folder of the model, ``iopatterns/twins/NAME`` below
            ``$XDG_STATE_HOME`` (by default ``~/.local/state``).

    Raises:
        TwinError: The model does not exist.
        OutputError: The folder contains files that no simulated drive wrote.
        OSError: The folder cannot be created.
    """
    from iopatterns.twin import models

    path = models.find_model_file(model)
    folder = folder or Path(state.default_state_folder(str(path)))
    state.claim_state_folder(str(folder))
    return folder
