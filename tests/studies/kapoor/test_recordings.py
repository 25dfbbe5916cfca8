"""The recordings of kapoor's programs in a real kernel."""

from pathlib import Path

import pytest
from linux_kernel import needs_kernel
from support import ROOT

from iopatterns.twin import traces
from iopatterns.twin.traces import parquet
from iopatterns.workflow import capture


def test_each_level_has_a_recording() -> None:
    found = {each.name: each for each in capture.load_recordings(ROOT, "kapoor")}
    assert {"locality-read-512", "locality-read-64k", "mix", "zombies-small-20"} <= set(found)
    assert "export CHUNK=512\n" in found["locality-read-512"].script()
    assert "mount_options" in found["mix"].options


@pytest.mark.slow
@needs_kernel
def test_the_phases_of_a_recording_match_its_trace(tmp_path: Path) -> None:
    made, shipped = tmp_path / "trace.parquet", ROOT / capture.SHIPPED_TRACES / "kapoor/zombies-large-1.parquet"
    capture.record_trace(ROOT, "kapoor", "zombies-large-1", made)
    phases = parquet.read_phases(made)
    assert phases == parquet.read_phases(shipped)
    assert list(phases) == ["prepare", "run", "end"]
    (piece,) = traces.read_pieces(made)
    # the trace begins with mkfs and ends with writes of unmounting the file system
    first, last = piece["arrival_ns"].iloc[0], piece["arrival_ns"].iloc[-1]
    assert first < phases["prepare"] < phases["run"] < phases["end"] < last
