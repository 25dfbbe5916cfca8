"""Simulate workloads, browse measurements, and use the controls of both."""

import io
from dataclasses import replace
from pathlib import Path

import ipywidgets as widgets
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from support import FIXTURE_DRIVES, FIXTURE_STUDY, copy_recorded_results, recorded_file

from iopatterns.analysis import quantities
from iopatterns.lab import browse, controls, explore
from iopatterns.lab.browse import BrowseError
from iopatterns.lab.explore import ExploreError, Workload, simulate_workload
from iopatterns.twin import models, simulation
from iopatterns.twin.error import TwinError

pytestmark = pytest.mark.slow  # each test draws figures

DRIVE = models.load_model("px05smb040")


# ---- Simulated workloads


@pytest.mark.parametrize(("rw", "depth", "jobs"), [("randread", 1, 1), ("read", 1, 1), ("randread", 8, 4)])
def test_the_rate_agrees_with_the_one_used_for_fitting(rw: str, depth: int, jobs: int) -> None:
    fitted = simulation.PointWorkload(rw, 4096, depth, jobs, region_bytes=2**30)
    found = simulate_workload(DRIVE, Workload(rw, iodepth=depth, numjobs=jobs))
    assert found.iops == pytest.approx(simulation.simulate(DRIVE, fitted, 20_000)["read_iops"], rel=0.05)


def test_equal_workloads_give_equal_results_and_figures() -> None:
    first, second = (simulate_workload(DRIVE, Workload("randrw", iodepth=4)) for _ in range(2))
    np.testing.assert_array_equal(first.latency_ns, second.latency_ns)
    assert explore.draw_png(first) == explore.draw_png(second)
    other = simulate_workload(DRIVE, Workload("randrw", iodepth=4, seed=2))
    assert not np.array_equal(first.latency_ns, other.latency_ns)


def test_a_reused_figure_is_drawn_like_a_new_one() -> None:
    few, many = simulate_workload(DRIVE, Workload()), simulate_workload(DRIVE, Workload("write", 2**20, iodepth=32))
    figure = explore.SimulationFigure()
    figure.png(many, few)
    assert figure.png(few) == explore.draw_png(few)
    assert PIL.Image.open(io.BytesIO(figure.png(few))).size == (820, 460)


def test_a_closed_loop_keeps_its_depth() -> None:
    found = simulate_workload(DRIVE, Workload(iodepth=8, numjobs=2))
    shares = found.depth_shares()
    assert shares.sum() == pytest.approx(1)
    assert len(shares) - 1 == 16
    assert shares @ np.arange(17) == pytest.approx(found.iops * found.latency_ns.mean() / 1e9)  # Little's law
    assert shares[16] > 0.5


def test_requests_that_arrive_faster_than_they_are_served_queue_up() -> None:
    most = simulate_workload(DRIVE, Workload(iodepth=256)).iops
    slack, too_much = (simulate_workload(DRIVE, Workload(arrivals_per_s=int(share * most))) for share in (0.3, 1.5))
    assert slack.iops == pytest.approx(0.3 * most, rel=0.1)
    assert len(too_much.depth_shares()) > 5 * len(slack.depth_shares())
    assert too_much.quantile_us(0.99) > 5 * slack.quantile_us(0.99)


def test_a_mix_has_reads_and_writes() -> None:
    found = simulate_workload(DRIVE, Workload("randrw", rwmixread=70))
    assert found.is_read.mean() == pytest.approx(0.7, abs=0.05)
    assert found.counters["read_commands"] == found.is_read.sum()


def test_writes_are_amplified_after_random_overwrites() -> None:
    workload = Workload("randwrite", 16384, iodepth=32)
    fresh = simulate_workload(DRIVE, workload).write_amplification
    used = simulate_workload(DRIVE, workload, {"ftl.initial_state": "random"}).write_amplification
    roomy = simulate_workload(
        DRIVE, workload, {"ftl.initial_state": "random", "ftl.over_provisioning": 1.0}
    ).write_amplification
    assert fresh == pytest.approx(1, abs=0.1)
    assert used is not None
    assert roomy is not None
    assert used > roomy > 1
    assert simulate_workload(DRIVE, Workload()).write_amplification is None


