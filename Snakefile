# The table of contents: the configuration, the rules, and what a full run makes.
from snakemake.utils import min_version

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
    include: "workflow/rules/capture.smk"
    include: "workflow/rules/twin_of.smk"
    include: "workflow/rules/benchmarks.smk"


rule all:
    input:
        f"{RESULTS}/report.pdf",
        # asked for by name, so that one that was deleted is measured again
        raw=CELLS.declared_outputs(CELLS),
    message:
        f"The report lies in {RESULTS}/report.pdf"


onstart:
    with entry.errors_as_messages():
        run_start.begin_run(CELLS, hosts.slurm_submission(workflow))


# Of all rules above: it must stand below them.
with entry.errors_as_messages():
    entry.require_sources(
        ROOT, (file for rule in workflow.rules for file in rule.input)
    )
