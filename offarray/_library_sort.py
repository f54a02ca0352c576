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
    as_type,
    bits,
    cast,
    choice,
    dense,
    evaluated,
    new,
    np,
    on,
    op,
    owned,
    pending,
    seen,
    step,
    store,
    value_of,
)
from .fusion.node import IOTA, Node
from .fusion.order import copy_order
from .runtime import cudalib_sort as cub

MOST = 1 << 32  # elements of one sort: places have 32 bits
U1, U4, U8, I8, F8, BOOL = (numpy.dtype(t) for t in ("u1", "u4", "u8", "i8", "f8", "?"))
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
    if dtype.kind in "bu":
        return cast(x, U4 if dtype.kind == "b" else _key_type(dtype))
    word = _UNSIGNED[dtype.itemsize]
    top = 1 << (key_bits(dtype) - 1)
    x = dense(x)
    raw = value_of(bits(x, word))
    if dtype.kind == "i":
        return pending(as_type(op("bitwise_xor", raw, top), _key_type(dtype)), [x])
    if not exact:
        raw = _equal_bits(raw, dtype, top)
    negative = op("not_equal", op("bitwise_and", raw, top), 0, dtype=BOOL)
    flipped = choice(negative, op("invert", raw), op("bitwise_or", raw, top))
    return pending(as_type(op("subtract", flipped, _negative_nans(dtype)), _key_type(dtype)), [x])


def _equal_bits(raw: Node, dtype: Any, top: int) -> Node:
    """Bits of floating-point numbers, the same for numbers that are equal and for all NaN."""
    infinity, nan = (int(numpy.array(v, dtype).view(raw.dtype)) for v in (numpy.inf, numpy.nan))
    strange = op("greater", op("bitwise_and", raw, top - 1), infinity, dtype=BOOL)
    zero = op("equal", raw, top, dtype=BOOL)  # -0.0
    plain = choice(zero, _record.constant(0, raw.dtype), raw)
    return choice(strange, _record.constant(nan, raw.dtype), plain)


def _negative_nans(dtype: Any) -> int:
    """How many bit patterns are NaN with a sign: their keys come after all others."""
    return int((1 << numpy.finfo(dtype).nmant) - 1)


def elements_of(keys: ndarray, dtype: Any) -> ndarray:
    """The elements that exact keys (evaluated) stand for."""
    if dtype.kind in "bu":
        return cast(keys, dtype)
    word = _UNSIGNED[dtype.itemsize]
    raw, top = as_type(value_of(keys), word), 1 << (key_bits(dtype) - 1)
    if dtype.kind == "i":
        back = pending(op("bitwise_xor", raw, top), [keys])
    else:
        raw = op("add", raw, _negative_nans(dtype))
        positive = op("not_equal", op("bitwise_and", raw, top), 0, dtype=BOOL)
        back = pending(choice(positive, op("bitwise_xor", raw, top), op("invert", raw)), [keys])
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
    if keys._dtype == U4:  # both in one word
        word = op("bitwise_or", op("left_shift", as_type(value_of(keys), U8), 32), as_type(value_of(places), U8))
        made = sorted_keys(pending(word, [keys, places]), 32 + low, 32 + high)
        return pending(as_type(op("bitwise_and", value_of(made), 0xFFFFFFFF), U4), [made])
    keys, places = dense(keys), dense(places)
    count = keys._shape[0]
    with step(keys, places) as found:
        buffer, made = new(U4, (count,))
        spare = found.scratch(count * keys._dtype.itemsize)
        pair = address(found, places), found.write(buffer)
        cub.sort(found, count, (address(found, keys), spare), keys._dtype, pair, U4, (low, high))
    return made


def found_places(sorted_: ndarray, wanted: ndarray, upper: bool) -> Any:
    """Where keys (1-d) belong among sorted keys, before equal ones or (`upper`) behind them, as 64-bit integers."""
    wide = wanted._dtype == U8
    sorted_, wanted = dense(cast(sorted_, U8)), dense(cast(wanted, U8))  # one type: building a search takes seconds
    asked = pending(op("add", value_of(wanted), 1), [wanted]) if upper else wanted
    count = wanted._shape[0]
    with step(sorted_, asked) as found:
        buffer, made = new(I8, (count,))
        where = (address(found, sorted_), sorted_._shape[0]), (address(found, asked), count)
        cub.search(found, U8, *where, found.write(buffer))
    if not upper or not wide:
        return made
    last = op("equal", value_of(wanted), (1 << 64) - 1, dtype=BOOL)  # which one more has made 0
    behind = _record.constant(sorted_._shape[0], I8)
    return pending(choice(last, behind, value_of(made)), [wanted, made])


# ---------------------------------------------------------------------- orders
def iota(count: int, dtype: Any = U4) -> Any:
    """0, 1, 2 ..., pending."""
    node = Node(IOTA, "iota", I8, (count,), (), 0)
    return _lazy.pending(_record.cast(node, dtype), (count,), (0,))


