# Reads and checks the configuration before anything else happens, and defines what other rules share.
from iopatterns.configuration import kinds
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.workflow import (
    ablation,
    batches,
    capture,
    drive_resources,
    entry,
    fit_user_drive,
    forecast,
    provenance,
    robustness,
    rule_code,
    scale,
    scale_jobs,
    study_rules,
    twin_models,
)
from iopatterns.workflow.planned_cells import archives_by_drive, unpacked_marker

# Values of --config and --configfile replace values of config/config.yaml.
CELLS, CHANGED = entry.load_workflow(workflow, config)
CONF, ROOT, RESULTS = CELLS.config, CELLS.root, CELLS.config.results


# An input of each rule that makes results. It is newer than they are while a file differs from the record of the rule, or
# while another simulator or fio has measured. The rule then runs again, whatever the times of the files are.
def trigger(has_changed):
    path = provenance.TRIGGER_FILE
    return path if has_changed else ancient(path)


# Only one real drive of a host is measured at a time, also with --cores 2, because two measurements disturb each other.
# `independent_drives` in the configuration lists exceptions.
for resource in drive_resources.resource_names(CONF):
    workflow.register_resource(resource, 1)


wildcard_constraints:
    study="[a-z0-9][a-z0-9_-]*",
    drive="[A-Za-z0-9][A-Za-z0-9_.-]*",
    cell="[^/]+",
    number="[0-9]+",
    trace="[A-Za-z0-9][A-Za-z0-9_.-]*",
