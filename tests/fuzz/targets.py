"""What is fuzzed: readers of untrusted files, each as a function of the bytes of a file.

A target returns if the reader accepts or refuses the file. Any exception is a fault of the reader.
"""

import contextlib
import hashlib
import lzma
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from fio_parser_json.documents import FioParseError, as_text, parse_documents
from fio_parser_json.logs import log_bins, log_samples
from fio_parser_json.tables import disk_util, jobs, latency_bins, sync_latencies

from iopatterns.base import yaml_files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.input_file import SkippedLines
from iopatterns.calls import dxt, open_trace
from iopatterns.configuration import iologs
from iopatterns.measuring import machine
from iopatterns.measuring.drives import own_folder
from iopatterns.measuring.tuning import journal
from iopatterns.raw import archive, metadata_files
from iopatterns.twin import models, traces
from iopatterns.twin.traces import parquet

_FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))


def _file(content: bytes, name: str) -> Path:
    """Return the path of a file with a content."""
    path = _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.write_bytes(content)
    return path


def fio_results(content: bytes) -> None:
    """fio's JSON output: documents and all tables of them."""
    with contextlib.suppress(FioParseError):
        documents = parse_documents(as_text(content), "fuzzed")
        for table in (jobs, latency_bins, sync_latencies):
            with contextlib.suppress(FioParseError):
                table(documents)
        disk_util(documents)


def fio_logs(content: bytes) -> None:
    """fio's logs of latencies and bandwidths, and of histograms."""
    for name, read in (("x_clat.1.log", log_samples), ("x_clat_hist.1.log", log_bins)):
        with contextlib.suppress(FioParseError):
            read(_file(content, name))


def block_traces(content: bytes) -> None:
    """Traces of requests: CSV, blktrace, blkparse, fio's I/O logs, Parquet."""
    for name in ("trace", "trace.csv"):
        path = _file(content, name)
        for skipped in (None, SkippedLines()):
            with contextlib.suppress(IoPatternsError):
                for _ in traces.read_pieces(path, skipped=skipped):
                    pass
    if content.startswith(b"PAR1"):
        with contextlib.suppress(IoPatternsError):
            parquet.read_phases(path)


def call_traces(content: bytes) -> None:
    """Traces of system calls: strace, fio's I/O logs, Parquet."""
    if dxt.is_darshan_log(content[:4096]):
        return  # a library in C reads it, in a process of its own
    path = _file(content, "calls")
    for skipped in (None, SkippedLines()):
        with contextlib.suppress(IoPatternsError):
            for _ in open_trace([path], skipped=skipped).pieces():
                pass


def iolog(content: bytes) -> None:
    """I/O logs of fio that a workload replays."""
    with contextlib.suppress(IoPatternsError):
        iologs.load_iolog(_file(content, "requests.iolog"))


def archives(content: bytes) -> None:
    """Archives of raw files, before and after decompression."""
    for packed in (content, lzma.compress(content, preset=0)):
        path = _file(packed, "drive.tar.xz")
        with contextlib.suppress(IoPatternsError):
            archive.read_archive(path)
        with contextlib.suppress(IoPatternsError):
            archive.unpack_archive(path, _FOLDER / "raw/drive")


def state_files(content: bytes) -> None:
    """Journals of disk settings, and notes about the file of a drive."""
    path = _file(content, "journal/disk-000000000000.sda.json")
    path.parent.chmod(0o755)
    path.chmod(0o600)
    with contextlib.suppress(IoPatternsError):
        journal.read_journal(path)
    folder = os.open(_FOLDER, os.O_RDONLY)
    try:
        own_folder.OwnFolder(folder).read_json(_file(content, "note").name)
    finally:
        os.close(folder)


def metadata(content: bytes) -> None:
    """Metadata files of raw files, with the right checksum of their own content."""
    raw = _file(b"{}", "raw/twin/study/cell-00000000/01.json")
    own = b'  "sha256": "%s",\n' % hashlib.sha256(content).hexdigest().encode()
    first, line_break, rest = content.partition(b"\n")
    _file(first + line_break + own + rest, str(metadata_files.metadata_path(raw).relative_to(_FOLDER)))
    with contextlib.suppress(IoPatternsError):
        metadata_files.read_metadata(raw)


def configuration(content: bytes) -> None:
    """YAML files of config/, and their edits in place."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    with contextlib.suppress(yaml_files.YamlError):
        parsed = yaml_files.parse_yaml(text)
        yaml_files.line_of(text, ("studies", 0))
        edited = yaml_files.add_list_item(text, "studies", "new", ["old"])
        if "new" not in parsed["studies"]:
            assert yaml_files.parse_yaml(yaml_files.remove_list_item(edited, "studies", "new")) == parsed
    with contextlib.suppress(IoPatternsError):
        yaml_schema.read_yaml(_FOLDER, _file(content, "config.yaml").name)


def twin_models(content: bytes) -> None:
    """Model files of simulated drives."""
    with contextlib.suppress(IoPatternsError):
        models.load_model(_file(content, "model.yaml"))


def mount_table(content: bytes) -> None:
    """The table of mounts, with names that users choose: a name in each line of the content."""
    names = [name for name in content.split(b"\n") if b"\0" not in name]
    escaped = [
        b"/" + b"".join(b"\\%03o" % byte if byte in b" \t\n\\" else bytes([byte]) for byte in name) for name in names
    ]
    lines = b"".join(b"21 1 8:1 / %s rw,relatime - ext4 %s rw\n" % (name, name) for name in escaped)
    path = _file(lines, "mountinfo")
    with mock.patch.object(machine, "_table_lines", return_value=machine._table_lines(str(path))):
        found = machine.mounts()
    assert [os.fsencode(str(mount.point)) for mount in found] == [
        os.fsencode(Path("/" + os.fsdecode(name))) for name in names
    ]


TARGETS: dict[str, Callable[[bytes], Any]] = {
    target.__name__: target
    for target in (
        fio_results,
        fio_logs,
        block_traces,
        call_traces,
        iolog,
        archives,
        state_files,
        metadata,
        configuration,
        twin_models,
        mount_table,
    )
}
