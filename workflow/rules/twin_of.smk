# A twin of a drive of yours: `snakemake --cores 1 twin_of_labdisk` reads the drive, fits a simulated one to two thirds of
# what was measured, and says how far it is off the rest. What is measured already is not measured again.
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
            f"Measuring {drive}, and fitting a twin to it"
        script:
            "../scripts/twin_of.py"
