"""The programs that determine the results on a simulated drive: simulator and fio."""

from iopatterns.configuration import kinds
from iopatterns.measuring import fio
from iopatterns.raw.records import CellMetadata

_NONE = "-"


def simulator() -> str:
    """Return the SHA-256 of the sources of the installed simulator."""
    from iopatterns import _twin  # only simulated drives need it

    return _twin.SOURCES_SHA256


def programs_of(metadata: CellMetadata) -> str:
    """Return the programs that determine a result, as text: simulator and version of fio.

    The text is empty for a real drive, whose results cannot be repeated. No version of fio is given for a replay of a
    block trace, and for a cell whose settings did not take effect: fio did not run.

    Args:
        metadata: The metadata of the result.
    """
    specification = metadata["specification"]
    if specification["drive"]["kind"] not in kinds.SIMULATED_KINDS:
        return ""
    version = _NONE if "replay" in specification else metadata.get("fio_version", _NONE)
    return f"{metadata.get('simulator', _NONE)} {version}"


def are_current(programs: str) -> bool:
    """Return whether programs are those that are installed here.

    Without fio, the version of fio is not compared.

    Args:
        programs: The text that `programs_of` returned.
    """
    if not programs:
        return True
    of_simulator, version = programs.split(" ", 1)
    if of_simulator != simulator():
        return False
    try:
        return version in {_NONE, fio.version()}
    except fio.FioError:
        return True
