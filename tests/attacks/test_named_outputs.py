"""No output that a user names replaces a file of the user, whatever the command.

The commands and their options are enumerated. An option with a path that this file does not know makes a test fail.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from measurements import describe_drive, measured, raw_files, twin_cell
from support import Project, copy_project, recorded_file
from twins import TWIN

from iopatterns import cli
from iopatterns.base import ownership
from iopatterns.base.errors import OutputError
from iopatterns.cli import iopatterns_command
from iopatterns.raw import archive
from iopatterns.twin import cli as twin_cli
from iopatterns.twin import running, state, traces
from iopatterns.twin.cli import twin_command

FIO = "fio --thread=1 --name=a --filename={{drive}} --size=64k --rw=write --bs=4k --direct=1"


class Output(NamedTuple):
    """How to call a command with an output.

    Attributes:
        words: The command line. ``{output}`` is the path of the output, ``{home}`` the folder of the user.
        name: File name that the output has; for a folder, names of files that the command writes there.
        inputs: Names of the files in the user's folder that the command reads and that could have the output's name.
        message: The message if the path is an existing file of the user.
    """

    words: str
    name: str
    inputs: tuple[str, ...] = ()
    message: str = "the file exists. Give another name, or add --overwrite."


LINUX = "twin linux --kernel {home}/kernel.csv"
OUTPUTS = {
    "iopatterns archive --output": Output("iopatterns archive twin --output {output}", "a.tar.xz"),
    "iopatterns calls convert OUTPUT": Output(
        "iopatterns calls convert {home}/calls.parquet {output}", "out.parquet", ("calls.parquet",)
    ),
    "iopatterns calls stand-in OUTPUT": Output("iopatterns calls stand-in Sandia-cth {output}", "out.parquet"),
    "iopatterns measure --log": Output(
        "iopatterns measure --specification {specification} --log {output} {home}/01.json", "log", ("01.json",)
    ),
    "iopatterns measure RAW_FILES": Output(
        "iopatterns measure --specification {specification} {output}", "{raw}", message="01.json: "
    ),
    "iopatterns study pack --output": Output("iopatterns study pack tiny --output {output}", "a.tar.xz"),
    "iopatterns unpack --log": Output(
        "iopatterns unpack --log {output} {home}/archive.tar.xz raw", "log", ("archive.tar.xz",)
    ),
    "twin fit --output": Output(
        "twin fit {home}/model.yaml {home}/points.csv --move link.rate --output {output}",
        "out.yaml",
        ("model.yaml", "points.csv"),
    ),
    "twin validate --output": Output(
        "twin validate {home}/model.yaml {home}/points.csv --output {output}",
        "out.svg",
        ("points.csv",),
    ),
    "twin linux --trace": Output(f"{LINUX} --trace {{output}} c400 -- true", "t.csv", ("kernel.csv",)),
    "twin linux --counters": Output(f"{LINUX} --counters {{output}} c400 -- true", "t.csv", ("kernel.csv",)),
    "twin linux --keep": Output(f"{LINUX} --keep {{output}} c400 -- true", "image", ("kernel.csv",)),
    "twin replay --output": Output(
        "twin replay c400 {home}/trace.csv --depth 1 --output {output}", "out.csv", ("trace.csv",)
    ),
    "twin replay --counters": Output(
        "twin replay c400 {home}/trace.csv --depth 1 --counters {output}", "out.csv", ("trace.csv",)
    ),
    "twin run --counters": Output(f"twin run --counters {{output}} c400 -- {FIO}", "out.csv"),
    "twin trace OUT": Output("twin trace {home}/trace.parquet {output}", "out.parquet", ("trace.parquet",)),
}
STATE = "model model.source model-1234abcd mode-pages content notes"
FOLDERS = {
    "iopatterns calls logs --to": Output("iopatterns calls logs {home}/calls.parquet --to {output}", "replay.fio"),
    "iopatterns calls show --figures": Output(
        "iopatterns calls show {home}/calls.parquet --figures {output}", "access-map.svg read-sizes.png"
    ),
    "iopatterns compare --output": Output(
        "iopatterns compare c400 ssdsc2kg480g7 --output {output}", "bandwidth.csv tiny-initial-bandwidth.svg"
    ),
    "iopatterns spread --output": Output("iopatterns spread c400 ssdsc2kg480g7 --output {output}", "bandwidth.csv"),
    "iopatterns unpack FOLDER": Output("iopatterns unpack {home}/archive.tar.xz {output}", "study notes"),
    "twin linux --state": Output(f"{LINUX} --state {{output}} c400 -- true", STATE),
    "twin power-cycle --state": Output("twin power-cycle c400 --state {output}", STATE),
    "twin reset --state": Output("twin reset c400 --state {output}", STATE),
    "twin run --state": Output(f"twin run --keep-data --state {{output}} c400 -- {FIO}", STATE),
}
# Paths that a command only reads, and why the others are no outputs
INPUTS = {
    "iopatterns calls convert --adapter": "read",
    "iopatterns calls convert PATHS": "read",
    "iopatterns calls logs --adapter": "read",
    "iopatterns calls logs PATHS": "read",
    "iopatterns calls show --adapter": "read",
    "iopatterns calls show PATHS": "read",
    "iopatterns manifest --results": "read",
    "iopatterns scorecard --results": "read",
    "iopatterns study add FILE": "read",
    "iopatterns summary --results": "read",
    "iopatterns unpack ARCHIVE_FILE": "read",
    "iopatterns verify --follow": "read",
    "iopatterns verify --results": "read",
    "twin fit PATHS": "read",
    "twin linux --folder": "an existing folder in which the user's own program writes",
    "twin linux --kernel": "read",
    "twin replay --adapter": "read",
    "twin replay TRACE": "read",
    "twin trace --adapter": "read",
    "twin trace TRACE": "read",
    "twin validate PATHS": "read",
}
_PATH_WORD = re.compile(r"\b(FILE|FOLDER|DIR|PATH|IMAGE|ARCHIVE)\b")


def named_paths() -> Iterator[str]:
    """Yield each option and argument of each command that is a path, after the words that call the command."""

    def of_command(words: str, command: click.Command) -> Iterator[str]:
        if isinstance(command, click.Group):
            for name, each in command.commands.items():
                yield from of_command(f"{words} {name}", each)
            return
        for parameter in command.params:
            shown = f"{parameter.metavar or ''}"
            if isinstance(parameter.type, (click.Path, click.File)) or _PATH_WORD.search(shown):
                is_option = isinstance(parameter, click.Option)
                yield f"{words} {parameter.opts[0] if is_option else (parameter.name or '').upper()}"

    yield from of_command("iopatterns", iopatterns_command)
    yield from of_command("twin", twin_command)
    # `twin run` does not use click; its help has the same words
    for option, word in re.findall(r"^  (--[\w-]+) (\S+)", running.USAGE, flags=re.MULTILINE):
        if _PATH_WORD.search(word):
            yield f"twin run {option}"


def normalised(name: str) -> str:
    """Return the key of an argument as the tables of this file have it: by its name in the help."""
    return name.replace("twin trace OUTPUT", "twin trace OUT")


def test_every_path_of_every_command_is_known() -> None:
    found = {normalised(name) for name in named_paths()}
    known = OUTPUTS.keys() | FOLDERS.keys() | INPUTS.keys()
    unknown = sorted(found - known)
    assert not unknown, (
        f"this test cannot call {', '.join(unknown)}. If the command writes to this path, let base.ownership create the"
        " output, and add a command line to OUTPUTS or FOLDERS. If the command only reads it, add it to INPUTS."
    )
    assert sorted(known - found) == []


def test_the_help_of_twin_run_lists_all_options() -> None:
    listed = re.findall(r"^  --([\w-]+)", running.USAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(name.rstrip("=") for name in running._OPTIONS if name != "help")


def test_the_option_overwrite_has_the_same_text_everywhere() -> None:
    def options(command: click.Command) -> Iterator[click.Parameter]:
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield from options(each)
        yield from command.params

    everything = [*options(iopatterns_command), *options(twin_command)]
    found = [each for each in everything if each.name == "overwrite"]
    texts = {each.help for each in found if isinstance(each, click.Option)}
    assert len(found) > 5
    assert len(texts) == 1
    (text,) = texts
    assert text is not None
    assert f"--overwrite             {text[0].lower()}{text[1:].rstrip('.')}\n" in running.USAGE


# ---- A user's folder


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Project:
    """Return a project with recorded results and a measured drive."""
    made = copy_project(module_disk_folder / "project")
    describe_drive(made.root, {"kind": "twin", "model": "px05smb040"}, "twin")
    results = made.root / "results/measurements"
    results.mkdir(parents=True)
    shutil.copy(recorded_file("tiny", "parquet"), results / "tiny.parquet")
    return made


@pytest.fixture(scope="module")
def inputs(module_disk_folder: Path) -> Path:
    """Return a folder with an input for each command."""
    folder = module_disk_folder / "inputs"
    folder.mkdir()
    (folder / "trace.csv").write_text("operation,offset_bytes,size_bytes,time_ns\nread,0,4096,0\nread,8192,4096,9\n")
    traces.convert_trace(folder / "trace.csv", folder / "trace.parquet")
    shutil.copy(Path(state.models_folder()) / "c400.yaml", folder / "model.yaml")
    (folder / "points.csv").write_text("id,rw,bs,iodepth,value,unit\na,randread,4k,1,8000,IOPS\n")
    (folder / "kernel.csv").touch()
    (folder / "01.json").write_text("{}")
    made = subprocess.run(
        [sys.executable, "-m", "iopatterns", "calls", "stand-in", "Sandia-cth", folder / "calls.parquet"], check=False
    )
    assert made.returncode == 0
    (raw,) = measured(module_disk_folder / "elsewhere", twin_cell())
    cell = f"{raw.parents[2].name}/{raw.parents[1].name}/{raw.parent.name}"
    archive.pack_archive(raw.parents[2], {cell: ["one"]}, folder / "archive.tar.xz")
    return folder


class Home:
    """The folder of a user, with a file that must not change and with the inputs of all commands."""

    def __init__(self, folder: Path, inputs: Path) -> None:
        self.folder = Path(shutil.copytree(inputs, folder / "home"))
        self.thesis = self.folder / "thesis"
        self.thesis.write_bytes(b"my thesis\n" * 10_000)

    def snapshot(self) -> dict[str, tuple[int, int, int, bytes]]:
        """Return kind, inode, time and content of everything in the folder, by path."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            at = path.lstat()
            is_file = path.is_file()  # the time of a folder changes with temporary files
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if is_file else b""
            found[str(path)] = (at.st_mode, at.st_ino, at.st_mtime_ns if is_file else 0, content)
        return found


