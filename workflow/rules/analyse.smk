# From raw files to tables, figures and numbers: a tidy table per study, then the study's notebook.
for study in PLAN.studies:

    rule:
        name:
            f"collect_{study}"
        input:
            raw=PLAN.raw_files(study),
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
        message:
            f"Collecting the raw files of {study} into one table"
        script:
            "../scripts/collect.py"

    rule:
        name:
            f"analyse_{study}"
        input:
            notebook=f"notebooks/{study}.ipynb",
            measurements=f"results/measurements/{study}.parquet",
            tuning=f"results/measurements/{study}.tuning.json",
            published=PLAN.published(study),
            twins=PLAN.models(),
            code=PLAN.code("workflow/scripts/analyse.py", f"notebooks/{study}.ipynb"),
        output:
            tables=PLAN.tables(study),
            figures=PLAN.figures(study),
            numbers=f"results/numbers/{study}.json",
        log:
            notebook=f"results/notebooks/{study}.ipynb",
        params:
            parameters=PLAN.analysis_parameters(),
        message:
            f"Executing notebooks/{study}.ipynb"
        script:
            "../scripts/analyse.py"
