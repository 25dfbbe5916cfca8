"""Errors of the twins of RR-9319's drives on its tables 2 and 3."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin import fitting, models, ranges


def test_errors_of_fitted_and_held_out_values_are_small() -> None:
    errors: dict[bool, list[float]] = {False: [], True: []}
    for name in ("px02ssf020", "px05smb040", "c400"):
        model = twin.load_model(name)
        measured = model.with_values(model.fit.get("set", {}), "set")
        table = fitting.recorded_points(ROOT, model)
        table = table[table["id"].str.startswith("table")]
        for row in fitting.complete_errors(measured, table).to_dict("records"):
            errors[row["part"] == "fit"].append(abs(row["error_iops"]))
    assert (len(errors[True]), len(errors[False])) == (20, 4)
    assert np.mean(errors[True]) <= 0.02
    assert np.mean(errors[False]) <= 0.10


def test_the_description_names_the_claim_that_a_parameter_was_chosen_for() -> None:
    sources = {row[0]: row[3] for row in ranges.parameter_rows(models.load_model("px05smb040"))}
    assert sources["mode_page.FSW"].endswith("; chosen for saif2020/fsw-no-effect")


def test_the_initial_state_equals_a_file_that_fio_has_laid_out(tmp_path: Path) -> None:
    # a smaller drive in the proportions of the C400 and its file
    cut = ["--set", "capacity.size=4 GiB"]
    written = twin.load_model("c400").number("ftl.initial_extent") / twin.load_model("c400").size_bytes
    size = f"--size={int(written * 4 * 2**10)}m"
    direct = ["--filename={drive}", "--direct=1", "--thread=1", "--group_reporting=1", size]
    # each block once: garbage collection begins in the middle
    writes = ["--name=writes", *direct, "--rw=randwrite", "--bs=28k", "--randrepeat=0", "--randseed=7"]

    def written_at(*words: str, jobs: list[str]) -> float:
        output = tmp_path / "fio.json"
        done = command(
            *("run", "c400", *cut, *words, "--state", str(tmp_path / "state"), "--", "fio", *jobs),
            *("--output-format=json", f"--output={output}"),
        )
        assert done.returncode == 0, done.stderr
        return float(json.loads(output.read_text())["jobs"][-1]["write"]["bw_bytes"])

    layout = ["--name=layout", *direct, "--rw=write", "--bs=1m", "--end_fsync=1"]
    laid_out = written_at("--set", "ftl.initial_state=fresh", jobs=[*layout, *writes, "--stonewall"])
    initial = written_at("--set", f"ftl.initial_extent={size.removeprefix('--size=')[:-1]} MiB", jobs=writes)
    completely = written_at("--set", "ftl.initial_extent=0", jobs=writes)
    assert initial == pytest.approx(laid_out, rel=0.02)
    assert completely < 0.8 * initial
