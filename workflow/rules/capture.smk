# Records the traces that studies replay anew: `snakemake --cores 1 capture` runs their workloads in a real kernel on twins,
# and says whether the same traces came out as are committed. Copy results/traces to data/traces where others are meant.
# It needs `./reproduce.sh linux`; a default run makes nothing of this.
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
        "Holding the recorded traces against those in data/traces"
    script:
        "../scripts/capture.py"


rule record:
    input:
        workloads=lambda wildcards: capture.workload_files(ROOT, wildcards.study),
        # without it, the recording says how to build it
        kernel=lambda wildcards: [
            kernel for kernel in [".linux/linux"] if Path(kernel).exists()
        ],
    output:
        "results/traces/{study}/{recording}.parquet",
    log:
        "results/logs/capture/{study}/{recording}.log",
    wildcard_constraints:
        recording="[a-z0-9][a-z0-9_-]*",
    params:
        # where a study replays it, it is made anew when this changes
        made_of=lambda wildcards: capture.recording_digest(
            CONF, wildcards.study, wildcards.recording
        ),
        # and when what records it is built anew; not in a live run, whose cells are named by made_of alone, and would stay
        built=lambda wildcards: (
            ""
            if CONF.live
            else rule_code.native_checksum(ROOT, "workflow/scripts/record.py")
        ),
    message:
        "Recording {wildcards.study}/{wildcards.recording} in a guest"
    script:
        "../scripts/record.py"
