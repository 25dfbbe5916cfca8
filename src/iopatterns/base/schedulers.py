"""The I/O schedulers of Linux' block layer: those of today's kernels, and which of them stands for an older one."""

from collections.abc import Mapping

# Since Linux 5.0 all queues are multi-queue, and have these
MODERN_SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")
# What sources measured with, and what the models of twins have (`host.scheduler`)
LEGACY_SCHEDULERS = ("none", "noop", "deadline", "cfq")
# What took the place of which
SUCCESSORS: Mapping[str, str] = {"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}


def modern_equivalent(scheduler: str) -> str:
    """Return the scheduler that stands for an older one in today's kernels, and any other as it is."""
    return SUCCESSORS.get(scheduler, scheduler)
