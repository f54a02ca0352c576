"""Lazy scalars: what a reduction of a large array gives; a NumPy scalar whose value may still be pending.

`__class__` answers NumPy's scalar type, so `isinstance`, formatting, hashing and `math` need no special case.  Code
in C that checks the exact type (`json.dumps`) refuses it: `float(s)` or `s.item()` is the way there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy

from ._array import host, ndarray


class Scalar:
    """A scalar on a handle of shape ().

    Looks like, compares as and is an instance of the NumPy scalar type of its dtype.
    """

    __slots__ = ("_handle", "_known", "__weakref__")

    def __init__(self, handle: ndarray) -> None:
        self._handle = handle
        self._known: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return self._handle._dtype.type  # type: ignore[no-any-return]

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Data type."""
        return self._handle._dtype  # type: ignore[no-any-return]

    shape = ()
    ndim = 0
    size = 1
    __array_priority__ = -1000000.0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.array(value(self), dtype=dtype)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        return self._handle.__array_namespace__(api_version=api_version)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_"):  # protocols are answered by `__array__` alone
            raise AttributeError(name)
        return getattr(value(self), name)

    def __reduce__(self) -> Any:
        return value(self).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return value(self).__reduce_ex__(protocol)

    def __copy__(self) -> Any:
        return value(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return value(self)

    def __format__(self, spec: str) -> str:
        return format(value(self), spec)

    def __dir__(self) -> list[str]:
        return dir(value(self))

    def __getitem__(self, key: Any) -> Any:
        return value(self)[key]

    def __round__(self, *digits: Any) -> Any:
        return round(value(self), *digits)


KINDS: set[type] = {Scalar}
_types: dict[type, type] = {}


def lazy(handle: ndarray) -> Any:
    """A lazy scalar on a handle of shape (); its type has the name of NumPy's."""
    named = handle._dtype.type
    found = _types.get(named)
    if found is None:
        found = _types[named] = type(named.__name__, (Scalar,), {"__slots__": (), "__module__": "numpy"})
        KINDS.add(found)
    return found(handle)


def value(s: Any) -> Any:
    """The NumPy scalar, evaluated first."""
    known = s._known
    if known is None:
        known = s._known = host(s._handle)[()]
    return known


def settled(x: Any) -> Any:
    """`x`, or the NumPy scalar that a lazy scalar stands for."""
    return value(x) if type(x) in KINDS else x


def _delegate(function: Callable[..., Any]) -> Any:
    def method(self: Scalar) -> Any:
        return function(value(self))

    return method


_DELEGATED: dict[str, Callable[..., Any]] = {
    "__float__": float, "__int__": int, "__complex__": complex, "__bool__": bool, "__index__": operator.index,
    "__hash__": hash, "__repr__": repr, "__str__": str, "__len__": len, "__iter__": iter,
    "__trunc__": math.trunc, "__floor__": math.floor, "__ceil__": math.ceil,
}  # fmt: skip
for _name, _function in _DELEGATED.items():
    setattr(Scalar, _name, _delegate(_function))
