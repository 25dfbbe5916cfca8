"""Rules `collect_*`: collect a study's raw files into a table, with provenance."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fio_parser_json import FioParseError
from iopatterns.analysis import collect
from iopatterns.base import command_line, files
from iopatterns.measuring import progress
from iopatterns.raw import tuning_steps
from iopatterns.workflow import provenance

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

raw_files = [Path(raw) for raw in snakemake.params.raw_files]
try:
    with command_line.errors_reported("iopatterns"), provenance.recorded(snakemake, raw_files) as versions:
        average, experiments = snakemake.params.average_over_origins, snakemake.params.experiments
        metadata, doubts = collect.select_by_origin(collect.load_metadata(raw_files), average=average)
        table = collect.measurement_table(metadata, experiments)
        files.write_atomically(Path(snakemake.output.table), lambda temporary: table.to_parquet(temporary, index=False))
        records = collect.tuning_records(metadata, experiments)
        tuning_steps.write_tuning_records(Path(snakemake.output.tuning), records)
        files.write_json(Path(snakemake.output.provenance), collect.study_provenance(metadata, doubts))
        versions.update(collect.measured_by(metadata))
except FioParseError as error:
    command_line.exit_with_error("iopatterns", str(error), 1)
progress.record_job_time("analysis")
