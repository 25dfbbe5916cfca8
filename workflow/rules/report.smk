# The report: its source, everything that the notebooks made, and how the measurements came about.
rule report:
    input:
        source="paper/report.typ",
        parts=[
            "paper/common.typ",
            "paper/scorecard.typ",
            *expand("paper/studies/{study}.typ", study=PLAN.studies),
        ],
        references="paper/references.yml",
        tables=[table for study in PLAN.studies for table in PLAN.tables(study)],
        figures=[figure for study in PLAN.studies for figure in PLAN.figures(study)],
        numbers=expand("results/numbers/{study}.json", study=PLAN.studies),
        scorecard="results/scorecard.json",
        provenance=expand(
            "results/measurements/{study}.provenance.json", study=PLAN.studies
        ),
        code=PLAN.code("workflow/scripts/report.py"),
    output:
        pdf="results/report.pdf",
        colophon="results/colophon.json",
    log:
        "results/logs/report.log",
    params:
        titles=PLAN.titles(),
    message:
        "Typesetting results/report.pdf"
    script:
        "../scripts/report.py"
