"""Read what fio writes with --output-format=json or json+ into decoded documents; standard library only."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What opens each document of any fio since 2.0.10, the first with JSON: from here on a failure is an error.
_FIO_START = re.compile(r'\{\s*"fio version"\s*:')
# C's printf spells floats that are no numbers as nan, -nan, inf, -inf, and on Windows -nan(ind).
_NOT_A_NUMBER = r"-?(?:nan(?:\([a-z]*\))?|inf(?:inity)?)"
_NOT_A_NUMBER_HERE = re.compile(_NOT_A_NUMBER, re.I)
# Strings are matched too, so that a name such as "a: nan" is stepped over.
_STRING_OR_NOT_A_NUMBER = re.compile(rf'"(?:[^"\\]|\\.)*"|{_NOT_A_NUMBER}', re.I | re.S)

# The pseudo job in which `fio --client` sums up several servers (client.c, handle_ts).
_ALL_CLIENTS = "All clients"
_NOT_FIOS, _KEYS = "this JSON is not fio's", '"fio version", "jobs" or "client_stats"'

# strict=False: fio escapes only quotes and backslashes in strings, never tabs or other control characters.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


class FioParseError(ValueError):
    """Text that is not whole, valid output of fio.

    The message names the source, the place (line and column, or a path such as ``jobs[2].read.iops``), what
    is wrong, and where it can be told what probably happened.

    Attributes:
        source: name of the file or text.
        place: ``"line 12, column 3"``, a JSON path, or ``""`` when the whole source is meant.
        problem: what is wrong there.
    """

    def __init__(self, source: str, place: str, problem: str) -> None:
        """Compose the message ``source: place: problem``."""
        super().__init__(": ".join(part for part in (source, place, problem) if part))
        self.source = source
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON document of fio: the result of a run, or one interval of ``--status-interval``.

    Attributes:
        source: name of the file or text that it was read from.
        index: its position in that source, from 0.
        data: the decoded top-level mapping, unchanged save that nan and inf are None.
        preamble: the text that fio printed before it (notes, ETA lines, ``fio: ...`` messages).
        trailer: the text after it, if it is the last one of its source; otherwise empty.
        jobs: the mappings in ``jobs``, or in client mode ``client_stats``, as fio wrote them. The summary
            "All clients", which ``fio --client`` adds when it had several servers, is no job and left out.
    """

    source: str
    index: int
    data: dict[str, Any]
    preamble: str
    trailer: str
    jobs: list[dict[str, Any]]


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """Read all documents in a file that fio wrote, or into which its standard output went.

    Args:
        path: the file. Its text may be UTF-8, with or without a byte order mark, or UTF-16 with one (what
            Windows PowerShell makes of redirected output); bytes that are not valid become U+FFFD.

    Returns:
        One or more documents, in the order of the file; several with ``--status-interval``.

    Raises:
        FioParseError: as for `parse_documents`; ``source`` is the path.
        OSError: the file cannot be read.
    """
    return parse_documents(as_text(Path(path).read_bytes()), os.fspath(path))


def as_text(content: bytes) -> str:
    """Decode what fio wrote: UTF-8, or UTF-16 where a byte order mark says so."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, errors="replace")


def of_mapping(data: Mapping[str, Any], source: str) -> Document:
    """Return the document of a result that is decoded already. Raises FioParseError where it is not fio's."""
    if not ("jobs" in data or "client_stats" in data or "fio version" in data):
        raise FioParseError(source, "", f"{_NOT_FIOS}: there is no {_KEYS}")
    fields = dict(data)
    return Document(source, 0, fields, "", "", _jobs(fields, source, ""))


def parse_documents(text: str, source: str) -> list[Document]:
    """Find and decode all fio documents in a text, with any other text before, between and after them.

    Args:
        text: what fio printed.
        source: a name for it, used in messages.

    Returns:
        One or more documents, in order.

    Raises:
        FioParseError: the text is empty, holds no JSON or only JSON that is not fio's, or one of its
            documents, the last included, is cut short or malformed. Nothing is returned then, not even whole
            documents before a cut one.
    """
    if not text.strip("\0 \t\r\n"):
        state = "empty" if not text else "blank"
        raise FioParseError(source, "", f"the file is {state}; fio was probably killed before it could write a result")
    found: list[tuple[int, int, dict[str, Any]]] = []
    foreign: int | None = None
    first = len(text) - len(text.lstrip())
    position = 0
    while (start := text.find("{", position)) >= 0:
        opens_document = _FIO_START.match(text, start) is not None
        try:
            value, end = _decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            # A text that begins with a brace and holds no document is meant to be JSON all the same.
            opens_text = start == first and _FIO_START.search(text, start) is None
            if opens_document or opens_text:
                raise _broken(text, source, error, len(found)) from None
            position = start + 1
            continue
        if opens_document or "jobs" in value or "client_stats" in value:
            found.append((start, end, value))
        elif _FIO_START.search(text, start, end):
            # A brace of the preamble, or of a larger JSON that fio's result was put into.
            end = start + 1
        elif foreign is None and value:
            foreign = start
        position = end
    tail = found[-1][1] if found else 0
    if _ends_in_opening(text, tail):
        raise _cut_short(text, source, len(found), len(text))
    if not found:
        raise _no_document(text, source, foreign)
    documents = []
    before = 0
    for index, (start, end, data) in enumerate(found):
        label = f"document {index}: " if len(found) > 1 else ""
        trailer = text[end:] if index == len(found) - 1 else ""
        jobs = _jobs(data, source, label)
        documents.append(Document(source, index, data, text[before:start], trailer, jobs))
        before = end
    return documents


