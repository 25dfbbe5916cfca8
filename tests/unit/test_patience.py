"""Time limits of tests are extended on slow machines, but end what hangs."""

import subprocess
import sys
import time
from collections.abc import Callable

import patience
import pytest
from patience import Limit, bounded, communicate, run, stretched, wait, wait_for


def slow_by(monkeypatch: pytest.MonkeyPatch, *factors: float) -> None:
    """Make the machine appear slower by these factors, one for each measurement."""
    left = list(factors)
    monkeypatch.setattr(patience, "slowness", lambda: left.pop(0) if len(left) > 1 else left[0])


def test_limits_are_never_shortened() -> None:
    assert patience.slowness() >= 1
    assert stretched(2) >= 2


def test_on_an_idle_machine_the_limit_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    started = time.monotonic()
    with pytest.raises(AssertionError, match=r"no answer \(limit of 0\.1 s, on an idle machine\)"):
        wait_for(lambda: False, 0.1, otherwise="no answer")
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize(("factors", "ready_s"), [((10,), 0.5), ((1, 8), 0.6)])
def test_a_slow_machine_gets_more_time(
    factors: tuple[float, ...], ready_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_by(monkeypatch, *factors)
    ready = time.monotonic() + ready_s
    wait_for(lambda: time.monotonic() > ready, 0.1)


def test_speed_is_not_measured_before_the_limit_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "slowness", lambda: pytest.fail("asked"))
    assert not Limit(60).expired()
    assert run([sys.executable, "-S", "-c", ""], 60).returncode == 0


def test_output_is_complete_after_an_extended_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 100)
    code = "import time; print('first', flush=True); time.sleep(0.3); print('last')"
    done = run([sys.executable, "-S", "-c", code], 0.05, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "first\nlast\n")


@pytest.mark.parametrize("wait_for_end", [wait, communicate])
def test_a_command_that_hangs_is_killed(
    monkeypatch: pytest.MonkeyPatch, wait_for_end: Callable[["subprocess.Popen[bytes]", float], object]
) -> None:
    slow_by(monkeypatch, 1)
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(subprocess.TimeoutExpired):
        wait_for_end(process, 0.1)
    assert process.poll() is not None


def test_a_bounded_test_that_hangs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    with pytest.raises(pytest.fail.Exception, match=r"not done within 0\.1 s"), bounded(0.1):
        time.sleep(60)


def test_a_bounded_test_that_ends_in_time_is_not_interrupted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    with bounded(0.1):
        pass
    time.sleep(0.3)
