# One job for some cells of a drive, with all their executions; of a real drive, whose cells take long, for one. Raw files
# are never deleted by the workflow: `update` keeps those that are there, so that an interrupted job goes on where it
# stopped, more repetitions add to what is measured, and of a batch only the cells are measured that lack something.
# `params` hold what follows from the names of the raw files alone, so that they give no reason to run anything again.
for study in PLAN.studies:

    for batch in PLAN.batches(study):

        rule:
            name:
                batch.name
            input:
                # by what these are made of, cells have their names: it matters only that they are there
                ancient(PLAN.recorded(batch)),
            output:
                update(PLAN.watched(batch.raw_files)),
            log:
                f"results/logs/measure/{batch.drive}/{batch.name}.log",
            resources:
                **{
                    resource: PLAN.occupies(batch.drive, resource)
                    for resource in PLAN.resources
                },
                drive_host=PLAN.host(batch.drive),
                slurm_extra=PLAN.slurm_extra(batch.drive),
                runtime=lambda wildcards, attempt, batch=batch: PLAN.time_limit_min(
                    batch, attempt
                ),
            params:
                specifications=lambda wildcards, output: PLAN.specifications(output),
                raw_files=lambda wildcards, output: PLAN.all_of_cells(output),
                cells=lambda wildcards, output: PLAN.to_measure(output),
            message:
                "{params.cells}"
            shell:
                "exec iopatterns measure --die-with-parent --log {log:q} --host={resources.drive_host:q}"
                " {params.specifications:q} {params.raw_files:q}"

    rule:
        name:
            f"measure_{study}"
        input:
            PLAN.watched_files(study),
        message:
            f"The raw files of {study} are there"


# A drive measured elsewhere: one job for all its cells, for an archive is read from its beginning to its end. The archive
# is an input, and its sum a parameter: a newer file is unpacked again, and so is an older one put in its place.
for drive in PLAN.archived_drives():

    rule:
        name:
            f"unpack_{drive}"
        input:
            PLAN.archive(drive)[0],
        output:
            update(
                [
                    PLAN.unpacked(drive),
                    *[
                        raw
                        for study in PLAN.studies
                        for raw in PLAN.watched_files(study, drive)
                    ],
                ]
            ),
        log:
            f"results/logs/unpack/{drive}.log",
        params:
            sha256=PLAN.archive(drive)[1],
            folder=f"{RAW}/{drive}",
        message:
            f"Unpacking {drive} from {PLAN.archive(drive)[0]}"
        shell:
            "exec iopatterns unpack --die-with-parent --log {log:q} --sha256 {params.sha256}"
            " {input:q} {params.folder:q}"
