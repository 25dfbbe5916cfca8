"""Measure the cells that claims use, with one mechanism switched off.

A cell is one configuration: a drive, its settings and a workload. A mechanism is something that a simulated drive, the
kernel or its file system does, such as read-ahead. This module is separate from `ablation`, so that the rule that
judges claims does not depend on modules that measure.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iopatterns.configuration import config
from iopatterns.workflow import ablation, variation_runs


def measure_without_mechanism(root: Path, name: str, overrides: Mapping[str, Any], output: Path) -> None:
    """Measure the cells that claims use, with one mechanism switched off.

    A claim is a published statement that is checked. A cell is one configuration: a drive, its settings and a workload.
    A mechanism is something that a simulated drive, the kernel or its file system does, such as read-ahead. Only
    simulated drives that have the mechanism are measured.

    Args:
        root: The project's folder.
        name: The name of the run, one of `ablation.ablation_runs`, such as ``read-ahead``. In the run
            ``nothing`` (`BASELINE_RUN`) no mechanism is switched off, and all simulated drives are measured.
        overrides: Values that replace top-level keys of config/config.yaml: ``{"runtime": "1 s"}``; empty for none.
        output: The folder for the results, which is deleted first if it exists. It gets ``<study>.parquet`` and
            ``<study>.tuning.json`` for each study with such cells, in the format of the files in results/measurements.
            The raw files are deleted at the end.

    Raises:
        AblationError: A mechanism is invalid.
        ConfigError: The configuration is invalid.
        IoPatternsError: A cell could not be measured, see `measure_cell`.
    """
    conf = ablation.simulated_drives_only(config.load_config(root, overrides))
    if name != ablation.BASELINE_RUN:
        mechanism = next(each for each in ablation.load_mechanisms(conf) if each.slug == name)
        conf = mechanism.switched_off_in(conf)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for study in ablation.studies_with_claims(conf):
        if wanted := ablation.cells_used_by_claims(conf, study):
            variation_runs.measure_study(root, study, wanted, ablation.ABLATION_REPETITIONS, output)
    shutil.rmtree(output / "raw", ignore_errors=True)
