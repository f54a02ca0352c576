"""Choosing and placing elements by mask or by number: compress, nonzero, boolean and integer indices, put, ufunc.at.

in: the public functions through `_dispatch.NATIVE`, and `_indexing.py`; out: routines.  NotImplemented (or False, for a
write) leaves a call to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import _creation, _lazy, _routine
from ._array import HOST, RealArray, fresh, host, ndarray
from ._dispatch import COUNTERPART, NATIVE, before_write
from ._memory import native
from ._routine import Array, Ranges, Space, code, packs, raw, run, space
from ._sorting import bounds
from .codegen import routines
from .runtime.config import settings


def counted(mask: Array) -> tuple[Ranges, Array]:
    """Ranges of a dense mask, and where what each of them chooses stands among all: one number more than ranges."""
    ranges = _routine.shares(2 * mask.size, mask.size)
    counts = numpy.zeros(len(ranges) + 1, "i8")
    run(routines.count_true, [mask, counts], ranges, mask.size, range(1, len(ranges) + 1))
    return ranges, counts.cumsum()


def chosen(mask: Array, x: Array) -> Space:
    """Elements of a dense array under a mask of the same shape."""
    ranges, starts = counted(mask)
    made = space(int(starts[-1]), x.dtype)
    nbytes = mask.size + x.nbytes + made.array.nbytes
    words = [mask, x, made, starts]
    run(
        routines.compress, words, ranges, nbytes, range(len(ranges)), T=raw(x.dtype), PLACES=0,
        WIDE=int(x.dtype.itemsize in (4, 8) and packs()),
    )  # fmt: skip
    return made


def places(mask: Array) -> Space:
    """Positions of a dense mask's true elements."""
    ranges, starts = counted(mask)
    made = space(int(starts[-1]), "i8")
    nbytes = mask.size + made.array.nbytes
    run(
        routines.compress, [mask, 0, made, starts], ranges, nbytes, range(len(ranges)), T="i8", PLACES=1,
        WIDE=int(packs()),
    )  # fmt: skip
    return made


def _mask_of(x: Any) -> Array | None:
    """The dense memory of a mask: of a boolean array, else of what is not zero."""
    if type(x) is not ndarray or settings.device not in _routine._HOST or not native(x._dtype):
        return None
    if x._dtype.kind != "b":
        if _lazy.small((x,)):
            return None
        x = _lazy.call(numpy.not_equal, (x, 0))
        if x is NotImplemented:
            return None
    return _routine.ready(x, 0)


