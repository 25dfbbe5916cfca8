"""Command `twin describe`, which prints the parameters of a simulated drive."""

import itertools
import json

import click

from iopatterns.twin.commands.arguments import MODEL_ARGUMENT


@click.command()
@MODEL_ARGUMENT
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(model: str, as_json: bool) -> None:
    """Print the parameters of MODEL with their provenance.

    MODEL is the name of a model (`twin list`), or the path of a model file. The provenance of a value is datasheet,
    fitted or assumed. The output begins with the errors against measurements of the real drive, and with what the model
    should not be used for. It also has the source and the meaning of each parameter, its range of plausible values
    unless it is fixed, and the errors of the recorded fit, if the file records one.
    """
    from iopatterns.twin import models, ranges, recorded_errors

    loaded = models.load_model(model)
    rows = ranges.parameter_rows(loaded)
    if as_json:
        keys = ("value", "provenance", "source", "meaning", "range", "range_because")
        content = {
            "name": loaded.name,
            "description": loaded.description,
            "kind": loaded.kind,
            "identity": dict(loaded.identity),
            "digest": loaded.digest,
            "parameters": {name: dict(zip(keys, values, strict=True)) for name, *values in rows},
            "fit": dict(loaded.fit),
            "errors": recorded_errors.load_errors(loaded),
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    click.echo(f"{loaded.name}: {loaded.description}")
    click.echo("  " + ", ".join(f"{key} {value}" for key, value in loaded.identity.items()))
    click.echo("\n" + "\n".join(recorded_errors.error_lines(loaded)))
    for group, group_rows in itertools.groupby(rows, key=lambda row: row[0].split(".")[0]):
        click.echo(f"\n{group}")
        for name, value, provenance, source, meaning, plausible, because in group_rows:
            click.echo(f"  {name.split('.')[1]:<22} {value:<20} {provenance:<10} {meaning}")
            click.echo(f"  {'':<22} {'':<20} {'':<10} ({source})")
            if plausible not in {"", "fixed"}:
                click.echo(f"  {'':<22} {'':<20} {'':<10} plausible: {plausible} ({because})")
    if loaded.fit:
        click.echo(f"\nfit to {loaded.fit['points']}")
        for use in ("fitted", "predicted"):
            for name, text in loaded.fit.get(use, {}).items():
                click.echo(f"  {use:<10} {name:<38} {text}")
