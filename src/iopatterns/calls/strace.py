"""Read traces of system calls by strace(1), as ``strace -f -ttt -T`` prints them."""

import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from iopatterns.base.compressed import plain_name
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.calls.form import CALL_KINDS, UNKNOWN, CallTraceFile
from iopatterns.calls.positions import CLOSE_RANGE, EXECUTE, EXIT, FORK, Event

_PROCESS = r"(?:\[pid\s+(\d{1,10})(?:<[^>]*>)?\]|(\d{1,10})(?:<[^>]*>)?(?=\s))"
# Process, spaces, and time. Then -r adds the time since the previous call, -n the number of the call, -i an address.
_LINE = re.compile(
    rf"{_PROCESS}?(\s*)(\d{{1,12}})\.(\d{{1,9}})\s+(?:\(\+\s*[\d.]+\)\s+)?(?:\[\s*[0-9a-f?]+\]\s+)*(.*)$"
)
_OTHER_TIMES = re.compile(
    rf"{_PROCESS}?\s*(?:\d\d:\d\d:\d\d(?:\.\d+)?\s|\+?\s*\d\.\d+\s|\d{{9,12}}\s+[a-z]|[a-z_0-9]+\()"
)
# Messages of strace, stack traces (-k), and the summary (-C)
_NOTICE = re.compile(r"strace: |\[ Process PID=| > |% time |-{5}|\s*\d+\.\d\d\s+\d+\.\d{6}\s")
# With its output on standard error, strace prints this message within the line of the call that it is printing
_ATTACHED = re.compile(r"(.*?)strace: Process (\d+) attached\s*$")
_EPOCH_S = 10**8  # later than any time since the start of a program, earlier than any recording
_RESUMED = re.compile(r"<\.\.\. ([A-Za-z_0-9]+) resumed>\s?(.*)$")
_UNFINISHED = re.compile(r"\s*<(?:unfinished|detached) \.\.\.>$")
_NAME = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\((.*)$")
# The text after the arguments: the result (with -y its file), the name of an error, and with -T the duration
_RESULT = re.compile(
    r"(.*)\)\s+= (-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?:<(.*?)>)?(?:\(deleted\))?(?: (E[A-Z0-9]+|[A-Z][A-Z0-9_]+)?[^<]*)?"
    r"(?:\s*<(\d{1,9})\.(\d{1,9})>)?\s*$"
)
_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?:<(.*?)>)?(?:\(deleted\))?(?:,|$|\s)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))")
_ESCAPED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "b": 8, "e": 27}
_FLAG = re.compile(r"O_[A-Z]+")
_FORKS = frozenset({"fork", "vfork", "clone", "clone3"})
_EXITS = frozenset({"exit", "exit_group"})
_EXECUTES = frozenset({"execve", "execveat"})
_FCNTLS = frozenset({"fcntl", "fcntl64"})
# Position of the offset among the arguments, from the end
_OFFSET_ARGUMENT = {"pread64": 1, "pwrite64": 1, "preadv": 1, "pwritev": 1, "preadv2": 2, "pwritev2": 2}
# Names that some kernels, machines and versions of strace have for recorded calls
_OTHER_NAMES = {"ftruncate64": "ftruncate", "openat2": "openat", "pread": "pread64", "pwrite": "pwrite64"}
# A descriptor with its file, and an offset: NULL, or a pointer to the offset before (and after) the call
_FD = r"(-?\d{1,10})(?:<([^>]*)>)?(?:\(deleted\))?"
_AT = r"(?:NULL|\[(-?\d+)(?: => -?\d+)?\](?: => \[-?\d+\])?)"
# Calls that read from one descriptor and write to another, with the groups of source, its offset, target, its offset
_BETWEEN = re.compile(rf"{_FD}, {_AT}, {_FD}, {_AT}, ")
_SENDFILE = re.compile(rf"{_FD}, {_FD}, {_AT}, ")
_SUBMIT = "io_submit"
_COPIES = {"copy_file_range": _BETWEEN, "splice": _BETWEEN, "sendfile": _SENDFILE, "sendfile64": _SENDFILE}
# A request in the arguments of io_submit: its operation, descriptor and file, in the words of strace 4 and 5
_REQUEST = re.compile(
    rf"\b(?:IOCB_CMD_)?(PREAD|PWRITE|FSYNC|FDSYNC)V?, (?:[a-z_]+[=:][^,]*, )*?(?:aio_)?file?des[=:]{_FD}", re.I
)
_REQUEST_CALLS = {"PREAD": "pread64", "PWRITE": "pwrite64", "FSYNC": "fsync", "FDSYNC": "fdatasync"}
_REQUEST_SIZE = re.compile(r"nbytes[=:](\d{1,19})")
_VECTOR_SIZE = re.compile(r"iov_len=(\d{1,19})")
_REQUEST_OFFSET = re.compile(r"offset[=:](\d{1,19})")
# Calls that read or write files, but whose accesses strace does not print, by the position of their descriptor
_UNFOLLOWED = {"mmap": 4, "mmap2": 4, "readahead": 0, "sync_file_range": 0, "sync_file_range2": 0, "syncfs": 0}
_UNFOLLOWED |= dict.fromkeys(("io_uring_enter", "msync", "sync"), -1)
_WATCHED = frozenset({*CALL_KINDS, *_FORKS, *_EXITS, *_EXECUTES, *_FCNTLS, *_OTHER_NAMES, *_COPIES, *_UNFOLLOWED})
_WATCHED |= {CLOSE_RANGE, _SUBMIT}


