# The configuration, checked before anything else happens, and what the other rules ask of it.
from iopatterns.configuration import kinds
from iopatterns.workflow import (
    ablation,
    batches,
    capture,
    drive_resources,
    entry,
    forecast,
    notebooks,
    fit_user_drive,
    rule_code,
    study_rules,
    twin_models,
)
from iopatterns.workflow.planned_cells import (
    RAW_FOLDER,
    archives_by_drive,
    unpacked_marker,
)

# Values given with --config or --configfile replace those of config/config.yaml.
CELLS = entry.load_workflow(workflow, config)
CONF, ROOT, RESULTS = CELLS.config, CELLS.root, CELLS.config.results

# Real drives of a host are measured one at a time, whatever --cores and the profile say: two at once disturb each other,
# unless the configuration says that they do not.
for resource in drive_resources.resource_names(CONF):
    workflow.register_resource(resource, 1)


# `snakemake plan`: what a run would measure, how long that would take, and how much it would write.
rule plan:
    log:
        f"{RESULTS}/logs/plan.log",
    params:
        forecast=lambda wildcards: forecast.forecast_text(CELLS),
    message:
        "What is still to be measured"
    shell:
        "printf '%s\\n' {params.forecast:q} | tee {log:q}"


wildcard_constraints:
    study="[a-z0-9][a-z0-9_-]*",
    drive="[A-Za-z0-9][A-Za-z0-9_.-]*",
    cell="[^/]+",
    trace="[A-Za-z0-9][A-Za-z0-9_.-]*",
