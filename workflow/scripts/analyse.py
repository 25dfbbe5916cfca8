"""Rules `analyse_*`: a study's notebook, executed with the parameters of the configuration."""

import sys
import time
from typing import TYPE_CHECKING, Any

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded
from iopatterns.measuring import progress
from iopatterns.workflow.notebooks import execute, require_outputs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

began_s = time.time()
try:
    execute(snakemake.input.notebook, snakemake.log.notebook, snakemake.params.parameters)
    require_outputs(snakemake.input.notebook, snakemake.output, began_s)
except IoPatternsError as error:
    sys.exit(bounded(str(error)))
progress.took("analysis")
