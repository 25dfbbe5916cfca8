"""seaborn's interface of objects, ``so``, loaded without what takes longest of it to load and draws nothing here.

seaborn wants scipy's statistics for densities, and has a stand-in where there are none. They would be a third of the
time that a notebook takes to start. Who imports scipy.stats afterwards gets it.
"""

import sys

_STATISTICS = "scipy.stats"
_loaded = sys.modules.get(_STATISTICS)
sys.modules[_STATISTICS] = None  # type: ignore[assignment]  # which makes an import of it fail
try:
    import seaborn.objects as so
finally:
    del sys.modules[_STATISTICS]
    if _loaded is not None:
        sys.modules[_STATISTICS] = _loaded

__all__ = ["so"]
