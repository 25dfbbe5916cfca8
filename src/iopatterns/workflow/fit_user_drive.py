"""Fit a simulated drive (twin) to a user's drive: `snakemake twin_of_DRIVE`.

The drive is measured at the points of `FIT_LEVELS`: the combinations of workload, block size and I/O depth. All
workloads only read. Some parameters of a model are fitted to the rates at two thirds of the points. The other points
are held out: the fit does not use them, and the error of the model at these points is reported. Parameters that are not
fitted keep their values from the model, and are assumed.
"""

import functools
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import files, messages, units, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import drive_entries, kinds
from iopatterns.lab.bench import BENCH_STUDY, Bench, BenchRequest
from iopatterns.raw.metadata_files import is_measured, read_metadata

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from iopatterns.analysis.tables import Table
    from iopatterns.configuration.kinds import DriveEntry
    from iopatterns.twin.fitting import FitResult

TARGET_PREFIX = "twin_of_"
MODEL_FILE, FINDINGS_FILE, REPORT_FILE = "model.yaml", "found.json", "report.pdf"
NOTEBOOK_FILE, _SECTION = "notebook.ipynb", "report.typ"
_TEMPLATES = {"twin_of.ipynb": NOTEBOOK_FILE, "twin_of.typ": _SECTION}
# Block sizes up to the size at which a drive splits requests, and depths up to the length of SATA's queue. A few
# repetitions suffice, because the noise of a point is small in comparison with the error of a model.
FIT_LEVELS = {"rw": ("randread", "read"), "bs": ("4k", "16k", "64k", "128k"), "iodepth": ("1", "4", "32")}
_REPETITIONS = 3
_OF_CONFIGURATION = ("repetitions", "runtime", "file_size")
# A point is held out if its positions in the lists above add up to _HELD_OUT modulo _PARTS. This is a third of the
# points, with some of each pattern, block size and depth.
_PARTS, _HELD_OUT = 3, 2
_STARTS = 2  # number of models that a fit starts from: those whose figures are nearest to the measured points


class DriveFitError(IoPatternsError):
    """No simulated drive can be fitted to a drive.

    The message has the cause and the remedy.
    """

    exit_status = 2


def fittable_drives(root: Path, words: Sequence[str] | None = None) -> list[str]:
    """Return the names of the drives that a simulated drive can be fitted to.

    These are all known drives except archives. An archive is a drive that was measured elsewhere, of which only the raw
    files exist here.

    The function also checks the targets ``twin_of_DRIVE`` on the command line: each DRIVE must be one of the returned
    names.

    Args:
        root: The project's folder.
        words: The words of the command line, such as ``["twin_of_labdisk"]``. None: those of this process.

    Raises:
        DriveFitError: The drive of a target does not exist or is an archive.
    """
    entries = drive_entries.read_drive_entries(root, complete=False).entries
    for word in sys.argv[1:] if words is None else words:
        if found := re.fullmatch(rf"{TARGET_PREFIX}([^:]+)", word):
            _check(found[1], entries)
    return [name for name, entry in entries.items() if not kinds.is_archived(entry)]


def _check(drive: str, entries: Mapping[str, "DriveEntry"]) -> None:
    """Raise DriveFitError unless a drive exists and is not an archive.

    Args:
        drive: The name of the drive.
        entries: The entries of all drives, by name.
    """
    if drive not in entries:
        near = yaml_schema.did_you_mean(drive, entries)
        raise DriveFitError(
            f"{TARGET_PREFIX}{messages.printable(drive)}: neither {drive_entries.DRIVES_FILE} nor a study has a"
            f" drive of this name.{near} Describe your drive in that file first."
        )
    if kinds.is_archived(entries[drive]):
        raise DriveFitError(
            f"{TARGET_PREFIX}{drive}: '{drive}' is an archive, which only contains the cells that were measured"
            " elsewhere. Fit the twin on the machine that has the drive."
        )


def fit_folder(drive: str) -> Path:
    """Return the folder of a fit's results, ``results/twin_of_DRIVE``.

    The path is relative to the project's folder.

    Args:
        drive: The name of the drive that was measured.
    """
    return Path("results") / f"{TARGET_PREFIX}{drive}"


