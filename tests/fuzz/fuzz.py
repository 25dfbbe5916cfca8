"""Fuzz one reader with Atheris: ``python tests/fuzz/fuzz.py TARGET [OPTION OF LIBFUZZER]... [CORPUS]...``.

Atheris measures which code each input reaches. Inputs that reach new code are written to the first corpus. An input
that causes an exception is written to the working directory.
"""

import importlib.util
import sys
from pathlib import Path

import atheris

# Atheris cannot instrument modules that the loader of an editable installation loads. Python's own loader finds the
# sources and, in the second folder, the compiled module.
_SOURCES = Path(__file__).resolve().parents[2] / "src"


def _use_sources() -> None:
    installed = importlib.util.find_spec("iopatterns._twin")
    assert installed is not None
    assert installed.origin is not None
    for name in [name for name in sys.modules if name.partition(".")[0] == "iopatterns"]:
        del sys.modules[name]
    sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in type(each).__module__]
    sys.path.insert(1, str(_SOURCES))
    with atheris.instrument_imports(include=["iopatterns"]):
        import iopatterns
    iopatterns.__path__.append(str(Path(installed.origin).parent))


_use_sources()
with atheris.instrument_imports(include=["iopatterns", "fio_parser_json"]):
    import targets  # type: ignore[import-not-found]  # the folder of this program is first in sys.path

if __name__ == "__main__":
    target = targets.TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
