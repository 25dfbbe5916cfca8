# From raw files to tables, figures and numbers: a tidy table per study, then the study's notebook.
for study in PLAN.studies:

    rule:
        name:
            f"collect_{study}"
        input:
            raw=PLAN.watched_files(study),
            unpacked=[PLAN.unpacked(drive) for drive in PLAN.archived_drives()],
            code=PLAN.code("workflow/scripts/collect.py"),
        output:
            table=f"results/measurements/{study}.parquet",
            tuning=f"results/measurements/{study}.tuning.json",
            provenance=f"results/measurements/{study}.provenance.json",
        log:
            f"results/logs/collect/{study}.log",
        params:
            experiments=PLAN.experiments(study),
            raw_files=lambda wildcards, input: PLAN.all_of_cells(input.raw),
        message:
            f"Collecting the raw files of {study} into one table"
        script:
            "../scripts/collect.py"

    rule:
        name:
            f"analyse_{study}"
        input:
            # outputs and execution counts that JupyterLab saves are no reason to run again: see the parameter `source`
            notebook=ancient(f"notebooks/{study}.ipynb"),
            measurements=f"results/measurements/{study}.parquet",
            tuning=f"results/measurements/{study}.tuning.json",
            published=PLAN.published(study),
            twins=PLAN.models(),
            traces=PLAN.traces(study),
            code=PLAN.code("workflow/scripts/analyse.py", f"notebooks/{study}.ipynb"),
        output:
            tables=PLAN.tables(study),
            figures=PLAN.figures(study),
            numbers=f"results/numbers/{study}.json",
        log:
            notebook=f"results/notebooks/{study}.ipynb",
        params:
            parameters=PLAN.analysis_parameters(study),
            source=notebook_source(f"notebooks/{study}.ipynb"),
        message:
            f"Executing notebooks/{study}.ipynb"
        script:
            "../scripts/analyse.py"


# A trace of the reader's own in the form that notebooks read, under the name that the configuration gives it.
rule convert_trace:
    input:
        calls=lambda wildcards: PLAN.config.traces[wildcards.trace].path,
        # of `iopatterns calls convert` the part that reads; the command line would bring in the whole package
        code=PLAN.code("iopatterns.calls"),
    output:
        "results/calls/{trace}.parquet",
    log:
        "results/logs/calls/{trace}.log",
    params:
        only=lambda wildcards: PLAN.config.traces[wildcards.trace].only,
    message:
        "Reading the trace {wildcards.trace}"
    shell:
        "exec iopatterns calls convert --name={wildcards.trace:q} --only={params.only:q} -- {input.calls:q} {output:q}"
        " > {log:q}"
