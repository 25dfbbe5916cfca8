"""Sentences and numbers that notebooks and reports state about measured results."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.configuration.factors import level_scale

# Random access at or above this share of sequential access is called as fast
_AS_FAST = 0.95


def random_to_sequential_text(rows: pd.DataFrame, by: Sequence[str], value: str) -> str:
    """Return the range of the ratio of random to sequential access for each drive, and where the ratio is smallest.

    Args:
        rows: A summary with the columns drive, rw, those of ``by``, and ``value``.
        by: The columns of the factors.
        value: The column of the mean.
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
            where = ratios.idxmin()
            levels = dict(zip(by, where if isinstance(where, tuple) else (where,), strict=True))
            what = f"On {drive} random {operation}s"
            if low > _AS_FAST:
                sentences.append(f"{what} are as fast as sequential ones ({low:.2f} to {high:.2f}).")
            else:
                reached = f"{low:.2f} to {high:.2f} of the bandwidth of sequential ones"
                sentences.append(f"{what} reach {reached}, least at {_levels_text(levels)}.")
    return " ".join(sentences)


def comparisons_text(table: pd.DataFrame, what: str) -> str:
    """Return how many settings have an effect, how many have none, and how many are undecided.

    Args:
        table: The data of `scheduler_table` or `settings_table`.
        what: The column that names the setting.
    """
    effect = list(dict.fromkeys(table.loc[table["verdict"] == "effect", what]))
    none = int((table["verdict"] == "no effect").sum())
    rest = len(table) - none - int((table["verdict"] == "effect").sum())
    text = f"Of {len(table)} comparisons {none} show no effect, by a test of equivalence"
    text += f"; an effect have those of {', '.join(effect)}" if effect else "; none shows an effect"
    return text + (f"; {rest} are undecided, or the setting was not taken." if rest else ".")


def range_of_means(rows: pd.DataFrame, by: Sequence[str], of: str, x: str) -> dict[str, Any]:
    """Return the smallest and the largest mean of an experiment, for the text of a report.

    Args:
        rows: The summary of the quantity, as `Study.summary` returns it by the same factors.
        by: The columns of the factors.
        of: The name of the quantity.
        x: The factor on the horizontal axis of the experiment's figure.

    Returns:
        The ``quantity``, its ``unit`` and the factor ``over`` which it is drawn, as parts of a sentence; and under
        ``means`` the smallest and the largest mean, each with its ``mean`` and the levels ``at`` which it was measured.
        ``means`` is empty if no drive could run the experiment.
    """
    measure = quantities.get_quantity(of)
    names = list(dict.fromkeys(["drive", "rw", "bs_bytes", *by]))
    several = [name for name in names if rows[name].nunique() > 1]
    found = rows.loc[[rows["mean"].idxmin(), rows["mean"].idxmax()]] if len(rows) else rows
    return {
        "quantity": _lower_first(measure.label),
        "unit": measure.unit,
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
    printed = level_scale(column, [level])
    label, _, unit = printed.label.partition(" (")
    return f"{_lower_first(label)} {printed.texts[level]} {unit.removesuffix(')')}".strip()


def _lower_first(label: str) -> str:
    """Return a label as it reads within a sentence: ``rate``, but ``I/O depth`` and ``DRA``."""
    return label[0].lower() + label[1:] if label[1:2].islower() else label
