# `snakemake --cores 1 readme` writes the numbers of README.md and docs/ from the scorecard of a default run. The pages are
# no declared outputs: Snakemake deletes those before a rule runs.
rule readme:
    input:
        f"{RESULTS}/scorecard.json",
    log:
        f"{RESULTS}/logs/readme.log",
    message:
        "Writing the numbers of README.md and docs/ from the scorecard"
    shell:
        'python docs/write_numbers.py "$(dirname {input:q})" 2>&1 | tee {log:q}; exit ${{PIPESTATUS[0]}}'
