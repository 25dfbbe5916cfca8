"""Types of the native module (src/twin/python)."""

from typing import Literal, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

SOURCES_SHA256: str

_Done = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]

class _Declared(TypedDict):
    group: str
    name: str
    text: str

class Number(_Declared):
    kind: Literal["number"]
    unit: str
    minimum: int
    maximum: int
    default: NotRequired[int]

class Ratio(_Declared):
    kind: Literal["ratio"]
    minimum: float
    maximum: float
    default: NotRequired[float]

class Toggle(_Declared):
    kind: Literal["toggle"]

class Choice(_Declared):
    kind: Literal["choice"]
    choices: list[str]

Parameter = Number | Ratio | Toggle | Choice

def parameters() -> list[Parameter]: ...
def groups(kind: str, mapping: str) -> list[str]: ...
def check(text: str, folder: str) -> None: ...
def counter_names() -> list[str]: ...
def caching_fields() -> dict[str, int]: ...

class Replay:
    def __init__(self, parameters: str, threads: int, depth: int, seed: int = 0) -> None: ...
    def record(self, path: str, interval_ns: int, interval_bytes: int) -> None: ...
    def feed(
        self,
        delay_ns: npt.NDArray[np.int64],
        operation: npt.NDArray[np.uint8],
        offset_bytes: npt.NDArray[np.uint64],
        size_bytes: npt.NDArray[np.uint64],
        after: npt.NDArray[np.uint64] | None = None,
    ) -> _Done: ...
    def finish(self) -> _Done: ...
    def counters(self) -> dict[str, int]: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...

class ScsiTarget:
    def __init__(self, text: str, folder: str) -> None: ...
    def execute(self, cdb: bytes, out: bytes, in_bytes: int) -> tuple[int, bytes, bytes]: ...
