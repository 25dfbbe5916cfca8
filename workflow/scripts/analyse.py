"""Rules `analyse_*`: execute the notebook of a study."""

import time
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line
from iopatterns.measuring import progress
from iopatterns.workflow.notebooks import execute_notebook, require_outputs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

began_s = time.time()
with command_line.errors_reported("iopatterns"):
    execute_notebook(snakemake.input.notebook, snakemake.log.notebook, snakemake.params.parameters)
    require_outputs(snakemake.input.notebook, snakemake.output, began_s)
progress.record_job_time("analysis")
