"""Command `twin list`, which prints the models of simulated drives."""

import click


@click.command()
def command() -> None:
    """List the models of simulated drives in data/twins.

    The command prints a line for each model: name, transport (sas, sata or nvme), capacity and description.
    """
    from iopatterns.twin import models

    for name in models.list_models():
        model = models.load_model(name)
        size = f"{model.size_bytes / 1e9:.0f} GB"
        click.echo(f"{name:<16} {model.identity['transport']:<5} {size:>8}  {model.description}")
