"""The sliders and menus of notebooks/explore.ipynb.

Each change of a slider or menu redraws the figure beside it.
"""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from iopatterns.analysis import quantities
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
# A slider redraws the figure when it is released, not while it moves
_ON_RELEASE = {"continuous_update": False}


class _Controls(widgets.HBox):  # type: ignore[misc]  # ipywidgets has no types
    """Menus and sliders, next to the figure for their values and a message below it."""

    def __init__(self, controls: Sequence[widgets.Widget]) -> None:
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%", object_fit="contain"))
        self._message = widgets.HTML()
        left = widgets.VBox(controls, layout=widgets.Layout(flex="0 0 auto"))
        right = widgets.VBox([self._image, self._message], layout=widgets.Layout(flex="1 1 auto", min_width="0"))
        super().__init__([left, right])

    def redraw(self, _: object = None) -> None:
        """Draw the figure for the present values of the controls.

        If the values are invalid, the error is shown as the message, and the figure stays as it was.

        Args:
            _: The change of a control, as ipywidgets passes it; not used.
        """
        try:
            self._image.value, self._message.value = self._drawn()
        except IoPatternsError as error:
            self._message.value = f"<b>{html.escape(str(error))}</b>"

    def _drawn(self) -> tuple[bytes, str]:
        """Return the figure for the present values as PNG, and the HTML of the message."""
        raise NotImplementedError

    @property
    def png(self) -> bytes:
        """The figure on display as the bytes of a PNG file; empty if there is none."""
        return bytes(self._image.value)

    @property
    def message(self) -> str:
        """The message below the figure, as HTML.

        The message is an error, a hint or a summary of the simulation. It may be empty.
        """
        return str(self._message.value)


class TwinControls(_Controls):
    """Controls of a simulated drive (twin) and of a workload, beside a figure.

    The figure shows the simulation of the workload on the drive. Show the object as the last expression of a notebook
    cell.
    """

    def __init__(self, twin: str = "px05smb040") -> None:
        """Create the controls with their initial values, and draw the first figure.

        The controls start with the default workload (`explore.Workload`) and the parameters of the model.

        Args:
            twin: The name of a model of a simulated drive in data/twins, such as ``px05smb040``.

        Raises:
            TwinError: There is no such model.
        """
        self._model = models.load_model(twin)
        self._settings: dict[str, Any] = {}
        self._result: explore.SimulationResult | None = None
        self._reference: explore.SimulationResult | None = None
        self._figure = explore.SimulationFigure()
        self._twin = _menu("Twin", models.list_models(), twin, self._change_twin)
        self._workload = self._workload_controls()
        self._group = _menu("Parameters of", self._groups(), None, self._show_group)
        self._parameters = widgets.VBox()
        keep = widgets.Button(description="Keep in grey", tooltip="compare the following results with this one")
        keep.on_click(self._keep)
        reset = widgets.Button(description="As in the model", tooltip="reset all parameters")
        reset.on_click(self._reset)
        buttons = widgets.HBox([keep, reset])
        super().__init__([self._twin, *self._workload.values(), self._group, self._parameters, buttons])
        self._show_group()
        self.redraw()

    def __repr__(self) -> str:
        """Return a text in place of the controls, for viewers that do not run widgets."""
        return "Sliders and menus of a twin and a workload; open the notebook with ./reproduce.sh lab"

    def _workload_controls(self) -> dict[str, Any]:
        """Return a control for each field of `Workload` except the seed, by field name."""
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
        """Return the groups of the model's parameters, such as ``read_ahead``.

        The most instructive groups come first, and the capacity last.
        """
        groups = dict.fromkeys(name.partition(".")[0] for name in self._model.values)
        return sorted(groups, key=lambda group: (group not in {"read_ahead", "disk"}, group == "capacity"))

    def _change_twin(self, _: object) -> None:
        self._model, self._settings = models.load_model(self._twin.value), {}
        # a disk has other groups of parameters than an SSD; the first group is selected
        self._group.options = self._groups()
        self._show_group()
        self.redraw()

    def _show_group(self, _: object = None) -> None:
        group = self._group.value
        names = [name for name in self._model.values if name.partition(".")[0] == group]
        self._parameters.children = [self._control(name) for name in names]

    def _control(self, name: str) -> Any:
        """Return the control of a parameter: a slider, a menu or a checkbox.

        Args:
            name: The parameter, such as ``read_ahead.window``.
        """
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
        self._reference = self._result
        self.redraw()

    def _reset(self, _: object) -> None:
        self._settings = {}
        self._show_group()
        self.redraw()

    def _drawn(self) -> tuple[bytes, str]:
        workload = explore.Workload(**{name: control.value for name, control in self._workload.items()})
        self._result = explore.simulate_workload(self._model, workload, self._settings)
        return self._figure.png(self._result, self._reference), html.escape(_summary(self._result, self._settings))


def _written(name: str, value: models.ParameterValue) -> Any:
    """Return a parameter's value as a model file contains it, such as ``1 MiB``.

    Sizes and times other than 0 are texts with a unit. Other values are returned unchanged.
    """
    declared = models.declared_parameters()[name]
    with_unit = declared["kind"] == "number" and declared["unit"] != "count" and value != 0
    return models.format_value(name, value) if with_unit else value


def _summary(result: explore.SimulationResult, settings: dict[str, Any]) -> str:
    wanted = result.workload.requests
    cut_short = f" of {wanted:,} (each causes much work in the drive)" if result.requests < wanted else ""
    changed = "".join(f"; {name} {value}" for name, value in settings.items())
    return f"{result.requests:,} requests{cut_short}, {result.duration_ns / 1e9:.4g} s of simulated time{changed}"


