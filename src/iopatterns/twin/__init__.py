"""Twins: simulated drives that unmodified fio, sdparm and sg3-utils drive in virtual time.

``load(name)`` reads a model; ``run(model, command)`` runs a program on it; ``replay(model, trace)`` replays a trace
without fio; ``fit(model, points, move)`` fits it to measured points; ``names()`` gives the models that there are.
"""

TYPE_CHECKING = False  # importing it takes longer than all else that `twin run` imports
if TYPE_CHECKING:
    from iopatterns.twin.error import TwinError
    from iopatterns.twin.fitting import Fit, FitRun, Point, fit
    from iopatterns.twin.models import Model, load, names
    from iopatterns.twin.replaying import Replayed, replay
    from iopatterns.twin.running import run

__all__ = ["Fit", "FitRun", "Model", "Point", "Replayed", "TwinError", "fit", "load", "names", "replay", "run"]

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
