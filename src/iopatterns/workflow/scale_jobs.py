"""The Snakemake jobs that measure cells at the scale of the sources.

A cell is one configuration: a drive, its settings and a workload.
"""

import functools
from collections.abc import Mapping

from iopatterns.configuration import config
from iopatterns.workflow import batches, planned_cells, rule_code, scale


class ScaleJobs:
    """The jobs of `snakemake scale`, which are computed only if they are needed.

    A job measures several cells of a drive. A cell is one configuration: a drive, its settings and a workload.
    """

    def __init__(self, conf: config.Config) -> None:
        """Store the configuration of the run.

        Args:
            conf: The configuration.
        """
        self._conf = conf

    @functools.cached_property
    def cells(self) -> planned_cells.Cells:
        """The cells to measure, see `scale.cells_at_scale`."""
        return scale.cells_at_scale(self._conf)

    @functools.cached_property
    def _batches(self) -> Mapping[str, batches.Batch]:
        """The cells of each job, by the path of its marker, such as results/scale/saif2020/1.measured."""
        return {
            f"{scale.SCALE_FOLDER}/{study}/{number}.measured": batch
            for study in self.cells.studies
            for number, batch in enumerate(batches.study_batches(self.cells, study), start=1)
        }

    @property
    def markers(self) -> list[str]:
        """The paths of the markers of all jobs. A marker exists when the cells of its job are measured."""
        return list(self._batches)

    def arguments(self, marker: str) -> list[str]:
        """Return the arguments of `iopatterns measure` for a job: specifications, then raw files.

        Args:
            marker: The path of the marker of the job.

        Raises:
            KeyError: There is no such job.
        """
        of_job = self._batches[marker].cells
        return [*batches.specification_options(of_job), *self.cells.raw_files(of_job)]

    @functools.cached_property
    def built(self) -> str:
        """The checksum of the compiled parts that measure, see `rule_code.native_checksum`."""
        return rule_code.native_checksum(self._conf.root, "iopatterns.measuring.cell")
