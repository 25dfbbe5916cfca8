"""What a scorecard holds: the verdict on each claim and published value of a study, and their counts."""

from typing import Any, NotRequired, TypedDict

# A number as the scorecard has it; a word is a scheduler or the like, None what is not finite or was not measured
ScorecardValue = float | str | None

# In functional form, for `class` is a keyword of Python
_OfClass = TypedDict("_OfClass", {"class": str, "class_because": str})


class CheckVerdict(TypedDict):
    """What became of one of several checks of a claim, in words."""

    says: str
    expected: str
    found: str
    finding: str


class PartVerdict(TypedDict):
    """One comparison that the check of a claim is made of."""

    label: str
    value: ScorecardValue
    low: ScorecardValue
    high: ScorecardValue
    status: str
    off_percent: float | None


class ClaimVerdict(_OfClass):
    """What became of a claim. One that is untestable has no statistic, and nothing was found of it."""

    id: str
    place: str
    quote: str
    says: str
    drive: str | None  # of yours, to which the check was put; None: the drives of the source
    status: str
    finding: str  # what it came to regardless of whether the source contradicts it
    because: str
    bounds: list[str]  # ids of the published values that it is held against
    compared: ScorecardValue
    parts: list[PartVerdict]
    statistic: NotRequired[str]
    expected: NotRequired[str]
    found: NotRequired[str]
    holding: NotRequired[int]
    worst: NotRequired[str | None]
    off_percent: NotRequired[float | None]
    readings: NotRequired[list[CheckVerdict]]


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


class ValueVerdict(PublishedRow, _OfClass):
    """What became of a published value."""

    status: str
    finding: str
    because: str
    measured: float | None
    error_percent: float | None
    measured_by: str  # id of the claim that measures it; empty where it is measured by itself


class ClaimCounts(TypedDict):
    """How many claims can be checked and are not contradicted by their source, and how many of these hold."""

    checkable: int
    hold: int


class ErrorSummary(TypedDict):
    """How far some published values are off; without any there is but their number."""

    values: int
    mean_absolute_percent: NotRequired[float | None]
    largest_percent: NotRequired[float]
    largest_at: NotRequired[str]


class ResultsByClass(TypedDict):
    """Verdicts on claims and errors of values, by class (see `classes`)."""

    claims: dict[str, ClaimCounts]
    values: dict[str, ErrorSummary]


class StudyVerdicts(ClaimCounts):
    """What became of the claims and numbers of a study."""

    claims: list[ClaimVerdict]
    values: list[ValueVerdict]
    contradictions: list[dict[str, Any]]
    counts: dict[str, dict[str, int]]  # of claims and values, by status
    held_out: bool  # whether its values are data sheets', held out from every fit
    tolerance: float
    by_class: ResultsByClass
    ablation: dict[str, Any]
    own: dict[str, ClaimCounts]
    configuration: NotRequired[dict[str, Any]]  # what the study was configured with, as a run adds it
