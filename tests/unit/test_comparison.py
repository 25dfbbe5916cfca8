"""Compare two drives or runs point by point."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import ROOT, recorded_file

from iopatterns.analysis import plots, quantities, tables
from iopatterns.lab.comparison import Comparison, ComparisonError, load_sides

MEASUREMENTS = "results/measurements/tiny.parquet"


def written_run(root: Path, table: pd.DataFrame) -> Path:
    """Write a table as the measurements of a run in ``root``, and return ``root``."""
    (root / MEASUREMENTS).parent.mkdir(parents=True)
    table.to_parquet(root / MEASUREMENTS, index=False)
    return root


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recorded measurement as its results."""
    return written_run(tmp_path_factory.mktemp("run"), pd.read_parquet(recorded_file("tiny", "parquet")))


@pytest.fixture(scope="module")
def faster(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with random reads that are a tenth faster."""
    table = pd.read_parquet(run / MEASUREMENTS)
    rate = table["bandwidth_bytes_per_s"].astype("float64")
    table["bandwidth_bytes_per_s"] = rate.where(table["rw"] != "randread", 1.1 * rate)
    return written_run(tmp_path_factory.mktemp("faster"), table)


def test_two_drives_are_compared_at_their_common_points(run: Path) -> None:
    points = Comparison(load_sides(run, "c400", "ssdsc2kg480g7"), of="bandwidth").points()
    rows = quantities.read_executions(run / MEASUREMENTS)
    assert points["experiment"].value_counts().to_dict() == {"initial": 8, "depth": 3, "refusing": 4}
    for point in points[points["experiment"] == "initial"].to_dict("records"):
        size = int(str(point["point"]).rsplit(" ", 1)[1]) * 1024
        here = rows[(rows["rw"] == point["rw"]) & (rows["bs_bytes"] == size)]
        here = here[here["experiments"].str.split().map(lambda names: "initial" in names)]
        means = here.groupby("drive")["bandwidth_mb_per_s"].mean()
        assert point["ratio"] == pytest.approx(means["ssdsc2kg480g7"] / means["c400"])


@pytest.mark.slow
def test_a_run_is_indistinguishable_from_itself(run: Path) -> None:
    compared = Comparison(load_sides(ROOT, str(run), str(run)), of="bandwidth")
    points = compared.points()
    assert set(points["verdict"]) == {"indistinguishable"}
    assert np.allclose(points["ratio"], 1)
    assert "Measured with" not in compared.summary_text(points)


@pytest.mark.slow
def test_runs_differ_only_where_one_is_faster(run: Path, faster: Path) -> None:
    compared = Comparison(load_sides(ROOT, str(run), str(faster)), of="bandwidth")
    points = compared.points()
    assert set(points.loc[points["rw"] == "randread", "verdict"]) == {"higher"}
    assert set(points.loc[points["rw"] != "randread", "verdict"]) == {"indistinguishable"}
    back = Comparison(load_sides(ROOT, str(faster), str(run)), of="bandwidth").points()
    assert set(back.loc[back["rw"] == "randread", "verdict"]) == {"lower"}
    text = compared.summary_text(points)
    assert f"{(points['rw'] == 'randread').sum()} higher" in text
    assert f"about {0.05 * len(points):.2g} false positives" in text


@pytest.mark.slow
def test_single_repetitions_have_no_interval_and_no_verdict(run: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(run / MEASUREMENTS)
    single = written_run(tmp_path, table[table["execution"] == 1])
    points = Comparison(load_sides(ROOT, str(single), str(run)), of="iops").points()
    assert set(points["verdict"]) == {"no interval"}


@pytest.mark.slow
def test_the_table_and_the_figures_show_both_sides(run: Path, tmp_path: Path) -> None:
    compared = Comparison(load_sides(run, "c400", "ssdsc2kg480g7"), of="latency")
    text = tables.to_text(compared.table(compared.points()))
    assert re.search(r"^Experiment .* c400 +ssdsc2kg480g7 +Ratio +95 % interval +Second is$", text, re.MULTILINE)
    figures = dict(compared.figures())
    assert set(figures) == {"tiny-initial", "tiny-depth", "tiny-refusing"}
    figure = figures["tiny-initial"]
    labels = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert {"Read, c400", "Read, ssdsc2kg480g7"} <= labels
    assert all(path.stat().st_size for path in plots.save_figure(figure, tmp_path / "initial"))


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("c400", "c40"), "'c40' is neither a drive in results/measurements nor a folder of results"),
        (
            ("numjobs=1", "numjobs=3"),
            r"numjobs=3: nothing was measured at that level\. Measured levels of numjobs: 1",
        ),
        (("numjbs=1", "numjobs=2"), r"numjbs=1: .*numjobs"),
    ],
)
def test_a_side_that_was_not_measured_is_refused(run: Path, sides: tuple[str, str], message: str) -> None:
    with pytest.raises(ComparisonError, match=message):
        load_sides(run, *sides)


def test_a_project_without_measurements_has_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="nothing is measured yet"):
        load_sides(tmp_path, "c400", "ssdsc2kg480g7")


def test_drives_without_a_common_point_are_refused(run: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(run / MEASUREMENTS)
    apart = table[table["experiments"].str.contains("initial") == (table["drive"] == "c400")]
    with pytest.raises(ComparisonError, match="have no point in common"):
        Comparison(load_sides(written_run(tmp_path, apart), "c400", "ssdsc2kg480g7"), of="bandwidth").points()


def test_two_levels_of_a_factor_are_compared_at_equal_other_levels(run: Path) -> None:
    points = Comparison(load_sides(run, "numjobs=1", "numjobs=16"), of="bandwidth").points()
    rows = quantities.read_executions(run / MEASUREMENTS)
    rows = rows[(rows["rw"] == "randread") & (rows["bs_bytes"] == 4096)]
    rows = rows[rows["experiments"] == "concurrency"]
    means = rows.groupby("numjobs")["bandwidth_mb_per_s"].mean()
    assert set(points["verdict"]) == {"higher"}
    assert points["ratio"].max() == pytest.approx(means[16] / means[1])


@pytest.mark.slow
def test_runs_with_different_versions_of_fio_are_marked(run: Path, tmp_path: Path) -> None:
    other = written_run(tmp_path, pd.read_parquet(run / MEASUREMENTS).assign(fio_version="fio-3.36"))
    compared = Comparison(load_sides(ROOT, str(run), str(other)), of="iops")
    assert compared.summary_text(compared.points()).endswith("Measured with fio-3.33 and fio-3.36.")
