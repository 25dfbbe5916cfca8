"""What a notebook says of its results: a paragraph each, in words that the numbers choose."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label, significant
from iopatterns.configuration.factors import scale

# Less than this is told as no change; it is a way of speaking, not a test
_CHANGE = 0.05


def over_levels(rows: pd.DataFrame, factor: str, of: str) -> str:
    """Return what becomes of a quantity from the first to the last level of a factor, for each drive and workload.

    ``rows``: as ``analysis.study.Study.summary`` returns it by ``factor``. Where a level between lies beyond both ends,
    it is named. Empty for no rows, or where no workload has two levels.
    """
    told = []
    for drive, here in rows.groupby("drive", sort=False):
        parts = []
        for rw in [name for name in WORKLOAD_NAMES if name in set(here["rw"])]:
            curve = here[here["rw"] == rw].sort_values(factor, kind="stable")
            if len(curve) > 1:
                parts.append(f"{WORKLOAD_NAMES[rw].lower()} {_course(curve, factor)}")
        if parts:
            told.append(f"{drive}: {'; '.join(parts)}")
    if not told:
        return ""
    texts = scale(factor, rows[factor])
    first, last = (texts.texts[level] for level in (rows[factor].min(), rows[factor].max()))
    return f"{quantities.get(of).label} from {texts.label} {first} to {last}. {'. '.join(told)}."


def _course(curve: pd.DataFrame, factor: str) -> str:
    """Return how a curve ends beside how it begins, and where its extreme lies if that is between."""
    first, last = float(curve["mean"].iloc[0]), float(curve["mean"].iloc[-1])
    text = f"{_factor_text(last / first)}" if first else "–"
    texts = scale(factor, curve[factor]).texts
    between = [(float(mean), texts[level]) for mean, level in zip(curve["mean"], curve[factor], strict=True)][1:-1]
    if between and first:
        (lowest, at_lowest), (highest, at_highest) = min(between), max(between)
        if lowest < (1 - _CHANGE) * min(first, last):
            text += f" (at {at_lowest}: {significant(lowest / first)} times)"
        if highest > (1 + _CHANGE) * max(first, last):
            text += f" (at {at_highest}: {significant(highest / first)} times)"
    return text


def _factor_text(ratio: float) -> str:
    if abs(ratio - 1) <= _CHANGE:
        return "stays"
    times = significant(ratio)
    return f"grows to {times} times what it was" if ratio > 1 else f"falls to {times} of what it was"


def gap(rows: pd.DataFrame, by: Sequence[str], value: str) -> str:
    """Return the ratio of random to sequential access of reads and writes, smallest to largest, of each drive.

    ``rows``: a summary with drive, rw, ``by`` and ``value``. Each sentence says at which level the gap is widest.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        for operation in ("read", "write"):
            means = here.pivot_table(index=list(by), columns="rw", values=value, sort=True)
            if not {operation, f"rand{operation}"} <= set(means.columns):
                continue
            ratios = (means[f"rand{operation}"] / means[operation]).dropna()
            if ratios.empty:
                continue
            low, high = float(ratios.min()), float(ratios.max())
            where = _levels(by, ratios.idxmin())
            what = f"On {drive} random {operation}s"
            if low > 1 - _CHANGE:
                sentences.append(f"{what} are as fast as sequential ones ({low:.2f} to {high:.2f}).")
            else:
                reached = f"{low:.2f} to {high:.2f} of the bandwidth of sequential ones"
                sentences.append(f"{what} reach {reached}, least at {where}.")
    return " ".join(sentences)


def _levels(by: Sequence[str], key: Any) -> str:
    levels = key if isinstance(key, tuple) else (key,)
    parts: Mapping[str, Any] = dict(zip(by, levels, strict=True))
    return ", ".join(
        block_label(int(level))
        if name == "bs_bytes"
        else f"{scale(name, [level]).label} {scale(name, [level]).texts[level]}"
        for name, level in parts.items()
    )


def verdicts(table: pd.DataFrame, what: str) -> str:
    """Return which rows of a table of verdicts have an effect, and how many have none.

    ``table``: the data of ``scheduler_table`` or ``settings_table``; ``what``: its column that names the setting.
    """
    effect = list(dict.fromkeys(table.loc[table["verdict"] == "effect", what]))
    none = int((table["verdict"] == "no effect").sum())
    rest = len(table) - none - int((table["verdict"] == "effect").sum())
    text = f"Of {len(table)} comparisons {none} show no effect, by a test of equivalence"
    text += f"; an effect have those of {', '.join(effect)}" if effect else "; none shows an effect"
    return text + (f"; {rest} are undecided, or the setting was not taken." if rest else ".")
