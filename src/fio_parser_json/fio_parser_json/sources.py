"""Sources of fio output, such as files, folders, globs and open files."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from fio_parser_json.documents import Document, FioParseError, as_text, document_of_mapping, parse_documents

Errors = Literal["raise", "skip"]
_Made = TypeVar("_Made")


@runtime_checkable
class Readable(Protocol):
    """An open file, of text or of bytes."""

    def read(self) -> str | bytes:
        """Return the rest of the file."""


Source = str | os.PathLike[str] | Readable | Mapping[str, Any] | Document
Sources = Source | Iterable[Source]


@dataclass(frozen=True, slots=True)
class FolderFilter:
    """The names of the files that are read from a folder.

    Attributes:
        name: Pattern of the names.
        description: The pattern in words, for messages.
    """

    name: re.Pattern[str]
    description: str


_JSON = FolderFilter(re.compile(r"\.json$"), "a name that ends in .json")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source that was skipped because it cannot be read.

    Attributes:
        source: Name of the source.
        problem: What is wrong, after the place in the source if the place is known.
    """

    source: str
    problem: str


def all_documents(
    sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None
) -> Iterator[Document]:
    """Yield the documents of any number of sources, in their order.

    This function does not import pandas.

    Args:
        sources: One of the following, or an iterable of them:

            - the path of a file with the output of fio;
            - the path of a folder: all files below it that end in ``.json``, sorted by path;
            - a glob, such as ``runs/**/*.json``: all files that match, sorted by path. A file of exactly this name
              takes precedence;
            - an open file, of text or of bytes, read from its current position;
            - a decoded result, as ``json.load`` returns it. Its ``source`` is ``<decoded 0>``, with its position
              among the sources;
            - a `Document`.
        errors: ``"raise"`` an error for the first source that cannot be read or is not complete, valid output of
            fio, or ``"skip"`` such sources. A skipped source yields nothing at all.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives
            the number of skipped sources.

    Raises:
        FioParseError: As for `parse_documents`; also if a folder or a glob has no files.
        OSError: A file cannot be read.
    """
    return gather(sources, documents_of, errors=errors, skipped=skipped)


def documents_of(item: Item) -> list[Document]:
    """Return the documents of one source."""
    if isinstance(item.source, Document):
        return [item.source]
    if isinstance(item.source, Mapping):
        return [document_of_mapping(item.source, item.name)]
    return parse_documents(item.text(), item.name)


@dataclass(frozen=True, slots=True)
class Item:
    """A single source, neither a folder nor a glob.

    Attributes:
        source: The source.
        name: Name of the source, for messages and the column ``source``.
    """

    source: Source
    name: str

    def text(self) -> str:
        """Return the text of the file. Raises OSError."""
        if isinstance(self.source, Readable):
            content = self.source.read()
            return content if isinstance(content, str) else as_text(content)
        return as_text(Path(self.name).read_bytes())


def gather(
    sources: Sources,
    make: Callable[[Item], Iterable[_Made]],
    *,
    in_folder: FolderFilter = _JSON,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
) -> Iterator[_Made]:
    """Yield the results of ``make`` for each source.

    Args:
        sources: The sources, see `all_documents`.
        make: Returns the results for one source.
        in_folder: The files that are read from a folder.
        errors: What happens with sources that cannot be read, see `all_documents`.
        skipped: A list to which skipped sources are appended, see `all_documents`.
    """
    if errors not in {"raise", "skip"}:
        raise ValueError(f"errors is {errors!r}, but must be 'raise' or 'skip'")
    left_out: list[Skipped] = []
    if isinstance(sources, str | os.PathLike | Mapping | Document | Readable):
        sources = [sources]
    for number, source in enumerate(sources):
        try:
            items = _items(source, number, in_folder)
        except FioParseError as error:
            if errors == "raise":
                raise
            left_out.append(Skipped(error.source, error.problem))
            continue
        for item in items:
            try:
                made = list(make(item))
            except (FioParseError, OSError) as error:
                if errors == "raise":
                    raise
                left_out.append(Skipped(item.name, _problem(error)))
            else:
                yield from made
    if skipped is not None:
        skipped += left_out
    elif left_out:
        first = left_out[0]
        warnings.warn(
            f"fio_parser_json: skipped sources: {len(left_out)}. The first: {first.source}: {first.problem}",
            stacklevel=3,
        )


def _problem(error: FioParseError | OSError) -> str:
    if isinstance(error, FioParseError):
        return ": ".join(filter(None, (error.place, error.problem)))
    return error.strerror or str(error)


def _items(source: Source, number: int, in_folder: FolderFilter) -> list[Item]:
    """Return a source, or the files of a folder or glob, as items.

    The files are sorted by path.

    Args:
        source: The source.
        number: Position of the source, which names sources without a path.
        in_folder: The files that are read from a folder.
    """
    if isinstance(source, Document):
        return [Item(source, source.source)]
    if isinstance(source, Mapping):
        return [Item(source, f"<decoded {number}>")]
    if isinstance(source, Readable):
        name = getattr(source, "name", None)
        return [Item(source, name if isinstance(name, str) else f"<open file {number}>")]
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a source is a path, a glob, an open file, a decoded mapping or a Document, not {type(source).__name__}"
        )
    name = os.fspath(source)
    if Path(name).is_dir():
        found = [str(path) for path in Path(name).rglob("*") if in_folder.name.search(path.name) and path.is_file()]
        if not found:
            raise FioParseError(name, "", f"no file in this folder has {in_folder.description}")
    elif glob.has_magic(name) and not Path(name).exists():
        # unlike Path.glob, glob.glob accepts both absolute and relative patterns
        found = [path for path in glob.glob(name, recursive=True) if Path(path).is_file()]  # noqa: PTH207
        if not found:
            raise FioParseError(name, "", "no file matches")
    else:
        found = [name]
    return [Item(path, path) for path in sorted(found)]
