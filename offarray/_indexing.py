"""Reading and writing through an index.

in: the handle's `[]`; out: NumPy on ready memory.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy

from . import _choosing, _creation, _lazy, _library, _record, _views
from ._array import HOST, RealArray, fresh, host, ndarray, view
from ._dispatch import SCALARS, Handles, before_write, convert, numpy_call, result, shown
from ._memory import native, warns
from ._scalar import settled
from ._voice import MUTE, again
from .runtime.config import settings

__warningregistry__ = MUTE
_SIMPLE = frozenset({int, slice, str, type(None), type(Ellipsis), bool})
_PICKS = 16  # index arrays up to which NumPy never finds them too many
COPIES = 16  # times the size of small work: up to here a plain copy is NumPy's, which has nothing to plan


def _basic(key: Any) -> bool:
    """Whether an index is a tuple of numbers and slices."""
    if type(key) is not tuple:
        return False
    for k in key:
        if type(k) not in _SIMPLE:
            return False
    return True


def plain_key(key: Any, seen: Handles) -> Any:
    """An index with NumPy arrays in place of handles."""
    t = type(key)
    if t in _SIMPLE:
        return key
    if t is tuple:
        for k in key:
            if type(k) not in _SIMPLE:
                return tuple([shown(convert(k, seen)) for k in key])
        return key
    return shown(convert(key, seen))


def getitem(self: ndarray, key: Any) -> Any:
    """`self[key]`."""
    if self._at is HOST:
        a = self._np
    else:
        if _views.is_pending(self):
            r = _views.getitem(self, key)
            if r is not NotImplemented:
                return r
    if type(key) not in _SIMPLE:
        r = _gathered(self, key)
        if r is not NotImplemented:
            return r
    if self._at is not HOST:
        a = host(self)
    if type(key) not in _SIMPLE:
        key = plain_key(key, Handles())
    try:
        r = a[key]
    except TypeError:
        r = again(operator.getitem, a, key)
    if type(r) is not RealArray:
        return r
    root = r.base
    if root is a or (root is not None and root is a.base):
        return view(r, self)
    if a.dtype.char == "O" and r.ndim + a.ndim and not _selects(key):
        return r  # an array that is an element
    if root is None:
        return fresh(r)
    return result(r, Handles([self]), 3)


def _gathered(x: ndarray, key: Any) -> Any:
    """`x[key]` for large integer arrays over the leading axes, recorded; for a mask where a device selects."""
    if x._at is HOST and type(key) is ndarray and key._at is HOST:
        room = settings.eager_size
        if x._np.size <= room and key._np.size <= room:
            return NotImplemented
    if type(key) in (ndarray, RealArray) and key.dtype.kind == "b":
        r = _library.select(x, key) if type(key) is ndarray else NotImplemented
        return _choosing.read_mask(x, key) if r is NotImplemented else r
    keys = key if type(key) is tuple else (key,)
    picks: list[Any] = []
    for k in keys:
        if (type(k) is not ndarray and type(k) is not RealArray) or k.dtype.kind not in "iu" or not k.ndim:
            return NotImplemented
        picks.append(k)
    if not picks or len(picks) > _PICKS or not native(x._dtype):
        return NotImplemented
    return _creation.gather(x, picks)


def _selects(key: Any) -> bool:
    keys = key if type(key) is tuple else (key,)
    return any(not hasattr(type(k), "__index__") or type(k) is RealArray and k.ndim > 0 for k in keys)


def setitem(self: ndarray, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    if self._at is HOST and (type(key) in _SIMPLE or _basic(key)):  # nothing is pending on its memory
        a = self._np
        room = settings.eager_size
        if type(value) in SCALARS and (a.size <= room or (type(key) is int and a.ndim == 1)):
            try:
                a[key] = value
            except TypeError:
                again(operator.setitem, a, key, value)
            return
        if type(value) is ndarray and a.size <= COPIES * room and a.dtype.char != "O":
            at = value._at
            if at is HOST or at == value._base.node.serial:
                try:
                    a[key] = value._np
                except TypeError:
                    again(operator.setitem, a, key, value._np)
                return
    if not (_slight(self) and _slight(key) and _slight(value)) and _recorded(self, key, value):
        return
    before_write(self)
    a = host(self)
    if type(key) not in _SIMPLE:
        key = plain_key(key, Handles())
    if type(value) is ndarray and a.dtype.char != "O":
        value = host(value)
    elif type(value) in (list, tuple) and a.dtype.char != "O":
        value = convert(value, Handles())
    numpy_call(operator.setitem, (a, key, settled(value)), {})


def _slight(value: Any) -> bool:
    """Whether an operand is a small array that is ready, or no array of ours; a tuple may hold others."""
    if type(value) is not ndarray:
        return type(value) is not tuple
    at = value._at
    return (at is HOST or at == value._base.node.serial) and value._np.size <= settings.eager_size


def _recorded(x: ndarray, key: Any, value: Any) -> bool:
    """Write by a kernel what is large or pending; false where NumPy should do it, or raise."""
    if not native(x._dtype) or not x._writeable or warns(x._np):
        return False
    mask = None
    if type(key) is ndarray and key._dtype.kind == "b":
        if key._shape != x._shape:
            return False
        if type(value) is ndarray and value._shape:
            return _choosing.write_mask(x, key, value)
        target, mask = x, key
    elif key is Ellipsis or type(key) is slice and key == slice(None):
        target = x
    else:
        found = window(x, key)
        if found is None:
            return _choosing.write_at(x, key, value)
        target = found
    if mask is None and _lazy.small((target, value)) and _lazy.is_ready(x) and not _views.on_device(x):
        return False
    if mask is None and type(value) is ndarray and _itself(target, value):
        return True  # the second half of `x[key] += y`: Python assigns the part to itself
    if _lazy._folded(target) or _lazy.elements(target) == 0:
        return False
    pair = _lazy.operand(value)
    if pair is None:
        return False
    operand = pair[0]
    if mask is not None and type(operand) is ndarray and operand._shape:
        return False
    if type(operand) is ndarray:
        kind = operand._dtype
        wider = _lazy.shape_of([target, operand])
        if not native(kind) or wider != target._shape or (kind.kind == "c" and target._dtype.kind != "c"):
            return False
        _record.assign(target, operand, mask)
        return True
    single = numpy.empty((), target._dtype)
    # NumPy's own conversion, with its errors; by way of a mask it is another
    numpy_call(operator.setitem, (single, () if mask is None else numpy.True_, value), {})
    _record.assign(target, _record.constant(single[()], target._dtype), mask)
    return True


def _itself(target: ndarray, value: ndarray) -> bool:
    return (
        value._at is not HOST
        and value._base is target._base
        and (value._offset, value._strides, value._shape) == (target._offset, target._strides, target._shape)
        and value._dtype == target._dtype
        and _record.may_write(target)
    )


def window(x: ndarray, key: Any) -> ndarray | None:
    """The part of `x` that a basic index names, as a handle; None for any other index."""
    keys = key if type(key) is tuple else (key,)
    for k in keys:
        if not (k is None or k is Ellipsis or type(k) in (int, slice) or isinstance(k, numpy.integer)):
            return None
    if Ellipsis not in keys:
        key = (*keys, Ellipsis)  # a single element too stays an array
    return _views.seen_through(x, _views.ghost(x)[key])


def delitem(self: ndarray, key: Any) -> None:
    """`del self[key]`: NumPy refuses."""
    del host(self)[key]  # type: ignore[attr-defined]


METHODS = {"__getitem__": getitem, "__setitem__": setitem, "__delitem__": delitem}
