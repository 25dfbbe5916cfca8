"""What fio writes as tidy pandas tables: its JSON and JSON+ output, and its logs."""

from typing import TYPE_CHECKING

from fio_parser_json.documents import Document, FioParseError, parse_documents, read_documents
from fio_parser_json.sources import Skipped, all_documents

if TYPE_CHECKING:
    from fio_parser_json.logs import log_bins, log_samples
    from fio_parser_json.tables import disk_util, jobs, latency_bins, sync_latencies

__all__ = [
    "Document",
    "FioParseError",
    "Skipped",
    "all_documents",
    "disk_util",
    "jobs",
    "latency_bins",
    "log_bins",
    "log_samples",
    "parse_documents",
    "read_documents",
    "sync_latencies",
]
_TABLES = {"disk_util", "jobs", "latency_bins", "sync_latencies"}
_LOGS = {"log_bins", "log_samples"}


def __getattr__(name: str) -> object:
    """Load the tables, and pandas with them, when first asked for: reading documents does without."""
    if name in _TABLES:
        from fio_parser_json import tables

        return getattr(tables, name)
    if name in _LOGS:
        from fio_parser_json import logs

        return getattr(logs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.2.0"
