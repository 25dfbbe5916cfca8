"""pytest configuration for ``pytest --nbval notebooks``.

This command runs the notebooks and compares their outputs with the outputs in the committed notebooks. The committed
outputs show the recorded measurements in tests/studies. Therefore the notebooks run on the recorded measurements, and
not on measurements of this checkout.
"""

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from nbval import plugin
from support import copy_recorded_results, recorded_studies


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Run the notebooks in a temporary project that has the recorded measurements.

    The recorded measurements are those in tests/studies. The notebooks read and write files of the temporary project,
    not those in results/.
    """
    with tempfile.TemporaryDirectory(prefix="iopatterns-") as folder, pytest.MonkeyPatch.context() as patch:
        project = copy_recorded_results(Path(folder) / "project", recorded_studies())
        start = plugin.RunningKernel

        def started_there(name: str, **options: Any) -> Any:
            return start(name, **{**options, "cwd": str(project / "notebooks")})

        patch.setattr(plugin, "RunningKernel", started_there)
        return (yield)
