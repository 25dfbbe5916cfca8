"""The scale of a source, its cells, and the committed records of measurements at that scale."""

from dataclasses import replace
from typing import Any

import pytest
from support import ROOT, recorded_file

from iopatterns.analysis import quantities
from iopatterns.configuration import committed_records, config, grid, source_scale
from iopatterns.judging import scale_agreement

STUDIES = list(config.load_config(ROOT).studies)


def with_scale(**scale: Any) -> config.Config:
    """Return the configuration with a scale of one experiment of `saif2020`, on the C400 alone."""
    conf = config.load_config(ROOT, {"studies": ["saif2020"], "drives": ["c400"]})
    study = conf.studies["saif2020"]
    body: Any = {**study["experiments"]["initial"], "source_scale": {"place": "Section 3", **scale}}
    changed: Any = {**study, "experiments": {"initial": body}}
    return replace(conf, studies={"saif2020": changed})


def scaled_specification(**scale: Any) -> Any:
    return source_scale.shorter_cells(with_scale(**scale), "saif2020")[0].at_scale.specification


def test_runtime_file_size_and_options_are_those_of_the_source() -> None:
    found = scaled_specification(runtime="60 s", file_size="2 GiB", fio={"ramp_time": "3 s"})
    assert (found["runtime_ms"], found["drive"]["file_size_bytes"]) == (60_000, 2 * 2**30)
    assert found["fio"]["ramp_time"] == 3_000_000


def test_one_pass_has_no_runtime() -> None:
    assert scaled_specification(one_pass=True)["runtime_ms"] == 0


def test_jobs_have_regions_of_the_larger_file() -> None:
    found = scaled_specification(file_size="4 GiB", regions=4)["fio"]
    assert found["size"] == found["offset_increment"] == 2**30


def test_a_scale_without_further_keys_is_that_of_the_default_run() -> None:
    assert source_scale.shorter_cells(with_scale(), "saif2020") == []


def test_the_default_run_does_not_change_with_the_scale_of_the_source() -> None:
    default, stated = (
        list(grid.expand_grid(with_scale(**scale), "saif2020")) for scale in ({}, {"file_size": "2 GiB"})
    )
    assert default == stated


def test_a_scale_may_be_that_of_some_drives() -> None:
    conf = with_scale(file_size="2 GiB", drives=["px02ssf020"])
    assert source_scale.shorter_cells(conf, "saif2020") == []
    assert source_scale.shorter_cells(with_scale(file_size="2 GiB", drives=["c400"]), "saif2020")


def test_a_log_cannot_be_transferred_in_one_pass() -> None:
    conf = with_scale(one_pass=True, fio={"partitions": 4})
    with pytest.raises(grid.GridError, match="partitions and one_pass exclude each other"):
        source_scale.shorter_cells(conf, "saif2020")


def agreement(**changes: float) -> Any:
    """Return the agreement of `clarke2024`, with other values at scale of 16 outstanding requests."""
    conf = config.load_config(ROOT, {"studies": ["clarke2024"]})
    executions = quantities.read_executions(recorded_file("clarke2024", "parquet"))
    mean = executions.loc[executions["experiments"].str.contains("queue-depth") & (executions["iodepth"] == 16), "iops"]
    record = {"made_from": {}, "cells": {"queue-depth": {"wsl-ssd": {"iodepth=16": {**changes, "seconds": 60.0}}}}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committed_records.RecordKind, "read", lambda *_: record)
        return scale_agreement.scale_agreement(conf, "clarke2024", executions), float(mean.mean())


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, 1), (1.019, 1), (0.981, 1), (1.021, 0), (0.979, 0)])
def test_a_narrow_interval_is_widened_to_two_percent_of_the_mean(factor: float, agrees: int) -> None:
    _, mean = agreement(iops=1.0)
    found, _ = agreement(iops=factor * mean)
    assert (found["shorter"], found["agree"]) == (1, agrees)
    assert len(found["differing"]) == 1 - agrees
    assert found["worst"]["error_percent"] == pytest.approx(100 * (1 / factor - 1))


def test_a_run_of_some_drives_is_compared_with_the_record_of_all() -> None:
    conf = config.load_config(ROOT, {"studies": ["saif2020"]})
    some = config.load_config(ROOT, {"studies": ["saif2020"], "drives": ["c400"]})
    every_sum, sums = (
        scale_agreement.record_checksums(each, "saif2020", source_scale.shorter_cells(each, "saif2020"))
        for each in (conf, some)
    )
    assert sums.items() <= every_sum.items()
    assert sums.keys() == {"data/twins/c400.yaml", "config/studies/saif2020.yaml on c400"}


def test_a_cell_agrees_only_if_all_its_quantities_do() -> None:
    _, mean = agreement(iops=1.0)
    found, _ = agreement(iops=mean, latency=1000.0)
    assert (found["agree"], [row["quantity"] for row in found["differing"]]) == (0, ["latency"])


def test_claims_and_published_values_determine_the_compared_quantities() -> None:
    assert scale_agreement.compared_quantities(ROOT, "saif2020", "initial") == ["bandwidth"]
    assert scale_agreement.compared_quantities(ROOT, "zhou", "alignment") == ["iops"]
    assert scale_agreement.compared_quantities(ROOT, "zhou", "pause") == ["latency"]
    assert scale_agreement.compared_quantities(ROOT, "clarke2024", "no-such-experiment") == ["bandwidth"]


@pytest.mark.parametrize("study", STUDIES)
def test_each_study_says_at_which_scale_its_source_measured(study: str) -> None:
    experiments = config.load_config(ROOT).studies[study]["experiments"]
    assert [name for name, body in experiments.items() if "source_scale" not in body] == []


@pytest.mark.parametrize("study", STUDIES)
def test_the_recorded_run_agrees_with_the_committed_record_or_the_study_says_why_not(study: str) -> None:
    executions = quantities.read_executions(recorded_file(study, "parquet"))
    found = scale_agreement.scale_agreement(config.load_config(ROOT), study, executions)
    assert (found["unknown"], found["stale"]) == (0, [])
    assert scale_agreement.unexplained_lines(study, found) == []
