"""Elements in other places: roll, repeat, outer products, and fresh memory from the pool.

in: the public functions through `_dispatch.NATIVE`; out: nodes.  NotImplemented leaves a call to NumPy.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from . import _lazy, _record, _routine
from ._array import HOST, host, make, ndarray
from ._dispatch import NATIVE
from ._memory import native
from ._reach import SPAN
from ._record import constant
from ._voice import MUTE
from .fusion.node import IOTA, MAP, READ, Base, Node
from .fusion.order import copy_order, spread
from .fusion.view import View
from .runtime.config import settings

__warningregistry__ = MUTE  # `outer` is the caller of a call in C
_I8 = numpy.dtype("i8")
_BOOL = numpy.dtype(bool)
_LONG = 16  # repeats that fill vectors
_POOLED = 1 << 18  # bytes from which NumPy's new memory is the system's fresh pages


def _shifts(a: ndarray, shift: Any, axis: Any) -> dict[int, int] | None:
    """Shift of each axis that moves at all."""
    try:
        amounts = tuple(map(operator.index, shift)) if type(shift) is tuple else (operator.index(shift),)
        axes = tuple(map(operator.index, axis)) if type(axis) is tuple else (operator.index(axis),)
    except TypeError:
        return None
    if not (amounts and axes) or (len(amounts) != len(axes) and 1 not in (len(amounts), len(axes))):
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


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Every element several times; see `numpy.repeat`.  Different numbers of times are NumPy's."""
    if type(a) is not ndarray or type(repeats) is not int or repeats < 1 or not _lazy.worth(a) or 0 in a._shape:
        return NotImplemented
    if a._at is HOST and not settings.device.startswith("cuda") and settings.eager_size and repeats < _LONG:
        return NotImplemented  # vectors of a few elements: NumPy's loop is as good
    if axis is None:
        if not a.flags.c_contiguous:
            return NotImplemented
        a, axis = (a.reshape(-1) if len(a._shape) != 1 else a), 0
    if type(axis) is not int or not -len(a._shape) <= axis < len(a._shape):
        return NotImplemented
    axis %= len(a._shape)
    head, tail = slice(None, axis + 1), slice(axis + 1, None)
    base, offset = a._base, a._offset
    shape = (*a._shape[head], repeats, *a._shape[tail])
    seen = make(base, offset, (*a._strides[head], 0, *a._strides[tail]), shape, a._dtype)
    whole = (*a._shape[:axis], a._shape[axis] * repeats, *a._shape[tail])
    order = tuple(range(len(shape)))
    node = _record.copied(_record.read(seen, shape, order), shape)
    made = make(Base(node), 0, spread(tuple(range(len(whole))), whole, a._dtype.itemsize), whole, a._dtype)
    _record.commit(node, [a])
    return made


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Products of every pair of elements; see `numpy.outer`."""
    if out is not None or type(a) is not ndarray or type(b) is not ndarray:
        return NotImplemented
    if a.size * b.size <= (settings.eager_size if settings.device.startswith("cuda") else SPAN * settings.eager_size):
        if _routine.at_hand((a, b)) and native(a._dtype) and native(b._dtype):
            return _lazy.at_once(numpy.multiply, (host(a).reshape(-1, 1), host(b).reshape(-1)))
        if _lazy.is_ready(a) and _lazy.is_ready(b):
            return NotImplemented
    rows, columns = a.reshape(-1), b.reshape(-1)
    return _lazy.call(numpy.multiply, (rows[:, None], columns[None, :]))


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


NATIVE.update({"roll": roll, "empty": empty, "repeat": repeat, "ndarray.repeat": repeat, "outer": outer})

__all__ = ["empty", "roll"]
