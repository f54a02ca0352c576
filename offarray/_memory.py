"""Memory behind the handles: adopting NumPy's arrays as bases, fresh views, and export.

in: _array.py; out: fusion.node.Base and runtime.buffer.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy
from numpy.lib.array_utils import byte_bounds

from .fusion.node import READY, Base, leaf, renew
from .runtime import buffer as buffers
from .runtime.errors import DeviceError, MemoryLimitError

RealArray = numpy.ndarray
Array = numpy.ndarray[Any, Any]
NATIVE = frozenset("?bBhHiIlLqQefdFD")  # characters of the data types that kernels hold
_WRITEABLE = 0x400  # bit of `flags.num`
_pointer = ctypes.c_void_p.from_address
_DATA = object.__basicsize__  # the data pointer follows the object's head

ndarray: Any
host: Callable[[Any], Array]
fresh: Callable[[Array], Any]
view: Callable[[Array, Any], Any]
wrap: Callable[..., Any]
views: Callable[[Any], list[Any]]


def connect(*doors: Any) -> None:
    """Learn the handle's class and doors, which stand above this module."""
    global ndarray, host, fresh, view, wrap, views
    ndarray, host, fresh, view, wrap, views = doors


def counted(count: Callable[[Any], int]) -> int:
    """What `count` finds for an array that one variable of a Python function holds; this file is never compiled."""
    a = RealArray(0)
    return count(a)


def address(a: Array) -> int:
    """Address of the first element."""
    return _pointer(id(a) + _DATA).value or 0


def native(dtype: numpy.dtype[Any]) -> bool:
    """Whether kernels hold the data type."""
    return dtype.char in NATIVE and dtype.isnative


