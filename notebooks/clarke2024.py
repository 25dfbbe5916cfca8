"""Little's law applied to the results of Clarke, SSD Performance Profiling, 2024.

By this law (J. D. C. Little, 1961), the mean number of outstanding requests is the rate times the mean latency.
"""

import pandas as pd


def with_published_outstanding(rows: pd.DataFrame, rate: str, directions: int = 1) -> pd.DataFrame:
    """Return `rows` with outstanding requests computed from published values.

    By Little's law, the mean number of outstanding requests is the published rate times the published mean latency.

    Args:
        rows: A row per cell, as `Study.comparison` returns it. A cell is one configuration: a drive, its settings and a
            workload. Columns that are used: published_latency_ms, outstanding_mean and `rate`.
        rate: The column of the published rate (IOPS), such as ``published_iops``.
        directions: Factor from the published rate to the rate of all requests: 2 if the published rate is that of reads
            alone, and half of the requests are reads; otherwise 1.

    Returns:
        The rows with two more columns:

        - published_outstanding: the computed number of outstanding requests, rounded to one decimal
        - error_outstanding_percent: how much the measured number, the column outstanding_mean, is above the computed
          number; missing if the computed number is 0 or missing
    """
    outstanding = (directions * rows[rate] * rows["published_latency_ms"] / 1e3).round(1)
    error = 100 * (rows["outstanding_mean"] / outstanding.where(outstanding != 0) - 1)
    return rows.assign(published_outstanding=outstanding, error_outstanding_percent=error)


def outstanding_text(rows: pd.DataFrame, factor: str) -> str:
    """Return a paragraph that compares the outstanding requests with the I/O depth.

    There is a sentence for each drive. If the number of outstanding requests is above 0.9 of the depth at all levels,
    the sentence says that parallelism does not change. Otherwise it says that the depth is not always used. For the
    factor ``iodepth``, a second sentence says whether the rate changes with the depth.

    Args:
        rows: A row per drive and level of `factor`, as `with_published_outstanding` returns it. The depth is the column
            iodepth for the factor ``iodepth``, otherwise iodepth_reached.
        factor: The column of the factor that the experiment varies, such as ``iodepth`` or ``bs_bytes``.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        depths = here["iodepth"] if factor == "iodepth" else here["iodepth_reached"]
        shares = (here["outstanding_mean"] / depths).to_numpy()
        low, high = float(shares.min()), float(shares.max())
        text = (
            f"On {drive}, the outstanding requests are {100 * low:.0f} to {100 * high:.0f} % of the depth at all levels"
        )
        sentences.append(text + (": parallelism does not change." if low > 0.9 else ": the depth is not always used."))
        if factor == "iodepth" and "iops_mean" in here:
            growth = here["iops_mean"].max() / here["iops_mean"].min()
            sentences.append(
                "The rate is the same at each depth, so that latency is proportional to the depth by arithmetic alone."
                if growth <= 1.05
                else f"The largest rate is {growth:.2f} times the smallest: latency is not proportional to the depth."
            )
    return " ".join(sentences)


def mix_text(rows: pd.DataFrame) -> str:
    """Return a paragraph about the rates of mixes of reads and writes on each drive.

    The lowest rate of all mixes is compared with the lower of two rates: that of reads alone and that of writes alone.
    Drives without a mix, or without reads or writes alone, are left out.

    Args:
        rows: A row per drive and mix, with the columns drive, rwmixread, iops_mean and published_iops. The column
            rwmixread has the percentage of reads; 100 means reads alone, 0 means writes alone.
    """
    sentences = []
    for drive, here in rows.groupby("drive", sort=False):
        is_alone = here["rwmixread"].isin([0, 100])
        alone, mixed = here[is_alone], here[~is_alone]
        if alone.empty or mixed.empty:
            continue
        found, published = (mixed[name].min() / alone[name].min() for name in ("iops_mean", "published_iops"))
        cost = "costs" if found < 0.95 else "costs next to nothing"
        text = f"On {drive}, a mix {cost}: at worst {found:.2f} of the rate of the slower of reads and writes alone"
        sentences.append(text + ("." if pd.isna(published) else f", {published:.2f} in the source."))
    return " ".join(sentences)
