# `snakemake plan` prints what a run would measure, how long it would take, and how many bytes it would write.
rule plan:
    log:
        f"{RESULTS}/logs/plan.log",
    params:
        forecast=lambda wildcards: forecast.forecast_text(CELLS),
    message:
        "Outstanding measurements"
    shell:
        "printf '%s\\n' {params.forecast:q} | tee {log:q}"


# A job measures all repetitions of one or several cells of a drive. Cells that take long have a job of their own.
# The workflow never deletes raw files. `update` keeps existing raw files, so that an interrupted job continues where it
# stopped, and that more repetitions add to the measured ones. A job measures only what is missing.
# `params` depend on nothing but the names of the raw files. They are therefore never a reason to run a job again.
for study in CELLS.studies:

    for batch in batches.study_batches(CELLS, study):

        rule:
            name:
                batch.name
            input:
                # only their existence matters: the name of a cell contains a checksum of what its trace is recorded from
                ancient(batches.recorded_traces(batch)),
                trigger(any(cell.folder in CELLS.outdated for cell in batch.cells)),
            output:
                update(CELLS.declared_outputs(batch.cells)),
            log:
                f"{RESULTS}/logs/measure/{batch.drive}/{batch.name}.log",
            resources:
                **{
                    resource: drive_resources.resource_amount(
                        CONF, batch.drive, resource
                    )
                    for resource in drive_resources.resource_names(CONF)
                },
                drive_host=kinds.host_of(CONF.drives[batch.drive]),
                slurm_extra=drive_resources.slurm_options(CONF, batch.drive),
                runtime=lambda wildcards, attempt, batch=batch: batches.time_limit_min(
                    CELLS, batch, attempt
                ),
            params:
                specifications=lambda wildcards, output: batches.specification_options(
                    CELLS.of_files(output)
                ),
                raw_files=lambda wildcards, output: CELLS.raw_files(
                    CELLS.of_files(output)
                ),
                cells=lambda wildcards, output: batches.job_message(
                    CELLS, CELLS.of_files(output)
                ),
            message:
                "{params.cells}"
            shell:
                "exec iopatterns measure --die-with-parent --overwrite --log {log:q} --host={resources.drive_host:q}"
                " {params.specifications:q} {params.raw_files:q}"

    rule:
        name:
            f"measure_{study}"
        input:
            CELLS.declared_outputs(CELLS.of_study(study)),
        message:
            f"The raw files of {study} are complete"


# A drive that was measured on another machine has one job for all its cells, because an archive can only be read
# sequentially. Its checksum is a parameter, so that an archive is also unpacked again if an older file replaces it.
for drive, archive in archives_by_drive(CONF).items():

    rule:
        name:
            f"unpack_{drive}"
        input:
            archive.path,
        output:
            update(
                [
                    unpacked_marker(drive),
                    *[
                        raw
                        for study in CELLS.studies
                        for raw in CELLS.declared_outputs(CELLS.of_study(study, drive))
                    ],
                ]
            ),
        log:
            f"{RESULTS}/logs/unpack/{drive}.log",
        params:
            sha256=archive.sha256,
            folder=f"{RAW_FOLDER}/{drive}",
        message:
            f"Unpacking {drive} from {archive.path}"
        shell:
            "exec iopatterns unpack --die-with-parent --overwrite --log {log:q} --sha256 {params.sha256}"
            " {input:q} {params.folder:q}"
