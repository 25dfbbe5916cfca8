"""Little's law on Clarke's figures: outstanding requests by his rates and latencies, and what follows from them."""

import pandas as pd


def with_published_outstanding(rows: pd.DataFrame, rate: str, directions: int = 1) -> pd.DataFrame:
    """Return ``rows`` with the outstanding requests by the source's rate and latency, and the error against them.

    By Little's law (J. D. C. Little, 1961) their mean is the rate times the mean latency. ``rows``: as
    ``analysis.study.Study.comparison`` returns it of latency, a rate and outstanding requests; ``rate``: the column of
    the published rate, in IOPS; ``directions``: 2 where the source prints the rate of reads, half of all requests. Adds
    published_outstanding and error_outstanding_percent.
    """
    outstanding = (directions * rows[rate] * rows["published_latency_ms"] / 1e3).round(1)
    error = 100 * (rows["outstanding_mean"] / outstanding.where(outstanding != 0) - 1)
    return rows.assign(published_outstanding=outstanding, error_outstanding_percent=error)


def outstanding(rows: pd.DataFrame, factor: str) -> str:
    """Return what the outstanding requests say of parallelism, as a paragraph.

    ``rows``: as `with_published_outstanding` returns it, each level of ``factor`` a row; of a factor other than the
    depth they are the same at every level of a drive that works off what it is given.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        asked = here["iodepth"] if factor == "iodepth" else pd.Series(here["iodepth_reached"])
        kept = (here["outstanding_mean"] / asked).to_numpy()
        low, high = float(kept.min()), float(kept.max())
        share = f"{100 * low:.0f} to {100 * high:.0f} %"
        text = f"On {drive} the outstanding requests are {share} of the depth at every level"
        sentences.append(text + (": parallelism does not change." if low > 0.9 else ": it is not always used up."))
        rates = here.get("iops_mean")
        if factor == "iodepth" and rates is not None:
            growth = rates.max() / rates.min()
            sentences.append(
                "The rate is the same at each depth, so that latency is proportional to it by arithmetic alone."
                if growth <= 1.05
                else f"The rate grows to {growth:.2f} of its smallest, so that latency over depth is no line."
            )
    return " ".join(sentences)


def mix(rows: pd.DataFrame) -> str:
    """Return what a mix of reads and writes costs beside the slower of the two alone, as a paragraph.

    ``rows``: drive, rwmixread (percent), iops_mean and published_iops.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        alone = here[here["rwmixread"].isin([0, 100])]
        mixed = here[~here["rwmixread"].isin([0, 100])]
        if alone.empty or mixed.empty:
            continue
        found = float(mixed["iops_mean"].min() / alone["iops_mean"].min())
        published = float(mixed["published_iops"].min() / alone["published_iops"].min())
        cost = "costs" if found < 0.95 else "costs next to nothing"
        text = f"On {drive} a mix {cost}: at worst {found:.2f} of the rate of the slower of reads and writes alone"
        sentences.append(text + ("." if pd.isna(published) else f", {published:.2f} in the source."))
    return " ".join(sentences)
