"""`iopatterns scorecard`."""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import RESULTS_OPTION


@click.command()
@click.option("--expect", is_flag=True, help="Make the verdicts of this run the expected verdicts.")
@RESULTS_OPTION
def command(expect: bool, results: str | None) -> None:
    """Print the verdicts of all claims; fail on a regression.

    A regression is a claim or published value that was expected to be reproduced and is not. A study that ran with
    other values than the default is not checked for regressions.
    """
    from iopatterns.base import files
    from iopatterns.configuration import config
    from iopatterns.judging import scorecard

    root = Path.cwd()
    results = results or config.results_folder(root)
    if expect:
        with files.outdated_results_reported(f"{results}/{scorecard.SCORECARD_FILE}"):
            written = scorecard.record_expectations(root, results)
        for path in written:
            click.echo(f"{path.relative_to(root)}: written")
        return
    with files.outdated_results_reported(f"{results}/{scorecard.SCORECARD_FILE}"):
        overview, broken = scorecard.scorecard_text(root, results), scorecard.regressions(root, results)
        others, studies = (
            scorecard.skipped_expectations(root, results),
            scorecard.load_scorecard(root, results)["studies"],
        )
    click.echo("\n".join(filter(None, (overview, *others))))
    if broken:
        click.echo("Expected to hold, and no longer does:\n" + "\n".join(f"  {line}" for line in broken))
        sys.exit(1)
    if len(others) < len(studies):
        click.echo(f"Everything {'else ' if others else ''}that is expected to hold does.")
