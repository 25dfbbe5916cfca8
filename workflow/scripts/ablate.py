"""Rule `ablate`: the claims judged with each mechanism off, and the record of it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded
from iopatterns.workflow import ablation

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

try:
    with messages.copied_to(Path(snakemake.log[0])):
        messages.say(ablation.record(Path.cwd(), snakemake.params.config, Path(ablation.FOLDER)))
except IoPatternsError as error:
    sys.exit(bounded(str(error)))
