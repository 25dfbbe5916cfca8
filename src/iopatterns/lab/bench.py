"""Measures a drive at some levels of some factors with no file to write: a study for it, in a folder of its own."""

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
from iopatterns.measuring.cell import latency_log_path, measure_cells
from iopatterns.raw import tuning_steps

if TYPE_CHECKING:
    from iopatterns.study import Study

BENCH_FOLDER = "results/bench"
BENCH_STUDY = "bench"
# Asynchronous, so that iodepth is what is asked for, and past the page cache
_FIO = {"ioengine": "libaio", "direct": 1, "group_reporting": 1}
_QUANTITIES = ("iops", "bandwidth", "latency", "clat p99")
_OF_FIGURES = ("iops", "latency")
_DIGITS = 8
# Into so many intervals the curve over time divides an execution, none shorter than fio can log
_INTERVALS, _LEAST_INTERVAL_MS = 25, 10


class BenchError(IoPatternsError):
    """A factor or level that cannot be measured; the message names it."""

    exit_status = 2


@dataclass(frozen=True)
class BenchRequest:
    """What is asked for: a drive, the levels of each factor as they were typed, and values other than config.yaml's."""

    drive: str
    levels: Mapping[str, Sequence[str]]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Bench:
    """A study made for one request, below ``folder``: its configuration, raw files and results."""

    root: Path
    folder: Path
    request: BenchRequest
    conf: config.Config
    cells: Sequence[grid.Cell]

    @classmethod
    def lay_out(cls, root: Path, request: BenchRequest) -> "Bench":
        """Write the configuration of a request below ``root``/results/bench, and expand it.

        The same request has the same folder, so that what it measured is there when it is made again. Raises
        BenchError, ConfigError or GridError.
        """
        main = {**yaml_schema.read_yaml(root, config.CONFIG_FILE), **request.values}
        main |= {"drives": [request.drive], "studies": [BENCH_STUDY], "independent_drives": []}
        vary = {name: [_level(name, text) for text in texts] for name, texts in request.levels.items()}
        study = {
            "title": f"Measurements of {request.drive}",
            "drives": [request.drive],
            "repetitions": main["repetitions"],
            "fio": {
                name: level
                for name, level in {**_FIO, "log_hist_msec": _log_interval_ms(main["runtime"])}.items()
                if name not in vary
            },
            "experiments": {
                BENCH_STUDY: {
                    "runtime": main["runtime"],
                    "vary": vary,
                    "tables": [BENCH_STUDY],
                    "figures": [BENCH_STUDY],
                }
            },
        }
        asked = hashlib.sha256(json.dumps([main, study], sort_keys=True).encode()).hexdigest()
        folder = root / BENCH_FOLDER / f"{request.drive}-{asked[:_DIGITS]}"
        known = drive_entries.read_drive_entries(root)
        entry = known.entries[request.drive]
        of_user = {request.drive: entry} if request.drive in known.of_user else {}
        if not of_user:
            study["twins"] = {request.drive: {key: value for key, value in entry.items() if key != "kind"}}
        written = {
            config.CONFIG_FILE: main,
            drive_entries.DRIVES_FILE: of_user,
            f"{config.STUDIES_FOLDER}/{BENCH_STUDY}.yaml": study,
        }
        for file, content in written.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            _write(folder / file, content)
        shutil.copytree(root / schemas.SCHEMAS_FOLDER, folder / schemas.SCHEMAS_FOLDER, dirs_exist_ok=True)
        try:
            conf = config.load_config(folder)
            return cls(root, folder, request, conf, list(grid.expand_grid(conf, BENCH_STUDY)))
        except yaml_schema.ConfigError as error:
            raise BenchError(_as_typed(str(error))) from None

    def raw_files(self) -> list[Path]:
        """Return the paths of all raw files, from where the command was started."""
        names = grid.repetition_names(self.conf.repetitions)
        raw = Path(os.path.relpath(self.folder / "raw", self.root))
        return [raw / cell.folder / f"{name}.json" for cell in self.cells for name in names]

    def measure(self) -> int:
        """Measure what is not there yet, as a study's cells are measured; return how many executions that were."""
        raws = self.raw_files()
        missing = sum(not (self.root / raw).exists() for raw in raws)
        subprocess_env.make_environment_uniform()
        progress.begin_count(self.folder / "raw/.progress", missing)
        cells = f"{len(self.cells)} cell{'' if len(self.cells) == 1 else 's'}"
        messages.say(f"{self.request.drive}: {cells}, {missing} of {len(raws)} executions to measure")
        return measure_cells(self.root, [cell.specification for cell in self.cells], raws) if missing else 0

    def tell(self) -> str:
        """Write the table and figures of what was measured, and return the table and what is where, for a terminal."""
        from iopatterns import study
        from iopatterns.analysis import collect, plots, report_tables, tables

        experiments = {cell.folder: [BENCH_STUDY] for cell in self.cells}
        raws = [self.root / raw for raw in self.raw_files()]
        place = self.folder / "measurements" / BENCH_STUDY
        table = collect.measurement_table(raws, experiments)
        files.write_atomically(
            place.with_suffix(".parquet"), lambda temporary: table.to_parquet(temporary, index=False)
        )
        tuning_steps.write_tuning_records(place.with_suffix(".tuning.json"), collect.tuning_records(raws, experiments))
        found = study.Study.load(
            measurements=place.with_suffix(".parquet"),
            tuning=place.with_suffix(".tuning.json"),
            published=self.folder / sources.PUBLISHED_FOLDER / BENCH_STUDY,
            twins=self.root / "data/twins",
            confidence=self.conf.confidence,
            method=self.conf.interval,
        )
        by = found.factors(BENCH_STUDY)
        shown = report_tables.level_table(found.comparison(BENCH_STUDY, by, _QUANTITIES), by, _QUANTITIES)
        tables.write_table(shown, self.folder / "tables" / BENCH_STUDY)
        self._draw_details(found, by)
        for name in _OF_FIGURES:
            x, panels = plots.panels_by_level(
                found.summary(BENCH_STUDY, by, name), by, name, found.published(BENCH_STUDY, of=name)
            )
            plots.save_figure(
                plots.curves_figure(panels, x, columns=2), self.folder / "figures" / name.replace(" ", "-")
            )
        depths = found.summary(BENCH_STUDY, by, "iops")
        if {"iodepth", "numjobs"} <= set(by):
            plots.save_figure(
                plots.heat_map(depths, "iodepth", "numjobs", "iops"), self.folder / "figures/iodepth-numjobs"
            )
        refused = "\n".join(f"not measured: {found.why_not(BENCH_STUDY, each['drive'])}" for each in found.left_out())
        return "\n".join(filter(None, (tables.to_text(shown), refused, "", self._where())))

    def _draw_details(self, found: "Study", by: Sequence[str]) -> None:
        """Draw what the raw files have beside the means: bars of all cells, latencies, and rates over time."""
        from iopatterns.analysis import execution_figures, plots

        rows = found.rows(BENCH_STUDY)
        if rows.empty:
            return
        raw = self.folder / "raw"
        keys = rows[["drive", "study", "cell", "execution"]].to_dict("records")
        sources = [raw / "/".join(str(each[k]) for k in ("drive", "study", "cell")) / _file(each) for each in keys]
        figures = self.folder / "figures"
        summaries = {name: found.summary(BENCH_STUDY, by, name) for name in _OF_FIGURES}
        plots.save_figure(execution_figures.quantity_bars(summaries, by), figures / "bars")
        latencies = execution_figures.completion_latencies(sources)
        plots.save_figure(
            execution_figures.latency_histograms(rows.assign(source=list(map(str, sources))), latencies, by),
            figures / "histogram",
        )
        logs = [latency_log_path(source) for source in sources]
        there = [log for log in logs if log.exists()]
        rates = execution_figures.rates_over_time(there)
        if not rates.empty:
            curves = execution_figures.rate_curves(rows.assign(source=list(map(str, logs))), rates, by)
            plots.save_figure(curves, figures / "over-time")

    def _where(self) -> str:
        place = os.path.relpath(self.folder, self.root)
        drive = self.request.drive
        overrides = [
            f"studies=[{BENCH_STUDY}]",
            f"drives=[{drive}]",
            *(f"{k}={v}" for k, v in self.request.values.items()),
        ]
        return (
            f"{place}: tables, figures, raw (raw files and sidecars, kept: the same command measures nothing twice)\n"
            f"To keep it as a study of the report, under any name in place of {BENCH_STUDY}:\n"
            f"  cp {place}/{config.STUDIES_FOLDER}/{BENCH_STUDY}.yaml {config.STUDIES_FOLDER}/\n"
            f"  mkdir -p data/raw/{drive} && cp -r {place}/raw/{drive}/{BENCH_STUDY} data/raw/{drive}/\n"
            f"  iopatterns study new {BENCH_STUDY}\n"
            f"  {shlex.join(['snakemake', '--cores', '1', '--config', *overrides])}"
        )


def _file(row: Mapping[Any, Any]) -> str:
    """Return the name of the raw file of an execution."""
    return f"{int(row['execution']):02}.json"


def _write(path: Path, content: Any) -> None:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    files.write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _level(name: str, text: str) -> int | str:
    """Return a level as a study's file has it. Raises BenchError for one that is no number where one is needed."""
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
    """Return how often the latencies of an execution are logged; a runtime that is none is told when it is read."""
    try:
        return max(_LEAST_INTERVAL_MS, units.parse_duration_us(runtime) // 1000 // _INTERVALS)
    except ValueError:
        return _LEAST_INTERVAL_MS


def _as_typed(message: str) -> str:
    """Return a message on the study's file in the words of the command line."""
    begin = rf"{config.STUDIES_FOLDER}/{BENCH_STUDY}\.yaml(:\d+)?: "
    lines = [re.sub(f"^{begin}", "", line).removeprefix(f"experiments.{BENCH_STUDY}") for line in message.splitlines()]
    return "\n".join(line.removeprefix(".vary.").lstrip(": ") for line in lines)
