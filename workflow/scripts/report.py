"""Rule `report`: write the colophon, and typeset the PDF."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.analysis.collect import report_colophon
from iopatterns.base import command_line, files
from iopatterns.measuring import progress
from iopatterns.workflow.report import compile_report

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

with command_line.errors_reported("iopatterns"):
    studies: dict[str, Any] = {
        study: {**title, **json.loads(Path(provenance).read_text(encoding="utf-8"))}
        for (study, title), provenance in zip(snakemake.params.titles.items(), snakemake.input.provenance, strict=True)
    }
    files.write_json(Path(snakemake.output.colophon), report_colophon(studies))
    inputs = {"results": f"/{Path(snakemake.output.pdf).parent}"}
    compile_report(snakemake.input.source, snakemake.output.pdf, inputs=inputs)
progress.record_job_time("report")
