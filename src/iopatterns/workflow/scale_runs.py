"""Measure the cells of studies at the scale of their sources.

A cell is one configuration: a drive, its settings and a workload. This module is separate from `scale`, so that the
rule that judges claims does not depend on modules that measure.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iopatterns.configuration import config
from iopatterns.workflow import scale, variation_runs


def measure_at_scale(root: Path, overrides: Mapping[str, Any]) -> None:
    """Measure what is missing at the scale of the sources, and collect the measurements of each study.

    The measurements are written to results/scale/<study>.parquet. Raw files in results/scale/raw that exist are not
    measured again.

    Args:
        root: The project's folder.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; empty for none.

    Raises:
        ConfigError: The configuration is invalid.
        IoPatternsError: A cell could not be measured, see `measure_cell`.
    """
    cells = scale.cells_at_scale(config.load_config(root, overrides))
    for study in cells.studies:
        wanted = cells.of_study(study)
        variation_runs.measure_study(root, study, wanted, scale.SCALE_REPETITIONS, root / scale.SCALE_FOLDER)
