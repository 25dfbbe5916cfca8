"""Releases: version, citation, changelog, protocol and manifests agree."""

import hashlib
import itertools
import re

import pytest
import yaml
from support import ROOT

import iopatterns
from iopatterns.configuration import grid
from iopatterns.workflow import manifest
from iopatterns.workflow.planned_cells import load_cells

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# Version or "Unreleased", rest of the heading, and text of each section, newest first
SECTIONS = re.findall(r"^## \[([^\]]+)\]([^\n]*)\n(.*?)(?=^## |\Z)", CHANGELOG, flags=re.MULTILINE | re.DOTALL)
RELEASES = [section for section in SECTIONS if section[0] != "Unreleased"]
VERSIONS = sorted(path.name for path in (ROOT / manifest.MANIFEST_FOLDER).iterdir())
CELLS = load_cells(ROOT)


def measured() -> str:
    """Return the line of the changelog that states what this version measures."""
    parts = [f"protocol {grid.PROTOCOL}"]
    for version in VERSIONS:
        paths = [manifest.manifest_path(ROOT, version, study) for study in CELLS.studies]
        lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines(keepends=True)]
        raw = [line for line in lines if "  data/raw/" in line]
        parts.append(f"{version} `{hashlib.sha256(''.join(raw).encode()).hexdigest()[:12]}`")
    return f"Measured: {', '.join(parts)}"


def lines_measured() -> dict[str, str]:
    found = {name: re.findall(r"^Measured: .*$", text, flags=re.MULTILINE) for name, _, text in SECTIONS}
    assert all(len(lines) <= 1 for lines in found.values())
    return {name: lines[0] for name, lines in found.items() if lines}


def test_each_release_has_a_version_a_date_and_what_it_measures() -> None:
    assert SECTIONS[0][:2] == ("Unreleased", "")
    for version, rest, _ in RELEASES:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert re.fullmatch(r" - \d{4}-\d{2}-\d{2}", rest)
        assert version in lines_measured()


def test_package_and_citation_have_the_version_of_the_last_release() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == iopatterns.__version__ == RELEASES[0][0]


def test_the_changelog_states_what_this_version_measures() -> None:
    of_report = f"# configuration {manifest.report_digest(CELLS)}\n"
    for version in VERSIONS:
        if of_report not in manifest.manifest_path(ROOT, version, manifest.REPORT_MANIFEST).read_text(encoding="utf-8"):
            pytest.skip("a study was added or removed: the changelog describes the studies of the committed report")
    assert next(iter(lines_measured().values())) == measured()


def test_a_release_with_other_measurements_has_another_minor_version() -> None:
    lines = lines_measured()
    for (newer, *_), (older, *_) in itertools.pairwise(RELEASES):
        if lines[newer] != lines[older]:
            assert newer.split(".")[:2] != older.split(".")[:2]


@pytest.mark.parametrize("study", CELLS.studies)
def test_the_manifests_of_a_study_have_its_configuration_and_this_protocol(study: str) -> None:
    for version in VERSIONS:
        path = manifest.manifest_path(ROOT, version, study)
        of_study = f"# configuration {manifest.study_digest(CELLS, study)}\n"
        assert of_study in path.read_text(encoding="utf-8"), f"{path}: iopatterns manifest --write renews it"
