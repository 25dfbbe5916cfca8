"""Code of the fixture study's notebook."""

import pandas as pd


def slower(ratios: pd.DataFrame) -> list[str]:
    """Return the drives on which random reads of 4 KiB are slower."""
    rows = ratios[(ratios["operation"] == "read") & (ratios["bs_bytes"] == 4096) & (ratios["high"] < 1)]
    return sorted(rows["drive"])
