"""Run programs on a simulated drive (`twin run`).

`twin run` must take little longer than the program itself. So this module imports only what each run needs. It parses
the model file again only if the model, the settings or the preload library have changed since the last run.
"""

import os
import sys

from iopatterns.base import ownership, subprocess_env
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
  --overwrite             replace existing files that have the names of outputs
  --interval TIME         virtual time between two snapshots of the counters (default: 100 ms)
  --interval-bytes SIZE   written bytes between two snapshots (default: no limit)

For fio the options --thread=1 and --clocksource=clock_gettime are added if they are missing, for smartctl the option
-d with the type of the drive.
"""

_OPTIONS = ("help", "keep-data", "overwrite", "state=", "set=", "counters=", "interval=", "interval-bytes=")
_FLAGS = ("--keep-data", "--overwrite")
_SMARTCTL_TYPES = {"sata": "sat", "sas": "scsi", "nvme": "nvme"}  # by transport


def main(arguments: "list[str]") -> "NoReturn":
    """Run the command `twin run`, and end the process.

    `twin run` runs a program on a simulated drive. The process exits with the status of the program. It exits with 2
    for wrong usage, an invalid model or a program that cannot be started, and with 1 for other failures before the
    start.

    Args:
        arguments: Words after `twin run`: ``["px05smb040", "--", "fio", "job.fio"]``.
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
        if counters is not None:
            table = ownership.OutputFile(counters, inputs=[model], overwrite="--overwrite" in options)
            sys.exit(_run_and_convert(command, environment, table))
    except Exception as error:
        status = getattr(error, "exit_status", None)
        if isinstance(error, OSError):
            _fail(": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None), 1)
        if status is None:
            raise
        _fail(str(error), status)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", 2)


def _usage_error(problem: str) -> "NoReturn":
    _fail(f"{problem}.\nTry 'twin run --help' for help.", 2)


def _fail(text: str, exit_status: int) -> "NoReturn":
    # in the form of base.command_line, which takes long to import
    print(f"{state.ERROR_PREFIX}{text}", file=sys.stderr)
    sys.exit(exit_status)


def _parse(arguments: "list[str]") -> "tuple[dict[str, str], list[str], str, list[str]]":
    """Parse the command line of `twin run`.

    For ``--help`` the process prints the help and ends. For wrong usage it prints an error and exits with 2.

    Args:
        arguments: Words after `twin run`.

    Returns:
        Values of the options by name, such as ``--state``; the values of all ``--set`` options; the model; and the
            program with its arguments.
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
        if not value and name not in _FLAGS:
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
    """Prepare a simulated drive, and return the environment for its programs.

    A program that starts in this environment finds the drive at the path in the variable TWIN_DRIVE.

    Args:
        model: Name of a model of the drive, such as ``px05smb040``, or path of a model file.
        folder: State folder: the drive keeps its settings there from one run to the next. It is created if it is
            missing. None for a folder of the model in the user's home.
        keep_data: Whether to keep written data in the state folder. If not, reads return zeros.
        settings: Parameters that differ from the model, as ``group.name=value``: ``["flash.read_time=60us"]``.
        counters: File for a table of the drive's counters (statistics such as the bytes written) over time, .parquet or
            .csv. Here only its ending is checked; the caller converts the recorded file at TWIN_COUNTERS with
            `counters.convert_counters`. None to record no counters.
        interval: Simulated time between two records of the counters, such as ``10 ms``; None for 100 ms.
        interval_bytes: Written bytes between two records of the counters, such as ``64 MiB``; None to record by time
            only.

    Returns:
        All environment variables for a program that uses the drive, including those of this process.

    Raises:
        TwinError: An argument or the model file is not valid.
        OutputError: The state folder contains files that no simulated drive wrote.
        FileNotFoundError: The preload library, which connects a program to the drive, is not installed.
        OSError: A file in the state folder cannot be written.
    """
    path = state.model_file_path(model)
    folder = os.path.abspath(folder or state.default_state_folder(path))  # noqa: PTH100
    library = state.preload_library()
    state.claim_state_folder(folder)
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
    """Change an environment so that programs load a library before all others.

    LD_PRELOAD separates paths at spaces and colons and has no escapes. So a path with spaces is split: its file name
    goes to LD_PRELOAD and its folder to LD_LIBRARY_PATH. LD_LIBRARY_PATH separates folders at colons and semicolons.
    See ld.so(8).

    Args:
        library: Path of the library.
        environment: The environment, which is changed in place.

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
    """Return the path of the file with the parameters for the simulated drive.

    Each combination of settings has a file of its own in the state folder. So concurrent runs with different settings
    do not overwrite each other's parameters.

    Args:
        folder: The state folder.
        settings: Parameters that differ from the model, as ``group.name=value``.
    """
    if not settings:
        return os.path.join(folder, "model")  # noqa: PTH118
    from zlib import crc32

    return os.path.join(folder, f"model-{crc32(chr(10).join(settings).encode()):08x}")  # noqa: PTH118


def _update_model_text(path: str, settings: "Sequence[str]", library: str, text_file: str) -> None:
    """Write the parameters for the simulated drive, unless the file is current.

    The file is current if it was made from the same content of the model file, the same settings and the same library.

    Args:
        path: Path of the model file (YAML).
        settings: Parameters that differ from the model, as ``group.name=value``.
        library: Path of the preload library.
        text_file: The file to write, with lines of ``key value``.

    Raises:
        TwinError: The model file or a setting is not valid.
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
    """Return whether the parameters' file exists and was made from ``source``.

    Args:
        text_file: File with the parameters for the simulated drive.
        source_file: File that records from what ``text_file`` was made.
        source: What ``text_file`` would be made from now.
    """
    try:
        with open(source_file, "rb") as file:
            return file.read() == source and os.path.exists(text_file)  # noqa: PTH110
    except OSError:
        return False


def command_on_drive(command: "Sequence[str]", environment: "Mapping[str, str]") -> list[str]:
    """Return a command in the form in which it runs on a simulated drive.

    ``{drive}`` in the words of the command is replaced with the path of the drive. If the program is fio, its options
    and job files are checked. Two options that virtual time requires are added to fio's command if they are not given:
    ``--thread=1`` and ``--clocksource=clock_gettime``. For smartctl, which knows the type of a drive by its name in
    /dev, the option ``-d`` is added.

    A statically linked program is refused if its arguments name the drive: it would find no drive, and its clocks would
    be those of the host. It may start other programs on the drive.

    Args:
        command: Program and arguments: ``["fio", "--filename={drive}", "job.fio"]``.
        environment: The environment that `prepare_environment` returned.

    Raises:
        TwinError: fio would access a file other than the drive, or use a feature that a simulated drive does not
            support. Or an option of fio is ambiguous, or a job file cannot be read. Or the program is statically
            linked.
    """
    drive = environment["TWIN_DRIVE"]
    words = [word.replace("{drive}", drive) for word in command]
    if any(drive in word for word in words) and _is_static(words[0], environment):
        from iopatterns.twin.error import TwinError

        raise TwinError(
            f"{words[0]} is statically linked, so it cannot use a simulated drive, whose library the dynamic loader"
            " loads. Use a dynamically linked build."
        )
    program = os.path.basename(words[0])  # noqa: PTH119
    if program == "smartctl" and not any(word.startswith(("-d", "--device")) for word in words):
        return [words[0], "-d", _SMARTCTL_TYPES[_transport(environment["TWIN_MODEL"])], *words[1:]]
    if program != "fio":
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


def _is_static(program: str, environment: "Mapping[str, str]") -> bool:
    """Return whether a program is statically linked: an ELF file of 64 bits that names no dynamic loader."""
    for folder in [""] if os.sep in program else os.get_exec_path(environment):
        try:
            with open(os.path.join(folder, program), "rb") as file:  # noqa: PTH118
                header = file.read(64)
                if not header.startswith(b"\x7fELF\x02"):  # such as a script
                    return False
                start, size, count = (
                    int.from_bytes(header[begin:end], sys.byteorder) for begin, end in ((32, 40), (54, 56), (56, 58))
                )
                file.seek(start)
                entries = [file.read(size) for _ in range(count)]
        except OSError:
            continue
        interpreter = (3).to_bytes(4, sys.byteorder)  # the type of the entry with the path of the dynamic loader
        return not any(entry.startswith(interpreter) for entry in entries)
    return False


def _transport(text_file: str) -> str:
    """Return the transport of a drive: ``sata``, ``sas`` or ``nvme``.

    Args:
        text_file: File with the parameters for the simulated drive, with lines of ``key value``.
    """
    with open(text_file, encoding="utf-8") as file:
        return next(line.split()[1] for line in file if line.startswith("identity.transport "))


def _run_and_convert(command: "Sequence[str]", environment: "Mapping[str, str]", counters: ownership.OutputFile) -> int:
    """Run a command, write the drive's counters as a table; return an exit status.

    Args:
        command: Program and arguments.
        environment: The environment that `prepare_environment` returned.
        counters: File for the table, .parquet or .csv.

    Returns:
        The exit status of the program, or 128 + N if signal N ended it. It is 1 if the program succeeded but made no
            I/O on the drive, so that there are no counters.
    """
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
            with counters as temporary:
                convert_counters(binary, temporary)
        finally:
            binary.unlink()
    elif status == 0:
        message = f"{counters.path} is not written: the program made no I/O on the drive"
        print(f"{state.ERROR_PREFIX}{message}", file=sys.stderr)
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
    """Run a program on a simulated drive; return the completed process.

    The program finds the drive at the path in the environment variable TWIN_DRIVE. Its clocks show simulated time.

    Args:
        model: Name of a model of the drive, such as ``px05smb040``, or path of a model file.
        command: Program and arguments; ``{drive}`` in them stands for the path of the drive.
        state_folder: Folder where the drive keeps its settings from one run to the next; None for a folder of the model
            in the user's home.
        keep_data: Whether to keep written data in the state folder. If not, reads return zeros.
        settings: Parameters that differ from the model, as ``group.name=value``: ``["flash.read_time=60us"]``.
        **options: Arguments of `subprocess.run`, such as ``capture_output``; not ``env``.

    Returns:
        The result of `subprocess.run`. A failure of the program raises an error only with ``check=True``.

    Raises:
        TwinError: The model or a setting is not valid. Or fio would access a file other than the drive, or use a
            feature that a simulated drive does not support.
        OutputError: The state folder contains files that no simulated drive wrote.
        FileNotFoundError: The program, or the library that connects it to the drive, is not installed.
    """
    import subprocess

    folder = None if state_folder is None else str(state_folder)
    environment = prepare_environment(model, folder, keep_data=keep_data, settings=settings)
    options.setdefault("check", False)
    return subprocess.run(command_on_drive(command, environment), env=environment, **options)  # noqa: PLW1510 - set above