# Calls whose accesses strace prints, unless the options of the recording hide them
PRINTED_ON_DEMAND = frozenset({_SUBMIT, *_COPIES})
RECORDING_ADVICE = "record with `strace -f -y -ttt -T -s 0 -e abbrev='!io_submit' -o FILE PROGRAM`"


def parse_call(process: int, time_ns: int, name: str, rest: str) -> list[Event]:
    """Convert a system call in the output of strace to events.

    Args:
        process: Number of the process.
        time_ns: Time at which the call began, in nanoseconds since the epoch.
        name: Name of the call, such as ``openat``.
        rest: The text after the opening parenthesis, with arguments and result, such as ``3, "", 512) = 0 <0.000021>``.

    Returns:
        The events: several for a call that transfers data between two files, or submits several requests. None if the
            call failed, or has no effect on files and descriptors.

    Raises:
        ValueError: The text does not end with a result, or an argument is not valid.
    """
    found = _RESULT.match(rest)
    if found is None:
        raise ValueError(f"no result after the call of '{printable(name)}': '{printable(rest[-60:])}'")
    arguments, result, result_file, error, seconds, fraction = found.groups()
    duration_ns = UNKNOWN if seconds is None else _nanoseconds(seconds, fraction)
    if name in _EXITS:
        return [Event(process, time_ns, EXIT)]
    value = -1 if result == "?" else int(result, 16) if result.startswith("0x") else int(result)
    if name not in _WATCHED or result == "?" or (value < 0 and (error is not None or name != "lseek")):
        return []
    if name in _FORKS:
        return [_fork(process, time_ns, arguments, value)]
    if name in _EXECUTES:
        return [Event(process, time_ns, EXECUTE)]
    call = _OTHER_NAMES.get(name, name)
    event = Event(process, time_ns, call, duration_ns=duration_ns)
    if call == _SUBMIT:
        return _submitted(event, arguments, value)
    if call in _COPIES:
        return _copied(event, arguments, value)
    if call in _UNFOLLOWED:
        return _unfollowed(event, arguments)
    if CALL_KINDS.get(call) == "open":
        return [_with_file(event, arguments, _path(result_file or ""))._replace(result=value)]
    descriptor, file = _descriptor(arguments)
    whole = _with_arguments(event._replace(descriptor=descriptor, file=file), arguments, value)
    return [] if whole is None else [whole]


