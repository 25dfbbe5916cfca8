"""SECURITY.md names the tests that hold its promises: all of them are there, and none of the attacks is left out."""

import re

from support import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"tests/\w+/test_\w+\.py", TEXT))


def test_every_test_that_is_named_is_there() -> None:
    assert [name for name in sorted(NAMED) if not (ROOT / name).is_file()] == []


def test_every_attack_is_named() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/attacks").glob("test_*.py")}
    assert there - NAMED == set()


def test_every_promise_has_a_test() -> None:
    promised = TEXT.partition("## What is promised\n")[2].partition("## What is not promised\n")[0]
    promises = re.split(r"^(?=\*\*)", promised, flags=re.MULTILINE)[1:]
    assert promises
    assert [promise for promise in promises if not re.search(r"^- `tests/", promise, flags=re.MULTILINE)] == []
