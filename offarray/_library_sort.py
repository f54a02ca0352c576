"""Sorting, searching and selecting on a device, from stable radix sorts and binary searches of unsigned keys.

in: `_library`; out: runtime/cudalib_sort.py, and kernels of our own that make the keys.

A key is an unsigned number with the order of the element: NumPy's, with NaN last.  Exact keys tell every bit pattern
apart and give elements back; equal keys are equal where NumPy's comparison is (zeros of both signs, all NaN), so that
stable sorts keep NumPy's ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.lib.array_utils import normalize_axis_index

from . import _lazy, _record, _views
from ._array import ndarray
from ._library_device import (
    Shape,
    address,
    array,
    bits,
    cast,
    dense,
    evaluated,
    new,
    np,
    on,
    owned,
    seen,
    step,
    store,
)
from .runtime import cudalib_sort as cub

MOST = 1 << 32  # elements of one sort: places have 32 bits
U1, U4, U8, I8 = (numpy.dtype(t) for t in ("u1", "u4", "u8", "i8"))
_UNSIGNED = {1: U1, 2: numpy.dtype("u2"), 4: U4, 8: U8}


# ---------------------------------------------------------------------- keys
def _key_type(dtype: Any) -> Any:
    return U8 if dtype.itemsize == 8 else U4


def key_bits(dtype: Any) -> int:
    """Bits of a key that count."""
    return 1 if dtype.kind == "b" else 8 * int(dtype.itemsize)


def keys_of(x: ndarray, exact: bool) -> Any:
    """The keys of a real array in C order, as a pending array of 32 or 64 bits."""
    dtype = x._dtype
    if dtype.kind == "b":
        return cast(x, U4)
    word = _UNSIGNED[dtype.itemsize]
    if dtype.kind == "u":
        return cast(x, _key_type(dtype))
    if dtype.kind == "f" and not exact:
        with numpy.errstate(all="ignore"):
            value: Any = x
            x = np.where(value != value, dtype.type(numpy.nan), value + dtype.type(0))
    raw: Any = bits(dense(x), word)
    top = word.type(1 << (key_bits(dtype) - 1))
    if dtype.kind == "i":
        return cast(raw ^ top, _key_type(dtype))
    flipped = np.where((raw & top) != 0, ~raw, raw | top)
    return cast(flipped - word.type(_negative_nans(dtype)), _key_type(dtype))


def _negative_nans(dtype: Any) -> int:
    """How many bit patterns are NaN with a sign: their keys come after all others."""
    return int((1 << numpy.finfo(dtype).nmant) - 1)


def elements_of(keys: ndarray, dtype: Any) -> ndarray:
    """The elements that exact keys (evaluated) stand for."""
    if dtype.kind == "u":
        return cast(keys, dtype)
    if dtype.kind == "b":
        return cast(keys, dtype)
    word = _UNSIGNED[dtype.itemsize]
    raw: Any = cast(keys, word)
    top = word.type(1 << (key_bits(dtype) - 1))
    if dtype.kind == "i":
        back = raw ^ top
    else:
        raw = raw + word.type(_negative_nans(dtype))
        back = np.where((raw & top) != 0, raw & ~top, ~raw)
    back = dense(back)
    evaluated(back)
    buffer = back._base.node.buffer
    assert buffer is not None
    return on(buffer, dtype, back._shape)


# ---------------------------------------------------------------------- the two primitives
def sorted_keys(keys: ndarray, low: int, high: int) -> ndarray:
    """Keys (1-d) in ascending order of their bits `low` to `high`."""
    keys = dense(keys)
    with step(keys) as found:
        buffer, made = new(keys._dtype, keys._shape)
        cub.sort(found, keys._shape[0], (address(found, keys), found.write(buffer)), keys._dtype, bits=(low, high))
    return made


def sorted_pairs(keys: ndarray, places: ndarray, low: int, high: int) -> ndarray:
    """The places (32 bits) that come with the keys, in the order of the keys; ties keep theirs."""
    keys, places = dense(keys), dense(places)
    count = keys._shape[0]
    with step(keys, places) as found:
        buffer, made = new(U4, (count,))
        spare = found.scratch(count * keys._dtype.itemsize)
        pair = address(found, places), found.write(buffer)
        cub.sort(found, count, (address(found, keys), spare), keys._dtype, pair, U4, (low, high))
    return made


def found_places(sorted_: ndarray, wanted: ndarray, upper: bool) -> ndarray:
    """Where keys (1-d) belong among sorted keys, as 64-bit integers."""
    sorted_, wanted = dense(sorted_), dense(wanted)
    count = wanted._shape[0]
    with step(sorted_, wanted) as found:
        buffer, made = new(I8, (count,))
        where = (address(found, sorted_), sorted_._shape[0]), (address(found, wanted), count)
        cub.search(found, sorted_._dtype, *where, found.write(buffer), upper)
    return made


# ---------------------------------------------------------------------- orders
def _iota(count: int) -> ndarray:
    return np.arange(count, dtype=U4)  # type: ignore[no-any-return]


def gather(x: ndarray, places: ndarray) -> Any:
    """Elements of a 1-d array at places (1-d) that are known to lie inside."""
    places = cast(places, I8)
    node = _record.read(places, places._shape, (0,))
    made = _record.gather_node(x, (node,), places._shape, 1, (0,), _record.here())
    return _record.deliver(made, places._shape, (0,), [x, places])


def order(keys: Sequence[tuple[ndarray, int]]) -> ndarray:
    """Places (32 bits) that bring 1-d keys into order: the first is the last to decide. Stable."""
    (first, width), *others = keys
    places = sorted_pairs(first, _iota(first._shape[0]), 0, width)
    for key, width in others:
        places = sorted_pairs(gather(key, places), places, 0, width)
    return places


def _chain(x: ndarray) -> list[tuple[ndarray, int]]:
    """The keys of a 1-d array, ties as NumPy's: one, or for complex numbers three."""
    if x._dtype.kind != "c":
        return [(keys_of(x, False), key_bits(x._dtype))]
    real, imag = (dense(seen(x, lambda g, p=p: getattr(g, p))) for p in ("real", "imag"))  # type: ignore[misc]
    kinds = np.isnan(real) * numpy.uint32(2) + np.isnan(imag)
    parts = [(keys_of(v, False), key_bits(v._dtype)) for v in (imag, real)]
    return [*parts, (cast(kinds, U4), 2)]


