# Figures of speed: `snakemake --cores 1 benchmarks` runs all programs in tests/benchmarks, on an idle machine if they are to
# say much. It takes minutes, for one of them runs the whole default configuration.
rule benchmarks:
    log:
        "results/logs/benchmarks.log",
    message:
        "Running all benchmarks; their figures go to results/benchmarks.json and docs/benchmarks.md"
    shell:
        "python tests/benchmarks/run.py --json results/benchmarks.json --page docs/benchmarks.md 2>&1 | tee {log:q}"
