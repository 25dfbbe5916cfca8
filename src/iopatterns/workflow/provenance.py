"""Records of how results were made: checksums of the files that each rule used.

A rule is a step of the Snakemake workflow. Each rule that makes results writes a record,
``results/provenance/<rule>.json``. The record has the checksums of all inputs and outputs of the rule. At the start of
a run, the records are compared with the files. If a file differs, the rule runs again, whatever the modification time
of the file is. `verification.verify` compares a finished report with its records.
"""

import contextlib
import hashlib
import importlib.metadata
import json
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
    """A record of how results were made cannot be trusted or written.

    Causes: an input changed while a rule read it, a record is missing or damaged, no record names a result, or the
    trigger file cannot be written.
    """


class RawFolder(msgspec.Struct, forbid_unknown_fields=True):
    """The raw files of one cell that a result was made of.

    A cell is one configuration: a drive, its settings and a workload. A raw file is what fio wrote in one repetition.

    Attributes:
        repetitions: The repetitions whose raw files were read, as the stems of the file names, such as ``01``.
        sha256: One checksum of these raw files and their metadata and log files, see `ChecksumCache.group_sha256`.
    """

    repetitions: list[str]
    sha256: str


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """How one rule of the workflow made its results: the content of a record file.

    All paths are relative to the project's folder.

    Attributes:
        rule: The name of the rule.
        inputs: The SHA-256 of each input file, by path. For a notebook in notebooks/, only the code counts.
        outputs: The SHA-256 of each result, by path.
        raw_files: The raw files that were read, by the folder of the cell.
        versions: The versions of Python and of packages, by name. If raw files were read, it may also have the programs
            that measured: ``fio`` (versions), ``simulator`` (SHA-256 of its sources) and ``host`` (names), each as a
            list.
        sha256: The SHA-256 of all other lines of the record file.
    """

    rule: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    raw_files: dict[str, RawFolder]
    versions: dict[str, str | list[str]]
    sha256: str = ""


def record_path(results: str, rule: str) -> str:
    """Return the path of a rule's record, such as ``results/provenance/report.json``.

    A record has the checksums of all inputs and outputs of a rule.

    Args:
        results: The results folder, such as ``results``.
        rule: The name of the rule.
    """
    return f"{results}/{RECORDS}/{rule}.json"


@contextlib.contextmanager
def recorded(job: Any, raw_files: Iterable[Path] = ()) -> Iterator[dict[str, str | list[str]]]:
    """Write the record of a rule when the context ends without an error.

    A record has the SHA-256 checksums of all inputs and outputs of the rule. Inputs are read before the context begins
    and again at its end.

    Args:
        job: The object ``snakemake`` of a script. The path of the record is its output ``record``.
        raw_files: The raw files that the rule reads. They are recorded by cell. Raw files among the inputs of the rule
            are ignored.

    Yields:
        The versions of Python and packages, by name. The context may add entries, see `Record`.

    Raises:
        ProvenanceError: An input changed while the context lasted.
    """
    inputs = [str(path) for path in job.input if not str(path).startswith((f"{RAW_FOLDER}/", TRIGGER_FILE))]
    before, folders = _sums(inputs), raw_folders(raw_files)
    versions: dict[str, str | list[str]] = {name: importlib.metadata.version(name) for name in _PACKAGES}
    versions["python"] = platform.python_version()
    yield versions
    after = _sums(inputs)
    if changed := sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)):
        raise ProvenanceError(f"{', '.join(changed)}: changed while it was read. Run again.")
    outputs = [str(path) for path in job.output if path != job.output.record]
    outputs += [job.log.notebook] if "notebook" in dict(job.log.items()) else []  # an executed notebook is a result
    record = Record(Path(job.output.record).stem, before, _sums(outputs), folders, versions)
    content = msgspec.to_builtins(record)
    del content["sha256"]
    sealed_json.write_sealed_json(Path(job.output.record), content)


def _sums(paths: Iterable[str]) -> dict[str, str]:
    """Return the checksums of files, by path. A folder stands for all files in it."""
    found: set[str] = set()
    for path in map(Path, paths):
        found.update(map(str, filter(Path.is_file, path.rglob("*")) if path.is_dir() else [path]))
    return {path: _sha256(Path(path)) for path in sorted(found)}


def _sha256(path: Path) -> str:
    """Return the checksum of an input or output of a rule.

    For a notebook in notebooks/, the checksum is that of the code. JupyterLab saves outputs and execution counts in a
    notebook, which do not change results.
    """
    return source_sha256(path) if _is_source_notebook(path) else files.sha256(path)


