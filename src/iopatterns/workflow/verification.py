"""Check whether the results of a finished report follow from their inputs.

Each rule of the workflow has written a record, which has the SHA-256 checksums of the files that the rule read and
made. Raw files are checked, too.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from iopatterns.base import messages
from iopatterns.base.checksum_cache import ChecksumCache
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.raw.metadata_files import MetadataError, read_metadata
from iopatterns.workflow.provenance import RECORDS, ProvenanceError, changed_files, read_record

# The files of a results folder that must have a record
_OF_STUDIES = ("tables/*/*", "figures/*/*", "numbers/*", "measurements/*", "notebooks/*")
_RESULTS = ("[!.]*.*", *_OF_STUDIES, "calls/*", "traces/*/*")


class Verification(NamedTuple):
    """The result of comparing a results folder with its records.

    A record has the checksums of the files that a rule of the workflow read and made.

    Attributes:
        outputs: The number of results that the records name.
        raw_files: The number of raw files from which these results were made. A raw file is what fio wrote in one
            repetition.
        problems: A sentence for each file that differs from its checksum, is missing, or is in no record. Empty if all
            is well.
    """

    outputs: int
    raw_files: int
    problems: list[str]


def verify(results: str) -> Verification:
    """Check whether each result in a folder follows from its inputs and raw files.

    All files are read; no cache is used. The configuration of the project does not matter. A record has the checksums
    of the files that a rule of the workflow read and made. These are checked:

    - each record, against the checksum of its own content
    - each result, each input and each group of raw files that a record names, against the checksum in the record
    - each raw file and its metadata file, against each other
    - that each result has a record

    Args:
        results: The results folder, relative to the working directory.

    Returns:
        The numbers of files, and the problems. Problems are returned, not raised.

    Raises:
        ProvenanceError: The folder has no records.
    """
    paths = sorted((Path(results) / RECORDS).glob("*.json"))
    if not paths:
        raise ProvenanceError(f"{results}/{RECORDS}: there are no records. Run `snakemake --cores 1` first.")
    cache = ChecksumCache()
    problems: list[str] = []
    outputs: set[str] = set()
    raws: set[str] = set()
    for path in paths:
        try:
            record = read_record(path)
        except ProvenanceError as error:
            problems.append(str(error))
            continue
        if record.rule != path.stem:
            problems.append(f"{path}: is the record of the rule {record.rule}")
        outputs |= record.outputs.keys()
        problems += map(str, changed_files(record, cache))
        raws |= {f"{folder}/{stem}.json" for folder, each in record.raw_files.items() for stem in each.repetitions}
    for raw in sorted(raws):
        try:
            read_metadata(Path(raw))
        except (MetadataError, OSError) as error:
            problems.append(str(error))
    made = (path for name in _RESULTS for path in Path(results).glob(name) if path.is_file())
    problems += [f"{path}: no record says how it was made" for path in sorted(made) if str(path) not in outputs]
    return Verification(len(outputs), len(raws), list(dict.fromkeys(problems)))


def followed(results: str, path: str) -> list[str]:
    """Return how a result was made, back to the commands that measured, as lines.

    For the result and each result that it was made from, the lines have its checksum, the rule that made it, the
    versions of the programs, the inputs, and the raw files with the fio command of the first repetition. These facts
    are from the records in the results folder. Results and inputs are not compared with their checksums. If a raw file
    or its metadata file was changed, a line says so in place of the command.

    Args:
        results: The results folder, relative to the working directory.
        path: The path of the result, relative to the working directory, such as ``results/tables/kapoor/scale.csv``.

    Raises:
        ProvenanceError: No record has the result, or a record was changed.
    """
    records = [read_record(each) for each in sorted((Path(results) / RECORDS).glob("*.json"))]
    by_output = {output: record for record in records for output in record.outputs}
    if path not in by_output:
        near = did_you_mean(path, by_output)
        raise ProvenanceError(f"{messages.printable(path)}: no record in {results}/{RECORDS} has this result.{near}")
    lines: list[str] = []
    waiting, seen = [path], {path}
    while waiting:
        current = waiting.pop(0)
        record = by_output[current]
        lines.append(f"{current}  sha256 {record.outputs[current]}")
        versions = {name: [each] if isinstance(each, str) else each for name, each in record.versions.items()}
        texts = (f"{name} {' and '.join(each)}" for name, each in versions.items() if each)
        lines.append(f"  made by the rule {record.rule}, with {', '.join(texts)}")
        inputs = {name: digest for name, digest in record.inputs.items() if not name.startswith("src/")}
        lines += [f"  from {name}  sha256 {digest}" for name, digest in inputs.items()]
        lines.append(f"  and {len(record.inputs) - len(inputs)} source files, which the record lists")
        for folder, of_cell in record.raw_files.items():
            first = Path(folder) / f"{of_cell.repetitions[0]}.json"
            lines.append(f"  from {folder}, {len(of_cell.repetitions)} repetitions  sha256 {of_cell.sha256}")
            try:
                command = read_metadata(first).get("command")
            except (MetadataError, OSError) as error:
                lines.append(f"    {messages.printable(error)}")
            else:
                lines += [f"    {shlex.join(command)}"] if command else []
        made = [name for name in record.inputs if name in by_output and name not in seen]
        seen.update(made)
        waiting += made
    return lines
