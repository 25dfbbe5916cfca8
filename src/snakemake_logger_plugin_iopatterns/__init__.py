"""Snakemake's logger plugin `iopatterns`, which profiles/default selects.

Snakemake finds logger plugins by the names of their packages.
"""

from iopatterns.workflow.run_log import RunLog as LogHandler

__all__ = ["LogHandler"]
