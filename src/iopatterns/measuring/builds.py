"""The programs that determine the results on a simulated drive: simulator and fio."""

from iopatterns.configuration import kinds
from iopatterns.measuring import fio
from iopatterns.raw.records import CellMetadata


def simulator() -> str:
    """Return the SHA-256 of the sources of the installed simulator."""
    from iopatterns import _twin  # only simulated drives need it

    return _twin.SOURCES_SHA256


def is_stale(metadata: CellMetadata) -> bool:
    """Return whether another simulator or fio made a result than those installed here.

    A stale result is measured again. Only results of simulated drives can be stale: those of real drives cannot be
    repeated. Replays of block traces do not run fio.

    Args:
        metadata: The metadata of the result.

    Raises:
        FioError: fio is not installed.
    """
    specification = metadata["specification"]
    if specification["drive"]["kind"] not in kinds.SIMULATED_KINDS:
        return False
    if metadata.get("simulator") != simulator():
        return True
    return "fio_version" in metadata and "replay" not in specification and metadata["fio_version"] != fio.version()
