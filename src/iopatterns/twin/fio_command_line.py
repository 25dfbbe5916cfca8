"""Check that all I/O of fio goes to the simulated drive.

The check covers the command line, the job files and the logs that fio is to replay. It is made before fio starts,
because fio creates and deletes files before its first job begins. The preload library, which redirects fio's system
calls to the simulated drive, also refuses other files. But only this check can name the job and the option in its
message.

`twin run` must start fast, so this module imports only what each run needs.
"""

import os

from iopatterns.base import engines

TYPE_CHECKING = False  # importing `typing` takes longer than all other imports here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from io import BufferedReader

    from iopatterns.twin.error import TwinError

_NO_IO = "it makes no I/O on the drive"
_ENGINES = {
    **dict.fromkeys(("io_uring", "io_uring_cmd"), "io_uring submits requests without calls that can be intercepted"),
    "mmap": "accesses to mapped memory cannot be intercepted",
    "posixaio": "threads of the C library make the requests of POSIX AIO",
    "splice": "the data do not pass through the program",
    "sg": "SG_IO on a simulated drive supports settings only",
    "cpuio": "it keeps a processor busy and makes no I/O on the drive",
    "exec": "it runs another program and makes no I/O on the drive",
    **dict.fromkeys(("ftruncate", "falloc"), "the size of a drive cannot change"),
    "external": "the I/O of an external engine cannot be checked",
    **dict.fromkeys(("net", "netsplice", "rdma"), "it sends data over a network and makes no I/O on the drive"),
}

# Short forms of fio's options that require a value, and of options without or with an optional value
_SHORT_WITH_VALUE = (
    "o=output l=latency-log F=output-format e=eta O=eta-interval E=eta-newline d=debug x=section X=inflate-log"
    " a=alloc-size p=profile j=max-jobs V=terse-version N=server-internal D=daemonize C=client R=remote-config"
    " I=idle-prof L=status-interval W=trigger-file B=trigger-timeout H=trigger J=trigger-remote K=aux-path"
)
_SHORT_WITHOUT_VALUE = (
    "b=bandwidth-log f=append-terse c=cmdhelp i=enghelp S=server G=crctest M=memcpytest m=minimal v=version h=help"
    " s=showcmd r=readonly P=parse-only w=warnings-fatal T=cpuclock-test A=merge-blktrace-only"
)
_SHORT = dict(pair.split("=") for pair in f"{_SHORT_WITH_VALUE} {_SHORT_WITHOUT_VALUE}".split())
# Options that may have no value on the command line; all others take the next word as their value
_WITHOUT_VALUE = frozenset(pair[2:] for pair in _SHORT_WITHOUT_VALUE.split()) | {
    *("bs_unaligned", "blocksize_unaligned", "norandommap", "time_based", "verify_only", "exitall"),
    *("exitall_on_error", "stonewall", "wait_for_previous", "new_group", "thread", "group_reporting"),
    *("zero_buffers", "refill_buffers"),
}
# Options with which fio runs no job
_WITHOUT_JOBS = frozenset({"version", "help", "cmdhelp", "enghelp", "showcmd", "parse-only", "crctest", "memcpytest"})