def fit_drive(root: Path, drive: str, overrides: Mapping[str, Any]) -> str:
    """Measure a drive, fit a model to it, and write model, notebook and report.

    All workloads only read. A disk is written before only if ``precondition`` in config/config.yaml demands it.
    Existing measurements of the drive are reused. Several models are fitted, and the model with the smallest mean error
    on the fitted points is used. These files are written to `fit_folder`:

    - points.csv: the measured points
    - found.json: the findings, see `FitFindings`
    - model.yaml: the fitted model, only if its errors on the fitted points are within `fitting.MAX_MEAN_ERROR` and
      `fitting.MAX_POINT_ERROR`
    - notebook.ipynb, report.pdf, and the tables and figures of the notebook

    Args:
        root: The project's folder.
        drive: The name of the drive.
        overrides: Values that replace keys of config/config.yaml. Only the keys ``repetitions``, ``runtime`` and
            ``file_size`` are used.

    Returns:
        A summary for the user: the errors of the model, and the paths of the files.

    Raises:
        DriveFitError: The drive does not exist, is an archive or was not measured, or no model could be fitted.
        IoPatternsError: Measuring, the notebook or the report failed.
    """
    from iopatterns.workflow import notebooks
    from iopatterns.workflow.report import compile_report

    _check(drive, drive_entries.read_drive_entries(root).entries)
    values = {"repetitions": _REPETITIONS, **{key: overrides[key] for key in _OF_CONFIGURATION if key in overrides}}
    bench = Bench.create(root, BenchRequest(drive, FIT_LEVELS, values))
    bench.measure()
    folder = root / fit_folder(drive)
    measured = _measured(bench)
    fits = _fits(_points(bench))
    _write(folder, drive, fits, measured)
    here = fit_folder(drive)
    parameters = {"found": str(here / FINDINGS_FILE), "tables": str(here / "tables"), "figures": str(here / "figures")}
    for template, name in _TEMPLATES.items():
        shutil.copyfile(Path(__file__).with_name("templates") / template, folder / name)
    notebooks.execute_notebook(folder / NOTEBOOK_FILE, folder / NOTEBOOK_FILE, parameters)
    compile_report(folder / _SECTION, folder / REPORT_FILE, root, inputs={"results": f"/{here}"})
    return _summary(drive, json.loads((folder / FINDINGS_FILE).read_text(encoding="utf-8")))


def is_held_out(rw: str, bs: str, iodepth: str) -> bool:
    """Return whether a measured point is held out: the fit does not use its rate.

    A point is a combination of the levels in `FIT_LEVELS`. A third of the points are held out.

    Args:
        rw: The workload, ``randread`` or ``read``.
        bs: The block size as text, such as ``4k``.
        iodepth: The I/O depth as text, such as ``32``.

    Raises:
        ValueError: A level is not in `FIT_LEVELS`.
    """
    places = [FIT_LEVELS[name].index(level) for name, level in (("rw", rw), ("bs", bs), ("iodepth", iodepth))]
    return sum(places) % _PARTS == _HELD_OUT


def _measured(bench: Bench) -> "pd.DataFrame":
    """Return the measured rate at each point of `FIT_LEVELS`, one row per point.

    Columns: rw, bs_bytes, iodepth, executions (number of repetitions); measured_iops, low_iops and high_iops (the mean
    rate and its confidence interval); id, such as ``randread-4k-d1``; and held_out (whether the point is held out of
    the fit).
    """
    from iopatterns.analysis import collect
    from iopatterns.analysis.statistics import summarise_groups

    metadata, doubts = bench.load_metadata()
    for doubt in doubts:
        messages.say(doubt)
    table = collect.measurement_table(metadata, {cell.folder: [BENCH_STUDY] for cell in bench.cells})
    factors, conf = ["rw", "bs_bytes", "iodepth"], bench.conf
    rows = summarise_groups(table, factors, "iops", confidence=conf.confidence, method=conf.interval).set_index(factors)
    points = list(product(*FIT_LEVELS.values()))
    rows = rows.loc[[(rw, units.parse_size(bs), int(iodepth)) for rw, bs, iodepth in points]].reset_index()
    means = {"mean": "measured_iops", "low": "low_iops", "high": "high_iops"}
    return rows.rename(columns=means)[[*factors, "executions", *means.values()]].assign(
        id=[f"{rw}-{bs}-d{iodepth}" for rw, bs, iodepth in points],
        held_out=[is_held_out(*point) for point in points],
    )


def _points(bench: Bench) -> "pd.DataFrame":
    """Return the measured points as `points.read_points` returns them, repetitions included, with their parts.

    Raises:
        DriveFitError: Nothing was measured.
    """
    from iopatterns.twin import points

    if not is_measured(read_metadata(bench.root / bench.raw_files()[0])):
        raise DriveFitError(f"{bench.request.drive}: nothing was measured")
    found = points.read_points([bench.root / path for path in bench.raw_files()])
    for line in [*found.refused, *found.notes]:
        messages.say(line)
    out = {
        (rw, units.parse_size(bs), int(iodepth))
        for rw, bs, iodepth in product(*FIT_LEVELS.values())
        if is_held_out(rw, bs, iodepth)
    }
    workloads = zip(found.table["rw"], found.table["bs_bytes"], found.table["iodepth"], strict=True)
    parts = ["held out" if workload in out else points.FIT_PART for workload in workloads]
    return found.table.assign(part=parts)


