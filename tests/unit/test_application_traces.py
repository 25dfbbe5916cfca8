"""The commands of `iopatterns calls`."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from iopatterns.cli import iopatterns_command


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(iopatterns_command, ["calls", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return 2, f"{type(done.exception).__name__}: {done.exception}"
    return done.exit_code, done.output


def test_a_faulty_line_ends_a_conversion_with_one_message_and_no_file(tmp_path: Path) -> None:
    trace, output = tmp_path / "t", tmp_path / "t.parquet"
    trace.write_text('7 1.1 open("/f", O_RDONLY) = 3\n7 1.2 read(3, 5\n7 1.3 read(3, "", 5) = 5\n')
    command = [sys.executable, "-m", "iopatterns", "calls", "convert", str(trace), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    fault = f"iopatterns: error: {trace}, line 2: no result after the call of 'read': '3, 5'"
    assert done.stderr == f"{fault}. `iopatterns calls convert --skip-bad` leaves out faulty lines\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    done = subprocess.run([*command, "--skip-bad"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Skipped 1 faulty lines" in done.stderr
    assert "2 calls of 1 processes" in done.stdout


def test_the_commands_mark_a_stand_in(tmp_path: Path) -> None:
    output = str(tmp_path / "cth.parquet")
    status, printed = run("stand-in", "Sandia-cth", output)
    assert (status, "(stand-in)" in printed) == (0, True)
    assert "Sandia-cth (stand-in)" in run("show", output)[1]
    status, printed = run("logs", output, "--to", str(tmp_path / "logs"), "--process", "3")
    assert status == 0, printed
    files = [path.name for path in (tmp_path / "logs/files").iterdir()]
    assert len(files) == 2
    assert all(name.startswith("stand-in.") for name in files)
    status, printed = run("logs", output, "--to", str(tmp_path / "logs"))
    assert status == 2
    assert "has files that iopatterns did not write there" in printed
