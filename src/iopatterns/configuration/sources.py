"""Checks of hand-written input files, and reading of published CSV files."""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable

# The columns of values.csv, and the first columns of drives.csv
VALUE_COLUMNS = (
    *("id", "place", "quantity", "drive", "drive_key", "rw", "bs", "experiment"),
    *("conditions", "relation", "value", "unit", "quote"),
)
DRIVE_COLUMNS = ("table", "drive", "drive_key")
PUBLISHED_FOLDER = "data/published"
_MOST_BYTES = 16 * 2**20
# A longer claims.yaml, without comments, has claims. The rule that judges the claims validates it.
_SHORT_CLAIMS = 1_000


class PublishedError(IoPatternsError):
    """The error raised for a missing or invalid file of published values.

    The message names file and line.
    """


def read_published_table(
    path: Path, columns: tuple[str, ...], *, more: bool = False
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a published CSV file, each with its line number.

    Args:
        path: The file.
        columns: The expected columns.
        more: Whether further columns may follow.

    Raises:
        PublishedError: The file is missing or empty, cannot be read, or has other columns.
    """
    try:
        reader = csv.reader(io.StringIO(files.read_bounded(path, _MOST_BYTES).decode(), newline=""), strict=True)
        head = next(reader, [])
        if tuple(head[: len(columns)] if more else head) != columns:
            begin = "begin with" if more else "be"
            raise PublishedError(f"{path}, line 1: the columns must {begin} {','.join(columns)}")
        rows = []
        for fields in reader:
            if len(fields) != len(head):
                raise PublishedError(f"{path}, line {reader.line_num}: {len(fields)} fields for {len(head)} columns")
            rows.append((reader.line_num, dict(zip(head, fields, strict=True))))
    except FileNotFoundError:
        raise PublishedError(f"{path}: there is no such file. It contains the published values of a study") from None
    except (csv.Error, UnicodeDecodeError, files.UnreadableError) as error:
        raise PublishedError(f"{path}: not readable as UTF-8 CSV: {error}") from error
    if not rows:
        raise PublishedError(f"{path}, line 1: there is no value after the header")
    return rows


def has_published(root: Path, study: str) -> bool:
    """Return whether the source of a study has published values.

    All files in the folder of published values are then required.
    """
    return (root / PUBLISHED_FOLDER / study).exists()


def file_problems(root: Path, paths: Iterable[str]) -> list[str]:
    """Return a line with problem and remedy for each unusable file.

    A file is unusable if it is missing, unreadable or empty.

    Args:
        root: The folder of the project.
        paths: The files, relative to ``root``.
    """
    found = {path: _problem(root, path) for path in sorted(set(paths))}
    return [f"{printable(path)}: {problem}" for path, problem in found.items() if problem]


def _problem(root: Path, path: str) -> str:
    file = root / path
    if not file.exists():
        return f"there is no such file. {_remedy(path)}"
    if not file.is_file():
        return f"not a regular file. Move it away. {_remedy(path)}"
    if not os.access(file, os.R_OK):
        return "you may not read it. Change its permissions."
    try:
        return next(_contents(root, path), "")
    except (IoPatternsError, UnicodeDecodeError) as error:
        # messages of `read_published_table` repeat the path
        return f"{str(error).removeprefix(str(file)).removeprefix(path).lstrip(':, ')}. {_remedy(path)}"


def _contents(root: Path, path: str) -> Iterator[str]:
    """Yield a problem of an existing file, if a quick look at its content shows one."""
    match Path(path).name, Path(path).suffix:
        case "values.csv", _:
            read_published_table(root / path, VALUE_COLUMNS)
        case "drives.csv", _:
            read_published_table(root / path, DRIVE_COLUMNS, more=True)
        case "claims.yaml", _:
            text = files.read_bounded(root / path, _MOST_BYTES).decode()
            content_text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
            if len(content_text) < _SHORT_CLAIMS:
                content = yaml_schema.read_yaml(root, path)
                if not (isinstance(content, dict) and (content.get("claims") or "held_out" in content)):
                    yield f"there are no claims in it. {_remedy(path)}"
        case _, ".ipynb":
            try:
                notebook = json.loads(files.read_bounded(root / path, _MOST_BYTES))
            except (ValueError, RecursionError):
                notebook = None
            if not (isinstance(notebook, dict) and notebook.get("cells")):
                yield f"not a notebook with cells. {_remedy(path)}"


def _remedy(path: str) -> str:
    """Return a sentence on how to get a missing file."""
    if study := re.fullmatch(r"(?:notebooks|paper/studies)/([^/]+)\.(?:ipynb|typ)", path):
        return f"`iopatterns study new {study[1]}` creates one."
    if re.fullmatch(r"data/published/[^/]+/[^/]+", path):
        return "It contains values that the source of the study published. CONTRIBUTING.md has an example."
    return "It is part of this package: `git checkout -- FILE` restores it."
