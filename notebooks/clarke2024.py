"""Little's law applied to Clarke's figures: outstanding requests from rates and latencies."""

import pandas as pd


def with_published_outstanding(rows: pd.DataFrame, rate: str, directions: int = 1) -> pd.DataFrame:
    """Return `rows` with the outstanding requests that follow from the source's rate and latency.

    By Little's law (J. D. C. Little, 1961) the mean number of outstanding requests is the rate times the mean latency.

    Args:
        rows: Latency, a rate and outstanding requests, as `Study.comparison` returns them.
        rate: The column of the published rate, in IOPS.
        directions: 2 if the published rate is that of reads, half of all requests; otherwise 1.

    Returns:
        The rows with the columns published_outstanding and error_outstanding_percent (of the measured mean).
    """
    outstanding = (directions * rows[rate] * rows["published_latency_ms"] / 1e3).round(1)
    error = 100 * (rows["outstanding_mean"] / outstanding.where(outstanding != 0) - 1)
    return rows.assign(published_outstanding=outstanding, error_outstanding_percent=error)


def outstanding_text(rows: pd.DataFrame, factor: str) -> str:
    """Return a paragraph about the outstanding requests of each drive.

    Args:
        rows: A row per level of `factor`, as `with_published_outstanding` returns them.
        factor: The column of the factor. For ``iodepth``, the text is also about the rate.
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
    """Return a paragraph that compares mixes with the slower of reads and writes alone.

    Args:
        rows: Columns drive, rwmixread (percent), iops_mean and published_iops.
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
