"""Sidecars: beside each raw file how it came about, with sums that show whether either has changed since."""

import hashlib
import re
from pathlib import Path

from iopatterns.base import files, messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw import cells
from iopatterns.raw.records import MetadataFile, RepetitionMetadata
from iopatterns.raw.tuning_steps import steps_not_in_effect

# Lies in the folder of a drive below data/raw whose raw files come from an archive (`archive.unpack` writes it)
UNPACKED = ".unpacked.json"
# The line of a sidecar that holds the SHA-256 of all others. Keys of the outermost object alone are two spaces in.
_OWN_SUM = re.compile(rb'^  "sha256": "([0-9a-f]{64})",\n', re.MULTILINE)


class MetadataError(IoPatternsError):
    """A raw file or its sidecar is not as it was written; the message names it and says what to do."""


def metadata_path(raw: Path) -> Path:
    """Return the path of the sidecar of a raw file: ``03.sidecar.json`` beside ``03.json``."""
    return raw.with_name(f"{raw.stem}.sidecar.json")


def read_metadata(raw: Path) -> MetadataFile:
    """Return the sidecar of a raw file: what all who read one go through.

    Raises SidecarError where there is none, where a byte of it or of the raw file is not as it was written, and where
    it is of another cell or execution than the names of folder and file say.
    """
    sidecar = metadata_path(raw)
    comes_again = "unpacked" if (raw.parent.parent.parent / UNPACKED).exists() else "measured"
    remedy = f"Delete {raw.name}; it is {comes_again} again."
    try:
        found = sidecar.read_bytes()
    except FileNotFoundError:
        raise MetadataError(f"{raw}: its sidecar {sidecar.name} is missing. {remedy}") from None
    except OSError as error:
        raise MetadataError(f"{sidecar}: cannot be read: {error.strerror}. Make it readable.") from None
    lines = _OWN_SUM.findall(found)
    if len(lines) != 1:
        raise MetadataError(
            f"{sidecar}: holds no SHA-256 of its own content: it was written by an earlier version, which gave none, or"
            f" it is damaged. {remedy}"
        )
    if lines[0].decode() != hashlib.sha256(_OWN_SUM.sub(b"", found)).hexdigest():
        raise MetadataError(f"{sidecar}: changed since it was written (by the SHA-256 that it holds). {remedy}")
    try:
        content = files.decode_json(found, MetadataFile)
        specification, execution = content["specification"], content["execution"]
        is_of_cell = cells.folder_matches(raw.parent.name, specification)
        is_of_execution = raw.stem == f"{execution:02d}"
        # where nothing was measured fio drew nothing
        is_of_seed = content.get("randseed") in {None, cells.randseed(specification, execution)}
    except (ValueError, RecursionError) as error:
        raise MetadataError(
            f"{sidecar}: not a sidecar of this package ({messages.printable(error)}). {remedy}"
        ) from None
    if not (is_of_cell and is_of_execution and is_of_seed):
        raise MetadataError(
            f"{sidecar}: is of another {'execution' if is_of_cell else 'cell'} than its name says. {remedy}"
        )
    if content["raw"]["sha256"] != files.sha256(raw):
        raise MetadataError(
            f"{raw}: changed since it was measured (its SHA-256 is not the one in {sidecar.name})."
            f" Put the original back, or delete it; it is {comes_again} again."
        )
    return content


def write_metadata(raw: Path, content: MetadataFile) -> None:
    """Write the sidecar of a raw file, with the SHA-256 of all its bytes but the line that holds it."""
    text = files.json_text(content)
    with_sum = files.json_text({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()})
    assert _OWN_SUM.sub(b"", with_sum.encode()) == text.encode()
    files.write_atomically(metadata_path(raw), lambda temporary: temporary.write_bytes(with_sum.encode()))


def is_measured(sidecar: RepetitionMetadata) -> bool:
    """Return whether fio ran for a raw file; it did not where the drive does not take the cell's settings."""
    return not steps_not_in_effect(sidecar["tuning"])
