"""SECURITY.md names existing tests, and all tests of attacks."""

import re

from support import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"tests/\w+/test_\w+\.py", TEXT))


def test_every_named_test_exists_and_every_attack_is_named() -> None:
    assert [name for name in sorted(NAMED) if not (ROOT / name).is_file()] == []
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "tests/attacks").glob("test_*.py")} <= NAMED


def test_every_promise_has_a_test() -> None:
    promised = TEXT.partition("## What is promised\n")[2].partition("## What is not promised\n")[0]
    promises = re.split(r"^(?=\*\*)", promised, flags=re.MULTILINE)[1:]
    assert promises
    assert [promise for promise in promises if "\n- `tests/" not in promise] == []
