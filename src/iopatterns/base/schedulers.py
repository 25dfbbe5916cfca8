"""The I/O schedulers of the Linux block layer, modern and legacy.

Legacy schedulers, such as cfq, were removed in Linux 5.0.
"""

from collections.abc import Mapping

# Schedulers of multi-queue devices, the only ones since Linux 5.0
MODERN_SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")
# Schedulers of the sources, and of the models of simulated drives (`host.scheduler`)
LEGACY_SCHEDULERS = ("none", "noop", "deadline", "cfq")
# Modern successors of legacy schedulers
SUCCESSORS: Mapping[str, str] = {"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}


def modern_equivalent(scheduler: str) -> str:
    """Return the modern successor of a legacy I/O scheduler of Linux.

    The successor is ``none`` for ``noop``, ``mq-deadline`` for ``deadline``, and ``bfq`` for ``cfq``. Any other name is
    returned unchanged.
    """
    return SUCCESSORS.get(scheduler, scheduler)
