"""What a command line of fio asks for, by fio's own rules: refuses what would not be I/O on the simulated drive.

fio lays out its files, and deletes them, before its first job begins. So its options are read here before it starts:
those of its command line, of its job files, and of the logs that it is to replay. The preload library holds fio to the
drive as well, and does not depend on what is found here; but only here a message can name the job and its option.
It is read before every execution, and `twin run` must begin at once, so this module imports next to nothing.
"""

import os

from iopatterns.base import engines

TYPE_CHECKING = False  # importing it takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from io import BufferedReader

    from iopatterns.twin.error import TwinError

_NO_IO = "it makes no I/O on the drive"
_ENGINES = {
    "io_uring": "io_uring's requests do not pass through the program's calls",
    "io_uring_cmd": "io_uring's requests do not pass through the program's calls",
    "mmap": "accesses to mapped memory cannot be seen",
    "posixaio": "POSIX AIO's requests are made by threads of the C library",
    "splice": "the data do not pass through the program",
    "sg": "only settings go through SG_IO",
    "cpuio": "it keeps a processor busy and makes no I/O on the drive",
    "exec": "it runs another program and makes no I/O on the drive",
    "ftruncate": "a drive has the size it has",
    "falloc": "a drive has the size it has",
    "external": "what an engine of its own file does cannot be followed",
    **dict.fromkeys(("net", "netsplice", "rdma"), "it sends data over a network and makes no I/O on the drive"),
}

# fio's own options by their short form: those that take a value, and those that stand, or may stand, without one.
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
# What may stand without a value on the command line; each other option takes the next word.
_WITHOUT_VALUE = frozenset(pair[2:] for pair in _SHORT_WITHOUT_VALUE.split()) | {
    *("bs_unaligned", "blocksize_unaligned", "norandommap", "time_based", "verify_only", "exitall"),
    *("exitall_on_error", "stonewall", "wait_for_previous", "new_group", "thread", "group_reporting"),
    *("zero_buffers", "refill_buffers"),
}
# fio runs no job where one of these is given.
_WITHOUT_JOBS = frozenset({"version", "help", "cmdhelp", "enghelp", "showcmd", "parse-only", "crctest", "memcpytest"})

_ELSEWHERE = ("its jobs run in another process, which has no drive", "Run fio itself")
_TRIGGER = ("nothing from outside comes to pass in virtual time", "Leave it out")
_USER = ("the kernel knows one thread for all jobs, whose user cannot be changed for one", "Run twin run as that user")
_REFUSED = {
    **dict.fromkeys(("server", "server-internal", "client", "remote-config", "daemonize"), _ELSEWHERE),
    **dict.fromkeys(("trigger", "trigger-file", "trigger-timeout", "trigger-remote"), _TRIGGER),
    **dict.fromkeys(("uid", "gid"), _USER),
    "profile": ("the jobs that it stands for cannot be seen", "Give the jobs by their options"),
    **dict.fromkeys(("idle-prof", "gtod_cpu"), ("there are no processors in virtual time", "Leave it out")),
    "directory": ("fio puts it in front of each file's name, so that the file is not the drive", "Leave it out"),
    "opendir": ("fio makes its requests to all the files of that folder", "Leave it out, and give {drive} as the file"),
}
# How many requests a job submits at once, by two names.
_BATCHES = ("iodepth_batch", "iodepth_batch_submit")
# The options of jobs that decide on their files, and whether they can be served.
_READ = frozenset(_REFUSED) | {
    *("name", "filename", "ioengine", "mem", "iomem", "read_iolog", "replay_redirect", "thread", "clocksource"),
    *("verify", "section", "io_submit_mode", *_BATCHES),
}
# Options of fio of which another's name is a longer form; everything else so short is an abbreviation.
_NO_ABBREVIATIONS = frozenset({"direct", "iodepth"})

# What an abbreviation may stand for, in an order that is always the same.
_MEANT = tuple(sorted(_READ | _WITHOUT_JOBS))
_KNOWN = _READ | _WITHOUT_VALUE | _WITHOUT_JOBS | _NO_ABBREVIATIONS

_MOST_BYTES = 2**20  # of a job file
_MOST_LINE = 4000  # fio cuts longer lines into pieces
_MOST_INCLUDED = 10


def _error(message: str) -> "TwinError":
    from iopatterns.twin.error import TwinError  # what it imports takes longer than all of this

    return TwinError(message)


class JobSection:
    """Options in their order: those of one job, or (without a name) those that all jobs after it have."""

    def __init__(self, name: str | None, place: str) -> None:
        self.name = name
        self.place = place
        self.options: list[tuple[str, str]] = []


