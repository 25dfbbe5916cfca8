"""The runs of an ablation: what claims are computed of, measured with one mechanism off.

They stand apart from what judges them: a scorecard reads the record of an ablation, and rests on nothing that measures.
"""

import functools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iopatterns.analysis import collect
from iopatterns.base import files
from iopatterns.configuration import config, grid
from iopatterns.measuring.cell import interruptible, measure
from iopatterns.raw import tuning_steps
from iopatterns.workflow import ablation


def run(root: Path, name: str, overrides: Mapping[str, Any], output: Path) -> None:
    """Measure what claims are computed of with one mechanism off, and write what was measured.

    ``name``: one of `ablation.runs`. ``output`` is a folder: for each study <study>.parquet and <study>.tuning.json, as
    those in results/measurements. The raw files are deleted. ``overrides``: as ``config.load`` takes them.
    """
    conf = ablation.simulated(config.load(root, overrides))
    if name != ablation.NOTHING:
        mechanism = next(each for each in ablation.mechanisms(conf) if each.slug == name)
        conf = mechanism.without(conf)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for study in ablation.studies(conf):
        wanted = ablation.cells_of_claims(conf, study)
        if not wanted:
            continue
        raws: list[Path] = []
        with interruptible():
            for cell in wanted:
                folder = output / "raw" / cell.folder
                of_cell = [folder / f"{execution}.json" for execution in grid.execution_names(ablation.EXECUTIONS)]
                measure(root, cell.specification, of_cell)
                raws += of_cell
        experiments = {cell.folder: cell.experiments for cell in wanted}
        table = collect.measurements(raws, experiments)
        files.write(output / f"{study}.parquet", functools.partial(table.to_parquet, index=False))
        tuning_steps.write_records(output / f"{study}.tuning.json", collect.tuned(raws, experiments))
    shutil.rmtree(output / "raw", ignore_errors=True)
