"""Lines of calls as strace(1) and ltrace(1) print them, and traces of strace: `strace -f -ttt -T`."""

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.calls.form import CALL_KINDS, UNKNOWN, CallsError, CallTraceFile
from iopatterns.calls.positions import CLOSE_RANGE, EXECUTE, EXIT, FORK, Event

_LINE = re.compile(r"(?:\[pid\s+(\d{1,10})\]\s+|(\d{1,10})\s+)?(\d{1,12})\.(\d{1,9})\s+(.*)$")
_OTHER_TIMES = re.compile(r"(?:\[pid\s+\d+\]\s+|\d+\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s|\+?\s*\d\.\d+\s|[a-z_0-9]+\()")
_NOTICE = re.compile(r"(?:strace: |\[ Process PID=)")
_RESUMED = re.compile(r"<\.\.\. ([A-Za-z_0-9]+) resumed>\s?(.*)$")
_UNFINISHED = re.compile(r"\s*<(?:unfinished|detached) \.\.\.>$")
_NAME = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\((.*)$")
# What stands behind the arguments: the result (with -y its file), of a failure its name, and with -T the duration
_RESULT = re.compile(
    r"(.*)\)\s+= (-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?:<.*?>)?(?: (E[A-Z0-9]+|[A-Z][A-Z0-9_]+)?[^<]*)?"
    r"(?:\s*<(\d{1,9})\.(\d{1,9})>)?\s*$"
)
_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?:<(.*?)>)?(?:\(deleted\))?(?:,|$|\s)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))")
_ESCAPED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "b": 8, "e": 27}
_FLAG = re.compile(r"O_[A-Z]+")
# The same as ltrace prints them, which knows no names
_FLAG_BITS = {"O_TRUNC": 0o1000, "O_APPEND": 0o2000, "O_CLOEXEC": 0o2000000}
_WHENCES = {"0": "SEEK_SET", "1": "SEEK_CUR", "2": "SEEK_END"}
_FORKS = frozenset({"fork", "vfork", "clone", "clone2", "clone3", "__clone2"})
_EXITS = frozenset({"exit", "exit_group", "_exit"})
_DUPLICATING = frozenset({"fcntl", "fcntl64"})
_AT_OFFSET = frozenset({"pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2"})
_WITH_FLAGS = frozenset({"preadv2", "pwritev2"})
_SYNONYMS = {"open64": "open", "pread": "pread64", "pwrite": "pwrite64", "ftruncate64": "ftruncate"}
_WATCHED = frozenset({*CALL_KINDS, *_SYNONYMS, *_FORKS, *_EXITS, *_DUPLICATING, "execve", "execveat", "close_range"})


class PrintedCall(NamedTuple):
    """A call as it is printed: ``result`` is None where it did not return, ``error`` whether it failed."""

    name: str
    arguments: str
    result: int | None
    error: bool
    duration_ns: int


def parse_printed_call(name: str, rest: str) -> PrintedCall:
    """Return what stands behind the opening bracket of a call. Raises ValueError where it does not end as one does."""
    found = _RESULT.match(rest)
    if found is None:
        raise ValueError(f"no result behind the call of '{printable(name)}': '{printable(rest[-60:])}'")
    arguments, result, error, seconds, fraction = found.groups()
    duration_ns = UNKNOWN if seconds is None else to_nanoseconds(seconds, fraction)
    value = None if result == "?" else int(result, 16) if result.startswith("0x") else int(result)
    failed = value is None or (value < 0 and (error is not None or name != "lseek"))
    return PrintedCall(_SYNONYMS.get(name, name), arguments, value, failed, duration_ns)


def to_nanoseconds(seconds: str, fraction: str) -> int:
    """Return a time of whole seconds and up to nine decimals."""
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def to_event(process: int, time_ns: int, call: PrintedCall) -> Event | None:
    """Return a call as an event, or None where it failed or is none that is followed.

    Raises ValueError with what is wrong in its arguments.
    """
    name, arguments, result, failed, duration_ns = call
    if name in _EXITS:
        return Event(process, time_ns, EXIT)
    if failed or result is None or name not in _WATCHED:
        return None
    if name in _FORKS:
        return _fork(process, time_ns, arguments, result)
    if name in {"execve", "execveat"}:
        return Event(process, time_ns, EXECUTE)
    if CALL_KINDS.get(name) == "open":
        return _opening(process, time_ns, call)
    if name == "iowait":
        return Event(process, time_ns, name, _descriptor(arguments)[0], duration_ns=duration_ns)
    return _on_descriptor(process, time_ns, call, result)


def _fork(parent: int, time_ns: int, arguments: str, child: int) -> Event:
    flags = frozenset({"CLONE_FILES"} if "CLONE_FILES" in arguments else ())
    return Event(parent, time_ns, FORK, result=child, flags=flags)


