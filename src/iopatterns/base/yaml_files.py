"""Reads YAML that people write: what JSON can hold, each key once, and no more than a configuration needs.

PyYAML alone would expand aliases without end, overflow the C stack on nested brackets and keep the second of two equal
keys. The content is therefore built here, from the parser's events, and every bound is checked on the way.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import yaml

from iopatterns.base.messages import printable

MAX_YAML_BYTES = 4 * 2**20
MAX_YAML_NODES = 100_000
MAX_YAML_DEPTH = 50
# Longer plain text is no number, whatever its characters
_LONGEST_NUMBER = 200

_TAG = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """A text is no YAML, or holds what is not read here; ``line`` counts from 1, and is None where it is unknown."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _Loader(yaml.CSafeLoader):
    """The parser, and the rules by which plain text is a number, a truth value or nothing: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _Node(NamedTuple):
    """What was built of a node: its value, how many nodes it is with its aliases expanded, how deep it is nested."""

    value: Any
    nodes: int
    height: int


def parse_yaml(text: str) -> Any:
    """Return what a text of one YAML document holds: dict, list, str, int, float, bool, None. Raises YamlError."""
    loader = _Loader(text)
    try:
        return _Builder(loader).document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise YamlError(error.problem or " ".join(str(error).split()), line) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise YamlError(" ".join(str(error).split())) from None
    finally:
        loader.dispose()


def line_of(text: str, path: Iterable[str | int]) -> int:
    """Return the line, counted from 1, of the node at ``path`` in a text that `parse_yaml` accepts.

    A path consists of keys and list indices. Where the text has no such node, the line is that of the last node on the
    way to it.
    """
    node, line = yaml.compose(text, Loader=_Loader), 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


# ---- Lists edited in place, with all comments and the layout of the text


def remove_list_item(text: str, key: str, item: str) -> str:
    """Return a text whose list under a top-level key lacks an item. Raises YamlError where the list is no flow list."""
    start, _, items = _flow_list(text, key)
    values = [node.value for node in items]
    at = values.index(item)
    if len(items) == 1:
        begin, end = start + 1, items[0].end_mark.index
    elif at + 1 < len(items):
        begin, end = items[at].start_mark.index, items[at + 1].start_mark.index
    else:
        begin, end = items[at - 1].end_mark.index, items[at].end_mark.index
    return _edited(text, (begin, end, ""), key, values[:at] + values[at + 1 :])


def add_list_item(text: str, key: str, item: str, preceding: Iterable[str]) -> str:
    """Return a text whose list under a top-level key has one more item, after the last of ``preceding`` that it has.

    The item comes first where the list has none of them. Raises YamlError where the list is no flow list.
    """
    start, _, items = _flow_list(text, key)
    values, wanted = [node.value for node in items], set(preceding)
    at = max((number for number, value in enumerate(values, start=1) if value in wanted), default=0)
    if at:
        place, added = items[at - 1].end_mark.index, f", {item}"
    else:
        place, added = start + 1, f"{item}, " if items else item
    return _edited(text, (place, place, added), key, [*values[:at], item, *values[at:]])


def replace_list(text: str, key: str, items: Iterable[str]) -> str:
    """Return a text with another list under a top-level key. Raises YamlError where the list is no flow list."""
    start, end, _ = _flow_list(text, key)
    wanted = list(items)
    return _edited(text, (start, end, f"[{', '.join(wanted)}]"), key, wanted)


def _flow_list(text: str, key: str) -> tuple[int, int, list[yaml.ScalarNode]]:
    """Return begin and end of a flow list under a top-level key, and its items. Raises YamlError."""
    parse_yaml(text)  # bounds what is composed
    root = yaml.compose(text, Loader=_Loader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    node = next((value for name, value in pairs if name.value == key), None)
    if not isinstance(node, yaml.SequenceNode) or not node.flow_style:
        raise YamlError(f"{key} is no list in brackets, such as [a, b]")
    if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        raise YamlError(f"{key} holds more than names", node.start_mark.line + 1)
    return node.start_mark.index, node.end_mark.index, node.value


def _edited(text: str, change: tuple[int, int, str], key: str, expected: list[str]) -> str:
    """Return a text with a part of it replaced. Raises YamlError where its list does not read as expected then."""
    begin, end, replacement = change
    edited = text[:begin] + replacement + text[end:]
    if parse_yaml(edited)[key] != expected:
        raise YamlError(f"{key} cannot be edited")
    return edited


class _Builder:
    """Builds one document from a parser's events."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._next = loader.get_event
        self._read: dict[str, Callable[[Any], Any]] = {
            "int": loader.construct_yaml_int,
            "float": loader.construct_yaml_float,
            "bool": loader.construct_yaml_bool,
            "null": loader.construct_yaml_null,
        }
        self._anchors: dict[str, _Node] = {}
        self._count = 0

    def document(self) -> Any:
        self._next()  # the stream starts
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._node(self._next(), 1).value
        self._next()  # the document ends
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _error("a second document begins here; a file holds one", event)
        return value

    def _node(self, event: Any, depth: int) -> _Node:
        before = self._count
        self._counted(1, event)
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self._scalar(event), 1, 1)
        elif isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        else:
            if depth >= MAX_YAML_DEPTH:
                raise _error(f"nested too deeply; at most {MAX_YAML_DEPTH} levels are read", event)
            build = self._mapping if isinstance(event, yaml.MappingStartEvent) else self._sequence
            value, height = build(event, depth + 1)
            node = _Node(value, self._count - before, height + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _counted(self, nodes: int, event: Any) -> None:
        self._count += nodes
        if self._count > MAX_YAML_NODES:
            raise _error(f"too long; at most {MAX_YAML_NODES:,} keys and values are read, aliases expanded", event)

    def _alias(self, event: yaml.AliasEvent, depth: int) -> _Node:
        node = self._anchors.get(str(event.anchor))
        if node is None:
            raise _error(f"no complete value with the anchor '&{printable(event.anchor, 50)}' stands above", event)
        self._counted(node.nodes - 1, event)
        if depth + node.height - 1 > MAX_YAML_DEPTH:
            raise _error(f"nested too deeply; at most {MAX_YAML_DEPTH} levels are read, aliases expanded", event)
        return node

    def _sequence(self, start: yaml.SequenceStartEvent, depth: int) -> tuple[list[Any], int]:
        _check_tag(start, "seq")
        items: list[Any] = []
        height = 0
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            node = self._node(event, depth)
            items.append(node.value)
            height = max(height, node.height)
        return items, height

    def _mapping(self, start: yaml.MappingStartEvent, depth: int) -> tuple[dict[str, Any], int]:
        _check_tag(start, "map")
        mapping: dict[str, Any] = {}
        height = 0
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth).value
            if not isinstance(key, str):
                raise _error("a key must be text; put it in quotes", event)
            if key in mapping:
                raise _error(f"key '{printable(key, 100)}' stands twice", event)
            node = self._node(self._next(), depth)
            mapping[key] = node.value
            height = max(height, node.height)
        return mapping, height

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text, tag = event.value, event.tag
        if "\0" in text:
            raise _error("holds the character NUL, which no name and no text here has", event)
        if tag in {None, "!"}:
            if not event.implicit[0] or len(text) > _LONGEST_NUMBER:
                return text
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        kind = tag.removeprefix(_TAG)
        if kind == "merge":
            raise _error("merge keys ('<<') are not read here; write the keys out", event)
        if kind == "str":
            return text
        if kind not in self._read:
            raise _unknown_tag(event)
        try:
            if len(text) > _LONGEST_NUMBER:
                raise ValueError
            value = self._read[kind](yaml.ScalarNode(tag, text))
            if kind == "float" and not math.isfinite(value):
                raise ValueError
        except (ValueError, KeyError, OverflowError):
            raise _error(f"'{printable(text, 50)}' is no finite number and no truth value", event) from None
        return value


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in {None, "!", f"{_TAG}{kind}"}:
        raise _unknown_tag(event)


def _unknown_tag(event: Any) -> YamlError:
    shown = str(event.tag).replace(_TAG, "!!")
    return _error(f"the tag '{printable(shown, 50)}' is not read here; leave it out", event)


def _error(problem: str, event: Any) -> YamlError:
    return YamlError(problem, event.start_mark.line + 1)
