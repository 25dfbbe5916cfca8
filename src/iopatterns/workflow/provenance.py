"""Records of how results were made: the checksums of all inputs and outputs of each rule.

Each rule that makes results writes a record, ``results/provenance/<rule>.json``. At the start of a run, the records are
compared with the files. If a file differs, the rule runs again, whatever the modification time of the file is.
`verification.verify` compares a finished report with its records.
"""

import contextlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from iopatterns.base import files, messages, sealed_json
from iopatterns.base.checksum_cache import ChecksumCache
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.workflow import notebooks

RECORDS = "provenance"  # a folder in each results folder
# The cache of checksums. It may be deleted: the next run then reads all files once.
CACHE_FILE = ".snakemake/iopatterns/checksums.json"
# An input of each rule. It is newer than all results while it is an input of a rule that must run again.
TRIGGER_FILE = ".snakemake/iopatterns/changed"
_PACKAGES = (
    "iopatterns",
    "fio_parser_json",
    "snakemake",
    "papermill",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "typst",
)


# Up to this number, changed files are listed when a run begins
_MOST_LINES = 8


class ProvenanceError(IoPatternsError):
    """A file changed while a rule read it, or a record is missing or damaged."""


class RawFolder(msgspec.Struct, forbid_unknown_fields=True):
    """The raw files of a cell that a result was made of.

    Attributes:
        repetitions: The stems of the raw files, such as ``01``.
        sha256: The checksum of the raw files and the files beside them, see `ChecksumCache.group_sha256`.
    """

    repetitions: list[str]
    sha256: str


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """How a rule made its results.

    Attributes:
        rule: The name of the rule.
        inputs: The SHA-256 of each input file, by path.
        outputs: The SHA-256 of each result, by path.
        raw_files: The raw files that were read, by the folder of the cell.
        versions: The versions of Python and packages, and what measured the raw files: ``fio``, ``simulator`` (SHA-256
            of the sources) and ``host``, each with all values.
        sha256: The SHA-256 of all other lines of the file.
    """

    rule: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    raw_files: dict[str, RawFolder]
    versions: dict[str, str | list[str]]
    sha256: str = ""


def record_path(results: str, rule: str) -> str:
    """Return the path of the record of a rule.

    Args:
        results: The results folder.
        rule: The name of the rule.
    """
    return f"{results}/{RECORDS}/{rule}.json"


@contextlib.contextmanager
def recorded(job: Any, raw_files: Iterable[Path] = ()) -> Iterator[dict[str, str | list[str]]]:
    """Write the record of a rule when the context ends without an error.

    Args:
        job: The object ``snakemake`` of a script. The record is its output ``record``.
        raw_files: The raw files that the rule reads. If an input of the rule is a raw file, it is ignored.

    Yields:
        The versions of Python and packages, to which the context may add, see `Record`.

    Raises:
        ProvenanceError: An input changed while the context lasted.
    """
    inputs = [str(path) for path in job.input if not str(path).startswith((f"{RAW_FOLDER}/", TRIGGER_FILE))]
    before, folders = _sums(inputs), _raw_folders(raw_files)
    versions: dict[str, str | list[str]] = {name: importlib.metadata.version(name) for name in _PACKAGES}
    versions["python"] = platform.python_version()
    yield versions
    if changed := [path for path, digest in _sums(inputs).items() if digest != before[path]]:
        raise ProvenanceError(f"{', '.join(changed)}: changed while it was read. Run again.")
    outputs = [str(path) for path in job.output if path != job.output.record]
    outputs += [job.log.notebook] if "notebook" in dict(job.log.items()) else []  # an executed notebook is a result
    record = Record(Path(job.output.record).stem, before, _sums(outputs), folders, versions)
    content = msgspec.to_builtins(record)
    del content["sha256"]
    sealed_json.write_sealed_json(Path(job.output.record), content)


def _sums(paths: Iterable[str]) -> dict[str, str]:
    return {path: _sha256(Path(path)) for path in sorted(set(paths))}


def _sha256(path: Path) -> str:
    """Return the checksum of an input or output; of a notebook in notebooks/, that of its code.

    JupyterLab saves outputs and execution counts in a notebook, which do not change results.
    """
    return notebooks.source_sha256(path) if _is_source_notebook(path) else files.sha256(path)


def _is_source_notebook(path: Path) -> bool:
    return path.suffix == ".ipynb" and path.parts[0] == "notebooks"


def _raw_folders(raw_files: Iterable[Path]) -> dict[str, RawFolder]:
    repetitions: dict[str, list[str]] = {}
    for raw in raw_files:
        repetitions.setdefault(str(raw.parent), []).append(raw.stem)
    cache = ChecksumCache()
    return {folder: RawFolder(stems, _group_sum(cache, folder, stems) or "") for folder, stems in repetitions.items()}


