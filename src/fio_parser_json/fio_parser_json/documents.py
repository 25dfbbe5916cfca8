"""Decoding of the JSON output of fio, with the standard library only."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Every fio since 2.0.10, the first with JSON, begins each document like this. After it, invalid JSON is an error.
_FIO_START = re.compile(r'\{\s*"fio version"\s*:')
# C's printf writes floats that are not numbers as nan, -nan, inf, -inf, and on Windows as -nan(ind).
_NOT_A_NUMBER = r"-?(?:nan(?:\([a-z]*\))?|inf(?:inity)?)"
_NOT_A_NUMBER_HERE = re.compile(_NOT_A_NUMBER, re.I)
# Also matches strings, so that a "nan" inside a string is not replaced.
_STRING_OR_NOT_A_NUMBER = re.compile(rf'"(?:[^"\\]|\\.)*"|{_NOT_A_NUMBER}', re.I | re.S)

# fio --client adds a job of this name with the sums over all servers (client.c, handle_ts).
_ALL_CLIENTS = "All clients"
_NOT_FIOS = 'this JSON is not output of fio: there is no "fio version", "jobs" or "client_stats"'

# strict=False, because fio does not escape tabs and other control characters in strings
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


class FioParseError(ValueError):
    """The error raised for text that is not complete, valid output of fio.

    The message names the source, the place and the problem. Where the cause is likely, such as a killed fio, the
    message names the cause, too.

    Attributes:
        source: Name of the file or text.
        place: Line and column (``line 12, column 3``) or a JSON path (``jobs[2].read.iops``); empty if the error
            concerns the whole source.
        problem: What is wrong at the place.
    """

    def __init__(self, source: str, place: str, problem: str) -> None:
        """Join source, place and problem to the message."""
        super().__init__(": ".join(part for part in (source, place, problem) if part))
        self.source = source
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document of fio, the result of a run.

    With ``--status-interval``, fio also writes documents with intermediate results.

    Attributes:
        source: Name of the file or text that contains the document.
        index: Position of the document in the source, from 0.
        data: The decoded top-level object. Values of nan and inf are None.
        preamble: The text that fio printed before the document: notes, ETA lines, ``fio: ...`` messages.
        trailer: The text after the last document of the source; empty for all other documents.
        jobs: The objects in ``jobs`` or, in client mode, in ``client_stats``. The summary "All clients", which
            ``fio --client`` adds for several servers, is not a job and is left out.
    """

    source: str
    index: int
    data: dict[str, Any]
    preamble: str
    trailer: str
    jobs: list[dict[str, Any]]


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """Return all documents in a file with the output of fio.

    Args:
        path: The file: written by fio, or redirected standard output. Its encoding is UTF-8, or UTF-16 with a byte
            order mark, as Windows PowerShell writes it. Invalid bytes become U+FFFD.

    Returns:
        At least one document, in the order of the file. ``--status-interval`` writes several.

    Raises:
        FioParseError: As for `parse_documents`. Its ``source`` is the path.
        OSError: The file cannot be read.
    """
    return parse_documents(as_text(Path(path).read_bytes()), os.fspath(path))


