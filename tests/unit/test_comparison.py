"""Two drives or two runs held against each other: which points are compared, and which differences are told apart."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import ROOT, recorded_file

from iopatterns.analysis import plots, quantities, tables
from iopatterns.lab.comparison import Comparison, ComparisonError, sides


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded measurement as its results."""
    root = tmp_path_factory.mktemp("run")
    (root / "results/measurements").mkdir(parents=True)
    shutil.copy(recorded_file("tiny", "parquet"), root / "results/measurements/tiny.parquet")
    return root


@pytest.fixture(scope="module")
def faster(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with random reads a tenth faster."""
    root = tmp_path_factory.mktemp("faster")
    (root / "results/measurements").mkdir(parents=True)
    table = pd.read_parquet(run / "results/measurements/tiny.parquet")
    rate = table["bandwidth_bytes_per_s"].astype("float64")
    table["bandwidth_bytes_per_s"] = rate.where(table["rw"] != "randread", 1.1 * rate)
    table.to_parquet(root / "results/measurements/tiny.parquet", index=False)
    return root


def test_two_drives_are_compared_at_the_points_that_both_have(run: Path) -> None:
    points = Comparison(sides(run, "c400", "ssdsc2kg480g7"), of="bandwidth").points()
    rows = quantities.read_executions(run / "results/measurements/tiny.parquet")
    assert points["experiment"].value_counts().to_dict() == {"initial": 8, "depth": 3, "refusing": 4}
    for point in points[points["experiment"] == "initial"].to_dict("records"):
        size = int(str(point["point"]).rsplit(" ", 1)[1]) * 1024
        here = rows[(rows["rw"] == point["rw"]) & (rows["bs_bytes"] == size)]
        here = here[here["experiments"].str.split().map(lambda names: "initial" in names)]
        means = here.groupby("drive")["bandwidth_mb_per_s"].mean()
        assert point["ratio"] == pytest.approx(means["ssdsc2kg480g7"] / means["c400"])


@pytest.mark.slow
def test_a_run_against_itself_is_told_apart_nowhere(run: Path) -> None:
    points = Comparison(sides(ROOT, str(run), str(run)), of="bandwidth").points()
    assert set(points["verdict"]) == {"not told apart"}
    assert np.allclose(points["ratio"], 1)


@pytest.mark.slow
def test_a_run_in_which_random_reads_are_faster_is_told_apart_there_alone(run: Path, faster: Path) -> None:
    compared = Comparison(sides(ROOT, str(run), str(faster)), of="bandwidth")
    points = compared.points()
    assert set(points.loc[points["rw"] == "randread", "verdict"]) == {"higher"}
    assert set(points.loc[points["rw"] != "randread", "verdict"]) == {"not told apart"}
    back = Comparison(sides(ROOT, str(faster), str(run)), of="bandwidth").points()
    assert set(back.loc[back["rw"] == "randread", "verdict"]) == {"lower"}
    said = compared.told(points)
    assert f"{(points['rw'] == 'randread').sum()} higher" in said
    assert f"about {0.05 * len(points):.2g} of so many" in said


@pytest.mark.slow
def test_single_executions_have_no_interval_and_no_verdict(run: Path, tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()
    table = pd.read_parquet(run / "results/measurements/tiny.parquet")
    table[table["execution"] == 1].to_parquet(tmp_path / "measurements/tiny.parquet", index=False)
    points = Comparison(sides(ROOT, str(tmp_path), str(run)), of="iops").points()
    assert set(points["verdict"]) == {"no interval"}


@pytest.mark.slow
def test_the_table_and_the_figures_show_both_sides(run: Path, tmp_path: Path) -> None:
    compared = Comparison(sides(run, "c400", "ssdsc2kg480g7"), of="latency")
    text = tables.to_text(compared.table(compared.points()))
    assert re.search(r"^Experiment .* c400 +ssdsc2kg480g7 +Ratio +95 % interval +Second is$", text, re.MULTILINE)
    figures = dict(compared.figures())
    assert set(figures) == {"tiny-initial", "tiny-depth", "tiny-refusing"}
    figure = figures["tiny-initial"]
    labels = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert {"Read, c400", "Read, ssdsc2kg480g7"} <= labels
    assert all(path.stat().st_size for path in plots.save_figure(figure, tmp_path / "initial"))


def test_a_side_that_is_neither_drive_nor_folder_is_told(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="'c40' is no drive of results/measurements, and no folder of results"):
        sides(run, "c400", "c40")
    with pytest.raises(ComparisonError, match="nothing is measured yet"):
        sides(tmp_path, "c400", "ssdsc2kg480g7")


def test_drives_with_nothing_in_common_are_told(run: Path, tmp_path: Path) -> None:
    (tmp_path / "results/measurements").mkdir(parents=True)
    table = pd.read_parquet(run / "results/measurements/tiny.parquet")
    of_one = table["experiments"].str.contains("initial") == (table["drive"] == "c400")
    table[of_one].to_parquet(tmp_path / "results/measurements/tiny.parquet", index=False)
    with pytest.raises(ComparisonError, match="have no point in common"):
        Comparison(sides(tmp_path, "c400", "ssdsc2kg480g7"), of="bandwidth").points()


def test_two_levels_of_a_factor_are_compared_where_all_else_is_the_same(run: Path) -> None:
    points = Comparison(sides(run, "numjobs=1", "numjobs=16"), of="bandwidth").points()
    rows = quantities.read_executions(run / "results/measurements/tiny.parquet")
    rows = rows[(rows["rw"] == "randread") & (rows["bs_bytes"] == 4096)]
    rows = rows[rows["experiments"] == "concurrency"]
    means = rows.groupby("numjobs")["bandwidth_mb_per_s"].mean()
    assert set(points["verdict"]) == {"higher"}
    assert points["ratio"].max() == pytest.approx(means[16] / means[1])


def test_a_level_that_was_not_measured_is_told_with_those_that_were(run: Path) -> None:
    with pytest.raises(
        ComparisonError, match=r"numjobs=3: nothing was measured at that level\. Measured of numjobs: 1"
    ):
        sides(run, "numjobs=1", "numjobs=3")
    with pytest.raises(ComparisonError, match=r"numjbs=1: .*numjobs"):
        sides(run, "numjbs=1", "numjobs=2")


@pytest.mark.slow
def test_runs_with_two_versions_of_fio_say_so(run: Path, tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()
    table = pd.read_parquet(run / "results/measurements/tiny.parquet")
    table.assign(fio_version="fio-3.36").to_parquet(tmp_path / "measurements/tiny.parquet", index=False)
    compared = Comparison(sides(ROOT, str(run), str(tmp_path)), of="iops")
    assert compared.told(compared.points()).endswith("Measured with fio-3.33 and fio-3.36.")
    same = Comparison(sides(ROOT, str(run), str(run)), of="iops")
    assert "Measured with" not in same.told(same.points())
