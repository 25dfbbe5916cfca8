"""Rule `ablate_mechanism`: measure with one mechanism switched off."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, messages
from iopatterns.base.signals import Interrupted
from iopatterns.measuring import fio, progress
from iopatterns.workflow import ablation_runs

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

fio.die_with_parent(signal.SIGTERM)
# The progress of a run counts the repetitions of its own cells, and these are other cells
os.environ.pop(progress.PROGRESS_VARIABLE, None)
try:
    with messages.copied_to(Path(snakemake.log[0])), command_line.errors_reported("iopatterns"):
        output = Path(snakemake.output[0]).with_suffix("")
        ablation_runs.measure_without_mechanism(Path.cwd(), snakemake.wildcards.run, snakemake.params.config, output)
except Interrupted as interrupt:
    sys.exit(128 + interrupt.signal_number)
