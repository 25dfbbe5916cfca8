"""Rule `record`: record the trace of a workload in a guest system."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, messages
from iopatterns.workflow import capture, provenance

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with (
    messages.copied_to(Path(snakemake.log[0])),
    command_line.errors_reported("iopatterns"),
    provenance.recorded(snakemake),
):
    of = snakemake.wildcards
    capture.record_trace(Path.cwd(), of.study, of.recording, Path(snakemake.output.trace))
