"""Reading and writing through an index.

in: the handle's `[]`; out: NumPy on ready memory.
"""

from __future__ import annotations

from typing import Any

from ._array import HOST, RealArray, fresh, host, ndarray, view
from ._dispatch import Handles, before_write, convert, result

_SIMPLE = frozenset({int, slice, str, type(None), type(Ellipsis), bool})


def plain_key(key: Any, seen: Handles) -> Any:
    """An index with NumPy arrays in place of handles."""
    t = type(key)
    if t in _SIMPLE:
        return key
    if t is tuple:
        for k in key:
            if type(k) not in _SIMPLE:
                return tuple([convert(k, seen) for k in key])
        return key
    return convert(key, seen)


def getitem(self: ndarray, key: Any) -> Any:
    """`self[key]`."""
    a = self._np if self._at is HOST else host(self)
    if type(key) not in _SIMPLE:
        key = plain_key(key, Handles())
    r = a[key]
    if type(r) is not RealArray:
        return r
    root = r.base
    if root is a or (root is not None and root is a.base):
        return view(r, self)
    if a.dtype.char == "O" and r.ndim + a.ndim and not _selects(key):
        return r  # an array that is an element
    if root is None:
        return fresh(r)
    return result(r, Handles([self]), 4)


def _selects(key: Any) -> bool:
    keys = key if type(key) is tuple else (key,)
    return any(not hasattr(type(k), "__index__") or type(k) is RealArray and k.ndim > 0 for k in keys)


def setitem(self: ndarray, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    before_write(self)
    a = host(self)
    if type(key) not in _SIMPLE:
        key = plain_key(key, Handles())
    if type(value) is ndarray and a.dtype.char != "O":
        value = host(value)
    a[key] = value


def delitem(self: ndarray, key: Any) -> None:
    """`del self[key]`: NumPy refuses."""
    del host(self)[key]


def install(cls: Any) -> None:
    """Give the handle its index."""
    cls.__getitem__ = getitem
    cls.__setitem__ = setitem
    cls.__delitem__ = delitem
