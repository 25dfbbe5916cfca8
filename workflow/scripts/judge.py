"""Rule `judge`: compare claims and published numbers with the measurements."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.analysis import quantities
from iopatterns.base import command_line
from iopatterns.configuration import config, expected_verdicts
from iopatterns.judging import scale_agreement, scorecard
from iopatterns.measuring import progress
from iopatterns.workflow import ablation, provenance, robustness

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

parameters, results = snakemake.params, str(Path(snakemake.output.scorecard).parent)
with command_line.errors_reported("iopatterns"), provenance.recorded(snakemake):
    configured = config.load_config(Path.cwd(), parameters.config)
    sampled = robustness.load_records(Path.cwd(), parameters.config)
    ablated = ablation.load_ablation_records(Path.cwd(), parameters.config)
    judged = {
        study: scorecard.judge_study(
            Path.cwd(),
            study,
            confidence=parameters.confidence,
            method=parameters.method,
            ablation=ablated.get(study),
            robustness=sampled.get(study),
            results=results,
        )
        | {
            "configuration": expected_verdicts.study_settings(configured, study),
            "scale": scale_agreement.scale_agreement(
                configured, study, quantities.read_executions(Path(f"{results}/measurements/{study}.parquet"))
            ),
        }
        for study in parameters.studies
    }
    scorecard.write_scorecard(Path.cwd(), judged, results)
progress.record_job_time("analysis")