def _submitted(event: Event, arguments: str, count: int) -> list[Event]:
    """Return the requests in the arguments of an io_submit, as calls of their own.

    The calls have no durations, because the requests end after the call. Their sizes are the requested sizes.

    Args:
        event: The event of io_submit.
        arguments: The text between the parentheses of the call.
        count: Number of requests that the kernel accepted.

    Returns:
        The events. An event of io_submit itself stands for each request that strace did not print.
    """
    arguments = _STRING.sub("", arguments)
    found = list(_REQUEST.finditer(arguments))[:count]
    events = []
    for each, following in itertools.zip_longest(found, found[1:]):
        rest = arguments[each.end() : len(arguments) if following is None else following.start()]
        size, offset = _REQUEST_SIZE.search(rest), _REQUEST_OFFSET.search(rest)
        vector = sum(map(int, _VECTOR_SIZE.findall(rest)))
        events.append(
            event._replace(
                call=_REQUEST_CALLS[each[1].upper()],
                descriptor=int(each[2]),
                file=_path(each[3] or ""),
                size_bytes=_size(vector or (int(size[1]) if size else 0)),
                offset_bytes=_size(int(offset[1]) if offset else 0),
                duration_ns=UNKNOWN,
            )
        )
    return events + [event] * (count - len(found))


def _copied(event: Event, arguments: str, size: int) -> list[Event]:
    """Return the read and the write of a call that copies from one descriptor to another.

    The duration of the call is that of the read.

    Args:
        event: The event of copy_file_range, sendfile or splice.
        arguments: The text between the parentheses of the call.
        size: Number of bytes that the call copied.

    Returns:
        The two events; the event itself if strace did not print the arguments; none if nothing was copied.
    """
    found = _COPIES[event.call].match(arguments)
    if not size:
        return []
    if found is None:
        return [event]
    if _COPIES[event.call] is _BETWEEN:
        source, source_file, source_at, target, target_file, target_at = found.groups()
    else:
        (target, target_file, source, source_file, source_at), target_at = found.groups(), None
    events = []
    for direction, descriptor, file, at in (
        ("read", source, source_file, source_at),
        ("write", target, target_file, target_at),
    ):
        events.append(
            event._replace(
                call=direction if at is None else f"p{direction}64",
                descriptor=int(descriptor),
                file=_path(file or ""),
                size_bytes=_size(size),
                offset_bytes=None if at is None else _size(int(at)),
                duration_ns=event.duration_ns if direction == "read" else UNKNOWN,
            )
        )
    return events


def _unfollowed(event: Event, arguments: str) -> list[Event]:
    """Return the event of a call whose accesses strace does not print, with its descriptor and file.

    Returns no event for a mapping of memory without a file.

    Args:
        event: The event.
        arguments: The text between the parentheses of the call.
    """
    position = _UNFOLLOWED[event.call]
    if position < 0:
        return [event]
    words = arguments.split(", ", position)
    found = _DESCRIPTOR.match(words[-1]) if len(words) == position + 1 else None
    descriptor, file = (UNKNOWN, "") if found is None else (int(found[1]), _path(found[2] or ""))
    return [] if found and descriptor < 0 else [event._replace(descriptor=descriptor, file=file)]


def _nanoseconds(seconds: str, fraction: str) -> int:
    """Convert a time in seconds to nanoseconds.

    Args:
        seconds: The digits before the decimal point.
        fraction: Up to nine digits after the decimal point.
    """
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def _fork(parent: int, time_ns: int, arguments: str, child: int) -> Event:
    flags = frozenset({"CLONE_FILES"} if "CLONE_FILES" in arguments else ())
    return Event(parent, time_ns, FORK, result=child, flags=flags)


def _with_file(event: Event, arguments: str, opened: str) -> Event:
    """Return the event of an open with the file and the flags from its arguments.

    A relative name becomes an absolute path if strace printed the path (option -y) of the opened file or of its folder.

    Args:
        event: The event, without file and flags.
        arguments: The text between the parentheses of the call.
        opened: The path of the opened file; empty if strace did not print it.

    Raises:
        ValueError: The arguments contain no file name.
    """
    string = _STRING.search(arguments)
    if string is None:
        raise ValueError(f"'{event.call}' has no file name")
    file = _unescaped(string[1])
    if not file.startswith("/"):
        folder = re.match(r"[^,<]*<(.*?)>,", arguments) if event.call == "openat" else None
        within = f"{_path(folder[1])}/{file}" if folder else file
        file = opened if opened.startswith("/") else within
    return event._replace(file=file, flags=frozenset(_FLAG.findall(arguments[string.end() :])))


