# The configuration, checked before anything else happens, and what the other rules ask of it.
import re
from pathlib import Path

from iopatterns.workflow.hosts import submission
from iopatterns.workflow.notebooks import source_sha256 as notebook_source
from iopatterns.workflow.plan import RAW, Plan

# Values given with --config or --configfile replace those of config/config.yaml.
PLAN = Plan.or_exit(Path(workflow.basedir), config)

# Real drives of a host are measured one at a time, whatever --cores and the profile say: two at once disturb each other,
# unless the configuration says that they do not.
for resource in PLAN.resources:
    workflow.register_resource(resource, 1)


# `snakemake plan`: what a run would measure, how long that would take, and how much it would write.
rule plan:
    log:
        "results/logs/plan.log",
    params:
        forecast=lambda wildcards: PLAN.forecast(),
    message:
        "What is still to be measured"
    shell:
        "printf '%s\\n' {params.forecast:q} | tee {log:q}"


wildcard_constraints:
    study="[a-z0-9][a-z0-9_-]*",
    drive="[A-Za-z0-9][A-Za-z0-9_.-]*",
    cell="[^/]+",
    trace="[A-Za-z0-9][A-Za-z0-9_.-]*",
