# Which claims rest on which mechanism of drives, kernel and file system: `snakemake --cores 2 ablate` measures what the
# claims are computed of once as it is and once for each mechanism of config/ablations.yaml with that one off, and renews
# data/ablation.yaml, which is committed. A default run reads that file and makes nothing of this.
rule ablate:
    input:
        measured=expand("results/ablation/{run}", run=ablation.runs(ROOT)),
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
        declared="config/ablations.yaml",
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
