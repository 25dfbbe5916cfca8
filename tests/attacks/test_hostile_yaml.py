"""Tests that malicious YAML is refused with one line, in bounded time and memory."""

from pathlib import Path

import pytest
from support import make_odd_files, refusal_message

from iopatterns.base import yaml_schema

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 2_000))

HOSTILE = {
    "aliases of aliases": (LAUGHS, "aliases expanded"),
    "a chain of aliases": (CHAIN, "nested too deeply"),
    "an alias of itself": ("a: &a [*a]", "there is no complete value with the anchor '&a'"),
    "30,000 brackets": ("[" * 30_000, "line 1: not valid YAML: nested too deeply; at most 50 levels are"),
    "30,000 braces": ("{a: " * 30_000, "nested too deeply"),
    "30,000 dashes": ("- " * 30_000, "nested too deeply"),
    "deep indentation": ("".join(" " * depth + "k:\n" for depth in range(1_000)), "line 50: not valid YAML: nested"),
    "many keys": ("".join(f"k{number}: 1\n" for number in range(300_000)), "too long; at most 100,000 keys"),
    "an object of Python": ("a: !!python/object/apply:os.system [x]", "line 1: not valid YAML: the tag '!!python/"),
    "bytes": ("a: !!binary aGk=", "the tag '!!binary' is not supported"),
    "a merge key": ("a: &a {x: 1}\nb:\n  <<: *a\n", "line 3: not valid YAML: merge keys"),
    "a key that occurs twice": ("a: 1\na: 2\n", "line 2: not valid YAML: key 'a' occurs twice"),
    "a key that is not text": ("1: a\n", "a key must be text"),
    "a key that is a list": ("? [a]\n: b\n", "a key must be text"),
    "two documents": ("a: 1\n---\nb: 2\n", "a second document begins here"),
    "NUL in a text": ('a: "x\\0y"', "the character NUL"),
    "infinity": ("a: .inf", "neither a finite number nor a boolean"),
    "a tag that does not fit": ("a: !!int abc", "neither a finite number nor a boolean"),
    "a control character": ("a: \x07", "control characters are not allowed"),
}


def _refused(folder: Path, file: str = "file.yaml") -> str:
    message = refusal_message(lambda: yaml_schema.read_yaml(folder, file), yaml_schema.ConfigError, 400)
    assert message.startswith(file)
    return message


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    text, expected = HOSTILE[name]
    (tmp_path / "file.yaml").write_text(text)
    assert expected in _refused(tmp_path)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("fifo", "it is not a regular file"),
        ("zero", "it is not a regular file"),
        ("folder", "it is a folder"),
        ("loop", "Too many levels of symbolic links"),
        ("sparse", "it has 10,737,418,240 bytes; at most 4,194,304 are read"),
        ("binary", "not UTF-8 text at byte 0"),
    ],
)
def test_a_file_that_is_not_text_is_refused(tmp_path: Path, place: str, expected: str) -> None:
    make_odd_files(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert expected in _refused(tmp_path, place)


def test_dates_and_very_long_numbers_remain_text(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(f"date: 2020-01-02\nlong: {'9' * 5_000}\nshort: 0x10\n")
    assert yaml_schema.read_yaml(tmp_path, "file.yaml") == {"date": "2020-01-02", "long": "9" * 5_000, "short": 16}


def test_aliases_have_the_value_of_their_anchor(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text("a: &a [1, 2.5, yes, null, 'x']\nb: *a\n")
    assert yaml_schema.read_yaml(tmp_path, "file.yaml") == {key: [1, 2.5, True, None, "x"] for key in "ab"}


def test_ten_thousand_mistakes_are_counted_but_not_listed() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer", "x-hint": "a number"}}
    with pytest.raises(yaml_schema.ConfigError) as caught:
        yaml_schema.require_valid("file.yaml", {f"k{number}\x1b[31m": "x" * 10_000 for number in range(10_000)}, schema)
    lines = str(caught.value).splitlines()
    assert lines[-1] == "file.yaml: and 9980 more mistakes"
    assert len(lines) == 21
    assert max(map(len, lines)) < 400
    assert "\x1b" not in str(caught.value)
