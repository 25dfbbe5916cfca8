"""Rules `analyse_*`: execute the notebook of a study."""

import time
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line
from iopatterns.measuring import progress
from iopatterns.workflow import provenance
from iopatterns.workflow.notebooks import execute_notebook, require_outputs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

began_s = time.time()
with command_line.errors_reported("iopatterns"), provenance.recorded(snakemake):
    limit_s = snakemake.resources.cell_limit_s
    execute_notebook(
        snakemake.input.notebook, snakemake.log.notebook, snakemake.params.parameters, cell_limit_s=limit_s
    )
    made = [path for path in snakemake.output if path != snakemake.output.record]
    require_outputs(snakemake.input.notebook, made, began_s)
progress.record_job_time("analysis")
