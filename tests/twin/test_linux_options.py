"""Options, commands and output files of `twin linux` that can be tested without a kernel."""

from pathlib import Path

import pandas as pd
import pytest
from linux_kernel import linux
from pyarrow import parquet

from iopatterns.twin import linux as twin_linux
from iopatterns.twin import models, traces
from iopatterns.twin.error import TwinError


def test_a_missing_kernel_is_reported_with_the_command_that_builds_it(tmp_path: Path) -> None:
    done = linux("--kernel", str(tmp_path / "none"), "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "./reproduce.sh linux" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fs", "ntfs"), "'ntfs' is not one of"),
        (("--memory", "much"), "'much' is no size"),
        (("--memory", "1M"), "Give 64 MiB or more"),
        (("--queue-depth", "0"), "1 to 128 (its link.queue_slots"),
        (("--wall-limit", "0.1 s"), "less than a second"),
        (("--folder", "/no/such"), "no such folder"),
        (("--fs", "none", "--mount-options", "discard"), "leave out"),
        (("--fs", "none", "--fs-size", "1 GiB"), "leave out --mkfs-options, --mount-options and --fs-size"),
        (("--fs-size", "1k"), "Give 1 MiB or more"),
        (("--fs-size", "900 GiB"), "not more than the capacity of the drive"),
        (("--trace-all",), "Give --trace too"),
        (("--mkfs-options", "'"), "No closing quotation"),
        (("--keep", "/etc/passwd"), "the file exists"),
        (("--trace", "trace.txt"), ".parquet or .csv"),
        (("--set", "capacity.size=no"), "capacity.size"),
        (("--queue", "wbt_lat_usec"), "not of the form NAME=VALUE"),
        (("--queue", "../../size=1"), "not of the form NAME=VALUE"),
    ],
)
def test_invalid_options_are_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "linux").touch()
    done = linux("--kernel", str(tmp_path / "linux"), *words, "--", "true")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "message"), [("--sqthread_poll=1", "polls without pause"), ("--clocksource=cpu", "clock_gettime")]
)
def test_options_of_fio_that_stop_virtual_time_are_refused(option: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "linux").touch()
    done = linux("--kernel", str(tmp_path / "linux"), "--", "fio", "--name=a", "--ioengine=io_uring", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_options_in_a_job_file_are_checked(tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text("[a]\nioengine=io_uring\nsqthread_poll=1\n")
    with pytest.raises(TwinError, match="sqthread_poll"):
        twin_linux._guest_command(["fio", str(job)])


HEAD = "operation,offset_bytes,size_bytes,time_ns,dispatched_ns,completed_ns\n"


def written_as_parquet(folder: Path, rows: str) -> pd.DataFrame:
    """Return the Parquet trace made from the CSV lines that the machine writes."""
    wanted = twin_linux.LinuxOptions(trace=folder / "there/trace.parquet")
    with twin_linux._outputs(wanted, models.load_model("px05smb040"), []) as files:
        files["trace"].write((HEAD + rows).encode())
        files["trace"].flush()
    assert wanted.trace is not None
    return pd.read_parquet(wanted.trace)


def test_a_parquet_trace_equals_the_converted_csv_trace(tmp_path: Path) -> None:
    rows = "write,4096,8192,1000,1200,5000\nflush,0,0,2000,,\n"
    found = written_as_parquet(tmp_path, rows)
    assert list(found["operation"]) == ["write", "flush"]
    assert list(found["size_bytes"]) == [8192, 0]
    assert list(found["time_ns"]) == [0, 1000]
    assert list(found["completed_ns"].astype("Int64").fillna(-1)) == [4000, -1]
    csv = tmp_path / "trace.csv"
    csv.write_text(HEAD + rows)
    traces.convert_trace(csv, tmp_path / "converted.parquet")
    written, converted = (parquet.read_table(tmp_path / name) for name in ("there/trace.parquet", "converted.parquet"))
    added = dict(written.schema.metadata.items() - converted.schema.metadata.items())
    assert set(added) == {b"iopatterns.trace.drive"}
    assert written.replace_schema_metadata(converted.schema.metadata).equals(converted, check_metadata=True)


def test_a_command_without_requests_has_an_empty_trace(tmp_path: Path) -> None:
    found = written_as_parquet(tmp_path, "")
    assert found.empty
    assert list(found) == HEAD.strip().split(",")
