"""fio on the twin of clarke2024's drive, compared with published values."""

from pathlib import Path

import pytest
from support import ROOT
from twins import a_second, iops, mean_fit_errors

from iopatterns.analysis import published
from iopatterns.twin import models

pytestmark = pytest.mark.slow

PUBLISHED = published.load_values(ROOT / "data/published/clarke2024").set_index("id")["value"]


@pytest.mark.parametrize("depth", [1, 4, 16, 64, 256, 1024])
def test_depth_raises_latency_and_not_the_rate_if_submission_blocks(tmp_path: Path, depth: int) -> None:
    job = a_second(tmp_path, "wsl-ssd", "randread", "--ioengine=libaio", f"--iodepth={depth}", "--runtime=8s")
    read = job["read"]
    service_us = 1e6 / read["iops"]
    assert read["iops"] == pytest.approx(PUBLISHED[f"depth-{depth}-iops"], rel=0.05)
    assert read["lat_ns"]["mean"] / 1e6 == pytest.approx(PUBLISHED[f"depth-{depth}-latency"], rel=0.05)
    # time passes inside io_submit(); completed requests wait until the others have been submitted
    assert read["slat_ns"]["mean"] / 1000 == pytest.approx(service_us, rel=0.03)
    if depth > 1:
        assert read["clat_ns"]["mean"] / 1000 == pytest.approx((depth - 1) * service_us, rel=0.03)


@pytest.mark.parametrize("size", ["4k", "16k", "32k", "128k"])
def test_a_large_request_takes_several_messages(tmp_path: Path, size: str) -> None:
    mix = ["--ioengine=libaio", "--iodepth=32", f"--bs={size}", "--runtime=4s"]
    job = a_second(tmp_path, "wsl-ssd", "randrw", *mix)
    assert job["read"]["iops"] == pytest.approx(PUBLISHED[f"size-{size}-iops"], rel=0.10)
    assert job["read"]["lat_ns"]["mean"] / 1e6 == pytest.approx(PUBLISHED[f"size-{size}-latency"], rel=0.10)


def test_jobs_share_the_server(tmp_path: Path) -> None:
    one = iops(tmp_path, "wsl-ssd", "randread", "--ioengine=libaio", "--iodepth=8")
    four = iops(tmp_path, "wsl-ssd", "randread", "--ioengine=libaio", "--iodepth=8", "--numjobs=4", "--group_reporting")
    assert one <= four < 1.1 * one


def test_errors_of_the_published_values_are_small() -> None:
    fitted, predicted = mean_fit_errors("wsl-ssd")
    assert fitted <= 0.01
    assert predicted <= 0.05


def test_a_fitted_model_keeps_the_claims_that_parameters_were_chosen_for(tmp_path: Path) -> None:
    drive = models.load_model("wsl-ssd")
    assert drive.chosen_for["link.rate"]
    models.write_fitted_model(drive, tmp_path / "new.yaml", {"link.rate": 500_000_000}, "a fit", drive.fit)
    written = models.load_model(tmp_path / "new.yaml")
    assert (written.values["link.rate"], written.sources["link.rate"][1]) == (500_000_000, "a fit")
    assert written.chosen_for == drive.chosen_for
    assert written.replaced(drive.values).digest == drive.digest