def adopt(x: Any, foreign: bool = False) -> Base:
    """The base of a handle in host mode, made now; its views in host mode get it too."""
    owner = x._owner
    if type(owner) is ndarray and not foreign:
        if owner._at is True:
            adopt(owner)
        else:
            link(x, owner._base)
        return x._base  # type: ignore[no-any-return]
    a = x._np
    dtype = a.dtype
    buffer = buffers.adopt(a, foreign)
    if a.flags.c_contiguous or not dtype.itemsize:
        shape = x._shape = a.shape  # the node's very tuple tells that the handle is the whole of its base
        x._dtype = dtype
    else:
        shape = (buffer.nbytes // dtype.itemsize,)
    node = leaf(buffer, dtype, shape)
    x._offset = address(a) - buffer.address
    base = x._base = Base(node)
    x._at = node.serial
    for y in views(x):
        link(y, base)
    x._loose = None
    return base


def link(x: Any, base: Base) -> None:
    """Put a view in host mode on its owner's base."""
    node = base.node
    x._base = base
    x._at = node.serial
    x._offset = address(x._np) - node.buffer.address  # type: ignore[union-attr]


def foreign(a: Array, owner: Any = None) -> Any:
    """A handle on memory that others look at too."""
    x = fresh(a)
    x._owner = owner
    adopt(x, True)
    return x


def _offset(x: Any) -> int:
    adopt(x)
    return x._offset  # type: ignore[no-any-return]


def _shape(x: Any) -> tuple[int, ...]:
    x._shape = shape = x._np.shape
    return shape  # type: ignore[no-any-return]


def _dtype(x: Any) -> numpy.dtype[Any]:
    x._dtype = dtype = x._np.dtype
    return dtype  # type: ignore[no-any-return]


def _strides(x: Any) -> tuple[int, ...]:
    a = x._np
    x._strides = strides = () if a is None else a.strides  # None: an array without axes that has been written
    return strides  # type: ignore[no-any-return]


def _loose(x: Any) -> None:
    x._loose = None


def may_write(a: Array) -> bool:
    """`a.flags.writeable`, without NumPy's warning that arrays from `broadcast_arrays` will not be."""
    return bool(a.flags.num & _WRITEABLE)


def warns(a: Any) -> bool:
    """Whether NumPy warns where an array is written: one from `broadcast_arrays`."""
    return a is not None and a.flags.num < 0


def _writeable(x: Any) -> bool:
    x._writeable = writeable = may_write(x._np)
    return writeable


# slots of a handle that are worked out from `_np` when first read
LAZY: dict[str, Callable[[Any], Any]] = {
    "_base": adopt, "_offset": _offset, "_shape": _shape, "_dtype": _dtype, "_strides": _strides,
    "_writeable": _writeable, "_loose": _loose,
}  # fmt: skip


def refresh(x: Any) -> Array:
    """The NumPy view of a handle's current value."""
    if type(x) is not ndarray:
        if isinstance(x, RealArray):
            return x
        raise TypeError(f"an array is needed, not {type(x).__name__}")
    base = x._base
    if base.node.state != READY:
        ready(x)
    node = base.node
    writeable = x._writeable
    try:
        a = node.buffer.view(x._dtype, x._shape, x._offset, x._strides, write=False)  # writes: before_host_write
    except (DeviceError, MemoryLimitError) as error:
        raise _located(error, node.site) from error.__cause__
    if not writeable:
        a.flags.writeable = False
    x._np = a
    if node.buffer.device is not None and node.buffer.device.outside:  # an image of the moment, for this handle too
        renew(node)
        x._at = None
    else:
        x._at = node.serial
    return a  # type: ignore[no-any-return]


def _located(error: Any, site: Any) -> Any:
    from . import _evaluate  # the pipeline imports the handles

    return _evaluate.located(error, site)


def ready(x: Any) -> None:
    """Evaluate a handle's base."""
    from . import _evaluate  # the pipeline imports the handles

    _evaluate.ready(x)


def export(x: Any) -> Array:
    """A NumPy array that may be handed out; what is pending on the memory reads it before anybody else writes it."""
    a = host(x)
    if x._at is not True:
        from . import _record  # records on handles

        _record.release(x._base)
    buffer = x._base.node.buffer
    made = buffer.export(x._dtype, x._shape, x._offset, x._strides, x._writeable, a)
    if warns(a):
        made.flags._warn_on_write = True
    return made  # type: ignore[no-any-return]


def wrap_view(a: Array, root: Any, parents: Iterable[Any]) -> Any:
    """A NumPy view whose owner is none of the parents' arrays: find the parent by address, or adopt the owner."""
    start = address(a)
    for p in parents:
        if type(p) is ndarray:
            low, high = byte_bounds(host(p))
            if low <= start < high:
                return view(a, p)
    if type(root) is RealArray:
        # held by `a` and by one variable in each of two frames, unless somebody else has it
        if sys.getrefcount(root) <= 4 and sys.getrefcount(a) <= 4 and root.base is None:
            return view(a, fresh(root))
    return foreign(a, root)


def construct(
    shape: Any, dtype: Any = float, buffer: Any = None, offset: Any = 0, strides: Any = None, order: Any = None
) -> Any:
    """`numpy.ndarray(...)` as a handle."""
    keep = buffer
    if type(buffer) is ndarray:
        buffer = export(buffer)
    a = RealArray(shape, dtype, buffer, offset, strides, order)
    if keep is None:
        return fresh(a)
    if type(keep) is ndarray:
        return wrap(a, (keep,))
    return foreign(a, keep)


def relabel(x: Any, name: str, value: Any) -> None:
    """Set shape, dtype or strides of a handle in place, where NumPy warns as NumPy does."""
    from ._rebind import WARNINGS

    for message, category in _spoken(name):
        WARNINGS.warn(message, category)
    put(x, name, value)


def put(x: Any, name: str, value: Any) -> None:
    """Set shape, dtype or strides of a handle in place."""
    a = host(x)
    other = a.view()
    _put(other, name, value)
    if x._at is True and name != "dtype":
        _put(a, name, value)  # still the only array on its memory: keep it
        other = a
    else:
        base = x._base
        if name == "strides":  # buffers are larger than what is in them: have NumPy look at as much as there is
            offset = address(a) - base.node.buffer.address
            room = numpy.empty(base.node.nbytes, "u1")
            _put(RealArray(a.shape, a.dtype, room, offset, a.strides), name, value)
        x._offset = address(other) - base.node.buffer.address
        x._np = other
    x._shape, x._dtype, x._strides = other.shape, other.dtype, other.strides


def _put(a: Array, name: str, value: Any) -> None:
    """Set an attribute of a NumPy array without its warning."""
    own = getattr(a, "_set_" + name, None)  # NumPy's way for libraries, where setting the attribute is deprecated
    if own is not None:
        own(value)
    elif not _spoken(name):
        setattr(a, name, value)
    else:
        with warnings.catch_warnings():  # strides: nothing else makes NumPy's checks
            warnings.simplefilter("ignore", DeprecationWarning)
            setattr(a, name, value)


@functools.cache
def _spoken(name: str) -> tuple[tuple[str, type[Warning]], ...]:
    """What this NumPy says when somebody sets the attribute: found out once, as watching warnings has a price."""
    a = RealArray(1, "i8")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        setattr(a, name, getattr(a, name))
    return tuple((str(w.message), w.category) for w in said)
