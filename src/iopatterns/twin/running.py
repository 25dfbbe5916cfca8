"""Run programs on a simulated drive (`twin run`).

`twin run` must take little longer than the program itself. So this module imports only what each run needs, and reads
a model only if its file has changed since the state folder was made.
"""

import os
import sys

from iopatterns.base import subprocess_env
from iopatterns.twin import state

TYPE_CHECKING = False  # importing `typing` takes longer than all other imports here
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any, NoReturn

USAGE = """\
Usage: twin run [OPTIONS] MODEL -- COMMAND…

Run a program, such as fio, sdparm or sg3-utils, on a simulated drive in virtual time. `{drive}` in the command is
replaced with the path of the drive; the environment variable TWIN_DRIVE holds the same path.

  MODEL                   name of a model (`twin list`), or path of a model file
  --state DIR             folder for the settings of the drive (default: a folder of the model in your home)
  --keep-data             keep written data in DIR/content, for verification by fio; otherwise reads return zeros
  --set GROUP.NAME=VALUE  value of a parameter, which overrides the model; may be given several times
  --counters FILE         file for counters of the drive over time (.parquet or .csv)
  --interval TIME         virtual time between two snapshots of the counters (default: 100 ms)
  --interval-bytes SIZE   written bytes between two snapshots (default: no limit)

For fio the options --thread=1 and --clocksource=clock_gettime are added if they are missing.
"""

_OPTIONS = ("help", "keep-data", "state=", "set=", "counters=", "interval=", "interval-bytes=")


def main(arguments: "list[str]") -> "NoReturn":
    """Run the command `twin run`, and end the process.

    The process exits with the status of the program.
    """
    options, settings, model, command = _parse(arguments)
    counters = options.get("--counters")
    try:
        environment = prepare_environment(
            model,
            options.get("--state"),
            keep_data="--keep-data" in options,
            settings=settings,
            counters=counters,
            interval=options.get("--interval"),
            interval_bytes=options.get("--interval-bytes"),
        )
        command = command_on_drive(command, environment)
    except Exception as error:
        status = getattr(error, "exit_status", None)
        if status is None and not isinstance(error, OSError):
            raise
        _fail(str(error), status or 1)
    if counters is not None:
        sys.exit(_run_and_convert(command, environment, counters))
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", 2)


def _usage_error(problem: str) -> "NoReturn":
    _fail(f"{problem}.\nTry 'twin run --help' for help.", 2)


def _fail(text: str, exit_status: int) -> "NoReturn":
    print(f"twin: error: {text}", file=sys.stderr)  # in the form of base.command_line, which takes long to import
    sys.exit(exit_status)


def _parse(arguments: "list[str]") -> "tuple[dict[str, str], list[str], str, list[str]]":
    """Return the options, the values of --set, the model and the command.

    If they are not valid, the process ends.
    """
    import getopt  # click takes long to import

    separator = arguments.index("--") if "--" in arguments else len(arguments)
    rest, command = arguments[:separator], arguments[separator + 1 :]
    pairs: list[tuple[str, str]] = []
    models: list[str] = []
    try:
        while rest:  # not gnu_getopt(), which obeys POSIXLY_CORRECT
            found, rest = getopt.getopt(rest, "h", _OPTIONS)
            pairs += found
            models += rest[:1]
            rest = rest[1:]
    except getopt.GetoptError as error:
        _usage_error(str(error))
    options = dict(pairs)
    if "-h" in options or "--help" in options:
        print(USAGE, end="")
        sys.exit(0)
    for name, value in pairs:
        if not value and name != "--keep-data":
            _usage_error(f"option {name} requires a value")
    if len(models) != 1:
        _usage_error(f"requires one MODEL, not {' and '.join(models)}" if models else "requires a MODEL")
    if not command:
        _usage_error("requires a command after --")
    return options, [value for name, value in pairs if name == "--set"], models[0], command


def prepare_environment(
    model: str,
    folder: str | None = None,
    *,
    keep_data: bool = False,
    settings: "Sequence[str]" = (),
    counters: str | None = None,
    interval: str | None = None,
    interval_bytes: str | None = None,
) -> dict[str, str]:
    """Prepare a state folder; return the environment for programs.

    Args:
        model: Name of a model, or path of a model file.
        folder: The state folder; by default a folder of the model in the user's home.
        keep_data: Whether to keep written data. Reads return zeros otherwise.
        settings: Parameters that differ from the model, as ``group.name=value``.
        counters: File for the drive's counters; its ending selects the format.
        interval: Virtual time between two snapshots of the counters, such as ``10 ms``.
        interval_bytes: Bytes written between two snapshots, such as ``64 MiB``.

    Raises:
        TwinError: An argument or the model file is not valid.
    """
    path = state.model_file_path(model)
    folder = os.path.abspath(folder or state.default_state_folder(path))  # noqa: PTH100
    library = state.preload_library()
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    text_file = _model_text_file(folder, settings)
    _update_model_text(path, settings, library, text_file)
    environment = subprocess_env.child_environment()
    for name in [name for name in environment if name.startswith("TWIN_")]:
        del environment[name]
    _preload(library, environment)
    environment["TWIN_DRIVE"] = f"/dev/twin-{state.model_name(path)}"
    environment["TWIN_MODEL"] = text_file
    environment["TWIN_STATE"] = folder
    if keep_data:
        environment["TWIN_KEEP_DATA"] = os.path.join(folder, "content")  # noqa: PTH118
    if counters is not None:
        from iopatterns.twin.counters import counter_variables

        environment["TWIN_COUNTERS"] = os.path.join(folder, f"counters-{os.getpid()}.bin")  # noqa: PTH118
        environment |= counter_variables(counters, interval, interval_bytes)
    return environment