# Reasons and remedies of options that are refused
_ELSEWHERE = ("the jobs run in another process, which has no simulated drive", "Run fio itself")
_TRIGGER = ("events from outside do not occur in virtual time", "Leave it out")
_USER = ("all jobs share one thread of the kernel, and so one user", "Run `twin run` as that user")
_REFUSED = {
    **dict.fromkeys(("server", "server-internal", "client", "remote-config", "daemonize"), _ELSEWHERE),
    **dict.fromkeys(("trigger", "trigger-file", "trigger-timeout", "trigger-remote"), _TRIGGER),
    **dict.fromkeys(("uid", "gid"), _USER),
    "profile": ("the jobs of a profile cannot be checked", "Define the jobs by their options"),
    **dict.fromkeys(("idle-prof", "gtod_cpu"), ("virtual time has no processors", "Leave it out")),
    "directory": ("fio prepends it to the name of each file, so that the file is not the drive", "Leave it out"),
    "opendir": ("fio accesses all files of that folder", "Leave it out, and give {drive} as the file"),
}
# Two names of the option that sets how many requests a job submits at once
_BATCHES = ("iodepth_batch", "iodepth_batch_submit")
# All options that this module checks
_CHECKED = frozenset(_REFUSED) | {
    *("name", "filename", "ioengine", "mem", "iomem", "read_iolog", "replay_redirect", "thread", "clocksource"),
    *("verify", "section", "io_submit_mode", *_BATCHES),
}
# Options whose names are also prefixes of other options, but are not abbreviations
_NO_ABBREVIATIONS = frozenset({"direct", "iodepth"})

# Options that an abbreviation may mean; sorted so that messages do not depend on the order of a set
_ABBREVIATED = tuple(sorted(_CHECKED | _WITHOUT_JOBS))
_KNOWN = _CHECKED | _WITHOUT_VALUE | _WITHOUT_JOBS | _NO_ABBREVIATIONS

_MAX_JOB_FILE_BYTES = 2**20
_MAX_LINE_BYTES = 4000  # fio splits longer lines
_MAX_INCLUDE_DEPTH = 10


def _error(message: str) -> "TwinError":
    from iopatterns.twin.error import TwinError  # its imports take longer than all other imports here

    return TwinError(message)


class JobSection:
    """Section of a fio job file, or the options of one job on fio's command line.

    Attributes:
        name: Name of the job; None if the options are for all following jobs (``[global]``).
        place: Where the section was given: path of the job file, or ``the command line``.
        options: Name and value of each option, in order: ``[("rw", "randread"), ("bs", "4k")]``. The value is empty if
            the option has none.
    """

    def __init__(self, name: str | None, place: str) -> None:
        self.name = name
        self.place = place
        self.options: list[tuple[str, str]] = []


class FioCommandLine:
    """Parsed command line of fio, including its job files.

    Attributes:
        sections: The sections in the order in which they were given. The first section is not a job: it has the options
            of the command line before the first ``--name``.
        options: Names of all given options, on the command line and in job files, without dashes.
        runs_jobs: Whether fio will run jobs; False for options such as ``--version``.
    """

    def __init__(self, words: "Sequence[str]", environment: "Mapping[str, str]") -> None:
        """Parse the command line of fio, and read its job files.

        Job files are not read if fio will run no job, as with ``--version``.

        Args:
            words: The arguments of fio, without the program's name: ``["--name=a", "--rw=read"]``.
            environment: Environment in which fio will run. Its variables replace ``${NAME}`` in job files.

        Raises:
            TwinError: An option is ambiguous, or a job file cannot be read.
        """
        self.sections = [JobSection(None, "the command line")]
        files = self._parse_words(words)
        self.options = {option for section in self.sections for option, _ in section.options}
        self.runs_jobs = not self.options & _WITHOUT_JOBS
        if self.runs_jobs:
            only = [value for section in self.sections for option, value in section.options if option == "section"]
            for path in files:
                self.sections += _read_job_file(path, only, environment)
            self.options |= {option for section in self.sections for option, _ in section.options}

    def _parse_words(self, words: "Sequence[str]") -> list[str]:
        """Parse the options on the command line; return the paths of the job files.

        The options are added to `sections`. They are parsed as by getopt_long_only(), which fio uses.
        """
        files: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                files += rest
            elif len(word) < 2 or not word.startswith("-"):
                files.append(word)
            else:
                option, value = _split_option(word, rest)
                if option == "name":
                    name = None if value.startswith("global") else value
                    self.sections.append(JobSection(name, "the command line"))
                else:
                    self.sections[-1].options.append((option, value))
        return files

    def check(self, drive: str, *, keep_data: bool) -> None:
        """Raise TwinError if a job of fio cannot run on the simulated drive.

        Such a job accesses a file other than the drive, or has an option that a simulated drive does not support. The
        logs that fio is to replay are checked too. Nothing is checked if fio will run no job.

        Args:
            drive: Path of the simulated drive, such as ``/dev/twin-px05smb040``.
            keep_data: Whether the drive keeps written data. Without kept data, fio's option ``verify`` is an error.
        """
        if not self.runs_jobs:
            return
        inherited: dict[str, str] = {}
        for section in self.sections:
            known = inherited if section.name is None else dict(inherited)
            for option, value in section.options:
                _check_option(section, option, value, drive, keep_data=keep_data)
                known[option] = value
            if section.name is None:
                continue
            _check_offload(section, known)
            if "read_iolog" in known:
                for path in _split_list(known["read_iolog"]):
                    _check_log(section, path, drive, redirected="replay_redirect" in known)
            elif "filename" not in known and section.name != drive:
                raise _error(
                    f"{_job(section)} has no file: fio would create one, named after the job, in the current folder,"
                    " but only the drive is simulated. Give {drive} as the file: --filename={drive}"
                )