def _fits(table: "pd.DataFrame") -> "dict[str, FitResult]":
    """Fit the shipped models whose figures are nearest to the measured points.

    A model whose fit fails is skipped with a message.

    Args:
        table: The points, as `_points` returns them.

    Returns:
        The fits by the name of the model they start from, in ascending order of the error on the fitted points.

    Raises:
        DriveFitError: No model could be fitted.
    """
    from iopatterns.twin import fitting, points
    from iopatterns.twin.error import TwinError

    fits = {}
    for model, _ in fitting.nearest_models(table[table["part"] == points.FIT_PART])[:_STARTS]:
        name = model.path.stem
        messages.say(f"Fitting {name}")
        try:
            fits[name] = fitting.fit_model(model, table, say=messages.say)
        except TwinError as error:  # for example, the drive is too small
            messages.say(f"{name} is skipped: {error}")
    if not fits:
        raise DriveFitError("No model could be fitted to the measured points.")
    return dict(sorted(fits.items(), key=lambda fit: fit[1].mean_absolute_error()))


def _write(folder: Path, drive: str, fits: "Mapping[str, FitResult]", measured: "pd.DataFrame") -> None:
    """Write points.csv, found.json, and model.yaml if its error is small enough.

    Args:
        folder: The folder to write to.
        drive: The name of the drive.
        fits: The fits, as `_fits` returns them. The first is used.
        measured: The points, as `_measured` returns them.
    """
    from iopatterns.twin import fitting, models

    start, fitted = next(iter(fits.items()))
    factors = ["rw", "bs_bytes", "iodepth"]
    simulated = fitted.errors[[*factors, "model_iops"]]
    rows = measured.drop(columns="id").merge(simulated, on=factors, validate="one_to_one")
    rows["error_percent"] = 100 * (rows["model_iops"] / rows["measured_iops"] - 1)
    # sizes are whole numbers of bytes: with six digits they would be other sizes
    sizes = fitted.table.filter(regex="_bytes$").columns
    table = fitted.table.astype(dict.fromkeys(sizes, "Int64"))
    files.write_atomically(folder / "points.csv", lambda path: table.to_csv(path, index=False, float_format="%.6g"))
    errors = {name: fit.mean_absolute_error() for name, fit in fits.items()}
    try:
        fitting.check_limits(fitted, start, fitting.MAX_MEAN_ERROR, fitting.MAX_POINT_ERROR, "")
        problem = ""
    except fitting.NoFitError as error:
        problem = str(error).strip()
    (folder / MODEL_FILE).unlink(missing_ok=True)
    if not problem:
        source = f"{fit_folder(drive)}/points.csv"
        models.write_fitted_model(
            fitted.model,
            folder / MODEL_FILE,
            {**fitted.moved, **fitted.taken},
            f"twin fit to {source}",
            fitting.fit_record(fitted, source),
        )
        _rename(folder / MODEL_FILE, drive, start)
    starting = models.load_model(start)
    parameters = [
        {
            "name": name,
            "start": models.format_value(name, starting.values[name]),
            "fitted": models.format_value(name, value),
            "bound": "; ".join(each[name] for each in (fitted.at_bounds, fitted.flat) if name in each),
        }
        for name, value in fitted.moved.items()
    ]
    found = {
        "drive": drive,
        "start": start,
        "starts": {name: 100 * error for name, error in errors.items()},
        "fits": not problem,
        "problem": problem,
        "fitted_error_percent": 100 * errors[start],
        "held_out_error_percent": 100 * fitted.mean_absolute_error(held_out=True),
        "held_out_largest_error_percent": float(rows.loc[rows["held_out"], "error_percent"].abs().max()),
        "parameters": parameters,
        "points": rows.to_dict("records"),
    }
    files.write_json(folder / FINDINGS_FILE, found)


def _rename(path: Path, drive: str, start: str) -> None:
    """Replace name and description in the file of a fitted model.

    They are still those of the model from which the fit started.

    Args:
        path: The model file.
        drive: The name of the drive that the model was fitted to.
        start: The name of the model from which the fit started.
    """
    text = path.read_text(encoding="utf-8")
    text = text[text.index("name:") :]
    text = re.sub(r"^name: .*$", f"name: twin-of-{drive}", text, count=1, flags=re.MULTILINE)
    about = f"fitted to reads of the drive {drive}; all other parameters are from {start}, and assumed"
    text = re.sub(r"^description: .*$", f'description: "{about}"', text, count=1, flags=re.MULTILINE)
    files.write_text(path, text)


