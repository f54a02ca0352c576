"""The handle: its fields, and how handles are made.  `_handle.pyx` is the same in C, with small work in it.

in: `_array.py`; out: `_memory.LAZY`, for fields that nobody has asked for yet.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any
from weakref import ref

import numpy

from . import _memory
from ._memory import address

Array = numpy.ndarray[Any, Any]
HOST = True  # `_at` of a handle in host mode
COMPILED = False


class Handle:
    """What `ndarray` holds; fields that are not set are worked out from `_np` when first read."""

    __slots__ = (
        "_at", "_base", "_dtype", "_loose", "_np", "_offset", "_owner", "_shape", "_strides", "_writeable",
        "__weakref__",
    )  # fmt: skip

    _at: Any
    _base: Any
    _dtype: Any
    _loose: Any  # references to the views in host mode of an owner in host mode
    _np: Any
    _offset: Any
    _owner: Any
    _shape: Any
    _strides: Any
    _writeable: Any

    def __getattr__(self, name: str) -> Any:
        find = _memory.LAZY.get(name)
        if find is not None:
            return find(self)
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")


class Called:
    """What a ufunc holds."""

    real: Any  # NumPy's own
    nin: int


def quicken(cls: Any, called: Any) -> None:
    """The form in C calls ufuncs by itself."""


_new: Any = Handle.__new__
_class: Any = Handle


def connect(cls: Any) -> None:
    """Learn the class of the handles."""
    global _class
    _class = cls
    if sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8:
        at = object.__basicsize__ + 8  # in a type object, after its size
        if ctypes.string_at(ctypes.c_void_p.from_address(id(cls) + at).value or 0) == b"ndarray":
            ctypes.c_void_p.from_address(id(cls) + at).value = ctypes.addressof(_NAME)


_NAME = ctypes.create_string_buffer(b"numpy.ndarray")  # as Python's own messages name the type


def make(
    base: Any, offset: int, strides: tuple[int, ...], shape: tuple[int, ...], dtype: numpy.dtype[Any],
    owner: Any = None, writeable: bool = True,
) -> Any:  # fmt: skip
    """A handle on `base`."""
    x = _new(_class)
    x._base = base
    x._offset = offset
    x._strides = strides
    x._shape = shape
    x._dtype = dtype
    x._owner = owner
    x._writeable = writeable
    x._np = x._at = None
    return x


def fresh(a: Array) -> Any:
    """A handle in host mode on a NumPy array that owns its memory and is nobody else's."""
    x = _new(_class)
    x._np = a
    x._at = HOST
    x._owner = None
    return x


def view(a: Array, parent: Any) -> Any:
    """A handle on `a`, which looks at the memory of the handle `parent`."""
    x = _new(_class)
    x._np = a
    x._owner = root = parent if parent._owner is None else parent._owner
    if parent._at is HOST and type(root) is _class:
        x._at = HOST
        loose = root._loose
        if loose is None:
            root._loose = [ref(x)]
        else:
            if len(loose) & 63 == 63:
                loose[:] = [r for r in loose if r() is not None]
            loose.append(ref(x))
        return x
    base = parent._base
    node = base.node
    x._base = base
    x._at = parent._at
    x._offset = address(a) - node.buffer.address
    return x


def views(x: Any) -> list[Any]:
    """The living views in host mode of an owner in host mode."""
    loose = x._loose
    return [] if loose is None else [y for y in (r() for r in loose) if y is not None]


def restart(x: Any, a: Array) -> None:
    """Let a handle start afresh, in host mode on `a`."""
    for name in ("_base", "_offset", "_strides", "_shape", "_dtype", "_writeable", "_loose"):
        try:
            object.__delattr__(x, name)
        except AttributeError:
            pass
    x._np = a
    x._at = HOST
    x._owner = None


def give(cls: Any, methods: dict[str, Any], scalars: Any, lazy: Any) -> None:
    """Give the class its operators and its index, by name; `scalars` and `lazy` are types of numbers."""
    for name, method in methods.items():
        method.__name__ = name
        method.__qualname__ = f"ndarray.{name}"
        method.__doc__ = getattr(numpy.ndarray, name).__doc__
        setattr(cls, name, method)


def part(cls: Any, name: str, made: Any) -> None:
    """Give the class an attribute that is part of an array."""
    setattr(cls, name, made)
