"""Metadata files: how each raw file was made, with checksums of both files.

A cell is one configuration: a drive, its settings and a workload. A raw file contains the result of one repetition of a
cell, such as fio's JSON output. The raw file of the third repetition is ``03.json``; its metadata file, in the same
folder, is ``03.sidecar.json``.
"""

from pathlib import Path

from iopatterns.base import files, messages, sealed_json
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw import cells
from iopatterns.raw.records import MetadataFile, RepetitionMetadata
from iopatterns.raw.tuning_steps import steps_not_in_effect

# Marks the folder of a drive below data/raw whose raw files come from an archive; `archive.unpack_archive` writes it
UNPACKED = ".unpacked.json"


class MetadataError(IoPatternsError):
    """Error about a raw file or metadata file that is missing, changed or invalid.

    A raw file contains the result of one repetition, such as fio's JSON output. Its metadata file records how the raw
    file was made. The message names the faulty file and says what the user can do.
    """


def metadata_path(raw: Path) -> Path:
    """Return the path of a raw file's metadata file, whether or not the file exists.

    A raw file contains the result of one repetition, such as fio's JSON output. Its metadata file is in the same
    folder. The metadata file of ``03.json`` is ``03.sidecar.json``.
    """
    return raw.with_name(f"{raw.stem}.sidecar.json")


def read_metadata(raw: Path) -> MetadataFile:
    """Check a raw file and its metadata file, and return the metadata.

    A raw file contains the result of one repetition of a cell, such as fio's JSON output. A cell is one configuration:
    a drive, its settings and a workload. The metadata file ``03.sidecar.json`` records how the raw file ``03.json`` was
    made, and has the checksums of both files.

    Args:
        raw: The path of the raw file, such as ``data/raw/px05smb040/saif2020/randread-4k-q1-j1-1a2b3c4d/03.json``.

    Returns:
        The content of the metadata file.

    Raises:
        MetadataError: The message says what the user can do. One of these is true:

            - The metadata file is missing, unreadable or not a valid metadata file.
            - The content of the raw file or of the metadata file does not match its SHA-256.
            - The metadata describe another cell than the name of the folder does.
            - The metadata describe another repetition than the name of the raw file does.

        OSError: The raw file cannot be read.
    """
    path = metadata_path(raw)
    comes_again = "unpacked" if (raw.parent.parent.parent / UNPACKED).exists() else "measured"
    remedy = f"Delete {raw.name}; it is {comes_again} again."
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        raise MetadataError(f"{raw}: its metadata file {path.name} is missing. {remedy}") from None
    except OSError as error:
        raise MetadataError(f"{path}: cannot be read: {error.strerror}. Make it readable.") from None
    if not sealed_json.has_seal(found):
        raise MetadataError(
            f"{path}: contains no SHA-256 of its own content: it was written by an earlier version, or it is damaged."
            f" {remedy}"
        )
    if not sealed_json.is_unchanged(found):
        raise MetadataError(f"{path}: changed since it was written (according to its SHA-256). {remedy}")
    try:
        content = files.decode_json(found, MetadataFile)
        specification, execution = content["specification"], content["execution"]
        is_of_cell = cells.folder_matches(raw.parent.name, specification)
        is_of_execution = raw.stem == f"{execution:02d}"
    except (ValueError, RecursionError) as error:
        raise MetadataError(
            f"{path}: not a metadata file of this package ({messages.printable(error)}). {remedy}"
        ) from None
    if not (is_of_cell and is_of_execution):
        other = "repetition" if is_of_cell else "cell"
        raise MetadataError(f"{path}: belongs to another {other} than its name says. {remedy}")
    if content["raw"]["sha256"] != files.sha256(raw):
        raise MetadataError(
            f"{raw}: changed since it was measured (its SHA-256 is not the one in {path.name})."
            f" Restore the original, or delete the file; it is {comes_again} again."
        )
    return content


def write_metadata(raw: Path, content: MetadataFile) -> None:
    """Write the metadata file of a raw file, and replace an existing one.

    For the raw file ``03.json``, the metadata file is ``03.sidecar.json`` in the same folder. This function adds the
    key ``sha256`` with the SHA-256 of the metadata file's other lines, so that later changes are detected.

    Args:
        raw: The path of the raw file.
        content: The metadata without the key ``sha256``.
    """
    sealed_json.write_sealed_json(metadata_path(raw), content)


def is_measured(metadata: RepetitionMetadata) -> bool:
    """Return whether a repetition of a cell was measured.

    A repetition is not measured if a drive setting of the cell does not take effect, such as a scheduler that the drive
    does not have. Its raw file then contains the reasons instead of a result.

    Args:
        metadata: The metadata of the repetition, as `read_metadata` returns them.
    """
    return not steps_not_in_effect(metadata["tuning"])