def _printable(text: str) -> str:
    """Return a text for a message, with at most 200 printable characters.

    Other characters become ``?``; the rest of a longer text becomes ``…``.
    """
    # base.messages.printable does the same, but takes long to import
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _job(section: JobSection) -> str:
    """Return the name and the place of a section in words, for messages."""
    if section.name is None:
        return f"the options of {section.place} for all jobs"
    return f"job '{_printable(section.name)}' ({section.place})"


def _foreign_file_error(section: JobSection, problem: str) -> "TwinError":
    return _error(f"{_job(section)}: {problem}, but only the drive is simulated. Give {{drive}} as the file.")


def _split_option(word: str, rest: "Iterator[str]") -> tuple[str, str]:
    """Return the name and the value of an option on the command line.

    Short forms become full names. The value is empty if the option has none.

    Args:
        word: The option, such as ``--rw=read`` or ``--rw``.
        rest: The following words. A value that is not in the word itself is taken from here.

    Raises:
        TwinError: The option is ambiguous, or its value begins with a dash.
    """
    name, equals, value = word.lstrip("-").partition("=")
    if not word.startswith("--"):
        if len(word) == 2:
            name = _SHORT.get(word[1], word[1])
        elif name not in _CHECKED and name not in _WITHOUT_VALUE and (not equals or name[0].isupper()):
            raise _error(f"option '{_printable(word)}' is ambiguous. Write it out with two dashes.")
    if name not in _KNOWN:
        for longer in _ABBREVIATED:
            if longer.startswith(name):
                raise _error(f"option '{_printable(word)}' may be short for --{longer}. Write it out.")
    if equals or name in _WITHOUT_VALUE:
        return name, value
    value = next(rest, "")
    if value.startswith("-") and len(value) > 1:
        raise _error(
            f"fio uses '{_printable(value)}' as the value of {_printable(word)}. Write {_printable(word)}=VALUE."
        )
    return name, value


def _read_job_file(path: str, only: "Sequence[str]", environment: "Mapping[str, str]") -> list[JobSection]:
    """Return the sections of a job file.

    Args:
        path: The job file.
        only: Names of the jobs that fio will run (option ``section``); empty for all. Sections of other jobs are left
            out.
        environment: Environment in which fio will run. Its variables replace ``${NAME}``.

    Raises:
        TwinError: The file cannot be read, or is such that fio may read it differently from this function.
    """
    sections: list[JobSection] = []
    options: list[tuple[str, str]] | None = None
    for line in _job_file_lines(path, 0):
        if line.startswith("["):
            name = line[1:-1]
            is_global = name.startswith("global")
            skipped = bool(only) and not is_global and name not in only
            section = JobSection(None if is_global else name, _printable(path))
            options = None if skipped else section.options
            if not skipped:
                sections.append(section)
        elif options is not None:
            option, _, value = _substitute_variables(line, environment).partition("=")
            options.append((option.strip(), value.strip()))
    return sections


