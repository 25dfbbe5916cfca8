"""The command `iopatterns scorecard`, which prints the verdicts of all claims.

A claim is a published statement. Its verdict says whether the measurements reproduce it.
"""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import RESULTS_OPTION


@click.command()
@click.option("--expect", is_flag=True, help="Record the verdicts of this run as the expected verdicts.")
@RESULTS_OPTION
def command(expect: bool, results: str) -> None:
    """Print the verdicts of all claims; fail on a regression.

    A claim is a published statement that is checked against the measurements. A verdict says whether a claim or a
    published value of a study is reproduced. A regression is a claim or value that is expected to be reproduced, and is
    not. Studies that ran in a configuration other than the default are not checked for regressions. The exit status is
    1 after a regression.
    """
    from iopatterns.base import files
    from iopatterns.judging import scorecard

    root = Path.cwd()
    if expect:
        with files.outdated_results_reported(f"{results}/{scorecard.SCORECARD_FILE}"):
            written = scorecard.record_expectations(root, results)
        for path in written:
            click.echo(f"{path.relative_to(root)}: written")
        return
    with files.outdated_results_reported(f"{results}/{scorecard.SCORECARD_FILE}"):
        overview, regressions = scorecard.scorecard_text(root, results), scorecard.regressions(root, results)
        not_compared = scorecard.skipped_expectations(root, results)
        studies = scorecard.load_scorecard(root, results)["studies"]
    click.echo("\n".join(filter(None, (overview, *not_compared))))
    if regressions:
        click.echo("Regressions:\n" + "\n".join(f"  {line}" for line in regressions))
        sys.exit(1)
    if len(not_compared) < len(studies):
        click.echo(f"No regressions{' in the other studies' if not_compared else ''}.")
