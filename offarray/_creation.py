"""Generators and elementwise functions that are no ufuncs: full, ones, arange, where, astype, clip, round, copyto ...

in: the public functions and methods through `_dispatch.NATIVE`; out: nodes.  NotImplemented leaves a call to NumPy.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from . import _lazy, _record, _reductions, _routine, _sorting
from ._array import HOST, RealArray, fresh, host, ndarray
from ._dispatch import NATIVE
from ._lazy import small
from ._memory import native
from ._record import constant
from ._voice import MUTE, again, speak
from .fusion.node import FOLD, IOTA, MAP, READ, Node
from .fusion.order import copy_order, memory_order
from .fusion.view import View
from .runtime.config import settings
from .runtime.fault import INVALID, OVER

DType = numpy.dtype[Any]
__warningregistry__ = MUTE
_BOOL = numpy.dtype(bool)
_I8 = numpy.dtype("i8")
_ADDRESSABLE = 1 << 40  # bytes beyond which NumPy refuses at the statement
_UNSET: Any = numpy._NoValue  # type: ignore[attr-defined]
_CLIP: Any = numpy._core.umath.clip  # type: ignore[attr-defined]


def _dtype(dtype: Any, default: DType) -> DType | None:
    if dtype is None:
        return default
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        return None
    return found if native(found) else None


def _shape(shape: Any) -> tuple[int, ...] | None:
    found: tuple[int, ...]
    try:
        found = (operator.index(shape),)
    except TypeError:
        try:
            found = tuple(operator.index(n) for n in shape)
        except TypeError:
            return None
    return None if any(n < 0 for n in found) or math.prod(found) <= settings.eager_size else found


def _plain_options(kwargs: dict[str, Any]) -> bool:
    return (
        kwargs.get("order", "C") in ("C", None) and kwargs.get("device") in (None, "cpu") and kwargs.get("like") is None
    )


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
    """Array of one value; see `numpy.full`."""
    if not _plain_options({"order": order, **kwargs}) or not isinstance(
        fill_value, (bool, int, float, complex, numpy.generic)
    ):
        return NotImplemented
    extents = _shape(shape)
    if extents is None:
        return NotImplemented
    kind = _dtype(dtype, numpy.asarray(fill_value).dtype)
    if kind is None or not native(kind) or math.prod(extents) * kind.itemsize > _ADDRESSABLE:
        return NotImplemented
    single = numpy.empty((), kind)
    try:
        numpy.copyto(single, fill_value, casting="unsafe")
    except TypeError:
        again(numpy.copyto, single, fill_value, casting="unsafe")
    node = _record.copied(constant(single[()], kind), extents)
    return _lazy.pending(node, extents, tuple(range(len(extents))))


def ones(shape: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
    """Array of ones; see `numpy.ones`."""
    return full(shape, 1, numpy.float64 if dtype is None else dtype, order, **kwargs)


def _like(value: Any) -> Any:
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        fill = given.pop(0) if value is None and given else kwargs.pop("fill_value", None) if value is None else value
        if type(x) is not ndarray or len(given) > 1 or not kwargs.keys() <= {"dtype", "order", "shape", "device"}:
            return NotImplemented
        if kwargs.get("order", "K") not in ("K", "C") or not (x.flags.c_contiguous or kwargs.get("order") == "C"):
            return NotImplemented
        shape = kwargs.get("shape")
        dtype = given[0] if given else kwargs.get("dtype")
        return full(x._shape if shape is None else shape, fill, x._dtype if dtype is None else dtype)

    return call


def _index(count: int) -> Node:
    return Node(IOTA, "iota", _I8, (count,), (), 0)


def _line(count: int, start: Any, step: Any, dtype: DType, site: Any) -> Node:
    """start + index * step, each operation in `dtype`."""
    index = _record.cast(_index(count), dtype)
    scaled = Node(MAP, "multiply", dtype, (count,), (index, constant(step, dtype)), None, 0, site)
    return Node(MAP, "add", dtype, (count,), (scaled, constant(start, dtype)), None, 0, site)


def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None) -> Any:
    """Evenly spaced values; see `numpy.arange`."""
    if len(args) not in (1, 2, 3) or device not in (None, "cpu") or like is not None:
        return NotImplemented
    if not all(type(v) in (int, float) or isinstance(v, (numpy.integer, numpy.float64)) for v in args):
        return NotImplemented
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    common = numpy.result_type(*(numpy.asarray(v).dtype for v in (start, stop, step)))
    kind = _dtype(dtype, common)
    if kind is None or kind.kind not in "if" or kind.itemsize < 8 or common.kind not in "if" or not step:
        return NotImplemented
    span = (stop - start) / step
    if not math.isfinite(span) or span <= settings.eager_size:
        return NotImplemented
    count = math.ceil(span)
    # NumPy makes the first two values and continues by their difference
    first = kind.type(start)
    node = _line(count, first, kind.type(start + step) - first, kind, _record.here())
    return _lazy.pending(node, (count,), (0,))


def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Ones on a diagonal; see `numpy.eye`."""
    if type(N) is int and (M is None or type(M) is int) and device is None and like is None:
        if 0 <= N * (N if M is None else M) <= settings.eager_size:
            return _lazy.fresh(numpy.eye(N, M, k, dtype, order))
    try:
        rows, diagonal = operator.index(N), operator.index(k)
        columns = rows if M is None else operator.index(M)
    except TypeError:
        return NotImplemented
    kind = _dtype(dtype, numpy.dtype(float))
    extents = _shape((rows, columns))
    if kind is None or extents is None or not _plain_options({"order": order, "device": device, "like": like}):
        return NotImplemented
    shift = constant(max(-rows, min(diagonal, columns)), _I8)  # any further is outside just as well
    column = Node(IOTA, "iota", _I8, (columns,), (), 0)
    row = Node(MAP, "add", _I8, (rows,), (_index(rows), shift))
    down = Node(READ, "", _I8, extents, (row,), View(0, extents, (8, 0)))
    across = Node(READ, "", _I8, extents, (column,), View(0, extents, (0, 8)))
    truth = Node(MAP, "equal", _BOOL, extents, (down, across), None, 0, _record.here())
    node = truth if kind == _BOOL else Node(MAP, "cast", kind, extents, (truth,), None, 0, truth.site)
    return _lazy.pending(node, extents, (0, 1))


