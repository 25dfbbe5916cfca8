"""Facts about trying a workload on a twin, about browsing what was measured, and about the controls of both."""

import io
from dataclasses import replace
from pathlib import Path

import ipywidgets as widgets
import numpy as np
import PIL.Image
import pytest
from support import FIXTURE_DRIVES, FIXTURE_STUDY, copy_recorded_results, recorded_file

from iopatterns.lab import browse, controls, explore
from iopatterns.lab.browse import BrowseError, StudyResults
from iopatterns.lab.explore import ExploreError, Workload, simulate_workload
from iopatterns.twin import fitting, models
from iopatterns.twin.error import TwinError

pytestmark = pytest.mark.slow  # each test draws figures

DRIVE = models.load_model("px05smb040")


# ---- A workload on a twin


@pytest.mark.parametrize(("rw", "depth", "jobs"), [("randread", 1, 1), ("read", 1, 1), ("randread", 8, 4)])
def test_the_rate_is_what_a_fit_reckons_with(rw: str, depth: int, jobs: int) -> None:
    point = fitting.MeasuredPoint("a", rw, 4096, 10_000, "IOPS", numjobs=jobs, iodepth=depth)
    found = simulate_workload(DRIVE, Workload(rw, iodepth=depth, numjobs=jobs))
    assert found.iops == pytest.approx(fitting.simulate_point(DRIVE, point), rel=0.05)


def test_the_same_workload_gives_the_same_outcome_and_picture() -> None:
    first, second = (simulate_workload(DRIVE, Workload("randrw", iodepth=4)) for _ in range(2))
    np.testing.assert_array_equal(first.latency_ns, second.latency_ns)
    assert explore.draw_png(first) == explore.draw_png(second)
    other = simulate_workload(DRIVE, Workload("randrw", iodepth=4, seed=2))
    assert not np.array_equal(first.latency_ns, other.latency_ns)


def test_a_picture_drawn_again_is_as_one_drawn_first() -> None:
    few, many = simulate_workload(DRIVE, Workload()), simulate_workload(DRIVE, Workload("write", 2**20, iodepth=32))
    picture = explore.SimulationFigure()
    picture.png(many, few)
    assert picture.png(few) == explore.draw_png(few)
    assert PIL.Image.open(io.BytesIO(picture.png(few))).size == (820, 460)


def test_the_depth_is_kept_in_a_closed_loop() -> None:
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


def test_of_a_mix_both_directions_are_told() -> None:
    found = simulate_workload(DRIVE, Workload("randrw", rwmixread=70))
    assert found.is_read.mean() == pytest.approx(0.7, abs=0.05)
    assert found.counters["read_commands"] == found.is_read.sum()


def test_what_was_overwritten_at_random_amplifies_writes() -> None:
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


def test_a_wider_window_is_worth_something_to_sequential_readers() -> None:
    off, on = (simulate_workload(DRIVE, Workload("read"), {"read_ahead.enabled": on}).iops for on in (False, True))
    assert on > 2 * off


@pytest.mark.parametrize("name", models.list_models())
def test_every_twin_can_be_tried(name: str) -> None:
    found = simulate_workload(models.load_model(name), Workload("randrw", iodepth=4, requests=500))
    assert found.requests > 0
    assert len(found.latency_ns) == len(found.issue_ns) == len(found.is_read) == found.requests
    assert explore.draw_png(found)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rw": "randraed"}, "Did you mean 'randread'"),
        ({"bs_bytes": 1000}, "no multiple of 512"),
        ({"iodepth": 0}, "iodepth is 0, but must be from 1"),
        ({"iodepth": 4096, "numjobs": 2}, "more than 4096 requests outstanding"),
        ({"requests": 10**9}, "requests is 1000000000"),
        ({"rwmixread": 101}, "from 0 to 100"),
    ],
)
def test_a_workload_that_is_none_is_told(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ExploreError, match=message):
        replace(Workload(), **fields)  # type: ignore[arg-type]


def test_a_parameter_that_is_none_is_told() -> None:
    with pytest.raises(TwinError, match=r"settings: read_ahead\.windw: .*Did you mean 'read_ahead\.window'"):
        simulate_workload(DRIVE, Workload(), {"read_ahead.windw": "1 MiB"})


def test_levels_are_halves_and_doubles_within_the_range() -> None:
    levels = [int(level) for level in explore.values_to_try("read_ahead.window", 512 * 1024)]
    assert 512 * 1024 in levels
    assert levels == sorted(levels)
    declared = models.declared_parameters()["read_ahead.window"]
    assert declared["kind"] == "number"
    assert declared["minimum"] <= levels[0] < levels[-1] <= declared["maximum"]
    assert explore.values_to_try("page_mapping.background_gc_idle", 0)[0] == 0
    with pytest.raises(ExploreError, match="no number"):
        explore.values_to_try("host.scheduler", "cfq")


# ---- What was measured


@pytest.fixture(scope="module")
def executions() -> StudyResults:
    return StudyResults.read(recorded_file(FIXTURE_STUDY, "parquet"))


def test_what_varies_is_offered_and_what_was_told(executions: StudyResults) -> None:
    assert executions.levels("depth").keys() == {"drive", "iodepth"}
    assert "iops" in executions.quantities("concurrency")
    assert "miss ratio" not in executions.quantities("concurrency")


