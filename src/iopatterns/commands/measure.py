"""The hidden command `iopatterns measure`.

The workflow calls it to measure cells. A cell is one configuration: a drive, its settings and a workload.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from iopatterns.base import subprocess_env
from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands import job
from iopatterns.commands.arguments import DIE_WITH_PARENT_OPTION, FILE_PATH, LOG_OPTION
from iopatterns.configuration import kinds

if TYPE_CHECKING:
    from iopatterns.raw.records import Specification


@click.command(hidden=True)
@click.option(
    "--specification", "specifications", required=True, multiple=True, help="Specification of a cell, as JSON."
)
@LOG_OPTION
@OVERWRITE_OPTION
@DIE_WITH_PARENT_OPTION
@click.option("--host", help="Host of the drive. On any other host the command fails.")
@click.argument("raw_files", nargs=-1, required=True, type=FILE_PATH)
def command(
    *,
    specifications: tuple[str, ...],
    log: Path | None,
    overwrite: bool,
    die_with_parent: bool,
    host: str | None,
    raw_files: tuple[Path, ...],
) -> None:
    """Measure cells: run fio for each missing raw file.

    A cell is one configuration: a drive, its settings and a workload. Its specification contains them as JSON. A raw
    file is the JSON output of fio in one repetition of a cell. The name of its folder ends with a hash of the
    specification, such as randread-4k-q1-j1-1a2b3c4d, and thereby selects one of the given specifications.
    """
    cells = [_specification(text) for text in specifications]
    if not all(_is_simulated(cell) for cell in cells):
        subprocess_env.restart_without_preloads()
    from iopatterns.measuring.cell import measure_cells

    with job.running_job(log, inputs=raw_files, overwrite=overwrite, die_with_parent=die_with_parent):
        job.require_host(host)
        measure_cells(Path.cwd(), cells, raw_files)


def _is_simulated(specification: "Specification") -> bool:
    drive: object = specification.get("drive")
    return isinstance(drive, dict) and drive.get("kind") in kinds.SIMULATED_KINDS


def _specification(text: str) -> "Specification":
    """Return the specification of a cell from its JSON text.

    Raises:
        click.BadParameter: The text is not a JSON object.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--specification") from None
    if not isinstance(content, dict):
        raise click.BadParameter("not a JSON object", param_hint="--specification")
    return cast("Specification", content)
