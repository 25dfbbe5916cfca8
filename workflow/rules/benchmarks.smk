# `snakemake --cores 1 benchmarks` runs all programs in tests/benchmarks. The machine should be idle. This takes minutes,
# because one program runs the complete default configuration.
rule benchmarks:
    log:
        "results/logs/benchmarks.log",
    message:
        "Running all benchmarks; the results are written to results/benchmarks.json and docs/benchmarks.md"
    shell:
        "python tests/benchmarks/run.py --json results/benchmarks.json --page docs/benchmarks.md 2>&1 | tee {log:q}"
