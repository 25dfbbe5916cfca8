"""The schedulers of a Linux kernel beside those of the model: the same jobs on the same drives (study kapoor)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis.plots import WIDTH_INCH, panel_letter, styled
from iopatterns.analysis.study import Study
from iopatterns.analysis.tables import WORKLOAD_NAMES, Column, Table, fixed, significant
from iopatterns.base.schedulers import SUCCESSORS

_ORDER_NOTHING = {"none": "none", "kyber": "noop"}
# By the kernel's scheduler, the model's: of those that order nothing, and what Linux has now of deadline and cfq
MODELLED: Mapping[str, str] = {
    **_ORDER_NOTHING,
    **{today: older for older, today in SUCCESSORS.items() if today not in _ORDER_NOTHING},
}
# The experiments: of each scheduler of the kernel, and of the model by drive
KERNEL = "linux-"
MODEL = "modelled-"


def schedulers(study: Study) -> pd.DataFrame:
    """Return a row for each drive, workload and scheduler of the kernel that was recorded and has one in the model.

    Columns: drive, rw, scheduler, modelled (the model's), bandwidth_mb_per_s of the kernel, modelled_mb_per_s, and
    difference_percent, of the model's from the kernel's.
    """
    model = pd.concat(
        [study.summary(name, ["set_scheduler"]) for name in study.experiments if name.startswith(MODEL)],
        ignore_index=True,
    )
    found = [
        study.summary(name).assign(scheduler=name.removeprefix(KERNEL))
        for name in study.experiments
        if name.startswith(KERNEL)
    ]
    kernel = pd.concat(found, ignore_index=True)
    kernel = kernel.assign(modelled=kernel["scheduler"].map(MODELLED))
    table = kernel[["drive", "rw", "scheduler", "modelled", "mean"]].merge(
        model[["drive", "rw", "set_scheduler", "mean"]].rename(columns={"set_scheduler": "modelled"}),
        on=["drive", "rw", "modelled"],
        suffixes=("_kernel", "_model"),
    )
    table = table.rename(columns={"mean_kernel": "bandwidth_mb_per_s", "mean_model": "modelled_mb_per_s"})
    table["difference_percent"] = 100 * (table["modelled_mb_per_s"] / table["bandwidth_mb_per_s"] - 1)
    # a tenth of a percent is what is printed; of less no sign is left
    table["difference_percent"] = table["difference_percent"].where(table["difference_percent"].abs() >= 0.05, 0.0)
    order = pd.DataFrame(
        {
            "drive": table["drive"].map(list(dict.fromkeys(table["drive"])).index),
            "rw": table["rw"].map(list(WORKLOAD_NAMES).index),
            "scheduler": table["scheduler"].map(list(MODELLED).index),
        }
    )
    return table.loc[order.sort_values(["drive", "rw", "scheduler"]).index].reset_index(drop=True)


def scheduler_table(found: pd.DataFrame) -> Table:
    """Return `schedulers` as it is printed."""
    columns = (
        Column(("drive",), "Drive", right=False, once=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, right=False, once=True),
        Column(("scheduler",), "Linux", right=False, over="Scheduler"),
        Column(("modelled",), "Model", right=False, over="Scheduler"),
        Column(("bandwidth_mb_per_s",), "Linux", significant, "MB/s", "Bandwidth"),
        Column(("modelled_mb_per_s",), "Model", significant, "MB/s", "Bandwidth"),
        Column(("difference_percent",), "Difference", fixed(1), "%", "Bandwidth"),
    )
    return Table(found, columns, "rw")


@styled()
def scheduler_figure(found: pd.DataFrame) -> Figure:
    """Return the bandwidths of `schedulers`: a row of panels for each drive, a panel for each workload."""
    drives, workloads = list(dict.fromkeys(found["drive"])), list(dict.fromkeys(found["rw"]))
    figure = Figure(figsize=(WIDTH_INCH, 1.75 * len(drives) + 0.3), layout="constrained")
    panels = figure.subplots(len(drives), len(workloads), squeeze=False)
    for number, axes in enumerate(panels.flat):
        drive, rw = drives[number // len(workloads)], workloads[number % len(workloads)]
        here = found[(found["drive"] == drive) & (found["rw"] == rw)]
        places = np.arange(len(here))
        axes.plot(places, here["bandwidth_mb_per_s"], "o", color="0.0", markersize=3.5, label="Linux")
        hollow = {"markersize": 7.5, "markerfacecolor": "none", "color": "0.45"}
        axes.plot(places, here["modelled_mb_per_s"], "s", label="the model's counterpart", **hollow)
        axes.set_xticks(places, here["scheduler"])
        highest = here[["bandwidth_mb_per_s", "modelled_mb_per_s"]].to_numpy().max()
        axes.set(xlim=(-0.5, len(here) - 0.5), ylim=(0, 1.15 * highest))
        axes.set_title(f"{panel_letter(number)} {drive}, {WORKLOAD_NAMES[rw].lower()}")
    figure.supylabel("Bandwidth (MB/s)", fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def told(found: pd.DataFrame) -> str:
    """Return how far the model's bandwidths lie from the kernel's, and where they do so most, in words."""
    far = found["difference_percent"].abs()
    within = int((far <= 10).sum())
    worst = found.iloc[int(np.argmax(far.to_numpy()))]
    return (
        f"Of {len(found)} bandwidths {within} are within 10 % of the kernel's, and the median difference is"
        f" {far.median():.1f} %. The largest is that of {worst['scheduler']} on {worst['drive']}"
        f" ({WORKLOAD_NAMES[worst['rw']].lower()}): the model's {worst['modelled']} has"
        f" {significant(worst['modelled_mb_per_s'])} MB/s and the kernel {significant(worst['bandwidth_mb_per_s'])}."
    )