def _lines(x: ndarray, axis: int) -> ndarray:
    """`x` with an axis moved to the end, dense."""
    return dense(seen(x, lambda g: numpy.moveaxis(g, axis, -1)))


def _back(x: ndarray, axis: int) -> Any:
    """A dense result, its last axis moved to where NumPy has it."""
    if axis == len(x._shape) - 1:
        return owned(x)
    return owned(_views.dense_copy(seen(x, lambda g: numpy.moveaxis(g, -1, axis))))


def _flat(x: ndarray) -> ndarray:
    return seen(x, lambda g: g.reshape(-1))


def _shaped(x: ndarray, shape: Shape) -> ndarray:
    return seen(x, lambda g: g.reshape(shape))


def _rows(count: int, length: int) -> tuple[Any, int]:
    """The row of each of `count` rows' elements, as a key, and its bits."""
    return cast(np.arange(count * length, dtype=I8) // length, U4), max(count - 1, 1).bit_length()


def ranking(lines: ndarray) -> ndarray:
    """Places in the flattened array that bring each row of (..., n) into order."""
    n = lines._shape[-1]
    count = math.prod(lines._shape[:-1])
    keys = _chain(_flat(lines))
    if count > 1:
        keys.append(_rows(count, n))
    return order(keys)


def sorted_lines(lines: ndarray, stable: bool) -> ndarray:
    """Each row of (..., n) in order."""
    shape, dtype = lines._shape, lines._dtype
    n, count = shape[-1], math.prod(shape[:-1])
    flat = _flat(lines)
    ties = stable and dtype.kind == "f"  # zeros of both signs are equal, and told apart
    if dtype.kind == "c" or ties or (count > 1 and dtype.itemsize == 8):
        return _shaped(gather(flat, ranking(lines)), shape)
    keys, width = keys_of(flat, True), key_bits(dtype)
    if count > 1:
        rows, more = _rows(count, n)
        wide: Any = cast(rows, U8)
        keys = (wide << numpy.uint64(width)) | cast(keys, U8)
        width += more
    made = sorted_keys(keys, 0, width)
    if count > 1:
        made = cast(made & numpy.uint64((1 << key_bits(dtype)) - 1), _key_type(dtype))  # type: ignore[operator]
    return _shaped(elements_of(made, dtype), shape)


_KINDS = {None: False, "quicksort": False, "heapsort": False, "mergesort": True, "stable": True}


def _sortable(a: Any, axis: Any, kind: Any, order_: Any, stable: Any) -> tuple[ndarray, int, bool] | None:
    """The operand, the axis and whether ties keep their order; None for what NumPy has to sort, or refuse."""
    x = array(a)
    if x is None or order_ is not None or kind not in _KINDS or 0 in x._shape or x.size >= MOST:
        return None
    if kind is not None and stable is not None:
        return None
    if axis is None:
        x, axis = _flat(dense(x)), -1
    if not x._shape:
        return None
    try:
        return x, normalize_axis_index(axis, len(x._shape)), _KINDS[kind] or bool(stable)
    except (TypeError, ValueError):
        return None  # which NumPy raises


def on_sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """`numpy.sort`."""
    found = _sortable(a, axis, kind, order, stable)
    if found is None:
        return NotImplemented
    x, at, ties = found
    return _back(sorted_lines(_lines(x, at), ties), at)


def on_ndarray_sort(self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """`numpy.ndarray.sort`."""
    if axis is None or not self._writeable:
        return NotImplemented
    made = on_sort(self, axis, kind, order, stable=stable)
    if made is NotImplemented:
        return made
    store(self, made)
    return None


def on_argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """`numpy.argsort`."""
    found = _sortable(a, axis, kind, order, stable)
    if found is None:
        return NotImplemented
    x, at, _ = found
    return _argsorted(_lines(x, at), at)


def _argsorted(lines: ndarray, axis: int) -> Any:
    n = lines._shape[-1]
    places: Any = _shaped(ranking(lines), lines._shape)
    places = cast(places, I8)
    return _back(places % n if len(lines._shape) > 1 else places, axis)


def on_ndarray_argsort(self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """`numpy.ndarray.argsort`."""
    return on_argsort(self, axis, kind, order, stable=stable)


def _within(a: Any, kth: Any, axis: Any) -> bool:
    """Whether NumPy takes the `kth` of a partition."""
    x = array(a)
    if x is None or not x._shape:
        return False
    try:
        n = math.prod(x._shape) if axis is None else x._shape[normalize_axis_index(axis, len(x._shape))]
    except (TypeError, ValueError):
        return False
    wanted = numpy.asarray(kth)
    return wanted.dtype.kind in "iu" and wanted.ndim < 2 and bool(((wanted < n) & (wanted >= -n)).all())


def on_partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """`numpy.partition`, by sorting."""
    if kind != "introselect" or not _within(a, kth, axis):
        return NotImplemented
    return on_sort(a, axis, None, order)


def on_ndarray_partition(self: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """`numpy.ndarray.partition`, by sorting."""
    if kind != "introselect" or not _within(self, kth, axis):
        return NotImplemented
    return on_ndarray_sort(self, axis, None, order)


def on_argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """`numpy.argpartition`, by sorting."""
    if kind != "introselect" or not _within(a, kth, axis):
        return NotImplemented
    return on_argsort(a, axis, None, order)


def on_ndarray_argpartition(self: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """`numpy.ndarray.argpartition`, by sorting."""
    return on_argpartition(self, kth, axis, kind, order)


def on_lexsort(keys: Any, axis: Any = -1) -> Any:
    """`numpy.lexsort`: the last key decides first."""
    parts = [array(k) for k in keys]
    if not parts or any(k is None or k._shape != parts[0]._shape or not k._shape for k in parts):  # type: ignore[union-attr]
        return NotImplemented
    first: Any = parts[0]
    if 0 in first._shape or first.size >= MOST:
        return NotImplemented
    try:
        at = normalize_axis_index(axis, len(first._shape))
    except (TypeError, ValueError):
        return NotImplemented
    lines = [_lines(k, at) for k in parts]  # type: ignore[arg-type]
    shape = lines[0]._shape
    chain = [pair for x in lines for pair in _chain(_flat(x))]
    count = math.prod(shape[:-1])
    if count > 1:
        chain.append(_rows(count, shape[-1]))
    places: Any = cast(_shaped(order(chain), shape), I8)
    return _back(places % shape[-1] if len(shape) > 1 else places, at)


# ---------------------------------------------------------------------- searching
def on_searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """`numpy.searchsorted`."""
    x, y = array(a), array(v)
    if x is None or y is None or len(x._shape) != 1 or side not in ("left", "right"):
        return NotImplemented
    dtype = numpy.promote_types(x._dtype, y._dtype)
    if dtype.kind == "c" or dtype.char not in "?bBhHiIlLqQefd" or 0 in x._shape or 0 in y._shape:
        return NotImplemented
    if sorter is not None:
        places = array(sorter)
        if places is None or places._shape != x._shape:
            return NotImplemented
        x = x[places]
    data, wanted = (keys_of(cast(_flat(dense(k)), dtype), False) for k in (x, y))
    made = found_places(data, wanted, side == "right")
    if not y._shape:
        return _lazy.scalar_of(_shaped(made, ()))
    return owned(_shaped(made, y._shape))


def on_ndarray_searchsorted(self: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """`numpy.ndarray.searchsorted`."""
    return on_searchsorted(self, v, side, sorter)


# ---------------------------------------------------------------------- selecting
def chosen(mask: ndarray) -> Any:
    """The places (64 bits, ascending) of the true elements of a 1-d boolean array."""
    count = int(mask.sum())  # type: ignore[attr-defined]
    keys = cast(~mask, U4)  # type: ignore[operator]
    places = sorted_pairs(keys, _iota(mask._shape[0]), 0, 1)
    return _views.dense_copy(cast(seen(places, lambda g: g[:count]), I8))


def _truth(x: ndarray) -> Any:
    """Whether each element is not zero."""
    given: Any = x
    return x if x._dtype.kind == "b" else given != 0


def _places(x: ndarray) -> list[Any]:
    """The indices of the elements that are not zero, one array for each axis."""
    flat = _flat(dense(x))
    places = chosen(_truth(flat))
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
    return _places(_flat(dense(x)))[0]


def masked(x: ndarray, mask: ndarray) -> Any:
    """`x[mask]` for a boolean array over the leading axes."""
    rank = len(mask._shape)
    if mask._dtype.kind != "b" or not rank or x._shape[:rank] != mask._shape or 0 in x._shape or mask.size >= MOST:
        return NotImplemented
    places = chosen(_flat(dense(mask)))
    rest = x._shape[rank:]
    if not rest:
        return gather(_flat(dense(x)), places)
    lines = _shaped(dense(x), (mask.size, *rest))
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
        x, axis = _flat(dense(x)), 0
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
    return masked(_flat(dense(x)), _flat(dense(_truth(mask))))


# ---------------------------------------------------------------------- unique, counts
def on_unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None, *,
    equal_nan: Any = True, sorted: Any = True,
) -> Any:  # fmt: skip
    """`numpy.unique`; the elements come sorted in any case."""
    x = array(ar)
    if x is None or not x._shape or (axis is not None and len(x._shape) > 1) or 0 in x._shape or x.size >= MOST:
        return NotImplemented
    if x._dtype.kind == "c" or axis not in (None, 0, -1):
        return NotImplemented
    flat = _flat(dense(x))
    if not (return_index or return_inverse):
        ordered = sorted_lines(flat, False)
        perm = None
    else:
        perm = ranking(flat)
        ordered = gather(flat, perm)
    first = _firsts(ordered, bool(equal_nan))
    starts = chosen(first)
    answer = [gather(ordered, starts)]
    if return_index:
        answer.append(cast(gather(perm, starts), I8))  # type: ignore[arg-type]
    if return_inverse:
        groups = np.cumsum(first) - 1
        undone = sorted_pairs(perm, _iota(flat._shape[0]), 0, max(flat._shape[0] - 1, 1).bit_length())  # type: ignore[arg-type]
        answer.append(owned(_shaped(dense(gather(groups, undone)), x._shape)))
    if return_counts:
        ends = np.concatenate([starts[1:], numpy.array([flat._shape[0]])])
        answer.append(ends - starts)
    return answer[0] if len(answer) == 1 else tuple(answer)


def _firsts(ordered: Any, equal_nan: bool) -> Any:
    """Whether each element of a sorted array differs from the one before it."""
    differs = ordered[1:] != ordered[:-1]
    if equal_nan and ordered._dtype.kind == "f":
        differs = differs & (ordered[:-1] == ordered[:-1])
    return np.concatenate([numpy.array([True]), differs])


def counts_of(keys: ndarray, count: int) -> Any:
    """How often each of the numbers below `count` occurs among keys of 32 or 64 bits."""
    made = sorted_keys(keys, 0, 8 * keys._dtype.itemsize)
    wanted = cast(np.arange(count + 1, dtype=I8), keys._dtype)
    places: Any = found_places(made, wanted, False)
    return places[1:] - places[:-1]


def on_bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """`numpy.bincount` without weights."""
    a = array(x)
    if a is None or weights is not None or len(a._shape) != 1 or 0 in a._shape or a.size >= MOST:
        return NotImplemented
    if a._dtype.kind not in "iub" or a._dtype.char in "LQ" or isinstance(minlength, bool):
        return NotImplemented
    low, high = int(a.min()), int(a.max())  # type: ignore[attr-defined]
    if low < 0 or not hasattr(type(minlength), "__index__") or minlength < 0:
        return NotImplemented  # which NumPy raises
    count = max(high + 1, int(minlength))
    if count > 8 * a.size + (1 << 20):
        return NotImplemented
    return counts_of(cast(a, U4 if high < MOST - 1 else U8), count)


def on_histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """`numpy.histogram` for a number of bins or given edges, without weights."""
    x = array(a)
    if x is None or weights is not None or isinstance(bins, str) or x._dtype.kind in "cb" or x.size >= MOST:
        return NotImplemented
    if 0 in x._shape or not x._shape:
        return NotImplemented
    flat = _flat(dense(x))
    if numpy.ndim(bins) == 0:
        if range is None:
            ends = flat.min(), flat.max()  # type: ignore[attr-defined]
            range = tuple(v.item() if hasattr(v, "item") else v for v in map(np.asarray, ends))
        sample = numpy.zeros(1, flat._dtype)
        edges = numpy.histogram_bin_edges(sample, bins, range)
    else:
        edges = numpy.histogram_bin_edges(numpy.zeros(1, flat._dtype), np.asarray(bins).__array__())
    dtype = numpy.promote_types(flat._dtype, edges.dtype)
    if dtype.char not in "?bBhHiIlLqQefd":
        return NotImplemented
    ordered = sorted_keys(keys_of(cast(flat, dtype), False), 0, key_bits(dtype))
    limits = keys_of(_lazy.fresh(edges.astype(dtype)), False)
    inner, last = (found_places(ordered, dense(k), u) for k, u in ((limits[:-1], False), (limits[-1:], True)))
    places: Any = np.concatenate([inner, last])
    counts = places[1:] - places[:-1]
    if density:
        widths = numpy.array(numpy.diff(edges), float)
        return counts / widths / counts.sum(), _lazy.fresh(edges)
    return counts, _lazy.fresh(edges)