def _job_file_lines(path: str, depth: int) -> "Iterator[str]":
    """Yield the lines of a job file and of the files that it includes.

    Blank lines and comments are skipped, and spaces at both ends of a line are removed.

    Args:
        path: The file.
        depth: Number of files that led to this one by ``include``; 0 for the job file itself.

    Raises:
        TwinError: A file cannot be read or is not a job file, or includes are nested too deeply.
    """
    if depth > _MAX_INCLUDE_DEPTH:
        raise _error(f"{_printable(path)}: job files include each other to a depth of more than {_MAX_INCLUDE_DEPTH}.")
    with _open(path, "a job file") as file:
        content = file.read(_MAX_JOB_FILE_BYTES + 1)
    if len(content) > _MAX_JOB_FILE_BYTES:
        raise _error(f"{_printable(path)}: not a job file: it is larger than {_MAX_JOB_FILE_BYTES} bytes.")
    if b"\0" in content:
        raise _error(f"{_printable(path)}: not a job file: it contains a zero byte.")
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if len(raw) > _MAX_LINE_BYTES:
            raise _error(
                f"{_printable(path)}, line {number}: longer than {_MAX_LINE_BYTES} bytes, which fio may split."
            )
        line = os.fsdecode(raw).strip(" \t\n\r\v\f")
        if not line or line[0] in "#;":
            continue
        if line.startswith("include"):
            included = line[len("include") + 1 :]
            if not os.path.exists(included) and "/" in path:  # noqa: PTH110
                included = path[: path.rindex("/") + 1] + included
            for inner in _job_file_lines(included, depth + 1):
                if inner.startswith("["):
                    raise _error(f"{_printable(included)}: an included file must not contain sections.")
                yield inner
        else:
            yield line


def _substitute_variables(text: str, environment: "Mapping[str, str]") -> str:
    """Return a text with each ``${NAME}`` replaced by the variable's value.

    A variable that is not in the environment becomes an empty text.
    """
    done = ""
    while True:
        before, opening, rest = text.partition("${")
        name, closing, after = rest.partition("}")
        if not opening or not closing:
            return done + text
        done += before + environment.get(name, "")
        text = after


def _open(path: str, what: str) -> "BufferedReader":
    """Open a regular file for reading.

    Args:
        path: The file.
        what: Role of the file in messages, such as ``a job file``.

    Raises:
        TwinError: The file cannot be opened, or is a pipe or a device, from which reading may never end.
    """
    import stat

    if path == "-":
        raise _error(f"{what} from the standard input cannot be checked before fio starts. Give it as a file.")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _error(f"{_printable(path)}: not a regular file, so it cannot be {what}.")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise _error(f"{_printable(path)}: cannot open {what}: {getattr(error, 'strerror', None) or error}.") from None


def _split_list(value: str) -> list[str]:
    r"""Return the file names in a value that fio splits at colons.

    ``\:`` in the value is a colon that belongs to a name.
    """
    names = [""]
    for piece in value.strip().replace("\\:", "\0").split(":"):
        names.append(piece.replace("\0", ":"))
    return names[1:]


