"""The content of results/scorecard.json: verdicts on claims and published values, and their counts."""

from typing import Any, NotRequired, TypedDict

# A number; text for an outcome or status, None for a number that is not finite
ScorecardValue = float | str | None

# In functional form, because `class` is a keyword of Python
_Classified = TypedDict("_Classified", {"class": str, "class_because": str})


class ClaimVerdict(_Classified):
    """The verdict on a claim. A claim without a check lacks the last eight keys.

    Attributes:
        drive: The user's drive that the checks were applied to; None for the drives of the source.
        status: One of `scorecard.STATUSES`.
        finding: The status regardless of whether the source contradicts itself.
        because: Why the claim was not reproduced or not tested; may be empty.
        bounds: The ids of the published values that the claim is compared with.
        compared: The statistic in the unit of the published value that it should equal.
        parts: The verdict at each combination of levels: label, value, low, high, status and off_percent, see
            `claims.PartResult`.
        holding: The number of reproduced parts.
        worst: The label of the part that is farthest off, if any part is off.
        off_percent: How far the worst part is off, relative to the bound; None if this is infinite.
        readings: For a claim with several checks, each check's says, expected, found and finding.
    """

    id: str
    place: str
    quote: str
    says: str
    drive: str | None
    status: str
    finding: str
    because: str
    bounds: list[str]
    compared: float | None
    parts: list[dict[str, ScorecardValue]]
    statistic: NotRequired[str]
    expected: NotRequired[str]
    found: NotRequired[str]
    holding: NotRequired[int]
    worst: NotRequired[str | None]
    off_percent: NotRequired[float | None]
    readings: NotRequired[list[dict[str, str]]]


class PublishedRow(TypedDict):
    """A published value, as its row of values.csv has it."""

    id: str
    place: str
    quantity: str
    drive: str
    rw: str
    bs: str
    conditions: str
    relation: str
    printed: str
    unit: str
    quote: str


class ValueVerdict(PublishedRow, _Classified):
    """The verdict on a published value; ``measured_by`` is the id of the claim that measured it, or empty."""

    status: str
    finding: str
    because: str
    measured: float | None
    error_percent: float | None
    measured_by: str


class ClaimCounts(TypedDict):
    """The number of claims that can be checked and are not contradicted by their source, and of those reproduced."""

    checkable: int
    hold: int


class StudyVerdicts(ClaimCounts):
    """The verdicts on all claims and published values of a study.

    Attributes:
        counts: The number of claims and of values by status.
        held_out: Whether no model may be fitted to the study's values.
        by_class: For each class (see `evidence`), the counts of ``claims``; and of ``values`` the number, the mean
            absolute error, the largest error and its place.
        own: The counts of claims for each drive of the user.
        configuration: The study's settings, see `expected_verdicts.study_settings`; added by the rule `judge`.
    """

    claims: list[ClaimVerdict]
    values: list[ValueVerdict]
    contradictions: list[dict[str, Any]]
    counts: dict[str, dict[str, int]]
    held_out: bool
    tolerance: float
    by_class: dict[str, Any]
    ablation: dict[str, Any]
    own: dict[str, ClaimCounts]
    configuration: NotRequired[dict[str, Any]]
