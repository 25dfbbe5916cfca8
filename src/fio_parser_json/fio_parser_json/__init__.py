"""pandas tables of the output of fio: results in JSON or JSON+, and log files."""

import importlib
from typing import TYPE_CHECKING

from fio_parser_json.coverage import TableCoverage
from fio_parser_json.documents import Document, FioParseError, parse_documents, read_documents
from fio_parser_json.sources import Skipped, all_documents

if TYPE_CHECKING:
    from fio_parser_json.logs import log_bins, log_samples
    from fio_parser_json.tables import disk_util, jobs, latency_bins, sync_latencies

__all__ = [
    "Document",
    "FioParseError",
    "Skipped",
    "TableCoverage",
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
_MODULES = dict.fromkeys(("disk_util", "jobs", "latency_bins", "sync_latencies"), "fio_parser_json.tables")
_MODULES |= dict.fromkeys(("log_bins", "log_samples"), "fio_parser_json.logs")


def __getattr__(name: str) -> object:
    """Return a table function such as `jobs`, imported on first use.

    Reading documents therefore does not import pandas.

    Raises:
        AttributeError: The package has no such table function.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


__version__ = "0.2.0"
