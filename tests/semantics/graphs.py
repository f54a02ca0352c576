"""Random programs made from a seed: leaves, elementwise operations, views, reductions, in-place writes, deletions.

`exact` programs use correctly rounded operations and sums of small integers alone, so that every value is NumPy's bit
for bit.  `rough` ones add float sums and transcendental functions.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

DTYPES = ("f8", "f8", "f4", "i8", "i4", "u1", "?", "c16", "i2")
LAYOUTS = ("plain", "plain", "fortran", "reversed", "strided", "transposed")


class Graph:
    """The values of one program and the dice that make it; the same seed gives the same program on any library."""

    def __init__(self, np: Any, seed: int, exact: bool, side: int, sums: bool) -> None:
        self.np = np
        self.dice = random.Random(seed)
        self.exact = exact
        self.sums = sums
        self.shapes = [(side, 6), (6, side), (side,), (2, side, 3), (side, 1), (1, 6)]
        self.values = [self.leaf() for _ in range(4)]

    def leaf(self) -> Any:
        """An array in memory, in some layout."""
        dice, np = self.dice, self.np
        shape, layout = dice.choice(self.shapes), dice.choice(LAYOUTS)
        dtype = dice.choice(DTYPES) if self.exact else "f8"
        size = 1
        for extent in shape:
            size *= extent
        a = (np.arange(size) * dice.choice((3, 5, 7)) % 11).reshape(shape)
        a = (a - 4).astype(dtype) if dtype not in ("u1", "?") else a.astype(dtype)
        if not self.exact:
            a = a / 8
        if layout == "fortran":
            return np.asfortranarray(a)
        if layout == "reversed":
            return a[::-1]
        if layout == "strided":
            return np.repeat(a, 2, axis=0)[::2]
        return a.T if layout == "transposed" else a

    def any(self, kinds: str = "biufc") -> Any:
        """A value whose type is of one of the kinds, newer ones more often."""
        fitting = [v for v in self.values if v.dtype.kind in kinds] or [self.leaf().astype("f8")]
        return fitting[max(self.dice.randrange(len(fitting)), self.dice.randrange(len(fitting)))]

    def partner(self, x: Any) -> Any:
        """A value that broadcasts with `x`, or a scalar."""
        fitting = [v for v in self.values if self.broadcasts(v.shape, x.shape)]
        if not fitting or self.dice.random() < 0.2:
            return self.dice.choice((2, -1, 0.5, True))
        return self.dice.choice(fitting)

    @staticmethod
    def broadcasts(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
        """Whether the shapes go together, into no more elements than twice the larger has."""
        pairs = zip(reversed(one), reversed(two), strict=False)
        return all(a == b or 1 in (a, b) for a, b in pairs) and not (1 in one and 1 in two)

    def bounded(self, x: Any) -> Any:
        """Small whole numbers, whose sums are exact."""
        np = self.np
        x = x.real if x.dtype.kind == "c" else x
        return np.minimum(np.maximum(np.rint(x), -8), 8) if x.dtype.kind == "f" and self.exact else x


Move = Callable[[Graph], Any]


def unary(g: Graph) -> Any:
    x = g.any()
    names = {
        "b": ("logical_not",), "i": ("negative", "absolute", "square", "invert"), "u": ("square", "invert"),
        "f": ("negative", "absolute", "floor", "sign", "square") if g.exact else ("negative", "tanh", "sin", "arctan"),
        "c": ("negative", "conjugate"),
    }[x.dtype.kind]  # fmt: skip
    return getattr(g.np, g.dice.choice(names))(x)


def binary(g: Graph) -> Any:
    x = g.any()
    y = g.partner(x)
    kind = x.dtype.kind + getattr(y, "dtype", x.dtype).kind
    names = ["add", "multiply", "subtract"] if "b" not in kind else ["add", "multiply"]
    if g.exact and "c" not in kind:
        names += ["less", "equal", "maximum"]
    name = g.dice.choice(names)
    result = getattr(g.np, name)(x, y) if g.dice.random() < 0.5 else getattr(g.np, name)(y, x)
    if name == "maximum":
        return result + 0  # either zero may win
    return result if g.exact or name != "multiply" else result * 0.25


def divide(g: Graph) -> Any:
    x = g.any("biuf")
    return g.np.divide(x, g.dice.choice((2, 3, 0.7))) if g.dice.random() < 0.5 else g.np.sqrt(g.np.absolute(x) + 1)


def select(g: Graph) -> Any:
    x = g.any("biuf")
    y = g.partner(x)
    condition = x > 0 if g.exact else g.np.arange(x.size).reshape(x.shape) % 3 == 0
    return g.np.where(condition, x, y)


def view(g: Graph) -> Any:
    x = g.any()
    kind = g.dice.randrange(6)
    if kind == 0:
        return x.T
    if kind == 1:
        return x[1:] if x.shape and x.shape[0] > 2 else x[...]
    if kind == 2:
        return x[..., ::-1] if x.ndim else x[...]
    if kind == 3:
        return x.reshape(-1)
    if kind == 4:
        return x[::2] if x.shape and x.shape[0] > 3 else x[None]
    return x.real if x.dtype.kind == "c" else x[..., None]


def reduce(g: Graph) -> Any:
    x = g.any()
    axis = g.dice.choice([None, *range(x.ndim)])
    name = g.dice.choice(
        ("sum", "sum", "max", "min", "any", "argmax") if g.exact else ("sum", "mean", "max") if g.sums else ("max",)
    )
    if x.dtype.kind == "c" or x.dtype.kind == "b" and name in ("max", "min"):
        name = "sum"
    value = getattr(g.np, name)(g.bounded(x), axis=axis, keepdims=g.dice.random() < 0.6)
    return g.np.asarray(value + 0) if g.exact else g.np.asarray(value * 0.1)


def cast(g: Graph) -> Any:
    x = g.any("biu")
    return x.astype(g.dice.choice(("f8", "i8", "f4", "c16")) if g.exact else "f8")


def update(g: Graph) -> None:
    """A write: whole, through a view, with a mask or from an overlapping window."""
    x = g.any()
    kind = g.dice.randrange(5)
    if not x.flags.writeable:
        return
    value = g.dice.choice((0, 1, 2))
    if kind == 0 and x.dtype.kind not in "b":
        operator.iadd(x, value)
    elif kind == 1 and x.ndim and x.shape[0] > 2:
        x[1:] = x[:-1]
    elif kind == 2 and x.ndim and x.shape[0] > 2 and x.dtype.kind != "b":
        x[:-1] += x[1:]
    elif kind == 3:
        x[(..., slice(None, None, 2)) if x.ndim else ...] = value
    elif kind == 4:
        x[(g.np.arange(x.size) % 5 == 0).reshape(x.shape)] = value


MOVES: tuple[tuple[Move, int], ...] = (
    (unary, 4), (binary, 8), (divide, 2), (select, 2), (view, 4), (reduce, 3), (cast, 1), (update, 4),
)  # fmt: skip


def program(seed: int, exact: bool = True, length: int = 20, side: int = 10, sums: bool = True) -> Callable[[Any], Any]:
    """A body for `twice.same`: every value that is alive at its end, and some looked at in between."""

    def body(np: Any) -> Any:
        g = Graph(np, seed, exact, side, sums)
        moves = [move for move, weight in MOVES for _ in range(weight)]
        looked = []
        with np.errstate(all="ignore"):
            for _ in range(length):
                made = g.dice.choice(moves)(g)
                if made is not None and 0 < made.size <= 4 * side * 40 and made.ndim < 4:
                    g.values.append(made)
                if len(g.values) > 5 and g.dice.random() < 0.4:
                    del g.values[g.dice.randrange(len(g.values) - 1)]
                if g.dice.random() < 0.05:
                    looked.append(g.any().copy())
                    looked[-1].tolist()
            return g.values, looked

    body.__name__ = f"graph{seed}"
    return body
