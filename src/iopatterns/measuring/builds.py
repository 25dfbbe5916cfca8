"""The programs that determine the results on a simulated drive: simulator and fio.

A result is out of date if another version of the simulator or of fio made it.
"""

from iopatterns.configuration import kinds
from iopatterns.measuring import fio
from iopatterns.raw.records import CellMetadata

_NONE = "-"


def simulator() -> str:
    """Return the SHA-256 sum of the sources of the installed simulator.

    The sum identifies the version of the program that simulates drives. It has 64 hexadecimal digits.
    """
    from iopatterns import _twin  # only simulated drives need it

    return _twin.SOURCES_SHA256


def programs_of(metadata: CellMetadata) -> str:
    """Return the simulator and the version of fio that determine a result, as text.

    Args:
        metadata: The metadata of the result, as in the metadata file of a raw file.

    Returns:
        The checksum of the simulator, a blank, and the version of fio. A dash stands for an unknown checksum or
        version. It also stands for the version if fio did not run: in a replay of a block trace, and in a cell (drive,
        settings and workload) whose settings did not take effect. The text is empty for a real drive, whose results
        cannot be repeated.
    """
    specification = metadata["specification"]
    if specification["drive"]["kind"] not in kinds.SIMULATED_KINDS:
        return ""
    version = _NONE if "replay" in specification else metadata.get("fio_version", _NONE)
    return f"{metadata.get('simulator', _NONE)} {version}"


def are_current(programs: str) -> bool:
    """Return whether the programs that made a result are those installed here.

    The version of fio is not compared if the text contains none, or if fio is not installed. The answer is True for a
    real drive.

    Args:
        programs: The simulator and the version of fio, in the text that `programs_of` returned.
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
