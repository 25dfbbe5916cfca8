# The report: typeset from its source, the outputs of the notebooks, and the provenance of the measurements.
rule report:
    input:
        source="paper/report.typ",
        parts=[
            "paper/common.typ",
            "paper/scorecard.typ",
            *expand("paper/studies/{study}.typ", study=CELLS.studies),
        ],
        references="paper/references.yml",
        tables=study_rules.table_files(CONF, *CELLS.studies),
        figures=study_rules.figure_files(CONF, *CELLS.studies),
        numbers=[f"{RESULTS}/numbers/{study}.json" for study in CELLS.studies],
        scorecard=f"{RESULTS}/scorecard.json",
        provenance=[
            f"{RESULTS}/measurements/{study}.provenance.json"
            for study in CELLS.studies
        ],
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/report.py"),
        changed=trigger("report" in CHANGED),
    output:
        record=provenance.record_path(RESULTS, "report"),
        pdf=f"{RESULTS}/report.pdf",
        colophon=f"{RESULTS}/colophon.json",
    log:
        f"{RESULTS}/logs/report.log",
    params:
        titles=study_rules.study_titles(CONF),
    message:
        f"Typesetting {RESULTS}/report.pdf"
    script:
        "../scripts/report.py"