@pytest.fixture
def home(tmp_path: Path, inputs: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Home(tmp_path, inputs)


Run = Callable[[str, Path, str], tuple[int, str]]


@pytest.fixture
def run(home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command line with an output, and returns its status and its error messages."""

    def call(words: str, output: Path, options: str) -> tuple[int, str]:
        specification = shlex.quote(json.dumps(twin_cell()))
        line = words.format(output=output, home=home.folder, specification=specification)
        program, name, *rest = shlex.split(line)
        arguments = [name, *shlex.split(options), *rest]
        if program == "iopatterns" and name in {"calls", "study"}:
            arguments = [name, rest[0], *shlex.split(options), *rest[1:]]
        capfd.readouterr()
        if name == "run":
            done = subprocess.run([*TWIN, *arguments], capture_output=True, text=True, timeout=60, check=False)
            return done.returncode, done.stderr
        monkeypatch.setattr("sys.argv", [program, *arguments])
        try:
            (cli if program == "iopatterns" else twin_cli).main()
        except SystemExit as ended:  # any other exception would be a traceback
            return int(ended.code or 0), capfd.readouterr().err
        return 0, capfd.readouterr().err

    return call


def output_path(home: Home, name: str) -> Path:
    """Return the path of an output in the user's folder. Raw files must have the path that fits their cell."""
    if name == "{raw}":
        (path,) = raw_files(home.folder, twin_cell())
        path.parent.mkdir(parents=True)
        return path
    return home.folder / name


def assert_refused(home: Home, done: tuple[int, str], before: object, message: str) -> None:
    status, printed = done
    assert status in {1, 2}, printed
    assert re.match(r"(iopatterns|twin): error: ", printed), printed
    assert printed.count("\n") == 1 or re.search(r"\nTry '.* --help' for help\.\n$", printed), printed
    assert message in printed, printed
    assert home.snapshot() == before


# ---- Files


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("kind", ["file", "symbolic link", "hard link", "folder"])
def test_a_file_of_the_user_is_not_replaced(kind: str, name: str, home: Home, run: Run) -> None:
    output = OUTPUTS[name]
    path = output_path(home, output.name)
    message = output.message
    if kind == "file":
        path.write_text("my notes\n")
    elif kind == "hard link":
        path.hardlink_to(home.thesis)
    elif kind == "folder":
        path.mkdir()
        message = path.name
    else:
        path.symlink_to(home.thesis)
        message = "a symbolic link" if output.message == Output("", "").message else path.name
    before = home.snapshot()
    assert_refused(home, run(output.words, path, ""), before, message)


@pytest.mark.slow
@pytest.mark.parametrize("case", [f"{name} {each}" for name, output in OUTPUTS.items() for each in output.inputs])
@pytest.mark.parametrize("kind", ["the input", "hard link", "symbolic link"])
@pytest.mark.parametrize("options", ["", "--overwrite"])
def test_an_input_is_never_an_output(options: str, kind: str, case: str, home: Home, run: Run) -> None:
    name, _, given = case.rpartition(" ")
    output = OUTPUTS[name]
    path, message = home.folder / given, "an input of this command"
    if kind == "hard link":
        path = home.folder / f"other{path.suffix}"
        path.hardlink_to(home.folder / given)
    elif kind == "symbolic link":
        path, message = home.folder / f"other{path.suffix}", "a symbolic link"
        path.symlink_to(home.folder / given)
    before = home.snapshot()
    assert_refused(home, run(output.words, path, options), before, message)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OUTPUTS if name.startswith("twin") and "linux" not in name])