def test_read_ahead_accelerates_sequential_reads() -> None:
    off, on = (simulate_workload(DRIVE, Workload("read"), {"read_ahead.enabled": on}).iops for on in (False, True))
    assert on > 2 * off


@pytest.mark.parametrize("name", models.list_models())
def test_every_twin_can_be_simulated(name: str) -> None:
    found = simulate_workload(models.load_model(name), Workload("randrw", iodepth=4, requests=500))
    assert found.requests > 0
    assert len(found.latency_ns) == len(found.issue_ns) == len(found.is_read) == found.requests
    assert explore.draw_png(found)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rw": "randraed"}, "Did you mean 'randread'"),
        ({"bs_bytes": 1000}, "not a multiple of the sector size, 512"),
        ({"iodepth": 0}, "iodepth is 0, but must be from 1"),
        ({"iodepth": 4096, "numjobs": 2}, "more than 4096 requests outstanding"),
        ({"requests": 10**9}, "requests is 1000000000"),
        ({"rwmixread": 101}, "from 0 to 100"),
    ],
)
def test_an_invalid_workload_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ExploreError, match=message):
        replace(Workload(), **fields)  # type: ignore[arg-type]


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(TwinError, match=r"settings: read_ahead\.windw: .*Did you mean 'read_ahead\.window'"):
        simulate_workload(DRIVE, Workload(), {"read_ahead.windw": "1 MiB"})


def test_sliders_offer_halves_and_doubles_within_the_range() -> None:
    levels = [int(level) for level in explore.values_to_try("read_ahead.window", 512 * 1024)]
    assert 512 * 1024 in levels
    assert levels == sorted(levels)
    declared = models.declared_parameters()["read_ahead.window"]
    assert declared["kind"] == "number"
    assert declared["minimum"] <= levels[0] < levels[-1] <= declared["maximum"]
    assert explore.values_to_try("page_mapping.background_gc_idle", 0)[0] == 0
    with pytest.raises(ExploreError, match="not a number"):
        explore.values_to_try("host.scheduler", "cfq")


# ---- Measurements of runs


@pytest.fixture(scope="module")
def executions() -> pd.DataFrame:
    return quantities.read_executions(recorded_file(FIXTURE_STUDY, "parquet"))


def test_only_varied_factors_have_levels(executions: pd.DataFrame) -> None:
    rows = quantities.select_experiments(executions, "depth")
    assert browse.varied_levels(rows).keys() == {"drive", "iodepth"}


def test_any_factor_can_be_the_axis(executions: pd.DataFrame) -> None:
    over_depth = browse.draw_figure(executions, "depth", "latency", "iodepth", curve="drive")
    over_drive = browse.draw_figure(executions, "depth", "latency", "drive", curve="iodepth")
    assert over_depth.axes[0].get_xlabel() == "I/O depth"
    assert over_drive.axes[0].get_xlabel() == "Drive"
    panels = browse.draw_figure(executions, "depth", "latency", "iodepth", panel="drive")
    drives = browse.varied_levels(quantities.select_experiments(executions, "depth"))["drive"]
    assert [axes.get_title(loc="left") for axes in panels.axes] == drives


def test_points_are_means_of_the_repetitions_of_a_cell(executions: pd.DataFrame) -> None:
    figure = browse.draw_figure(executions, "depth", "iops", "iodepth", curve="drive")
    rows = quantities.select_experiments(executions, "depth")
    drawn = np.concatenate(
        [line.get_ydata() for line in figure.axes[0].get_lines() if line.get_label() in FIXTURE_DRIVES]
    )
    np.testing.assert_allclose(np.sort(drawn), np.sort(rows.groupby(["drive", "iodepth"])["iops"].mean()))


