"""Arguments and options that several commands of `twin` share, and their types."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from iopatterns.base import units
from iopatterns.base.command_line import CompletedName
from iopatterns.twin import state


class ModelNameType(CompletedName):
    """The name of a model in data/twins, or the path of a model file."""

    name = "model"

    def names(self) -> Iterable[str]:
        """Return the names of the models."""
        return [path.stem for path in Path(state.models_folder()).glob("*.yaml")]


class SizeType(click.ParamType[int]):
    """A size such as 512M, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return a size in bytes."""
        try:
            return units.parse_size(value)
        except ValueError as error:
            self.fail(f"{error}; give such as '512 MiB'", param, ctx)


class DurationType(click.ParamType[int]):
    """A time such as 10min, in whole seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return a time in seconds, at least one second."""
        if isinstance(value, int):
            return value
        try:
            seconds = units.parse_duration_us(value) // 1_000_000
        except ValueError as error:
            self.fail(f"{error}; give such as '10 min'", param, ctx)
        if seconds < 1:
            self.fail(f"{value!r} is less than a second", param, ctx)
        return seconds


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
    help="Value of a parameter in place of that of the model; may be given several times.",
)
INTERVAL_OPTION = click.option(
    "--interval", metavar="TIME", help="Virtual time between two snapshots of the counters.  [default: 100 ms]"
)
INTERVAL_BYTES_OPTION = click.option("--interval-bytes", metavar="SIZE", help="Written bytes between two snapshots.")
SKIP_BAD_OPTION = click.option("--skip-bad", is_flag=True, help="Skip and count faulty lines of the trace.")


def state_folder_of(model: str, folder: Path | None) -> Path:
    """Return the folder for the settings of a drive, by default that of its model. Raises TwinError for no model."""
    from iopatterns.twin import models

    path = models.find_model_file(model)
    return folder or Path(state.default_state_folder(str(path)))
