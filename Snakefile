# The table of contents: the configuration, the rules, and what a full run makes.
from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/fio_suite.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/scorecard.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/ablate.smk"
include: "workflow/rules/capture.smk"
include: "workflow/rules/twin_of.smk"
include: "workflow/rules/benchmarks.smk"


rule all:
    input:
        "results/report.pdf",
        # asked for by name, so that one that was deleted is measured again
        raw=[raw for study in PLAN.studies for raw in PLAN.watched_files(study)],
    message:
        "The report lies in results/report.pdf"


onstart:
    PLAN.begin(submission(workflow))


# Of all rules above: it must stand below them.
PLAN.require_sources(file for rule in workflow.rules for file in rule.input)