def test_repetitions_of_different_cells_are_not_averaged(executions: pd.DataFrame) -> None:
    with pytest.raises(BrowseError, match="drive also varies"):
        browse.draw_figure(executions, "depth", "iops", "iodepth")
    with pytest.raises(BrowseError, match=r"'numjobs' does not vary\. Varied: drive, iodepth"):
        browse.draw_figure(executions, "depth", "iops", "iodepth", curve="numjobs")


def test_runs_are_found_in_the_results_folders_of_all_commands(tmp_path: Path) -> None:
    assert browse.finished_runs(tmp_path) == {}
    for folder in ("results", "results/quick", "results/bench/c400-0123"):
        (tmp_path / folder / "measurements").mkdir(parents=True)
        (tmp_path / folder / "measurements/a.parquet").touch()
    assert list(browse.finished_runs(tmp_path)) == ["results/a", "results/quick/a", "results/bench/c400-0123/a"]


# ---- The controls


def control(parent: controls.TwinControls | controls.RunControls, label: str) -> "widgets.ValueWidget":
    """Return the control with a label."""
    found, waiting = [], list(parent.children)
    while waiting:
        each = waiting.pop()
        waiting += getattr(each, "children", ())
        found += [each] if getattr(each, "description", "") == label else []
    (only,) = found
    return only


def test_each_change_redraws_the_figure_with_the_reference() -> None:
    shown = controls.TwinControls()
    first = shown.png
    control(shown, "I/O depth").value = 32
    deep = shown.png
    control(shown, "Keep in grey").click()
    compared = shown.png
    control(shown, "I/O depth").value = 1
    assert len({first, deep, compared, shown.png}) == 4


def test_a_parameter_can_be_set_and_reset() -> None:
    shown = controls.TwinControls()
    control(shown, "Workload").value = "read"
    control(shown, "Parameters of").value = "read_ahead"
    before = shown.png
    control(shown, "enabled").value = False
    assert shown.png != before
    assert "read_ahead.enabled False" in shown.message
    control(shown, "As in the model").click()
    assert shown.png == before
    assert control(shown, "enabled").value is True


def test_every_group_of_every_twin_has_controls() -> None:
    shown = controls.TwinControls()
    for name in models.list_models():
        control(shown, "Twin").value = name
        for group in control(shown, "Parameters of").options:
            control(shown, "Parameters of").value = group
    assert "<b>" not in shown.message


def test_an_invalid_drive_shows_a_message_and_keeps_the_figure() -> None:
    shown = controls.TwinControls()
    before = shown.png
    window = control(shown, "window")
    window.value = "32 KiB"
    assert "read_ahead.window: must not be less than refill" in shown.message
    assert shown.png == before
    window.value = "1 MiB"
    assert "<b>" not in shown.message


@pytest.mark.parametrize("twin", ["px05smb040", "hard-disk"])
def test_every_level_of_a_slider_is_valid_in_a_model_file(twin: str) -> None:
    shown = controls.TwinControls(twin)
    control(shown, "Requests").value = 1000
    for group in control(shown, "Parameters of").options:
        control(shown, "Parameters of").value = group
        for each in list(shown._parameters.children):
            if isinstance(each, widgets.SelectionSlider):
                for _, level in (each.options[0], each.options[-1]):
                    each.value = level
                    assert "is not valid" not in shown.message, each.description
                control(shown, "As in the model").click()
                break


def test_each_choice_in_the_menus_of_a_run_redraws_the_figure(tmp_path: Path) -> None:
    shown = controls.RunControls(copy_recorded_results(tmp_path / "project"))
    control(shown, "Experiment").value = "depth"
    first = shown.png
    assert first.startswith(b"\x89PNG")
    control(shown, "Quantity").value = "latency"
    second = shown.png
    control(shown, "Axis").value = "drive"
    assert len({first, second, shown.png}) == 3
    assert shown.message == ""


def test_a_message_names_the_commands_if_there_is_no_finished_run(tmp_path: Path) -> None:
    shown = controls.RunControls(tmp_path)
    assert "Run `./reproduce.sh quick`" in shown.message
    assert shown.png == b""
