# `snakemake --cores 2 ablate` finds out on which mechanism of drives, kernel and file system a claim depends. It measures
# the cells of all claims with all mechanisms, and once with each mechanism of config/ablations.yaml and of the studies
# switched off. It writes a record for each study, data/ablation/<study>.yaml, which is committed. A default run only reads
# the records.
rule ablate:
    input:
        measured=expand(
            f"{ablation.ABLATION_FOLDER}/{{run}}.measured",
            run=ablation.ablation_runs(CONF),
        ),
        published=study_rules.claims_files(CONF),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/ablate.py"),
    log:
        "results/logs/ablate.log",
    params:
        config=config,
    message:
        "Comparing the claims with each mechanism switched off"
    script:
        "../scripts/ablate.py"


rule ablate_mechanism:
    input:
        mechanisms=ablation.MECHANISMS_FILE,
        grids=expand("config/studies/{study}.yaml", study=CONF.studies),
        twins=twin_models.model_files(CONF),
        traces=ablation.ablation_trace_files(CONF),
        claims=study_rules.claims_files(CONF),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/ablate_mechanism.py"),
    output:
        # not the folder of the tables: a folder also exists when an interrupted job has left it
        touch(f"{ablation.ABLATION_FOLDER}/{{run}}.measured"),
    log:
        "results/logs/ablate/{run}.log",
    params:
        config=config,
        built=lambda wildcards: rule_code.native_checksum(
            ROOT, "workflow/scripts/ablate_mechanism.py"
        ),
    message:
        "Measuring with {wildcards.run} switched off"
    script:
        "../scripts/ablate_mechanism.py"
