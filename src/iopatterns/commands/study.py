"""The command group `iopatterns study`, which manages the studies of a project.

A study reproduces the experiments of one source, such as a paper.
"""

import sys
from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import FILE_PATH, StudyName


@click.group()
def command() -> None:
    """Begin, list, check, pack, add and remove studies.

    A study reproduces the experiments of one source, such as a paper. It consists of a grid (config/studies/NAME.yaml,
    which lists what is measured), a notebook, a section of the report, published values, traces and tests. The name of
    the study determines the paths of these files.
    """


@command.command("new")
@click.argument("name")
@click.option("--with-source", is_flag=True, help="Also begin the published values and claims of a source.")
def begin_study(name: str, *, with_source: bool) -> None:
    """Begin a study with a grid, a notebook and a report section.

    NAME is the name of the study. The grid is the file config/studies/NAME.yaml, which lists what is measured. The new
    study can be run without changes. Existing files are kept; missing files are written. The command prints their
    paths, and what to do next.
    """
    from iopatterns.workflow import skeleton

    root = Path.cwd()
    for path in skeleton.create_study(root, name, with_source=with_source):
        click.echo(f"{path}: written")
    click.echo(skeleton.next_step(root, name, with_source=with_source))


@command.command("list")
@click.option("--names", is_flag=True, help="Print only the names of the configured studies.")
def list_studies(*, names: bool) -> None:
    """List all studies with their cells, drives, claims and files.

    A cell is one configuration: a drive, its settings and a workload. A claim is a published statement that is checked
    against the measurements. With --names, the command prints only the names of the studies in config/config.yaml.
    """
    from iopatterns.configuration import study_files
    from iopatterns.workflow import studies, study_package

    root = Path.cwd()
    if names:
        click.echo("\n".join(study_package.configured_studies(root)))
        return
    click.echo("\n".join(studies.study_overview(root, study) for study in study_files.study_names(root)))


@command.command("check")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=StudyName())
def check_studies(names: tuple[str, ...]) -> None:
    """Check the files of studies for mistakes, without measuring.

    NAME... are the studies, by default all. The command prints each mistake, or the size of a study without mistakes. A
    run and `snakemake -n` check the configured studies in the same way. The exit status is 2 if a study has a mistake.
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
            click.echo(f"{name}: no mistakes found; {studies.study_extent(root, name)}")
    if failed:
        sys.exit(2)


@command.command("pack")
@click.argument("name", type=StudyName())
@click.option("--output", type=FILE_PATH, help="File to write.  [default: NAME.tar.xz]")
@click.option("--with-raw", is_flag=True, help="Include the raw files of simulated drives.")
@OVERWRITE_OPTION
def pack_command(name: str, output: Path | None, *, with_raw: bool, overwrite: bool) -> None:
    """Pack the files of a study into one file.

    NAME is the name of the study. `iopatterns study add` adds the file to another project. With --with-raw, the file
    includes the raw files (the JSON output of fio) of simulated drives. `iopatterns archive` packs those of real
    drives.
    """
    from iopatterns.workflow import study_package

    output = output or Path(f"{name}.tar.xz")
    made = study_package.pack_study(Path.cwd(), name, output, with_raw=with_raw, overwrite=overwrite)
    click.echo(f"{made.output}: {len(made.paths)} files, SHA-256 {made.sha256}")
    for drive in made.left_out:
        click.echo(f"Raw files of the real drive {drive} are not included. `iopatterns archive {drive}` packs them.")
    click.echo(f"Add it to another project: iopatterns study add {made.output}")


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def add_study(file: Path, *, yes: bool) -> None:
    """Add a packed study to the project.

    FILE is a package that `iopatterns study pack` has written. The command verifies the SHA-256 sums and paths in the
    package, lists the files to write, and asks for confirmation. No existing file is replaced. The name of the study is
    added to config/config.yaml, and new references to paper/references.yml. A study contains code: add it only if you
    trust its author.
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


@command.command("remove")
@click.argument("name", type=StudyName())
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--keep-raw", is_flag=True, help="Keep the raw files.")
def remove_study(name: str, *, yes: bool, keep_raw: bool) -> None:
    """Remove a study with its results and raw files.

    NAME is the name of the study. Raw files are the JSON output of fio. The command lists the files, and asks for
    confirmation before it deletes them.
    """
    from iopatterns.workflow import study_package

    removal = study_package.Removal.of(Path.cwd(), name, keep_raw=keep_raw)
    click.echo(removal.text())
    if not yes:
        click.confirm("Delete these files?", abort=True)
    removal.remove()
    click.echo(f"Removed the study '{name}'.")
