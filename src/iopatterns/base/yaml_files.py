"""A strict YAML reader for files that people write.

A file may contain only values that JSON can represent. Each key may occur once. Size, nesting and aliases have limits
that no real configuration exceeds.

PyYAML alone is not strict enough: it expands aliases without limit, overflows the C stack on deeply nested brackets,
and silently uses the second of two equal keys. This module therefore uses only the parser of PyYAML. It builds the
content from the parser's events, and checks each limit while it does so.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import yaml

from iopatterns.base.messages import printable

MAX_YAML_BYTES = 4 * 2**20
MAX_YAML_NODES = 100_000
MAX_YAML_DEPTH = 50
# longer plain text is never read as a number
_LONGEST_NUMBER = 200

_TAG = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """The error raised for a YAML text that this package does not accept.

    The text is not valid YAML, or breaks a rule of `parse_yaml`, such as the greatest accepted depth. Or a list in the
    text cannot be edited.

    Attributes:
        line: Line of the problem, from 1; None if it is unknown.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _Loader(yaml.CSafeLoader):
    """The YAML parser, which recognises numbers, booleans and null.

    Unlike in PyYAML, dates stay text.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _Node(NamedTuple):
    """A value built from the events of the parser, with its extent.

    A node is a scalar, a list or a mapping.

    Attributes:
        value: The value.
        nodes: The number of nodes in the value, including itself, with aliases expanded.
        height: The number of nested levels in the value; 1 for a scalar.
    """

    value: Any
    nodes: int
    height: int


def parse_yaml(text: str) -> Any:
    """Return the content of a text with one YAML document.

    The content consists of dict, list, str, int, float, bool and None. All keys are str. An empty text gives None.
    Dates stay text. Aliases are expanded. A text may have at most 100,000 keys and values, aliases expanded, and 50
    nested levels.

    Raises:
        YamlError: The text is not valid YAML, exceeds a limit, contains several documents, or contains a key twice. Or
            it has content that JSON cannot represent, such as an infinite number or a key that is not text. Merge keys
            (``<<``) are not supported either.
    """
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
    """Return the line, from 1, at which a value is defined in a YAML text.

    Args:
        text: A text that `parse_yaml` accepts.
        path: Keys and list indices that lead from the top level to the value. For example, ``["a", 0]`` leads to the
            first item of the list under the key ``a``.

    Returns:
        The line of the value's key, or of the value itself if it is an item of a list. If the path leads to no value,
            the line of its last existing part; 1 if no part exists.
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


# ---- Editing of lists in place, which keeps comments and layout of the text


def remove_list_item(text: str, key: str, item: str) -> str:
    """Return a YAML text from which one item of a list is removed.

    The rest of the text, including comments, stays unchanged.

    Args:
        text: The text.
        key: The top-level key of the list. The list must be in brackets, such as ``[a, b]``.
        item: The item to remove. If the list contains it several times, the first is removed.

    Raises:
        YamlError: The text is not valid, there is no list in brackets under the key, the list contains other lists or
            mappings, or the edited text would not have the wanted list.
        ValueError: The list does not contain the item.
    """
    start, items = _flow_list(text, key)
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
    """Return a YAML text to which one item of a list is added.

    The rest of the text, including comments, stays unchanged.

    Args:
        text: The text.
        key: The top-level key of the list. The list must be in brackets, such as ``[a, b]``.
        item: The new item.
        preceding: Items that must come before the new item. The new item is inserted directly after the last of them in
            the list. If the list contains none of them, the new item becomes the first.

    Raises:
        YamlError: The text is not valid, there is no list in brackets under the key, the list contains other lists or
            mappings, or the edited text would not have the wanted list.
    """
    start, items = _flow_list(text, key)
    values, wanted = [node.value for node in items], set(preceding)
    at = max((number for number, value in enumerate(values, start=1) if value in wanted), default=0)
    if at:
        place, added = items[at - 1].end_mark.index, f", {item}"
    else:
        place, added = start + 1, f"{item}, " if items else item
    return _edited(text, (place, place, added), key, [*values[:at], item, *values[at:]])


