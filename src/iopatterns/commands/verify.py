"""The command `iopatterns verify`, which checks results against the raw files.

Raw files are the JSON output of fio.
"""

import sys

import click

from iopatterns.commands.arguments import RESULTS_OPTION


@click.command()
@click.option("--follow", metavar="FILE", help="Print how this result was made, back to the measuring commands.")
@RESULTS_OPTION
def command(follow: str | None, results: str) -> None:
    """Check that each result follows from the raw files.

    Raw files are the JSON output of fio. Each rule (step) of the workflow records the SHA-256 of its inputs and
    outputs, in the folder provenance of the results. This command reads all these files again, and names each file that
    differs from a record. The exit status is 1 if a file differs. With --follow, the command prints only how one result
    was made.
    """
    from iopatterns.workflow import verification

    if follow is not None:
        click.echo("\n".join(verification.followed(results, follow)))
        return
    found = verification.verify(results)
    for problem in found.problems:
        click.echo(problem, err=True)
    if found.problems:
        click.echo(f"{results}: {len(found.problems)} files do not follow from the others. Run `snakemake --cores 1`.")
        sys.exit(1)
    click.echo(f"{results}: all {found.outputs} results follow from {found.raw_files} raw files")
