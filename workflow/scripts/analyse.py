"""Rules `analyse_*`: a study's notebook, executed with the parameters of the configuration."""

from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line
from iopatterns.measuring import progress
from iopatterns.workflow.notebooks import execute

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with command_line.errors_reported("iopatterns"):
    execute(snakemake.input.notebook, snakemake.log.notebook, snakemake.params.parameters)
progress.took("analysis")
