"""Measure a drive over a grid of factor levels that is given on a command line.

A factor is an option of fio or a drive setting, and its values are levels. The grid has each combination of levels. The
module generates the configuration files of a study for this grid in a folder below results/bench, so that the user
writes none.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from iopatterns.base import files, messages, subprocess_env, units, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, drive_entries, factors, grid, schemas, sources
from iopatterns.measuring import progress
from iopatterns.measuring.cell import latency_log_path, measure_cells, missing_repetitions
from iopatterns.raw import tuning_steps

if TYPE_CHECKING:
    import pandas as pd

    from iopatterns.raw.records import MetadataFile

BENCH_FOLDER = "results/bench"
BENCH_STUDY = "bench"
# An asynchronous engine, because a synchronous one ignores iodepth; direct I/O, because the page cache hides the drive
_FIO = {"ioengine": "libaio", "direct": 1, "group_reporting": 1}
_QUANTITIES = ("iops", "bandwidth", "latency", "clat p99")
_FIGURE_QUANTITIES = ("iops", "latency")
_DIGITS = 8  # of the digest in the name of a folder
# The curve over time has this many intervals per repetition; fio cannot log shorter intervals than the second number
_INTERVALS, _MIN_INTERVAL_MS = 25, 10


class BenchError(IoPatternsError):
    """The error raised if a factor or level cannot be measured.

    A factor is an option of fio or a drive setting, and its values are levels. The message names the factor or level.
    """

    exit_status = 2


@dataclass(frozen=True)
class BenchRequest:
    """A request to measure one drive over a grid of levels.

    The grid has each combination of one level of each factor. A factor is an option of fio or a drive setting.

    Attributes:
        drive: The name of the drive, as in config/drives.yaml or of a model in data/twins.
        levels: The levels (values) of each factor, as typed, such as ``{"bs": ["4k", "64k"]}``.
        values: Values that replace keys of config/config.yaml, such as ``{"runtime": "5 s"}``.
    """

    drive: str
    levels: Mapping[str, Sequence[str]]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Bench:
    """A study (set of experiments) that was generated for one request.

    Attributes:
        root: The folder of the project.
        folder: The folder in results/bench with the study's configuration, raw files (fio's JSON output) and results.
        request: The request.
        conf: The configuration of the study.
        cells: The cells of the study. A cell is one configuration: a drive, its settings and a workload.
    """

    root: Path
    folder: Path
    request: BenchRequest
    conf: config.Config
    cells: Sequence[grid.Cell]

    @classmethod
    def create(cls, root: Path, request: BenchRequest) -> "Bench":
        """Write the configuration of a study for a request, and return the study.

        The folder of the study is results/bench/DRIVE-DIGEST, such as ``results/bench/c400-1a2b3c4d``. Equal requests
        have the same folder, unless config/config.yaml changed. Repetitions (runs of fio) that exist in the folder are
        reused. Nothing is measured yet.

        Args:
            root: The folder of the project.
            request: The drive and the grid to measure. The drive must exist.

        Raises:
            BenchError: A factor, level or value of the request is invalid.
            ConfigError: The project's own configuration is invalid.
        """
        main = {**yaml_schema.read_yaml(root, config.CONFIG_FILE), **request.values}
        main |= {"drives": [request.drive], "studies": [BENCH_STUDY], "independent_drives": []}
        vary = {name: [_level(name, text) for text in texts] for name, texts in request.levels.items()}
        fio = {**_FIO, "log_hist_msec": _log_interval_ms(main["runtime"])}
        experiment = {"runtime": main["runtime"], "vary": vary, "tables": [BENCH_STUDY], "figures": [BENCH_STUDY]}
        study = {
            "title": f"Measurements of {request.drive}",
            "drives": [request.drive],
            "repetitions": main["repetitions"],
            "fio": {name: level for name, level in fio.items() if name not in vary},
            "experiments": {BENCH_STUDY: experiment},
        }
        digest = hashlib.sha256(json.dumps([main, study], sort_keys=True).encode()).hexdigest()
        folder = root / BENCH_FOLDER / f"{request.drive}-{digest[:_DIGITS]}"
        known = drive_entries.read_drive_entries(root)
        entry = known.entries[request.drive]
        user_drives = {request.drive: entry} if request.drive in known.user_drives else {}
        if not user_drives:
            study["twins"] = {request.drive: {key: value for key, value in entry.items() if key != "kind"}}
        written = {
            config.CONFIG_FILE: main,
            drive_entries.DRIVES_FILE: user_drives,
            f"{config.STUDIES_FOLDER}/{BENCH_STUDY}.yaml": study,
        }
        for file, content in written.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            files.write_text(folder / file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        shutil.copytree(root / schemas.SCHEMAS_FOLDER, folder / schemas.SCHEMAS_FOLDER, dirs_exist_ok=True)
        try:
            conf = config.load_config(folder)
            return cls(root, folder, request, conf, list(grid.expand_grid(conf, BENCH_STUDY)))
        except yaml_schema.ConfigError as error:
            raise BenchError(_as_typed(str(error))) from None

    def raw_files(self) -> list[Path]:
        """Return the paths of all raw files of the study, whether they exist or not.

        A raw file is fio's JSON output. There is one raw file for each repetition (run of fio) of each cell.

        Returns:
            Paths relative to the folder of the project: first all repetitions of the first cell, then those of the
            next.
        """
        names = grid.repetition_names(self.conf.repetitions)
        raw = Path(os.path.relpath(self.folder / "raw", self.root))
        return [raw / cell.folder / f"{name}.json" for cell in self.cells for name in names]

    def measure(self) -> int:
        """Measure the repetitions that have no raw file yet.

        A repetition is one run of fio, and a raw file is its output. If a raw file is missing, existing raw files of a
        simulated drive that another simulator or another fio made are measured again too. The number of missing raw
        files is printed before measuring.

        Returns:
            The number of measured repetitions.

        Raises:
            IoPatternsError: A cell could not be measured, see `cell.measure_cells`.
        """
        raws = self.raw_files()
        missing = len(missing_repetitions([self.root / raw for raw in raws]))
        subprocess_env.make_environment_uniform()
        progress.begin_count(self.folder / "raw/.progress", missing)
        cells = f"{len(self.cells)} cell{'' if len(self.cells) == 1 else 's'}"
        messages.say(f"{self.request.drive}: {cells}, {missing} of {len(raws)} repetitions to measure")
        return measure_cells(self.root, [cell.specification for cell in self.cells], raws) if missing else 0

    def load_metadata(self) -> "tuple[dict[Path, MetadataFile], list[str]]":
        """Return the metadata of the raw files to average, by raw file, and doubts about them.

        Raw files of a cell that another fio, simulator or host made are left out, see `collect.select_by_origin`. A
        doubt is a line for a terminal that names the cell and the number of these raw files.

        Raises:
            MetadataError: A raw file or its metadata file has changed, or the metadata file is missing.
        """
        from iopatterns.analysis import collect

        loaded = collect.load_metadata(self.root / raw for raw in self.raw_files())
        selected, doubts = collect.select_by_origin(loaded, average=self.conf.average_over_origins)
        return selected, [f"doubt: {count} repetitions {doubt}" for doubt, count in doubts.items()]

    def write_results(self) -> str:
        """Write the results of the measurements: a table and figures.

        The files are in the subfolders measurements, tables and figures of the study's folder. Existing files are
        replaced.

        Returns:
            Text for a terminal: the table, the reasons why cells were not measured, the folder of the results, and the
            commands by which the user can add the results to the report as a study.
        """
        from iopatterns import study
        from iopatterns.analysis import collect, plots, report_tables, tables

        experiments = {cell.folder: [BENCH_STUDY] for cell in self.cells}
        metadata, doubts = self.load_metadata()
        place = self.folder / "measurements" / BENCH_STUDY
        measurements, tuning = place.with_suffix(".parquet"), place.with_suffix(".tuning.json")
        table = collect.measurement_table(metadata, experiments)
        files.write_atomically(measurements, lambda temporary: table.to_parquet(temporary, index=False))
        tuning_steps.write_tuning_records(tuning, collect.tuning_records(metadata, experiments))
        found = study.Study.load(
            measurements=measurements,
            tuning=tuning,
            published=self.folder / sources.PUBLISHED_FOLDER / BENCH_STUDY,
            twins=self.root / "data/twins",
            confidence=self.conf.confidence,
            method=self.conf.interval,
        )
        by = found.factors(BENCH_STUDY)
        shown = report_tables.level_table(found.comparison(BENCH_STUDY, by, _QUANTITIES), by, _QUANTITIES)
        tables.write_table(shown, self.folder / "tables" / BENCH_STUDY)
        figures, summaries = self.folder / "figures", {}
        for name in _FIGURE_QUANTITIES:
            summaries[name] = found.summary(BENCH_STUDY, by, name)
            x, panels = plots.panels_by_level(summaries[name], by, name, found.published(BENCH_STUDY, of=name))
            plots.save_figure(plots.curves_figure(panels, x, columns=2), figures / name)
        if {"iodepth", "numjobs"} <= set(by):
            heat_map = plots.heat_map(summaries["iops"], "iodepth", "numjobs", "iops")
            plots.save_figure(heat_map, figures / "iodepth-numjobs")
        rows = found.rows(BENCH_STUDY)
        if not rows.empty:
            self._draw_details(rows, summaries, by)
        refused = "\n".join(f"not measured: {found.why_not(BENCH_STUDY, each['drive'])}" for each in found.left_out())
        return "\n".join(filter(None, (tables.to_text(shown), refused, *doubts, "", self._next_steps())))

    def _draw_details(self, rows: "pd.DataFrame", summaries: "Mapping[str, pd.DataFrame]", by: Sequence[str]) -> None:
        """Save bars of all cells, latency histograms, and curves of rates over time.

        Args:
            rows: One row per repetition, as `quantities.read_executions` returns it.
            summaries: The summary of each quantity by name, as `Study.summary` returns it.
            by: The columns of the varied factors.
        """
        from iopatterns.analysis import execution_figures, plots

        figures = self.folder / "figures"
        raws = [
            self.folder / "raw" / row["drive"] / row["study"] / row["cell"] / f"{int(row['execution']):02}.json"
            for row in rows.to_dict("records")
        ]
        plots.save_figure(execution_figures.quantity_bars(summaries, by), figures / "bars")
        latencies = execution_figures.completion_latencies(raws)
        histograms = execution_figures.latency_histograms(rows.assign(source=list(map(str, raws))), latencies, by)
        plots.save_figure(histograms, figures / "histogram")
        logs = [latency_log_path(raw) for raw in raws]
        rates = execution_figures.rates_over_time([log for log in logs if log.exists()])
        if not rates.empty:
            curves = execution_figures.rate_curves(rows.assign(source=list(map(str, logs))), rates, by)
            plots.save_figure(curves, figures / "over-time")

    def _next_steps(self) -> str:
        """Return text for the terminal: where the results are, and how to keep them.

        The text contains the commands that turn the results into a study of the report.
        """
        place, drive = os.path.relpath(self.folder, self.root), self.request.drive
        values = [f"{key}={value}" for key, value in self.request.values.items()]
        overrides = [f"studies=[{BENCH_STUDY}]", f"drives=[{drive}]", *values]
        return (
            f"{place}: tables, figures and raw files (the same command reuses them)\n"
            f"To keep the results as a study of the report, replace {BENCH_STUDY} by a name of your choice:\n"
            f"  cp {place}/{config.STUDIES_FOLDER}/{BENCH_STUDY}.yaml {config.STUDIES_FOLDER}/\n"
            f"  mkdir -p data/raw/{drive} && cp -r {place}/raw/{drive}/{BENCH_STUDY} data/raw/{drive}/\n"
            f"  iopatterns study new {BENCH_STUDY}\n"
            f"  {shlex.join(['snakemake', '--cores', '1', '--config', *overrides])}"
        )


def _level(name: str, text: str) -> int | str:
    """Return a level that the user typed as it is written in a study file.

    Args:
        name: The name of the factor.
        text: The level as typed.

    Raises:
        BenchError: There is no factor of this name, or the factor needs a number.
    """
    try:
        factor = factors.find_factor(name)
    except factors.FactorError as error:
        raise BenchError(f"{name}={messages.printable(text)}: {error}") from None
    if factor.kind in {"number", "percent"}:
        try:
            return int(text)
        except ValueError:
            raise BenchError(f"{name}: '{messages.printable(text)}' is not {factor.hint}") from None
    return text


def _log_interval_ms(runtime: Any) -> int:
    """Return the interval in ms at which fio logs latencies during a repetition.

    The shortest interval is returned for an invalid runtime, which is reported when it is used.

    Args:
        runtime: The duration of a repetition, as in config.yaml.
    """
    try:
        return max(_MIN_INTERVAL_MS, units.parse_duration_us(runtime) // 1000 // _INTERVALS)
    except ValueError:
        return _MIN_INTERVAL_MS


def _as_typed(message: str) -> str:
    """Return an error message about a level in terms of what the user typed.

    The name and keys of the generated study file, which the user did not write, are removed from the message.

    Args:
        message: The message about the generated study file.
    """
    begin = rf"{config.STUDIES_FOLDER}/{BENCH_STUDY}\.yaml(:\d+)?: "
    lines = [re.sub(f"^{begin}", "", line).removeprefix(f"experiments.{BENCH_STUDY}") for line in message.splitlines()]
    return "\n".join(line.removeprefix(".vary.").lstrip(": ") for line in lines)
