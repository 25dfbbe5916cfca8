"""Twins: simulated drives that unmodified fio, sdparm and sg3-utils drive in virtual time.

``load_model(name)`` reads a model; ``run_on_twin(model, command)`` runs a program on it; ``replay_trace(model, trace)`` replays a trace
without fio; ``fit_model(model, points, move)`` fits it to measured points; ``list_models()`` gives the models that there are.
"""

TYPE_CHECKING = False  # importing it takes longer than all else that `twin run` imports
if TYPE_CHECKING:
    from iopatterns.twin.error import TwinError
    from iopatterns.twin.fitting import FitResult, MeasuredPoint, PointRun, fit_model
    from iopatterns.twin.models import Model, list_models, load_model
    from iopatterns.twin.running import run_on_twin
    from iopatterns.twin.trace_replay import ReplayResult, replay_trace

__all__ = [
    "FitResult",
    "MeasuredPoint",
    "Model",
    "PointRun",
    "ReplayResult",
    "TwinError",
    "fit_model",
    "list_models",
    "load_model",
    "replay_trace",
    "run_on_twin",
]

# The names by module; looked up when it is asked for, since `twin run` must begin at once.
_HOMES = {
    "error": ("TwinError",),
    "fitting": ("Fit", "FitRun", "Point", "fit"),
    "models": ("Model", "load", "names"),
    "replaying": ("Replayed", "replay"),
    "running": ("run",),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
