from iopatterns.workflow import ablation, rule_code, study_rules, twin_models


# The scorecard: what became of every published number and claim of the sources.
rule judge:
    input:
        measurements=expand(
            "results/measurements/{study}.{kind}",
            study=study_rules.judged(CELLS.config),
            kind=["parquet", "tuning.json"],
        ),
        published=[
            *study_rules.claimed(CELLS.config),
            *[
                file
                for study in CELLS.studies
                for file in study_rules.published(CELLS.config, study)
            ],
        ],
        twins=twin_models.files(CELLS.config),
        ablation=ablation.record_files(CELLS.config),
        schema="workflow/schemas/claims.schema.yaml",
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/judge.py"),
    output:
        "results/scorecard.json",
    log:
        "results/logs/judge.log",
    params:
        studies=study_rules.judged(CELLS.config),
        confidence=CELLS.config.confidence,
        method=CELLS.config.interval,
        models=twin_models.by_drive(CELLS.config),
        config=config,
    message:
        "Holding the sources' claims against what was measured"
    script:
        "../scripts/judge.py"


# `snakemake --cores 1 scorecard` fails when a claim or number that is expected to hold no longer does.
rule scorecard:
    input:
        "results/scorecard.json",
    log:
        "results/logs/scorecard.log",
    message:
        "The scorecard, held against data/expectations"
    shell:
        "iopatterns scorecard 2>&1 | tee {log:q}; exit ${{PIPESTATUS[0]}}"
