# Collect the raw files of each study into a tidy table, and execute the notebook of the study.
for study in CELLS.studies:

    rule:
        name:
            f"collect_{study}"
        input:
            raw=CELLS.declared_outputs(CELLS.of_study(study)),
            unpacked=[unpacked_marker(drive) for drive in archives_by_drive(CONF)],
            code=rule_code.dependencies_of(ROOT, "workflow/scripts/collect.py"),
            changed=trigger(f"collect_{study}" in CHANGED),
        output:
            record=provenance.record_path(RESULTS, f"collect_{study}"),
            table=f"{RESULTS}/measurements/{study}.parquet",
            tuning=f"{RESULTS}/measurements/{study}.tuning.json",
            provenance=f"{RESULTS}/measurements/{study}.provenance.json",
        log:
            f"{RESULTS}/logs/collect/{study}.log",
        params:
            experiments=CELLS.experiments(study),
            average_over_origins=CONF.average_over_origins,
            raw_files=lambda wildcards, input: CELLS.raw_files(
                CELLS.of_files(input.raw)
            ),
        message:
            f"Collecting the raw files of {study} into one table"
        script:
            "../scripts/collect.py"

    rule:
        name:
            f"analyse_{study}"
        input:
            # JupyterLab saves outputs and execution counts, which are no reason to run again: `source` has the code's sum
            notebook=ancient(f"notebooks/{study}.ipynb"),
            measurements=f"{RESULTS}/measurements/{study}.parquet",
            tuning=f"{RESULTS}/measurements/{study}.tuning.json",
            published=study_rules.published_files(CONF, study),
            claims=study_rules.shown_claims_files(CONF, study),
            twins=twin_models.model_files(CONF),
            traces=study_rules.shown_trace_files(CONF, study),
            code=rule_code.dependencies_of(
                ROOT, "workflow/scripts/analyse.py", f"notebooks/{study}.ipynb"
            ),
            changed=trigger(f"analyse_{study}" in CHANGED),
        output:
            record=provenance.record_path(RESULTS, f"analyse_{study}"),
            tables=study_rules.table_files(CONF, study),
            figures=study_rules.figure_files(CONF, study),
            numbers=f"{RESULTS}/numbers/{study}.json",
        log:
            notebook=f"{RESULTS}/notebooks/{study}.ipynb",
        resources:
            # not a parameter: another limit is no reason to execute the notebook again
            cell_limit_s=CONF.notebook_limit_s,
        params:
            parameters={
                **study_rules.notebook_parameters(CONF, study),
                **study_rules.notebook_paths(CONF, study),
            },
            source=provenance.source_sha256(f"notebooks/{study}.ipynb"),
        message:
            f"Executing notebooks/{study}.ipynb"
        script:
            "../scripts/analyse.py"


# Convert a trace that the user names in config.yaml into the form that notebooks read.
rule convert_trace:
    input:
        calls=lambda wildcards: CONF.traces[wildcards.trace].path,
        # only the module that converts: the command line imports the complete package
        code=rule_code.dependencies_of(ROOT, "iopatterns.calls"),
        changed=lambda wildcards: trigger(f"convert_{wildcards.trace}" in CHANGED),
    output:
        calls="results/calls/{trace}.parquet",
        record=provenance.record_path("results", "convert_{trace}"),
    log:
        "results/logs/calls/{trace}.log",
    params:
        only=lambda wildcards: CONF.traces[wildcards.trace].only,
    message:
        "Converting the trace {wildcards.trace}"
    script:
        "../scripts/convert_trace.py"
