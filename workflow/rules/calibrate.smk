# Fits each model that records a fit anew, from the points that it names: `snakemake --cores 1 calibrate`. What comes out
# must be the model that is committed; copy it to data/twins when the points or the simulated drive have changed.
rule calibrate:
    input:
        models=expand(
            "results/twins/{model}.yaml", model=twin_models.fitted_models(ROOT)
        ),
    message:
        "The fitted models lie in results/twins"


rule fit_model:
    input:
        model="data/twins/{model}.yaml",
        published=lambda wildcards: twin_models.fitted_values_file(
            ROOT, wildcards.model
        ),
        # of `twin fit` the part that fits; the command itself would bring in all other commands of `twin`
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
