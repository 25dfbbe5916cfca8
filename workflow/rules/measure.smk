# One job a cell, all its executions inside. Raw files are never deleted by the workflow: `update` keeps those that are
# there, so that an interrupted cell goes on where it stopped and more repetitions add to what is measured.
for study in PLAN.studies:

    rule:
        name:
            f"measure_{study}"
        output:
            update(
                expand(
                    f"{RAW}/{{{{drive}}}}/{study}/{{{{cell}}}}/{{execution}}.json",
                    execution=PLAN.executions(study),
                )
            ),
        log:
            f"results/logs/measure/{{drive}}/{study}/{{cell}}.log",
        wildcard_constraints:
            # an archived drive is unpacked by its own rule below
            drive="|".join(re.escape(drive) for drive in PLAN.measured_drives()),
        conda:
            "../../envs/environment.yaml"
        resources:
            **{
                resource: lambda wildcards, resource=resource: PLAN.occupies(
                    wildcards.drive, resource
                )
                for resource in PLAN.resources
            },
        params:
            specification=lambda wildcards, study=study: PLAN.specification(
                wildcards.drive, study, wildcards.cell
            ),
        message:
            f"Measuring {study} on {{wildcards.drive}}: {{wildcards.cell}}"
        shell:
            "exec iopatterns measure --die-with-parent --log {log:q}"
            " --specification {params.specification:q} {output:q}"


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
                        for raw in PLAN.raw_files(study, drive)
                    ],
                ]
            ),
        log:
            f"results/logs/unpack/{drive}.log",
        conda:
            "../../envs/environment.yaml"
        params:
            sha256=PLAN.archive(drive)[1],
            folder=f"{RAW}/{drive}",
        message:
            f"Unpacking {drive} from {PLAN.archive(drive)[0]}"
        shell:
            "exec iopatterns unpack --die-with-parent --log {log:q} --sha256 {params.sha256}"
            " {input:q} {params.folder:q}"
