"""Sentences and numbers about measured results, for notebooks and reports."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.configuration.factors import level_scale

# A ratio of random to sequential access above this is described as "as fast"
_AS_FAST = 0.95


def random_to_sequential_text(rows: pd.DataFrame, by: Sequence[str], value: str) -> str:
    """Return sentences with the range of the ratio of random to sequential access on each drive.

    A sentence also gives the levels at which the ratio is smallest.

    Args:
        rows: A summary with the columns drive, rw, `value`, and those of `by`.
        by: The columns of the factors.
        value: The column of the mean.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        means = here.pivot_table(index=list(by), columns="rw", values=value, sort=True)
        for operation in ("read", "write"):
            if not {operation, f"rand{operation}"} <= set(means.columns):
                continue
            ratios = (means[f"rand{operation}"] / means[operation]).dropna()
            if ratios.empty:
                continue
            low, high = float(ratios.min()), float(ratios.max())
            if low > _AS_FAST:
                sentences.append(
                    f"On {drive}, random {operation}s are as fast as sequential {operation}s ({low:.2f} to {high:.2f})."
                )
                continue
            where = ratios.idxmin()
            levels = dict(zip(by, where if isinstance(where, tuple) else (where,), strict=True))
            sentences.append(
                f"On {drive}, random {operation}s reach {low:.2f} to {high:.2f} of the bandwidth of sequential"
                f" {operation}s; the ratio is smallest at {_levels_text(levels)}."
            )
    return " ".join(sentences)


def comparisons_text(table: pd.DataFrame, what: str) -> str:
    """Return a sentence with the numbers of settings that have an effect, have none, or are undecided.

    Args:
        table: The data of `report_tables.scheduler_effect_table` or `report_tables.setting_effect_table`.
        what: The column that names the setting.
    """
    names = ", ".join(dict.fromkeys(table.loc[table["verdict"] == "effect", what]))
    effects, none = (int((table["verdict"] == verdict).sum()) for verdict in ("effect", "no effect"))
    rest = len(table) - none - effects
    text = f"In tests of equivalence, {none} of {len(table)} comparisons show no effect"
    text += f"; comparisons with an effect: {effects} ({names})" if names else "; none shows an effect"
    return text + (f"; {rest} are undecided, or the drive did not take the setting." if rest else ".")


def range_of_means(rows: pd.DataFrame, by: Sequence[str], of: str, x: str) -> dict[str, Any]:
    """Return the smallest and the largest mean of an experiment, for the text of a report.

    Args:
        rows: The summary of the quantity, as `Study.summary` returns it by `by`.
        by: The columns of the factors.
        of: The name of the quantity.
        x: The factor on the horizontal axis of the experiment's figure.

    Returns:
        quantity, its unit and over (the factor `x`), as parts of a sentence; and means: the smallest and the largest
        mean, each with its mean and at (the levels at which it was measured). means is empty if no drive could run the
        experiment.
    """
    quantity = quantities.get_quantity(of)
    names = list(dict.fromkeys(["drive", "rw", "bs_bytes", *by]))
    several = [name for name in names if rows[name].nunique() > 1]
    found = rows.loc[[rows["mean"].idxmin(), rows["mean"].idxmax()]] if len(rows) else rows
    return {
        "quantity": _lower_first(quantity.label),
        "unit": quantity.unit,
        "over": _lower_first(level_scale(x, rows[x]).label.partition(" (")[0]),
        "means": [
            {"mean": row["mean"], "at": _levels_text({name: row[name] for name in several})}
            for row in found.to_dict("records")
        ],
    }


def _levels_text(levels: dict[Any, Any]) -> str:
    """Return levels by column as text, such as ``c400, rand. read, 4 KiB, I/O depth 16``."""
    return ", ".join(_level_text(str(name), level) for name, level in levels.items())


def _level_text(column: str, level: Any) -> str:
    if column == "bs_bytes":
        return block_label(int(level))
    if column == "drive":
        return str(level)
    if column == "rw":
        return WORKLOAD_NAMES[level].lower()
    scale = level_scale(column, [level])
    label, _, unit = scale.label.partition(" (")
    return f"{_lower_first(label)} {scale.texts[level]} {unit.removesuffix(')')}".strip()


def _lower_first(label: str) -> str:
    """Return a label in the form that it has within a sentence: ``rate``, but ``I/O depth`` and ``DRA``."""
    return label[0].lower() + label[1:] if label[1:2].islower() else label
