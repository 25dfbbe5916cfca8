"""Fits of simulated drives to measured points, and their validation."""

import re
import shlex
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin import fitting, models, points, ranges, search, simulation, validation
from iopatterns.twin.models import Model

MODEL = twin.load_model("px05smb040").overridden(["read_cache.enabled=off"])
# The models that are fitted to published values in the repository
FITTED = [name for name in twin.list_models() if (ROOT / twin.load_model(name).fit.get("points", "none")).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED)
def test_repeating_the_fit_of_a_shipped_model_gives_its_values(name: str) -> None:
    model = twin.load_model(name)
    found = fitting.repeat_fit(model, ROOT)
    if "unit" not in found.table:  # results of fio, not published values
        # the search simulated a part of each measurement: flat directions of the parameters are not exact
        recorded = fitting.FitResult(model, {}, found.table, fitting.complete_errors(model, found.table))
        assert found.mean_absolute_error() == pytest.approx(recorded.mean_absolute_error(), abs=0.02)
        return
    assert found.moved == {key: model.values[key] for key in model.fit["moved"]}
    record = fitting.fit_record(found, model.fit["points"])
    assert {use: record.get(use) for use in ("fitted", "predicted")} == {
        use: model.fit.get(use) for use in ("fitted", "predicted")
    }


def of_model(model: Model, workloads: list[simulation.PointWorkload]) -> pd.DataFrame:
    """Return points whose figures are those of a model."""
    rows = [
        {
            "rw": each.rw,
            "bs_bytes": each.bs_bytes,
            "iodepth": each.iodepth,
            "numjobs": each.numjobs,
            "size_bytes": each.region_bytes,
            "runtime_s": 1.0,
            **simulation.simulate(model, each, 6000, 3000),
        }
        for each in workloads
    ]
    texts = dict.fromkeys(("drive", "engine", "part", "source"), "")
    return pd.DataFrame(rows).reindex(columns=[*points.POINT_COLUMNS]).assign(**texts)


WORKLOADS = [
    simulation.PointWorkload(rw, bs_bytes, depth, region_bytes=2**28)
    for rw, bs_bytes, depth in [("read", 4096, 1), ("read", 28672, 4), ("randread", 4096, 1), ("randread", 28672, 8)]
]


