"""The files that people write and rules read: whether each is there and holds something, told before a run begins."""

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

# Of values.csv, and what drives.csv begins with
VALUE_COLUMNS = (
    "id",
    "place",
    "quantity",
    "drive",
    "drive_key",
    "rw",
    "bs",
    "experiment",
    "conditions",
    "relation",
    "value",
    "unit",
    "quote",
)
DRIVE_COLUMNS = ("table", "drive", "drive_key")
PUBLISHED_FOLDER = "data/published"
_MOST_BYTES = 16 * 2**20
# A file of claims that has more than this beside comments has claims; their schema is for the rule that judges them
_SHORT_CLAIMS = 1_000


class PublishedError(IoPatternsError):
    """A file of published values is missing or wrong; the message names the file and the line."""


def read_published_table(
    path: Path, columns: tuple[str, ...], *, more: bool = False
) -> list[tuple[int, dict[str, str]]]:
    """Return (line number, row) for each row of a published CSV file, its head checked: ``more`` columns may follow.

    Raises PublishedError.
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
        raise PublishedError(f"{path}: no such file; each study's published values are in one") from None
    except (csv.Error, UnicodeDecodeError, files.UnreadableError) as error:
        raise PublishedError(f"{path}: not readable as UTF-8 CSV: {error}") from error
    if not rows:
        raise PublishedError(f"{path}, line 1: no value follows the head")
    return rows


def has_published(root: Path, study: str) -> bool:
    """Return whether a study's source published anything: its folder is there. All files in it are needed then."""
    return (root / PUBLISHED_FOLDER / study).exists()


def file_problems(root: Path, paths: Iterable[str]) -> list[str]:
    """Return a line for each of the files below ``root`` that is missing, unreadable or empty, with what to do."""
    found = {path: _problem(root, path) for path in sorted(set(paths))}
    return [f"{printable(path)}: {problem}" for path, problem in found.items() if problem]


def _problem(root: Path, path: str) -> str:
    file = root / path
    if not file.exists():
        return f"not there. {_remedy(path)}"
    if not file.is_file():
        return f"no plain file. Move it away. {_remedy(path)}"
    if not os.access(file, os.R_OK):
        return "may not be read by this user. Change its permissions."
    try:
        return next(_contents(root, path), "")
    except (IoPatternsError, UnicodeDecodeError) as error:
        # the messages of tables name the whole path, and the line has it already
        return f"{str(error).removeprefix(str(file)).removeprefix(path).lstrip(':, ')}. {_remedy(path)}"


def _contents(root: Path, path: str) -> Iterator[str]:
    """Yield what a file lacks that is there, where a glance at it shows that."""
    match Path(path).name, Path(path).suffix:
        case "values.csv", _:
            read_published_table(root / path, VALUE_COLUMNS)
        case "drives.csv", _:
            read_published_table(root / path, DRIVE_COLUMNS, more=True)
        case "claims.yaml", _:
            text = files.read_bounded(root / path, _MOST_BYTES).decode()
            said = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
            if len(said) < _SHORT_CLAIMS:
                content = yaml_schema.read_yaml(root, path)
                if not (isinstance(content, dict) and (content.get("claims") or "held_out" in content)):
                    yield f"holds no claim. {_remedy(path)}"
        case _, ".ipynb":
            try:
                notebook = json.loads(files.read_bounded(root / path, _MOST_BYTES))
            except (ValueError, RecursionError):
                notebook = None
            if not (isinstance(notebook, dict) and notebook.get("cells")):
                yield f"no notebook with cells. {_remedy(path)}"


def _remedy(path: str) -> str:
    """Return what makes a file."""
    if study := re.fullmatch(r"(?:notebooks|paper/studies)/([^/]+)\.(?:ipynb|typ)", path):
        return f"`iopatterns study new {study[1]}` begins one."
    if re.fullmatch(r"data/published/[^/]+/[^/]+", path):
        return "It holds what the study's source published: CONTRIBUTING.md goes through an example."
    return "It comes with this package: `git checkout -- FILE` brings it back."
