"""Rule `scale`: collect the measurements at the scale of the sources, and compare the default run with them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, messages
from iopatterns.measuring import progress
from iopatterns.workflow import scale, scale_runs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

# The progress of a run counts the repetitions of its own cells, and these are other cells
os.environ.pop(progress.PROGRESS_VARIABLE, None)
# The log alone lists the raw files that exist
with messages.copied_to(Path(snakemake.log[0]), notes_to_log_only=True), command_line.errors_reported("iopatterns"):
    scale_runs.measure_at_scale(Path.cwd(), snakemake.params.config)
    messages.say(scale.record_scale(Path.cwd(), snakemake.params.config, snakemake.params.results))
