"""Arithmetic of mixes of reads and writes, as on Da Zhou's slides.

The slides are "Understanding IO patterns of SSDs", which the study ``zhou`` reproduces. The module computes the cost of
a random write in random reads, and the rate of reads that remains if a drive also writes.
"""

import pandas as pd

from iopatterns.analysis.tables import Column, Table, fixed_decimals, three_digits

_SLIDES_MIX = 99  # percent of reads


def interference(baseline: pd.DataFrame, mixes: pd.DataFrame) -> pd.DataFrame:
    """Return `mixes` with the slides' arithmetic of how writes slow down reads.

    All rates are in IOPS.

    Args:
        baseline: A row per drive and basic pattern (read, randread, write, randwrite), as `Study.comparison` returns it
            for ``iops``.
        mixes: A row per drive and rwmixread (percent of reads), as `Study.comparison` returns it for ``iops``.

    Returns:
        The mixes with these columns added:

        - randread and randwrite: the drive's measured rates of random reads alone and of random writes alone
        - published_randread and published_randwrite: the published values of these two rates
        - cost_reads: the number of random reads that take as long as one random write
        - ideal_percent: the rate of reads that would remain with one write per hundred reads if the write took only its
          own time, in percent of the rate of random reads alone
        - real_percent: the measured rate of the mix, in percent of the rate of random reads alone
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
    """Return the rows of the mix that the slides show, with 99 % of reads.

    Args:
        mixes: A row per drive and mix, with the column rwmixread (percent of reads).
    """
    return mixes[mixes["rwmixread"] == _SLIDES_MIX].reset_index(drop=True)


def interference_table(mixes: pd.DataFrame) -> Table:
    """Return the table of the mix with 99 % of reads, with a row per drive.

    The columns are:

    - the rates (IOPS) of random writes alone, of random reads alone and of the mix, measured and published
    - the time of a random write, as a number of random reads
    - the rate of the mix in percent of the rate of random reads alone: ideal (if a write took only its own time) and
      real (measured)

    Args:
        mixes: The rows that `interference` returns.
    """
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
    """Return a paragraph about the cost of random writes among random reads.

    For each drive, sentences compare the measured rate of the mix of 99 % reads and 1 % writes with the rate that would
    remain if a write took only its own time.

    Args:
        mixes: The rows that `interference` returns.
    """
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