def test_only_the_named_file_is_overwritten_on_request(name: str, home: Home, run: Run) -> None:
    output = OUTPUTS[name]
    path = home.folder / output.name
    path.hardlink_to(home.thesis)
    before = home.snapshot()
    words = f"{output.words} --most-error 1000 --most-point-error 1000" if "fit" in name else output.words
    status, printed = run(words, path, "--overwrite")
    assert status == 0, printed
    after = home.snapshot()
    assert before.pop(str(path)) != after.pop(str(path))
    assert after == before


# ---- Folders


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "inside"), [(name, inside) for name, output in FOLDERS.items() for inside in output.name.split()]
)
@pytest.mark.parametrize("kind", ["file", "symbolic link", "hard link", "linked folder"])
def test_a_folder_of_the_user_is_not_written(kind: str, name: str, inside: str, home: Home, run: Run) -> None:
    path = home.folder / "mine"
    folder = path if kind != "linked folder" else home.folder / "target"
    folder.mkdir()
    if kind == "symbolic link":
        (folder / inside).symlink_to(home.thesis)
    elif kind == "hard link":
        (folder / inside).hardlink_to(home.thesis)
    else:
        (folder / inside).write_text("my notes\n")
    if kind == "linked folder":
        path.symlink_to(folder)
    before = home.snapshot()
    message = "a symbolic link" if kind == "linked folder" else "Give a new or empty folder"
    assert_refused(home, run(FOLDERS[name].words, path, ""), before, message)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_file_is_not_taken_for_a_folder(name: str, home: Home, run: Run) -> None:
    before = home.snapshot()
    status, printed = run(FOLDERS[name].words, home.thesis, "")
    assert status in {1, 2}
    assert "thesis" in printed
    assert "Traceback" not in printed
    assert home.snapshot() == before


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_kept_data_are_not_written_through_a_link(link: str, home: Home, run: Run) -> None:
    folder = home.folder / "state"
    status, printed = run("twin run --state {output} c400 -- true", folder, "")
    assert status == 0, printed
    if link == "symbolic":
        (folder / "content").symlink_to(home.thesis)
    else:
        (folder / "content").hardlink_to(home.thesis)
    before = home.snapshot()
    status, printed = run(FOLDERS["twin run --state"].words, folder, "")
    assert status == 2
    assert f"{folder}/content: it " in printed
    after = home.snapshot()
    assert after == before