def gather(x: ndarray, places: ndarray) -> Any:
    """Elements of a 1-d array at places (1-d) that are known to lie inside."""
    places = cast(places, I8)
    node = _record.read(places, places._shape, (0,))
    made = _record.gather_node(x, (node,), places._shape, 1, (0,), _record.here())
    return _record.deliver(made, places._shape, (0,), [x, places])


def order(keys: Sequence[tuple[ndarray, int]]) -> ndarray:
    """Places (32 bits) that bring 1-d keys into order: the first is the last to decide. Stable."""
    (first, width), *others = keys
    places = sorted_pairs(first, iota(first._shape[0]), 0, width)
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


def flat(x: ndarray) -> ndarray:
    return seen(x, lambda g: g.reshape(-1))


def shaped(x: ndarray, shape: Shape) -> ndarray:
    return seen(x, lambda g: g.reshape(shape))


def _row_of(count: int, length: int) -> Node:
    """The row of each of `count` rows' elements."""
    return op("floor_divide", Node(IOTA, "iota", I8, (count * length,), (), 0), length)


def _row_bits(count: int) -> int:
    return max(count - 1, 1).bit_length()


def _rows(count: int, length: int) -> tuple[Any, int]:
    """The rows as a key, and its bits."""
    return pending(as_type(_row_of(count, length), U4)), _row_bits(count)


def ranking(lines: ndarray) -> ndarray:
    """Places in the flattened array that bring each row of (..., n) into order."""
    n = lines._shape[-1]
    count = math.prod(lines._shape[:-1])
    keys = _chain(flat(lines))
    if count > 1 and len(keys) == 1 and keys[0][1] <= 32:
        keys = [_packed(*keys[0], count, n)]
    elif count > 1:
        keys.append(_rows(count, n))
    return order(keys)


def _packed(keys: ndarray, width: int, count: int, length: int) -> tuple[ndarray, int]:
    """Keys of at most 32 bits below the numbers of their rows, and the bits of both."""
    row = op("left_shift", as_type(_row_of(count, length), U8), width)
    made = pending(op("bitwise_or", row, as_type(value_of(keys), U8)), [keys])
    return made, width + _row_bits(count)


def sorted_lines(lines: ndarray, stable: bool) -> ndarray:
    """Each row of (..., n) in order."""
    shape, dtype = lines._shape, lines._dtype
    n, count = shape[-1], math.prod(shape[:-1])
    line = flat(lines)
    ties = stable and dtype.kind == "f"  # zeros of both signs are equal, and told apart
    if dtype.kind == "c" or ties or (count > 1 and dtype.itemsize == 8):
        return shaped(gather(line, ranking(lines)), shape)
    keys, width = keys_of(line, True), key_bits(dtype)
    if count > 1:
        keys, width = _packed(keys, width, count, n)
    made = sorted_keys(keys, 0, width)
    if count > 1:
        made = pending(as_type(op("bitwise_and", value_of(made), (1 << key_bits(dtype)) - 1), _key_type(dtype)), [made])
    return shaped(elements_of(made, dtype), shape)


_KINDS = {None: False, "quicksort": False, "heapsort": False, "mergesort": True, "stable": True}


def _sortable(a: Any, axis: Any, kind: Any, order_: Any, stable: Any) -> tuple[ndarray, int, bool] | None:
    """The operand, the axis and whether ties keep their order; None for what NumPy has to sort, or refuse."""
    x = array(a)
    if x is None or order_ is not None or kind not in _KINDS or 0 in x._shape or x.size >= MOST:
        return None
    if kind is not None and stable is not None:
        return None
    if axis is None:
        x, axis = flat(dense(x)), -1
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
    axes = copy_order(x._strides)  # the result lies in memory as the operand does
    if x.flags.c_contiguous or axes == tuple(range(len(axes))):
        return _back(sorted_lines(_lines(x, at), ties), at)
    place = axes.index(at)
    made = _back(sorted_lines(_lines(seen(x, lambda g: g.transpose(axes)), place), ties), place)
    return owned(seen(made, lambda g: g.transpose(numpy.argsort(axes))))


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
    places: Any = shaped(ranking(lines), lines._shape)
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
    chain = [pair for x in lines for pair in _chain(flat(x))]
    count = math.prod(shape[:-1])
    if count > 1:
        chain.append(_rows(count, shape[-1]))
    places: Any = cast(shaped(order(chain), shape), I8)
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
    data, wanted = (keys_of(cast(flat(dense(k)), dtype), False) for k in (x, y))
    made = found_places(data, wanted, side == "right")
    if not y._shape:
        return _lazy.scalar_of(shaped(made, ()))
    return owned(shaped(made, y._shape))


def on_ndarray_searchsorted(self: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """`numpy.ndarray.searchsorted`."""
    return on_searchsorted(self, v, side, sorter)
