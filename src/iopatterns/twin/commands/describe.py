"""`twin describe`."""

import json
from typing import TYPE_CHECKING, Any

import click

from iopatterns.twin.commands.arguments import MODEL_ARGUMENT

if TYPE_CHECKING:
    from iopatterns.twin.models import Model


@click.command()
@MODEL_ARGUMENT
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(model: str, as_json: bool) -> None:
    """Print the parameters of MODEL with their provenance."""
    from iopatterns.twin import models

    loaded = models.load_model(model)
    if as_json:
        click.echo(json.dumps(_as_json(loaded), indent=2, ensure_ascii=False))
    else:
        _print_text(loaded)


def _as_json(model: "Model") -> dict[str, Any]:
    from iopatterns.twin import models

    names = ("value", "provenance", "source", "meaning")
    return {
        "name": model.name,
        "description": model.description,
        "kind": model.kind,
        "identity": dict(model.identity),
        "digest": model.digest,
        "parameters": {row[0]: dict(zip(names, row[1:], strict=True)) for row in models.parameter_rows(model)},
        "fit": dict(model.fit),
    }


def _print_text(model: "Model") -> None:
    from iopatterns.twin import models

    click.echo(f"{model.name}: {model.description}")
    click.echo("  " + ", ".join(f"{key} {value}" for key, value in model.identity.items()))
    group = ""
    for name, value, provenance, source, meaning in models.parameter_rows(model):
        its_group, short_name = name.split(".")
        if its_group != group:
            group = its_group
            click.echo(f"\n{group}")
        click.echo(f"  {short_name:<22} {value:<20} {provenance:<10} {meaning}")
        click.echo(f"  {'':<22} {'':<20} {'':<10} ({source})")
    if model.fit:
        click.echo(f"\nfit to {model.fit['points']}")
        for use in ("fitted", "predicted"):
            for name, text in model.fit.get(use, {}).items():
                click.echo(f"  {use:<10} {name:<38} {text}")
