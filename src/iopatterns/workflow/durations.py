"""What the last run took, kept for forecasts of the next: nothing that a run makes depends on it."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iopatterns.base import files
from iopatterns.measuring import progress

FILE = "results/.durations.json"
# Before any run: what a step takes of the default configuration on two processors, its own start included, and
# what a run takes beside its jobs
_STEP_S = {"collect": 3.0, "analyse": 9.0, "judge": 4.0, "report": 4.0}
_ANY_STEP_S, _BESIDE_S = 4.0, 8.0
_LEAST_FACTOR, _MOST_FACTOR = 0.1, 100.0


@dataclass(frozen=True)
class Durations:
    """What is known: how much longer measuring takes than was forecast, by drive and by kind of drive; seconds
    of each step by its rule; and seconds that a run takes beside its jobs.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    steps_s: Mapping[str, float] = field(default_factory=dict)
    beside_s: float = _BESIDE_S

    @classmethod
    def load(cls, root: Path) -> "Durations":
        """Read what the runs below ``root`` took; what is not known, or not readable, is as before any run."""
        try:
            content = json.loads((root / FILE).read_text(encoding="utf-8"))
            factors = {str(name): float(each) for name, each in content["factors"].items()}
            steps_s = {str(name): float(each) for name, each in content["steps_s"].items()}
            return cls(factors, steps_s, float(content["beside_s"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls()

    def measuring_s(self, drive: str, forecast_s: float, *, real: bool) -> float:
        """Return how long measuring takes on a drive that was forecast to take so long."""
        return forecast_s * self.factors.get(drive, self.factors.get(_kind(real), 1.0))

    def step_s(self, rule: str) -> float:
        """Return how long a step takes that measures nothing."""
        return self.steps_s.get(rule, _STEP_S.get(rule.partition("_")[0], _ANY_STEP_S))


@dataclass
class Run:
    """What a run takes since its process began, noted as its jobs end."""

    began_s: float = field(default_factory=lambda: time.monotonic() - progress.lived_s())
    jobs_s: float = 0.0
    steps_s: dict[str, float] = field(default_factory=dict)
    measured: dict[str, tuple[float, float, bool]] = field(default_factory=dict)

    def step(self, rule: str, took_s: float) -> None:
        """Note a step that measured nothing."""
        self.steps_s[rule] = took_s
        self.jobs_s += took_s

    def measuring(self, drive: str, forecast_s: float, took_s: float, *, real: bool) -> None:
        """Note what was measured on a drive, and how long it was forecast to take."""
        forecast, took, _ = self.measured.get(drive, (0.0, 0.0, real))
        self.measured[drive] = (forecast + forecast_s, took + took_s, real)
        self.jobs_s += took_s

    def keep(self, root: Path) -> None:
        """Add to what is known below ``root``; a run without any job teaches nothing."""
        if not self.jobs_s:
            return
        known = Durations.load(root)
        factors = dict(known.factors)
        for real in (False, True):
            of_kind = [each[:2] for each in self.measured.values() if each[2] is real]
            factors |= _factor(_kind(real), of_kind)
        for drive, each in self.measured.items():
            factors |= _factor(drive, [each[:2]])
        beside_s = max(0.0, time.monotonic() - self.began_s - self.jobs_s)
        content: dict[str, Any] = {
            "factors": {name: round(each, 4) for name, each in sorted(factors.items())},
            "steps_s": {name: round(each, 3) for name, each in sorted({**known.steps_s, **self.steps_s}.items())},
            "beside_s": round(beside_s, 3),
        }
        files.write_json(root / FILE, content)


def _kind(real: bool) -> str:
    return "(real drives)" if real else "(simulated drives)"


def _factor(name: str, of: Iterable[tuple[float, float]]) -> dict[str, float]:
    forecast_s, took_s = (sum(parts) for parts in zip(*of, strict=True)) if (of := list(of)) else (0.0, 0.0)
    return {name: min(max(took_s / forecast_s, _LEAST_FACTOR), _MOST_FACTOR)} if forecast_s and took_s else {}
