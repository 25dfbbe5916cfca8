"""The places of a study's files, which follow from the name of the study.

A study is one unit: it can be packed, passed on, added and removed, because no other file of the project belongs to it.
"""

from pathlib import Path

# Files, by what they hold. `{study}` stands for the name of the study.
GRID = "config/studies/{study}.yaml"
NOTEBOOK = "notebooks/{study}.ipynb"
CODE = "notebooks/{study}.py"  # what only the notebook needs
SECTION = "paper/studies/{study}.typ"
ABLATION = "data/ablation/{study}.yaml"
MANIFESTS = "data/manifests/*/{study}.sha256"  # one for each version of fio
# Folders. PUBLISHED holds values.csv, drives.csv, claims.yaml and expectations.yaml; TESTS holds the recorded
# measurement (recorded.parquet, recorded.tuning.json) and the tests of the study.
PUBLISHED = "data/published/{study}"
TRACES = "data/traces/{study}"
WORKLOADS = "data/workloads/{study}"
TESTS = "tests/studies/{study}"

PLACES = (GRID, PUBLISHED, NOTEBOOK, CODE, SECTION, TRACES, WORKLOADS, TESTS, ABLATION, MANIFESTS)


def files_of(root: Path, study: str) -> list[Path]:
    """Return the files of a study below ``root``, relative to it, in the order of `PLACES`.

    Links are files of a study, too; what they point to is not.
    """
    found: list[Path] = []
    for place in PLACES:
        for path in sorted(root.glob(place.format(study=study))):
            inside = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else [path]
            found += [each for each in inside if each.is_symlink() or each.is_file()]
    return [path.relative_to(root) for path in found if "__pycache__" not in path.parts]
