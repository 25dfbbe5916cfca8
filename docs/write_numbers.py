"""Write the numbers of the documentation from the scorecard of a default run: `python docs/write_numbers.py RESULTS`.

The numbers are in marked blocks of README.md and of pages in docs/. `snakemake --cores 1 readme` measures what is
missing, and runs this script.
"""

import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.judging import scorecard
from iopatterns.judging.evidence import BUILT_INTO_MODEL, FITTED, INDEPENDENT
from iopatterns.twin import models, recorded_errors

ROOT = Path(__file__).resolve().parents[1]
# in the order of the pages' tables
CLASSES = (FITTED, BUILT_INTO_MODEL, INDEPENDENT)

Studies = Mapping[str, Mapping[str, Any]]


def claims(studies: Studies) -> str:
    """Return the sentences on how many claims and held-out numbers a default run reproduces."""
    independent = [study["by_class"]["claims"]["independent"] for study in studies.values()]
    hold, checkable = (sum(study[key] for study in studies.values()) for key in ("hold", "checkable"))
    independent_hold, independent_checkable = (sum(each[key] for each in independent) for key in ("hold", "checkable"))
    (held_out,) = (
        study
        for study in studies.values()
        if study["held_out"] and study["by_class"]["values"]["independent"]["values"]
    )
    missed, numbers = held_out["counts"]["values"]["not reproduced"], held_out["by_class"]["values"]["independent"]
    return f"""\
- A default run reproduces **{hold} of the {checkable}** published claims that it can check.
- {checkable - independent_checkable} of these claims are no test of a model: the model was fitted to the same \
numbers, or contains the claimed behaviour by design.
- The other {independent_checkable} are *independent*. **{independent_hold}** of them are reproduced.
- No model is fitted to the {numbers["values"]} numbers of vendor data sheets. {numbers["values"] - missed} of them \
are met within {100 * held_out["tolerance"]:.0f} %;
  the mean error is {numbers["mean_absolute_percent"]:.0f} %."""


def leaderboard(studies: Studies) -> str:  # noqa: ARG001 - the blocks of all pages have one signature
    """Return a table of the errors of the models against measurements of the real drives, all workloads together."""
    figures = recorded_errors.FIGURES
    rows = [f"| drive | points | {' | '.join(figures.values())} |", "|---|---|" + "---|" * len(figures)]
    by_model: dict[str, list[Mapping[str, str]]] = {}
    for row in recorded_errors.all_errors():
        by_model.setdefault(row["model"], []).append(row)
    for model, of_model in by_model.items():
        cells = " | ".join(_total_text(of_model, figure) for figure in figures)
        rows.append(f"| `{model}` | {sum(int(row['points']) for row in of_model)} | {cells} |")
    return "\n".join(rows)


def _total_text(rows: Sequence[Mapping[str, str]], figure: str) -> str:
    """Return the mean and the largest error of a figure over all rows of a model."""
    points = sum(int(row["points"]) for row in rows)
    mean = sum(int(row["points"]) * float(row[f"{figure}_mean"]) for row in rows) / points
    worst = max((float(row[f"{figure}_worst"]) for row in rows), key=abs)
    return recorded_errors.cell_text({f"{figure}_mean": str(mean), f"{figure}_worst": str(worst)}, figure)


def errors(studies: Studies) -> str:
    """Return a table of the errors of published numbers, by study and class."""
    rows = ["| study | fitted | built into the model | independent | worst independent |", "|---|---|---|---|---|"]
    for name, study in sorted(studies.items()):
        by_class = study["by_class"]["values"]
        if not any(by_class[class_]["values"] for class_ in CLASSES):
            continue
        shown = [
            f"{each['values']} numbers, {each['mean_absolute_percent']:.1f} %" if each["values"] else "–"
            for each in (by_class[class_] for class_ in CLASSES)
        ]
        worst = by_class["independent"]
        shown.append(f"{worst['largest_at']}: {worst['largest_percent']:+.0f} %" if worst["values"] else "–")
        rows.append(f"| `{name}` | {' | '.join(shown)} |")
    return "\n".join(rows)


def counts(studies: Studies) -> str:
    """Return a table of the published numbers and claims of each study, and of how many claims are reproduced."""
    rows = [
        "| study | numbers | claims | reproduced, of checkable claims | reproduced, of independent claims |",
        "|---|---|---|---|---|",
    ]
    for name, study in sorted(studies.items()):
        published = sum(claim["drive"] is None for claim in study["claims"])
        independent = study["by_class"]["claims"]["independent"]
        shown = (
            f"{each['hold']} of {each['checkable']}" if each["checkable"] else "–" for each in (study, independent)
        )
        rows.append(f"| `{name}` | {len(study['values'])} | {published} | {' | '.join(shown)} |")
    return "\n".join(rows)


def models_by_error(studies: Studies) -> str:  # noqa: ARG001 - the blocks of all pages have one signature
    """Return a table of the errors of the models against measurements of the real drives."""
    names = recorded_errors.FIGURES
    rows = [
        f"| model | workload | outstanding | points | {' | '.join(names.values())} |",
        "|---|---|---|---|" + "---|" * len(names),
    ]
    for row in recorded_errors.all_errors():
        cells = " | ".join(recorded_errors.cell_text(row, figure) for figure in names)
        rows.append(f"| `{row['model']}` | {row['workloads']} | {row['outstanding']} | {row['points']} | {cells} |")
    compared = {row["model"] for row in recorded_errors.all_errors()}
    others = ", ".join(f"`{name}`" for name in models.list_models() if name not in compared)
    return "\n".join([*rows, "", f"Not compared with a real drive, so that the error is unknown: {others}."])


def renew_recorded_errors(results: str) -> None:
    """Write `recorded_errors.FILE` from the tables ``errors`` of the studies.

    Args:
        results: The results folder, relative to the project's folder.
    """
    rows: list[dict[str, str]] = []
    for path in sorted((ROOT / results).glob("tables/*/errors.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += [{"study": path.parent.name, **row} for row in csv.DictReader(file)]
    with (ROOT / "data/twins" / recorded_errors.FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


BLOCKS: Mapping[str, Callable[[Studies], str]] = {
    f.__name__: f for f in (claims, leaderboard, errors, counts, models_by_error)
}
PAGES = ("README.md", "docs/twins.md", "docs/studies.md")


def renewed(text: str, studies: Studies) -> str:
    """Return the text of a page with its marked blocks written from the scorecard of a default run."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{BLOCKS[match[2]](studies)}\n\n<!-- end -->"

    return re.sub(r"(<!-- (\w+): written by .*? -->\n).*?<!-- end -->", block, text, flags=re.DOTALL)


def main(results: str) -> None:
    """Renew all pages, unless the scorecard is of a run with other values than the default.

    Args:
        results: The results folder with the scorecard, relative to the project's folder.
    """
    if others := scorecard.skipped_expectations(ROOT, results):
        sys.exit(
            "\n".join(
                [*others, "The documentation has the numbers of a default run. Run it first: snakemake --cores 1"]
            )
        )
    renew_recorded_errors(results)
    studies = scorecard.load_scorecard(ROOT, results)["studies"]
    for name in PAGES:
        path = ROOT / name
        path.write_text(renewed(path.read_text(encoding="utf-8"), studies), encoding="utf-8")
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
