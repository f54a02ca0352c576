"""Ufuncs: calls, methods, and as values."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Unary = Callable[[Array], Array]

TABLE: dict[str, np.ufunc] = {"add": np.add, "maximum": np.maximum, "hypot": np.hypot}


def folded(f: np.ufunc, x: Array) -> Array:
    out: Array = f.reduce(x, axis=0)
    return out


def compose(*parts: Unary) -> Unary:
    def call(x: Array) -> Array:
        for part in parts:
            x = part(x)
        return x

    return call


def softmax(x: Array) -> Array:
    e: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    total: Array = e.sum(axis=-1, keepdims=True)
    return e / total


x = np.arange(12.0).reshape(3, 4)
for name, f in TABLE.items():
    assert folded(f, x).shape == (4,), name
assert np.add.accumulate(x, axis=1)[0, -1] == 6
assert np.multiply.outer(x[0], x[0]).shape == (4, 4)
np.add.at(x, (0, [0, 0]), 1.0)
assert x[0, 0] == 2
y = np.empty_like(x)
np.sqrt(x, out=y, where=x > 0)
assert np.isclose(softmax(x).sum(), 3.0)
assert compose(np.negative, np.abs)(x)[0, 0] == 2
fraction, whole = np.modf(x / 2)
assert fraction.shape == whole.shape
assert np.add.nin == 2 and np.add.identity == 0
with np.errstate(divide="ignore"):
    assert np.isinf(np.log(np.zeros(2))).all()
