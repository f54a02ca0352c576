"""Data types as values and as parameters."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Number = TypeVar("Number", np.float32, np.float64)
Scalar = TypeVar("Scalar", bound=np.generic)

RECORD: np.dtype[np.void] = np.dtype([("name", "U8"), ("position", "f8", (3,)), ("mass", "f4")])
KINDS: dict[str, np.dtype[Any]] = {"single": np.dtype(np.float32), "double": np.dtype("f8")}


def same_type(x: NDArray[Number], factor: Number) -> NDArray[Number]:
    return x * factor


def first(x: NDArray[Scalar]) -> Scalar:
    found: Scalar = x.ravel()[0]
    return found


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    return np.empty(count, dtype)


def bits(kind: np.dtype[np.floating[Any]]) -> int:
    return int(np.finfo(kind).bits)


planets = np.zeros(3, dtype=RECORD)
planets["mass"] = [1.0, 2.0, 3.0]
masses = planets["mass"]
assert masses.sum() == 6
assert same_type(np.ones(3, np.float32), np.float32(2)).dtype == np.float32
assert bool(first(np.array([True, False])))
assert empty(2, KINDS["single"]).itemsize == 4
assert bits(np.dtype(np.float64)) == 64
assert np.iinfo(np.int8).max == 127
assert np.issubdtype(KINDS["double"], np.floating)
assert np.result_type(np.int8, np.float32) == np.float32
assert np.can_cast(np.int32, np.float64)
when: np.datetime64 = np.datetime64("2020-01-01") + np.timedelta64(3, "D")
assert str(when) == "2020-01-04"
