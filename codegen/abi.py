"""Argument layout of a kernel, equal on every target: a row of 8-byte words, pointers, i64 and f64 only.

    pointers | extents | strides of loads, then of stores | scalars | fault pointer | scratch pointer

Strides stand in the order of the values; within a load its STRIDED axes first, then its gathers.  A complex
scalar takes two words; a float scalar is passed as f64 (exact for f2 and f4), any other as its 64-bit integer.
The fault pointer names one zeroed byte for each faulting value, the scratch pointer `Compiled.scratch` bytes;
both words are always there.
"""

from __future__ import annotations

from ..runtime.tuples import NamedTuple
from .kernel import STRIDED, Kernel, Load


class Layout(NamedTuple):
    """Word numbers of each argument of one kernel."""

    extents: int  # word of axis 0's extent
    load_strides: tuple[tuple[int, ...], ...]  # for each value: words of its strides, () unless a load
    store_strides: tuple[tuple[int, ...], ...]
    scalars: tuple[int, ...]  # word of each scalar argument (of its real part)
    fault: int
    scratch: int

    @property
    def words(self) -> int:
        """Length of the argument row."""
        return self.scratch + 1


def layout(kernel: Kernel) -> Layout:
    """The argument layout of `kernel`; pointers are words 0 to len(operands) - 1."""
    word = extents = len(kernel.operands)
    word += kernel.rank
    loads: list[tuple[int, ...]] = []
    for value in kernel.values:
        count = 0
        if isinstance(value.arg, Load):
            count = value.arg.strides.count(STRIDED) + len(value.src)
        loads.append(tuple(range(word, word + count)))
        word += count
    stores: list[tuple[int, ...]] = []
    for store in kernel.stores:
        count = store.strides.count(STRIDED)
        stores.append(tuple(range(word, word + count)))
        word += count
    scalars: list[int] = []
    for dtype in kernel.scalars:
        scalars.append(word)
        word += 2 if dtype[0] == "c" else 1
    return Layout(extents, tuple(loads), tuple(stores), tuple(scalars), word, word + 1)
