"""The command `iopatterns factors`, which lists the factors of studies.

A factor is a fio option or a drive setting that a study may vary.
"""

import click


@click.command()
def command() -> None:
    """List the fio options and drive settings that studies may vary.

    The command prints the name, the valid values and, where necessary, an explanation of each option and setting.
    """
    from iopatterns.configuration.factors import FACTORS, OPTION_ROLES, SETTING_ROLES, factor_names

    for title, roles in (("fio options", OPTION_ROLES), ("settings of the drive", SETTING_ROLES)):
        click.echo(f"{title}:")
        for name in factor_names(*roles):
            factor = FACTORS[name]
            click.echo(f"  {factor.name}: {factor.hint}")
            if factor.about:
                click.echo(f"      {factor.about}")
