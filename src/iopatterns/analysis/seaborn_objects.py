"""seaborn's objects interface under the name ``so``, imported without scipy.stats.

Importing scipy.stats takes a third of the start time of a notebook. seaborn needs scipy.stats only for density
estimates, which this package does not use, and works without scipy.stats if the import fails. This module therefore
lets the import of scipy.stats fail while seaborn is imported. A later import of scipy.stats works as usual.
"""

import sys

_STATISTICS = "scipy.stats"
_loaded = sys.modules.get(_STATISTICS)
sys.modules[_STATISTICS] = None  # type: ignore[assignment]  # makes the import fail
try:
    import seaborn.objects as so
finally:
    del sys.modules[_STATISTICS]
    if _loaded is not None:
        sys.modules[_STATISTICS] = _loaded

__all__ = ["so"]
