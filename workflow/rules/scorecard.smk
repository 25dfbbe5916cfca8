# The scorecard: what became of every published number and claim of the sources.
rule judge:
    input:
        measurements=expand(
            "results/measurements/{study}.{kind}",
            study=PLAN.judged_studies,
            kind=["parquet", "tuning.json"],
        ),
        published=[
            *PLAN.claimed(),
            *[file for study in PLAN.studies for file in PLAN.published(study)],
        ],
        twins=PLAN.models(),
        ablation=PLAN.ablation(),
        schema="workflow/schemas/claims.schema.yaml",
        code=PLAN.code("workflow/scripts/judge.py"),
    output:
        "results/scorecard.json",
    log:
        "results/logs/judge.log",
    params:
        studies=PLAN.judged_studies,
        confidence=PLAN.config.confidence,
        method=PLAN.config.interval,
        models=PLAN.models_of(),
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
        "The scorecard, compared with what is expected of each study"
    shell:
        "iopatterns scorecard 2>&1 | tee {log:q}; exit ${{PIPESTATUS[0]}}"
