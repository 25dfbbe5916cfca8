"""The page that recomputes the headline figures from raw files without this package."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from measurements import Spec, measured, twin_cell
from support import ROOT

from iopatterns import twin
from iopatterns.analysis import collect, quantities
from iopatterns.base import files
from iopatterns.twin import traces
from iopatterns.twin.traces import parquet

PAGE = ROOT / "docs/recompute.md"
TABLE = json.loads((ROOT / "docs/recompute.json").read_text(encoding="utf-8"))
CODE = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("\n```\n")[0]
COMMAND = PAGE.read_text(encoding="utf-8").split("```sh\n")[1].split("\n```\n")[0]


def test_the_code_is_short_and_needs_only_python() -> None:
    assert sum(bool(line.strip()) for line in CODE.splitlines()) <= 50
    imports = [node for node in ast.walk(ast.parse(CODE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name if isinstance(node, ast.Import) else node.module for node in imports for alias in node.names}
    assert modules <= sys.stdlib_module_names


@pytest.mark.parametrize("study", sorted({figure["study"] for figure in TABLE["figures"]}))
def test_each_figure_of_abstract_and_summary_is_recomputed(study: str) -> None:
    text = (ROOT / f"paper/studies/{study}.typ").read_text(encoding="utf-8")
    headline = text[text.index("#let about") : text.index("#let discussion")]
    figures = [figure for figure in TABLE["figures"] if figure["study"] == study]
    assert figures
    recomputed = {
        (step["id"]) for figure in figures for step in figure["printed"] if isinstance(step, dict) and "id" in step
    }
    assert set(re.findall(r'found\(card, "([a-z0-9-]+)"', headline)) <= recomputed
    assert {figure["of"] for figure in figures} <= TABLE["formulas"].keys()


def replay_cell(project: Path) -> Spec:
    """Write a trace that writes some pages twice, deletes some and reads others; return a cell that replays it."""
    names = ["write"] * 24 + ["discard"] * 2 + ["read"] * 8
    trace = pd.DataFrame({"operation": [traces.OPERATIONS[name] for name in names], "size_bytes": 2**14})
    trace["offset_bytes"] = [*range(0, 20 * 2**14, 2**14), *range(0, 4 * 2**14, 2**14), *range(0, 10 * 2**14, 2**14)]
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    trace["arrival_ns"] = np.arange(len(trace), dtype="int64") * 20_000
    phases = {"run-1": 0, "run-2": 300_000, "end": 10**9}
    parquet.write_requests(project / "trace.parquet", [trace], "made up", phases)
    cell = twin_cell("wiscsim")
    setting = {"page_mapping.map_cache_coverage": "0.01"}
    changed = twin.load_model("wiscsim").overridden([f"{name}={value}" for name, value in setting.items()])
    cell["drive"] |= {"set": setting, "model_digest": changed.digest}
    replay = {"trace": "trace.parquet", "phase": "run-*", "latencies": True}
    return {**cell, "runtime_ms": 0, "replay": {**replay, "sha256": files.sha256(project / "trace.parquet")}}


def package_values(project: Path) -> pd.DataFrame:
    """Return the quantities of all repetitions in a project as this package computes them."""
    raws = sorted(path for path in project.glob("data/raw/*/*/*/*.json") if "sidecar" not in path.name)
    folders = {"/".join(raw.parent.parts[-3:]): ["one"] for raw in raws}
    collect.measurement_table(collect.load_metadata(raws), folders).to_parquet(project / "table.parquet")
    return quantities.read_executions(project / "table.parquet")


def recomputed(project: Path, figures: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """Run the command of the page in a project, with other figures."""
    (project / "docs").mkdir(exist_ok=True)
    (project / "docs/recompute.md").write_bytes(PAGE.read_bytes())
    (project / "docs/recompute.json").write_text(json.dumps(TABLE | {"figures": figures}))
    return subprocess.run(["sh", "-c", COMMAND], cwd=project, capture_output=True, text=True, check=False)


def test_the_code_agrees_with_this_package_and_finds_a_difference(tmp_path: Path) -> None:
    for options in ({"rw": "randread"}, {"rw": "read"}, {"rw": "randrw"}, {"rw": "randread", "bs": 16384}):
        measured(tmp_path, twin_cell(**options), count=2)
    # has further options, and must not be selected
    measured(tmp_path, twin_cell(rw="randread", ramp_time=100))
    measured(tmp_path, replay_cell(tmp_path))
    rows = package_values(tmp_path)
    replayed, of_fio = rows[rows["duration_s"].notna()].iloc[0], rows[rows["duration_s"].isna()]
    means = of_fio[of_fio["ramp_time"].isna()].groupby(["rw", "bs_bytes"]).mean(numeric_only=True)
    small = {"bs": 4096, "drive": "twin"}
    columns = {
        "bandwidth": "bandwidth_mb_per_s",
        "rate": "iops",
        "latency": "latency_ms",
        "duration": "duration_s",
        "longest run": "longest_run_s",
        "mean run": "mean_run_s",
        "mean depth": "depth_mean",
        "median depth": "depth_median",
        "largest depth": "depth_largest",
        "miss ratio": "miss_ratio",
        "partly valid": "zombies",
    }
    figures: list[dict[str, Any]] = []
    printed: list[Any] = []
    for of, column in columns.items():
        if of in {"bandwidth", "rate", "latency"}:
            cells, value = {**small, "rw": "randrw", "replay": None}, means.loc[("randrw", 4096), column]
        else:
            cells, value = {"trace": "*.parquet"}, replayed[column]
        figures.append({"figure": of, "study": "study", "of": of, "cells": cells, "as": "a"})
        printed.append(float(value))  # type: ignore[arg-type]
    ratio = {"of": "bandwidth", "cells": {**small, "rw": "randread"}, "to": {"rw": "read"}, "as": "a / b"}
    rates = means["bandwidth_mb_per_s"]
    growth = {"of": "bandwidth", "cells": {"rw": "randread"}, "growth": "bs", "as": "a / b"}
    figures += [{"figure": "ratio", "study": "study", **ratio}, {"figure": "growth", "study": "study", **growth}]
    printed += [rates["randread", 4096] / rates["read", 4096], rates["randread", 16384] / rates["randread", 4096]]
    (tmp_path / "results").mkdir()
    results = [
        {"name": figure["figure"], "values": [{"value": value}]} for figure, value in zip(figures, printed, strict=True)
    ]
    (tmp_path / "results/all.json").write_text(json.dumps({"found": results}))
    for figure in figures:
        figure |= {"printed": ["all.json", "found", {"name": figure["figure"]}, "values", {}, "value"]}
    done = recomputed(tmp_path, figures)
    assert (done.stderr, done.returncode) == ("", 0), done.stdout
    assert done.stdout.splitlines()[-1] == f"{{'agree': {len(figures)}, 'differ': 0, 'not measured': 0}}"
    absent = {**figures[0], "figure": "absent", "cells": {"rw": "trim"}}
    results[0]["values"][0]["value"] *= 1.000001
    (tmp_path / "results/all.json").write_text(json.dumps({"found": results}))
    done = recomputed(tmp_path, [*figures, absent])
    assert done.stdout.splitlines()[-1] == f"{{'agree': {len(figures) - 1}, 'differ': 1, 'not measured': 1}}"
    assert done.returncode == 1
