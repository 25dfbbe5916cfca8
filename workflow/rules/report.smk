# The report: its source, everything that the notebooks made, and how the measurements came about.
rule report:
    input:
        source="paper/report.typ",
        parts=[
            "paper/common.typ",
            "paper/scorecard.typ",
            *expand("paper/studies/{study}.typ", study=CELLS.studies),
        ],
        references="paper/references.yml",
        tables=study_rules.tables(CONF, *CELLS.studies),
        figures=study_rules.figures(CONF, *CELLS.studies),
        numbers=expand("results/numbers/{study}.json", study=CELLS.studies),
        scorecard="results/scorecard.json",
        provenance=expand(
            "results/measurements/{study}.provenance.json", study=CELLS.studies
        ),
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/report.py"),
    output:
        pdf="results/report.pdf",
        colophon="results/colophon.json",
    log:
        "results/logs/report.log",
    params:
        titles=study_rules.titles(CONF),
    message:
        "Typesetting results/report.pdf"
    script:
        "../scripts/report.py"
