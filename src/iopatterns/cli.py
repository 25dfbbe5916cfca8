"""The command line `iopatterns`. Each command imports what it needs, so that a measurement starts at once."""

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import iopatterns
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import bounded, printable

if TYPE_CHECKING:
    from iopatterns.calls import Trace
    from iopatterns.configuration.kinds import Entry
    from iopatterns.raw.records import Specification


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(iopatterns.__version__)
def commands() -> None:
    """The commands behind the workflow. Most users need only `snakemake --cores 1`."""


@commands.command()
@click.option(
    "--specification", "specifications", required=True, multiple=True, help="A cell's specification, as JSON."
)
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Copy all messages into this file.")
@click.option("--die-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
@click.option("--host", help="The host that has the drive: on any other nothing is measured.")
@click.argument("raw_files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
def measure(
    specifications: tuple[str, ...],
    log: Path | None,
    die_with_parent: bool,
    host: str | None,
    raw_files: tuple[Path, ...],
) -> None:
    """Measure some cells: make those of RAW_FILES that are not there, one execution of fio each."""
    from iopatterns.measuring.cell import measure_all

    found = [_specification(text) for text in specifications]
    with _job("measure", log, die_with_parent=die_with_parent):
        _require_host(host)
        measure_all(Path.cwd(), found, raw_files)


def _require_host(host: str | None) -> None:
    """Raise DriveError unless a drive whose host has that name is here; any is whose host has none."""
    from iopatterns.measuring import machine

    if host and not machine.is_named(host):
        from iopatterns.measuring.drives import DriveError

        raise DriveError(f"the drive is on host {host}, and this is {machine.host_name()}. Measure it there.")


def _specification(text: str) -> "Specification":
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--specification") from None
    if not isinstance(content, dict):
        raise click.BadParameter("no object, as the workflow gives it", param_hint="--specification")
    return cast("Specification", content)


@commands.command("archive")
@click.argument("drive")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to make, by default data/archives/DRIVE.tar.xz.",
)
def archive_command(drive: str, output: Path | None) -> None:
    """Pack all raw files of DRIVE into one file, to be analysed on a machine that has no such drive."""
    from iopatterns.raw import archive
    from iopatterns.workflow.plan import RAW, Plan

    root = Path.cwd()
    _entry(drive)
    plan = Plan(root, {"drives": [drive]})
    experiments = {cell: names for study in plan.studies for cell, names in plan.experiments(study).items()}
    output = output or Path(f"data/archives/{drive}.tar.xz")
    made = archive.pack(Path(RAW) / drive, experiments, output)
    executions = sum(cell.executions for cell in made.cells)
    unasked = sum(not cell.experiments for cell in made.cells)
    click.echo(f"{output}: {executions} executions of {len(made.cells)} cells, SHA-256 {made.sha256}")
    if unasked:
        click.echo(f"  {unasked} of the cells are of no experiment of config/; they are packed, and not analysed")
    click.echo(f"To analyse it elsewhere, in config/drives.yaml:\n\n  {drive}: {{kind: archive, path: {output}}}")


@commands.command()
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Copy all messages into this file.")
@click.option("--die-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
@click.option("--sha256", help="The SHA-256 that the archive must have.")
@click.argument("archive", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def unpack(log: Path | None, die_with_parent: bool, sha256: str | None, archive: Path, folder: Path) -> None:
    """Verify ARCHIVE and lay its raw files out in FOLDER, that of the drive below data/raw."""
    from iopatterns.raw.archive import unpack as unpack_archive

    with _job("unpack", log, die_with_parent=die_with_parent):
        unpack_archive(archive, folder, sha256)


def _entry(drive: str, *, complete: bool = True) -> "Entry":
    """Return the entry of a drive. Raises BadParameter where there is no such drive.

    Without ``complete`` entries may lack what their kind needs.
    """
    from iopatterns.base import yaml_schema
    from iopatterns.configuration import drive_entries

    drives = drive_entries.read(Path.cwd(), complete=complete).entries
    if drive not in drives:
        near = yaml_schema.nearest(drive, drives)
        message = f"neither {drive_entries.FILE} nor a study has a drive '{printable(drive)}'.{near}"
        raise click.BadParameter(message, param_hint="DRIVE")
    return drives[drive]


@contextmanager
def _job(command: str, log: Path | None, *, die_with_parent: bool) -> Iterator[None]:
    """Run a job of the workflow: its messages go to ``log`` too, and errors and signals end the process."""
    import signal

    from iopatterns.base import messages
    from iopatterns.measuring import fio, progress
    from iopatterns.measuring.cell import Interrupted, interruptible

    if die_with_parent:
        fio.die_with_parent(signal.SIGTERM)
    with messages.copied_to(log, noted_there_alone=progress.is_counted()):
        try:
            with interruptible():
                yield
            progress.took("measuring")
        except IoPatternsError as error:
            # settings that cannot be put back after a drive has failed must not hide that it has
            first = None if error.__suppress_context__ else error.__context__
            told = [str(each) for each in (first, error) if isinstance(each, IoPatternsError)]
            messages.say(f"iopatterns {command}: " + "\n".join(told))
            sys.exit(error.exit_status)
        except OSError as error:
            messages.say(f"iopatterns {command}: {_of_the_system(error)}")
            sys.exit(1)
        except Interrupted as interrupt:
            messages.say(f"iopatterns {command}: stopped by {interrupt}; what is finished is kept")
            sys.exit(128 + interrupt.signal_number)


def _of_the_system(error: OSError) -> str:
    """Return what a call of the system has failed with, and on which file where that is known."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)


@commands.command()
@click.option("--since", type=float, default=None, help="When the run began, in seconds since the epoch.")
def summary(since: float | None) -> None:
    """Say what the results below this folder rest on, and whether they are those of the committed manifest."""
    from iopatterns.workflow.summary import compare, summarise

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
    from iopatterns.configuration import kinds
    from iopatterns.measuring.drives.gate import Gate

    entry = _entry(drive, complete=False)
    _require_host(kinds.host_of(entry))
    if not kinds.is_whole_disk(entry):
        click.echo(f"{drive}: of kind '{entry['kind']}', which touches no device.")
        return
    if "path" not in entry:
        raise click.BadParameter("its entry in config/drives.yaml has no path. Add one.", param_hint="DRIVE")
    passed = True
    with Gate(entry) as gate:
        for each in gate.checks(writing=writing):
            click.echo(f"{'passed' if each.passed else 'REFUSED':8} {each.name}: {each.found}. {each.remedy}".rstrip())
            passed = each.passed
    click.echo(f"{drive} {'may' if passed else 'may not'} be {'written' if writing else 'read'}.")
    if not passed:
        sys.exit(1)


@commands.command("hosts")
@click.option("--here", is_flag=True, help="Ask this host alone, without Slurm, about the DRIVES named.")
@click.option("--partition", default="", help="The partition of Slurm whose hosts are asked, by default Slurm's own.")
@click.argument("drives", nargs=-1)
def hosts_command(here: bool, partition: str, drives: tuple[str, ...]) -> None:
    """Say of each host of a Slurm cluster whether it has what jobs need there. DRIVES: all configured by default.

    A run with profiles/slurm asks the same before it queues anything.
    """
    from iopatterns.workflow import hosts
    from iopatterns.workflow.plan import Plan

    root = Path.cwd()
    if here:
        ready, text = hosts.here(root, {drive: _entry(drive) for drive in drives})
        click.echo(text)
        sys.exit(not ready)
    plan = Plan(root, {"drives": list(drives)} if drives else None)
    answers = plan.ask_hosts(hosts.Submission(partition), plan.measured_drives())
    for line in hosts.lines(answers):
        click.echo(line)
    if any(each.is_ready is False for each in answers):
        sys.exit(1)


@commands.command()
def restore() -> None:
    """Put back what interrupted runs have left changed on disks of this host. The next measurement does so too."""
    from iopatterns.measuring.drives.restoring import restore_all

    told, problems = restore_all()
    for line in told:
        click.echo(line)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        sys.exit(1)
    if not told:
        click.echo("Nothing is left changed.")


@commands.command("scorecard")
@click.option("--expect", is_flag=True, help="Make what the present scorecard says what is expected from now on.")
def scorecard_command(expect: bool) -> None:
    """Say what became of the sources' claims and numbers; fail where one that is expected to hold no longer does.

    A study that was run with other values than by default is not held against what is expected.
    """
    from iopatterns.base import files
    from iopatterns.judging import scorecard

    root = Path.cwd()
    if expect:
        with files.of_this_version(scorecard.FILE):
            written = scorecard.expect(root)
        for path in written:
            click.echo(f"{path.relative_to(root)}: written")
        return
    with files.of_this_version(scorecard.FILE):
        overview, broken = scorecard.overview(root), scorecard.regressions(root)
        others, studies = scorecard.not_judged(root), scorecard.load(root)["studies"]
    click.echo("\n".join(filter(None, (overview, *others))))
    if broken:
        click.echo("Expected to hold, and no longer does:\n" + "\n".join(f"  {line}" for line in broken))
        sys.exit(1)
    if len(others) < len(studies):
        click.echo(f"Everything {'else ' if others else ''}that is expected to hold does.")


@commands.command("bench")
@click.option("--drive", required=True, help="The name of a drive in config/, or of a model in data/twins.")
@click.option("--rw", "rw", required=True, help="Workloads, such as randread,randwrite.")
@click.option("--bs", "bs", required=True, help="Block sizes, such as 4k,64k.")
@click.option("--iodepth", help="I/O depths, such as 1,8,32.")
@click.option("--numjobs", help="Numbers of jobs, such as 1,4.")
@click.option("--repetitions", type=click.IntRange(1, 9999), help="Executions of each cell, in place of config.yaml's.")
@click.option("--runtime", help="How long fio measures in each, such as 10s, in place of config.yaml's.")
@click.option("--file-size", help="How much of the drive is used, such as 8GiB, in place of config.yaml's.")
@click.argument("options", nargs=-1, metavar="[OPTION=LEVELS]...")
def bench_command(drive: str, options: tuple[str, ...], **given: str | int | None) -> None:
    """Measure a drive at all combinations of some levels, with no file to write; show a table and draw figures.

    Each OPTION=LEVELS is a factor besides, such as thinktime=1ms,5ms or DRA=0,1: `iopatterns factors` lists them. A
    drive is checked and kept from harm as in any study.
    """
    from iopatterns.configuration import kinds
    from iopatterns.lab.bench import Bench, Request

    _require_host(kinds.host_of(_entry(drive)))
    values = {name: given.pop(name) for name in ("repetitions", "runtime", "file_size")}
    levels = {name: str(text) for name, text in given.items() if text is not None}
    for option in options:
        name, equals, text = option.partition("=")
        if not (equals and text):
            raise click.BadParameter(f"'{printable(option)}' is no OPTION=LEVELS, such as thinktime=1ms,5ms.")
        levels[name] = text
    request = Request(
        drive,
        {name: [level.strip() for level in text.split(",")] for name, text in levels.items()},
        {name: value for name, value in values.items() if value is not None},
    )
    bench = Bench.lay_out(Path.cwd(), request)
    with _job("bench", None, die_with_parent=False):
        bench.measure()
    click.echo(bench.tell())


@commands.command("compare")
@click.argument("first")
@click.argument("second")
@click.option("--of", default="bandwidth", show_default=True, help="The quantity, such as iops, latency or 'clat p99'.")
@click.option("--confidence", default=0.95, show_default=True, type=click.FloatRange(0.5, 0.999), help="Of intervals.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for table and figures, by default results/compare/FIRST-SECOND.",
)
def compare_command(first: str, second: str, of: str, confidence: float, output: Path | None) -> None:
    """Compare two drives of the results here, two levels of a factor, or two folders: which differences are told apart.

    A level is such as DRA=0 or iodepth=8. A folder is that of another run, with another configuration or version of
    fio, or of `iopatterns bench`. Points are those that both have measured.
    """
    from iopatterns.analysis import plots, tables
    from iopatterns.lab import comparison

    compared = comparison.Comparison(*comparison.sides(Path.cwd(), first, second), of, confidence)
    points = compared.points()
    output = output or Path("results/compare") / f"{Path(first).name}-{Path(second).name}"
    table = compared.table(points)
    tables.write_table(table, output / of.replace(" ", "-"))
    for name, figure in compared.figures():
        plots.save(figure, output / f"{name}-{of.replace(' ', '-')}")
    click.echo(
        f"{tables.to_text(table)}\n{compared.told(points)}\n{output}: the table, and a figure of each experiment"
    )


@commands.command("spread")
@click.argument("drives", nargs=-1, required=True)
@click.option("--of", default="bandwidth", show_default=True, help="The quantity, such as iops, latency or 'clat p99'.")
@click.option("--confidence", default=0.95, show_default=True, type=click.FloatRange(0.5, 0.999), help="Of intervals.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results/spread"),
    show_default=True,
    help="The folder for table and figures.",
)
def spread_command(drives: tuple[str, ...], of: str, confidence: float, output: Path) -> None:
    """Say how much DRIVES of the results here differ, beside how much the executions on one of them do.

    They are best of one model: many drives of a lab, or one drive of each student, out of archives.
    """
    from iopatterns.analysis import plots, tables
    from iopatterns.lab.spread import Spread

    spread = Spread.of_drives(Path.cwd(), drives, of, confidence)
    points = spread.points()
    table = spread.table(points)
    tables.write_table(table, output / of.replace(" ", "-"))
    for name, figure in spread.figures(points):
        plots.save(figure, output / f"{name}-{of.replace(' ', '-')}")
    click.echo(f"{tables.to_text(table)}\n{spread.told(points)}\n{output}: the table, and a figure of each experiment")


@commands.command("study")
@click.argument("name")
def study_command(name: str) -> None:
    """Begin a study of that NAME: write a notebook and a section of the report that work with any grid."""
    from iopatterns.workflow import skeleton

    for path in skeleton.write(Path.cwd(), name):
        click.echo(f"{path}: written")
    click.echo(skeleton.what_else(name))


@commands.command("factors")
def factors_command() -> None:
    """Say which fio options and which settings of a drive a study may use, and which levels they have."""
    from iopatterns.configuration.factors import FACTORS, OPTIONS, SETTINGS, names

    for title, roles in (("fio options", OPTIONS), ("settings of the drive", SETTINGS)):
        click.echo(f"{title}:")
        for name in names(*roles):
            factor = FACTORS[name]
            click.echo(f"  {factor.name}: {factor.hint}")
            if factor.about:
                click.echo(f"      {factor.about}")


_TRACE_FILES = click.argument(
    "paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False)
)


def _reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of how a trace of calls is read."""
    options = (
        click.option("--name", default="", help="What the trace is to be called; by default as its first file."),
        click.option(
            "--only", default="*", metavar="PATTERN", help="Only calls on files that fit, such as '/scratch/*'."
        ),
        click.option("--clocks", type=click.Path(path_type=Path, dir_okay=False), help="LANL-Trace's file of timings."),
        click.option("--adapter", default="", metavar="FILE.py:CLASS", help="Read another form with a class of yours."),
        click.option("--skip-bad", is_flag=True, help="Leave out faulty lines, and count them."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def _trace(paths: Sequence[Path], given: Mapping[str, Any]) -> Iterator["Trace"]:
    """Give the trace in some files, and say at the end what was left out of it."""
    from iopatterns import calls
    from iopatterns.base import messages

    skipped = calls.Skipped() if given["skip_bad"] else None
    notes = calls.Notes(skipped)
    options = {name: given[name] for name in ("name", "only", "clocks", "adapter")}
    yield calls.open_trace(paths, notes=notes, **options)
    if skipped is not None and skipped.count:
        messages.say("\n".join([f"{skipped.count} faulty lines were left out. The first:", *skipped.first]))
    if notes.left_out:
        messages.say(
            f"{notes.left_out} reads and writes on no file that was seen to be opened, as pipes, were left out."
        )


@commands.group("calls")
def calls_commands() -> None:
    """Traces of system calls: what programs read and write, to be looked at and replayed.

    A trace is the text of `strace -f -ttt -T`, that of LANL-Trace (a file for each rank), a log of Darshan with DXT
    records, I/O logs of fio (one for each process), or Parquet made of one of these by `iopatterns calls convert`.
    docs/application-traces.md goes through it.
    """


@calls_commands.command("show")
@_TRACE_FILES
@_reading
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for figures: sizes of requests, and a map of accesses.",
)
def calls_show(paths: tuple[Path, ...], figures: Path | None, **given: object) -> None:
    """Say what the calls in FILE... look like: patterns, read/write ratio, sizes of requests."""
    from iopatterns.analysis import applications, plots, tables

    with _trace(paths, given) as trace:
        seen = applications.characterise(trace)
        click.echo(tables.to_text(applications.characteristics_table(applications.characteristics([seen]))))
        for direction, its in seen.directions.items():
            if its.requests:
                sizes = applications.size_distribution([seen], direction)
                shares = sizes[sizes["requests"] > 0]
                told = [
                    f"{bucket} KB {share:.1%}" for bucket, share in zip(shares["bucket"], shares["share"], strict=True)
                ]
                click.echo(f"{direction} requests by size, up to: {', '.join(told)}")
                if figures is not None:
                    plots.save(applications.size_figure(sizes, direction), figures / f"{direction}-sizes")
        if figures is not None:
            plots.save(applications.access_map(trace), figures / "access-map")
            click.echo(f"{figures}: the figures")


@calls_commands.command("convert")
@_TRACE_FILES
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@_reading
def calls_convert(paths: tuple[Path, ...], output: Path, **given: object) -> None:
    """Write the calls in FILE... to OUTPUT, a Parquet file, in one form whatever theirs is."""
    from iopatterns import calls

    with _trace(paths, given) as trace:
        done = calls.convert(trace, output, paths)
        click.echo(
            f"{output}: {done.name} ({done.origin}), {done.calls} calls of {done.processes} processes in"
            f" {done.duration_ns / 1e9:.3f} s, from the form '{done.form}'"
        )


@calls_commands.command("stand-in")
@click.argument("workload")
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
def calls_stand_in(workload: str, output: Path) -> None:
    """Write the stand-in for a WORKLOAD of Park and Shen (2009), such as Sandia-cth, to OUTPUT, a Parquet file."""
    from iopatterns import calls
    from iopatterns.calls.stand_ins import stand_in

    done = calls.convert(stand_in(workload), output)
    click.echo(f"{output}: {done.name} ({done.origin}), {done.calls} calls of {done.processes} processes")


@calls_commands.command("logs")
@_TRACE_FILES
@click.option(
    "--to", "folder", required=True, type=click.Path(path_type=Path, file_okay=False), help="A new folder for the logs."
)
@_reading
@click.option("--process", "processes", multiple=True, type=int, help="Only this process; may be given several times.")
@click.option(
    "--timed", is_flag=True, help="Have fio wait for the times of the calls; else one follows another at once."
)
@click.option("--drive", is_flag=True, help="To be replayed on a bare drive, which stands for all files.")
def calls_logs(
    paths: tuple[Path, ...], folder: Path, processes: tuple[int, ...], timed: bool, drive: bool, **given: object
) -> None:
    """Make logs of the calls in FILE..., one for each process, which fio replays by the job file beside them.

    The files that they read and write are made in the new folder too, as large as they must be. With --drive the job
    file is for `twin run`: all goes to the simulated drive.
    """
    from iopatterns.calls import replaying

    with _trace(paths, given) as trace:
        job_file = replaying.lay_out(trace, folder, processes=processes or None, timed=timed, drive=drive)
        click.echo(f"{job_file}: replay it with `{'twin run MODEL -- ' if drive else ''}fio {job_file}`")


@commands.command("manifest")
@click.option("--write", is_flag=True, help="Make the present results what the committed manifest says.")
def manifest_command(write: bool) -> None:
    """Say whether the results are, byte for byte, those of the committed manifest in data/manifests."""
    from iopatterns.measuring import fio
    from iopatterns.workflow import manifest

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
        error.show(told := io.StringIO())
        print(bounded(told.getvalue().rstrip()), file=sys.stderr)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except IoPatternsError as error:
        print(bounded(str(error)), file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        print(bounded(_of_the_system(error)), file=sys.stderr)
        sys.exit(1)
