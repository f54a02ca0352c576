"""Distributions from a counter-based stream, under `random = "fast"`: other numbers than NumPy's, made all at once.

in: `_library_random.draw`; out: Philox 4x32 with 10 rounds, whose key is the next word of the generator and whose
counter is the place, so that the same seed gives the same numbers on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from . import _lazy
from ._library_device import as_type, np, op
from ._library_random import F4, F8
from ._library_streams import places_of
from .fusion.node import READ, Node
from .fusion.view import View, contiguous

ROUNDS = 10
_FACTORS, _STEPS, MASK = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 0xFFFFFFFF


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[Node, Node, Node, Node]:
    """Four words of 32 bits (as 64) for each counter."""
    words: list[Any] = list(counter)
    for n in range(ROUNDS):
        keys = [(k + n * step) & MASK for k, step in zip(key, _STEPS, strict=True)]
        first, second = op("multiply", words[0], _FACTORS[0]), op("multiply", words[2], _FACTORS[1])
        words = [
            op("bitwise_xor", op("bitwise_xor", op("right_shift", second, 32), words[1]), keys[0]),
            op("bitwise_and", second, MASK),
            op("bitwise_xor", op("bitwise_xor", op("right_shift", first, 32), words[3]), keys[1]),
            op("bitwise_and", first, MASK),
        ]
    return words[0], words[1], words[2], words[3]


def _unit(upper: Node, lower: Node, zero: bool) -> Node:
    """Numbers of 53 bits in [0, 1), or with `zero` false in (0, 1]."""
    whole = op("bitwise_or", op("left_shift", upper, 21), op("right_shift", lower, 11))
    whole = whole if zero else op("add", whole, 1)
    return op("multiply", as_type(whole, F8), 2.0**-53)


class Numbers:
    """The uniform numbers of one call."""

    def __init__(self, word: int, count: int, shape: tuple[int, ...]) -> None:
        self.shape = shape
        places = places_of(count)
        zero = op("multiply", places, 0)
        self.words = philox(
            (op("bitwise_and", places, MASK), op("right_shift", places, 32), zero, zero), (word & MASK, word >> 32)
        )

    def _handle(self, node: Node) -> Any:
        node = Node(READ, "", F8, self.shape, (node,), View(0, self.shape, contiguous(self.shape, 8)))
        return _lazy.pending(node, self.shape, tuple(range(len(self.shape))))

    def above(self) -> Any:
        """Numbers in (0, 1]."""
        return self._handle(_unit(*self.words[:2], False))

    def below(self) -> Any:
        """Other numbers, in [0, 1)."""
        return self._handle(_unit(*self.words[2:], True))

    def normal(self) -> Any:
        """Standard normal numbers, by Box and Muller."""
        return np.sqrt(-2.0 * np.log(self.above())) * np.cos((2 * math.pi) * self.below())

    def exponential(self) -> Any:
        """Standard exponential numbers."""
        return -np.log(self.above())


def _typed(made: Any, dtype: Any) -> Any:
    return made if numpy.dtype(dtype) == F8 else made.astype(dtype)


def _standard(shape_of: Callable[[Numbers], Any]) -> Any:
    def form(numbers: Any, size: Any = None, dtype: Any = numpy.float64, method: Any = "zig", out: Any = None) -> Any:
        if out is not None or numpy.dtype(dtype) not in (F8, F4) or method not in ("zig", "inv"):
            return NotImplemented
        made = numbers(size)
        return made if made is NotImplemented else _typed(shape_of(made), dtype)

    return form


def draw_standard_normal(numbers: Any, size: Any = None, dtype: Any = numpy.float64, out: Any = None) -> Any:
    """`Generator.standard_normal`."""
    return _standard(Numbers.normal)(numbers, size, dtype, "zig", out)


def _number(value: Any) -> bool:
    return type(value) in (int, float) or isinstance(value, numpy.floating | numpy.integer)


def _located(make: Callable[[Numbers, float, float], Any]) -> Any:
    """The form of a distribution with a place and a width, which may not be negative."""

    def form(numbers: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        if not _number(loc) or not _number(scale) or not scale >= 0 or not math.isfinite(loc):
            return NotImplemented  # which NumPy raises, or draws for each element
        made = numbers(size)
        return made if made is NotImplemented else make(made, float(loc), float(scale))

    return form


def _of_one(default: float | None, make: Callable[[Numbers, float], Any]) -> Any:
    def form(numbers: Any, value: Any = default, size: Any = None) -> Any:
        if not _number(value) or not value > 0:
            return NotImplemented
        made = numbers(size)
        return made if made is NotImplemented else make(made, float(value))

    return form


FORMS: dict[str, Callable[..., Any]] = {
    "standard_normal": draw_standard_normal,
    "standard_exponential": _standard(Numbers.exponential),
    "normal": _located(lambda u, loc, scale: u.normal() * scale + loc),
    "lognormal": _located(lambda u, loc, scale: np.exp(u.normal() * scale + loc)),
    "gumbel": _located(lambda u, loc, scale: loc - scale * np.log(-np.log(u.below() + 2.0**-54))),
    "exponential": _of_one(1.0, lambda u, scale: u.exponential() * scale),
    "rayleigh": _of_one(1.0, lambda u, scale: np.sqrt(2.0 * u.exponential()) * scale),
    "weibull": _of_one(None, lambda u, a: u.exponential() ** (1.0 / a)),
    "pareto": _of_one(None, lambda u, a: np.exp(u.exponential() / a) - 1.0),
}

__all__ = ["FORMS", "Numbers", "philox"]