def as_text(content: bytes) -> str:
    """Decode the output of fio as UTF-8, or as UTF-16 with a byte order mark."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, errors="replace")


def document_of_mapping(data: Mapping[str, Any], source: str) -> Document:
    """Return the document for an already decoded result.

    Raises:
        FioParseError: The mapping is not a result of fio.
    """
    if not ("jobs" in data or "client_stats" in data or "fio version" in data):
        raise FioParseError(source, "", _NOT_FIOS)
    fields = dict(data)
    return Document(source, 0, fields, "", "", _jobs(fields, source, ""))


def parse_documents(text: str, source: str) -> list[Document]:
    """Return all documents of fio in a text. Other text may surround each document.

    Args:
        text: The output of fio.
        source: Name of the text, for messages.

    Returns:
        At least one document, in the order of the text.

    Raises:
        FioParseError: The text is empty, contains no JSON or only JSON of other programs, or any document in it is
            truncated or malformed. Complete documents before a truncated one are not returned either.
    """
    if not text.strip("\0 \t\r\n"):
        state = "empty" if not text else "blank"
        raise FioParseError(source, "", f"the file is {state}; fio was probably killed before it wrote a result")
    found: list[tuple[int, int, dict[str, Any]]] = []
    foreign: int | None = None
    first = len(text) - len(text.lstrip())
    position = 0
    while (start := text.find("{", position)) >= 0:
        opens_document = _FIO_START.match(text, start) is not None
        try:
            value, end = _decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            # a text that begins with a brace is meant to be JSON, even without a document in it
            opens_text = start == first and _FIO_START.search(text, start) is None
            if opens_document or opens_text:
                raise _decoding_error(text, source, error, len(found)) from None
            position = start + 1
            continue
        if opens_document or "jobs" in value or "client_stats" in value:
            found.append((start, end, value))
        elif _FIO_START.search(text, start, end):
            # a brace in the preamble, or a larger JSON object that contains the result of fio
            end = start + 1
        elif foreign is None and value:
            foreign = start
        position = end
    tail = found[-1][1] if found else 0
    if _ends_in_opening(text, tail):
        raise _truncated_error(text, source, len(found), len(text))
    if not found:
        raise _no_document_error(text, source, foreign)
    documents = []
    before = 0
    for index, (start, end, data) in enumerate(found):
        label = f"document {index}: " if len(found) > 1 else ""
        trailer = text[end:] if index == len(found) - 1 else ""
        documents.append(Document(source, index, data, text[before:start], trailer, _jobs(data, source, label)))
        before = end
    return documents


def _decode(text: str, start: int) -> tuple[dict[str, Any], int]:
    """Return the JSON object that begins at ``start``, and the position of its end."""
    value: dict[str, Any]
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if not _NOT_A_NUMBER_HERE.match(text, error.pos):
            raise
        following = _FIO_START.search(text, start + 1)
        chunk = text[start : following.start() if following else len(text)]
        # the replacement has the same length, so that later messages give the right line and column
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
    """Return the jobs of a document, after checking that they are a list of objects."""
    key = "jobs" if "jobs" in data else "client_stats"
    if key not in data:
        problem = 'there is neither "jobs" nor "client_stats"; this is not a complete result of fio'
        raise FioParseError(source, f"{label}top level", problem)
    jobs = data[key]
    if not isinstance(jobs, list):
        raise FioParseError(source, f"{label}{key}", f"expected a list, found {json_type(jobs)}")
    for number, job in enumerate(jobs):
        if not isinstance(job, dict):
            raise FioParseError(source, f"{label}{key}[{number}]", f"expected an object, found {json_type(job)}")
    if key == "client_stats":
        # a real job of the same name has options, the summary has none
        return [job for job in jobs if job.get("jobname") != _ALL_CLIENTS or "job options" in job]
    return jobs


def _ends_in_opening(text: str, tail: int) -> bool:
    """Return whether the text ends within the beginning of a document.

    The document must begin at the start of a line.
    """
    start = text.rfind("{", tail)
    if start < 0 or text[text.rfind("\n", 0, start) + 1 : start].strip():
        return False
    return '{"fioversion":'.startswith("".join(text[start:].rstrip("\0").split()))


def json_type(value: object) -> str:
    """Return the JSON type of a decoded value with its article, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def _after(complete: int) -> str:
    return f" (after {complete} complete document{'s' if complete > 1 else ''})" if complete else ""


def _truncated_error(text: str, source: str, complete: int, position: int) -> FioParseError:
    problem = f"the JSON is truncated{_after(complete)}; fio was probably killed, or the disk was full"
    return FioParseError(source, _place(text, position), problem)


def _decoding_error(
    text: str, source: str, error: json.JSONDecodeError | RecursionError, complete: int
) -> FioParseError:
    """Return the error for a document that cannot be decoded.

    ``complete`` is the number of documents before it.
    """
    if isinstance(error, RecursionError):
        return FioParseError(source, "", "the JSON is nested too deeply for output of fio")
    rest = text[error.pos :].strip("\0 \t\r\n")
    # the decoder reports the opening quote of an incomplete string, and the position before an incomplete number
    if not rest or error.msg.startswith("Unterminated string") or re.fullmatch(r"[-+.\w\\]{1,12}", rest):
        return _truncated_error(text, source, complete, len(text.rstrip()))
    problem = f"invalid JSON{_after(complete)}: {error.msg}, found {rest[:20]!r}"
    return FioParseError(source, _place(text, error.pos), problem)


def _no_document_error(text: str, source: str, foreign: int | None) -> FioParseError:
    """Return the error for a text without a document.

    ``foreign`` is the position of other JSON in the text.
    """
    if foreign is not None:
        return FioParseError(source, _place(text, foreign), _NOT_FIOS)
    begins = " ".join(text.split())[:60]
    problem = (
        f"no JSON output of fio found; the text begins with {begins!r}. "
        "Was fio run with --output-format=json or json+, and did it start a job?"
    )
    return FioParseError(source, "", problem)