def _preload(library: str, environment: dict[str, str]) -> None:
    """Set the variables that make programs load a library before all others.

    LD_PRELOAD separates paths at blanks and colons and has no escapes. So a path with blanks is given as a bare name in
    LD_PRELOAD and as a folder in LD_LIBRARY_PATH, which separates at colons and semicolons. See ld.so(8).

    Raises:
        TwinError: The path contains a colon or a semicolon.
    """
    folder, name = os.path.split(library)
    if ":" in library or ";" in library:
        from iopatterns.twin.error import TwinError

        raise TwinError(
            f"{library}: the dynamic loader cannot load this library, because its path contains a colon or a"
            " semicolon. Move or rename the folder that contains .venv."
        )
    if any(character.isspace() for character in library):
        others = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{folder}:{others}" if others else folder
        library = name
    others = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = f"{library}:{others}" if others else library


def _model_text_file(folder: str, settings: "Sequence[str]") -> str:
    """Return the path of the model's text in a state folder.

    Each combination of settings has a path of its own. So concurrent runs with different settings do not overwrite each
    other's text.
    """
    if not settings:
        return os.path.join(folder, "model")  # noqa: PTH118
    from zlib import crc32

    return os.path.join(folder, f"model-{crc32(chr(10).join(settings).encode()):08x}")  # noqa: PTH118


def _update_model_text(path: str, settings: "Sequence[str]", library: str, text_file: str) -> None:
    """Write the model's text for the simulated drive, unless it is up to date.

    The text is up to date if it was made from the same model file, settings and library.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        content = b""  # load_model() reports the problem
    source = f"{os.stat(library).st_mtime_ns}\n{chr(10).join(settings)}\n".encode() + content
    source_file = f"{text_file}.source"
    if content and _is_current(text_file, source_file, source):
        return
    import fcntl
    from pathlib import Path

    from iopatterns.base import files
    from iopatterns.twin import models

    model = models.load_model(path).overridden(settings)
    folder = os.open(os.path.dirname(text_file), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another run may write the same files
        if not _is_current(text_file, source_file, source):
            Path(source_file).unlink(missing_ok=True)
            files.write_atomically(Path(text_file), lambda temporary: temporary.write_text(model.text))
            files.write_atomically(Path(source_file), lambda temporary: temporary.write_bytes(source))
    finally:
        os.close(folder)


def _is_current(text_file: str, source_file: str, source: bytes) -> bool:
    """Return whether the model's text exists and was made from ``source``."""
    try:
        with open(source_file, "rb") as file:
            return file.read() == source and os.path.exists(text_file)  # noqa: PTH110
    except OSError:
        return False


def command_on_drive(command: "Sequence[str]", environment: "Mapping[str, str]") -> list[str]:
    """Return a command with the path of the drive, and with fio's options.

    For fio, the options that virtual time requires are added.

    Args:
        command: Program and arguments.
        environment: The environment that `prepare_environment` returned.

    Raises:
        TwinError: fio is to do something that a simulated drive does not support.
    """
    drive = environment["TWIN_DRIVE"]
    words = [word.replace("{drive}", drive) for word in command]
    if os.path.basename(words[0]) != "fio":  # noqa: PTH119
        return words
    from iopatterns.twin.fio_command_line import FioCommandLine

    fio = FioCommandLine(words[1:], environment)
    fio.check(drive, keep_data="TWIN_KEEP_DATA" in environment)
    added = []
    # a job file may contain the option for one of its jobs only
    if not any(word.lstrip("-").partition("=")[0] == "thread" for word in words):
        added.append("--thread=1")
    if "clocksource" not in fio.options:
        added.append("--clocksource=clock_gettime")
    return [words[0], *added, *words[1:]]


def _run_and_convert(command: "Sequence[str]", environment: "Mapping[str, str]", counters: str) -> int:
    """Run a command, write its counters as a table, and return its exit status."""
    import signal
    import subprocess
    from pathlib import Path

    from iopatterns.twin.counters import convert_counters

    binary = Path(environment["TWIN_COUNTERS"])
    binary.unlink(missing_ok=True)
    try:
        process = subprocess.Popen(list(command), env=dict(environment))
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", 2)
    # the program handles the signals; the terminal sends it SIGINT itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    status = process.wait()
    if binary.exists():
        try:
            convert_counters(binary, Path(counters))
        finally:
            binary.unlink()
    elif status == 0:
        print(f"twin: error: {counters} is not written: the program made no I/O on the drive", file=sys.stderr)
        return 1
    return status if status >= 0 else 128 - status


def run_on_twin(
    model: str,
    command: "Sequence[str]",
    *,
    state_folder: "Path | str | None" = None,
    keep_data: bool = False,
    settings: "Sequence[str]" = (),
    **options: "Any",
) -> "subprocess.CompletedProcess[Any]":
    """Run a program on a simulated drive; return the result of `subprocess.run`.

    Args:
        model: Name of a model, or path of a model file.
        command: Program and arguments; ``{drive}`` stands for the path of the drive.
        state_folder: Folder for the settings of the drive; by default a folder of the model in the user's home.
        keep_data: Whether to keep written data. Reads return zeros otherwise.
        settings: Parameters that differ from the model, as ``group.name=value``.
        **options: Arguments of `subprocess.run`.

    Raises:
        TwinError: The model is not valid, or the command asks fio for something that a simulated drive does not
            support.
    """
    import subprocess

    folder = None if state_folder is None else str(state_folder)
    environment = prepare_environment(model, folder, keep_data=keep_data, settings=settings)
    options.setdefault("check", False)
    return subprocess.run(command_on_drive(command, environment), env=environment, **options)  # noqa: PLW1510 - set above