def _on_descriptor(process: int, time_ns: int, call: PrintedCall, result: int) -> Event | None:
    """Return a call whose first argument is a descriptor as an event, or None where it is none that is followed."""
    name, arguments, _, _, duration_ns = call
    descriptor, file = _descriptor(arguments)
    event = Event(process, time_ns, name, descriptor, file, duration_ns=duration_ns)
    kind = CALL_KINDS.get(name)
    if kind in {"read", "write"}:
        return _moving(event, arguments, result)
    if kind == "seek":
        return _seeking(event, arguments, result)
    if kind == "truncate":
        return event._replace(offset_bytes=_size(_number(arguments, 1)))
    if kind == "duplicate":
        return event._replace(result=result, flags=_flags(arguments))
    if name == CLOSE_RANGE:
        return None if "CLOEXEC" in arguments else event._replace(result=_number(arguments, 2))
    if name in _DUPLICATING:
        flags = frozenset({"O_CLOEXEC"} if "F_DUPFD_CLOEXEC" in arguments else ())
        return event._replace(call="dup", result=result, flags=flags) if "F_DUPFD" in arguments else None
    return event if kind is not None else None


def _moving(event: Event, arguments: str, result: int) -> Event:
    """Return a read or write. What an asynchronous one is to move is asked for, of all others it is the result."""
    if event.call in {"iread", "iwrite"}:
        return event._replace(size_bytes=_size(_number(arguments, 1)), result=result)
    if event.call in _AT_OFFSET:
        at = _number(arguments, 2 if event.call in _WITH_FLAGS else 1)
        return event._replace(size_bytes=_size(result), offset_bytes=None if at < 0 else _size(at))
    return event._replace(size_bytes=_size(result))


def _opening(process: int, time_ns: int, call: PrintedCall) -> Event:
    string = _STRING.search(call.arguments)
    if string is None:
        raise ValueError(f"'{call.name}' names no file")
    file = _unescaped(string[1])
    if call.name == "openat" and not file.startswith("/"):  # with -y, relative to this folder
        folder = re.match(r"[^,<]*<(/.*?)>,", call.arguments)
        file = f"{_unescaped(folder[1])}/{file}" if folder else file
    flags = _flags(call.arguments[string.end() :])
    assert call.result is not None
    return Event(process, time_ns, call.name, file=file, result=call.result, duration_ns=call.duration_ns, flags=flags)


def _seeking(event: Event, arguments: str, result: int) -> Event:
    """Return a seek: by its result where that is the position, else by what was asked for."""
    words = [word.strip() for word in arguments.split(",")]
    whence = _WHENCES.get(words[-1], words[-1])
    if event.call != "_llseek":
        return event._replace(result=_size(result), offset_bytes=_integer(words, 1), whence=whence)
    position = re.search(r"\[(\d{1,19})\]", arguments)
    if position is not None:  # strace joins the two halves of the offset, and shows where it led
        return event._replace(result=_size(int(position[1])), offset_bytes=_integer(words, 1), whence=whence)
    if len(words) != 5:
        raise ValueError(f"_llseek has {len(words)} arguments in place of 5")
    # two halves of 32 bits, of which ltrace shows the lower one as a signed number at times
    offset = (_integer(words, 1) << 32) + (_integer(words, 2) & 0xFFFFFFFF)
    return event._replace(offset_bytes=offset - 2**64 if offset >= 2**63 else offset, whence=whence)


def _descriptor(arguments: str) -> tuple[int, str]:
    """Return the descriptor that is the first argument, and with -y its file."""
    found = _DESCRIPTOR.match(arguments)
    if found is None:
        raise ValueError(f"no descriptor: '{printable(arguments[:60])}'")
    return int(found[1]), _unescaped(found[2] or "")


def _number(arguments: str, from_end: int) -> int:
    """Return an argument that is a number, counted from the last, which is 1: what is before it may hold commas."""
    return _integer(arguments.rsplit(",", from_end), -from_end)


def _integer(words: Sequence[str], place: int) -> int:
    word = words[place].strip() if -len(words) <= place < len(words) else ""
    try:
        value = int(word, 0) if not re.fullmatch(r"0\d+", word) else int(word, 8)
    except ValueError:
        raise ValueError(f"'{printable(word)}' is no number") from None
    if abs(value) >= 2**64:
        raise ValueError(f"'{printable(word)}' is too large")
    return value


def _size(value: int) -> int:
    if not 0 <= value < MAX_NUMBER:
        raise ValueError(f"{value} is no number of bytes from 0 to 2^62")
    return value