def test_any_factor_can_be_the_axis(executions: StudyResults) -> None:
    over_depth = executions.figure("depth", "latency", "iodepth", curve="drive")
    over_drive = executions.figure("depth", "latency", "drive", curve="iodepth")
    assert over_depth.axes[0].get_xlabel() == "I/O depth"
    assert over_drive.axes[0].get_xlabel() == "Drive"
    panels = executions.figure("depth", "latency", "iodepth", panel="drive")
    assert [axes.get_title(loc="left") for axes in panels.axes] == executions.levels("depth")["drive"]


def test_points_are_means_of_the_cell_s_executions(executions: StudyResults) -> None:
    figure = executions.figure("depth", "iops", "iodepth", curve="drive")
    rows = executions.rows[executions.rows["experiments"].str.split().map(lambda names: "depth" in names)]
    drawn = np.concatenate(
        [line.get_ydata() for line in figure.axes[0].get_lines() if line.get_label() in FIXTURE_DRIVES]
    )
    np.testing.assert_allclose(np.sort(drawn), np.sort(rows.groupby(["drive", "iodepth"])["iops"].mean()))


def test_executions_of_different_cells_are_not_averaged(executions: StudyResults) -> None:
    with pytest.raises(BrowseError, match="give the level of drive, which vary"):
        executions.figure("depth", "iops", "iodepth")
    with pytest.raises(BrowseError, match="'numjobs' does not vary; drive, iodepth do"):
        executions.figure("depth", "iops", "iodepth", curve="numjobs")


def test_runs_are_found_wherever_a_command_puts_them(tmp_path: Path) -> None:
    assert browse.finished_runs(tmp_path) == {}
    for folder in ("results", "results/quick", "results/bench/c400-0123"):
        (tmp_path / folder / "measurements").mkdir(parents=True)
        (tmp_path / folder / "measurements/a.parquet").touch()
    assert list(browse.finished_runs(tmp_path)) == ["results/a", "results/quick/a", "results/bench/c400-0123/a"]


# ---- The controls


def control(parent: controls.TwinControls | controls.RunControls, label: str) -> "widgets.ValueWidget":
    """Return the control that bears a label, as a user finds it."""
    found, waiting = [], list(parent.children)
    while waiting:
        each = waiting.pop()
        waiting += getattr(each, "children", ())
        found += [each] if getattr(each, "description", "") == label else []
    (only,) = found
    return only


def test_each_change_is_drawn_and_kept_curves_are_seen() -> None:
    shown = controls.TwinControls()
    first = shown.png
    control(shown, "I/O depth").value = 32
    deep = shown.png
    control(shown, "Keep in grey").click()
    compared = shown.png
    control(shown, "I/O depth").value = 1
    assert len({first, deep, compared, shown.png}) == 4


def test_a_parameter_is_set_and_set_back() -> None:
    shown = controls.TwinControls()
    control(shown, "Workload").value = "read"
    control(shown, "Parameters of").value = "read_ahead"
    before = shown.png
    control(shown, "enabled").value = False
    assert shown.png != before
    assert "read_ahead.enabled False" in shown.said
    control(shown, "As in the model").click()
    assert shown.png == before
    assert control(shown, "enabled").value is True


@pytest.mark.slow
def test_every_group_of_every_twin_has_controls() -> None:
    shown = controls.TwinControls()
    for name in models.list_models():
        control(shown, "Twin").value = name
        for group in control(shown, "Parameters of").options:
            control(shown, "Parameters of").value = group
    assert "<b>" not in shown.said


def test_a_drive_that_cannot_be_is_told_and_the_figure_stays() -> None:
    shown = controls.TwinControls()
    before = shown.png
    window = control(shown, "window")
    window.value = "32 KiB"
    assert "read_ahead.window: must not be less than refill" in shown.said
    assert shown.png == before
    window.value = "1 MiB"
    assert "<b>" not in shown.said


@pytest.mark.slow
@pytest.mark.parametrize("twin", ["px05smb040", "hard-disk"])
def test_every_level_that_a_slider_offers_is_one_of_a_model_file(twin: str) -> None:
    shown = controls.TwinControls(twin)
    control(shown, "Requests").value = 1000
    for group in control(shown, "Parameters of").options:
        control(shown, "Parameters of").value = group
        for each in list(shown._parameters.children):
            if isinstance(each, widgets.SelectionSlider):
                for _, level in (each.options[0], each.options[-1]):
                    each.value = level
                    assert "is not valid" not in shown.said, each.description
                control(shown, "As in the model").click()
                break


@pytest.mark.slow
def test_menus_show_a_finished_run_and_each_choice_is_drawn(tmp_path: Path) -> None:
    shown = controls.RunControls(copy_recorded_results(tmp_path / "project"))
    control(shown, "Experiment").value = "depth"
    first = shown.png
    assert first.startswith(b"\x89PNG")
    control(shown, "Quantity").value = "latency"
    second = shown.png
    control(shown, "Axis").value = "drive"
    assert len({first, second, shown.png}) == 3
    assert shown.said == ""


def test_without_a_finished_run_one_sentence_says_what_to_run(tmp_path: Path) -> None:
    shown = controls.RunControls(tmp_path)
    assert "run `./reproduce.sh quick`" in shown.said
    assert shown.png == b""