def _decode(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Decode the JSON object that begins at start; return it and where it ends."""
    value: dict[str, Any]
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if not _NOT_A_NUMBER_HERE.match(text, error.pos):
            raise
        following = _FIO_START.search(text, start + 1)
        chunk = text[start : following.start() if following else len(text)]
        # The replacement is as long as what it replaces: places in later messages stay right.
        repaired = _STRING_OR_NOT_A_NUMBER.sub(
            lambda match: match[0] if match[0][0] == '"' else "NaN".ljust(len(match[0])), chunk
        )
        try:
            value, length = _DECODER.raw_decode(repaired)
        except json.JSONDecodeError as second:
            raise json.JSONDecodeError(second.msg, text, start + second.pos) from None
        end = start + length
    return value, end


def _jobs(data: dict[str, Any], source: str, label: str) -> list[dict[str, Any]]:
    """Check the outline of a document and return its jobs."""
    key = "jobs" if "jobs" in data else "client_stats"
    if key not in data:
        problem = 'there is neither "jobs" nor "client_stats"; this is not a whole result of fio'
        raise FioParseError(source, f"{label}top level", problem)
    jobs = data[key]
    if not isinstance(jobs, list):
        raise FioParseError(source, f"{label}{key}", f"expected a list, found {json_type(jobs)}")
    for number, job in enumerate(jobs):
        if not isinstance(job, dict):
            place = f"{label}{key}[{number}]"
            raise FioParseError(source, place, f"expected an object, found {json_type(job)}")
    if key == "client_stats":
        # A job of that name has options of its own, the summary never has.
        return [job for job in jobs if job.get("jobname") != _ALL_CLIENTS or "job options" in job]
    return jobs


def _ends_in_opening(text: str, tail: int) -> bool:
    """Tell whether the text ends in the first few characters of a document, at the start of a line."""
    start = text.rfind("{", tail)
    if start < 0 or text[text.rfind("\n", 0, start) + 1 : start].strip():
        return False
    return '{"fioversion":'.startswith("".join(text[start:].rstrip("\0").split()))


def json_type(value: object) -> str:
    """Name the type of a decoded value in the words of JSON, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def _after(whole: int) -> str:
    return f" (after {whole} whole document{'s' if whole > 1 else ''})" if whole else ""


def _cut_short(text: str, source: str, whole: int, position: int) -> FioParseError:
    problem = f"the JSON is cut short{_after(whole)}; fio was probably killed, or the disk was full, as it wrote"
    return FioParseError(source, _place(text, position), problem)


def _broken(text: str, source: str, error: json.JSONDecodeError | RecursionError, whole: int) -> FioParseError:
    """Say why a document of fio's cannot be decoded."""
    if isinstance(error, RecursionError):
        return FioParseError(source, "", "the JSON is nested too deeply to be fio's")
    rest = text[error.pos :].strip("\0 \t\r\n")
    # The decoder points at the opening quote of an unfinished string, and before an unfinished number.
    if not rest or error.msg.startswith("Unterminated string") or re.fullmatch(r"[-+.\w\\]{1,12}", rest):
        return _cut_short(text, source, whole, len(text.rstrip()))
    problem = f"invalid JSON{_after(whole)}: {error.msg}, found {rest[:20]!r}"
    return FioParseError(source, _place(text, error.pos), problem)


def _no_document(text: str, source: str, foreign: int | None) -> FioParseError:
    """Say why there is no document of fio's at all."""
    if foreign is not None:
        problem = f"{_NOT_FIOS}: there is no {_KEYS}"
        return FioParseError(source, _place(text, foreign), problem)
    begins = " ".join(text.split())[:60]
    problem = (
        f"no JSON of fio's in it; it begins with {begins!r}. "
        "Was fio run with --output-format=json or json+, and did it start a job?"
    )
    return FioParseError(source, "", problem)
