"""Searching in sorted tables and counting: searchsorted, digitize, interp, bincount, histogram.

in: the public functions through `_dispatch.NATIVE`; out: routines.  NotImplemented leaves a call to NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _lazy, _routine
from ._array import RealArray, fresh, host, ndarray
from ._dispatch import COUNTERPART, NATIVE
from ._routine import Array, Space, code, kind, run, space
from ._sorting import bounds, limits, sortable
from .codegen import routines
from .runtime.config import settings
from .runtime.tuples import NamedTuple

_LISTED = 1 << 16  # numbers of a table that costs nothing


def _memory(x: Any) -> Array | None:
    """The memory of a table, whatever its size."""
    if type(x) is ndarray:
        return host(x)
    if type(x) is RealArray:
        return x
    if type(x) in (list, tuple) and x and all(type(v) in (int, float) for v in x):
        return numpy.array(x)
    return None


class Guide(NamedTuple):
    """Where to look in an ascending table: even buckets between its ends, and how many elements lie before each."""

    starts: Space
    buckets: int
    low: float
    scale: float


def _guide(table: Array) -> Guide:
    """A guide to a dense ascending table, whose NaNs stand last."""
    size = table.size
    low, high = float(table[0]), float(table[-1])
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = table[numpy.isfinite(table)]
        low, high = (float(finite[0]), float(finite[-1])) if finite.size else (0.0, 0.0)
    buckets = min(2 << size.bit_length(), 1 << 20)
    even = math.isfinite(high - low) and high - low > 1e-300 * buckets
    buckets, scale = (buckets, (buckets - 1) / (high - low)) if even else (1, 0.0)
    starts = space(buckets + 1, "i8")
    run(routines.guide, [table, starts, buckets, low, scale], [(0, size)], table.nbytes, T=code(table.dtype))
    return Guide(starts, buckets, low, scale)


def _look_up(table: Array, x: Array, right: bool) -> Space:
    """Place of each x in an ascending table of a common type."""
    size = table.size
    ordered = space(size, "i8")
    flat = numpy.ascontiguousarray(table)
    run(routines.to_ordered, [flat, ordered], [(0, size)], 2 * flat.nbytes, T=code(flat.dtype), KIND=kind(flat.dtype))
    made, guide = space(x.shape, "i8"), _guide(flat)
    ranges = _routine.shares(4 * x.nbytes, x.size)
    run(
        routines.search, [x, ordered, made, *guide], ranges, x.nbytes + made.array.nbytes, T=code(x.dtype),
        KIND=kind(x.dtype), RIGHT=int(right),
    )  # fmt: skip
    return made


def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where elements would be inserted; see `numpy.searchsorted`."""
    if sorter is not None or side not in ("left", "right"):
        return NotImplemented
    x, table = _routine.ready(v), _memory(a)
    if x is None or table is None or table.ndim != 1 or not table.size:
        return NotImplemented
    common = numpy.result_type(table.dtype, x.dtype)
    if not sortable(common) or common == numpy.uint64 or common.isnative is False:
        return NotImplemented
    if common.kind == "f" and common.itemsize == 4:
        common = numpy.dtype("f8")  # the same order
    if x.dtype != common and not (x.dtype.kind == common.kind == "i"):
        if x.dtype.kind != "f":
            x = x.astype(common)
    found = _look_up(table.astype(common, copy=False), x, side == "right")
    return found.handle() if x.ndim else found.array[()]


def isin(
    element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *, kind: Any = None
) -> Any:  # fmt: skip
    """Which elements are among others; see `numpy.isin`."""
    if type(invert) is not bool or type(assume_unique) is not bool or kind not in (None, "sort"):
        return NotImplemented  # NumPy refuses some tables
    x, tests = _routine.ready(element), _memory(test_elements)
    if x is None or tests is None or not tests.size:
        return NotImplemented
    common = numpy.result_type(x.dtype, tests.dtype)
    if not sortable(common) or common == numpy.uint64 or "b" in (x.dtype.kind, tests.dtype.kind):
        return NotImplemented
    x, tests = x.astype(common, copy=False), tests.astype(common, copy=False).reshape(-1)
    made, options = space(x.shape, "?"), dict[str, Any](T=code(common), INVERT=int(invert))
    ranges = _routine.shares(x.nbytes, x.size)
    if common.kind == "i":
        low, high = limits(tests)
        size = high - low + 1
        if size <= max(_LISTED, 6 * (x.size + tests.size)):
            table = numpy.zeros(size, "u1")
            table[tests - low if low else tests] = 1
            run(routines.listed, [x, table, made, low, size], ranges, x.nbytes + made.array.nbytes, **options)
            return made.handle()
    ordered = numpy.unique(tests)
    places = _look_up(ordered.astype("f8") if common.kind == "f" else ordered, x, False)  # the same order
    words = [x, ordered, places, made, ordered.size]
    run(routines.found, words, ranges, x.nbytes + places.array.nbytes + made.array.nbytes, **options)
    return made.handle()


