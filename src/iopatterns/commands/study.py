"""`iopatterns study`: begin, list, check, pack, add and remove studies."""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import FILE_PATH, StudyName


@click.group()
def command() -> None:
    """Begin, list, check, pack, add and remove studies.

    A study is a grid with a notebook, a section of the report, published values, traces and tests. The name of the
    study determines the paths of these files.
    """


@command.command()
@click.argument("name")
@click.option("--with-source", is_flag=True, help="Begin the published values and claims of a source, too.")
def new(name: str, *, with_source: bool) -> None:
    """Begin a study with a grid, a notebook and a section.

    The grid runs as it is. Of a study that is begun already, the missing files are written.
    """
    from iopatterns.workflow import skeleton

    root = Path.cwd()
    for path in skeleton.create_study(root, name, with_source=with_source):
        click.echo(f"{path}: written")
    click.echo(skeleton.next_step(root, name, with_source=with_source))


@command.command("list")
@click.option("--names", is_flag=True, help="Only the names of the configured studies, in their order.")
def list_command(*, names: bool) -> None:
    """List all studies with cells, drives, claims and files."""
    from iopatterns.configuration import study_files
    from iopatterns.workflow import studies, study_package

    root = Path.cwd()
    if names:
        click.echo("\n".join(study_package.configured_studies(root)))
        return
    click.echo("\n".join(studies.study_overview(root, study) for study in study_files.study_names(root)))


@command.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=StudyName())
def check(names: tuple[str, ...]) -> None:
    """Check studies, by default all of them.

    A run and `snakemake -n` check the configured studies in the same way.
    """
    from iopatterns.configuration import study_files
    from iopatterns.workflow import studies, study_package

    root = Path.cwd()
    failed = False
    for name in names or study_files.study_names(root):
        study_package.require_study(root, name)
        if problems := studies.study_problems(root, name):
            click.echo("\n".join(problems), err=True)
            failed = True
        else:
            click.echo(f"{name}: no mistake found; {studies.study_extent(root, name)}")
    if failed:
        sys.exit(2)


@command.command()
@click.argument("name", type=StudyName())
@click.option("--output", type=FILE_PATH, help="File to write. Default: NAME.tar.xz.")
@click.option("--with-raw", is_flag=True, help="Include the raw files of simulated drives.")
def pack(name: str, output: Path | None, *, with_raw: bool) -> None:
    """Pack a study into one file."""
    from iopatterns.workflow import study_package

    made = study_package.pack_study(Path.cwd(), name, output or Path(f"{name}.tar.xz"), with_raw=with_raw)
    click.echo(f"{made.output}: {len(made.paths)} files, SHA-256 {made.sha256}")
    for drive in made.left_out:
        click.echo(
            f"Raw files of {drive} are left out, for it is a real drive: `iopatterns archive {drive}` packs them."
        )
    click.echo(f"Add it to another project: iopatterns study add {made.output}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Go on without asking.")
def add(file: Path, *, yes: bool) -> None:
    """Add a packed study to the project.

    FILE is a package that `iopatterns study pack` made. The command verifies the SHA-256 sums and paths of the
    package, shows the files to write, and asks. No file is replaced. The name of the study is added to
    config/config.yaml, and new references to paper/references.yml. A study contains code: add it only if you trust its
    author.
    """
    from iopatterns.workflow import study_package

    addition = study_package.Addition.of(Path.cwd(), file)
    click.echo(addition.text())
    if addition.is_empty:
        return
    if not yes:
        click.confirm("Add the study?", abort=True)
    addition.write()
    study = addition.package.study
    click.echo(f"Added. `iopatterns study check {study}` checks it, `snakemake -n` prints what would run.")


@command.command()
@click.argument("name", type=StudyName())
@click.option("--yes", is_flag=True, help="Go on without asking.")
@click.option("--keep-raw", is_flag=True, help="Keep the raw files.")
def remove(name: str, *, yes: bool, keep_raw: bool) -> None:
    """Remove a study with its results and raw files."""
    from iopatterns.workflow import study_package

    removal = study_package.Removal.of(Path.cwd(), name, keep_raw=keep_raw)
    click.echo(removal.text())
    if not yes:
        click.confirm("Delete these files?", abort=True)
    removal.remove()
    click.echo(f"Removed the study '{name}'.")
