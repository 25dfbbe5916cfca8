"""Simulated drives ("twins") that unmodified programs use in virtual time.

A program sees the simulated drive as a block device. The clocks that the program reads show the time of the simulation.
A model is a YAML file with the parameters of a drive.

- ``list_models()`` returns the names of the available models, such as ``px05smb040``.
- ``load_model(name)`` reads a model file.
- ``run_on_twin(model, command)`` runs a program on a simulated drive.
- ``replay_trace(model, trace)`` replays a block trace (a list of requests to a drive) without fio.
- ``read_points(paths)`` reads measured points from fio's output and from CSV tables.
- ``fit_model(model, table)`` fits parameters of a model to measured rates and latencies.
"""

TYPE_CHECKING = False  # importing `typing` takes longer than all other imports of `twin run`
if TYPE_CHECKING:
    from iopatterns.twin.error import TwinError
    from iopatterns.twin.fitting import FitResult, fit_model
    from iopatterns.twin.models import Model, list_models, load_model
    from iopatterns.twin.points import Points, read_points
    from iopatterns.twin.running import run_on_twin
    from iopatterns.twin.trace_replay import ReplayResult, replay_trace

__all__ = [
    "FitResult",
    "Model",
    "Points",
    "ReplayResult",
    "TwinError",
    "fit_model",
    "list_models",
    "load_model",
    "read_points",
    "replay_trace",
    "run_on_twin",
]

# Public names by module. A module is imported when one of its names is first used, so that `twin run` starts fast.
_PUBLIC_NAMES = {
    "error": ("TwinError",),
    "fitting": ("FitResult", "fit_model"),
    "models": ("Model", "list_models", "load_model"),
    "points": ("Points", "read_points"),
    "running": ("run_on_twin",),
    "trace_replay": ("ReplayResult", "replay_trace"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _PUBLIC_NAMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
