"""Selecting and counting on a device: masks, non-zero elements, unique elements, histograms; all by `_library_sort`.

in: `_library`; out: places from a sort of one bit, elements by a recorded gather, counts from binary searches.
"""

from __future__ import annotations

from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from . import _lazy, _record, _views
from ._array import ndarray
from ._library_device import address, array, as_type, cast, dense, new, np, op, owned, pending, seen, step, value_of
from ._library_sort import (
    BOOL,
    F8,
    I8,
    MOST,
    U4,
    U8,
    flat,
    found_places,
    gather,
    iota,
    keys_of,
    ranking,
    shaped,
    sorted_keys,
    sorted_lines,
    sorted_pairs,
)
from .fusion.node import IOTA, READ, Node
from .fusion.view import View
from .runtime import cudalib_sort as cub


def chosen(mask: ndarray) -> Any:
    """The places (64 bits, ascending) of the true elements of a 1-d boolean array."""
    count = int(mask.sum())  # type: ignore[attr-defined]
    kind, top = (U4, 31) if mask._shape[0] < 1 << 31 else (U8, 63)
    places = as_type(Node(IOTA, "iota", I8, mask._shape, (), 0), kind)
    false = op("left_shift", as_type(op("logical_not", value_of(mask)), kind), top)
    made = sorted_keys(pending(op("bitwise_or", false, places), [mask]), top, top + 1)  # by this bit alone: stable
    return _views.dense_copy(cast(seen(made, lambda g: g[:count]), I8))


def _truth(x: ndarray) -> Any:
    """Whether each element is not zero."""
    given: Any = x
    return x if x._dtype.kind == "b" else given != 0


def _places(x: ndarray) -> list[Any]:
    """The indices of the elements that are not zero, one array for each axis."""
    line = flat(dense(x))
    places = chosen(_truth(line))
    found = []
    for extent in reversed(x._shape[1:]):
        found.append(places % extent)
        places = places // extent
    return [places, *reversed(found)]


def on_nonzero(a: Any) -> Any:
    """`numpy.nonzero`."""
    x = array(a)
    if x is None or not x._shape or 0 in x._shape or x.size >= MOST:
        return NotImplemented
    return tuple(_places(x))


def on_ndarray_nonzero(self: Any) -> Any:
    """`numpy.ndarray.nonzero`."""
    return on_nonzero(self)


def on_flatnonzero(a: Any) -> Any:
    """`numpy.flatnonzero`."""
    x = array(a)
    if x is None or not x._shape or 0 in x._shape or x.size >= MOST:
        return NotImplemented
    return _places(flat(dense(x)))[0]


def masked(x: ndarray, mask: ndarray) -> Any:
    """`x[mask]` for a boolean array over the leading axes."""
    rank = len(mask._shape)
    if mask._dtype.kind != "b" or not rank or x._shape[:rank] != mask._shape or 0 in x._shape or mask.size >= MOST:
        return NotImplemented
    places = chosen(flat(dense(mask)))
    rest = x._shape[rank:]
    if not rest:
        return gather(flat(dense(x)), places)
    lines = shaped(dense(x), (mask.size, *rest))
    shape = (places._shape[0], *rest)
    if 0 in shape:
        return new(x._dtype, shape)[1]
    axes = tuple(range(len(shape)))
    strides = (places._strides[0], *[0] * len(rest))
    place = _record.read(_record.make(places._base, 0, strides, shape, I8), shape, axes)
    node = _record.gather_node(lines, (place,), shape, 1, axes, _record.here())
    return _record.deliver(node, shape, axes, [lines, places])


def on_compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """`numpy.compress`."""
    x, mask = array(a), array(condition)
    if x is None or mask is None or out is not None or len(mask._shape) != 1 or not x._shape:
        return NotImplemented
    if axis is None:
        x, axis = flat(dense(x)), 0
    try:
        at = normalize_axis_index(axis, len(x._shape))
    except (TypeError, ValueError):
        return NotImplemented
    extent, mask_length = x._shape[at], mask._shape[0]
    if mask_length > extent:
        return NotImplemented
    mask = _truth(mask)
    moved = seen(x, lambda g: numpy.moveaxis(g, at, 0)[:mask_length])
    made = masked(moved, mask)
    if made is NotImplemented or at == 0:
        return made
    return owned(_views.dense_copy(seen(made, lambda g: numpy.moveaxis(g, 0, at))))


def on_ndarray_compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """`numpy.ndarray.compress`."""
    return on_compress(condition, self, axis, out)


def on_extract(condition: Any, arr: Any) -> Any:
    """`numpy.extract`."""
    mask, x = array(condition), array(arr)
    if mask is None or x is None or mask.size != x.size:
        return NotImplemented
    return masked(flat(dense(x)), flat(dense(_truth(mask))))


# ---------------------------------------------------------------------- unique, counts
def on_unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None, *,
    equal_nan: Any = True, sorted: Any = True,
) -> Any:  # fmt: skip
    """`numpy.unique`; the elements come sorted in any case."""
    x = array(ar)
    if x is None or not x._shape or (axis is not None and len(x._shape) > 1) or 0 in x._shape or x.size >= MOST:
        return NotImplemented
    if axis not in (None, 0, -1):
        return NotImplemented
    line = flat(dense(x))
    if not (return_index or return_inverse):
        ordered = sorted_lines(line, False)
        perm = None
    else:
        perm = ranking(line)
        ordered = gather(line, perm)
    first = _firsts(ordered, bool(equal_nan))
    starts = chosen(first)
    answer = [gather(ordered, starts)]
    if return_index:
        answer.append(cast(gather(perm, starts), I8))  # type: ignore[arg-type]
    if return_inverse:
        groups = np.cumsum(first) - 1
        undone = sorted_pairs(perm, iota(line._shape[0]), 0, max(line._shape[0] - 1, 1).bit_length())  # type: ignore[arg-type]
        answer.append(owned(shaped(dense(gather(groups, undone)), x._shape)))
    if return_counts:
        ends = np.concatenate([starts[1:], numpy.array([line._shape[0]])])
        answer.append(ends - starts)
    return answer[0] if len(answer) == 1 else tuple(answer)


