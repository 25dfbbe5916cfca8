"""The hidden command `iopatterns measure`, which the workflow calls."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from iopatterns.commands import job
from iopatterns.commands.arguments import DIE_WITH_PARENT_OPTION, FILE_PATH, LOG_OPTION

if TYPE_CHECKING:
    from iopatterns.raw.records import Specification


@click.command(hidden=True)
@click.option(
    "--specification", "specifications", required=True, multiple=True, help="Specification of a cell, as JSON."
)
@LOG_OPTION
@DIE_WITH_PARENT_OPTION
@click.option("--host", help="Host of the drive. On any other host the command fails.")
@click.argument("raw_files", nargs=-1, required=True, type=FILE_PATH)
def command(
    specifications: tuple[str, ...],
    log: Path | None,
    die_with_parent: bool,
    host: str | None,
    raw_files: tuple[Path, ...],
) -> None:
    """Measure cells: run fio for each missing raw file.

    A cell is one configuration: a drive, its settings and a workload.

    The folder of a raw file names the cell, and thereby the specification, of the raw file.
    """
    from iopatterns.measuring.cell import measure_cells

    cells = [_specification(text) for text in specifications]
    with job.running_job(log, die_with_parent=die_with_parent):
        job.require_host(host)
        measure_cells(Path.cwd(), cells, raw_files)


def _specification(text: str) -> "Specification":
    """Return the specification of a cell from its JSON text. Raises BadParameter."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--specification") from None
    if not isinstance(content, dict):
        raise click.BadParameter("not a JSON object", param_hint="--specification")
    return cast("Specification", content)