def _with_arguments(event: Event, arguments: str, result: int) -> Event | None:
    """Return the event of a call on a descriptor with its other arguments.

    Args:
        event: The event, with descriptor and file only.
        arguments: The text between the parentheses of the call.
        result: What the call returned.

    Returns:
        The event with size, offset, result and flags; None if the call has no effect on files or descriptors.

    Raises:
        ValueError: An argument is not valid.
    """
    kind = CALL_KINDS.get(event.call)
    if kind in {"read", "write"}:
        from_end = _OFFSET_ARGUMENT.get(event.call)
        offset = -1 if from_end is None else _number(arguments, from_end)
        return event._replace(size_bytes=_size(result), offset_bytes=None if offset < 0 else _size(offset))
    if kind == "seek":
        words = [word.strip() for word in arguments.split(",")]
        if event.call == "_llseek":  # strace joins the two halves of the offset, and prints the new position
            result = _number(arguments.replace("[", "").replace("]", ""), 2)
        return event._replace(result=_size(result), offset_bytes=_number(",".join(words[:2]), 1), whence=words[-1])
    if kind == "truncate":
        return event._replace(offset_bytes=_size(_number(arguments, 1)))
    if kind == "duplicate":
        return event._replace(result=result, flags=frozenset(_FLAG.findall(arguments)))
    if event.call == CLOSE_RANGE:
        return None if "CLOEXEC" in arguments else event._replace(result=_number(arguments, 2))
    if event.call in _FCNTLS:
        flags = frozenset({"O_CLOEXEC"} if "F_DUPFD_CLOEXEC" in arguments else ())
        return event._replace(call="dup", result=result, flags=flags) if "F_DUPFD" in arguments else None
    return event


def _descriptor(arguments: str) -> tuple[int, str]:
    """Return the descriptor in the first argument, and the path of its file.

    The path is empty unless strace printed it (option -y).

    Args:
        arguments: The text between the parentheses of the call.

    Raises:
        ValueError: The first argument is not a descriptor.
    """
    found = _DESCRIPTOR.match(arguments)
    if found is None:
        raise ValueError(f"not a descriptor: '{printable(arguments[:60])}'")
    return int(found[1]), _path(found[2] or "")


def _path(shown: str) -> str:
    """Return the path of a descriptor's file that strace printed; strace 4 marks a deleted file in the path."""
    return _unescaped(shown).removesuffix(" (deleted)")


def _number(arguments: str, from_end: int) -> int:
    """Return a numeric argument of a call.

    Args:
        arguments: The text between the parentheses of the call.
        from_end: Position of the argument, counted from the end because earlier arguments may contain commas; 1 is the
            last.

    Raises:
        ValueError: The argument is not a number, or is too large.
    """
    words = arguments.rsplit(",", from_end)
    word = words[-from_end].strip() if len(words) >= from_end else ""
    try:
        value = int(word, 8 if re.fullmatch(r"0\d+", word) else 0)
    except ValueError:
        raise ValueError(f"'{printable(word)}' is not a number") from None
    if abs(value) >= 2**64:
        raise ValueError(f"'{printable(word)}' is too large")
    return value


def _size(value: int) -> int:
    if not 0 <= value < MAX_NUMBER:
        raise ValueError(f"{value} is not a number of bytes from 0 to 2^62")
    return value


def _unescaped(text: str) -> str:
    r"""Return a text with the escapes of C, as strace prints them, resolved.

    For example, ``\n`` becomes a line break. Bytes that are not UTF-8 stay escaped.
    """
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> bytes:
        if found[1] or found[2]:
            return bytes([int(found[1], 16) if found[1] else int(found[2], 8) & 0xFF])
        return bytes([_ESCAPED[found[3]]]) if found[3] in _ESCAPED else found[3].encode()

    parts, end = [], 0
    for found in _ESCAPE.finditer(text):
        parts += [text[end : found.start()].encode(), plain(found)]
        end = found.end()
    return b"".join([*parts, text[end:].encode()]).decode(errors="backslashreplace")


