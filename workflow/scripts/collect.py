"""Rule `collect_*`: the raw files of a study as one tidy Parquet table, and how they came about as JSON."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fio_parser_json import FioParseError
from iopatterns.analysis import collect
from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded
from iopatterns.measuring import progress
from iopatterns.raw import tuning_steps

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

try:
    raw_files = [Path(raw) for raw in snakemake.params.raw_files]
    table = collect.measurements(raw_files, snakemake.params.experiments)
    files.write(Path(snakemake.output.table), lambda temporary: table.to_parquet(temporary, index=False))
    tuning_steps.write_records(Path(snakemake.output.tuning), collect.tuned(raw_files, snakemake.params.experiments))
    files.write_json(Path(snakemake.output.provenance), collect.provenance(raw_files))
except (IoPatternsError, FioParseError) as error:
    sys.exit(bounded(str(error)))
progress.took("analysis")
