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
from iopatterns.measuring.cell import interruptible, measure_cell
from iopatterns.raw import tuning_steps
from iopatterns.workflow import ablation


def measure_without_mechanism(root: Path, name: str, overrides: Mapping[str, Any], output: Path) -> None:
    """Measure what claims are computed of with one mechanism off, and write what was measured.

    ``name``: one of `ablation.ablation_runs_by_name`. ``output`` is a folder: for each study <study>.parquet and <study>.tuning.json, as
    those in results/measurements. The raw files are deleted. ``overrides``: as ``config.load_config`` takes them.
    """
    conf = ablation.simulated_drives_only(config.load_config(root, overrides))
    if name != ablation.BASELINE_RUN:
        mechanism = next(each for each in ablation.load_mechanisms(conf) if each.slug == name)
        conf = mechanism.without(conf)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for study in ablation.studies_with_claims(conf):
        wanted = ablation.cells_used_by_claims(conf, study)
        if not wanted:
            continue
        raws: list[Path] = []
        with interruptible():
            for cell in wanted:
                folder = output / "raw" / cell.folder
                of_cell = [
                    folder / f"{execution}.json" for execution in grid.repetition_names(ablation.ABLATION_REPETITIONS)
                ]
                measure_cell(root, cell.specification, of_cell)
                raws += of_cell
        experiments = {cell.folder: cell.experiments for cell in wanted}
        table = collect.measurement_table(raws, experiments)
        files.write_atomically(output / f"{study}.parquet", functools.partial(table.to_parquet, index=False))
        tuning_steps.write_tuning_records(output / f"{study}.tuning.json", collect.tuning_records(raws, experiments))
    shutil.rmtree(output / "raw", ignore_errors=True)