class FioCommandLine:
    """All that a command line asks of fio."""

    def __init__(self, words: "Sequence[str]", environment: "Mapping[str, str]") -> None:
        """Read fio's arguments, its own name left out, and the job files among them. Raises TwinError.

        ``environment`` is the one in which fio will run: job files may name its variables.
        """
        self.sections = [JobSection(None, "the command line")]
        files = self._command_line(words)
        self.options = {option for section in self.sections for option, _ in section.options}
        self.runs_jobs = not self.options & _WITHOUT_JOBS
        if self.runs_jobs:
            only = [value for section in self.sections for option, value in section.options if option == "section"]
            for path in files:
                self.sections += _job_file(path, only, environment)
            self.options |= {option for section in self.sections for option, _ in section.options}

    def _command_line(self, words: "Sequence[str]") -> list[str]:
        """Take in the options as getopt_long_only() does; return the other words, which are job files."""
        files: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                files += rest
            elif len(word) < 2 or not word.startswith("-"):
                files.append(word)
            else:
                self._option(*_option_of(word, rest))
        return files

    def _option(self, option: str, value: str) -> None:
        if option == "name":
            self.sections.append(JobSection(None if value.startswith("global") else value, "the command line"))
        else:
            self.sections[-1].options.append((option, value))

    def check(self, drive: str, *, keep_data: bool) -> None:
        """Raise TwinError for a job whose I/O would not be on the drive at this path, or cannot be served."""
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
                for path in _listed(known["read_iolog"]):
                    _check_log(section, path, drive, redirected="replay_redirect" in known)
            elif "filename" not in known and section.name != drive:
                raise _error(
                    f"{_job(section)} has no file: fio would make one, named after the job, in the current folder, but"
                    " only the drive is simulated. Give {drive} as the file: --filename={drive}"
                )


def _shown(text: str) -> str:
    """Return a name as it may stand in a message: in one line, and not too long."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _job(section: JobSection) -> str:
    if section.name is None:
        return f"what {section.place} says for all jobs"
    return f"job '{_shown(section.name)}' ({section.place})"


def _foreign(section: JobSection, what: str) -> "TwinError":
    return _error(f"{_job(section)}: {what}, but only the drive is simulated. Give {{drive}} as the file.")


def _option_of(word: str, rest: "Iterator[str]") -> tuple[str, str]:
    """Return name and value of an option on the command line; takes its value from ``rest`` where it has none."""
    name, equals, value = word.lstrip("-").partition("=")
    if not word.startswith("--"):
        if len(word) == 2:
            name = _SHORT.get(word[1], word[1])
        elif name not in _READ and name not in _WITHOUT_VALUE and (not equals or name[0].isupper()):
            raise _error(f"'{_shown(word)}' may mean several things to fio. Write the option out, with two dashes.")
    if name not in _KNOWN:
        for longer in _MEANT:
            if longer.startswith(name):
                raise _error(f"'{_shown(word)}' may be short for --{longer}. Write the option out.")
    if equals or name in _WITHOUT_VALUE:
        return name, value
    value = next(rest, "")
    if value.startswith("-") and len(value) > 1:
        raise _error(f"fio takes '{_shown(value)}' for the value of {_shown(word)}. Write {_shown(word)}=VALUE.")
    return name, value


def _job_file(path: str, only: "Sequence[str]", environment: "Mapping[str, str]") -> list[JobSection]:
    """Return the sections of a job file. Raises TwinError for one that cannot be read as fio reads it."""
    sections: list[JobSection] = []
    options: list[tuple[str, str]] | None = None
    for line in _lines(path, 0):
        if line.startswith("["):
            name = line[1:-1]
            is_global = name.startswith("global")
            skipped = bool(only) and not is_global and name not in only
            section = JobSection(None if is_global else name, _shown(path))
            options = None if skipped else section.options
            if not skipped:
                sections.append(section)
        elif options is not None:
            option, _, value = _substituted(line, environment).partition("=")
            options.append((option.strip(), value.strip()))
    return sections


def _lines(path: str, depth: int) -> "Iterator[str]":
    """Yield what a job file holds, the files that it includes in their places."""
    if depth > _MOST_INCLUDED:
        raise _error(f"{_shown(path)}: job files include each other more than {_MOST_INCLUDED} deep.")
    with _open(path, "a job file") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _error(f"{_shown(path)}: larger than {_MOST_BYTES} bytes, so it cannot be a job file.")
    if b"\0" in content:
        raise _error(f"{_shown(path)}: no job file of fio: it holds a zero byte.")
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if len(raw) > _MOST_LINE:
            raise _error(f"{_shown(path)}, line {number}: longer than {_MOST_LINE} bytes, where fio may cut it.")
        line = os.fsdecode(raw).strip(" \t\n\r\v\f")
        if not line or line[0] in "#;":
            continue
        if line.startswith("include"):
            included = line[len("include") + 1 :]
            if not os.path.exists(included) and "/" in path:  # noqa: PTH110
                included = path[: path.rindex("/") + 1] + included
            for inner in _lines(included, depth + 1):
                if inner.startswith("["):
                    raise _error(f"{_shown(included)}: an included file may have no sections.")
                yield inner
        else:
            yield line


def _substituted(text: str, environment: "Mapping[str, str]") -> str:
    """Return an option of a job file with the environment's variables in it, as ``${NAME}`` asks for them."""
    done = ""
    while True:
        before, opening, rest = text.partition("${")
        name, closing, after = rest.partition("}")
        if not opening or not closing:
            return done + text
        done += before + environment.get(name, "")
        text = after


