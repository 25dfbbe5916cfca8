# Which claims rest on which mechanism of drives, kernel and file system: `snakemake --cores 2 ablate` measures what the
# claims are computed of once as it is and once for each mechanism of config/ablations.yaml and of the studies with that one
# off, and writes a record for each study, data/ablation/<study>.yaml, which is committed. A default run reads the records
# and makes nothing of this.
rule ablate:
    input:
        measured=expand("results/ablation/{run}", run=PLAN.ablations()),
        published=PLAN.claimed(),
        code=PLAN.code("workflow/scripts/ablate.py"),
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
        declared=lambda wildcards: PLAN.ablations()[wildcards.run],
        twins=PLAN.models(),
        traces=PLAN.ablated_traces(),
        claims=PLAN.claimed(),
        code=PLAN.code("workflow/scripts/ablate_mechanism.py"),
    output:
        directory("results/ablation/{run}"),
    log:
        "results/logs/ablate/{run}.log",
    params:
        config=config,
        built=lambda wildcards: PLAN.built("workflow/scripts/ablate_mechanism.py"),
    message:
        "Measuring with {wildcards.run} off"
    script:
        "../scripts/ablate_mechanism.py"
