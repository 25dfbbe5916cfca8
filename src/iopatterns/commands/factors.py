"""`iopatterns factors`."""

import click


@click.command()
def command() -> None:
    """List the fio options and drive settings that a study may vary.

    A study may vary each of them. The command prints the levels that each may have.
    """
    from iopatterns.configuration.factors import FACTORS, OPTIONS, SETTINGS, names

    for title, roles in (("fio options", OPTIONS), ("settings of the drive", SETTINGS)):
        click.echo(f"{title}:")
        for name in names(*roles):
            factor = FACTORS[name]
            click.echo(f"  {factor.name}: {factor.hint}")
            if factor.about:
                click.echo(f"      {factor.about}")