def fit_to(path: Path, output: Path, *words: str, model: str = "px05smb040") -> Model:
    """Run `twin fit`, which must succeed; return the fitted model."""
    done = command("fit", model, str(path), *words, "--output", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    return twin.load_model(output)


@pytest.mark.slow
def test_a_fit_finds_the_parameters_that_made_the_points(tmp_path: Path) -> None:
    truth = MODEL.overridden(["flash.read_time=90 us", "link.rate=700 MB/s"])
    of_model(truth, WORKLOADS).to_csv(tmp_path / "points.csv", index=False)
    words = ("--move", "flash.read_time", "--move", "link.rate", "--held-out", "0", "--set", "read_cache.enabled=off")
    model = fit_to(tmp_path / "points.csv", tmp_path / "fitted.yaml", *words)
    assert model.number("flash.read_time") == pytest.approx(90_000, rel=0.03)
    assert model.number("link.rate") == pytest.approx(700e6, rel=0.03)
    assert model.sources["flash.read_time"][0] == "fitted"
    # the settings apply during the fit only, and are recorded so that it can be repeated
    assert model.values["read_cache.enabled"] is True
    assert model.fit["set"] == {"read_cache.enabled": False}
    recorded = fitting.recorded_points(Path.cwd(), model)
    assert len(recorded) == len(WORKLOADS)
    assert set(recorded["part"]) == {"fit"}


@pytest.mark.slow
def test_different_starts_end_at_the_same_errors() -> None:
    truth = MODEL.overridden(["flash.read_time=90 us", "link.rate=700 MB/s"])
    table = points.with_parts(of_model(truth, WORKLOADS), held_out=0)
    ends = []
    for start in (["flash.read_time=30 us"], ["flash.read_time=300 us", "link.rate=300 MB/s"]):
        found = fitting.fit_model(MODEL.overridden(start), table, ["flash.read_time", "link.rate"])
        ends.append(found.mean_absolute_error())
    assert max(ends) - min(ends) <= 0.005
    assert max(ends) <= 0.01


@pytest.mark.slow
def test_a_fit_from_another_model_finds_the_figures_of_a_drive() -> None:
    changes = ["disk.average_seek=7 ms", "disk.full_seek=14 ms", "disk.command_time=300 us", "disk.reorder_share=0.5"]
    truth = twin.load_model("f1").overridden(changes)
    jobs = [
        simulation.PointWorkload(rw, 4096, depth, n)
        for rw, depth, n in product(("randread", "randwrite"), (1, 4, 16), (1, 4))
    ]
    table = points.with_parts(of_model(truth, jobs).assign(runtime_s=60.0), held_out=0.25)
    found = fitting.fit_model(twin.load_model("hard-disk"), table)
    assert found.mean_absolute_error() < 0.02
    assert found.mean_absolute_error(held_out=True) < 0.05


def test_a_parameter_with_constraints_can_be_moved() -> None:
    disk = twin.load_model("hard-disk")
    found = ranges.search_range(disk, "disk.average_seek", chosen=True)
    assert found.high > disk.number("disk.full_seek")  # part of the range contradicts the other seek times
    table = of_model(disk, [simulation.PointWorkload("randread", 4096, 1)])
    goals = search.search_targets(table, points.merged_repeats(table)[1], [(300, 100)])
    whole = search.Search(disk, [found], goals)
    loss, valid = whole.loss(np.array([1.0]))
    assert np.isfinite(loss)
    assert 0 < valid[0] < 1
    faster = disk.overridden(["disk.average_seek=7 ms"])
    slow = points.with_parts(of_model(faster, [simulation.PointWorkload("randread", 4096, 1)]))
    fitted = fitting.fit_model(disk, slow, ["disk.average_seek"])
    assert fitted.mean_absolute_error() < 0.02


def test_mechanisms_that_the_first_model_lacks_can_be_found(tmp_path: Path) -> None:
    model = twin.load_model("ssdsc2kg480g7")
    assert model.number("controller.reordering") == 0
    found = ranges.search_range(model, "controller.reordering")
    assert (found.low, found.high) == (0, 1)
    assert {"none", "deadline", "cfq"} <= set(ranges.search_range(model, "host.scheduler").values)
    assert ranges.search_range(model, "host.nr_requests").values == (1, 32, 128, 256, 1023)
    # the model file has no line for the parameter, whose value is the default
    path = tmp_path / "fitted.yaml"
    values: dict[str, models.ParameterValue] = {
        "controller.reordering": 0.5,
        "host.scheduler": "none",
        "flash.read_time": 75_000,
    }
    models.write_fitted_model(model, path, values, "twin fit to x.csv", {"points": "x.csv", "moved": [], "fitted": {}})
    fitted = twin.load_model(path)
    assert {name: fitted.values[name] for name in values} == values
    assert {fitted.sources[name][0] for name in values} == {"fitted"}
    assert fitted.values == model.replaced(values).values


def test_the_nearest_model_is_found_and_proposed(tmp_path: Path) -> None:
    truth = twin.load_model("nvme-generic")
    table = of_model(truth, WORKLOADS[2:])
    (nearest, error), (_, other), *_ = fitting.nearest_models(table)
    assert nearest.name == truth.name
    assert error < 0.05 < other
    table.to_csv(tmp_path / "points.csv", index=False)
    path = str(tmp_path / "points.csv")
    done = command("fit", "hard-disk", path, "--move", "disk.command_time", "--held-out", "0")
    assert done.returncode == 1
    assert "nvme-generic begins nearer" in done.stderr
    assert "`twin fit nvme-generic` or `twin fit auto` begins there." in done.stderr
    done = command("fit", "auto", path, "--move", "flash.read_time", "--held-out", "0")
    assert done.returncode == 0, done.stderr
    assert "Beginning at nvme-generic" in done.stderr
    assert "begins nearer" not in done.stderr
    done = command("fit", "auto")
    assert "'auto' chooses the model that is nearest to measured points. Give the points." in done.stderr


def test_the_global_search_uses_points_that_differ_most() -> None:
    workloads = [
        simulation.PointWorkload("randread", 4096, 2**depth, 2**jobs) for depth in range(7) for jobs in range(7)
    ]
    table = of_model(twin.load_model("f1"), workloads[:1]).iloc[[0] * len(workloads)].reset_index(drop=True)
    table["iodepth"], table["numjobs"] = [each.iodepth for each in workloads], [each.numjobs for each in workloads]
    chosen = fitting._spread(table)
    assert len(chosen) == 16
    pairs = set(zip(chosen["iodepth"], chosen["numjobs"], strict=True))
    assert {(1, 1), (64, 64), (1, 64), (64, 1)} <= pairs
    assert len(pairs) == 16


def test_geometry_moves_in_its_steps() -> None:
    model = twin.load_model("ssdsc2kg480g7")
    found = ranges.search_range(model, "flash.dies_per_channel", chosen=True)
    usual = model.number("flash.dies_per_channel")
    assert {found.value_at(share) for share in np.linspace(0, 1, 50)} == set(found.values)
    assert set(found.values) <= {usual * 2.0**power for power in range(-2, 3)}
    assert len(found.values) >= 3


def test_noisy_figures_count_less() -> None:
    table = of_model(MODEL, WORKLOADS[:1])
    single = search.search_targets(table, points.merged_repeats(table)[1], [(100, 0)])[0].weights
    repeated = pd.concat([table, table.assign(read_iops=table["read_iops"] * 2)], ignore_index=True)
    merged, noise = points.merged_repeats(repeated)
    noisy = search.search_targets(merged, noise, [(100, 0)])[0].weights
    assert noisy["iops"] < 0.2 * single["iops"]
    assert noisy["p50"] == single["p50"]
    assert 0 < single["p99"] < single["p50"] < single["lat_mean"]


def test_parameters_that_the_points_do_not_determine_are_named() -> None:
    spaces = [ranges.search_range(MODEL, name) for name in ("link.rate", "flash.read_time", "host.wakeup_time")]
    jacobian = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.001]])
    flat = fitting._flat(spaces, jacobian)
    assert flat["host.wakeup_time"] == "half or twice its value changes the figures by less than 1%"
    assert flat["link.rate"] == "a change of it is balanced by changes of flash.read_time"
    assert flat["flash.read_time"] == "a change of it is balanced by changes of link.rate"
    assert fitting._flat(spaces[:2], np.eye(2)) == {}