class RunControls(_Controls):
    """Menus in a notebook with which a user draws measurements of finished runs.

    A run is a results folder of the report or of ``iopatterns bench``. The user selects:

    - a run, an experiment and a quantity, such as bandwidth
    - which factor (fio option or drive setting) varies along the axis, between the curves and between the panels
    - one level of each other factor, such as ``iodepth`` 64

    A notebook shows the menus and the figure by displaying an instance.
    """

    def __init__(self, root: Path) -> None:
        """Create the menus, and draw the figure of the first finished run.

        If there is no finished run, a message says how to measure one, and there are no menus.

        Args:
            root: The folder of the project.
        """
        self._tables = browse.finished_runs(root)
        self._levels: dict[str, Any] = {}
        self._filling = False
        if not self._tables:
            super().__init__([])
            self._message.value = html.escape(browse.NO_FINISHED_RUN)
            return
        self._level_menus = widgets.VBox()
        self._table = _menu("Measured", list(self._tables), None, self._unless_filling(self._change_table))
        self._experiment = _menu("Experiment", [], None, self._unless_filling(self._change_experiment))
        self._quantity = _menu("Quantity", [], None, self._unless_filling(self.redraw))
        self._x, self._curve, self._panel = (
            _menu(name, [], None, self._unless_filling(self._change_roles)) for name in ("Axis", "Curves", "Panels")
        )
        roles = [self._x, self._curve, self._panel]
        super().__init__([self._table, self._experiment, self._quantity, *roles, self._level_menus])
        self._change_table(None)

    def __repr__(self) -> str:
        """Return a text in place of the menus, for viewers that do not run widgets."""
        return "Menus of the measurements of finished runs; open the notebook with ./reproduce.sh lab"

    def _change_table(self, _: object) -> None:
        self._executions = quantities.read_executions(self._tables[self._table.value])
        self._fill(self._experiment, quantities.experiment_names(self._executions))
        self._change_experiment(None)

    def _change_experiment(self, _: object) -> None:
        """Offer the quantities and varied factors of the selected experiment.

        The factor with the most levels is selected as axis, and the workload as curves.
        """
        rows = quantities.select_experiments(self._executions, self._experiment.value)
        self._vary = browse.varied_levels(rows)
        names = [(factors.level_scale(name, ()).label, name) for name in self._vary]
        self._fill(self._quantity, quantities.available_quantities(rows))
        axis = max(self._vary, key=lambda name: (name != "drive", len(self._vary[name])), default="rw")
        self._fill(self._x, names or [("Workload", "rw")], axis)
        for menu, wanted in ((self._curve, "rw"), (self._panel, "drive")):
            free = wanted in self._vary and wanted != axis
            self._fill(menu, [(_NONE, None), *names], wanted if free else None)
        self._change_roles(None)

    def _change_roles(self, _: object) -> None:
        """Offer a menu of levels for each varied factor that the figure does not show.

        Axis, curves and panels show factors.
        """
        roles = {self._x.value, self._curve.value, self._panel.value}
        self._levels = {
            name: _menu(factors.level_scale(name, levels).label, _named(name, levels), levels[0], self.redraw)
            for name, levels in self._vary.items()
            if name not in roles
        }
        self._level_menus.children = list(self._levels.values())
        self.redraw()

    def _unless_filling(self, changed: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a callback that ignores changes while the options of menus are replaced.

        At other times it calls ``changed``.
        """
        return lambda event: None if self._filling else changed(event)

    def _fill(self, menu: Any, options: Sequence[Any], value: Any = None) -> None:
        """Replace the options of a menu without triggering its callback.

        Args:
            menu: The menu.
            options: The new options.
            value: The value to select; the first option if None.
        """
        self._filling = True
        menu.options, menu.index = options, 0
        if value is not None:
            menu.value = value
        self._filling = False

    def _drawn(self) -> tuple[bytes, str]:
        figure = browse.draw_figure(
            self._executions,
            self._experiment.value,
            self._quantity.value,
            self._x.value,
            curve=self._curve.value,
            panel=self._panel.value,
            at={name: menu.value for name, menu in self._levels.items()},
        )
        return small_png(figure), ""


def _named(factor: str, levels: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the levels of a factor, each as a pair of menu label and level."""
    texts = WORKLOAD_NAMES if factor == "rw" else factors.level_scale(factor, levels).texts
    return [(texts.get(level, str(level)), level) for level in levels]


def _labelled(kind: Any, label: str, changed: Callable[[Any], None], **options: Any) -> Any:
    """Return a labelled control of ipywidgets.

    Args:
        kind: The class of the control.
        label: The text of its label.
        changed: The function to call after each change of its value.
        options: Further arguments of the class.
    """
    control = kind(description=label, style=_STYLE, layout=_WIDE, **options)
    control.observe(changed, "value")
    return control


def _menu(label: str, options: Sequence[Any], value: Any, changed: Callable[[Any], None]) -> Any:
    chosen = {} if value is None else {"value": value}
    return _labelled(widgets.Dropdown, label, changed, options=options, **chosen)


def _slider(label: str, options: Sequence[Any], value: Any, changed: Callable[[Any], None]) -> Any:
    return _labelled(widgets.SelectionSlider, label, changed, options=options, value=value, **_ON_RELEASE)
