"""A small network trained by gradient descent: dataclasses, protocols and overloads of array types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


class Layer(Protocol):
    """What a network is made of."""

    def forward(self, x: Floats) -> Floats: ...

    def backward(self, grad: Floats) -> Floats: ...


@dataclass
class Dense:
    """A product with weights and a shift."""

    weights: Floats
    shift: Floats
    rate: float = 0.1
    seen: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, rng: np.random.Generator, given: int, made: int) -> Dense:
        return cls(rng.standard_normal((given, made)) / np.sqrt(given), np.zeros(made))

    def forward(self, x: Floats) -> Floats:
        self.seen.append(x)
        y: Floats = x @ self.weights + self.shift
        return y

    def backward(self, grad: Floats) -> Floats:
        x = self.seen.pop()
        down: Floats = grad @ self.weights.T
        self.weights -= self.rate * (x.T @ grad)
        self.shift -= self.rate * grad.sum(axis=0)
        return down


@dataclass
class Elementwise:
    """A function and its derivative as a function of the result."""

    function: Callable[[Floats], Floats]
    derivative: Callable[[Floats], Floats]
    made: Floats | None = None

    def forward(self, x: Floats) -> Floats:
        self.made = self.function(x)
        return self.made

    def backward(self, grad: Floats) -> Floats:
        assert self.made is not None
        return grad * self.derivative(self.made)


def batches(x: Floats, y: Floats, size: int, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    order: NDArray[np.int64] = rng.permutation(len(x))
    for start in range(0, len(x), size):
        part = order[start : start + size]
        yield x[part], y[part]


def as_column(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(64, 2))
    y = as_column((x[:, 0] * x[:, 1] > 0).tolist())
    layers: list[Layer] = [
        Dense.of(rng, 2, 8),
        Elementwise(np.tanh, lambda t: 1.0 - t * t),
        Dense.of(rng, 8, 1),
        Elementwise(lambda t: 1.0 / (1.0 + np.exp(-t)), lambda t: np.ones_like(t)),
    ]
    losses: list[float] = []
    for _ in range(5):
        for some, wanted in batches(x, y, 16, rng):
            value = some
            for layer in layers:
                value = layer.forward(value)
            losses.append(float(np.mean((value - wanted) ** 2)))
            grad: Floats = (value - wanted) / len(some)
            for layer in reversed(layers):
                grad = layer.backward(grad)
    print(f"{losses[0]:.6f} {losses[-1]:.6f} {bool(np.isfinite(losses).all())}")


main()
