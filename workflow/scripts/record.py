"""Rule `record`: a workload in a real kernel on a twin, and the trace of what its drive was asked."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded
from iopatterns.workflow import capture

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

try:
    with messages.copied_to(Path(snakemake.log[0])):
        of = snakemake.wildcards
        capture.record(Path.cwd(), of.study, of.recording, Path(snakemake.output[0]))
except IoPatternsError as error:
    sys.exit(bounded(str(error)))
