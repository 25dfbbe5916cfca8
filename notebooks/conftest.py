"""Lets `pytest --nbval notebooks` pass whatever was run in this checkout: on the measurement that the tests record."""

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from nbval import plugin
from support import copy_recorded_results, recorded_studies


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Start the kernels in a project whose measurement is the recorded one: they write there, and not to results/."""
    with tempfile.TemporaryDirectory(prefix="iopatterns-") as folder, pytest.MonkeyPatch.context() as patch:
        project = copy_recorded_results(Path(folder) / "project", recorded_studies())
        start = plugin.RunningKernel

        def started_there(name: str, **options: Any) -> Any:
            return start(name, **{**options, "cwd": str(project / "notebooks")})

        patch.setattr(plugin, "RunningKernel", started_there)
        return (yield)
