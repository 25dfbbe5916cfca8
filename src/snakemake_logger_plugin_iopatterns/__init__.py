"""Snakemake's logger plugin `iopatterns`, which profiles/default selects.

Snakemake finds a logger plugin by the name of its package, and uses its class `LogHandler`.
"""

from iopatterns.workflow.run_log import RunLog as LogHandler

__all__ = ["LogHandler"]
