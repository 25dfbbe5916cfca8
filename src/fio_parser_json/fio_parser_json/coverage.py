"""What a table of fio results represents, and what it leaves out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class TableCoverage:
    """How much of its sources a table represents.

    Give a new object to a table function such as `jobs`, and look at it after the function has returned.

    Attributes:
        documents: Number of documents that were read.
        rows: Number of rows of the table.
        left_out: Number of parts of the documents that have no row, by description.
        fields: Names of the fields of jobs that no table has.
        remarks: Other differences between the documents and the table, as sentences.
    """

    documents: int = 0
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    fields: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)

    def remark(self, sentence: str) -> None:
        """Add a sentence to the remarks, unless it is there."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def text(self) -> str:
        """Return the coverage as one line, such as ``coverage: 2 rows of 1 document; left out: ...``."""
        documents = f" of {self.documents:,} document{'s' if self.documents != 1 else ''}" if self.documents else ""
        missing = [f"{count:,} {what}" for what, count in self.left_out.items() if count]
        sentences = [
            f"coverage: {self.rows:,} row{'s' if self.rows != 1 else ''}{documents}",
            f"left out: {', '.join(missing)}" if missing else "nothing left out",
            *self.remarks,
        ]
        if self.fields:
            sentences.append(f"fields of jobs in no table: {', '.join(sorted(self.fields))}")
        return "; ".join(sentences)
