"""Dependencies between the requests of a block trace, from the times of their submission and completion.

A block trace lists the requests that a drive received. A program that waits for its requests submits the next request
when an earlier request is complete. A trace does not name the request that a program waited for. It shows how many
requests were complete at each submission.

A dependent replay submits each request once as many requests are complete as in the trace, and after the same delay
since the last of these completions (the think time). The replay thus keeps the number of outstanding requests at each
submission, and their order: a request that had the drive for itself, such as a flush between two barriers, again has
the drive for itself.
"""

import numpy as np

from iopatterns.twin.traces import UNKNOWN_TIME


class Dependencies:
    """The dependencies of a trace that is read piece by piece.

    The memory use grows with the number of outstanding requests, not with the length of the trace.
    """

    def __init__(self) -> None:
        self._requests = 0
        self._complete = 0
        self._last_ns = 0  # of the completions counted so far
        self._outstanding_ns = np.empty(0, dtype=np.int64)
        self._prompt = 0

    def of(self, arrival_ns: np.ndarray, completed_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what the requests of the next piece of the trace wait for.

        Args:
            arrival_ns: Times of submission, which do not decrease, in nanoseconds.
            completed_ns: Times of completion, not earlier. A request whose completion is `UNKNOWN_TIME` counts as
                complete at once.

        Returns:
            Two arrays. The first (uint64) has the number of requests of the trace that were complete at each
            submission. The second (int64) has the time from the last of these completions to the submission, in
            nanoseconds; the time of submission itself if no request was complete.
        """
        completed_ns = np.where(completed_ns == UNKNOWN_TIME, arrival_ns, completed_ns)
        times_ns = np.sort(np.concatenate([self._outstanding_ns, completed_ns]))
        complete = np.searchsorted(times_ns, arrival_ns, side="right")
        # at equal times, a request does not wait for itself or for later requests
        complete = np.minimum(complete, self._requests - self._complete + np.arange(len(arrival_ns)))
        delay_ns = arrival_ns - np.concatenate([[self._last_ns], times_ns])[complete]
        self._count_prompt(times_ns, delay_ns[self._complete + complete > 0])
        after = (self._complete + complete).astype(np.uint64)
        if len(complete):
            newly = int(complete[-1])
            self._last_ns = int(times_ns[newly - 1]) if newly else self._last_ns
            self._outstanding_ns = times_ns[newly:]
            self._complete += newly
            self._requests += len(complete)
        return after, delay_ns

    def _count_prompt(self, times_ns: np.ndarray, delay_ns: np.ndarray) -> None:
        """Count the requests that follow a completion promptly, within a tenth of the usual time between completions.

        Args:
            times_ns: Sorted times of completion.
            delay_ns: Times from the last completion to the submission, of requests with an earlier completion.
        """
        gaps_ns = np.diff(times_ns)
        gaps_ns = gaps_ns[gaps_ns > 0]
        if len(gaps_ns):
            self._prompt += int((delay_ns <= np.median(gaps_ns) / 10).sum())

    @property
    def prompt_share(self) -> float:
        """Share of the requests so far that follow the completion of another request promptly.

        Promptly means: within a tenth of the median time between two completions. The share is about 0.1 if requests
        arrive regardless of completions, and nearly 1 if programs wait for their requests.
        """
        return self._prompt / self._requests if self._requests else 0.0
