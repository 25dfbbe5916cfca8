"""Runs a program on a twin: makes its environment, and says at once what cannot be served.

`twin run` takes little longer than fio itself, so this module imports next to nothing, and reads a model only when its
file has changed since the twin's folder was made.
"""

import os
import sys

from iopatterns.base import subprocess_env
from iopatterns.twin import state

TYPE_CHECKING = False  # importing it takes longer than all else here
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
  --set GROUP.NAME=VALUE  value of a parameter in place of that of the model; may be given several times
  --counters FILE         file for counters of the drive over time (.parquet or .csv)
  --interval TIME         virtual time between two snapshots of the counters (default: 100 ms)
  --interval-bytes SIZE   written bytes between two snapshots (default: no limit)

For fio the options --thread=1 and --clocksource=clock_gettime are added if they are missing.
"""

_VALUED = ("--state", "--set", "--counters", "--interval", "--interval-bytes")


def main(arguments: "list[str]") -> "NoReturn":
    """Run `twin run` with these arguments; ends the process."""
    options, model, command = _parse(arguments)
    try:
        environment = prepare_environment(
            model,
            options.get("--state"),
            keep_data="--keep-data" in options,
            settings=options.get("--set", []),
            counters=options.get("--counters"),
            interval=options.get("--interval"),
            interval_bytes=options.get("--interval-bytes"),
        )
        command = command_on_drive(command, environment)
    except Exception as error:
        _end(error)
    if "--counters" in options:
        sys.exit(_run_and_convert(command, environment, options["--counters"]))
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", 2)


def _end(error: Exception) -> "NoReturn":
    """End with the message of an error that is the user's to mend; raise any other."""
    status = getattr(error, "exit_status", None)
    if status is None and not isinstance(error, OSError):
        raise error
    _fail(str(error), status or 1)


def _usage(problem: str) -> "NoReturn":
    _fail(f"{problem}.\nTry 'twin run --help' for help.", 2)


def _fail(text: str, exit_status: int) -> "NoReturn":
    print(f"twin: error: {text}", file=sys.stderr)  # as `base.command_line`, which takes long to import
    sys.exit(exit_status)


def _parse(arguments: "list[str]") -> "tuple[dict[str, Any], str, list[str]]":  # noqa: PLR0912 - in place of click
    """Return options, model and command."""
    if "--" in arguments:
        place = arguments.index("--")
        own, command = arguments[:place], arguments[place + 1 :]
    else:
        own, command = arguments, []
    if "-h" in own or "--help" in own:
        print(USAGE, end="")
        sys.exit(0)
    options: dict[str, Any] = {}
    models = []
    rest = iter(own)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--keep-data" and not equals:
            options[name] = True
        elif name in _VALUED:
            if not equals:
                value = next(rest, "")
            if not value:
                _usage(f"{name} needs a value")
            if name == "--set":
                options.setdefault(name, []).append(value)
            else:
                options[name] = value
        elif word.startswith("-"):
            _usage(f"no option {word}")
        else:
            models.append(word)
    if len(models) != 1:
        _usage("needs one MODEL, then -- and the command" if not models else f"one MODEL, not {' and '.join(models)}")
    if not command:
        _usage("needs a command after --")
    return options, models[0], command


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
    """Make a twin's folder ready, and return the environment in which programs run on it. Raises TwinError."""
    path = state.model_file_path(model)
    folder = os.path.abspath(folder or state.default_state_folder(path))  # noqa: PTH100
    library = state.preload_library()
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    text = _resolved_file(folder, settings)
    _resolve(path, settings, library, text)
    environment = subprocess_env.child_environment()
    for name in [name for name in environment if name.startswith("TWIN_")]:
        del environment[name]
    _load_first(library, environment)
    environment["TWIN_DRIVE"] = f"/dev/twin-{state.model_name(path)}"
    environment["TWIN_MODEL"] = text
    environment["TWIN_STATE"] = folder
    if keep_data:
        environment["TWIN_KEEP_DATA"] = os.path.join(folder, "content")  # noqa: PTH118
    if counters is not None:
        from iopatterns.twin import counters as recorded

        environment["TWIN_COUNTERS"] = os.path.join(folder, f"counters-{os.getpid()}.bin")  # noqa: PTH118
        environment |= recorded.counter_variables(counters, interval, interval_bytes)
    return environment


