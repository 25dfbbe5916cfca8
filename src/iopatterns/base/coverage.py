"""How much of a file of another program a reader represents."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from iopatterns.base.messages import printable

_MOST_PARTS = 8


@dataclass
class Coverage:
    """How much of its source a reader represents.

    A reader fills the object while it reads. The numbers are complete at the end of the source.

    Attributes:
        represented: Number of records that the reader returned, by kind, such as ``reads``.
        recorded: Number of records that the source says to have, by the same kinds. A kind is missing if the source
            does not have its number.
        parts: Number of returned records by part of the source, such as a file or a device; empty for a single part.
        left_out: Number of records that the reader did not return, by reason or name.
        remarks: Other differences between the source and what the reader returned, and advice, as sentences.
    """

    represented: Counter[str] = field(default_factory=Counter)
    recorded: dict[str, int] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything, before the source is read again."""
        for each in (self.represented, self.recorded, self.parts, self.left_out, self.remarks):
            each.clear()

    def remark(self, sentence: str) -> None:
        """Add a sentence to the remarks, unless it is there."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known to be missing."""
        lacks = any(self.represented[kind] != count for kind, count in self.recorded.items())
        return not (lacks or +self.left_out or self.remarks)

    def text(self) -> str:
        """Return the coverage as one line, such as ``coverage: 65,536 of 1,000,000 reads (6.6%), 0 writes``."""
        kinds = dict.fromkeys([*self.represented, *self.recorded])
        shown = ", ".join(map(self._count, kinds)) or "nothing"
        sentences = [f"coverage: {shown}"]
        if len(self.parts) > 1:
            most = [f"{printable(name)} ({count:,})" for name, count in list(self.parts.items())[:_MOST_PARTS]]
            rest = f" and {len(self.parts) - _MOST_PARTS:,} more" if len(self.parts) > _MOST_PARTS else ""
            sentences.append(f"by part: {', '.join(most)}{rest}")
        missing = [f"{count:,} {printable(reason)}" for reason, count in self.left_out.items() if count]
        sentences.append(f"left out: {', '.join(missing)}" if missing else "nothing left out")
        return "; ".join([*sentences, *self.remarks])

    def short_text(self) -> str:
        """Return the coverage for a table, such as ``9 reads, 0 writes; 34 left out``."""
        counts = ", ".join(map(self._count, dict.fromkeys([*self.represented, *self.recorded])))
        missing = sum(self.left_out.values())
        return f"{counts}; {missing:,} left out" if missing else counts

    def _count(self, kind: str) -> str:
        count, recorded = self.represented[kind], self.recorded.get(kind)
        if recorded is None:
            return f"{count:,} {kind}"
        share = f" ({count / recorded:.1%})" if recorded and count != recorded else ""
        return f"{count:,} of {recorded:,} {kind}{share}"

    def to_dict(self) -> dict[str, object]:
        """Return the attributes that are not empty, for JSON."""
        numbers = {"represented": self.represented, "recorded": self.recorded, "parts": self.parts}
        found = {**numbers, "left_out": +self.left_out}
        named: dict[str, object] = {name: dict(counts) for name, counts in found.items() if counts}
        return named | ({"remarks": list(self.remarks)} if self.remarks else {})

    def to_json(self) -> str:
        """Return the coverage as a JSON object, for the metadata of a Parquet file."""
        return json.dumps(self.to_dict())

    def update(self, stored: Mapping[str, object]) -> None:
        """Add what `to_dict` has returned for another reading of the same records, except the records' numbers.

        Args:
            stored: The object. Entries of other types than those of `to_dict` are ignored.
        """
        for name in ("recorded", "parts", "left_out"):
            value = stored.get(name)
            if isinstance(value, Mapping):
                numbers = {str(key): count for key, count in value.items() if isinstance(count, int)}
                getattr(self, name).update(numbers)
        remarks = stored.get("remarks")
        for sentence in remarks if isinstance(remarks, list) else []:
            self.remark(str(sentence))