def _open(path: str, what: str) -> "BufferedReader":
    """Open a regular file. Raises TwinError for any other, on which opening or reading may never end."""
    import stat

    if path == "-":
        raise _error(f"{what} from the standard input cannot be checked before fio starts. Give it as a file.")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _error(f"{_shown(path)}: no regular file, so it cannot be {what}.")
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise _error(f"{_shown(path)}: {getattr(error, 'strerror', None) or error}. It is to be {what}.") from None


def _listed(value: str) -> list[str]:
    """Return the names in a list that fio takes apart at colons, except those with a backslash in front."""
    names = [""]
    for piece in value.strip().replace("\\:", "\0").split(":"):
        names.append(piece.replace("\0", ":"))
    return names[1:]


def _check_option(section: JobSection, option: str, value: str, drive: str, *, keep_data: bool) -> None:
    if option in _REFUSED:
        why, remedy = _REFUSED[option]
        raise _error(f"{option} cannot be served: {why}. {remedy}.")
    if option == "filename":
        for name in _listed(value):
            if name != drive:
                raise _foreign(section, f"its file is '{_shown(name)}'")
    elif option == "replay_redirect" and value != drive:
        raise _foreign(section, f"replay_redirect is '{_shown(value)}'")
    elif option in {"mem", "iomem"} and ":" in value:
        raise _error(f"{option}={_shown(value)} cannot be served: fio would write that file. Use {option}=mmap.")
    elif option == "ioengine":
        _check_engine(value)
    elif option == "thread" and value == "0":
        raise _error("thread=0 cannot be served: jobs share virtual time within one process. Use thread=1.")
    elif option == "clocksource" and value == "cpu":
        raise _error("clocksource=cpu cannot be served: it reads no clock of the system. Use clock_gettime.")
    elif option == "verify" and not keep_data:
        raise _error("verify cannot be served: what is written is not kept. Use `twin run --keep-data`.")


def _check_offload(section: JobSection, options: "Mapping[str, str]") -> None:
    """Raise TwinError where fio itself would never end.

    A worker of io_submit_mode=offload has one request at a time. With larger batches it never counts that one as sent
    (td_io_commit), but as returned, and waits until the number of requests in flight, now below zero, is zero.
    """
    for batch in _BATCHES:
        if options.get("io_submit_mode") == "offload" and options.get(batch, "1") != "1":
            raise _error(
                f"{_job(section)}: {batch}={_shown(options[batch])} with io_submit_mode=offload cannot be served: fio"
                f" then waits for ever, on any drive. Leave {batch} out, or io_submit_mode."
            )


def _check_engine(engine: str) -> None:
    if engine in engines.SIMULATED_ENGINES or engine.startswith(("linuxaio", "aio")):  # two names of libaio
        return
    why = _ENGINES.get(engine.partition(":")[0], _NO_IO)
    raise _error(f"ioengine={_shown(engine)} cannot be served: {why}. Use ioengine=libaio or psync.")


_LOG_HEADS = (b"fio version 2 iolog", b"fio version 3 iolog")


def _check_log(section: JobSection, path: str, drive: str, *, redirected: bool) -> None:
    """Raise TwinError for a log whose requests would not go to the drive."""
    if redirected and path == "-":
        return
    remedy = "Add --replay_redirect={drive}, and all its requests go to the drive."
    with _open(path, "a log to replay") as file:
        if redirected:
            return
        head = file.readline(_MOST_LINE)
        if not head.startswith(_LOG_HEADS):
            raise _error(f"{_shown(path)}: no log of fio (version 2, 3), so its files are not known. {remedy}")
        place = 1 if head.startswith(_LOG_HEADS[1]) else 0  # a time is in front
        for line in iter(lambda: file.readline(_MOST_LINE), b""):
            words = line.split(None, place + 1)
            if len(words) > place and words[place] != os.fsencode(drive):
                raise _error(
                    f"{_job(section)}: the log {_shown(path)} names the file"
                    f" '{_shown(os.fsdecode(words[place]))}', but only the drive is simulated. {remedy}"
                )
            if len(line) == _MOST_LINE:
                raise _error(f"{_shown(path)}: a line is longer than {_MOST_LINE} bytes, where fio may cut it.")
