"""Sealed JSON files: each contains the SHA-256 of its own text.

Edits and damage are therefore noticed.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iopatterns.base import files

# The line with the SHA-256 of all other lines. Only keys of the outermost object are indented by two spaces.
_OWN_SUM = re.compile(rb'^  "sha256": "([0-9a-f]{64})",\n', re.MULTILINE)


def write_sealed_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a sealed JSON file: a JSON file that contains the SHA-256 of its text.

    The key ``sha256`` is added. Its value is the SHA-256 of the text without this key's line. The file is written
    atomically, and replaces an existing file.

    Args:
        path: The file.
        content: The mapping to write, without the key ``sha256``. At least one key must come after ``sha256`` in
            alphabetical order.
    """
    text = files.json_text(content)
    with_sum = files.json_text({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()})
    assert _OWN_SUM.sub(b"", with_sum.encode()) == text.encode()
    files.write_atomically(path, lambda temporary: temporary.write_bytes(with_sum.encode()))


def has_seal(found: bytes) -> bool:
    """Return whether a file contains the SHA-256 of its own text, right or wrong.

    `write_sealed_json` writes such files.

    Args:
        found: The content of the file.
    """
    return len(_OWN_SUM.findall(found)) == 1


def is_unchanged(found: bytes) -> bool:
    """Return whether a file of `write_sealed_json` still matches its own SHA-256.

    The result is False if the file contains no SHA-256 of its own text.

    Args:
        found: The content of the file.
    """
    lines = _OWN_SUM.findall(found)
    return len(lines) == 1 and lines[0].decode() == hashlib.sha256(_OWN_SUM.sub(b"", found)).hexdigest()
