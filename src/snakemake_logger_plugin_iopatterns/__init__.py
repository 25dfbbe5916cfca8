"""What Snakemake finds by this name as its logger `iopatterns`, which profiles/default asks for."""

from iopatterns.workflow.run_log import RunLog as LogHandler

__all__ = ["LogHandler"]
