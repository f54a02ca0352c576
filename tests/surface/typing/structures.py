"""Arrays in classes: attributes, protocols, properties, generics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Kind = TypeVar("Kind", bound=np.generic)


class Layer(Protocol):
    """A step of a network."""

    def __call__(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]: ...


@dataclass
class Dense:
    """A linear step with a bias."""

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(1, np.float32))

    def __call__(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        made: npt.NDArray[np.float32] = x @ self.weights + self.bias
        return np.maximum(made, np.float32(0))


class Ring(Generic[Kind]):
    """The last values of a series."""

    def __init__(self, size: int, dtype: type[Kind]) -> None:
        self.values: npt.NDArray[Kind] = np.zeros(size, dtype)
        self.position = 0

    def push(self, value: Any) -> None:
        self.values[self.position % self.values.size] = value
        self.position += 1

    def __iter__(self) -> Iterator[Any]:
        return iter(np.roll(self.values, -self.position))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


def batches(x: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, len(x), size):
        yield x[start : start + size]


def stacked(parts: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    return np.concatenate(parts, axis=0)


layers: list[Layer] = [Dense(np.ones((3, 4), np.float32)), Dense(np.ones((4, 2), np.float32))]
x = np.ones((5, 3), dtype=np.float32)
for layer in layers:
    x = layer(x)
assert x.shape == (5, 2) and x[0, 0] == 12
ring = Ring(3, np.int64)
for number in range(5):
    ring.push(number)
assert [int(v) for v in ring] == [3, 4, 2] or sorted(int(v) for v in ring) == [2, 3, 4]
assert ring.shape == (3,)
assert stacked(list(batches(x, 2))).shape == (5, 2)
