# `snakemake --cores 1 twin_of_labdisk` reads the drive `labdisk`, fits a simulated drive (twin) to two thirds of the
# measured points, and reports its error on the held-out third. Existing measurements are used again.
for drive in fit_user_drive.fittable_drives(ROOT):

    rule:
        name:
            f"twin_of_{drive}"
        input:
            code=rule_code.dependencies_of(ROOT, "workflow/scripts/twin_of.py"),
        log:
            f"results/logs/twin_of/{drive}.log",
        resources:
            real_drive=1,
        params:
            drive=drive,
            config=config,
        message:
            f"Measuring {drive} and fitting a twin to it"
        script:
            "../scripts/twin_of.py"
