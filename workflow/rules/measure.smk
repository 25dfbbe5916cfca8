# One job for some cells of a drive, with all their executions; of a real drive, whose cells take long, for one. Raw files
# are never deleted by the workflow: `update` keeps those that are there, so that an interrupted job goes on where it
# stopped, more repetitions add to what is measured, and of a batch only the cells are measured that lack something.
# `params` hold what follows from the names of the raw files alone, so that they give no reason to run anything again.
for study in CELLS.studies:

    for batch in batches.study_batches(CELLS, study):

        rule:
            name:
                batch.name
            input:
                # by what these are made of, cells have their names: it matters only that they are there
                ancient(batches.recorded_traces(batch)),
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
                "exec iopatterns measure --die-with-parent --log {log:q} --host={resources.drive_host:q}"
                " {params.specifications:q} {params.raw_files:q}"

    rule:
        name:
            f"measure_{study}"
        input:
            CELLS.declared_outputs(CELLS.of_study(study)),
        message:
            f"The raw files of {study} are there"


# A drive measured elsewhere: one job for all its cells, for an archive is read from its beginning to its end. The archive
# is an input, and its sum a parameter: a newer file is unpacked again, and so is an older one put in its place.
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
            "exec iopatterns unpack --die-with-parent --log {log:q} --sha256 {params.sha256}"
            " {input:q} {params.folder:q}"
