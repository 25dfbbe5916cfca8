"""The command line `iopatterns`. Each command imports what it needs, so that a measurement starts at once."""

import json
import sys
from pathlib import Path

import click

import iopatterns
from iopatterns.errors import IoPatternsError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(iopatterns.__version__)
def commands() -> None:
    """The commands behind the workflow. Most users need only `snakemake --cores 1`."""


@commands.command()
@click.option("--specification", required=True, help="The cell's specification, as JSON.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Copy all messages into this file.")
@click.option("--die-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
@click.argument("raw_files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
def measure(specification: str, log: Path | None, die_with_parent: bool, raw_files: tuple[Path, ...]) -> None:
    """Measure one cell: make those of RAW_FILES that are not there, one execution of fio each."""
    import signal

    from iopatterns import fio, messages
    from iopatterns.measure import Interrupted, interruptible
    from iopatterns.measure import measure as measure_cell

    try:
        content = json.loads(specification)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--specification") from None
    if die_with_parent:
        fio.die_with_parent(signal.SIGTERM)
    with messages.copied_to(log):
        try:
            with interruptible():
                measure_cell(Path.cwd(), content, raw_files)
        except IoPatternsError as error:
            messages.say(f"iopatterns measure: {error}")
            sys.exit(error.exit_status)
        except Interrupted as interrupt:
            messages.say(f"iopatterns measure: stopped by {interrupt}; finished executions are kept")
            sys.exit(128 + interrupt.signal_number)


@commands.command()
@click.option("--since", type=float, default=None, help="When the run began, in seconds since the epoch.")
def summary(since: float | None) -> None:
    """Say what the results below this folder rest on, and whether they are those of the committed manifest."""
    from iopatterns.summary import compare, summarise

    click.echo(summarise(Path.cwd(), since))
    same, text = compare(Path.cwd())
    click.echo(text)
    if not same:
        sys.exit(1)


@commands.command()
@click.argument("drive")
@click.option("--writing/--reading", default=True, help="Whether the drive is to be written (default) or only read.")
def check(drive: str, writing: bool) -> None:
    """Say what is checked before the block device DRIVE is measured, and whether it would be. Changes nothing."""
    from iopatterns import config
    from iopatterns.drives.gate import Gate

    drives = config.read_yaml(Path.cwd(), config.DRIVES_FILE)
    if drive not in drives:
        near = config.nearest(drive, drives)
        raise click.BadParameter(f"{config.DRIVES_FILE} has no drive '{drive}'.{near}", param_hint="DRIVE")
    if drives[drive].get("kind") != "block":
        click.echo(f"{drive}: of kind '{drives[drive].get('kind')}', which touches no device.")
        return
    passed = True
    for each in Gate(drives[drive]).checks(writing=writing):
        click.echo(f"{'passed' if each.passed else 'REFUSED':8} {each.name}: {each.found}. {each.remedy}".rstrip())
        passed = each.passed
    click.echo(f"{drive} {'may' if passed else 'may not'} be {'written' if writing else 'read'}.")
    if not passed:
        sys.exit(1)


@commands.command()
def restore() -> None:
    """Put back what interrupted runs have left changed on real drives. The next measurement does so too."""
    from iopatterns.tuning.journal import Journal

    folders = sorted(Path.cwd().glob("data/raw/*/.restore"))
    lines = [f"{folder.parent.name}: put back {line}" for folder in folders for line in Journal(folder).restore()]
    click.echo("\n".join(lines) or "Nothing is left changed.")


@commands.command("scorecard")
@click.option("--expect", is_flag=True, help="Make what the present scorecard says what is expected from now on.")
def scorecard_command(expect: bool) -> None:
    """Say what became of the sources' claims and numbers; fail where one that is expected to hold no longer does."""
    from iopatterns import scorecard

    root = Path.cwd()
    if expect:
        for path in scorecard.expect(root):
            click.echo(f"{path.relative_to(root)}: written")
        return
    click.echo(scorecard.overview(root))
    broken = scorecard.regressions(root)
    if broken:
        click.echo("Expected to hold, and no longer does:\n" + "\n".join(f"  {line}" for line in broken))
        sys.exit(1)
    click.echo("Everything that is expected to hold does.")


@commands.command("manifest")
@click.option("--write", is_flag=True, help="Make the present results what the committed manifest says.")
def manifest_command(write: bool) -> None:
    """Say whether the results are, byte for byte, those of the committed manifest in data/manifests."""
    from iopatterns import fio, manifest

    if write:
        click.echo(f"{manifest.write(Path.cwd(), fio.version())}: written")
        return
    same, text = manifest.verdict(Path.cwd(), fio.version())
    click.echo(text)
    if not same:
        sys.exit(1)


def main() -> None:
    """Run the command line: 2 for wrong usage or configuration, 1 for a failure, 128 + N after signal N."""
    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except IoPatternsError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
