"""Metadata files: how each raw file was made, with checksums of both files.

The raw file of a cell's third repetition is ``03.json``; its metadata file is ``03.sidecar.json``.
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
    """The error raised if a raw file or its metadata file has changed or is not valid.

    The message names the file and says what the user can do.
    """


def metadata_path(raw: Path) -> Path:
    """Return the path of a raw file's metadata file.

    It is ``03.sidecar.json`` for the raw file ``03.json`` in the same folder.
    """
    return raw.with_name(f"{raw.stem}.sidecar.json")


def read_metadata(raw: Path) -> MetadataFile:
    """Return the metadata of a raw file, after checking both files.

    Args:
        raw: The path of the raw file.

    Returns:
        The content of the metadata file.

    Raises:
        MetadataError: One of these is true:

            - the metadata file is missing
            - the raw file or the metadata file does not match its SHA-256
            - the metadata are of another cell than the name of the folder says
            - the metadata are of another repetition than the name of the raw file says
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
    """Write the metadata file of a raw file.

    The SHA-256 of the written text is added to the file as the key ``sha256``, so that later changes are detected.

    Args:
        raw: The path of the raw file.
        content: The metadata without the key ``sha256``.
    """
    sealed_json.write_sealed_json(metadata_path(raw), content)


def is_measured(metadata: RepetitionMetadata) -> bool:
    """Return whether the repetition of a raw file was measured.

    A repetition is not measured if a drive setting of its cell does not take effect. The raw file then stores the
    reasons instead of a result.
    """
    return not steps_not_in_effect(metadata["tuning"])