def _group_sum(cache: ChecksumCache, folder: str, repetitions: Iterable[str]) -> str | None:
    """Return the checksum of some repetitions of a cell; None if the folder is missing."""
    stems = set(repetitions)
    try:
        with os.scandir(folder) as entries:
            stats = {entry.name: entry.stat() for entry in entries if _stem(entry.name) in stems}
    except OSError:
        return None
    return cache.group_sha256(Path(folder), stats)


def _stem(name: str) -> str:
    """Return the number of the repetition to which a file of a cell belongs.

    The files of a repetition are ``01.json``, ``01.sidecar.json`` and ``01_clat_hist.log``.
    """
    return name.partition(".")[0].partition("_")[0]


class ChangedFile(NamedTuple):
    """A file that differs from the record of a rule.

    Attributes:
        rule: The rule.
        path: The file, or the folder of a cell.
        problem: What is wrong, as the end of a sentence.
        is_output: Whether the rule makes the file.
    """

    rule: str
    path: str
    problem: str
    is_output: bool

    def __str__(self) -> str:
        """Return the file and what is wrong with it, for a message."""
        return f"{messages.printable(self.path)}: {self.problem}"


def read_record(path: Path) -> Record:
    """Return a record.

    Raises:
        ProvenanceError: The record is missing, was changed, or is not valid.
    """
    try:
        found = path.read_bytes()
        if not sealed_json.is_unchanged(found):
            raise ProvenanceError(f"{path}: changed since it was written (according to its SHA-256).")
        return msgspec.json.decode(found, type=Record)
    except OSError as error:
        raise ProvenanceError(f"{path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ProvenanceError(f"{path}: not a record of this version ({messages.printable(error)}).") from None


def changed_files(record: Record, cache: ChecksumCache) -> Iterator[ChangedFile]:
    """Yield each file that differs from a record.

    Args:
        record: The record.
        cache: Checksums of files that have not changed. With an empty cache, all files are read.
    """
    for is_output, sums in ((True, record.outputs), (False, record.inputs)):
        for path, digest in sums.items():
            found = cache.file_text(Path(path), "", _sha256)
            if found != digest:
                since = "it was made" if is_output else f"{record.rule} read it"
                problem = "is missing" if found is None else f"has changed since {since}"
                yield ChangedFile(record.rule, path, problem, is_output)
    for folder, of_cell in record.raw_files.items():
        if _group_sum(cache, folder, of_cell.repetitions) != of_cell.sha256:
            problem = f"raw files or their metadata have changed since {record.rule} read them"
            yield ChangedFile(record.rule, folder, problem, is_output=False)


# The files that differ from the records, by the name of the rule that must run again
ChangedResults = Mapping[str, Sequence[ChangedFile]]


def changed_results(root: Path, results: str, cache: ChecksumCache | None) -> ChangedResults:
    """Return the files that differ from the records of a results folder, by rule.

    Args:
        root: The project's folder, which is the working directory.
        results: The results folder.
        cache: Checksums of files that have not changed. None: nothing is compared.
    """
    found: dict[str, list[ChangedFile]] = {}
    if cache is None:
        return found
    for path in sorted((root / results / RECORDS).glob("*.json")):
        try:
            of_rule = list(changed_files(read_record(path), cache))
        except ProvenanceError:
            of_rule = [
                ChangedFile(path.stem, f"{results}/{RECORDS}/{path.name}", "has changed since it was written", True)
            ]
        if of_rule:
            found[path.stem] = of_rule
    return found


def changed_lines(changed: ChangedResults, rules: Container[str]) -> list[str]:
    """Return lines about changed files, for the terminal.

    Args:
        changed: The files that differ from the records.
        rules: The rules that will run. Other rules are left out.
    """
    found = [each for rule, of_rule in changed.items() if rule in rules for each in of_rule]
    found.sort(key=lambda each: not each.is_output)  # a result that was changed is more remarkable than its use
    lines = list({each.path: str(each) for each in reversed(found)}.values())[::-1]
    more = [f"and {len(lines) - _MOST_LINES} more files have changed"] if len(lines) > _MOST_LINES else []
    return lines[:_MOST_LINES] + more


def write_trigger(root: Path, *, is_newest: bool) -> None:
    """Write the trigger file if it is missing.

    Each rule that makes results has this file as an input. For a rule that must run again, the file must be newer than
    the results of the rule. For other rules, Snakemake ignores its time.

    Args:
        root: The project's folder.
        is_newest: Whether to make the file newer than all existing results.

    Raises:
        ProvenanceError: The file cannot be written.
    """
    path = root / TRIGGER_FILE
    if path.exists() and not is_newest:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(time.time_ns()))  # Snakemake ignores a new time of a small file with the same content
    except OSError as error:
        raise ProvenanceError(
            f"{path}: {error.strerror}. Free space there or make it writable, and run again."
        ) from None
