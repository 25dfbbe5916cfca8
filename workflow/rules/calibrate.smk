# `snakemake --cores 1 calibrate` repeats the fit of each fitted model in data/twins. The result must equal the committed
# model. Where measurements are too long to be simulated completely, it may differ in parameters that balance each other.
# If the fitted points or the simulator have changed, copy the result to data/twins.
rule calibrate:
    input:
        models=expand(
            "results/twins/{model}.yaml", model=twin_models.fitted_models(ROOT)
        ),
    message:
        "The fitted models are in results/twins"


rule fit_model:
    input:
        model="data/twins/{model}.yaml",
        published=lambda wildcards: twin_models.fitted_values_file(
            ROOT, wildcards.model
        ),
        # only the module that fits: the command `twin fit` imports all other commands of `twin`
        code=rule_code.dependencies_of(ROOT, "iopatterns.twin.fitting"),
    output:
        "results/twins/{model}.yaml",
    log:
        "results/logs/calibrate/{model}.log",
    params:
        built=lambda wildcards: rule_code.native_checksum(
            ROOT, "iopatterns.twin.fitting"
        ),
    message:
        "Fitting {wildcards.model}"
    shell:
        "twin fit {input.model} --output {output} > {log} 2>&1 || (cat {log} >&2; exit 1)"