def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """The identity matrix; see `numpy.identity`."""
    return eye(n, dtype=dtype, like=like)


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Elements of `x` where the condition holds, else of `y`; see `numpy.where`."""
    if x is None or y is None or small((condition, x, y)):
        return NotImplemented
    pairs = [_lazy.operand(v) for v in (condition, x, y)]
    if any(p is None for p in pairs):
        return NotImplemented
    truth, kinds = pairs[0][0], [p[1] for p in pairs[1:]]  # type: ignore[index]
    if type(truth) is not ndarray or not native(truth._dtype):
        return NotImplemented
    weak = [numpy.dtype(bool) if k is bool else k for k in kinds]
    if all(isinstance(k, type) for k in weak):
        dtype = numpy.result_type(*(p[0] for p in pairs[1:]))  # type: ignore[index]
    else:
        dtype = numpy.result_type(*(k(0) if isinstance(k, type) else k for k in weak))
    if not native(dtype):
        return NotImplemented
    operands: list[Any] = [truth if truth._dtype == _BOOL else _reductions.astype(truth, _BOOL)]
    for value, kind in pairs[1:]:  # type: ignore[misc]
        if type(value) is ndarray:
            if not native(value._dtype):
                return NotImplemented
            operands.append(value)
            continue
        fitting = _lazy.scalar(value, dtype) if isinstance(kind, type) else dtype.type(value)
        if fitting is None:
            return NotImplemented
        operands.append(constant(fitting, dtype))
    shape = _lazy.shape_of(operands)
    if shape is None or len(shape) > 32 or not shape:
        return NotImplemented
    return _record.elementwise("select", operands, [_BOOL, dtype, dtype], dtype, shape)


def astype(
    x: Any,
    dtype: Any,
    order: Any = "K",
    casting: Any = "unsafe",
    subok: Any = True,
    copy: Any = True,
    device: Any = None,
) -> Any:
    """`x` in another data type; see `numpy.ndarray.astype`."""
    if type(x) is not ndarray or not native(x._dtype) or order not in ("K", "C") or device is not None:
        return NotImplemented
    try:
        wanted = numpy.dtype(dtype)
        fits = numpy.can_cast(x._dtype, wanted, casting)
    except (TypeError, ValueError):
        return NotImplemented
    if wanted == x._dtype and fits and x._at is not HOST and (order == "K" or x.flags.c_contiguous):
        return x if not copy else x.copy(order)
    if small((x,)) or not native(wanted) or wanted == x._dtype or not fits:
        return NotImplemented
    if (x._dtype.kind == "c" and wanted.kind not in "cb") or (order == "C" and not x.flags.c_contiguous):
        return NotImplemented
    return _reductions.astype(x, wanted)


def _astype_function(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    return astype(x, dtype, copy=copy, device=device)


def clip(
    x: Any, a_min: Any = _UNSET, a_max: Any = _UNSET, out: Any = None, *, min: Any = _UNSET, max: Any = _UNSET
) -> Any:
    """Limit the values; see `numpy.clip`."""
    if a_max is _UNSET and a_min is not _UNSET and min is _UNSET and max is not _UNSET:
        a_max, max = max, _UNSET  # the standard's `clip(x, low, max=high)`
    if (a_min is _UNSET) is not (a_max is _UNSET) or (a_min is not _UNSET and not (min is _UNSET and max is _UNSET)):
        return NotImplemented
    a_min, a_max, min, max = (None if v is _UNSET else v for v in (a_min, a_max, min, max))
    low = a_min if a_min is not None else min
    high = a_max if a_max is not None else max
    if type(x) is not ndarray or small((x, low, high, out)):
        return NotImplemented
    options = {} if out is None else {"out": out}
    if x._dtype.kind in "iu":  # bounds of Python's that no element passes are none
        limits = numpy.iinfo(x._dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is None and high is None:
        return NotImplemented
    if low is None:
        return _lazy.call(numpy.minimum, (x, high), options)
    if high is None:
        return _lazy.call(numpy.maximum, (x, low), options)
    if out is None and not isinstance(low, ndarray | RealArray) and not isinstance(high, ndarray | RealArray):
        answer = _limited(x, low, high)
        if answer is not None:
            return answer if answer._shape else _lazy.scalar_of(answer)
    return _lazy.call(_CLIP, (x, low, high), options)


def _limited(x: ndarray, low: Any, high: Any) -> ndarray | None:
    """`x` between two numbers; as in NumPy's loop for constant bounds, a zero keeps its sign at a bound of zero."""
    found = _lazy.resolve(_CLIP, (x, low, high))
    if found is None or found[0].outputs[0].kind == "c":
        return None
    if any(type(b) is not Node or b.arg != b.arg for b in found[1][1:]):
        return None
    loop, operands, shape = found
    dtype = loop.outputs[0]
    for op, bound in (("less", operands[1]), ("greater", operands[2])):
        beyond = _record.elementwise(op, [x, bound], [dtype, dtype], _BOOL, shape)
        x = _record.elementwise("select", [beyond, bound, x], [_BOOL, dtype, dtype], dtype, shape)
    return x