# ---------------------------------------------------------------------- reading
def read_mask(x: ndarray, mask: Any) -> Any:
    """`x[mask]` for a mask of the shape of `x`."""
    if type(mask) is RealArray:
        mask = fresh(mask)
    if mask._shape != x._shape or raw(x._dtype) is None:
        return NotImplemented
    if _lazy.is_ready(x) and _lazy.is_ready(mask) and _lazy.elements(x) <= settings.eager_size:
        return NotImplemented
    values, truth = _routine.ready(x, 0), _routine.ready(mask, 0)
    if values is None or truth is None:
        return NotImplemented
    return chosen(truth, values).handle()


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Elements under a condition; see `numpy.compress`."""
    if out is not None or type(a) is not ndarray or type(condition) is not ndarray or _routine.modest((a, condition)):
        return NotImplemented
    if axis not in (None, 0, -1) or type(axis) is bool or len(a._shape) != 1 or condition._shape != a._shape:
        return NotImplemented
    if condition._dtype.kind != "b":
        return NotImplemented
    return read_mask(a, condition)


def extract(condition: Any, arr: Any) -> Any:
    """Elements under a condition; see `numpy.extract`."""
    if type(arr) is not ndarray or type(condition) is not ndarray or condition._dtype.kind != "b":
        return NotImplemented
    return read_mask(arr, condition)


def flatnonzero(a: Any) -> Any:
    """Positions of what is not zero in the flattened array; see `numpy.flatnonzero`."""
    mask = _mask_of(a) if _worth(a) else None
    return NotImplemented if mask is None else places(mask).handle()


def nonzero(a: Any) -> Any:
    """Indices of what is not zero; see `numpy.nonzero`."""
    if not _worth(a) or not a._shape:
        return NotImplemented
    mask = _mask_of(a)
    if mask is None:
        return NotImplemented
    found = places(mask)
    if len(a._shape) == 1:
        return (found.handle(),)
    return tuple(map(fresh, numpy.unravel_index(found.array, a._shape)))


def argwhere(a: Any) -> Any:
    """Indices of what is not zero, grouped by element; see `numpy.argwhere`."""
    if type(a) is not ndarray or len(a._shape) != 1:
        return NotImplemented
    found = flatnonzero(a)
    return found if found is NotImplemented else found.reshape(-1, 1)


def _worth(a: Any) -> bool:
    """Whether NumPy, whose pass over a mask at hand is a good one, would take longer than routines."""
    if type(a) is not ndarray or (_lazy.is_ready(a) and _lazy.elements(a) <= settings.eager_size):
        return False
    return not (a._dtype.kind == "b" and _routine.modest((a,)))


def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    return nonzero(condition) if x is None and y is None else _select(condition, x, y)


# ---------------------------------------------------------------------- writing
def target(x: ndarray) -> Array | None:
    """The memory of an array to be written by a routine, if that is dense and its elements are moved as they are."""
    if not native(x._dtype) or not x._writeable or raw(x._dtype) is None or settings.device not in _routine._HOST:
        return None
    if not x.flags.c_contiguous or (x._at is not HOST and _routine.is_elsewhere(x)):
        return None
    before_write(x)
    return host(x)


def _values(value: Any, dtype: Any, count: int) -> tuple[Array, int] | None:
    """What is to be written, as a dense array of `dtype` and the step through it."""
    if type(value) is ndarray and value._shape:
        if value._dtype != dtype or value._shape != (count,):
            return None
        a = host(value)
        return (a if a.flags.c_contiguous else numpy.ascontiguousarray(a)), 1
    if type(value) in (bool, int, float, complex) or isinstance(value, numpy.generic):
        single = numpy.empty(1, dtype)
        single[0] = value  # NumPy's own conversion, with its errors
        return single, 0
    return None


def write_mask(x: ndarray, mask: ndarray, value: Any) -> bool:
    """`x[mask] = value` with an array of as many values as the mask chooses."""
    if type(value) is not ndarray or len(value._shape) != 1 or value._dtype != x._dtype or mask._shape != x._shape:
        return False
    truth = _routine.ready(mask, 0)
    if truth is None or _overlap(x, value) or _overlap(x, mask):
        return False
    ranges, starts = counted(truth)
    given = _values(value, x._dtype, int(starts[-1]))
    memory = target(x) if given is not None else None
    if given is None or memory is None:
        return False
    nbytes = truth.size + 2 * given[0].nbytes
    run(routines.expand, [truth, given[0], memory, starts], ranges, nbytes, range(len(ranges)), T=raw(x._dtype))
    return True


def _overlap(x: ndarray, y: Any) -> bool:
    """Whether two arrays may look at the same memory."""
    if type(y) is not ndarray:
        return False
    return bool(numpy.may_share_memory(host(x), host(y)))


def write_at(x: ndarray, index: Any, value: Any, source: Any = routines.scatter, **bindings: Any) -> bool:
    """`x[index] = value` for integer arrays over all axes; False where NumPy should do it, or raise."""
    if type(index) is RealArray:
        index = fresh(index)
    elif type(index) is tuple and len(index) == len(x._shape) > 1:
        index = _linear(x, index)
        x = x.reshape(-1) if index is not None and x.flags.c_contiguous else x
    if type(index) is not ndarray or len(x._shape) != 1 or len(index._shape) != 1 or index._dtype.kind not in "iu":
        return False
    count = index._shape[0]
    work = count if source is routines.scatter else count + x._shape[0]
    if work <= settings.eager_size and _lazy.is_ready(index) or not native(index._dtype) or not x._shape[0]:
        return False
    if settings.device.startswith("cuda"):
        return source is routines.scatter and _scattered(x, index, value)
    numbers = _routine.ready(index, 0)
    given = _values(value, x._dtype, count) if numbers is not None else None
    if numbers is None or given is None or _overlap(x, index) or _overlap(x, value):
        return False
    low, high = bounds(numbers)
    extent = x._shape[0]
    if low < -extent or high >= extent:
        return False
    memory = target(x)
    if memory is None:
        return False
    words = [given[0], numbers, memory, extent, given[1]]
    kind = bindings.pop("T", None) or raw(x._dtype)
    run(
        source,
        words,
        [(0, count)],
        numbers.nbytes + 2 * count * memory.itemsize,
        T=kind,
        I=code(numbers.dtype),
        **bindings,
    )
    return True


def _scattered(x: ndarray, index: ndarray, value: Any) -> bool:
    """The same where a device runs it: each element looks up the last index that names it."""
    extent = x._shape[0]
    given = type(value) is ndarray
    if not (native(x._dtype) and x._writeable and _lazy.worth(x)) or 0 in index._shape:
        return False
    if given and (value._dtype != x._dtype or value._shape != index._shape):
        return False
    if not given and type(value) not in (bool, int, float) or _lazy._folded(x):
        return False
    low, high = int(index.min()), int(index.max())  # type: ignore[attr-defined]
    if low < -extent or high >= extent:
        return False
    call = COUNTERPART
    take, where = call[numpy.take], call[numpy.where]
    index = index.astype("i8") if index._dtype != numpy.int64 else index  # type: ignore[attr-defined]
    if low < 0:
        index = where(index < 0, index + extent, index)  # type: ignore[operator]
    order = call[numpy.argsort](index, kind="stable")
    names, line = take(index, order), call[numpy.arange](extent)
    last = call[numpy.maximum](call[numpy.searchsorted](names, line, "right") - 1, 0)
    single = None if given else numpy.asarray(value).astype(x._dtype)[()]
    x[...] = where(take(names, last) == line, take(value, take(order, last)) if given else single, x)
    return True


def _linear(x: ndarray, keys: Any) -> Any:
    """Places in the flattened array of integer arrays that are not negative, one for each axis; None for other keys."""
    if any(type(k) is not ndarray or k._dtype.kind not in "iu" or len(k._shape) != 1 for k in keys):
        return None
    if len({k._shape for k in keys}) != 1 or _lazy.small(keys):
        return None
    for k, extent in zip(keys, x._shape, strict=True):
        numbers = _routine.ready(k, 0)
        if numbers is None:
            return None
        low, high = bounds(numbers)
        if low < 0 or high >= extent:
            return None
    made = keys[0]
    for k, extent in zip(keys[1:], x._shape[1:], strict=True):
        made = _lazy.apply(numpy.add, _lazy.apply(numpy.multiply, made, extent), k)
    return made


def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> Any:
    """Write elements by their number in the flattened array; see `numpy.put`."""
    if type(a) is not ndarray or mode != "raise" or not a._shape or type(ind) is not ndarray or len(ind._shape) != 1:
        return NotImplemented
    if len(a._shape) != 1:
        if not a.flags.c_contiguous:
            return NotImplemented
        a = a.reshape(-1)
    return None if write_at(a, ind, v) else NotImplemented


_AT = {"add": 0, "subtract": 1, "multiply": 2}


def ufunc_at(name: str, x: Any, index: Any, value: Any = None) -> bool:
    """`ufunc.at(x, index, value)`: every index counts, also those that come twice."""
    if name not in _AT or type(x) is not ndarray:
        return False
    if x._at is HOST and type(index) is ndarray and index._at is HOST:
        if x._np.size + index._np.size <= settings.eager_size:
            return False
    if x._dtype.kind not in "iuf" or x._dtype.char == "e":
        return False
    if not native(x._dtype):
        return False
    if type(index) is tuple and len(index) == 1:
        index = index[0]
    if type(value) is not ndarray and not isinstance(value, (int, float, numpy.generic)):
        return False
    if not numpy.can_cast(getattr(value, "dtype", type(value)), x._dtype, "same_kind"):
        return False
    return write_at(x, index, value, routines.scatter_add, T=code(x._dtype), OP=_AT[name])


def _compress_method(a: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return compress(condition, a, axis, out)


_select = _creation.where
NATIVE.update(
    {
        "compress": compress, "ndarray.compress": _compress_method,
        "extract": extract, "flatnonzero": flatnonzero, "nonzero": nonzero, "ndarray.nonzero": nonzero,
        "argwhere": argwhere, "where": _where, "put": put,
    }
)  # fmt: skip

__all__ = ["read_mask", "ufunc_at", "write_at", "write_mask"]