def _summary(drive: str, found: Mapping[str, Any]) -> str:
    here = fit_folder(drive)
    lines = [
        f"{drive}: the twin, fitted from {found['start']}, has a mean error of {found['fitted_error_percent']:.1f} % on"
        f" the fitted points and {found['held_out_error_percent']:.1f} % on the held-out points (at most"
        f" {found['held_out_largest_error_percent']:.1f} %).",
        f"{here}/{REPORT_FILE}: tables and figures; {here}/{NOTEBOOK_FILE}: the analysis",
    ]
    if found["fits"]:
        lines.append(f"{here}/{MODEL_FILE}: the model. Use it with: twin run {here}/{MODEL_FILE} -- fio …")
    else:
        lines.append(f"No model was written: none of the models describes this drive. {found['problem']}")
    return "\n".join(lines)


# ---- Content of the notebook


@dataclass(frozen=True)
class FitFindings:
    """The findings of a fit, for the notebook that shows them.

    A fit adjusts parameters of a model, so that a simulated drive (twin) has the measured rates of a user's drive.

    Attributes:
        content: The content of the file found.json, which `fit_drive` wrote: measured points, fitted parameters and
            errors.
    """

    content: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> "FitFindings":
        """Read the findings from a file found.json, which `fit_drive` wrote."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    @functools.cached_property
    def points(self) -> "pd.DataFrame":
        """The measured points with the rate of the fitted model, one row per point.

        A point is a combination of workload, block size and I/O depth. Points that the fit used come first, then
        held-out points, which the fit did not use. All rates are in IOPS. The columns are:

        - ``rw``, ``bs_bytes``, ``iodepth``: the point; ``rw`` is ``read`` or ``randread``.
        - ``executions``: the number of repetitions.
        - ``measured_iops``, ``low_iops``, ``high_iops``: the mean measured rate, and the ends of its confidence
          interval.
        - ``held_out``: whether the point is held out.
        - ``model_iops``: the rate of the model.
        - ``error_percent``: how much the rate of the model is above the measured rate; negative if it is below.
        """
        import pandas as pd

        return pd.DataFrame(self.content["points"]).sort_values("held_out", kind="stable").reset_index(drop=True)

    def points_table(self) -> "Table":
        """Return a table of all points: measured rate, rate of the twin, and its error.

        A twin is a simulated drive. There is a row for each point (workload, block size and I/O depth). Points that the
        fit used come first. Rates are in IOPS, errors in percent of the measured rate.
        """
        from iopatterns.analysis.tables import (
            WORKLOAD_NAMES,
            Column,
            Table,
            block_label,
            fixed_decimals,
            interval_decimals,
            three_digits,
        )

        uses = self.points["held_out"].map({False: "fitted", True: "held out"})
        columns = (
            Column(("use",), "Point", align_right=False, hide_repeats=True),
            Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False),
            Column(("bs_bytes",), "Block size", lambda size: block_label(int(size))),
            Column(("iodepth",), "Depth"),
            Column(("measured_iops",), "Measured", three_digits, "IOPS"),
            Column(("low_iops", "high_iops"), "Interval", interval_decimals(0), "IOPS"),
            Column(("model_iops",), "Twin", three_digits, "IOPS"),
            Column(("error_percent",), "Error", fixed_decimals(1), "%"),
        )
        return Table(self.points.assign(use=uses), columns, "use")

    def parameters_table(self) -> "Table":
        """Return a table of the fitted parameters, with values before and after the fit.

        There is a row for each parameter. The last printed column, "Remark", has the bound of the search at which the
        fitted value is, or why the points do not determine it; otherwise a dash.
        """
        import pandas as pd

        from iopatterns.analysis.tables import Column, Table

        columns = (
            Column(("name",), "Parameter", align_right=False),
            Column(("start",), "Start"),
            Column(("fitted",), "Fitted"),
            Column(("bound",), "Remark", lambda text: text or "–", align_right=False),
        )
        return Table(pd.DataFrame(self.content["parameters"]), columns, "name")

    def figure(self) -> "Figure":
        """Return a figure of the rate (IOPS) over the I/O depth, a panel per block size.

        Each panel has curves of the measured drive, with confidence intervals, and of the fitted simulated drive
        (twin).
        """
        from iopatterns.analysis.plots import curves_figure

        return curves_figure(list(self._panels()), "iodepth", columns=2)

    def _panels(self) -> Iterator[Any]:
        import pandas as pd

        from iopatterns.analysis.plots import Panel
        from iopatterns.analysis.tables import block_label

        names = {"mean": "measured_iops", "low": "low_iops", "high": "high_iops"}
        for _, rows in self.points.sort_values(["bs_bytes", "rw", "iodepth"]).groupby("bs_bytes", sort=True):
            drive = rows.assign(variant="drive", **{name: rows[column] for name, column in names.items()})
            twin = rows.assign(variant="twin", mean=rows["model_iops"], low=float("nan"), high=float("nan"))
            both = pd.concat([drive, twin], ignore_index=True)
            yield Panel(block_label(int(rows["bs_bytes"].iloc[0])), both, of="iops", logarithmic=True)
