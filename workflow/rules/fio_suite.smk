# How much of fio's own test suite passes on twins, and why the rest does not:
# `snakemake --cores 1 fio-suite --config fio_source=/path/to/fio`. It stands before the configuration is read, which has
# no such key: the source tree concerns this rule alone. It has no output, so that it runs whenever it is asked for.
FIO_SOURCE = config.pop("fio_source", "")


rule fio_suite:
    name:
        "fio-suite"
    log:
        "results/logs/fio-suite.log",
    params:
        source=FIO_SOURCE,
    message:
        "fio's own tests on twins"
    shell:
        "python tests/benchmarks/fio_suite.py {params.source:q} --output results/fio-suite.json 2> {log:q} || (cat {log:q} >&2; exit 1)"
