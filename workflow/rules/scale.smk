# `snakemake --cores 2 scale` measures the cells of all studies at the scale of their sources, once each, where the default
# run measures less. It writes a record for each study, data/scale/<study>.yaml, which is committed, and fails if the default
# run differs from the record. A default run only reads the records. The raw files stay in results/scale/raw, so that an
# interrupted command continues where it stopped.
SCALE = scale_jobs.ScaleJobs(CONF)


rule scale:
    input:
        measured=lambda wildcards: SCALE.markers,
        measurements=lambda wildcards: [
            f"{RESULTS}/measurements/{study}.parquet" for study in SCALE.cells.studies
        ],
        published=study_rules.published_files(CONF, *CELLS.studies),
        claims=study_rules.claims_files(CONF),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/record_scale.py"),
    log:
        "results/logs/scale.log",
    params:
        config=config,
        results=RESULTS,
    message:
        "Comparing the default run with the scale of the sources"
    script:
        "../scripts/record_scale.py"


# A job measures several cells, like a job of the default run. The marker exists when all of them are measured.
rule measure_at_scale:
    output:
        touch("results/scale/{study}/{number}.measured"),
    log:
        "results/logs/scale/{study}/{number}.log",
    params:
        arguments=lambda wildcards, output: SCALE.arguments(output[0]),
        built=lambda wildcards: SCALE.built,
    message:
        "Measuring {wildcards.study} at the scale of its source, part {wildcards.number}"
    shell:
        # the progress of a run counts the repetitions of its own cells, and these are other cells
        "exec env -u IOPATTERNS_PROGRESS iopatterns measure --die-with-parent --overwrite --log {log:q} {params.arguments:q}"
