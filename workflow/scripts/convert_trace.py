"""Rule `convert_trace`: convert a user's trace into the form that notebooks read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns import calls
from iopatterns.base import command_line, messages
from iopatterns.workflow import provenance

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with (
    messages.copied_to(Path(snakemake.log[0])),
    command_line.errors_reported("iopatterns"),
    provenance.recorded(snakemake),
):
    paths = [Path(snakemake.input.calls)]
    trace = calls.open_trace(paths, name=snakemake.wildcards.trace, only=snakemake.params.only)
    calls.convert_calls(trace, Path(snakemake.output.calls), paths)
