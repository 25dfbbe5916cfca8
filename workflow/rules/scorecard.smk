# The scorecard: a verdict on every published number and claim of the sources.
rule judge:
    input:
        measurements=[
            f"{RESULTS}/measurements/{study}.{kind}"
            for study in study_rules.judged_studies(CONF)
            for kind in ("parquet", "tuning.json")
        ],
        published=[
            *study_rules.claims_files(CONF),
            *study_rules.published_files(CONF, *CELLS.studies),
        ],
        grids=[
            f"config/studies/{study}.yaml"
            for study in study_rules.judged_studies(CONF)
        ],
        twins=twin_models.model_files(CONF),
        ablation=ablation.ablation_input_files(CONF),
        scale=study_rules.scale_records(CONF),
        robustness=robustness.record_files(CONF),
        schema="workflow/schemas/claims.schema.yaml",
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/judge.py"),
        changed=trigger("judge" in CHANGED),
    output:
        scorecard=f"{RESULTS}/scorecard.json",
        record=provenance.record_path(RESULTS, "judge"),
    log:
        f"{RESULTS}/logs/judge.log",
    params:
        studies=study_rules.judged_studies(CONF),
        confidence=CONF.confidence,
        method=CONF.interval,
        config=config,
    message:
        "Comparing the claims of the sources with the measurements"
        if study_rules.judged_studies(CONF)
        else "Writing an empty scorecard, because no study has a source"
    script:
        "../scripts/judge.py"


# `snakemake --cores 1 scorecard` fails if a claim or number that is expected to be reproduced is not.
rule scorecard:
    input:
        f"{RESULTS}/scorecard.json",
    log:
        f"{RESULTS}/logs/scorecard.log",
    message:
        "Comparing the scorecard with the expectations of each study"
    shell:
        'iopatterns scorecard --results "$(dirname {input:q})" 2>&1 | tee {log:q}; exit ${{PIPESTATUS[0]}}'
