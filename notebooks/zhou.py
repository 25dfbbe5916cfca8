"""The slides' arithmetic of mixes: what a write costs in reads, and what share of their rate it leaves."""

import pandas as pd

from iopatterns.analysis.tables import Column, Table, fixed_decimals, three_digits

_RARE = 99  # percent of reads in the slides' mix


def interference(baseline: pd.DataFrame, mixes: pd.DataFrame) -> pd.DataFrame:
    """Return ``mixes`` with the slides' arithmetic of each.

    ``baseline`` and ``mixes``: as ``analysis.study.Study.comparison`` returns them of the basic patterns, and by
    rwmixread. Adds for each drive: cost_reads, how many random reads take as long as a random write; ideal_percent, the
    share of the rate of reads that would be left if a write did nothing but take its time, in a hundred reads and a
    write; real_percent, the share that is left; and randread and randwrite, the rates alone in IOPS, measured and as
    published_randread and published_randwrite.
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


def rare(mixes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the slides' mix: 99 % of reads."""
    return mixes[mixes["rwmixread"] == _RARE].reset_index(drop=True)


def interference_table(mixes: pd.DataFrame) -> Table:
    """Return the table of the slides' mix as they have it: three rates, and the arithmetic; see `interference`."""
    rates = {"randwrite": "Rand. write", "randread": "Rand. read", "iops": f"{_RARE} % reads"}
    columns = [Column(("drive",), "Drive", align_right=False)]
    for name, head in rates.items():
        mean = "iops_mean" if name == "iops" else name
        columns.append(Column((mean,), "Here", three_digits, "IOPS", head))
        columns.append(Column((f"published_{name}",), "Published", three_digits, "IOPS", head))
    heads = {"cost_reads": "A write costs", "ideal_percent": "Ideal share", "real_percent": "Real share"}
    units = {"cost_reads": "reads", "ideal_percent": "%", "real_percent": "%"}
    columns += [Column((name,), head, fixed_decimals(1), units[name]) for name, head in heads.items()]
    return Table(rare(mixes), tuple(columns), "study")


def findings(mixes: pd.DataFrame) -> str:
    """Return what a random write in a hundred random reads costs on each drive, as a paragraph."""
    sentences = []
    for row in rare(mixes).to_dict("records"):
        more = "more" if row["real_percent"] < 0.95 * row["ideal_percent"] else "no more"
        sentences.append(
            f"On {row['drive']} a random write takes as long as {row['cost_reads']:.1f} random reads."
            f" With 1 % of writes the rate is {row['real_percent']:.0f} % of that of reads alone,"
            f" {row['ideal_percent']:.0f} % if a write only took its time: it costs {more} than the time of the write."
        )
    return " ".join(sentences)
