# Which claims rest on which mechanism of drives, kernel and file system: `snakemake --cores 2 ablate` measures what the
# claims are computed of once as it is and once for each mechanism of config/ablations.yaml and of the studies with that one
# off, and writes a record for each study, data/ablation/<study>.yaml, which is committed. A default run reads the records
# and makes nothing of this.
rule ablate:
    input:
        measured=expand("results/ablation/{run}", run=ablation.runs(CONF)),
        published=study_rules.claimed(CONF),
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
        declared=lambda wildcards: ablation.runs(CONF)[wildcards.run],
        twins=twin_models.files(CONF),
        traces=ablation.trace_files(CONF),
        claims=study_rules.claimed(CONF),
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
