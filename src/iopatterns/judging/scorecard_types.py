"""Types of the content of scorecard.json in a results folder.

The file contains the verdicts on claims (published statements) and published values, and the counts of these verdicts.
"""

from typing import Any, NotRequired, TypedDict

# A number; text for an outcome or status, a truth value, None for a number that is not finite
ScorecardValue = float | str | None

# In functional form, because `class` is a keyword of Python
_Classified = TypedDict("_Classified", {"class": str, "class_because": str})


class ClaimVerdict(_Classified):
    """The verdict on a claim: whether a published statement is reproduced.

    A claim without checks lacks the keys from ``statistic`` to ``readings``. The keys ``class`` and ``class_because``
    are those of `evidence.EvidenceClass` (``name`` and ``because``).

    Attributes:
        id: The id of the claim in claims.yaml.
        place: Where the source makes the claim, such as ``Section 3``.
        quote: The words of the source.
        says: The claim in our words.
        drive: The user's drive that the checks were applied to; None for the drives of the source.
        status: One of `scorecard.STATUSES`, such as ``reproduced``.
        finding: The status that the measurements alone give. It differs from ``status`` only if the source contradicts
            itself.
        because: Why the claim was not reproduced or not tested; may be empty.
        bounds: The ids of the published values that the claim is compared with.
        compared: The measured statistic, in the unit of the published value that it should equal. None if the claim
            does not require equality, has a list of checks, or does not have exactly one result.
        parts: The result at each combination of levels, such as a block size and a depth. The keys label, value, low,
            high, status and close are those of `claims.PartResult`; off_percent is its ``off`` in percent.
        statistic: What is computed, as text.
        expected: The criterion, as text, such as ``≤ 3 ms``.
        found: The range of the computed values, as text, such as ``1.2 to 3.4 ms``.
        chosen: Whether we chose a threshold of a check, see `claims.Criterion.is_chosen`.
        close: Whether another threshold, at most 5 % from the value found, would give another status, see
            `claims.is_close`.
        holding: The number of parts that are reproduced or within tolerance.
        worst: The label of the part with the largest distance from the required bound or number; None if all distances
            are 0.
        off_percent: The distance of the worst part, in percent of the bound or number. None if there are no parts, or
            if the distance is infinite.
        readings: For a claim with a list of checks, a mapping for each check, with the keys says, expected, found,
            finding, chosen and close, the number of its ``parts``, and the number of them that are ``holding``. Empty
            for a claim with a single check.
        robustness: For a claim with a robustness record: the ``share`` of sampled parameter sets in which it is
            reproduced, the interval ``low`` to ``high`` of this share, the ``class`` (robust, contingent or not
            reproduced) and, if samples differ, the parameter that ``decides``. ``moved`` is false if no sample changes
            any value of the claim.
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
    chosen: NotRequired[bool]
    close: NotRequired[bool]
    holding: NotRequired[int]
    worst: NotRequired[str | None]
    off_percent: NotRequired[float | None]
    readings: NotRequired[list[dict[str, ScorecardValue]]]
    robustness: NotRequired[dict[str, ScorecardValue]]


class PublishedRow(TypedDict):
    """A published value: a row of data/published/STUDY/values.csv.

    The file data/published/README.md explains the columns. All fields are texts, and an empty field is an empty text.
    The field ``printed`` contains the digits of the value as the source prints them.
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

    The keys ``class`` and ``class_because`` are those of `evidence.EvidenceClass` (``name`` and ``because``).

    Attributes:
        status: One of `scorecard.STATUSES`, such as ``reproduced``.
        finding: The status that the measurements alone give. It differs from ``status`` only if the source contradicts
            itself.
        because: Why the value was not reproduced or not measured; may be empty.
        measured: The measured mean in the unit of the published value; None if it was not measured.
        error_percent: The relative error of the measured mean in percent. None if nothing was measured, or if zero was
            published. Also None for a published limit that the mean respects, unless the study is held out (reserved
            for testing models).
        measured_by: The id of the claim whose statistic supplied the measured number. Empty if the number is not from a
            claim.
    """

    status: str
    finding: str
    because: str
    measured: float | None
    error_percent: float | None
    measured_by: str


class ClaimCounts(TypedDict):
    """Counts of claims (published statements).

    Attributes:
        checkable: The number of claims that were measured, and that their source does not contradict.
        hold: The number of checkable claims that are reproduced or within tolerance.
    """

    checkable: int
    hold: int


class StudyVerdicts(ClaimCounts):
    """The verdicts on all claims and published values of a study.

    A claim is a published statement. The counts ``checkable`` and ``hold`` are about the drives of the source.

    Attributes:
        claims: The verdicts on claims, first on the drives of the source, then on each drive of the user.
        values: The verdicts on published values.
        contradictions: The contradictions within the source, as in claims.yaml.
        counts: The number of verdicts with each status, under the keys ``claims`` and ``values``.
        held_out: Whether the study's values are reserved for testing models, so that no model may be fitted to them.
        tolerance: The relative error up to which a value is within tolerance, such as 0.2.
        by_class: A summary of each evidence class, such as ``independent`` (see `evidence.EvidenceClass`). Under
            ``claims``: the counts of the claims in the class. Under ``values``: the number of values in the class
            (``values``), their mean absolute error (``mean_absolute_percent``), their largest error
            (``largest_percent``) and where it occurs (``largest_at``).
        ablation: The record of the claims that depend on single mechanisms of the simulation, see
            `ablation.load_ablation_records`. Empty without a record.
        robustness: The number of sampled parameter sets (``sets``), the effects of parameters (``screening``) and the
            changed inputs (``stale``) of the robustness record. Empty without a record.
        own: The counts of the claims that were applied to the user's drives, by drive.
        configuration: The study's settings, see `expected_verdicts.study_settings`; added by the Snakemake rule
            `judge`.
        scale: How far the run agrees with the scale of the source, see `scale_agreement.scale_agreement`; added by the
            Snakemake rule `judge`.
    """

    claims: list[ClaimVerdict]
    values: list[ValueVerdict]
    contradictions: list[dict[str, Any]]
    counts: dict[str, dict[str, int]]
    held_out: bool
    tolerance: float
    by_class: dict[str, Any]
    ablation: dict[str, Any]
    robustness: dict[str, Any]
    own: dict[str, ClaimCounts]
    configuration: NotRequired[dict[str, Any]]
    scale: NotRequired[dict[str, Any]]