def _load_first(library: str, environment: dict[str, str]) -> None:
    """Have programs load the library before all others (ld.so(8)). Raises TwinError where its path cannot be named.

    A list of libraries to preload ends a path at a blank or a colon, and knows no escapes. A list of folders ends one
    at a colon or a semicolon alone, and the library's bare name is looked for in these.
    """
    folder, name = os.path.split(library)
    if ":" in library or ";" in library:
        from iopatterns.twin.error import TwinError

        raise TwinError(
            f"{library}: programs cannot be run on a twin with this library, for the system's loader takes no path with"
            " a colon or a semicolon. Move or rename the folder in which .venv lies."
        )
    if any(character.isspace() for character in library):
        others = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{folder}:{others}" if others else folder
        library = name
    before = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = f"{library}:{before}" if before else library


def _resolved_file(folder: str, settings: "Sequence[str]") -> str:
    """Return where the text for the simulated drive goes: other settings, another file.

    So runs at the same time, each with settings of its own, do not get one another's drive.
    """
    if not settings:
        return os.path.join(folder, "model")  # noqa: PTH118
    from zlib import crc32

    return os.path.join(folder, f"model-{crc32(chr(10).join(settings).encode()):08x}")  # noqa: PTH118


def _resolve(path: str, settings: "Sequence[str]", library: str, text: str) -> None:
    """Write what the simulated drive reads, unless it was made of the same file, settings and library."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        content = b""  # load() says what is wrong
    made_of = f"{os.stat(library).st_mtime_ns}\n{chr(10).join(settings)}\n".encode() + content
    source = f"{text}.source"
    if content and _is_made_of(text, source, made_of):
        return
    import fcntl
    from pathlib import Path

    from iopatterns.base import files
    from iopatterns.twin import models

    model = models.load_model(path)
    if settings:
        model = model.overridden(settings)
    folder = os.open(os.path.dirname(text), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another run may write the same files
        if not _is_made_of(text, source, made_of):
            Path(source).unlink(missing_ok=True)
            files.write_atomically(Path(text), lambda temporary: temporary.write_text(model.text))
            files.write_atomically(Path(source), lambda temporary: temporary.write_bytes(made_of))
    finally:
        os.close(folder)


def _is_made_of(text: str, source: str, made_of: bytes) -> bool:
    """Tell whether the text is there and was made of these bytes."""
    try:
        with open(source, "rb") as file:
            return file.read() == made_of and os.path.exists(text)  # noqa: PTH110
    except OSError:
        return False


def command_on_drive(command: "Sequence[str]", environment: "Mapping[str, str]") -> list[str]:
    """Return the command with the drive's path in it, and for fio the options that virtual time needs.

    Raises TwinError for what fio would be asked to do and cannot be served.
    """
    drive = environment["TWIN_DRIVE"]
    words = [word.replace("{drive}", drive) for word in command]
    if os.path.basename(words[0]) != "fio":  # noqa: PTH119
        return words
    from iopatterns.twin.fio_request import FioCommandLine

    request = FioCommandLine(words[1:], environment)
    request.check(drive, keep_data="TWIN_KEEP_DATA" in environment)
    added = []
    # a job file may say it for one of its jobs only
    if not any(word.lstrip("-").partition("=")[0] == "thread" for word in words):
        added.append("--thread=1")
    if "clocksource" not in request.options:
        added.append("--clocksource=clock_gettime")
    return [words[0], *added, *words[1:]]


def _run_and_convert(command: "Sequence[str]", environment: "Mapping[str, str]", counters: str) -> int:
    """Run the command, turn its records into a table, and return its exit status."""
    import signal
    import subprocess
    from pathlib import Path

    from iopatterns.twin import counters as recorded

    binary = Path(environment["TWIN_COUNTERS"])
    binary.unlink(missing_ok=True)
    try:
        process = subprocess.Popen(list(command), env=dict(environment))
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", 2)
    for number in (signal.SIGINT, signal.SIGTERM):  # the program's to answer
        signal.signal(number, lambda number, _: process.send_signal(number) if number == signal.SIGTERM else None)
    status = process.wait()
    if binary.exists():
        try:
            recorded.convert_counters(binary, Path(counters))
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
    """Run a program on a twin from Python, and return what `subprocess.run` returns, which takes ``options``.

    ``model`` is a name or a path; ``{drive}`` in the command is the drive's path. Raises TwinError for a bad model and
    for what cannot be served and shows in the command.
    """
    import subprocess

    folder = None if state_folder is None else str(state_folder)
    environment = prepare_environment(model, folder, keep_data=keep_data, settings=settings)
    options.setdefault("check", False)
    return subprocess.run(command_on_drive(command, environment), env=environment, **options)  # noqa: PLW1510 - just set
