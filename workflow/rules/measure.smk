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
        conda:
            "../../envs/environment.yaml"
        resources:
            real_drive=lambda wildcards: int(PLAN.is_real(wildcards.drive)),
        params:
            specification=lambda wildcards, study=study: PLAN.specification(
                wildcards.drive, study, wildcards.cell
            ),
        message:
            f"Measuring {study} on {{wildcards.drive}}: {{wildcards.cell}}"
        shell:
            "exec iopatterns measure --die-with-parent --log {log:q}"
            " --specification {params.specification:q} {output:q}"
