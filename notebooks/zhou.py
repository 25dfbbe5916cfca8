"""The slides' arithmetic of mixes: the cost of a write in reads, and the rate of reads that writes leave."""

import pandas as pd

from iopatterns.analysis.tables import Column, Table, fixed_decimals, three_digits

_SLIDES_MIX = 99  # percent of reads


def interference(baseline: pd.DataFrame, mixes: pd.DataFrame) -> pd.DataFrame:
    """Return `mixes` with the slides' arithmetic.

    Args:
        baseline: The basic patterns, as `Study.comparison` returns them.
        mixes: The mixes by rwmixread, as `Study.comparison` returns them.

    Returns:
        The mixes with these columns:

        - randread and randwrite: the rates of the basic patterns (IOPS); published_randread and published_randwrite.
        - cost_reads: the number of random reads in the time of a random write.
        - ideal_percent: the share of the rate of reads that would be left if a write only took its own time, for a
          hundred reads and one write.
        - real_percent: the share that is left.
    """
    found = mixes.copy()
    for rw in ("randread", "randwrite"):
        alone = baseline[baseline["rw"] == rw].set_index("drive")
        found[rw] = mixes["drive"].map(alone["iops_mean"])
        found[f"published_{rw}"] = mixes["drive"].map(alone["published_iops"])
    found["cost_reads"] = found["randread"] / found["randwrite"]
    found["ideal_percent"] = 1e4 / (100 + found["cost_reads"])
    found["real_percent"] = 100 * found["iops_mean"] / found["randread"]
    return found


def slides_mix(mixes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the mix on the slides, 99 % of reads."""
    return mixes[mixes["rwmixread"] == _SLIDES_MIX].reset_index(drop=True)


def interference_table(mixes: pd.DataFrame) -> Table:
    """Return the table of the mix on the slides: three rates, and the arithmetic of `interference`."""
    columns = [Column(("drive",), "Drive", align_right=False)]
    rates = {"randwrite": "Rand. write", "randread": "Rand. read", "iops_mean": f"{_SLIDES_MIX} % reads"}
    for name, spanner in rates.items():
        published = f"published_{name.removesuffix('_mean')}"
        columns.append(Column((name,), "Here", three_digits, "IOPS", spanner))
        columns.append(Column((published,), "Published", three_digits, "IOPS", spanner))
    for name, label, unit in (
        ("cost_reads", "A write costs", "reads"),
        ("ideal_percent", "Ideal share", "%"),
        ("real_percent", "Real share", "%"),
    ):
        columns.append(Column((name,), label, fixed_decimals(1), unit))
    return Table(slides_mix(mixes), tuple(columns), "study")


def interference_text(mixes: pd.DataFrame) -> str:
    """Return a paragraph about the cost of a random write in a hundred random reads on each drive."""
    sentences = []
    for row in slides_mix(mixes).to_dict("records"):
        more = "more than" if row["real_percent"] < 0.95 * row["ideal_percent"] else "no more than"
        sentences.append(
            f"On {row['drive']}, a random write takes as long as {row['cost_reads']:.1f} random reads."
            f" With 1 % of writes the rate is {row['real_percent']:.0f} % of that of reads alone;"
            f" if a write only took its time, {row['ideal_percent']:.0f} % would be left."
            f" A write costs {more} its time."
        )
    return " ".join(sentences)
