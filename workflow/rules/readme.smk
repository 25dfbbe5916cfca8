# `snakemake --cores 1 readme` writes the numbers of README.md and docs/ from the scorecard of a default run. The pages are
# no declared outputs: Snakemake deletes those before a rule runs.
rule readme:
    input:
        scorecard=f"{RESULTS}/scorecard.json",
        # the errors of models, which become data/twins/errors.csv
        errors=[
            path
            for study in CELLS.studies
            for path in study_rules.table_files(CONF, study)
            if Path(path).name == "errors.csv"
        ],
    log:
        f"{RESULTS}/logs/readme.log",
    message:
        "Writing the numbers of README.md and docs/ from the scorecard"
    shell:
        'python docs/write_numbers.py "$(dirname {input.scorecard:q})" 2>&1 | tee {log:q}; exit ${{PIPESTATUS[0]}}'
