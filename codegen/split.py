"""Kernels whose outermost axis can be cut into pieces that are launched one after another.

in: a kernel; out: for an argument row, the axis's extent and how far each pointer moves with its index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ..runtime.target import Compiled
from ..runtime.tuples import NamedTuple
from .abi import layout
from .kernel import ABSENT, STRIDED, UNIT, Fold, Kernel, Load, Value


class Cut(NamedTuple):
    """The outermost axis of one call."""

    word: int  # of its extent, among the words behind the pointers
    steps: tuple[int | None, ...]  # bytes by which each pointer moves with its index; None where all is needed always
    compiled: Compiled | None  # what runs the pieces, with the first index as a last word; None for the kernel itself


Split = Callable[[Sequence[int]], Cut]
_Step = tuple[int, int] | None  # (word, bytes): the bytes, or the word that has them; None where all is needed


def outermost(kernel: Kernel, make: Callable[[Kernel], Compiled]) -> Split | None:
    """How to cut the kernel along axis 0; None where its pieces would not make the same values.

    `make` compiles the kernel for pieces that know where they begin, if one is needed.
    """
    if not kernel.rank or any(not store.dom & 1 for store in kernel.stores):
        return None
    for value in kernel.values:
        if isinstance(value.arg, Fold) and 0 in value.arg.axes:
            return None
    found: dict[int, _Step] = {}
    for operand, step in _accesses(kernel):
        if found.setdefault(operand, step) != step:
            return None
    steps = tuple(found.get(n, (0, 0)) for n in range(len(kernel.operands)))
    first = len(kernel.operands)
    word = layout(kernel).extents - first

    counts = any(v.op == "iota" and v.arg == 0 for v in kernel.values)

    def cut(words: Sequence[int]) -> Cut:
        moves = tuple(s if s is None else s[1] if s[0] < 0 else _signed(words[s[0] - first]) for s in steps)
        return Cut(word, moves, make(shifted(kernel)) if counts else None)

    return cut


@cache
def shifted(kernel: Kernel) -> Kernel:
    """The kernel with the index along axis 0 counted from an argument on, its last scalar."""
    values: list[Value] = []
    place: list[int] = []
    for value in kernel.values:
        moved = value._replace(src=tuple(place[s] for s in value.src))
        values.append(moved)
        if value.op == "iota" and value.arg == 0:
            values.append(Value("arg", "i8", (), len(kernel.scalars)))
            values.append(Value("add", "i8", (len(values) - 2, len(values) - 1), None, value.dom))
        place.append(len(values) - 1)
    stores = tuple(s._replace(value=place[s.value]) for s in kernel.stores)
    return kernel._replace(values=tuple(values), stores=stores, scalars=(*kernel.scalars, "i8"))


def _accesses(kernel: Kernel) -> list[tuple[int, _Step]]:
    """(operand, step along axis 0) of each load and store."""
    places = layout(kernel)
    found: list[tuple[int, _Step]] = []
    for value, words in zip(kernel.values, places.load_strides, strict=True):
        if isinstance(value.arg, Load):
            gathered = bool(value.src)
            found.append((value.arg.operand, None if gathered else _step(kernel, value.arg.operand, value.arg, words)))
    for store, words in zip(kernel.stores, places.store_strides, strict=True):
        found.append((store.operand, _step(kernel, store.operand, store, words)))
    return found


def _step(kernel: Kernel, operand: int, access: Load | object, words: tuple[int, ...]) -> _Step:
    kind = access.strides[0]  # type: ignore[union-attr, attr-defined]
    if kind == ABSENT:
        return -1, 0
    if kind == UNIT:
        return -1, int(kernel.operands[operand].dtype[1:])
    assert kind == STRIDED
    return words[0], 0


def _signed(word: int | float) -> int:
    number = int(word)
    return number - (1 << 64) if number >> 63 else number
