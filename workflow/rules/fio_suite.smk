# `snakemake --cores 1 fio-suite --config fio_source=/path/to/fio` runs fio's own test suite on twins, and prints which
# tests pass and why others do not. `fio_source` is no key of config.yaml, and is therefore removed before the configuration
# is checked. The rule has no output, so that it runs whenever it is requested.
FIO_SOURCE = config.pop("fio_source", "")


rule fio_suite:
    name:
        "fio-suite"
    log:
        "results/logs/fio-suite.log",
    params:
        source=FIO_SOURCE,
    message:
        "Running fio's own tests on twins"
    shell:
        "python tests/benchmarks/fio_suite.py {params.source:q} --output results/fio-suite.json 2> {log:q} || (cat {log:q} >&2; exit 1)"