def _flags(text: str) -> frozenset[str]:
    names = _FLAG.findall(text)
    number = re.match(r"\s*,\s*(0[0-7]*|[1-9]\d*|0x[0-9a-f]+)\s*(?:,|$)", text)
    if not names and number:
        word = number[1]
        bits = int(word, 8) if word.startswith("0") and not word.startswith("0x") else int(word, 0)
        names = [name for name, bit in _FLAG_BITS.items() if bits & bit]
    return frozenset(names)


def _unescaped(text: str) -> str:
    """Return a text as it was before strace wrote what is no plain character as in C."""
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
    """What is known of the processes of a trace of strace while it is read."""

    unfinished: dict[int, tuple[int, str, str]] = field(default_factory=dict)  # time, call, and what was printed of it
    seen: set[int] = field(default_factory=set)

    def appears(self, process: int, time_ns: int) -> Iterator[Event]:
        """Yield the fork that made a process, where it acts before strace has told of the end of that fork."""
        if process in self.seen:
            return
        self.seen.add(process)
        for parent, (_, name, arguments) in self.unfinished.items():
            if name in _FORKS:
                yield _fork(parent, time_ns, arguments, process)
                return


def is_strace_line(line: str) -> bool:
    """Return whether this may be a line of strace, with or without times."""
    return bool(_LINE.match(line) or _NOTICE.match(line) or _OTHER_TIMES.match(line))


def read_strace(sources: Sequence[CallTraceFile]) -> Iterator[Event]:
    """Yield the events of a trace by ``strace -f -ttt -T -o FILE``, or of the files of ``strace -ff``, by their times.

    Times are from the epoch. The process is what strace printed; of ``-ff`` it is what the file's name ends with, and
    0 where neither says it.
    """
    if len(sources) == 1:
        return _strace(sources[0])
    return heapq.merge(*map(_strace, sources), key=lambda event: event.time_ns)


def _strace(source: CallTraceFile) -> Iterator[Event]:
    suffix = source.path.suffix[1:]
    its_process = int(suffix) if suffix.isdigit() and len(suffix) <= 10 else 0
    processes = _Processes()

    def parse(line: str) -> Iterable[Event]:
        found = _LINE.match(line)
        if found is None:
            if not line.strip() or _NOTICE.match(line):
                return ()
            if _OTHER_TIMES.match(line):
                raise CallsError(
                    f"{printable(source.path)}: '{printable(line.strip())}': no time in seconds since the epoch. Record with"
                    " `strace -f -ttt -T -o FILE PROGRAM`."
                )
            raise ValueError(f"no line of strace: '{printable(line.strip())}'")
        pid, plain_pid, seconds, fraction, rest = found.groups()
        process = int(pid or plain_pid or its_process)
        return _events(processes, process, to_nanoseconds(seconds, fraction), rest)

    return source.parsed(source.lines(), parse)


def _events(processes: _Processes, process: int, time_ns: int, rest: str) -> list[Event]:
    """Return the events of a line without its process and time. Raises ValueError."""
    events = list(processes.appears(process, time_ns))
    if rest.startswith("--- "):  # a signal
        return events
    if rest.startswith("+++ "):
        return [*events, Event(process, time_ns, EXIT)] if "superseded" not in rest else events
    ends = rest.startswith("<... ")
    whole = _resumed(processes, process, rest) if ends else _begun(processes, process, time_ns, rest)
    if whole is None:
        return events
    time_ns, name, rest = whole
    event = to_event(process, time_ns, parse_printed_call(name, rest))
    if event is None:
        return events
    if event.call == FORK:
        if event.result in processes.seen:
            return events
        processes.seen.add(event.result)
    return [*events, event]


# The time of a call, its name, and what is printed behind it
_Whole = tuple[int, str, str]


def _resumed(processes: _Processes, process: int, rest: str) -> _Whole | None:
    """Return a call that ends with this line, or None where it is none that is followed. Raises ValueError."""
    resumed = _RESUMED.match(rest)
    if resumed is None:
        raise ValueError(f"no call is resumed as '{printable(rest)}' says")
    began = processes.unfinished.pop(process, None)
    if resumed[1] not in _WATCHED:
        return None
    if began is None or began[1] != resumed[1]:
        raise ValueError(f"'{resumed[1]}' is resumed, but did not begin before")
    return began[0], began[1], began[2] + resumed[2]


def _begun(processes: _Processes, process: int, time_ns: int, rest: str) -> _Whole | None:
    """Return a call that begins and ends with this line, or None: it goes on, or is none that is followed."""
    found = _NAME.match(rest)
    if found is None:
        raise ValueError(f"no call: '{printable(rest)}'")
    name, rest = found.groups()
    cut = _UNFINISHED.search(rest)
    if cut is not None:
        processes.unfinished[process] = (time_ns, name, rest[: cut.start()])
        return None
    return (time_ns, name, rest) if name in _WATCHED else None
