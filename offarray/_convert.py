"""Arguments as NumPy takes them, and what it gives back as the user sees it.

in: `_dispatch.step` and the ufuncs; out: NumPy arrays in place of handles, and handles in place of NumPy's results.
"""

from __future__ import annotations

import datetime
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy

from . import _scalar
from ._array import Overriding, Subclassable, fresh, host, ndarray, view, wrap
from ._memory import wrap_view

RealArray = numpy.ndarray

# What a value of some type is to the conversion of arguments.
LEAVE, HANDLE, SEQUENCE, FOREIGN, REAL, LAZY = range(6)

SCALARS = frozenset({bool, int, float, complex} | {t for t in numpy.sctypeDict.values() if t is not numpy.void})
_KIND: dict[type, int] = {
    ndarray: HANDLE, list: SEQUENCE, tuple: SEQUENCE, RealArray: REAL, Subclassable: REAL, Overriding: REAL,
    **dict.fromkeys(SCALARS, LEAVE),
    **dict.fromkeys(
        (str, bytes, bytearray, type(None), slice, type, types.FunctionType, types.BuiltinFunctionType, dict, set,
         type(Ellipsis), type(NotImplemented), datetime.date, datetime.datetime),
        LEAVE,
    ),
}  # fmt: skip


def classify(t: type) -> int:
    """Kind of a type seen for the first time."""
    if issubclass(t, RealArray):
        own = getattr(t, "__array_function__", None)
        kind = REAL if own is RealArray.__array_function__ else FOREIGN
    elif issubclass(t, (list, tuple)):
        kind = SEQUENCE
    elif issubclass(t, _scalar.Scalar):
        kind = LAZY
    elif getattr(t, "__array_function__", None) is not None:
        kind = FOREIGN
    else:
        kind = LEAVE
    _KIND[t] = kind
    return kind


_PLAIN = SCALARS | {str, bytes, type(None)}


class Handles(list[Any]):
    """The handles found in the arguments of one call, and whether a foreign operand was among them."""

    foreign = False


DEEP = 70  # more than NumPy's arrays have axes: what is nested deeper, or in itself, is refused there


def convert(value: Any, seen: Handles, door: Callable[[Any], Any] = host, depth: int = 0) -> Any:
    """`value` with every handle in it, also within lists and tuples, as NumPy array; the handles go to `seen`."""
    t = type(value)
    kind = _KIND.get(t)
    if kind is None:
        kind = classify(t)
    if kind == LEAVE or kind == REAL:
        return value
    if kind == HANDLE:
        seen.append(value)
        return door(value)
    if kind == FOREIGN:
        seen.foreign = True
        return value
    if kind == LAZY:
        return _scalar.value(value)
    if not value or set(map(type, value)) <= _PLAIN or depth > DEEP:
        return value
    items = [convert(v, seen, door, depth + 1) for v in value]
    if all(map(_same, items, value)):
        return value
    if t is list:
        return items
    if t is tuple:
        return tuple(items)
    return t(*items) if hasattr(t, "_fields") else t(items)


def _same(a: Any, b: Any) -> bool:
    return a is b


def result(value: Any, seen: Handles, held: int = 2) -> Any:
    """What NumPy returned as the user sees it: the handle itself for an operand, else a handle or scalar.

    `held` is the number of references to a value that nobody else has.
    """
    t = type(value)
    if t is RealArray:
        for x in seen:
            if x._np is value:
                return x
        root = value.base
        if root is None and sys.getrefcount(value) <= held:
            return fresh(value)
        for x in seen:
            b = x._np
            if root is not None and (root is b or root is b.base):
                return wrap(value, (x,))
        if root is None:
            return wrap([value, value][0])
        if type(root) is RealArray and root.base is None and sys.getrefcount(root) <= 3:
            return view(value, fresh(root))  # a part of a new array that nobody else has
        return wrap_view(value, root, seen)
    if t is tuple or t is list:
        items = [result(v, seen, 4) for v in value]
        return value if all(map(_same, items, value)) else t(items)
    if isinstance(value, tuple) and hasattr(t, "_fields"):
        return t(*[result(v, seen, 4) for v in value])
    return value
