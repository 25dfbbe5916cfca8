"""The arithmetic of Zhou's mixes of reads and writes."""

import pandas as pd
import pytest
import zhou

from iopatterns.analysis.tables import printed_frame


def mixes(rate: float) -> pd.DataFrame:
    baseline = pd.DataFrame(
        {"drive": "d", "rw": ["randread", "randwrite"], "iops_mean": [3360.0, 190.0], "published_iops": [3360.4, 190.3]}
    )
    mixed = {"drive": ["d"], "rwmixread": [99], "iops_mean": [rate], "published_iops": [2442.0], "study": ["mix"]}
    return zhou.interference(baseline, pd.DataFrame(mixed))


def test_the_arithmetic_equals_that_of_the_slides() -> None:
    row = mixes(2441.0).iloc[0]
    assert [round(row[name]) for name in ("cost_reads", "ideal_percent", "real_percent")] == [18, 85, 73]


def test_the_table_has_the_three_rates_of_the_slides() -> None:
    row = list(printed_frame(zhou.interference_table(mixes(2441.0))).iloc[0])
    assert row[:7] == ["d", "190", "190", "3360", "3360", "2441", "2442"]


@pytest.mark.parametrize(
    ("rate", "text"), [(2441.0, "costs more than its time"), (2850.0, "costs no more than its time")]
)
def test_the_text_depends_on_the_cost_of_a_write(rate: float, text: str) -> None:
    assert text in zhou.interference_text(mixes(rate))