@dataclass
class _Processes:
    """State of the processes in a trace while the trace is read.

    Attributes:
        file_process: Number of the process of lines without a number.
        unfinished: Time, name and arguments of a call whose end strace has not printed yet, by process.
        seen: Numbers of the processes that have appeared.
        on_stderr: Whether strace wrote to standard error, perhaps mixed with the output of the program.
        main: Number of the process whose lines have no number while strace traces no other; None if it is unknown.
        attached: Numbers of the processes that strace has said to be attached.
    """

    file_process: int
    unfinished: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    on_stderr: bool = False
    main: int | None = None
    attached: set[int] = field(default_factory=set)

    @property
    def advice(self) -> str:
        """Text for messages about faulty lines, with which the recording becomes readable; empty if it is unknown."""
        return ". Record with -o FILE, so that no other output divides the lines of strace" if self.on_stderr else ""

    def number(self, bracketed: str | None, plain: str | None) -> int:
        """Return the number of the process of a line.

        On standard error, strace prints ``[pid N]`` only while it traces several processes. A number that no fork has
        returned is then that of the process whose lines had no number before.

        Args:
            bracketed: The number in ``[pid N]``, if the line has one.
            plain: The number at the start of the line, if the line has one.
        """
        if plain is not None or bracketed is None:
            return int(plain or self.file_process)
        number = int(bracketed)
        is_child = number in self.seen or any(name in _FORKS for _, name, _ in self.unfinished.values())
        if self.main is None and number not in self.attached and not is_child:
            self.main = number
        return self.file_process if number == self.main else number

    def attach(self, number: int) -> None:
        """Note that strace traces a process from now on.

        Args:
            number: Number of the process. Before all calls, it is the process of the lines without a number.
        """
        self.on_stderr = True
        if self.main is None and not self.seen:
            self.main = number
        self.attached.add(number)

    def add(self, process: int, time_ns: int) -> Iterator[Event]:
        """Add a process that appears in the output of strace for the first time.

        A new process can appear in the output before strace prints the end of the fork that created the process. Then
        the unfinished fork is yielded as an event. Otherwise nothing is yielded.

        Args:
            process: Number of the process. Nothing happens if the process has appeared before.
            time_ns: Time of the first line of the process, which becomes the time of the fork.
        """
        if process in self.seen:
            return
        self.seen.add(process)
        for parent, (_, name, arguments) in self.unfinished.items():
            if name in _FORKS:
                yield _fork(parent, time_ns, arguments, process)
                return


def is_strace_line(line: str) -> bool:
    """Return whether a line may be output of strace.

    The line contains a system call, or is a notice of strace. Lines without a time, or with a time in a format that
    `read_strace` rejects, count too.
    """
    return bool(_LINE.match(line) or _NOTICE.match(line) or _OTHER_TIMES.match(line))


def read_strace(sources: Sequence[CallTraceFile]) -> Iterator[Event]:
    """Yield the system calls in the output of strace, in order of time.

    The output is one file of ``strace -f -ttt -T``, or several files of ``strace -ff -ttt -T``. Times are in
    nanoseconds since the epoch. The number of the process comes from the first of these that exists:

    1. The number at the start of the line (``-f``).
    2. The suffix of the file name (``-ff``).
    3. The number 0.

    Args:
        sources: The files.

    Raises:
        CallsError: A line is faulty and faulty lines are not skipped (``skipped`` of the file is None). Or the times
            are not in seconds since the epoch, as ``-ttt`` prints them.
    """
    return heapq.merge(*map(_read_file, sources), key=lambda event: event.time_ns)


def _read_file(source: CallTraceFile) -> Iterator[Event]:
    suffix = plain_name(source.path).suffix[1:]
    processes = _Processes(int(suffix) if suffix.isdigit() and len(suffix) <= 10 else 0)
    last_ns = 0
    at = 0

    def lines() -> Iterator[tuple[int, str]]:
        nonlocal at
        for number, line in _joined(source.lines(), processes):
            at = number
            yield number, line

    def no_epoch(line: str) -> IoPatternsError:
        return source.error(
            f"no time in seconds since the epoch in '{printable(line.strip())}' (-t and -tt print the time of the day,"
            " -r the time since the previous call). Record with `strace -f -ttt -T -o FILE PROGRAM`.",
            f"line {at}",
        )

    def parse(line: str) -> Iterable[Event]:
        nonlocal last_ns
        found = _LINE.match(line)
        if found is None or (int(found[4]) < _EPOCH_S and _NOTICE.match(line)):
            if not line.strip() or _NOTICE.match(line):
                return ()
            if _OTHER_TIMES.match(line):
                raise no_epoch(line)
            raise ValueError(f"not a line of strace: '{printable(line.strip())}'{processes.advice}")
        bracketed, plain, spaces, seconds, fraction, rest = found.groups()
        time_ns = _nanoseconds(seconds, fraction)
        # -r pads its times to six digits; a file without its spaces still has times that fall
        width = 1 if bracketed else max(0, 5 - len(plain)) + 1 if plain else 0
        if int(seconds) < _EPOCH_S and (len(spaces) > width or time_ns < last_ns):
            raise no_epoch(line)
        last_ns = time_ns
        process = processes.number(bracketed, plain)
        try:
            return _events(processes, process, time_ns, rest)
        except ValueError as why:
            raise ValueError(f"{why}{processes.advice}") from None

    return source.parsed(lines(), parse)


