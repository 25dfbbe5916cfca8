"""Rule `capture`: compare the recorded traces with the committed ones."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import command_line, files, messages
from iopatterns.workflow import capture

if TYPE_CHECKING:
    snakemake: Any  # Snakemake defines it before it runs a script

same = True
with messages.copied_to(Path(snakemake.log[0])), command_line.errors_reported("iopatterns"):
    for study in dict.fromkeys(each.study for each in capture.load_recordings(Path.cwd())):
        folder = Path(capture.RECORDED_TRACES) / study
        made = capture.recording_provenance(Path.cwd(), study, folder.glob("*.parquet"))
        files.write_json(folder / capture.PROVENANCE_FILE, made)
        is_same, line = capture.compare_with_shipped(Path.cwd(), made, study)
        messages.say(line)
        same = same and is_same
if not same:
    sys.exit(1)
