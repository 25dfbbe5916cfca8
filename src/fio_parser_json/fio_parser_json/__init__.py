"""fio JSON and JSON+ output as tidy pandas tables."""

from typing import TYPE_CHECKING

from fio_parser_json.documents import Document, FioParseError, parse_documents, read_documents

if TYPE_CHECKING:
    from fio_parser_json.tables import jobs, latency_bins

__all__ = ["Document", "FioParseError", "jobs", "latency_bins", "parse_documents", "read_documents"]


def __getattr__(name: str) -> object:
    """Load the tables, and pandas with them, when first asked for: reading documents does without."""
    if name in {"jobs", "latency_bins"}:
        from fio_parser_json import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"
