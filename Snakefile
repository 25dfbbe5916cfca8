# The workflow: its configuration, its rules, and the targets of a complete run.
from snakemake.utils import min_version

from iopatterns.base import isolation

isolation.ignore_user_modules()

from iopatterns.workflow import entry, hosts, run_start

min_version("9.0")


with entry.errors_as_messages():

    include: "workflow/rules/fio_suite.smk"
    include: "workflow/rules/common.smk"
    include: "workflow/rules/measure.smk"
    include: "workflow/rules/analyse.smk"
    include: "workflow/rules/scorecard.smk"
    include: "workflow/rules/readme.smk"
    include: "workflow/rules/report.smk"
    include: "workflow/rules/calibrate.smk"
    include: "workflow/rules/ablate.smk"
    include: "workflow/rules/scale.smk"
    include: "workflow/rules/robustness.smk"
    include: "workflow/rules/capture.smk"
    include: "workflow/rules/twin_of.smk"
    include: "workflow/rules/benchmarks.smk"


rule all:
    input:
        f"{RESULTS}/report.pdf",
        # explicit targets, so that a deleted raw file is measured again
        raw=CELLS.declared_outputs(CELLS),
    message:
        f"The report is {RESULTS}/report.pdf"


onstart:
    with entry.errors_as_messages():
        run_start.begin_run(CELLS, hosts.slurm_submission(workflow))


# This check reads the inputs of all rules, and therefore comes after them.
with entry.errors_as_messages():
    entry.require_sources(
        ROOT, (file for rule in workflow.rules for file in rule.input)
    )