@pytest.mark.parametrize(
    ("unit", "move", "message"),
    [
        ("MB/s", ["link.rate", "flash.read_time"], "1 points are too few to fit 2 parameters"),
        ("MB/s", ["link.rat"], "Did you mean 'link.rate'"),
        ("MB/s", ["read_cache.initial"], "its value 0 has no range"),
        ("MB/s", ["flash.cell"], "it is not a number"),
        ("parsecs", ["link.rate"], "unit is 'parsecs'"),
    ],
)
def test_an_impossible_fit_is_refused(unit: str, move: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(f"id,rw,bs,value,unit\na,read,4k,100,{unit}\n")
    done = command("fit", "px05smb040", str(path), *(word for each in move for word in ("--move", each)))
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def result(errors: list[float], **columns: Any) -> fitting.FitResult:
    table = pd.DataFrame(
        {"bs_bytes": 4096, "iodepth": 1, "numjobs": 1, "rw": "randread", "read_iops": 1000.0}, index=range(len(errors))
    )
    table = table.assign(**columns).reindex(columns=[*points.POINT_COLUMNS]).assign(part="fit", drive="", source="")
    simulated = table[list(points.FIGURE_COLUMNS)].mul(1 + pd.Series(errors), axis=0)
    return fitting.FitResult(MODEL, {}, table, validation.errors(table, simulated))


def test_a_point_far_off_is_no_fit_even_if_the_mean_is_small() -> None:
    good = result([0.01] * 9 + [-0.02], iodepth=list(range(1, 11)))
    fitting.check_limits(good, "x", 0.2, 0.3, "")
    one = result([0.01] * 9 + [0.39], iodepth=list(range(1, 11)))
    with pytest.raises(fitting.NoFitError, match=r"a point misses by more than 30 % \(largest: randread 4k, depth 10"):
        fitting.check_limits(one, "x", 0.2, 0.3, "")
    with pytest.raises(fitting.NoFitError, match=r"mean error of the fitted points is 25.0 %, more than 20 %"):
        fitting.check_limits(result([0.25, -0.25]), "x", 0.2, 0.3, "")


def test_a_miss_says_what_else_to_measure() -> None:
    text = fitting.advice(result([0.02, 0.03, 0.5], iodepth=[1, 4, 16]))
    assert "The points with iodepth=16 miss 20.0 times as much as the others" in text
    assert "several jobs (numjobs 1 and 4), writes, percentiles" in text
    assert "Measure for 10 s or more" in text


@pytest.mark.slow
def test_a_fit_with_a_large_error_fails_and_writes_nothing(tmp_path: Path) -> None:
    path, fitted = tmp_path / "points.csv", tmp_path / "fitted.yaml"
    path.write_text("id,rw,bs,value,unit\nslow,randread,4k,100,IOPS\nfast,randread,8k,20000,IOPS\n")
    words = ["fit", "px05smb040", str(path), "--move", "flash.read_time", "--runtime", "1", "--output", str(fitted)]
    said = command(*words)
    assert said.returncode == 1
    assert "no fit" in said.stderr
    assert "(largest: slow, +" in said.stderr
    assert "held out" not in said.stdout
    assert "slow " in said.stdout  # in the report
    assert not fitted.exists()
    assert command(*words, "--most-error", "10000", "--most-point-error", "100000").returncode == 0
    assert fitted.exists()


def test_the_report_and_the_model_name_a_parameter_at_a_bound(tmp_path: Path) -> None:
    path, fitted = tmp_path / "points.csv", tmp_path / "fitted.yaml"
    slow = 4096 / MODEL.number("link.rate") * 20  # more than ten times the time of the link
    path.write_text(f"id,rw,bs,value,unit\na,read,1m,{1 / slow / 256},IOPS\n")
    words = [str(path), "--move", "link.rate", "--output", str(fitted), "--runtime", "1"]
    said = command("fit", "px05smb040", *words, "--most-error", "500", "--most-point-error", "500")
    assert said.returncode == 0, said.stderr
    assert "At a bound: the smallest value of the search, 102.1 MB/s" in said.stdout
    assert twin.load_model(fitted).fit["at_bounds"] == {"link.rate": "the smallest value of the search, 102.1 MB/s"}


def test_to_repeat_a_fit_takes_no_other_options() -> None:
    said = command("fit", "px05smb040", "--move", "link.rate")
    assert (said.returncode, "To fit again, give points." in said.stderr) == (2, True)
    said = command("fit", "nvme-generic")
    assert (said.returncode, "records no fit to repeat. Give the measured points." in said.stderr) == (2, True)


def test_the_region_of_a_point_is_that_of_fio() -> None:
    disk = twin.load_model("hard-disk")
    rates = [
        simulation.simulate(disk, simulation.PointWorkload("randread", 4096, region_bytes=size), 600)["read_iops"]
        for size in (2**30, np.inf)
    ]
    assert rates[0] > 1.8 * rates[1]


# ---- Validation


def test_errors_and_summary() -> None:
    table = of_model(MODEL, WORKLOADS).assign(part=["fit", "fit", "test", "test"])
    errors = validation.errors(table, table[list(points.FIGURE_COLUMNS)].mul(pd.Series([1.1, 1.1, 0.8, 1.0]), axis=0))
    assert errors["error_iops"].tolist() == pytest.approx([0.1, 0.1, -0.2, 0])
    rows = validation.summary(errors).set_index(["part", "figure"])
    assert rows.loc[("fit", "p99"), "mean"] == pytest.approx(0.1)
    assert list(rows.loc[("test", "iops"), ["mean", "worst", "worst_error"]]) == pytest.approx([0.1, 0.2, -0.2])
    assert rows.loc[("test", "iops"), "worst_point"] == points.identities(table)[2]


def test_the_latencies_of_a_mix_are_those_of_the_direction_with_more_requests() -> None:
    row = {"rw": "randrw", "rwmixread": 20, "bs_bytes": 4096, "iodepth": 1, "numjobs": 1, "part": "", "source": ""}
    figures = {"read_iops": 20, "write_iops": 80, "read_lat_mean_us": 5, "write_lat_mean_us": 7}
    table = pd.DataFrame([{**row, "drive": "", **figures}]).reindex(columns=[*points.POINT_COLUMNS])
    (found,) = validation.errors(table, table).to_dict("records")
    assert (found["direction"], found["measured_iops"], found["measured_lat_mean"]) == ("write", 100, 7)


def test_the_noise_floor_is_the_difference_of_repeats() -> None:
    table = of_model(MODEL, WORKLOADS[:2])
    assert validation.noise_floor(table).empty
    repeated = pd.concat([table, table.assign(read_iops=table["read_iops"] / 1.25)], ignore_index=True)
    rows = validation.noise_floor(repeated, by=["rw"]).set_index(["rw", "figure"])
    assert list(rows.loc[("read", "iops"), ["pairs", "median", "p90"]]) == pytest.approx([2, 0.25, 0.25])
    assert rows.loc[("read", "p99"), "median"] == 0


def test_a_simulation_at_length_agrees_with_fio(tmp_path: Path) -> None:
    output = tmp_path / "deep.json"
    options = "--rw=randread --bs=4k --iodepth=8 --numjobs=2 --ioengine=libaio --direct=1 --group_reporting --size=8g"
    words = f"--name=a --time_based --runtime=500ms --output-format=json --output={output} {options}"
    said = command("run", "px05smb040", "--", "fio", "--filename={drive}", *shlex.split(words))
    assert said.returncode == 0, said.stderr
    table = twin.read_points([output]).table
    errors = validation.errors(table, validation.simulate_points(twin.load_model("px05smb040"), table))
    for figure, most in {"iops": 0.02, "lat_mean": 0.02, "p50": 0.05, "p99": 0.1}.items():
        assert abs(errors[f"error_{figure}"][0]) < most, figure


def test_the_heat_map_has_a_panel_for_each_workload_and_figure() -> None:
    table = of_model(MODEL, WORKLOADS).assign(part=["test", "test", "fit", "fit"])
    errors = validation.errors(table, table[list(points.FIGURE_COLUMNS)] * 1.1)
    figure = validation.error_maps(errors)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == 4 * 4
    assert [text.get_text() for text in panels[0].texts] == ["+10"]
    assert len(panels[0].patches) == 1  # the frame of a fitted point


@pytest.mark.slow
def test_the_walk_through_of_the_docs_gives_a_validated_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    truth = ["--set", "flash.read_time=75us", "--set", "link.rate=450MB/s"]
    for rw, depth, jobs in product(("randread", "randwrite"), (1, 4, 16), (1, 4)):
        folder = tmp_path / "results/sdx/4k"
        folder.mkdir(parents=True, exist_ok=True)
        options = f"--rw={rw} --bs=4k --iodepth={depth} --numjobs={jobs} --ioengine=libaio --direct=1 --time_based"
        words = f"--name={rw} {options} --runtime=300ms --group_reporting --output-format=json --size=4g"
        output = folder / f"{rw}-{depth}-{jobs}.json"
        said = command(
            *("run", "ssdsc2kg480g7", *truth, "--", "fio", "--filename={drive}", f"--output={output}"),
            *shlex.split(words),
        )
        assert said.returncode == 0, said.stderr
    page = (ROOT / "docs/use-twins.md").read_text()
    section = page[page.index("## From your results to a validated twin") :]
    lines = [line.partition("#")[0] for line in re.findall(r"^(twin (?:fit|validate) .*)$", section, re.MULTILINE)]
    assert len(lines) == 2
    printed = ""
    for line in lines:
        said = command(*shlex.split(line)[1:])
        assert said.returncode == 0, said.stdout + said.stderr
        printed = said.stdout
    assert (tmp_path / "errors.svg").read_text().startswith("<?xml")
    assert "p99" in printed
    found = models.load_model(tmp_path / "my-drive.yaml")
    assert len(found.fit["fitted"]) == 9
    assert len(found.fit["predicted"]) == 3
    table = twin.read_points(["results"]).table
    errors = validation.errors(table, validation.simulate_points(found, table))
    assert errors["error_iops"].abs().mean() < 0.05
    assert errors["error_iops"].abs().max() < 0.15
