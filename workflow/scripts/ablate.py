"""Rule `ablate`: judge the claims of all runs, and record the outcomes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, messages
from iopatterns.workflow import ablation

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with messages.copied_to(Path(snakemake.log[0])), command_line.errors_reported("iopatterns"):
    messages.say(ablation.record_ablation(Path.cwd(), snakemake.params.config, Path(ablation.ABLATION_FOLDER)))
