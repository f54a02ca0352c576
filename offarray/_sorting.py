"""Sorting by digits, and what rests on it: sort, argsort, unique.

in: the public functions through `_dispatch.NATIVE`; out: routines.  NotImplemented leaves a call to NumPy.

The order of equal elements is that of the operand, of which NumPy's default promises nothing.  NaNs come last.  Where
both zeros are among floats, whose order cannot be told from their keys, NumPy sorts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy

from . import _routine
from ._array import fresh, ndarray
from ._dispatch import NATIVE
from ._routine import Array, Space, code, kind, run, space
from .codegen import routines
from .codegen.routines import BUCKETS, DIGIT
from .runtime import trace
from .runtime.tuples import NamedTuple

_KINDS = (None, "quicksort", "heapsort", "mergesort", "stable")
_UNSET: Any = numpy._NoValue  # type: ignore[attr-defined]
_FEW = 4096  # elements up to which NumPy's own passes are as good
_TRIAL = 32768  # elements on which NumPy's sort and ours are compared
_faster: dict[str, bool] = {}  # by data type: whether ours was faster


class Keys(NamedTuple):
    """Unsigned keys in the order of some elements."""

    keys: Space
    counts: Array  # of each digit's values, one row for each digit
    base: int  # what was taken from integers
    zeros: int  # which zeros there are among floats: 1 positive, 2 negative


def sortable(dtype: numpy.dtype[Any]) -> bool:
    """Whether elements have keys of 4 or 8 bytes."""
    return dtype.kind in "iuf" and dtype.itemsize in (4, 8)


def keys_of(a: Array, equal: bool) -> Keys:
    """Keys of a dense array; with `equal` both zeros have one, and all NaNs."""
    n, dtype = a.size, a.dtype
    size = dtype.itemsize
    base, digits = 0, -(-8 * size // DIGIT)
    if dtype.kind != "f":
        low, high = bounds(a)
        base = low
        digits = max(-(-(high - low).bit_length() // DIGIT), 1)
    keys, counts, flags = space(n, f"u{size}"), numpy.zeros((digits, BUCKETS), "i8"), numpy.zeros(1, "i8")
    run(
        routines.to_keys, [a, keys, counts, flags, base], [(0, n)], 2 * a.nbytes, T=code(dtype), K=f"u{size}",
        KIND=kind(dtype), SIGN=1 << (8 * size - 1), EQUAL=int(equal), DIGITS=digits,
    )  # fmt: skip
    return Keys(keys, counts, base, int(flags[0]))


def bounds(a: Array) -> tuple[int, int]:
    """Least and greatest of an array of integers."""
    ranges = _routine.shares(a.nbytes, a.size)
    found = numpy.zeros((len(ranges), 2), "i8")
    parts = range(0, 2 * len(ranges), 2)
    run(routines.bounds, [a, found], ranges, a.nbytes, parts, T=code(a.dtype))
    if a.dtype == numpy.uint64:
        found = found.view("u8")
    return int(found[:, 0].min()), int(found[:, 1].max())


def limits(a: Array) -> tuple[int, int]:
    """The same of any array of integers that is not empty."""
    if a.size > _FEW and a.flags.c_contiguous:
        return bounds(a)
    return int(a.min()), int(a.max())


def _passes(found: Keys, n: int) -> list[tuple[int, Array]]:
    """Shift of each pass that changes anything, and where each of its digit's values starts."""
    starts = found.counts.cumsum(axis=1) - found.counts
    return [(DIGIT * d, starts[d]) for d in range(len(starts)) if found.counts[d].max() < n]


def sorted_copy(a: Array) -> Space | None:
    """The elements in ascending order; None where NumPy must do it."""
    n, size = a.size, a.dtype.itemsize
    found = keys_of(a, False)
    if found.zeros == 3:
        return None
    keys, other = found.keys, space(n, f"u{size}")
    for shift, starts in _passes(found, n):
        run(routines.radix, [keys, other, starts, shift], [(0, n)], 2 * a.nbytes, K=f"u{size}")
        keys, other = other, keys
    out = Space(other.buffer, other.buffer.view(a.dtype, (n,)))
    run(
        routines.from_keys, [keys, out, found.base], _routine.shares(2 * a.nbytes, n), 2 * a.nbytes, T=code(a.dtype),
        K=f"u{size}", KIND=kind(a.dtype), SIGN=1 << (8 * size - 1),
    )  # fmt: skip
    return out


def order_of(a: Array) -> Space:
    """The places of the elements in ascending order, equal ones in their own."""
    n, size = a.size, a.dtype.itemsize
    found = keys_of(a, True)
    keys, other = found.keys, space(n, f"u{size}")
    places, others = space(n, "i8"), space(n, "i8")
    passes = _passes(found, n)
    if not passes:
        places.array[:] = numpy.arange(n)
        return places
    for number, (shift, starts) in enumerate(passes):
        nbytes = 2 * (a.nbytes + 8 * n)
        if number == 0:
            words = [keys, other, others, starts, shift]
            run(routines.radix_first, words, [(0, n)], nbytes, K=f"u{size}", I="i8")
        else:
            words = [keys, places, other, others, starts, shift]
            run(routines.radix_pairs, words, [(0, n)], nbytes, K=f"u{size}", I="i8")
        keys, other, places, others = other, keys, others, places
    return places


