"""Types of the content of scorecard.json in a results folder.

The file has the verdicts on claims and published values, and their counts.
"""

from typing import Any, NotRequired, TypedDict

# A number; text for an outcome or status, None for a number that is not finite
ScorecardValue = float | str | None

# In functional form, because `class` is a keyword of Python
_Classified = TypedDict("_Classified", {"class": str, "class_because": str})


class ClaimVerdict(_Classified):
    """The verdict on a claim. A claim without checks lacks the last seven keys.

    Attributes:
        id: The id of the claim in claims.yaml.
        place: Where the source makes the claim, such as ``Section 3``.
        quote: The words of the source.
        says: The claim in our words.
        drive: The user's drive that the checks were applied to; None for the drives of the source.
        status: One of `scorecard.STATUSES`.
        finding: The status, regardless of whether the source contradicts itself.
        because: Why the claim was not reproduced or not tested; may be empty.
        bounds: The ids of the published values that the claim is compared with.
        compared: The measured statistic in the unit of the published value that it should equal; None unless the claim
            has a single check for equality with a single result.
        parts: The result at each combination of levels, with the keys label, value, low, high, status and off_percent.
            See `claims.PartResult`.
        statistic: What is computed, as text.
        expected: The criterion, as text.
        found: The range of the computed values, as text.
        holding: The number of reproduced parts.
        worst: The label of the part with the largest distance from its bound or number; None if all distances are 0.
        off_percent: The distance of the worst part, in percent of its bound or number; None without parts or if the
            distance is infinite.
        readings: For a claim with several checks, the keys says, expected, found and finding of each check; otherwise
            empty.
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
    """A published value: a row of data/published/<study>/values.csv.

    The file data/published/README.md explains the columns. ``printed`` has the digits as the source prints them.
    """

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
    """The verdict on a published value, in addition to the columns of values.csv.

    Attributes:
        status: One of `scorecard.STATUSES`.
        finding: The status, regardless of whether the source contradicts itself.
        because: Why the value was not reproduced or not measured; may be empty.
        measured: The measured mean in the unit of the published value; None if it was not measured.
        error_percent: The relative error of the measured mean in percent. None without a measurement, for a published
            zero, and for a published limit that is respected and not held out.
        measured_by: The id of the claim whose statistic supplied the measured number; empty if none did.
    """

    status: str
    finding: str
    because: str
    measured: float | None
    error_percent: float | None
    measured_by: str


class ClaimCounts(TypedDict):
    """Counts of claims.

    Attributes:
        checkable: The number of claims that were measured, and that their source does not contradict.
        hold: The number of checkable claims that are reproduced.
    """

    checkable: int
    hold: int


class StudyVerdicts(ClaimCounts):
    """The verdicts on all claims and published values of a study.

    The counts ``checkable`` and ``hold`` are about the drives of the source.

    Attributes:
        claims: The verdicts on claims, first on the drives of the source, then on each drive of the user.
        values: The verdicts on published values.
        contradictions: The contradictions within the source, as in claims.yaml.
        counts: For ``claims`` and ``values``, the number of verdicts with each status.
        held_out: Whether the study's values are reserved for testing models, so that no model may be fitted to them.
        tolerance: The relative error up to which a value is within tolerance.
        by_class: For ``claims``, the counts of each evidence class (see `evidence`). For ``values``, the number, mean
            absolute error, largest error and its place, for each evidence class.
        ablation: The record of the claims that depend on single mechanisms, see `ablation.load_ablation_records`; empty
            without a record.
        own: The counts of claims on each drive of the user, by drive.
        configuration: The study's settings, see `expected_verdicts.study_settings`; added by the Snakemake rule
            `judge`.
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
