"""Rule `robustness`: record how far the claims of all studies depend on parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, messages
from iopatterns.workflow import robustness

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with messages.copied_to(Path(snakemake.log[0])), command_line.errors_reported("iopatterns"):
    measured = dict(zip(snakemake.params.studies, map(Path, snakemake.input.measured), strict=True))
    messages.say(robustness.write_records(Path.cwd(), snakemake.params.config, measured))
