# Which claims rest on which mechanism of drives, kernel and file system: `snakemake --cores 2 ablate` measures what the
# claims are computed of once as it is and once for each mechanism of config/ablations.yaml and of the studies with that one
# off, and writes a record for each study, data/ablation/<study>.yaml, which is committed. A default run reads the records
# and makes nothing of this.
rule ablate:
    input:
        measured=expand(
            "results/ablation/{run}", run=ablation.ablation_runs_by_name(CONF)
        ),
        published=study_rules.claims_files(CONF),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/ablate.py"),
    log:
        "results/logs/ablate.log",
    params:
        config=config,
    message:
        "Which claims change their outcome with which mechanism off"
    script:
        "../scripts/ablate.py"


rule ablate_mechanism:
    input:
        declared=lambda wildcards: ablation.ablation_runs_by_name(CONF)[wildcards.run],
        twins=twin_models.model_files(CONF),
        traces=ablation.ablation_trace_files(CONF),
        claims=study_rules.claims_files(CONF),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/ablate_mechanism.py"),
    output:
        directory("results/ablation/{run}"),
    log:
        "results/logs/ablate/{run}.log",
    params:
        config=config,
        built=lambda wildcards: rule_code.native_checksum(
            ROOT, "workflow/scripts/ablate_mechanism.py"
        ),
    message:
        "Measuring with {wildcards.run} off"
    script:
        "../scripts/ablate_mechanism.py"
