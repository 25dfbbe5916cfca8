"""Simulate the workloads of measured points on a model, without fio."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iopatterns import _twin
from iopatterns.twin import models, points, streams
from iopatterns.twin.error import TwinError

_FEW_OFFSETS = 0.5  # random offsets, as a share of the blocks, that may be drawn independently of each other
_FEWEST_REQUESTS = 1000
# A run is long enough if its second half agrees with that of a run _LENGTHENED times shorter: rates, means and
# medians by _AGREEMENT, the 99th percentile by five times as much
_LENGTHENED = 4
_AGREEMENT = 0.02
_SHORTEST_RUN = 2000  # requests
_QUEUES = 20  # a run has at least this many times the outstanding requests
_BUFFERS = 4  # a run that writes fills the write buffer this many times


@dataclass(frozen=True)
class PointWorkload:
    """The workload of a measured point.

    Attributes:
        rw: Kind of workload as in fio, an item of `points.WORKLOADS`.
        bs_bytes: Size of each request.
        iodepth: Number of requests that each job keeps outstanding.
        numjobs: Number of concurrent jobs.
        rwmixread: Percentage of reads of randrw; of no effect on other workloads.
        region_bytes: Size of the part of the drive that the workload accesses, from its start; infinite for all of it.
    """

    rw: str
    bs_bytes: int
    iodepth: int = 1
    numjobs: int = 1
    rwmixread: float = 50
    region_bytes: float = math.inf

    @classmethod
    def of(cls, row: Mapping[Any, Any]) -> "PointWorkload":
        """Return the workload of a row with the columns `points.POINT_COLUMNS`."""
        size_bytes = float(row["size_bytes"])
        return cls(
            str(row["rw"]),
            int(row["bs_bytes"]),
            int(row["iodepth"]),
            int(row["numjobs"]),
            float(row["rwmixread"]),
            math.inf if math.isnan(size_bytes) else size_bytes,
        )

    @property
    def outstanding(self) -> int:
        """Number of requests that all jobs keep outstanding."""
        return self.iodepth * self.numjobs


def simulate(
    model: models.Model, workload: PointWorkload, requests: int, ramp: int = 0, seed: int = 1
) -> dict[str, float]:
    """Simulate a workload on a model; return its figures.

    Args:
        model: The model of the drive.
        workload: The workload.
        requests: Number of requests, those of the ramp included.
        ramp: Number of requests that come first and are not counted. It is a number and not a time, so that requests
            remain to be counted if the model is far too fast.
        seed: Seed of the offsets and operations, and of the drive's random numbers.

    Returns:
        Values by figure, see `points.FIGURE_COLUMNS`; only of directions with requests.

    Raises:
        TwinError: The drive is too small for one request per job, or its parameters contradict each other.
    """
    region = int(min(workload.region_bytes, model.size_bytes)) // workload.bs_bytes
    if region < workload.numjobs:
        raise TwinError(f"{model.name}: the drive has less than {workload.bs_bytes} bytes for each of the jobs")
    at_random = workload.rw.startswith("rand")
    columns = streams.synthetic_requests(
        np.random.Generator(np.random.PCG64(seed)),
        requests,
        bs_bytes=workload.bs_bytes,
        region_bytes=region * workload.bs_bytes,
        at_random=at_random,
        read_share=points.read_write_shares(workload.rw, workload.rwmixread)["read"],
        numjobs=workload.numjobs,
        each_once=requests > _FEW_OFFSETS * region,
    )
    try:
        native = _twin.Replay(model.text, workload.numjobs, workload.iodepth, seed)
    except (ValueError, RuntimeError) as error:
        raise TwinError(f"{model.name}: parameters.{error}") from None
    done = [native.feed(np.empty(0, np.int64), *columns), native.finish()]
    numbers = np.concatenate([each for each, _, _ in done]).astype(np.int64)
    latency_ns = np.concatenate([each for _, _, each in done])
    completed_ns = np.concatenate([each for _, each, _ in done]) + latency_ns
    counted = np.argsort(completed_ns, kind="stable")[ramp:]
    begin_ns = np.partition(completed_ns, ramp - 1)[ramp - 1] if ramp else 0
    duration_s = (native.end_ns - begin_ns) / 1e9
    per_second = len(counted) / duration_s
    shares = points.read_write_shares(workload.rw, workload.rwmixread)
    writes = columns[0][numbers[counted]].astype(bool)
    submit_us = _submit_us(model, workload)
    figures = {}
    for direction, mine in (("read", ~writes), ("write", writes)):
        latency_us = latency_ns[counted][mine] / 1e3
        if len(latency_us):
            # by the share of the workload, not by the drawn operations, whose number varies with the seed
            figures[f"{direction}_iops"] = per_second * shares[direction]
            figures[f"{direction}_lat_mean_us"] = float(latency_us.mean())
            for percentile in (50, 99):  # fio's completion latency begins after the submission
                value = float(np.percentile(latency_us, percentile, method="inverted_cdf"))
                figures[f"{direction}_clat_p{percentile}_us"] = max(value - submit_us, value / 100)
    return figures


def _submit_us(model: models.Model, workload: PointWorkload) -> float:
    """Return the time of a submission, by which fio's completion latency is shorter than its latency."""
    pages = -(-workload.bs_bytes // 4096)
    return (model.number("host.submit_time") + pages * model.number("host.page_time")) / 1e3


@dataclass(frozen=True)
class Times:
    """Duration of a measurement, from which the number of simulated requests follows.

    Attributes:
        rate: The measured rate in requests per second.
        runtime_s: Time of the measurement.
        ramp_s: Time before the measurement.
    """

    rate: float
    runtime_s: float
    ramp_s: float = 0.0

    @property
    def ramp(self) -> int:
        """Number of requests of the ramp."""
        return round(self.ramp_s * self.rate)

    @property
    def requests(self) -> int:
        """Number of requests of the ramp and of the measurement, of which the latter has at least a thousand."""
        return self.ramp + max(_FEWEST_REQUESTS, round(self.runtime_s * self.rate))


def settled(
    model: models.Model, workload: PointWorkload, times: Times, most_requests: int
) -> tuple[dict[str, float], int]:
    """Simulate a workload until its figures are settled, at most for the time of the measurement.

    The workload is simulated for `_LENGTHENED` times as many requests again and again. The figures are settled if the
    second half of a run agrees with the second half of the run before: rates, means and medians by 2 %, the 99th
    percentile by 10 %. A run with as many requests as the measurement counts all requests after the ramp.

    Args:
        model: The model of the drive.
        workload: The workload.
        times: The duration of the measurement.
        most_requests: Limit of the requests of a run.

    Returns:
        The figures, see `simulate`; and the number of requests of the shortest run that agrees with the next run.
    """
    complete = times.requests
    requests = max(_SHORTEST_RUN, _QUEUES * workload.outstanding, _buffered_requests(model, workload))
    before: dict[str, float] = {}
    shorter = requests
    while requests < min(complete, most_requests):
        figures = simulate(model, workload, requests, requests // 2)
        if before and agree(before, figures):
            return figures, shorter
        before, shorter = figures, requests
        requests *= _LENGTHENED
    if complete <= most_requests:
        return simulate(model, workload, complete, times.ramp), min(shorter, complete)
    return simulate(model, workload, most_requests, most_requests // 2), min(shorter, most_requests)


def agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether the figures of two runs agree: rates, means and medians by 2 %, the 99th percentile by 10 %."""
    return set(one) == set(other) and all(
        abs(math.log(one[name] / other[name])) <= _AGREEMENT * (5 if "p99" in name else 1) for name in one
    )


def _buffered_requests(model: models.Model, workload: PointWorkload) -> int:
    """Return how many requests fill the write buffer of a drive `_BUFFERS` times; 0 if the workload does not write."""
    share = points.read_write_shares(workload.rw, workload.rwmixread)["write"]
    if not share:
        return 0
    name = "write_buffer.size" if model.kind == "ssd" else "disk.write_cache"
    return round(_BUFFERS * model.number(name) / workload.bs_bytes / share)
