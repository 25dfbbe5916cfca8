"""The sliders and menus of notebooks/explore.ipynb: what they are set to is drawn at once."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from iopatterns.analysis.outputs import small_png
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import factors
from iopatterns.lab import browse, explore
from iopatterns.twin import models

_WIDE = widgets.Layout(width="340px")
_STYLE = {"description_width": "110px"}
_SIZES = [512 * 2**power for power in range(12)]
_DEPTHS = [2**power for power in range(9)]
_JOBS = [1, 2, 4, 8, 16]
_ARRIVALS = [0, *(digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)), 10**6]
_REQUESTS = [1000 * 2**power for power in range(6)]
_NONE = "(none)"
# A slider is redrawn once it is let go
_ON_RELEASE = {"continuous_update": False}


class _Controls(widgets.HBox):  # type: ignore[misc]  # ipywidgets has no types
    """Menus and sliders; on their right the figure that they give, and what is said of it."""

    def __init__(self, controls: Sequence[widgets.Widget]) -> None:
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%", object_fit="contain"))
        self._said = widgets.HTML()
        left = widgets.VBox(controls, layout=widgets.Layout(flex="0 0 auto"))
        right = widgets.VBox([self._image, self._said], layout=widgets.Layout(flex="1 1 auto", min_width="0"))
        super().__init__([left, right])

    def redraw(self, _: object = None) -> None:
        """Show the figure of what is set; where there is none, say why and leave the figure."""
        try:
            self._image.value, self._said.value = self._drawn()
        except IoPatternsError as error:
            self._said.value = f"<b>{html.escape(str(error))}</b>"

    def _drawn(self) -> tuple[bytes, str]:
        """Return the figure of what is set as PNG, and HTML to show below it."""
        raise NotImplementedError

    @property
    def png(self) -> bytes:
        """The figure as it is shown; empty where there is none."""
        return bytes(self._image.value)

    @property
    def said(self) -> str:
        """What is said in place of a figure, or below it: HTML."""
        return str(self._said.value)


class TwinControls(_Controls):
    """A twin's parameters and a workload beside the figure of what they give, redrawn with each change."""

    def __init__(self, twin: str = "px05smb040") -> None:
        """Begin with a twin of data/twins as it is, and random reads. Raises TwinError for one that is not there."""
        self._model = models.load_model(twin)
        self._settings: dict[str, Any] = {}
        self._outcome: explore.SimulationResult | None = None
        self._kept: explore.SimulationResult | None = None
        self._picture = explore.SimulationFigure()
        self._twin = _menu("Twin", models.list_models(), twin, self._another_twin)
        self._workload = self._workload_controls()
        self._group = _menu("Parameters of", self._groups(), None, self._show_group)
        self._parameters = widgets.VBox()
        keep = widgets.Button(description="Keep in grey", tooltip="compare what follows with this")
        keep.on_click(self._keep)
        reset = widgets.Button(description="As in the model", tooltip="set all parameters back")
        reset.on_click(self._reset)
        buttons = widgets.HBox([keep, reset])
        super().__init__([self._twin, *self._workload.values(), self._group, self._parameters, buttons])
        self._show_group()
        self.redraw()

    def __repr__(self) -> str:
        """Say what is here where a notebook is read without its widgets."""
        return "Sliders and menus of a twin and a workload: ./reproduce.sh lab opens them"

    def _workload_controls(self) -> dict[str, Any]:
        """Return a control for each field of a workload, by its name."""
        start = explore.Workload()
        rates = [("closed loop", 0), *((f"{rate:,}/s", rate) for rate in _ARRIVALS[1:])]
        mix = _labelled(widgets.IntSlider, "Share of reads", self.redraw, value=start.rwmixread, step=5, **_ON_RELEASE)
        return {
            "rw": _menu("Workload", [(text, rw) for rw, text in WORKLOAD_NAMES.items()], start.rw, self.redraw),
            "bs_bytes": _slider("Block size", [(block_label(s), s) for s in _SIZES], start.bs_bytes, self.redraw),
            "iodepth": _slider("I/O depth", _DEPTHS, start.iodepth, self.redraw),
            "numjobs": _slider("Jobs", _JOBS, start.numjobs, self.redraw),
            "rwmixread": mix,
            "arrivals_per_s": _slider("Arrivals", rates, start.arrivals_per_s, self.redraw),
            "requests": _slider("Requests", [(f"{n:,}", n) for n in _REQUESTS], start.requests, self.redraw),
        }

    def _groups(self) -> list[str]:
        """Return the parts of the drive that have parameters; of its size as a whole little is to be learnt first."""
        groups = dict.fromkeys(name.partition(".")[0] for name in self._model.values)
        return sorted(groups, key=lambda group: (group not in {"read_ahead", "disk"}, group == "capacity"))

    def _another_twin(self, _: object) -> None:
        self._model, self._settings = models.load_model(self._twin.value), {}
        # the groups of a disk are others than those of an SSD; choosing the first of them shows it
        self._group.options = self._groups()
        self._show_group()
        self.redraw()

    def _show_group(self, _: object = None) -> None:
        group = self._group.value
        names = [name for name in self._model.values if name.partition(".")[0] == group]
        self._parameters.children = [self._control(name) for name in names]

    def _control(self, name: str) -> Any:
        """Return the control of a parameter: a slider of its levels, a slider of a share, a menu or a box to tick."""
        declared, value = models.declared_parameters()[name], self._model.values[name]
        set_to = self._settings.get(name, _written(name, value))
        label = name.partition(".")[2].replace("_", " ")

        def change(event: Any) -> None:
            self._settings[name] = event["new"]
            if event["new"] == _written(name, value):
                del self._settings[name]
            self.redraw()

        match declared["kind"]:
            case "toggle":
                control = _labelled(widgets.Checkbox, label, change, value=set_to)
            case "choice":
                control = _menu(label, declared["choices"], set_to, change)
            case "ratio":
                bounds = {"min": declared["minimum"], "max": declared["maximum"], "step": 0.01}
                control = _labelled(widgets.FloatSlider, label, change, value=set_to, **bounds, **_ON_RELEASE)
            case _:
                levels = explore.values_to_try(name, value)
                options = [(models.format_value(name, each), _written(name, each)) for each in levels]
                control = _slider(label, options, set_to, change)
        control.tooltip = declared["text"]
        return control

    def _keep(self, _: object) -> None:
        self._kept = self._outcome
        self.redraw()

    def _reset(self, _: object) -> None:
        self._settings = {}
        self._show_group()
        self.redraw()

    def _drawn(self) -> tuple[bytes, str]:
        workload = explore.Workload(**{name: control.value for name, control in self._workload.items()})
        self._outcome = explore.simulate_workload(self._model, workload, self._settings)
        return self._picture.png(self._outcome, self._kept), html.escape(_summary(self._outcome, self._settings))


