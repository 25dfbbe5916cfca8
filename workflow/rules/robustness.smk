# `snakemake --cores 2 robustness` finds out how far each claim survives other plausible parameters of the simulated drives.
# It measures the cells of all claims with sampled parameters, and writes a record for each study, data/robustness/<study>.yaml,
# which is committed. A default run only reads the records. An interrupted run continues where it ended.
rule robustness:
    input:
        measured=expand(
            f"{robustness.ROBUSTNESS_FOLDER}/{{study}}.json",
            study=ablation.studies_with_claims(CONF),
        ),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/robustness.py"),
    log:
        "results/logs/robustness.log",
    params:
        config=config,
        studies=ablation.studies_with_claims(CONF),
    message:
        "Recording how far the claims depend on parameters"
    script:
        "../scripts/robustness.py"


rule robustness_study:
    input:
        grid="config/studies/{study}.yaml",
        twins=twin_models.model_files(CONF),
        traces=ablation.ablation_trace_files(CONF),
        claims=study_rules.claims_files(CONF),
        ranges="src/iopatterns/twin/plausible_ranges.yaml",
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/robustness_study.py"),
    output:
        f"{robustness.ROBUSTNESS_FOLDER}/{{study}}.json",
    log:
        "results/logs/robustness/{study}.log",
    params:
        config=config,
        built=lambda wildcards: rule_code.native_checksum(
            ROOT, "workflow/scripts/robustness_study.py"
        ),
    message:
        "Measuring {wildcards.study} with sampled parameters"
    script:
        "../scripts/robustness_study.py"