def source_sha256(notebook: Path | str) -> str:
    """Return the SHA-256 of a notebook's code cells and their tags, in hexadecimal.

    Text cells, outputs and execution counts have no influence. The result is empty for a missing or invalid file, which
    `entry.require_sources` reports.
    """
    try:
        cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
        executed = [
            (cell["cell_type"], cell["metadata"].get("tags", []), "".join(cell["source"]))
            for cell in cells
            if cell["cell_type"] == "code"
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    return hashlib.sha256(json.dumps(executed).encode()).hexdigest()


def _is_source_notebook(path: Path) -> bool:
    return path.suffix == ".ipynb" and path.parts[0] == "notebooks"


def raw_folders(raw_files: Iterable[Path]) -> dict[str, RawFolder]:
    """Return what a record stores about raw files, by the folder of the cell.

    Args:
        raw_files: The raw files, relative to the project's folder. All of them are read.
    """
    repetitions: dict[str, list[str]] = {}
    for raw in raw_files:
        repetitions.setdefault(str(raw.parent), []).append(raw.stem)
    cache = ChecksumCache()
    return {folder: RawFolder(stems, _group_sum(cache, folder, stems) or "") for folder, stems in repetitions.items()}


def _group_sum(cache: ChecksumCache, folder: str, repetitions: Iterable[str]) -> str | None:
    """Return the checksum of the files of some repetitions of a cell.

    The result is None if the folder of the cell is missing.
    """
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

    A record has the checksums of the files that a rule read and made.

    Attributes:
        rule: The name of the rule.
        path: The path of the file; for raw files, the folder of their cell.
        problem: What is wrong, as the end of a sentence, such as ``is missing``.
        is_output: Whether the rule makes the file, rather than reads it.
        is_newer: Whether the file is an input that is newer than the record. Snakemake itself names such a file as the
            reason why the rule runs again.
    """

    rule: str
    path: str
    problem: str
    is_output: bool
    is_newer: bool = False

    def __str__(self) -> str:
        """Return a line such as ``config/config.yaml: is missing``, for a message."""
        return f"{messages.printable(self.path)}: {self.problem}"


def read_record(path: Path) -> Record:
    """Read the record of a rule, which has the checksums of its inputs and outputs.

    Args:
        path: The path of the record, such as ``results/provenance/report.json``.

    Raises:
        ProvenanceError: The record is missing, was changed since it was written, or is not valid.
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
    """Yield each file that differs from its checksum in the record of a rule.

    A missing file differs, too. The results of the rule come first, then its inputs, then the raw files that it read:
    one entry for each cell folder.

    Args:
        record: The record.
        cache: Checksums of files that have not changed. With an empty cache, all files are read.
    """
    for is_output, sums in ((True, record.outputs), (False, record.inputs)):
        for path, digest in sums.items():
            found = cache.file_text(Path(path), _sha256)
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

    A record has the checksums of the files that a rule read and made. A record that was changed counts as a differing
    file itself.

    Args:
        root: The project's folder, which must be the working directory.
        results: The results folder.
        cache: Checksums of files that have not changed. None: nothing is compared, and the result is empty.

    Returns:
        The files by the name of the rule. Rules without such files are left out.
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
            recorded_ns = path.stat().st_mtime_ns
            found[path.stem] = [
                each._replace(is_newer=not each.is_output and _file_time_ns(root / each.path) > recorded_ns)
                for each in of_rule
            ]
    return found


def _file_time_ns(path: Path) -> int:
    """Return the modification time of a file; 0 if there is none, and for a folder of raw files."""
    return path.stat().st_mtime_ns if path.is_file() else 0


def changed_lines(changed: ChangedResults, rules: Container[str]) -> list[str]:
    """Return lines about changed files for the terminal, one line per file.

    Inputs that are newer than the results are left out, because Snakemake itself names them as reasons. Changed results
    come before changed inputs. If there are more than eight files, eight lines are followed by a line with the number
    of the other files.

    Args:
        changed: The files that differ from the records, by rule, as `changed_results` returns them.
        rules: The names of the rules that will run. Files of other rules are left out.
    """
    found = [each for rule, of_rule in changed.items() if rule in rules for each in of_rule if not each.is_newer]
    found.sort(key=lambda each: not each.is_output)  # a result that was changed is more remarkable than its use
    lines = list({each.path: str(each) for each in reversed(found)}.values())[::-1]
    more = [f"and {len(lines) - _MOST_LINES} more files have changed"] if len(lines) > _MOST_LINES else []
    return lines[:_MOST_LINES] + more


def write_trigger(root: Path, *, is_newest: bool) -> None:
    """Write the trigger file, by which Snakemake makes changed results again.

    Each rule that makes results has the trigger file as an input. For a rule that must run again, Snakemake compares
    times: the rule runs because the trigger file is newer than the results. For all other rules, Snakemake ignores the
    time of the trigger file.

    Args:
        root: The project's folder.
        is_newest: Whether to make the trigger file newer than all existing results. If false, an existing trigger file
            is kept.

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
