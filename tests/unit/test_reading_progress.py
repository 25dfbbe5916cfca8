"""The progress bar of commands that read traces."""

import os
import pty
import subprocess
from pathlib import Path

import pandas as pd
import patience
import pytest
from twins import TWIN


def write_requests(path: Path, count: int) -> Path:
    """Write a trace in the form that the suffix of the path names: .csv, .parquet, or .log for an I/O log of fio."""
    if path.suffix == ".log":
        lines = (f"{at} /dev/sda write {at * 4096} 4096\n" for at in range(count))
        path.write_text(f"fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n{''.join(lines)}")
        return path
    requests = pd.DataFrame({"operation": "write", "offset_bytes": range(count), "size_bytes": 4096})
    requests["time_ns"] = range(count)
    if path.suffix == ".csv":
        requests.to_csv(path, index=False)
    else:
        requests.to_parquet(path)
    return path


# each takes a second or longer to read, and the bar appears after a quarter of a second
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "program"),
    [
        ("a.csv", 4_000_000, (*TWIN, "trace")),
        ("a.parquet", 5_000_000, (*TWIN, "trace")),
        ("a.log", 500_000, (*TWIN, "trace")),
        ("a.log", 500_000, (TWIN[0], "-m", "iopatterns", "calls", "convert")),
    ],
)
def test_a_terminal_shows_how_much_is_read(name: str, count: int, program: tuple[str, ...], tmp_path: Path) -> None:
    trace = write_requests(tmp_path / name, count)
    output, shown = on_a_terminal([*program, str(trace), str(tmp_path / "out.parquet")])
    assert str(count)[:-1] in output
    assert "Reading" not in output
    assert "Reading" in shown
    assert "iB" in shown


def on_a_terminal(command: list[str]) -> tuple[str, str]:
    """Run a command whose standard error is a terminal; return standard output and what the terminal received."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal has no other user
                break
            shown += piece
        assert process.stdout is not None
        output = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0, shown
    return output, shown.decode()


def test_without_a_terminal_the_progress_is_not_printed(tmp_path: Path) -> None:
    pd.DataFrame({"operation": ["read"], "offset_bytes": [0], "size_bytes": [512]}).to_csv(tmp_path / "a.csv")
    done = patience.run(
        [*TWIN, "trace", str(tmp_path / "a.csv"), str(tmp_path / "out.parquet")], 60, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "twin: coverage: 1 requests; nothing left out\n")