def _joined(lines: Iterable[tuple[int, str]], processes: _Processes) -> Iterator[tuple[int, str]]:
    """Yield the lines of strace's output, and join the two parts of a line that a message of strace divides.

    strace divides lines with the message "Process N attached" if it writes to standard error.

    Args:
        lines: Number and text of each line.
        processes: State of the processes, which receives the numbers in the messages.
    """
    begin = ""
    for number, line in lines:
        attached = _ATTACHED.match(line)
        if attached is None:
            yield number, begin + line
            begin = ""
        else:
            processes.attach(int(attached[2]))
            begin += attached[1]


def _events(processes: _Processes, process: int, time_ns: int, rest: str) -> list[Event]:
    """Return the events in a line of strace's output.

    Args:
        processes: State of all processes, which is updated.
        process: Number of the process.
        time_ns: Time of the line.
        rest: The line without process and time.

    Raises:
        ValueError: The line is faulty.
    """
    events = list(processes.add(process, time_ns))
    if rest.startswith("--- "):  # a signal
        return events
    if rest.startswith("+++ "):
        return [*events, Event(process, time_ns, EXIT)] if "superseded" not in rest else events
    is_end = rest.startswith("<... ")
    call = _end_call(processes, process, rest) if is_end else _begin_call(processes, process, time_ns, rest)
    if call is None:
        return events
    time_ns, name, rest = call
    for event in parse_call(process, time_ns, name, rest):
        if event.call == FORK and event.result in processes.seen:
            continue
        if event.call == FORK:
            processes.seen.add(event.result)
        events.append(event)
    return events


# Time and name of a call, and the text after its opening parenthesis
_CompleteCall = tuple[int, str, str]


def _end_call(processes: _Processes, process: int, rest: str) -> _CompleteCall | None:
    """Return the call that a line resumes and ends.

    strace prints a call in two parts if another process interrupts it.

    Args:
        processes: State of all processes, with the first parts of calls. The first part of this call is removed.
        process: Number of the process.
        rest: The line without process and time, such as ``<... read resumed>"", 10) = 0``.

    Returns:
        Time and name of the call, and the complete text after its opening parenthesis; None if the call has no effect
            on files.

    Raises:
        ValueError: The line is faulty, or the first part of the call is missing.
    """
    resumed = _RESUMED.match(rest)
    if resumed is None:
        raise ValueError(f"not a resumed call: '{printable(rest)}'")
    began = processes.unfinished.pop(process, None)
    if resumed[1] not in _WATCHED:
        return None
    if began is None or began[1] != resumed[1]:
        raise ValueError(f"'{resumed[1]}' is resumed, but its start is missing")
    return began[0], began[1], began[2] + resumed[2]


def _begin_call(processes: _Processes, process: int, time_ns: int, rest: str) -> _CompleteCall | None:
    """Return the call that begins and ends in a line.

    The first part of a call that ends in a later line is stored in ``processes``.

    Args:
        processes: State of all processes.
        process: Number of the process.
        time_ns: Time of the line.
        rest: The line without process and time.

    Returns:
        Time and name of the call, and the text after its opening parenthesis; None if the call ends in a later line, or
            has no effect on files.

    Raises:
        ValueError: The line is not a call.
    """
    found = _NAME.match(rest)
    if found is None:
        raise ValueError(f"not a call: '{printable(rest)}'")
    name, rest = found.groups()
    cut = _UNFINISHED.search(rest)
    if cut is not None:
        processes.unfinished[process] = (time_ns, name, rest[: cut.start()])
        return None
    return (time_ns, name, rest) if name in _WATCHED else None