def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """Number of the bin of each element; see `numpy.digitize`."""
    if type(right) is not bool or type(x) is not ndarray or x._dtype.kind not in "iuf":
        return NotImplemented
    table = _memory(bins)
    if table is None or table.ndim != 1 or not table.size or table.dtype.kind not in "iuf":
        return NotImplemented
    if _lazy.small((x,)):
        return NotImplemented
    if numpy.all(table[1:] >= table[:-1]):
        return searchsorted(table, x, "left" if right else "right")
    return NotImplemented


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Linear interpolation; see `numpy.interp`."""
    if period is not None or type(x) is not ndarray or x._dtype.kind not in "iuf" or not x._shape:
        return NotImplemented
    grid, values = _memory(xp), _memory(fp)
    if grid is None or values is None or grid.ndim != 1 or values.shape != grid.shape or grid.size < 2:
        return NotImplemented
    if grid.dtype.kind not in "iuf" or values.dtype.kind not in "iuf":
        return NotImplemented
    if not all(v is None or type(v) in (int, float) for v in (left, right)):
        return NotImplemented
    a = _routine.ready(x)
    if a is None:
        return _interp_recorded(x, grid, values, left, right)
    a, grid, values = (numpy.ascontiguousarray(v, "f8") for v in (a, grid, values))
    low = float(values[0] if left is None else left)
    high = float(values[-1] if right is None else right)
    made = space(a.shape, "f8")
    ranges = _routine.shares(4 * a.nbytes, a.size)
    words = [a, grid, values, made, grid.size, low, high, *_guide(grid)]
    run(routines.interpolate, words, ranges, 2 * a.nbytes)
    return made.handle()


def _interp_recorded(x: ndarray, grid: Array, values: Array, left: Any, right: Any) -> Any:
    """The same where a device runs it: a search, and arithmetic on what it finds."""
    if not settings.device.startswith("cuda") or not _lazy.worth(x) or x._dtype != numpy.float64:
        return NotImplemented
    if grid.dtype != numpy.float64 or values.dtype != numpy.float64 or not numpy.isfinite(values).all():
        return NotImplemented
    if not (numpy.isfinite(grid).all() and (grid[1:] > grid[:-1]).all()):
        return NotImplemented
    call, last = COUNTERPART, grid.size - 1
    table, heights = fresh(grid.copy()), fresh(values.copy())
    slopes = fresh((values[1:] - values[:-1]) / (grid[1:] - grid[:-1]))
    at = call[numpy.searchsorted](table, x, "right") - 1
    inner = call[numpy.clip](at, 0, last - 1)
    start, height = call[numpy.take](table, inner), call[numpy.take](heights, inner)
    where = call[numpy.where]
    y = call[numpy.take](slopes, inner) * (x - start) + height
    y = where(x == grid[last], values[last], y)
    y = where(x < grid[0], values[0] if left is None else float(left), y)
    y = where(x > grid[last], values[last] if right is None else float(right), y)
    return where(x == x, y, x)


def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """How often each number comes; see `numpy.bincount`."""
    if type(x) is not ndarray or x._dtype.kind not in "iu" or len(x._shape) != 1 or type(minlength) is not int:
        return NotImplemented
    if minlength < 0 or not numpy.can_cast(x._dtype, numpy.intp, "safe"):
        return NotImplemented
    if weights is not None and (
        type(weights) is not ndarray or weights._shape != x._shape or weights._dtype.kind not in "biuf"
    ):
        return NotImplemented
    a = _routine.ready(x)
    if a is None:
        return NotImplemented
    low, high = bounds(a)
    if low < 0:
        return NotImplemented
    size = max(high + 1, minlength)
    if weights is None:
        counts = numpy.zeros(size, "i8")
        run(routines.tally, [a, counts], [(0, a.size)], a.nbytes + counts.nbytes, T=code(a.dtype))
        return fresh(counts)
    sums, given = numpy.zeros(size), numpy.ascontiguousarray(host(weights), "f8")
    run(routines.weigh, [a, given, sums], [(0, a.size)], a.nbytes + given.nbytes, T=code(a.dtype))
    return fresh(sums)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Counts of bins, and their edges; see `numpy.histogram`."""
    if weights is not None or type(bins) is not int or bins < 1 or bins > 1 << 20 or density not in (None, False, True):
        return NotImplemented
    if type(a) is not ndarray or a._dtype not in (numpy.dtype("f8"), numpy.dtype("i8"), numpy.dtype("i4")):
        return NotImplemented
    x = _routine.ready(a)
    if x is None:
        return NotImplemented
    ends = numpy.array((x.min(), x.max())) if range is None else numpy.zeros(1, x.dtype)
    edges = numpy.histogram_bin_edges(ends, bins, range)  # with NumPy's errors
    low, high = float(edges[0]), float(edges[-1])
    if x.dtype.kind == "i" and max(-low, high) >= 1 << 52:
        return NotImplemented
    scale = bins / (high - low) if high > low else 0.0
    if edges.dtype != numpy.float64 or not numpy.isfinite(scale) or not numpy.isfinite(high - low) or scale == 0.0:
        return NotImplemented
    ranges = _routine.shares(4 * x.nbytes, x.size)
    counts = numpy.zeros((len(ranges), bins), "i8")
    _count_parts(x, edges, counts, ranges, (bins, low, high, scale))
    total = counts.sum(axis=0)
    if density:
        return fresh(total / numpy.array(numpy.diff(edges), float) / total.sum()), fresh(edges)
    return fresh(total), fresh(edges)


def _count_parts(x: Array, edges: Array, counts: Array, ranges: _routine.Ranges, given: tuple[Any, ...]) -> None:
    """Each range counts into a row of its own."""
    addresses = [counts.ctypes.data + row * counts.strides[0] for row, _ in enumerate(ranges)]
    bins, low, high, scale = given
    run(
        routines.spread, [x, edges, bins, low, high, scale], ranges, x.nbytes + counts.nbytes, addresses,
        T=code(x.dtype),
    )  # fmt: skip


NATIVE.update(
    {
        "searchsorted": searchsorted, "ndarray.searchsorted": searchsorted, "digitize": digitize, "interp": interp,
        "bincount": bincount, "histogram": histogram, "isin": isin,
    }
)  # fmt: skip

__all__ = ["histogram", "searchsorted"]
