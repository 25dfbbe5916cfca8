"""Decoding of the JSON output of fio, with the standard library only.

A document is the JSON object with the results of a run. Its source is the file or text that contains the document.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Every fio since 2.0.10, the first with JSON, begins each document like this. After it, invalid JSON is an error.
_FIO_START = re.compile(r'\{\s*"fio version"\s*:')
# C's printf writes floats that are not numbers as nan, -nan, inf, -inf, and on Windows as -nan(ind).
_NOT_A_NUMBER = r"-?(?:nan(?:\([a-z]*\))?|inf(?:inity)?)"
_NOT_A_NUMBER_HERE = re.compile(_NOT_A_NUMBER, re.I)
# A string without a closing quotation mark extends to the end of the text. If it did not match, each quotation mark in
# it would begin another search to the end, and the time would grow with the square of the length.
_STRING = r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
# Also matches strings, so that a "nan" inside a string is not replaced.
_STRING_OR_NOT_A_NUMBER = re.compile(f"{_STRING}|{_NOT_A_NUMBER}", re.I | re.S)
_STRING_OR_BRACE = re.compile(rf"{_STRING}|[{{}}]", re.S)

# fio --client adds a job of this name with the sums over all servers (client.c, handle_ts).
_ALL_CLIENTS = "All clients"
_NOT_FIOS = 'this JSON is not output of fio: there is no "fio version", "jobs" or "client_stats"'

# A job file may have several lines with this option, which fio joins. Of all other repeated options the last counts.
_JOINED_OPTION, _OPTION_SEPARATOR = "filename", ":"
# Compression of a file, by its first bytes
_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


class _Decoder(json.JSONDecoder):
    """Decoder of fio's JSON.

    Attributes:
        repeated: Keys that occurred several times in an object since `start`.
    """

    def __init__(self) -> None:
        # strict=False, because fio does not escape tabs and other control characters in strings
        super().__init__(strict=False, parse_constant=lambda _: None, object_pairs_hook=self._object)
        self.repeated: dict[str, int] = {}

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self.repeated |= {key: count for key, count in counts.items() if count > 1}
            files = [value for key, value in pairs if key == _JOINED_OPTION and isinstance(value, str)]
            if len(files) > 1:
                found[_JOINED_OPTION] = _OPTION_SEPARATOR.join(files)
        return found


class _WithoutLines(str):
    """A text for the JSON decoder whose errors have no line and column numbers.

    A JSONDecodeError counts the lines from the beginning of the text. If each brace of a text caused such an error, the
    time would grow with the square of the length. The position in an error is right.
    """

    __slots__ = ()

    def count(self, *_: object) -> int:
        """Return 0 as the number of line breaks before the error."""
        return 0

    def rfind(self, *_: object) -> int:
        """Return 0 as the position of the last line break before the error."""
        return 0


class FioParseError(ValueError):
    """The error raised for text that is not complete, valid output of fio.

    The message consists of the attributes `source`, `place` and `problem`, separated by colons.

    Attributes:
        source: Name of the file or text.
        place: Where the text is wrong: line and column (``line 12, column 3``) or a JSON path (``jobs[2].read.iops``).
            It is empty if the error concerns the entire source.
        problem: What is wrong at the place, and the likely cause if there is one, such as that fio was killed.
    """

    def __init__(self, source: str, place: str, problem: str) -> None:
        """Set the attributes, and join the non-empty ones with ": " as the message.

        Args:
            source: Name of the file or text.
            place: Where the text is wrong, such as ``line 12, column 3``; empty for the entire source.
            problem: What is wrong at the place.
        """
        super().__init__(": ".join(part for part in (source, place, problem) if part))
        self.source = source
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document of fio: the results of one run.

    With ``--status-interval``, fio also writes documents with intermediate results.

    Attributes:
        source: Name of the file or text that contains the document.
        index: Position of the document in the source, from 0.
        data: The decoded top-level object. Numbers that fio wrote as nan or inf are None.
        preamble: The text between the previous document, or the start of the source, and this document. It has notes,
            ETA lines and ``fio: ...`` messages.
        trailer: The text after the last document of the source; empty for all other documents.
        jobs: The objects in ``jobs`` or, in client mode, in ``client_stats``. With several servers, ``fio --client``
            adds the sum over all servers as a job named "All clients". This sum is left out, unless the document has
            nothing else.
        repeated: Keys that occur several times in an object, with the number of times. The names of files in the option
            ``filename`` are joined with colons, as fio writes several files. Of any other key, the last value counts.
    """

    source: str
    index: int
    data: dict[str, Any]
    preamble: str
    trailer: str
    jobs: list[dict[str, Any]]
    repeated: dict[str, int] = field(default_factory=dict)


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """Return all documents in a file with the output of fio.

    Args:
        path: The file that fio has written, or to which its standard output was redirected. The encoding is UTF-8, or
            UTF-16 with a byte order mark (Windows PowerShell). Invalid bytes become U+FFFD. The file may be compressed
            with gzip, bzip2 or xz.

    Returns:
        The documents in the order of the file, at least one. With ``--status-interval``, fio writes several.

    Raises:
        FioParseError: The text is not complete, valid output of fio, see `parse_documents`. Its ``source`` is the path.
        OSError: The file cannot be read.
    """
    return parse_documents(read_text(path), os.fspath(path))


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, see `read_documents`.

    Raises:
        FioParseError: The file is compressed, and its data are damaged, or compressed with zstd.
        OSError: The file cannot be read.
    """
    content = Path(path).read_bytes()
    try:
        return as_text(_decompressed(content))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
        raise FioParseError(os.fspath(path), "", f"the compressed data are damaged or incomplete: {error}") from None
    except NotImplementedError as error:
        raise FioParseError(os.fspath(path), "", str(error)) from None


def _decompressed(content: bytes) -> bytes:
    if content.startswith(_GZIP):
        return gzip.decompress(content)
    if content.startswith(_BZIP2):
        return bz2.decompress(content)
    if content.startswith(_XZ):
        return lzma.decompress(content)
    if content.startswith(_ZSTD):
        raise NotImplementedError("the file is compressed with zstd; decompress it with `zstd -d`")
    return content


def as_text(content: bytes) -> str:
    """Decode the output of fio as UTF-8, or as UTF-16 if it has a byte order mark.

    Invalid bytes become U+FFFD. A byte order mark is not part of the result.

    Args:
        content: The output, not compressed.
    """
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return content.decode(encoding, errors="replace")


def document_of_mapping(data: Mapping[str, Any], source: str) -> Document:
    """Return the document for a result of fio that is already decoded.

    Args:
        data: The top-level object, as ``json.load`` returns it.
        source: Name of the result, for messages and `Document.source`.

    Returns:
        The document. Its `Document.index` is 0.

    Raises:
        FioParseError: The mapping is not a result of fio, or its ``jobs`` are not a list of objects.
    """
    if not ("jobs" in data or "client_stats" in data or "fio version" in data):
        raise FioParseError(source, "", _NOT_FIOS)
    fields = dict(data)
    return Document(source, 0, fields, "", "", _jobs(fields, source, ""))


def parse_documents(text: str, source: str) -> list[Document]:
    """Return all documents of fio in a text.

    A document is the JSON object with the results of a run. The text may contain other text, such as messages of fio,
    before, between and after the documents. The running time is proportional to the length of the text, even if the
    text contains many braces that begin no document.

    Args:
        text: The output of fio.
        source: Name of the text, for messages and `Document.source`.

    Returns:
        The documents in the order of the text, at least one.

    Raises:
        FioParseError: The text contains no document, or at least one truncated or malformed document. In the second
            case, complete documents in the same text are not returned either.
    """
    if not text.strip("\0 \t\r\n"):
        state = "empty" if not text else "blank"
        raise FioParseError(source, "", f"the file is {state}; fio was probably killed before it wrote a result")
    found: list[tuple[int, int, dict[str, Any], dict[str, int]]] = []
    foreign: int | None = None
    first = len(text) - len(text.lstrip())
    without_lines = _WithoutLines(text)
    decoder = _Decoder()
    unclosed: set[int] = set()
    position = 0
    while (start := text.find("{", position)) >= 0:
        position = start + 1
        opens_document = _FIO_START.match(text, start) is not None
        if start in unclosed and not opens_document:
            continue
        # a text that begins with a brace is meant to be JSON, even without a document in it
        is_meant = opens_document or (start == first and _FIO_START.search(text, start) is None)
        try:
            decoder.repeated = {}
            value, end = (
                _decode_repaired(decoder, text, start) if is_meant else decoder.raw_decode(without_lines, start)
            )
        except RecursionError as error:
            raise _decoding_error(text, source, error, len(found)) from None
        except json.JSONDecodeError as error:
            if is_meant:
                raise _decoding_error(text, source, error, len(found)) from None
            unclosed.update(_unclosed_braces(text, position, error.pos))
            continue
        if opens_document or "jobs" in value or "client_stats" in value:
            found.append((start, end, value, decoder.repeated))
        elif within := _FIO_START.search(text, start, end):
            # a larger JSON object that contains the result of fio
            end = within.start()
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
    for index, (start, end, data, repeated) in enumerate(found):
        label = f"document {index}: " if len(found) > 1 else ""
        trailer = text[end:] if index == len(found) - 1 else ""
        jobs = _jobs(data, source, label)
        documents.append(Document(source, index, data, text[before:start], trailer, jobs, repeated))
        before = end
    return documents


def _unclosed_braces(text: str, start: int, end: int) -> list[int]:
    """Return the positions of the opening braces that have no closing brace.

    A decoder that fails at a position also fails there if it starts at one of these braces.

    Args:
        text: The text.
        start: Where to begin, outside of strings.
        end: Where to end.
    """
    braces: list[int] = []
    if text.find("{", start, end) >= 0:
        for token in _STRING_OR_BRACE.finditer(text, start, end):
            if token[0] == "{":
                braces.append(token.start())
            elif token[0] == "}" and braces:
                braces.pop()
    return braces


def _decode_repaired(decoder: _Decoder, text: str, start: int) -> tuple[dict[str, Any], int]:
    """Decode the JSON object of fio that begins at a position in a text.

    Bare numbers such as ``nan`` and ``-inf``, which JSON does not allow, are decoded as None.

    Args:
        decoder: The decoder.
        text: The text.
        start: Position of the opening brace.

    Returns:
        The object, and the position after its closing brace.

    Raises:
        json.JSONDecodeError: The object is truncated or malformed.
    """
    value: dict[str, Any]
    try:
        value, end = decoder.raw_decode(text, start)
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
            value, length = decoder.raw_decode(repaired)
        except json.JSONDecodeError as second:
            raise json.JSONDecodeError(second.msg, text, start + second.pos) from None
        end = start + length
    return value, end


def _jobs(data: dict[str, Any], source: str, label: str) -> list[dict[str, Any]]:
    """Return the jobs of a document, after checking that they are a list of objects.

    The summary "All clients" of client mode is left out, unless there is nothing else.

    Args:
        data: The top-level object of the document.
        source: Name of the source, for messages.
        label: Text before the place in messages, such as ``document 1: ``.

    Raises:
        FioParseError: There are no jobs, or they are not a list of objects.
    """
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
        return [job for job in jobs if not is_summary(job)] or jobs
    return jobs


def is_summary(job: Mapping[str, Any]) -> bool:
    """Return whether an object in ``client_stats`` is the sum over all servers, not a job."""
    # a real job of the same name has options, the summary has none
    return job.get("jobname") == _ALL_CLIENTS and "job options" not in job


def _ends_in_opening(text: str, tail: int) -> bool:
    """Return whether the text ends within the first characters of a document.

    Such an end, for example ``{ "fio ver``, is the beginning of a truncated document. It must be at the start of a
    line.

    Args:
        text: The text.
        tail: Position after the last complete document.
    """
    start = text.rfind("{", tail)
    if start < 0 or text[text.rfind("\n", 0, start) + 1 : start].strip():
        return False
    return '{"fioversion":'.startswith("".join(text[start:].rstrip("\0").split()))


def json_type(value: object) -> str:
    """Return the JSON type of a decoded value with its article, such as ``a list``.

    All values other than dict, list, str, bool and None count as ``a number``.
    """
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

    It says that the document is truncated if the problem is at the end of the text, and otherwise that it is invalid.

    Args:
        text: The text that contains the document.
        source: Name of the text.
        error: The error of the decoder.
        complete: Number of complete documents before this one.
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
    """Return the error for a text without a document of fio.

    Args:
        text: The text.
        source: Name of the text.
        foreign: Position of a JSON object of another program in the text; None if there is none.
    """
    if foreign is not None:
        return FioParseError(source, _place(text, foreign), _NOT_FIOS)
    begins = " ".join(text.split())[:60]
    problem = (
        f"no JSON output of fio found; the text begins with {begins!r}. "
        "Was fio run with --output-format=json or json+, and did it start a job?"
    )
    return FioParseError(source, "", problem)