def _firsts(ordered: ndarray, equal_nan: bool) -> Any:
    """Whether each element of a sorted array differs from the one before it."""
    count = ordered._shape[0]
    places = Node(IOTA, "iota", I8, (count,), (), 0)
    before = op("subtract", op("maximum", places, 1), 1)
    mine = value_of(ordered)
    other = _record.gather_node(ordered, (before,), (count,), 1, (0,), None)
    differs = op("not_equal", mine, other, dtype=BOOL)
    if equal_nan and ordered._dtype.kind in "fc":
        differs = op("logical_and", differs, op("equal", other, other, dtype=BOOL))
    return pending(op("logical_or", differs, op("equal", places, 0, dtype=BOOL)), [ordered])


def _weighed(places: ndarray, weights: ndarray) -> Any:
    """Sums of the weights (float64, in the order of their keys) between one place and the next."""
    weights, places = dense(weights), dense(places)
    many = places._shape[0] - 1
    with step(weights, places) as found:
        buffer, made = new(F8, (many,))
        starts = address(found, places)
        cub.sums(found, (address(found, weights), weights._shape[0]), starts, starts + 8, found.write(buffer), many)
    return made


def _between(keys: Any, bits: int, limits: Any, weights: Any) -> Any:
    """How many keys lie between one limit and the next, or the sums of their weights."""
    if weights is None:
        places: Any = limits(sorted_keys(keys, 0, bits))
        return places[1:] - places[:-1]
    perm = sorted_pairs(keys, iota(keys._shape[0]), 0, bits)
    return _weighed(limits(gather(keys, perm)), gather(cast(weights, F8), perm))


def _weights(given: Any, shape: Any) -> Any:
    """Weights as an array of real numbers for each element; None for none, NotImplemented for what NumPy does."""
    if given is None:
        return None
    x = array(given)
    if x is None or x._shape != shape or x._dtype.kind == "c" or not numpy.can_cast(x._dtype, F8):
        return NotImplemented
    return flat(dense(x))


def on_bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """`numpy.bincount`."""
    a = array(x)
    if a is None or len(a._shape) != 1 or 0 in a._shape or a.size >= MOST:
        return NotImplemented
    if a._dtype.kind not in "iub" or a._dtype.char in "LQ" or isinstance(minlength, bool):
        return NotImplemented
    scale = _weights(weights, a._shape)
    low, high = int(a.min()), int(a.max())  # type: ignore[attr-defined]
    if scale is NotImplemented or low < 0 or not hasattr(type(minlength), "__index__") or minlength < 0:
        return NotImplemented  # which NumPy raises
    count = max(high + 1, int(minlength))
    if count > 8 * a.size + (1 << 20):
        return NotImplemented
    kind = U4 if count < MOST else U8
    wanted = iota(count + 1, kind)
    return _between(cast(a, kind), max(high.bit_length(), 1), lambda keys: found_places(keys, wanted, False), scale)


def _edges(line: ndarray, bins: Any, range: Any) -> Any:
    """NumPy's edges, which it works out from the ends alone."""
    sample = numpy.zeros(1, line._dtype)
    if numpy.ndim(bins):
        return numpy.histogram_bin_edges(sample, np.asarray(bins).__array__())
    if range is None:
        ends: Any = line.min(), line.max()  # type: ignore[attr-defined]
        sample = numpy.array([numpy.asarray(v)[()] for v in ends], line._dtype)
    return numpy.histogram_bin_edges(sample, bins, range)


def _histogram(keys: ndarray, limits: ndarray, weights: Any) -> Any:
    """Counts (or sums of weights) between the keys of edges: each element's number of edges that do not pass it."""
    many = limits._shape[0] - 1
    number = value_of(found_places(limits[:-1], keys, True))
    last = _record.read(limits[-1:], (1,), (0,))
    last = Node(READ, "", last.dtype, keys._shape, (last,), View(0, keys._shape, (0,)))
    beyond = as_type(op("greater", value_of(keys), last, dtype=BOOL), I8)
    numbers = pending(as_type(op("add", number, beyond), U4), [keys, limits])
    wanted = pending(op("add", as_type(Node(IOTA, "iota", I8, (many + 1,), (), 0), U4), 1))
    return _between(numbers, (many + 1).bit_length(), lambda k: found_places(k, wanted, False), weights)


def on_histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """`numpy.histogram` for a number of bins or given edges."""
    x = array(a)
    if x is None or isinstance(bins, str) or x._dtype.kind in "cb" or x.size >= MOST or 0 in x._shape or not x._shape:
        return NotImplemented
    scale = _weights(weights, x._shape)
    if scale is NotImplemented:
        return NotImplemented
    line = flat(dense(x))
    edges = _edges(line, bins, range)
    dtype = numpy.promote_types(line._dtype, edges.dtype)
    if dtype.char not in "?bBhHiIlLqQefd":
        return NotImplemented
    limits = keys_of(_lazy.fresh(edges.astype(dtype)), False)
    counts = _histogram(keys_of(cast(line, dtype), False), limits, scale)
    if scale is not None:
        counts = counts.astype(scale._dtype)
    if density:
        return counts / numpy.array(numpy.diff(edges), float) / counts.sum(), _lazy.fresh(edges)
    return counts, _lazy.fresh(edges)
