# From raw files to tables, figures and numbers: a tidy table per study, then the study's notebook.
for study in PLAN.studies:

    rule:
        name:
            f"collect_{study}"
        input:
            raw=PLAN.raw_files(study),
            unpacked=[PLAN.unpacked(drive) for drive in PLAN.archived_drives()],
            code=[
                *multiext("src/iopatterns/", "archive.py", "collect.py", "measure.py"),
                "src/iopatterns/tuning/__init__.py",
                *multiext("src/fio_parser_json/", "documents.py", "tables.py"),
            ],
        output:
            table=f"results/measurements/{study}.parquet",
            tuning=f"results/measurements/{study}.tuning.json",
            provenance=f"results/measurements/{study}.provenance.json",
        log:
            f"results/logs/collect/{study}.log",
        conda:
            "../../envs/environment.yaml"
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
            published=multiext(f"data/published/{study}/", "values.csv", "drives.csv"),
            twins=PLAN.models(),
            code=multiext(
                "src/iopatterns/",
                "access_gap.py",
                "analysis.py",
                "claims.py",
                "comparisons.py",
                "factors.py",
                "measures.py",
                "notebooks.py",
                "outputs.py",
                "plots.py",
                "published.py",
                "sources.py",
                "statistics.py",
                "report.mplstyle",
                "tables.py",
                "units.py",
            ),
        output:
            tables=PLAN.tables(study),
            figures=PLAN.figures(study),
            numbers=f"results/numbers/{study}.json",
        log:
            notebook=f"results/notebooks/{study}.ipynb",
        conda:
            "../../envs/environment.yaml"
        params:
            parameters=PLAN.analysis_parameters(),
        message:
            f"Executing notebooks/{study}.ipynb"
        script:
            "../scripts/analyse.py"
