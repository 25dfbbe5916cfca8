"""Rule `judge`: the claims and published numbers of all studies, judged by what was measured."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.analysis import scorecard
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

parameters = snakemake.params
try:
    judged = {
        study: scorecard.judge(Path.cwd(), study, confidence=parameters.confidence, method=parameters.method)
        for study in parameters.studies
    }
    scorecard.write(Path.cwd(), judged)
except IoPatternsError as error:
    sys.exit(bounded(str(error)))
