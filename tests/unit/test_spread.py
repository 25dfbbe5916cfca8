"""Split the variance of drives and repetitions, and report where drives differ."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import recorded_file

from iopatterns.analysis import plots, tables
from iopatterns.analysis.statistics import StatisticsError
from iopatterns.lab.spread import DriveSpread, SpreadError, variance_components

MEAN, BETWEEN, WITHIN = 500.0, 30.0, 12.0


def drives(
    random: np.random.Generator, count: int, sizes: list[int], between: float = BETWEEN
) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return random repetitions of some drives, drawn from the assumed model."""
    of_drive = random.normal(MEAN, between, count)
    return [random.normal(of_drive[number], WITHIN, sizes[number % len(sizes)]) for number in range(count)]


def test_groups_of_equal_size_give_the_analysis_of_variance() -> None:
    groups = drives(np.random.default_rng(1), 6, [10])
    found = variance_components(groups)
    f = stats.f_oneway(*groups).statistic
    within = np.mean([group.var(ddof=1) for group in groups])
    assert found.within == pytest.approx(np.sqrt(within))
    assert found.between == pytest.approx(np.sqrt((f - 1) * within / 10))
    assert found.share == pytest.approx(found.between**2 / (found.between**2 + found.within**2))
    assert found.mean == pytest.approx(np.mean([group.mean() for group in groups]))
    assert (found.drives, found.executions) == (6, 60)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_of_the_share_excludes_zero_if_drives_differ_significantly(confidence: float) -> None:
    random = np.random.default_rng(2)
    verdicts = set()
    for _ in range(200):
        groups = drives(random, 4, [6], between=6.0)
        significant = stats.f_oneway(*groups).pvalue < (1 - confidence) / 2
        assert (variance_components(groups, confidence).share_low > 0) == significant
        verdicts.add(significant)
    assert verdicts == {True, False}


@pytest.mark.parametrize("sizes", [[10], [3, 10, 25]], ids=["equal", "unequal"])
def test_intervals_cover_the_true_value_at_their_confidence_level(sizes: list[int]) -> None:
    random = np.random.default_rng(3)
    runs = 700
    covered = {"within": 0, "between": 0, "share": 0}
    true = {"within": WITHIN, "between": BETWEEN, "share": BETWEEN**2 / (BETWEEN**2 + WITHIN**2)}
    for _ in range(runs):
        found = variance_components(drives(random, 6, sizes), 0.9)
        for name, value in true.items():
            covered[name] += getattr(found, f"{name}_low") <= value <= getattr(found, f"{name}_high")
    for name, count in covered.items():  # four standard errors of a share of 0.9
        assert abs(count / runs - 0.9) < 4 * np.sqrt(0.9 * 0.1 / runs) + 0.01, (name, count / runs)


def test_equal_drives_often_have_no_variance_between_them() -> None:
    random = np.random.default_rng(4)
    found = [variance_components(drives(random, 5, [8], between=0.0)) for _ in range(400)]
    assert np.mean([each.between == 0 for each in found]) > 0.4
    assert np.mean([each.share_low == 0 for each in found]) > 0.95


def test_components_scale_with_the_unit_and_do_not_depend_on_the_order() -> None:
    groups = drives(np.random.default_rng(5), 4, [5, 9])
    first, scaled = variance_components(groups), variance_components([1000 * group for group in groups])
    for name in ("mean", "within", "within_high", "between", "between_low"):
        assert getattr(scaled, name) == pytest.approx(1000 * getattr(first, name))
    assert scaled.share == pytest.approx(first.share)
    assert variance_components(groups[::-1]) == pytest.approx(first)


def test_equal_values_have_no_variance() -> None:
    same = variance_components([[0.1] * 3, [0.1] * 3])
    assert (same.within, same.between, same.share) == (0, 0, 0)
    apart = variance_components([[0.1] * 3, [0.2] * 3])
    assert (apart.within, apart.share, apart.share_low) == (0, 1, 1)
    assert apart.between == pytest.approx(0.1 / np.sqrt(2))


@pytest.mark.parametrize("groups", [[[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 2.0], []], [[1.0, 2.0], [np.nan, 1.0]]])
def test_too_few_or_missing_values_are_refused(groups: list[list[float]]) -> None:
    with pytest.raises(StatisticsError):
        variance_components(groups)


# ---- A run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return results of three drives of one model (the third reads faster at random) and of another model."""
    (tmp_path / "results/measurements").mkdir(parents=True)
    table = pd.read_parquet(recorded_file("tiny", "parquet"))
    table = table[table["experiments"].str.contains("initial")].assign(experiments="initial")
    one = table[table["drive"] == "c400"]
    random = np.random.default_rng(6)
    copies = []
    for name, factor in (("anna", 1.0), ("ben", 1.0), ("cleo", 1.1)):
        noise = random.normal(1, 0.01, len(one))
        faster = np.where(one["rw"] == "randread", factor, 1.0)
        rate: pd.Series = one["bandwidth_bytes_per_s"].astype("float64") * noise * faster
        copies.append(one.assign(drive=name, bandwidth_bytes_per_s=rate))
    other = table[table["drive"] == "ssdsc2kg480g7"]
    pd.concat([*copies, other], ignore_index=True).to_parquet(tmp_path / "results/measurements/tiny.parquet")
    return tmp_path


def test_drives_differ_only_where_one_is_faster(run: Path) -> None:
    spread = DriveSpread.load(run, ["anna", "ben", "cleo"], "bandwidth")
    points = spread.points()
    differ = points[points["verdict"] == "drives differ"]
    assert set(differ["rw"]) == {"randread"}
    assert len(differ) == (points["rw"] == "randread").sum() == 2
    assert differ["between"].between(3, 9).all()  # of 1, 1 and 1.1 it is 5.6 % of their mean
    assert points["within"].between(0.5, 2).all()
    assert set(points["drives"]) == {3}
    text = spread.summary_text(points)
    assert text.startswith(f"bandwidth of 3 drives at {len(points)} points: the drives differ at 2. ")
    assert "models" not in text


@pytest.mark.slow
def test_table_and_figure_are_reproducible(run: Path, tmp_path: Path) -> None:
    made = []
    for folder in ("first", "second"):
        spread = DriveSpread.load(run, ["anna", "ben", "cleo"], "bandwidth")
        points = spread.points()
        tables.write_table(spread.table(points), tmp_path / folder / "bandwidth")
        for name, figure in spread.figures(points):
            plots.save_figure(figure, tmp_path / folder / name)
        made.append({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {
        "bandwidth.csv",
        "bandwidth.tex",
        "bandwidth.typ",
        "tiny-initial.svg",
        "tiny-initial.png",
    }
    text = tables.to_text(spread.table(points))
    assert "Within a drive" in text
    assert "drives differ" in text


def test_several_models_are_mentioned(run: Path) -> None:
    spread = DriveSpread.load(run, ["anna", "ssdsc2kg480g7"], "bandwidth")
    assert "The drives are of 2 models" in spread.summary_text(spread.points())


def test_one_drive_is_refused(run: Path) -> None:
    with pytest.raises(SpreadError, match="Name at least two drives"):
        DriveSpread.load(run, ["anna", "anna"], "bandwidth")


def test_one_repetition_per_cell_is_refused(run: Path) -> None:
    path = run / "results/measurements/tiny.parquet"
    table = pd.read_parquet(path)
    table[table["execution"] == 1].to_parquet(path)
    with pytest.raises(SpreadError, match="with two repetitions per cell or more"):
        DriveSpread.load(run, ["anna", "ben"], "bandwidth").points()