def _written(name: str, value: models.ParameterValue) -> Any:
    """Return a parameter's value as a model file has it, sizes and times with their units, other than 0."""
    declared = models.declared_parameters()[name]
    with_unit = declared["kind"] == "number" and declared["unit"] != "count" and value != 0
    return models.format_value(name, value) if with_unit else value


def _summary(outcome: explore.SimulationResult, settings: dict[str, Any]) -> str:
    asked = outcome.workload.requests
    few = f" of {asked:,}, for the drive does much work for each" if outcome.requests < asked else ""
    changed = "".join(f"; {name} {value}" for name, value in settings.items())
    return f"{outcome.requests:,} requests{few}, {outcome.duration_ns / 1e9:.4g} s of the drive's time{changed}"


class RunControls(_Controls):
    """Menus of what a finished run has measured: quantity, axis, curves, panels, and the levels of all else."""

    def __init__(self, root: Path) -> None:
        """Begin with the first study that was measured below the project's folder; say so where none was."""
        self._tables = browse.finished_runs(root)
        self._levels: dict[str, Any] = {}
        self._filling = False
        if not self._tables:
            super().__init__([])
            self._said.value = html.escape(browse.NO_FINISHED_RUN)
            return
        self._of_levels = widgets.VBox()
        self._table = _menu("Measured", list(self._tables), None, self._unless_filling(self._another_table))
        self._experiment = _menu("Experiment", [], None, self._unless_filling(self._another_experiment))
        self._quantity = _menu("Quantity", [], None, self._unless_filling(self.redraw))
        self._x, self._curve, self._panel = (
            _menu(name, [], None, self._unless_filling(self._other_roles)) for name in ("Axis", "Curves", "Panels")
        )
        roles = [self._x, self._curve, self._panel]
        super().__init__([self._table, self._experiment, self._quantity, *roles, self._of_levels])
        self._another_table(None)

    def __repr__(self) -> str:
        """Say what is here where a notebook is read without its widgets."""
        return "Menus of what a finished run has measured: ./reproduce.sh lab opens them"

    def _another_table(self, _: object) -> None:
        self._executions = browse.StudyResults.read(self._tables[self._table.value])
        self._fill(self._experiment, [(name, name) for name in self._executions.experiments])
        self._another_experiment(None)

    def _another_experiment(self, _: object) -> None:
        """Offer what varies in the experiment: the factor with the most levels as axis, the workload as curves."""
        experiment = self._experiment.value
        self._vary = self._executions.levels(experiment)
        names = [(factors.level_scale(name, ()).label, name) for name in self._vary]
        self._fill(self._quantity, [(name, name) for name in self._executions.quantities(experiment)])
        axis = max(self._vary, key=lambda name: (name != "drive", len(self._vary[name])), default="rw")
        self._fill(self._x, names or [("Workload", "rw")], axis)
        for menu, wanted in ((self._curve, "rw"), (self._panel, "drive")):
            free = wanted in self._vary and wanted != axis
            self._fill(menu, [(_NONE, None), *names], wanted if free else None)
        self._other_roles(None)

    def _other_roles(self, _: object) -> None:
        """Offer a menu of levels for each factor that varies and is neither axis, curve nor panel."""
        roles = {self._x.value, self._curve.value, self._panel.value}
        self._levels = {
            name: _menu(factors.level_scale(name, levels).label, _named(name, levels), levels[0], self.redraw)
            for name, levels in self._vary.items()
            if name not in roles
        }
        self._of_levels.children = list(self._levels.values())
        self.redraw()

    def _unless_filling(self, changed: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return the function that a menu calls: ``changed`` for a user's choice, nothing while it gets its options."""
        return lambda event: None if self._filling else changed(event)

    def _fill(self, menu: Any, options: Sequence[tuple[str, Any]], value: Any = None) -> None:
        """Give a menu other options, and no sign of it to what a user's choice sets off."""
        self._filling = True
        menu.options = options
        menu.value = value if value is not None else options[0][1]
        self._filling = False

    def _drawn(self) -> tuple[bytes, str]:
        figure = self._executions.figure(
            self._experiment.value,
            self._quantity.value,
            self._x.value,
            curve=self._curve.value,
            panel=self._panel.value,
            at={name: menu.value for name, menu in self._levels.items()},
        )
        return small_png(figure), ""


def _named(factor: str, levels: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the levels of a factor with the texts that a menu shows."""
    texts = WORKLOAD_NAMES if factor == "rw" else factors.level_scale(factor, levels).texts
    return [(texts.get(level, str(level)), level) for level in levels]


def _labelled(kind: Any, label: str, changed: Callable[[Any], None], **options: Any) -> Any:
    """Return a labelled control that calls ``changed`` with each change of its value."""
    control = kind(description=label, style=_STYLE, layout=_WIDE, **options)
    control.observe(changed, "value")
    return control


def _menu(label: str, options: Sequence[Any], value: Any, changed: Callable[[Any], None]) -> Any:
    chosen = {} if value is None else {"value": value}
    return _labelled(widgets.Dropdown, label, changed, options=options, **chosen)


def _slider(label: str, options: Sequence[Any], value: Any, changed: Callable[[Any], None]) -> Any:
    return _labelled(widgets.SelectionSlider, label, changed, options=options, value=value, **_ON_RELEASE)
