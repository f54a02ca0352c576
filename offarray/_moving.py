"""Elements in other places: roll, and fresh memory from the pool.

in: the public functions through `_dispatch.NATIVE`; out: nodes.  NotImplemented leaves a call to NumPy.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from . import _record, _routine
from ._array import make, ndarray
from ._dispatch import NATIVE
from ._memory import native
from ._record import constant
from .fusion.node import IOTA, MAP, READ, Base, Node
from .fusion.order import copy_order, spread
from .fusion.view import View
from .runtime.config import settings

_I8 = numpy.dtype("i8")
_BOOL = numpy.dtype(bool)
_POOLED = 1 << 18  # bytes from which NumPy's new memory is the system's fresh pages


def _shifts(a: ndarray, shift: Any, axis: Any) -> dict[int, int] | None:
    """Shift of each axis that moves at all."""
    try:
        amounts = tuple(map(operator.index, shift)) if type(shift) is tuple else (operator.index(shift),)
        axes = tuple(map(operator.index, axis)) if type(axis) is tuple else (operator.index(axis),)
    except TypeError:
        return None
    if len(amounts) != len(axes) and 1 not in (len(amounts), len(axes)):
        return None
    if any(not -len(a._shape) <= k < len(a._shape) for k in axes):
        return None
    count = max(len(amounts), len(axes))
    found: dict[int, int] = {}
    for amount, k in zip(amounts * (count // len(amounts)), axes * (count // len(axes)), strict=True):
        k %= len(a._shape)
        found[k] = (found.get(k, 0) + amount) % a._shape[k]
    return {k: amount for k, amount in found.items() if amount}


def _places(extent: int, shift: int) -> Node:
    """Where each element along an axis comes from."""
    place = Node(IOTA, "iota", _I8, (extent,), (), 0)
    if not shift:
        return place
    wraps = Node(MAP, "less", _BOOL, (extent,), (place, constant(shift, _I8)))
    last = Node(MAP, "add", _I8, (extent,), (place, constant(extent - shift, _I8)))
    first = Node(MAP, "subtract", _I8, (extent,), (place, constant(shift, _I8)))
    return Node(MAP, "select", _I8, (extent,), (wraps, last, first))


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes, round their ends; see `numpy.roll`."""
    if type(a) is not ndarray or not native(a._dtype) or 0 in a._shape or not 1 <= len(a._shape) <= 16:
        return NotImplemented
    if _routine.modest((a,)):
        return NotImplemented
    if axis is None:
        if not a.flags.c_contiguous:
            return NotImplemented
        made = roll(a.reshape(-1), shift, 0) if len(a._shape) > 1 else roll(a, shift, 0)
        return made if made is NotImplemented else made.reshape(a._shape)
    shifts = _shifts(a, shift, axis)
    if shifts is None or copy_order(a._strides) != tuple(range(len(a._shape))):
        return NotImplemented  # the result lies in memory as the operand
    if not shifts:
        return a.copy()
    # the axes that move in front, where a gather picks; the result lies in memory in the order of the axes
    moved = [*sorted(shifts), *(k for k in range(len(a._shape)) if k not in shifts)]
    view = a.transpose(moved)
    shape, lead = view._shape, len(shifts)
    picks = []
    for n in range(lead):
        extents = tuple(shape[n] if k == n else 1 for k in range(len(shape)))
        steps = tuple(8 if k == n else 0 for k in range(len(shape)))
        picks.append(Node(READ, "", _I8, extents, (_places(shape[n], shifts[moved[n]]),), View(0, extents, steps)))
    order = tuple(moved.index(k) for k in range(len(shape)))
    node = _record.gather_node(view, tuple(picks), shape, lead, order, _record.here())
    strides = spread(tuple(range(len(shape))), a._shape, a._dtype.itemsize)
    made = make(Base(node), 0, strides, a._shape, a._dtype)
    _record.commit(node, [a])
    return made


def empty(shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """Memory whose pages were used before; see `numpy.empty`."""
    if args or kwargs or settings.device not in ("auto", "cpu"):
        return NotImplemented
    extents = shape if type(shape) is tuple else (shape,)
    if not all(type(n) is int and n >= 0 for n in extents):
        return NotImplemented
    count = math.prod(extents)
    if count < _POOLED >> 4 or count > 1 << 40:
        return NotImplemented
    kind = numpy.dtype(dtype)
    if not native(kind) or count * kind.itemsize < _POOLED:
        return NotImplemented
    return _routine.space(extents, kind).handle()


NATIVE.update({"roll": roll, "empty": empty})

__all__ = ["empty", "roll"]