def _check_option(section: JobSection, option: str, value: str, drive: str, *, keep_data: bool) -> None:
    """Raise TwinError if an option is not supported, or names another file.

    Args:
        section: The section with the option, for messages.
        option: Name of the option.
        value: Value of the option.
        drive: Path of the simulated drive, the only file that jobs may access.
        keep_data: Whether the drive keeps written data. fio can verify only kept data.
    """
    if option in _REFUSED:
        why, remedy = _REFUSED[option]
        raise _error(f"{option} is not supported: {why}. {remedy}.")
    if option == "filename":
        for name in _split_list(value):
            if name != drive:
                raise _foreign_file_error(section, f"its file is '{_printable(name)}'")
    elif option == "replay_redirect" and value != drive:
        raise _foreign_file_error(section, f"replay_redirect is '{_printable(value)}'")
    elif option in {"mem", "iomem"} and ":" in value:
        raise _error(f"{option}={_printable(value)} is not supported: fio would write that file. Use {option}=mmap.")
    elif option == "ioengine":
        _check_engine(value)
    elif option == "thread" and value == "0":
        raise _error("thread=0 is not supported: jobs must share virtual time in one process. Use thread=1.")
    elif option == "clocksource" and value == "cpu":
        raise _error("clocksource=cpu is not supported: it does not read virtual time. Use clock_gettime.")
    elif option == "verify" and not keep_data:
        raise _error("verify is not supported without kept data. Use `twin run --keep-data`.")


def _check_offload(section: JobSection, options: "Mapping[str, str]") -> None:
    """Raise TwinError if a job submits batches with io_submit_mode=offload.

    With these options fio never ends, on any drive. In this mode each worker thread of fio has one request at a time.
    With batches of several requests fio counts a request as returned but not as sent (td_io_commit in its source). It
    then waits until the number of requests in flight is zero, but that number is negative.

    Args:
        section: The job, for messages.
        options: All options of the job, including those for all jobs.
    """
    for batch in _BATCHES:
        if options.get("io_submit_mode") == "offload" and options.get(batch, "1") != "1":
            raise _error(
                f"{_job(section)}: {batch}={_printable(options[batch])} with io_submit_mode=offload is not supported:"
                f" fio then never ends, on any drive. Leave {batch} out, or io_submit_mode."
            )


def _check_engine(engine: str) -> None:
    """Raise TwinError if the requests of an I/O engine cannot reach the drive.

    Args:
        engine: Value of fio's option ioengine.
    """
    if engine in engines.SIMULATED_ENGINES or engine.startswith(("linuxaio", "aio")):  # two names of libaio
        return
    why = _ENGINES.get(engine.partition(":")[0], _NO_IO)
    raise _error(f"ioengine={_printable(engine)} is not supported: {why}. Use ioengine=libaio or psync.")


_LOG_HEADERS = (b"fio version 2 iolog", b"fio version 3 iolog")


def _check_log(section: JobSection, path: str, drive: str, *, redirected: bool) -> None:
    """Raise TwinError if an I/O log contains requests to other files.

    Args:
        section: The job that replays the log.
        path: Path of the log.
        drive: Path of the simulated drive, the only file that jobs may access.
        redirected: Whether fio's option replay_redirect sends all requests of the log to the drive. File names in the
            log then have no effect.
    """
    if redirected and path == "-":
        return
    remedy = "Add --replay_redirect={drive}, which sends all its requests to the drive."
    with _open(path, "a log to replay") as file:
        if redirected:
            return
        header = file.readline(_MAX_LINE_BYTES)
        if not header.startswith(_LOG_HEADERS):
            raise _error(
                f"{_printable(path)}: not an I/O log of fio (version 2 or 3), so its files are unknown. {remedy}"
            )
        place = 1 if header.startswith(_LOG_HEADERS[1]) else 0  # version 3 begins lines with a time
        for line in iter(lambda: file.readline(_MAX_LINE_BYTES), b""):
            words = line.split(None, place + 1)
            if len(words) > place and words[place] != os.fsencode(drive):
                raise _error(
                    f"{_job(section)}: the log {_printable(path)} contains the file"
                    f" '{_printable(os.fsdecode(words[place]))}', but only the drive is simulated. {remedy}"
                )
            if len(line) == _MAX_LINE_BYTES:
                raise _error(f"{_printable(path)}: a line is longer than {_MAX_LINE_BYTES} bytes, which fio may split.")
