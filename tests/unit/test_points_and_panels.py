"""Tests that no point of a fit and no panel of a figure is silently left out."""

import csv
from pathlib import Path

import pandas as pd
import pytest

from iopatterns.analysis import plots
from iopatterns.analysis.plots import Panel, curves_figure
from iopatterns.twin import points
from iopatterns.twin.error import TwinError

COLUMNS = ["id", "quantity", "rw", "bs", "conditions", "value", "unit"]


def table(path: Path, conditions: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerow(["one", "bandwidth", "read", "4k", conditions, "100", "MB/s"])
    return path


@pytest.mark.parametrize("conditions", ["DRA=1", "numjobs=16; scheduler=cfq", "offset=1k", "numjobs"])
def test_a_point_with_a_condition_that_cannot_be_simulated_is_refused(tmp_path: Path, conditions: str) -> None:
    path = table(tmp_path / "points.csv", conditions)
    with pytest.raises(TwinError, match=r"points\.csv, line 2: the condition '.*' cannot be simulated .* Leave this"):
        points.read_points([path])


def test_conditions_that_can_be_simulated_are_read(tmp_path: Path) -> None:
    found = points.read_points([table(tmp_path / "points.csv", "numjobs=16; iodepth=4")]).table
    assert found[["numjobs", "iodepth"]].to_numpy().tolist() == [[16, 4]]


def test_a_published_point_with_another_condition_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "values.csv", "scheduler=cfq")
    with pytest.raises(TwinError, match=r"values\.csv: one: the condition 'scheduler=cfq' cannot be simulated"):
        points.named_points([tmp_path / "values.csv"], ["one"])


def test_all_panels_have_different_letters() -> None:
    letters = [plots.panel_letter(number) for number in range(60)]
    assert letters[:2] + letters[15:17] + letters[25:28] == ["a", "b", "p", "q", "z", "aa", "ab"]
    assert len(set(letters)) == 60


def test_a_figure_draws_every_panel() -> None:
    rows = pd.DataFrame({"rw": ["read"], "numjobs": [1], "mean": [1.0], "low": [1.0], "high": [1.0]})
    figure = curves_figure([Panel(f"{number}", rows) for number in range(17)], "numjobs", columns=2)
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()] == [str(n) for n in range(17)]
