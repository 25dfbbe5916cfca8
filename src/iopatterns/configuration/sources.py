"""Check hand-written input files quickly, and read published CSV files.

A published file contains values from the source of a study, which is a paper or data sheet. The folder
data/published/STUDY has the published files of a study.
"""

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
    """The error raised for a missing or invalid file in data/published.

    Such a file contains what the source of a study published. The message names the file and, where it applies, the
    line.
    """


def read_published_table(
    path: Path, columns: tuple[str, ...], *, more: bool = False
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a published CSV file, each with its line number.

    The first line of the file contains the names of the columns.

    Args:
        path: The file, such as ``data/published/park2009/values.csv``.
        columns: The expected names of the columns, in the order of the file.
        more: Whether the file may have further columns after the expected ones.

    Returns:
        A pair for each row, in the order of the file: the number of the row's line (from 1, and the last line if a row
        has several), and the fields as text, by column. An empty field is an empty text.

    Raises:
        PublishedError: The file is missing or larger than 16 MiB, is not UTF-8 CSV, has other columns or no rows, or
            has a row with a wrong number of fields.
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
    """Return whether a study has a folder with published values.

    The folder is ``data/published/STUDY``. It exists if the source of the study, such as a paper or data sheet,
    published values that the measurements are compared with. The folder must then contain values.csv, drives.csv and
    claims.yaml.

    Args:
        root: The folder of the project.
        study: The name of the study.
    """
    return (root / PUBLISHED_FOLDER / study).exists()


def file_problems(root: Path, paths: Iterable[str]) -> list[str]:
    """Return a line with problem and remedy for each unusable input file.

    A file is unusable if it is missing, is not a regular file, or cannot be read. A published CSV file, claims.yaml or
    notebook is also unusable if it has no content or a wrong format. Only a quick check is made: the content of a long
    claims.yaml is not checked.

    Args:
        root: The folder of the project.
        paths: The files, relative to ``root``.

    Returns:
        The lines, sorted by path. Each line begins with the path, such as ``notebooks/x.ipynb: there is no such file.``
        The list is empty if all files are usable.
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
    """Yield a problem of an existing file, if a quick look at its content shows one.

    Published CSV files, claims.yaml and notebooks are checked.

    Args:
        root: The folder of the project.
        path: The file, relative to ``root``.

    Raises:
        IoPatternsError: The file cannot be read, or is not in the expected format.
        UnicodeDecodeError: The file is not UTF-8.
    """
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
    """Return a sentence for a message: how to get a missing file."""
    if study := re.fullmatch(r"(?:notebooks|paper/studies)/([^/]+)\.(?:ipynb|typ)", path):
        return f"`iopatterns study new {study[1]}` creates one."
    if re.fullmatch(r"data/published/[^/]+/[^/]+", path):
        return "It contains values that the source of the study published. docs/add-a-study.md has an example."
    return "It is part of this package: `git checkout -- FILE` restores it."