# ---- State folders


def test_a_link_to_a_state_folder_is_not_followed(home: Home, run: Run) -> None:
    status, printed = run("twin run --state {output} c400 -- true", home.folder / "state", "")
    assert status == 0, printed
    link = home.folder / "link"
    link.symlink_to(home.folder / "state")
    before = home.snapshot()
    assert_refused(home, run("twin run --state {output} c400 -- true", link, ""), before, "a symbolic link")


def test_an_empty_folder_becomes_a_state_folder(home: Home, run: Run) -> None:
    folder = home.folder / "state"
    folder.mkdir()
    for _ in range(2):
        status, printed = run("twin run --state {output} c400 -- true", folder, "")
        assert status == 0, printed
    assert ownership.is_own_folder(str(folder))
    assert run("twin reset c400 --state {output}", folder, "") == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("removed", [(), ("content",), ("model", "model.source"), ("mode-pages", "content")])
def test_a_state_folder_of_an_earlier_version_is_accepted(removed: tuple[str, ...], home: Home, run: Run) -> None:
    folder = home.folder / "state"
    for program in (FIO, "sdparm --clear=WCE {{drive}}"):
        status, printed = run(f"twin run --keep-data --state {{output}} c400 -- {program}", folder, "")
        assert status == 0, printed
    (folder / ownership.MARKER_FILE).unlink()
    (folder / "counters-123.bin").touch()  # of a killed run
    for name in removed:
        (folder / name).unlink()
    status, printed = run("twin run --state {output} c400 -- true", folder, "")
    assert status == 0, printed
    assert ownership.is_own_folder(str(folder))


