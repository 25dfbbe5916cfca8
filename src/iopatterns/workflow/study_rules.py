"""Inputs, outputs and parameters of the Snakemake rules that analyse a study.

A study is one source document and the experiments that reproduce it. Its file is config/studies/<study>.yaml.
"""

from collections.abc import Iterable
from typing import Any, Literal

from iopatterns.configuration import committed_records, config, grid, sources
from iopatterns.workflow import notebooks


def table_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the paths of all tables that the notebooks of the given studies write.

    Each table is written as CSV, LaTeX and typst, such as results/tables/kapoor/scale.csv. Tables of experiments that
    run on no configured drive are left out.
    """
    return [file for study in studies for file in _outputs(conf, study, "tables", ("csv", "tex", "typ"))]


def figure_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the paths of all figures that the notebooks of the given studies write.

    Each figure is written as SVG and PNG, such as results/figures/kapoor/scale.svg. Figures of experiments that run on
    no configured drive are left out.
    """
    return [file for study in studies for file in _outputs(conf, study, "figures", ("svg", "png"))]


def shown_trace_files(conf: config.Config, study: str) -> list[str]:
    """Return the user's converted system call traces that a study's notebook shows.

    The paths are results/calls/<name>.parquet for each trace under ``traces`` in config/config.yaml. The list is empty
    if the notebook does not exist or does not declare the parameter ``traces``.

    Raises:
        NotebookError: The cell of the notebook that declares parameters is invalid.
    """
    notebook = conf.root / f"notebooks/{study}.ipynb"
    if not (conf.traces and notebook.exists()):
        return []
    shown = "traces" in notebooks.declared_notebook_parameters(notebook)
    return [f"results/calls/{name}.parquet" for name in conf.traces if shown]


def shown_claims_files(conf: config.Config, study: str) -> list[str]:
    """Return the path of a study's claims.yaml if the study's notebook shows claims.

    The list is empty if the notebook does not exist or does not declare the parameter ``claims``.

    Raises:
        NotebookError: The cell of the notebook that declares parameters is invalid.
    """
    notebook = conf.root / f"notebooks/{study}.ipynb"
    shown = notebook.exists() and "claims" in notebooks.declared_notebook_parameters(notebook)
    return _published([study], "claims.yaml") if shown else []


def notebook_parameters(conf: config.Config, study: str) -> dict[str, Any]:
    """Return the parameters of a study's notebook that come from config/config.yaml.

    The keys are:

    - ``confidence``: the confidence level of intervals, such as 0.95
    - ``interval``: the method of intervals, ``t`` or ``bca``
    - ``traces``: the paths of the user's traces, see `shown_trace_files`; the key is missing if the notebook shows none
    """
    given = {"confidence": conf.confidence, "interval": conf.interval}
    shown = shown_trace_files(conf, study)
    return {**given, "traces": shown} if shown else given


def notebook_paths(conf: config.Config, study: str) -> dict[str, str]:
    """Return the parameters of a study's notebook that are paths of results.

    The paths are relative to the project's folder. The keys are:

    - ``measurements``: an input, results/measurements/<study>.parquet
    - ``tuning``: an input, the outcomes of drive settings in results/measurements/<study>.tuning.json
    - ``tables`` and ``figures``: the folders to write tables and figures to
    - ``numbers``: the JSON file to write the numbers of the report to
    """
    return {
        "measurements": f"{conf.results}/measurements/{study}.parquet",
        "tuning": f"{conf.results}/measurements/{study}.tuning.json",
        "tables": f"{conf.results}/tables/{study}",
        "figures": f"{conf.results}/figures/{study}",
        "numbers": f"{conf.results}/numbers/{study}.json",
    }


def study_titles(conf: config.Config) -> dict[str, dict[str, str]]:
    """Return title and source of each configured study, by the name of the study.

    Each value is a dictionary with the keys ``title`` and ``source``. The source is the publication that the study
    reproduces, and empty if the study has none.
    """
    return {
        study: {"title": content["title"], "source": content.get("source", "")}
        for study, content in conf.studies.items()
    }


def judged_studies(conf: config.Config) -> list[str]:
    """Return the names of the configured studies that have published data.

    These are the studies with a folder data/published/<study>. Their claims are checked against the measurements.
    """
    return [study for study in conf.studies if sources.has_published(conf.root, study)]


def published_files(conf: config.Config, *studies: str) -> list[str]:
    """Return the paths of the CSV files of published data of the given studies, such as values.csv and drives.csv.

    The files have the published values and the drives of a source, and are in data/published/<study>. Studies without
    published data, and studies that are not configured, are left out.
    """
    chosen = [study for study in judged_studies(conf) if study in studies]
    folder = conf.root / sources.PUBLISHED_FOLDER
    more = [file.relative_to(conf.root) for study in chosen for file in sorted((folder / study).glob("*.csv"))]
    required = _published(chosen, "values.csv", "drives.csv")
    return list(dict.fromkeys([*required, *(str(file) for file in more)]))


def claims_files(conf: config.Config) -> list[str]:
    """Return the paths of values.csv and claims.yaml of all configured studies.

    The files have the published values and claims of a source, and are in data/published/<study>. A claim is a
    published statement that is checked against the measurements. Studies without published data are left out.
    """
    return _published(judged_studies(conf), "values.csv", "claims.yaml")


def scale_records(conf: config.Config) -> list[str]:
    """Return the paths of the existing scale records of all configured studies, such as data/scale/saif2020.yaml."""
    records = [committed_records.SCALE_RECORDS.file(study) for study in conf.studies]
    return [file for file in records if (conf.root / file).exists()]


def _published(studies: Iterable[str], *names: str) -> list[str]:
    return [f"{sources.PUBLISHED_FOLDER}/{study}/{name}" for study in studies for name in names]


def _outputs(conf: config.Config, study: str, kind: Literal["tables", "figures"], suffixes: Iterable[str]) -> list[str]:
    """Return the paths of the tables or figures that a study declares.

    Files of experiments that run on no configured drive are left out.

    Args:
        conf: The configuration.
        study: The name of the study.
        kind: Which of the two to return.
        suffixes: The file name endings of each table or figure.
    """
    content = conf.studies[study]
    names = list(content.get(kind, []))
    for experiment, body in content["experiments"].items():
        if grid.drives_of_experiment(conf, study, experiment):
            names += body.get(kind, [])
    return [f"{conf.results}/{kind}/{study}/{name}.{suffix}" for name in dict.fromkeys(names) for suffix in suffixes]
