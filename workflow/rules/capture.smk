# `snakemake --cores 1 capture` records the traces that studies replay: it runs their workloads in a real kernel on twins,
# and compares the traces with the committed ones. To replace the committed traces, copy results/traces to data/traces.
# It requires the kernel that `./reproduce.sh linux` builds. A default run records nothing.
rule capture:
    input:
        [
            f"results/traces/{each.study}/{each.name}.parquet"
            for each in capture.load_recordings(ROOT)
        ],
        code=rule_code.dependencies_of(ROOT, "workflow/scripts/capture.py"),
    log:
        "results/logs/capture.log",
    message:
        "Comparing the recorded traces with data/traces"
    script:
        "../scripts/capture.py"


rule record:
    input:
        workloads=lambda wildcards: capture.workload_files(ROOT, wildcards.study),
        # not required here: without a kernel, the script prints how to build it
        kernel=lambda wildcards: [
            kernel for kernel in [".linux/linux"] if Path(kernel).exists()
        ],
        changed=lambda wildcards: trigger(
            f"record_{wildcards.study}_{wildcards.recording}" in CHANGED
        ),
    output:
        trace="results/traces/{study}/{recording}.parquet",
        record=provenance.record_path("results", "record_{study}_{recording}"),
    log:
        "results/logs/capture/{study}/{recording}.log",
    wildcard_constraints:
        recording="[a-z0-9][a-z0-9_-]*",
    params:
        # a change of this digest is the reason to record again in a live run
        made_of=lambda wildcards: capture.recording_digest(
            CONF, wildcards.study, wildcards.recording
        ),
        # another build records again; not in a live run, because the names of its cells depend on `made_of` only
        built=lambda wildcards: (
            ""
            if CONF.live
            else rule_code.native_checksum(ROOT, "workflow/scripts/record.py")
        ),
    message:
        "Recording {wildcards.study}/{wildcards.recording} in a guest system"
    script:
        "../scripts/record.py"