@pytest.mark.parametrize("names", [("content",), ("model", "model.source"), ("mode-pages",)])
def test_files_of_the_user_with_our_names_are_not_taken_for_ours(names: tuple[str, ...], home: Home, run: Run) -> None:
    folder = home.folder / "state"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("kind of my own\n")
    before = home.snapshot()
    done = run("twin run --state {output} c400 -- true", folder, "")
    assert_refused(home, done, before, "Give a new or empty folder.")


def test_a_folder_whose_mark_was_not_written_is_marked_again(home: Home) -> None:
    folder = home.folder / "new"
    folder.mkdir()
    (folder / ownership.MARKER_FILE).touch()
    ownership.claim_folder(str(folder))
    assert ownership.is_own_folder(str(folder))


def test_many_first_runs_share_a_state_folder(home: Home) -> None:
    words = [*TWIN, "run", "--state", str(home.folder / "state"), "c400", "--", "true"]
    runs = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [each.communicate(timeout=120)[1] for each in runs] == [""] * 6


# ---- Complete or absent


def test_an_output_appears_only_when_it_is_complete(home: Home) -> None:
    path = home.folder / "new/out.txt"

    def fail() -> None:
        with ownership.OutputFile(path) as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(path.parent.iterdir()) == []
    with ownership.OutputFile(path) as temporary:
        temporary.write_text("all")
        assert not path.exists()
    assert [each.name for each in path.parent.iterdir()] == ["out.txt"]
    other = home.folder / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_appears_during_the_run_is_kept(overwrite: bool, home: Home) -> None:
    path = home.folder / "out.txt"

    def write() -> None:
        with ownership.OutputFile(path, overwrite=overwrite) as temporary:
            temporary.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(OutputError, match="during the run"):
        write()
    assert path.read_text() == "theirs"