def round_(x: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Round to the nearest even; see `numpy.round`."""
    if type(x) is not ndarray or out is not None or type(decimals) is not int or x._dtype.kind not in "fciu":
        return NotImplemented
    if x._dtype.kind in "iu":
        return NotImplemented if decimals < 0 or small((x,)) else x.copy("K")
    if decimals == 0:
        return _lazy.call(numpy.rint, (x,))
    if small((x,)) or x._dtype.kind == "c" or not native(x._dtype):
        return NotImplemented  # NumPy keeps the order of bytes here
    if len(x._shape) > 1 and not x.flags.forc:
        x = x.copy()  # the result is in C order, whatever that of `x`
    power = 10.0 ** abs(decimals)  # NumPy's three steps
    there, back = (numpy.multiply, numpy.divide) if decimals > 0 else (numpy.divide, numpy.multiply)
    return _lazy.apply(back, _lazy.apply(numpy.rint, _lazy.apply(there, x, power)), power)


def _flat(x: ndarray) -> Any:
    """`x` with one axis, in C order."""
    if len(x._shape) == 1:
        return x
    return (x if x.flags.c_contiguous else x.copy()).reshape(-1)


def _scan(monoid: str) -> Any:
    def call(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if type(x) is not ndarray or small((x,)) or not native(x._dtype) or not _lazy.elements(x):
            return NotImplemented
        if out is not None:
            if type(out) is tuple and len(out) == 1:
                out = out[0]
            if type(out) is not ndarray or not out._writeable:
                return NotImplemented
            dtype = _reductions.of_result(x, out) if dtype is None else dtype
        flat = axis is None
        axes = (0,) if flat else _reductions.axes_of(axis, len(x._shape)) if type(axis) is not tuple else None
        loop = _dtype(dtype, _reductions._accumulator(monoid, x._dtype))
        if axes is None or loop is None or loop.kind in "cb" or loop.char == "e" or x._dtype.kind == "c":
            return NotImplemented
        if flat:
            x = _flat(x)
        order = _record.order_of([x], x._shape)
        site = _record.here()
        source = _record.cast(_record.read(x, x._shape, order), loop, _record._errstate.armed(), site)
        node = _record.fold_node(source, monoid, (order.index(axes[0]),), loop, site, "prefix")
        assert node.kind == FOLD
        made = _record.deliver(node, x._shape, order, [x])
        if loop.kind == "f" and monoid in ("add", "multiply") and _record._errstate.immediate():
            _overflowed(getattr(numpy, monoid), x, made, axes[0], loop)
        return made if out is None else _reductions.deliver(made, out)

    return call


def _overflowed(real: numpy.ufunc, x: ndarray, made: ndarray, axis: int, loop: Any) -> None:
    """Report at the statement what NumPy would of prefixes, which kernels do not look at.

    What is not finite stays so to the end of its row: otherwise there is nothing to report.
    """
    if not _record._errstate.armed() & (OVER | INVALID):
        return
    ends = host(made[(slice(None),) * axis + (slice(-1, None),)])
    if not numpy.isfinite(ends).all():
        speak(real.accumulate, (host(x), axis, loop), {})


_SCANS = frozenset(("add", "multiply", "maximum", "minimum"))


def accumulate(real: numpy.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`ufunc.accumulate(array, axis=0, dtype=None, out=None)`."""
    given = dict(zip(("axis", "dtype", "out"), args[1:], strict=False)) | kwargs
    if not args or real.__name__ not in _SCANS or not given.keys() <= {"axis", "dtype", "out"}:
        return NotImplemented
    if given.get("axis", 0) is None:  # not the flattened array here, but a mistake where there are several axes
        return NotImplemented
    return _scan(real.__name__)(args[0], **{"axis": 0, **given})


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None, axis: Any = 0,
    *, device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced numbers over an interval; see `numpy.linspace`."""
    numbers = (int, float, numpy.float64)
    if type(start) not in numbers or type(stop) not in numbers or type(num) is not int or num <= settings.eager_size:
        return NotImplemented
    if retstep is not False or dtype is not None or axis != 0 or device is not None or num < 2:
        return NotImplemented
    begin, end = float(start), float(stop)
    gaps = num - 1 if endpoint else num
    step = (end - begin) / gaps
    if not math.isfinite(step) or step == 0.0:
        return NotImplemented
    kind, site = numpy.dtype("f8"), _record.here()
    node = _line(num, kind.type(begin), kind.type(step), kind, site)
    if endpoint:  # the last one is the end itself
        last = Node(MAP, "equal", _BOOL, (num,), (_index(num), constant(num - 1, _I8)), None, 0, site)
        node = Node(MAP, "select", kind, (num,), (last, constant(end, kind), node), None, 0, site)
    return _lazy.pending(node, (num,), (0,))


def fill(x: Any, value: Any) -> Any:
    """Set every element; see `numpy.ndarray.fill`."""
    if type(x) is not ndarray or (x._at is HOST and x._np.size <= settings.eager_size) or not native(x._dtype):
        return NotImplemented
    if type(value) not in (bool, int, float, complex) or not x._writeable or not _lazy.elements(x):
        return NotImplemented
    x[...] = value
    return None


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> Any:
    """Copy values into an array; see `numpy.copyto`."""
    if type(dst) is not ndarray or small((dst, src, where)) or not dst._writeable or not native(dst._dtype):
        return NotImplemented
    pair, mask = _lazy.operand(src), _lazy._mask(where)
    if pair is None or mask is NotImplemented or _lazy._folded(dst):
        return NotImplemented
    value, kind = pair
    if type(value) is not ndarray:
        if isinstance(kind, type):
            value = _lazy.scalar(value, dst._dtype)
        if value is None or (not isinstance(kind, type) and not numpy.can_cast(kind, dst._dtype, casting)):
            return NotImplemented
        value = constant(value, dst._dtype)
    elif not native(kind) or not numpy.can_cast(kind, dst._dtype, casting):
        return NotImplemented
    shapes = [v for v in (dst, value, mask) if type(v) is ndarray]
    if _lazy.shape_of(shapes) != dst._shape or not _lazy.elements(dst):
        return NotImplemented
    _record.assign(dst, value, mask)
    return None


def gather(x: ndarray, indices: list[Any], keep: bool = True) -> Any:
    """`x[indices...]` with one integer array for each leading axis, checked here; NotImplemented for small work.

    With `keep` the result lies in memory as NumPy's indexing has it: axes of the indices first, those of the
    elements (or of the indices, where an element has no axes) in their own order; else in C order.
    """
    handles = [_lazy.operand(i) for i in indices]
    if any(
        h is None or type(h[0]) is not ndarray or h[0]._dtype.kind not in "iu" or not native(h[0]._dtype)
        for h in handles
    ):  # fmt: skip
        return NotImplemented
    picks = [h[0] for h in handles if h is not None]
    lead = _lazy.shape_of(picks)
    if len(picks) == 1 and lead is not None and len(x._shape) == len(lead) == 1 and _routine.modest((x, picks[0])):
        return _taken_at_once(host(x), host(picks[0]))
    if lead is None or len(picks) > len(x._shape) or not native(x._dtype):
        return NotImplemented
    rest = x._shape[len(picks) :]
    shape = lead + rest
    if math.prod(shape) <= settings.eager_size and (_routine.at_hand((x, *picks)) or small((x, *picks))):
        return NotImplemented  # what is picked counts, not what it is picked from
    if 0 in shape or 0 in x._shape or len(shape) > 32:
        return NotImplemented
    sources = []
    for axis, (pick, extent) in enumerate(zip(picks, x._shape, strict=False)):
        values = host(pick)
        low, high = _sorting.limits(values)
        if low < -extent or high >= extent:
            bad = next(i for i in values.flat if not -extent <= i < extent)
            raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {extent}")
        sources.append(_gather_index(pick, lead, len(rest), extent, low < 0))
    order = tuple(range(len(shape)))
    if keep and rest:
        order = (*order[: len(lead)], *(len(lead) + a for a in copy_order(x._strides[len(picks) :])))
    elif keep:
        order = memory_order(len(lead), [_record.broadcast_strides(p, lead) for p in picks])
    node = _record.gather_node(x, tuple(sources), shape, len(lead), order, _record.here())
    return _record.deliver(node, shape, order, [x, *picks])


def _taken_at_once(x: RealArray, index: RealArray) -> ndarray:
    """`x[index]` of vectors at hand: NumPy takes quicker than it indexes, what it converts safely."""
    return fresh(x.take(index) if numpy.can_cast(index.dtype, numpy.intp) else x[index])


def _gather_index(pick: ndarray, lead: tuple[int, ...], trailing: int, extent: int, wraps: bool) -> Node:
    """Node of one index array, not negative, spread over the trailing axes of the result."""
    strides = _record.broadcast_strides(pick, lead) + (0,) * trailing
    base = _record.current(pick)
    shape = lead + (1,) * trailing
    node = Node(READ, "", pick._dtype, shape, (base,), View(pick._offset, shape, strides))
    index = _record.cast(node, _I8)
    if wraps:
        negative = Node(MAP, "less", _BOOL, shape, (index, constant(0, _I8)))
        shifted = Node(MAP, "add", _I8, shape, (index, constant(extent, _I8)))
        index = Node(MAP, "select", _I8, shape, (negative, shifted, index))
    return index


def _taken(x: ndarray, index: int, axis: Any) -> Any:
    """What lies at one index of an array that is pending or on a device, without a look at the rest."""
    from . import _views  # which stands above

    rank = len(x._shape)
    if not _views.is_pending(x) or (axis is None and rank != 1) or type(axis) not in (int, type(None)):
        return NotImplemented
    at = 0 if axis is None else axis
    if not -rank <= at < rank or not -x._shape[at] <= index < x._shape[at]:
        return NotImplemented  # which NumPy raises
    found = x[(*(slice(None),) * (at % rank), index)]
    return _views.dense_copy(found) if type(found) is ndarray else found


def take(x: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """Elements along an axis; see `numpy.take`."""
    if type(indices) is int and type(x) is ndarray and out is None and mode == "raise":
        return _taken(x, indices, axis)
    if type(x) is not ndarray or out is not None or mode != "raise" or type(indices) not in (ndarray, RealArray):
        return NotImplemented
    if axis is None and len(x._shape) != 1 or axis not in (None, 0):
        return NotImplemented
    if type(indices) is ndarray and _routine.modest((x, indices)):
        return NotImplemented
    taken = gather(x, [indices], keep=False)
    return taken if taken is NotImplemented or taken._shape else _lazy.scalar_of(taken)


NATIVE.update(
    {
        "full": full,
        "eye": eye,
        "identity": identity,
        "ones": ones,
        "full_like": _like(None),
        "ones_like": _like(1),
        "arange": arange,
        "linspace": linspace,
        "where": where,
        "astype": _astype_function,
        "ndarray.astype": astype,
        "clip": clip,
        "ndarray.clip": lambda x, min=None, max=None, out=None: clip(x, min, max, out),
        "round": round_,
        "around": round_,
        "ndarray.round": round_,
        "cumsum": _scan("add"),
        "ndarray.cumsum": _scan("add"),
        "cumprod": _scan("multiply"),
        "ndarray.cumprod": _scan("multiply"),
        "copyto": copyto,
        "take": take,
        "ndarray.take": take,
    }
)

__all__ = ["fill", "gather"]
