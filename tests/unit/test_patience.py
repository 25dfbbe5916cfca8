"""Facts about time limits: a slow machine gets more time, what hangs is ended."""

import subprocess
import sys
import time

import patience
import pytest
from patience import Limit, bounded, communicate, run, stretched, wait, wait_for


def slow_by(monkeypatch: pytest.MonkeyPatch, *factors: float) -> None:
    """Have the machine so many times slower than usual, one factor each time that it is asked; the last stays."""
    left = list(factors)
    monkeypatch.setattr(patience, "slowness", lambda: left.pop(0) if len(left) > 1 else left[0])


def test_no_machine_is_faster_than_the_one_that_limits_are_written_for() -> None:
    assert patience.slowness() >= 1
    assert stretched(2) >= 2


def test_what_hangs_is_told_after_its_limit_has_been_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    started = time.monotonic()
    with pytest.raises(AssertionError, match=r"no answer \(limit of 0\.1 s, on an idle machine\)"):
        wait_for(lambda: False, 0.1, otherwise="no answer")
    assert time.monotonic() - started >= 0.2


def test_a_slow_machine_gets_as_much_more_time_as_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 10)
    ready = time.monotonic() + 0.5
    wait_for(lambda: time.monotonic() > ready, 0.1)


def test_a_machine_that_becomes_slower_still_gets_more_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1, 8)
    ready = time.monotonic() + 0.6
    wait_for(lambda: time.monotonic() > ready, 0.1)


def test_speed_is_not_asked_for_before_a_limit_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "slowness", lambda: pytest.fail("asked"))
    assert not Limit(60).expired()
    assert run([sys.executable, "-S", "-c", ""], 60).returncode == 0


def test_a_command_keeps_its_output_through_a_stretched_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 100)
    code = "import time; print('first', flush=True); time.sleep(0.3); print('last')"
    done = run([sys.executable, "-S", "-c", code], 0.05, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "first\nlast\n")


@pytest.mark.parametrize("how", [wait, communicate])
def test_a_command_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch, how: object) -> None:
    slow_by(monkeypatch, 1)
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(subprocess.TimeoutExpired):
        (wait if how is wait else communicate)(process, 0.1)
    assert process.poll() is not None


def test_what_hangs_inside_a_bounded_test_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    with pytest.raises(pytest.fail.Exception, match=r"not done within 0\.1 s"), bounded(0.1):
        time.sleep(60)


def test_what_ends_in_time_is_not_disturbed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_by(monkeypatch, 1)
    with bounded(0.1):
        pass
    time.sleep(0.3)