def _better(a: Array) -> bool:
    """Whether sorting by digits beats NumPy's sort here, which depends on the processor: tried once for each type."""
    name = a.dtype.char
    if name not in _faster:
        found = _tried(a)
        if a.size < _TRIAL:
            return found
        _faster[name] = found
    return _faster[name]


def _tried(a: Array) -> bool:
    """Whether ours is faster on the first elements; what that takes is not counted."""
    counted, events, trace.events = trace.stats(), trace.events, None
    some = a.reshape(-1)[:_TRIAL].copy()
    took = []
    for call in (sorted_copy, numpy.sort):
        call(some)  # compiled, or loaded
        least = 1.0
        for _ in range(3):
            start = time.perf_counter()
            call(some)
            least = min(least, time.perf_counter() - start)
        took.append(least)
    trace.counters.update(counted)
    trace.events = events
    return took[0] < took[1]


def _flat(x: Any, axis: Any, sort_kind: Any, order: Any, stable: Any) -> Array | None:
    """The memory of an operand of one axis, if the call is one of ours."""
    if order is not None or sort_kind not in _KINDS or type(stable) not in (bool, type(None)):
        return None
    if stable is not None and sort_kind is not None:
        return None
    if type(x) is not ndarray or not sortable(x._dtype):
        return None
    if axis is not None and (type(axis) is not int or len(x._shape) != 1 or not -1 <= axis <= 0):
        return None
    a = _routine.ready(x)
    return None if a is None else a.reshape(-1)


def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Sorted copy; see `numpy.sort`."""
    flat = _flat(a, axis, kind, order, stable)
    if flat is None or not _better(flat):
        return NotImplemented
    made = sorted_copy(flat)
    return NotImplemented if made is None else made.handle()


def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Places that sort an array; see `numpy.argsort`."""
    flat = _flat(a, axis, kind, order, stable)
    return NotImplemented if flat is None else order_of(flat).handle()


# ---------------------------------------------------------------------- sets
def _sorted(flat: Array) -> Array | None:
    """Sorted elements, by whatever is faster here."""
    if not _better(flat):
        return numpy.sort(flat)
    made = sorted_copy(flat)
    return None if made is None else made.array


def _distinct(values: Array, alike: bool) -> tuple[Array, Array]:
    """Distinct elements of a sorted array, and where each begins."""
    n = values.size
    out, places, found = space(n, values.dtype), space(n, "i8"), numpy.zeros(1, "i8")
    run(
        routines.distinct, [values, out, places, found], [(0, n)], 2 * values.nbytes, T=code(values.dtype),
        ALIKE=int(alike),
    )  # fmt: skip
    count = int(found[0])
    return out.array[:count].copy(), places.array[:count].copy()


def unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None, *,
    equal_nan: Any = True, sorted: Any = True,
) -> Any:  # fmt: skip
    """Distinct elements; see `numpy.unique`."""
    if axis is not None or not sorted:
        return NotImplemented
    flat = _flat(ar, None, None, None, None)
    if flat is None or flat.dtype.itemsize not in (4, 8):
        return NotImplemented
    alike = bool(equal_nan)
    if not return_index and not return_inverse:
        values = _sorted(flat)
        if values is None:
            return NotImplemented
        found, starts = _distinct(values, alike)
        if not return_counts:
            return fresh(found)
        counts = numpy.diff(numpy.append(starts, flat.size))
        return fresh(found), fresh(counts)
    if flat.dtype.kind == "f" and keys_of(flat, False).zeros == 3:
        return NotImplemented  # which zero stands for both
    order = order_of(flat).array
    values = flat[order]
    found, starts = _distinct(values, alike)
    made: list[Array] = [found]
    if return_index:
        made.append(order[starts])
    if return_inverse:
        inverse = numpy.empty(flat.size, "i8")
        words = [flat, order, inverse]
        run(routines.ranks, words, [(0, flat.size)], 3 * inverse.nbytes, T=code(flat.dtype), ALIKE=int(alike))
        made.append(inverse.reshape(ar._shape))
    if return_counts:
        made.append(numpy.diff(numpy.append(starts, flat.size)))
    del values, order
    return tuple(map(fresh, made))


def _named(real: Any, **options: Any) -> Any:
    """`unique_counts` and its like, whose results have names."""
    result = type(real(numpy.zeros(1)))

    def call(x: Any, /) -> Any:
        made = unique(x, equal_nan=False, **options)
        return made if made is NotImplemented else result(*made)

    return call


NATIVE.update(
    {
        "sort": sort, "argsort": argsort, "ndarray.argsort": argsort, "unique": unique,
        "unique_counts": _named(numpy.unique_counts, return_counts=True),
        "unique_inverse": _named(numpy.unique_inverse, return_inverse=True),
        "unique_all": _named(numpy.unique_all, return_index=True, return_inverse=True, return_counts=True),
    }
)  # fmt: skip

__all__ = ["bounds", "order_of", "sortable", "sorted_copy"]
