"""Inputs, outputs and parameters of the rules of a study."""

from collections.abc import Iterable
from typing import Any, Literal

from iopatterns.configuration import config, grid, sources
from iopatterns.workflow import notebooks


def table_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the table files that the notebooks of studies write: CSV, LaTeX and typst for each declared table."""
    return [file for study in studies for file in _outputs(conf, study, "tables", ("csv", "tex", "typ"))]


def figure_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the figure files that the notebooks of studies write: SVG and PNG for each declared figure."""
    return [file for study in studies for file in _outputs(conf, study, "figures", ("svg", "png"))]


def shown_trace_files(conf: config.Config, study: str) -> list[str]:
    """Return the paths of the converted user traces that a study's notebook shows."""
    notebook = conf.root / f"notebooks/{study}.ipynb"
    if not (conf.traces and notebook.exists()):
        return []
    shown = "traces" in notebooks.declared_notebook_parameters(notebook)
    return [f"results/calls/{name}.parquet" for name in conf.traces if shown]


def notebook_parameters(conf: config.Config, study: str) -> dict[str, Any]:
    """Return the parameters of a study's notebook that the configuration decides."""
    given = {"confidence": conf.confidence, "interval": conf.interval}
    shown = shown_trace_files(conf, study)
    return {**given, "traces": shown} if shown else given


def notebook_paths(conf: config.Config, study: str) -> dict[str, str]:
    """Return the parameters of a study's notebook that are paths in the results folder."""
    return {
        "measurements": f"{conf.results}/measurements/{study}.parquet",
        "tuning": f"{conf.results}/measurements/{study}.tuning.json",
        "tables": f"{conf.results}/tables/{study}",
        "figures": f"{conf.results}/figures/{study}",
        "numbers": f"{conf.results}/numbers/{study}.json",
    }


def study_titles(conf: config.Config) -> dict[str, dict[str, str]]:
    """Return title and source of each study, for the report."""
    return {
        study: {"title": content["title"], "source": content.get("source", "")}
        for study, content in conf.studies.items()
    }


def judged_studies(conf: config.Config) -> list[str]:
    """Return the studies whose source published values or claims."""
    return [study for study in conf.studies if sources.has_published(conf.root, study)]


def published_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the files of the published values and drives of studies; none for a study without a source."""
    return _published([study for study in judged_studies(conf) if study in studies], "values.csv", "drives.csv")


def claims_files(conf: config.Config) -> list[str]:
    """Return the files of the published values and claims of all studies."""
    return _published(judged_studies(conf), "values.csv", "claims.yaml")


def _published(studies: Iterable[str], *names: str) -> list[str]:
    return [f"{sources.PUBLISHED_FOLDER}/{study}/{name}" for study in studies for name in names]


def _outputs(conf: config.Config, study: str, kind: Literal["tables", "figures"], suffixes: Iterable[str]) -> list[str]:
    """Return the files of one kind, of the study and of each of its experiments that runs on a configured drive."""
    content = conf.studies[study]
    names = list(content.get(kind, []))
    for experiment, body in content["experiments"].items():
        if grid.drives_of_experiment(conf, study, experiment):
            names += body.get(kind, [])
    return [f"{conf.results}/{kind}/{study}/{name}.{suffix}" for name in dict.fromkeys(names) for suffix in suffixes]
