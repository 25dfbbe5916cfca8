"""The errors of models against real drives, as `twin describe` and the documentation show them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import ROOT, script

from iopatterns.twin import models, recorded_errors
from iopatterns.twin.cli import twin_command


def row(model: models.Model, workloads: str, mean: str, worst: str, **changes: str) -> dict[str, str]:
    figures = {
        f"{figure}_{name}": text
        for figure in recorded_errors.FIGURES
        for name, text in (("mean", mean), ("worst", worst))
    }
    place = {"workloads": workloads, "outstanding": "up to 64", "points": "7"}
    return {"study": "some", "model": model.name, "digest": model.digest, **place, **figures, **changes}


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    monkeypatch.setattr(recorded_errors, "all_errors", lambda: rows)
    return rows


def described(*arguments: str) -> str:
    done = CliRunner().invoke(twin_command, ["describe", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_describe_states_where_a_model_is_good_and_where_it_is_bad(record: list[dict[str, str]]) -> None:
    model = models.load_model("c400")
    record += [row(model, "reads", "0.04", "-0.12", p99_mean="0.3"), row(model, "writes", "0.251", "0.9", p99_mean="")]
    text = described("c400")
    assert "at 14 points that decided nothing about the model (study some)" in text
    assert "4 % (-12 %)" in text
    assert "25 % (+90 %)" in text
    good, bad = (line for line in text.splitlines() if "se it for" in line)
    assert good.endswith("IOPS, mean latency, p50 of reads with up to 64 outstanding.")
    assert bad.endswith(
        "p99 of reads with up to 64 outstanding; IOPS, mean latency, p50 of writes with up to 64 outstanding."
    )
    assert "has changed since" not in text


def test_errors_of_an_earlier_model_are_marked(record: list[dict[str, str]]) -> None:
    record.append(row(models.load_model("c400"), "reads", "0.04", "-0.12", digest="0" * 64))
    assert "The model has changed since" in described("c400")


def test_a_model_without_a_comparison_says_so(record: list[dict[str, str]], tmp_path: Path) -> None:
    record.append(row(models.load_model("c400"), "reads", "0.04", "-0.12"))
    copy = tmp_path / "c400.yaml"  # a model of the user is another model
    copy.write_bytes((ROOT / "data/twins/c400.yaml").read_bytes())
    for name in ("hard-disk", str(copy)):
        assert "Error on fio runs of the real drive: unknown" in described(name)
        assert json.loads(described(name, "--json"))["errors"] == []


def test_the_committed_record_names_models_and_is_on_the_pages() -> None:
    rows = recorded_errors.all_errors()
    assert {row["model"] for row in rows} <= set(models.list_models())
    assert rows
    numbers = script(ROOT / "docs/write_numbers.py")
    assert numbers.leaderboard({}) in (ROOT / "README.md").read_text(encoding="utf-8")
    assert numbers.models_by_error({}) in (ROOT / "docs/twins.md").read_text(encoding="utf-8")
