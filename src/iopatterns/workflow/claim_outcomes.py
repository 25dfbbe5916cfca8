"""Judge the claims of a study for runs with other parameters or without a mechanism.

Such a run has one repetition of each cell. A claim is a published statement that is checked. A cell is one
configuration: a drive, its settings and a workload.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.analysis import published
from iopatterns.configuration import study_files
from iopatterns.judging import evidence
from iopatterns.judging.check_statistics import CachedExecutions, ClaimsError
from iopatterns.judging.claims import ClaimChecks, Judge
from iopatterns.raw.tuning_steps import TuningRecords

# Claims are judged by means only, because the confidence intervals of so few repetitions would be wider than the effect
# of many parameters. At this confidence level intervals do not matter.
_MEANS_ONLY = 0.01
# A bound that is missed by less counts as respected, because means of so few repetitions differ by chance
_NOISE = 0.01


@dataclass(frozen=True)
class ClaimOutcome:
    """Whether a claim is reproduced in a run, and the values that decide it.

    Attributes:
        reproduced: Whether all parts of the claim are reproduced by their means.
        values: The value of each part of the claim. Empty if its statistic divides by a mean of zero.
    """

    reproduced: bool
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class StudyClaims:
    """The claims of a study that have checks.

    Attributes:
        checks: The checks of each claim, by the id of the claim.
    """

    checks: Mapping[str, ClaimChecks]

    @classmethod
    def load(cls, root: Path, study: str, claims: Sequence[Mapping[str, Any]]) -> "StudyClaims":
        """Return the checks of the claims of a study.

        Args:
            root: The project's folder.
            study: The name of the study.
            claims: The claims, as in claims.yaml.

        Raises:
            ClaimsError: A check is invalid.
            PublishedError: The published values of the study are invalid.
        """
        values = published.load_values(root / study_files.PUBLISHED_PLACE.format(study=study))
        parsed = {claim["id"]: ClaimChecks.parse(claim, values) for claim in claims}
        return cls({name: check for name, check in parsed.items() if check})

    def outcomes(self, executions: pd.DataFrame, steps: TuningRecords) -> dict[str, ClaimOutcome]:
        """Return the outcome of each claim that was measured, by the id of the claim.

        Only means count, not their confidence intervals. A claim whose statistic divides by a mean of zero is not
        reproduced.

        Args:
            executions: The repetitions, as `quantities.read_executions` returns them.
            steps: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it.
        """
        judge = Judge(executions, steps, _MEANS_ONLY)
        found = {}
        for name, check in self.checks.items():
            try:
                parts = judge.results(check)
            except ClaimsError:  # with other parameters, the statistic may divide by a mean of zero
                found[name] = ClaimOutcome(False, ())
                continue
            # an equivalence test may be undecided about a value within its margin
            reproduced = [part.holds or (not isinstance(part.value, str) and part.off <= _NOISE) for part in parts]
            if reproduced:
                found[name] = ClaimOutcome(all(reproduced), tuple(part.value for part in parts))
        return found

    def cells_by_claim(self, executions: pd.DataFrame) -> dict[str, set[tuple[str, str]]]:
        """Return the cells whose results each claim is computed from, as pairs of drive and name of the cell.

        Args:
            executions: The repetitions, as `quantities.read_executions` returns them.
        """
        rows = executions.groupby(["drive", "cell"], sort=False, as_index=False).first()
        marked, columns = evidence.marked_results(rows)
        cached = CachedExecutions(marked)
        places = list(zip(rows["drive"], rows["cell"], strict=True))
        return {
            name: {
                places[int(mark) // len(columns)]
                for estimate in check.estimates(cached)
                for group in estimate.groups
                for mark in group
            }
            for name, check in self.checks.items()
        }
