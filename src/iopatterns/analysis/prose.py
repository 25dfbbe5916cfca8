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
    """Return sentences about the ratio of random to sequential access on each drive.

    There is a sentence for each drive and operation (read or write) of which both kinds of access were measured:

    - If all ratios are above 0.95, the sentence says that random access is as fast as sequential access.
    - Otherwise the sentence gives the range of the ratio, and where the ratio is smallest, such as "4 KiB".

    Args:
        rows: A row per cell (one configuration: a drive, its settings and a workload). Columns: drive, rw (fio's name
            of the workload, such as randread), `value`, and the columns in `by`.
        by: The columns of the factors (varied fio options or settings), such as bs_bytes. Random and sequential access
            are compared at equal levels of these factors.
        value: The column of the mean, in any unit. The sentences call it bandwidth.

    Returns:
        The sentences, separated by blanks; an empty text if no drive has both kinds of access.
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
    """Return a sentence that counts the verdicts of tests of equivalence.

    A test of equivalence decides whether a setting changes a result by less than a margin. The sentence gives the
    number of comparisons without effect and with an effect, and names the settings that have an effect. Other
    comparisons are counted together: undecided ones, and settings that the drive did not take.

    Args:
        table: The data of `report_tables.scheduler_effect_table` or `report_tables.setting_effect_table`, a row per
            comparison. The column verdict is ``effect``, ``no effect`` or another text.
        what: The column with the name of the setting or scheduler, ``setting`` or ``scheduler``.
    """
    names = ", ".join(dict.fromkeys(table.loc[table["verdict"] == "effect", what]))
    effects, none = (int((table["verdict"] == verdict).sum()) for verdict in ("effect", "no effect"))
    rest = len(table) - none - effects
    text = f"In tests of equivalence, {none} of {len(table)} comparisons show no effect"
    text += f"; comparisons with an effect: {effects} ({names})" if names else "; none shows an effect"
    return text + (f"; {rest} are undecided, or the drive did not take the setting." if rest else ".")


def range_of_means(rows: pd.DataFrame, by: Sequence[str], of: str, x: str) -> dict[str, Any]:
    """Return the smallest and the largest mean of an experiment, for a report's text.

    Args:
        rows: Means of the quantity, as `Study.summary` returns them for the factors `by`: a row per cell (one
            configuration: a drive, its settings and a workload).
        by: The columns of the factors (varied fio options or settings), such as iodepth.
        of: The name of the quantity, such as ``bandwidth``.
        x: The column of the factor on the horizontal axis of the experiment's figure.

    Returns:
        A dictionary of parts for a sentence, with these keys:

        - quantity: label of the quantity
        - unit: unit of the quantity
        - over: label of the factor `x`
        - means: list of the smallest and the largest mean, empty if no drive could run the experiment. Each is a
          dictionary with the keys mean (a number in `unit`) and at (where the mean was measured, such as ``c400, rand.
          read, 4 KiB``).

    Raises:
        QuantityError: The quantity does not exist.
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
    """Return levels as text, such as ``c400, rand. read, 4 KiB, I/O depth 16``.

    Args:
        levels: The level of each column.
    """
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
    """Return a label with a lower-case first letter, for use within a sentence.

    Labels that begin with an abbreviation, such as ``I/O depth`` and ``DRA``, are unchanged.
    """
    return label[0].lower() + label[1:] if label[1:2].islower() else label
