"""Rules `analyse_*`: execute the notebook of a study."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line
from iopatterns.configuration import config
from iopatterns.measuring import progress
from iopatterns.workflow import provenance
from iopatterns.workflow.notebooks import execute_notebook, require_outputs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

began_s = time.time()
with command_line.errors_reported("iopatterns"), provenance.recorded(snakemake):
    # not among the parameters of the rule: another limit is no reason to execute the notebook again
    limit_s = config.load_config(Path.cwd(), snakemake.config).notebook_limit_s
    execute_notebook(
        snakemake.input.notebook, snakemake.log.notebook, snakemake.params.parameters, cell_limit_s=limit_s
    )
    made = [path for path in snakemake.output if path != snakemake.output.record]
    require_outputs(snakemake.input.notebook, made, began_s)
progress.record_job_time("analysis")