def _flow_list(text: str, key: str) -> tuple[int, list[yaml.ScalarNode]]:
    """Return the list in brackets under a top-level key of a YAML text.

    Returns:
        The position of the opening bracket, and the items.

    Raises:
        YamlError: There is no list in brackets, such as ``[a, b]``, under the key, or it contains other lists or
            mappings.
    """
    parse_yaml(text)  # compose() has no limits of its own
    root = yaml.compose(text, Loader=_Loader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    node = next((value for name, value in pairs if name.value == key), None)
    if not isinstance(node, yaml.SequenceNode) or not node.flow_style:
        raise YamlError(f"{key} is not a list in brackets, such as [a, b]")
    if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        raise YamlError(f"{key} must contain names only", node.start_mark.line + 1)
    return node.start_mark.index, node.value


def _edited(text: str, change: tuple[int, int, str], key: str, expected: list[str]) -> str:
    """Replace a part of a list in a YAML text, and check the result.

    Args:
        text: The text.
        change: Position of the beginning, position of the end, and replacement of the part.
        key: The top-level key of the list that contains the part.
        expected: The list after the replacement.

    Raises:
        YamlError: The list differs from ``expected`` after the replacement.
    """
    begin, end, replacement = change
    edited = text[:begin] + replacement + text[end:]
    if parse_yaml(edited)[key] != expected:
        raise YamlError(f"{key} cannot be edited")
    return edited


class _Builder:
    """A builder of the content of one YAML document, from the parser's events."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._next = loader.get_event
        self._read: dict[str, Callable[[Any], Any]] = {
            "int": loader.construct_yaml_int,
            "float": loader.construct_yaml_float,
            "bool": loader.construct_yaml_bool,
            "null": loader.construct_yaml_null,
        }
        self._anchors: dict[str, _Node] = {}  # of complete values
        self._begun: set[str] = set()  # anchors
        self._count = 0

    def document(self) -> Any:
        self._next()  # start of the stream
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._node(self._next(), 1).value
        self._next()  # end of the document
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _error("a second document begins here; a file has one document", event)
        return value

    def _node(self, event: Any, depth: int) -> _Node:
        before = self._count
        self._counted(1, event)
        self._check_anchor(event)
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self._scalar(event), 1, 1)
        elif isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        else:
            if depth >= MAX_YAML_DEPTH:
                raise _error(f"nested too deeply; at most {MAX_YAML_DEPTH} levels are allowed", event)
            build = self._mapping if isinstance(event, yaml.MappingStartEvent) else self._sequence
            value, height = build(event, depth + 1)
            node = _Node(value, self._count - before, height + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _check_anchor(self, event: Any) -> None:
        """Raise YamlError if a value has the anchor of an earlier one, which PyYAML's own functions refuse."""
        if event.anchor is None or isinstance(event, yaml.AliasEvent):
            return
        if event.anchor in self._begun:
            raise _error(f"the anchor '&{printable(event.anchor, 50)}' occurs twice; rename one of them", event)
        self._begun.add(event.anchor)

    def _counted(self, nodes: int, event: Any) -> None:
        self._count += nodes
        if self._count > MAX_YAML_NODES:
            raise _error(f"too long; at most {MAX_YAML_NODES:,} keys and values are allowed, aliases expanded", event)

    def _alias(self, event: yaml.AliasEvent, depth: int) -> _Node:
        node = self._anchors.get(str(event.anchor))
        if node is None:
            raise _error(f"there is no complete value with the anchor '&{printable(event.anchor, 50)}' above", event)
        self._counted(node.nodes - 1, event)
        if depth + node.height - 1 > MAX_YAML_DEPTH:
            raise _error(f"nested too deeply; at most {MAX_YAML_DEPTH} levels are allowed, aliases expanded", event)
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
                raise _error(f"key '{printable(key, 100)}' occurs twice", event)
            node = self._node(self._next(), depth)
            mapping[key] = node.value
            height = max(height, node.height)
        return mapping, height

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text, tag = event.value, event.tag
        if "\0" in text:
            raise _error("the character NUL is not allowed", event)
        if tag in {None, "!"}:
            if not event.implicit[0] or len(text) > _LONGEST_NUMBER:
                return text
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        kind = tag.removeprefix(_TAG)
        if kind == "merge":
            raise _error("merge keys ('<<') are not supported; write out the keys", event)
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
            raise _error(f"'{printable(text, 50)}' is neither a finite number nor a boolean", event) from None
        return value


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in {None, "!", f"{_TAG}{kind}"}:
        raise _unknown_tag(event)


def _unknown_tag(event: Any) -> YamlError:
    tag = str(event.tag).replace(_TAG, "!!")
    return _error(f"the tag '{printable(tag, 50)}' is not supported; remove it", event)


def _error(problem: str, event: Any) -> YamlError:
    return YamlError(problem, event.start_mark.line + 1)
