"""Reductions as folds: sum, prod, min, max, any, all, mean, var, std, argmin, argmax ... and `ufunc.reduce`.

in: the public functions and methods through `_dispatch.NATIVE`; out: `_record.fold`.  Every door returns NotImplemented
for a call that NumPy should answer itself: small work, other types, wrong arguments, arrays without elements.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy

from . import _lazy, _record
from ._array import host, ndarray
from ._dispatch import NATIVE
from ._lazy import apply, scalar_of, small
from ._memory import native
from ._record import cast, constant
from ._views import ghost, seen_through
from .codegen.kernel import MONOIDS
from .fusion.node import MAP
from .fusion.order import copy_order

DType = numpy.dtype[Any]
_UNSET: Any = numpy._NoValue  # type: ignore[attr-defined]
_IDENTITY = {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False, "bitwise_or": 0, "bitwise_xor": 0}
_BOOL = numpy.dtype(bool)
_INT = numpy.dtype(numpy.int_)
_UINT = numpy.dtype(numpy.uintp)
_COUNT = type(numpy.count_nonzero(numpy.zeros(1)))  # a Python int in older releases of NumPy


def axes_of(axis: Any, ndim: int) -> tuple[int, ...] | None:
    """Axes ascending, or None where NumPy would raise."""
    if axis is None or axis is _UNSET:
        return tuple(range(ndim))
    try:
        listed = tuple(operator.index(a) for a in axis) if type(axis) is tuple else (operator.index(axis),)
    except TypeError:
        return None
    if any(not -ndim <= a < ndim for a in listed):
        return None
    found = tuple(sorted(a % ndim for a in listed))
    return found if len(set(found)) == len(found) else None


def _accumulator(monoid: str, dtype: DType) -> DType:
    if monoid in ("add", "multiply") and dtype.kind in "bi" and dtype.itemsize < _INT.itemsize:
        return _INT
    if monoid in ("add", "multiply") and dtype.kind == "u" and dtype.itemsize < _UINT.itemsize:
        return _UINT
    return _BOOL if monoid.startswith("logical") else dtype


def of_result(x: ndarray, out: Any) -> DType | None:
    """The type in which NumPy folds `x` into `out`: that of one step, out = out + x."""
    try:
        return numpy.result_type(x._dtype, out._dtype) if type(out) is ndarray else None
    except TypeError:
        return None


def _kept(keepdims: Any) -> Any:
    """Whether reduced axes are kept; None for what only NumPy can answer, or refuses."""
    if keepdims is False or keepdims is _UNSET:
        return False
    return bool(keepdims) if type(keepdims) in (bool, int) else None


def reduce(
    monoid: str, x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = _UNSET, where: Any = True,
) -> Any:  # fmt: skip
    """Record a fold of `x`; NotImplemented where NumPy should do it."""
    if type(x) is not ndarray or monoid not in MONOIDS or small((x,)) or not native(x._dtype):
        return NotImplemented
    if initial is not _UNSET and initial is not None:
        return NotImplemented
    axes, keepdims = axes_of(axis, len(x._shape)), _kept(keepdims)
    if axes is None or keepdims is None or _lazy.elements(x) == 0 or not axes:
        return NotImplemented
    if dtype is None and not monoid.startswith("logical"):
        dtype = of_result(x, out[0] if type(out) is tuple and len(out) == 1 else out)
    try:
        loop = _accumulator(monoid, x._dtype) if dtype is None else numpy.dtype(dtype)
    except TypeError:
        return NotImplemented
    if not native(loop) or (monoid.startswith("logical") and loop != _BOOL):
        return NotImplemented
    if monoid.startswith("bitwise") and loop.kind not in "biu":
        return NotImplemented
    if (loop.kind == "c" or x._dtype.kind == "c") and monoid in ("minimum", "maximum", "fmin", "fmax"):
        return NotImplemented
    if x._dtype.kind == "c" != loop.kind and not monoid.startswith("logical"):
        return NotImplemented  # with a warning
    if loop.kind == "c" and monoid == "multiply" and all(x._shape[a] == 1 for a in axes):
        return NotImplemented  # NumPy multiplies by one, which changes what is infinite
    operand: Any = x
    if where is not True and where is not _UNSET:
        operand = _masked(monoid, x, where)
        if operand is NotImplemented:
            return NotImplemented
    return deliver(_fold(operand, monoid, axes, loop, keepdims), out)


def _fold(x: ndarray, monoid: str, axes: tuple[int, ...], loop: DType, keepdims: bool) -> ndarray:
    site = _record.here()
    if loop.char == "e" and monoid == "add":  # NumPy adds halves in single precision, rounding once
        x = x if x._dtype == loop else astype(x, loop, "reduce")
        single = _record.fold(x, monoid, axes, numpy.dtype("f4"), numpy.dtype("f4"), keepdims, site)
        return astype(single, loop, "reduce")
    result = _BOOL if monoid.startswith("logical") else loop
    return _record.fold(x, monoid, axes, loop, result, keepdims, site)


def _masked(monoid: str, x: ndarray, where: Any) -> Any:
    """`x` with the identity of the monoid in place of what the mask leaves out."""
    mask = _lazy._mask(where)
    if mask is NotImplemented or monoid not in _IDENTITY or _lazy.shape_of([x, mask]) != x._shape:
        return NotImplemented
    neutral = constant(_IDENTITY[monoid], x._dtype)
    return _record.elementwise("select", [mask, x, neutral], [_BOOL, x._dtype, x._dtype], x._dtype, x._shape)


def astype(x: ndarray, dtype: DType, alias: str = "") -> ndarray:
    """A pending copy of `x` as `dtype`; `alias` names the operation in messages."""
    order = copy_order(x._strides)
    site = _record.here()
    source = _record.read(x, x._shape, order)
    node = cast(source, dtype, _record._errstate.armed(), site)
    if node is source or node.kind != MAP:  # somebody else's node gets no second base
        node = _record.copied(node, tuple(x._shape[a] for a in order))
    node.alias = alias
    return _record.deliver(node, x._shape, order, [x])


def deliver(result: ndarray, out: Any = None) -> Any:
    """The result as the user sees it: written into `out`, or a scalar if it has no axes."""
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if out is not None:
        if type(out) is not ndarray or out._shape != result._shape:
            return NotImplemented
        if not native(out._dtype) or _lazy._folded(out) or not numpy.can_cast(result._dtype, out._dtype, "same_kind"):
            return NotImplemented
        _record.assign(out, result)
        return out
    return result if result._shape else scalar_of(result)


# ------------------------------------------------------------------- compositions of folds and elementwise operations
def _moment_dtype(x: ndarray, dtype: Any) -> tuple[DType, DType] | None:
    """Dtype to accumulate in and dtype of the result of a mean."""
    if dtype is not None:
        try:
            wanted = numpy.dtype(dtype)
        except TypeError:
            return None
        if not native(wanted) or wanted.kind not in "fc" or wanted.char == "e" and x._dtype.char != "e":
            return None
        real = wanted.kind == "f" and x._dtype.kind == "c"  # NumPy mixes both, and warns
        return None if real else (wanted, wanted)
    if x._dtype.kind in "biu":
        return numpy.dtype("f8"), numpy.dtype("f8")
    if x._dtype.char == "e":
        return numpy.dtype("f4"), x._dtype
    return x._dtype, x._dtype


def _plain_call(x: Any, out: Any, where: Any) -> bool:
    """Whether `x` is a large array of a native type without further options."""
    if type(x) is not ndarray or small((x,)) or not native(x._dtype) or _lazy.elements(x) == 0:
        return False
    return out is None and (where is True or where is _UNSET)


def _mean(x: ndarray, axes: tuple[int, ...], kinds: tuple[DType, DType], keepdims: bool) -> ndarray:
    count = 1
    for a in axes:
        count *= x._shape[a]
    inner, outer = kinds
    total = _record.fold(x, "add", axes, inner, inner, keepdims, _record.here())
    result = _divided(total, count)
    return result if outer == inner else astype(result, outer)


def _divided(x: ndarray, count: float) -> ndarray:
    # NumPy divides a scalar where nothing is left of the axes, and says so
    alias = "" if x._shape else "scalar divide"
    divisor = constant(count, _real(x._dtype))
    return _record.elementwise("divide", [x, divisor], [x._dtype] * 2, x._dtype, x._shape, alias)


def _real(dtype: DType) -> DType:
    return numpy.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _array_call(op: str, operands: list[Any], dtype: DType) -> ndarray:
    """Record an operation whose result stays a handle, also without axes."""
    shape = _lazy.shape_of(operands)
    assert shape is not None
    return _record.elementwise(op, operands, [dtype] * len(operands), dtype, shape)


def mean(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """Arithmetic mean; see `numpy.mean`."""
    if not _plain_call(x, out, where):
        return NotImplemented
    axes, kinds, keepdims = axes_of(axis, len(x._shape)), _moment_dtype(x, dtype), _kept(keepdims)
    if axes is None or kinds is None or keepdims is None or not axes:
        return NotImplemented
    return deliver(_mean(x, axes, kinds, keepdims))


def _variance(
    x: ndarray, axes: tuple[int, ...], kinds: tuple[DType, DType], ddof: Any, keepdims: bool, given: Any = None
) -> ndarray:  # fmt: skip
    """NumPy's two passes: the mean, if it is not given, then the mean of the squared distances to it."""
    inner, outer = kinds
    count = 1
    for a in axes:
        count *= x._shape[a]
    if outer.char == "e" != inner.char:
        return _of_halves(x, axes, count, ddof, keepdims)
    if given is None and len(axes) == len(x._shape) and inner.char in "fd" and count >= MANY and _record.on_device():
        return _at_once(x, count, kinds, ddof, keepdims)
    centre = _mean(x, axes, (inner, inner), True) if given is None else given
    away = _array_call("subtract", [x, centre], inner)
    if inner.kind == "c":
        part = _real(inner)
        away = _record.elementwise("multiply", [away, conjugate(away)], [inner, inner], inner, away._shape, _SQUARE)
        squares = _record.elementwise("real", [away], [inner], part, away._shape)
        inner = part
        outer = _real(outer)
    else:
        squares = _squares(away)
    total = _record.fold(squares, "add", axes, inner, inner, keepdims, _record.here())
    result = _divided(total, max(count - ddof, 0))
    return result if outer == inner else astype(result, outer)


# what this NumPy calls it
_SQUARE = "square" if "square" in numpy._core._methods._var.__code__.co_names else ""  # type: ignore[attr-defined]


def _squares(x: ndarray) -> ndarray:
    return _record.elementwise("multiply", [x, x], [x._dtype] * 2, x._dtype, x._shape, _SQUARE)


def _of_halves(x: ndarray, axes: tuple[int, ...], count: int, ddof: Any, keepdims: bool) -> ndarray:
    """The variance of halves: as NumPy has it, each step rounds to them."""

    def shared(total: ndarray, number: float) -> ndarray:
        wide = numpy.dtype("f8")
        return astype(_array_call("divide", [astype(total, wide), constant(number, wide)], wide), x._dtype)

    centre = shared(_fold(x, "add", axes, x._dtype, True), count)
    away = _array_call("subtract", [x, centre], x._dtype)
    return shared(_fold(_squares(away), "add", axes, x._dtype, keepdims), max(count - ddof, 0))


MANY = 1 << 22  # elements from which on a device reads them once for their variance
SAMPLES = 1 << 8  # places from which it takes a first guess of the mean
TOGETHER = 8  # neighbours at each of them


def _at_once(x: ndarray, count: int, kinds: tuple[DType, DType], ddof: Any, keepdims: bool) -> ndarray:
    """The variance of all elements by one pass, in double precision.

    With k the mean of m of the n elements, the variance is (sum (x-k)^2 - (sum (x-k))^2 / n) / n.  The difference loses
    digits as far as (mean - k)^2 is more than the variance: for ordinary data it is 1/m of it, and never more than n/m.
    k is spread over the elements, so that one kernel does it all.
    """
    wide, flat = numpy.dtype("f8"), x.reshape(-1)
    step = count // SAMPLES
    some = flat[: SAMPLES * step].reshape(SAMPLES, step)[:, :TOGETHER, None]
    some = seen_through(some, numpy.broadcast_to(ghost(some), (SAMPLES, TOGETHER, count)))
    centre = _mean(some, (0, 1), (wide, wide), False)
    away = _array_call("subtract", [astype(flat, wide), centre], wide)
    site = _record.here()
    squares = _record.fold(_array_call("multiply", [away, away], wide), "add", (0,), wide, wide, False, site)
    total = _record.fold(away, "add", (0,), wide, wide, False, site)
    shift = _divided(_array_call("multiply", [total, total], wide), count)
    least = _array_call("maximum", [_array_call("subtract", [squares, shift], wide), constant(0.0, wide)], wide)
    result = _divided(least, max(count - ddof, 0))
    result = result if kinds[1] == wide else astype(result, kinds[1])
    return result.reshape((1,) * len(x._shape)) if keepdims else result


def conjugate(x: ndarray) -> ndarray:
    """Pending complex conjugate."""
    return _record.elementwise("conjugate", [x], [x._dtype], x._dtype, x._shape)


def _spread_call(
    root: bool,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    mean: Any,
    correction: Any,
) -> Any:
    if not _plain_call(x, out, where):
        return NotImplemented
    if correction is not _UNSET:
        if ddof != 0:
            return NotImplemented
        ddof = correction
    axes, kinds, keepdims = axes_of(axis, len(x._shape)), _moment_dtype(x, dtype), _kept(keepdims)
    if kinds is not None and kinds[0].kind == "c" and (x._dtype.kind != "c" or dtype is not None):
        return NotImplemented
    if axes is None or kinds is None or keepdims is None or not axes or not isinstance(ddof, (int, float)):
        return NotImplemented
    count = 1
    for a in axes:
        count *= x._shape[a]
    if count - ddof <= 0:
        return NotImplemented
    given = None if mean is _UNSET else mean
    if given is not None and (
        type(given) is not ndarray
        or not given._dtype == kinds[0] == kinds[1]
        or not (x._dtype == kinds[0] or x._dtype.kind in "biu")
        or given._shape != tuple(1 if a in axes else e for a, e in enumerate(x._shape))
    ):
        return NotImplemented
    result = _variance(x, axes, kinds, ddof, keepdims, given)
    return deliver(_array_call("sqrt", [result], result._dtype) if root else result)


def var(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = _UNSET, correction: Any = _UNSET,
) -> Any:  # fmt: skip
    """Variance; see `numpy.var`."""
    return _spread_call(False, x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = _UNSET, correction: Any = _UNSET,
) -> Any:  # fmt: skip
    """Standard deviation; see `numpy.std`."""
    return _spread_call(True, x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _arg(monoid: str) -> Any:
    def call(x: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        if not _plain_call(x, out, True) or x._dtype.kind == "c":
            return NotImplemented
        if type(axis) is tuple:
            return NotImplemented
        axes, keep = axes_of(axis, len(x._shape)), _kept(keepdims)
        if axes is None or keep is None or not axes:
            return NotImplemented
        return deliver(_record.fold(x, monoid, axes, x._dtype, numpy.dtype("i8"), keep, _record.here()))

    return call


def count_nonzero(x: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """Number of elements that are not zero; see `numpy.count_nonzero`."""
    if not _plain_call(x, None, True):
        return NotImplemented
    axes, keepdims = axes_of(axis, len(x._shape)), _kept(keepdims)
    if axes is None or keepdims is None or not axes:
        return NotImplemented
    truth = x if x._dtype == _BOOL else astype(x, _BOOL)
    result = _record.fold(truth, "add", axes, _INT, _INT, keepdims, _record.here())
    if axis is None and not keepdims:
        return _COUNT(host(result)[()])
    return deliver(result)


def ptp(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Range of values; see `numpy.ptp`."""
    if not _plain_call(x, out, True) or x._dtype.kind in "bc":
        return NotImplemented
    high = reduce("maximum", x, axis, keepdims=keepdims)
    if high is NotImplemented:
        return NotImplemented
    return apply(numpy.subtract, high, reduce("minimum", x, axis, keepdims=keepdims))


def _function(monoid: str, order: str) -> Any:
    """A public function with the parameters of `order` (a axis d(type) o(ut) k(eepdims) i(nitial) w(here))."""
    names = [{"d": "dtype", "o": "out", "k": "keepdims", "i": "initial", "w": "where"}[c] for c in order]

    def call(x: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(x) is not ndarray or len(args) > len(names):
            return NotImplemented
        given = dict(zip(names, args, strict=False))
        if not kwargs.keys() <= set(names) - given.keys():
            return NotImplemented
        return reduce(monoid, x, axis, **given, **kwargs)

    return call


def ufunc_reduce(real: numpy.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record `ufunc.reduce(array, axis=0, dtype=None, out=None, keepdims=False, initial=..., where=True)`."""
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    given = dict(zip(names, args[1:], strict=False)) | kwargs
    if not args or real.__name__ not in MONOIDS or not given.keys() <= set(names):
        return NotImplemented
    given.setdefault("axis", 0)
    if type(given.get("out")) is tuple and len(given["out"]) == 1:
        given["out"] = given["out"][0]
    return reduce(real.__name__, args[0], **given)


_SUM = _function("add", "dokiw")
_PROD = _function("multiply", "dokiw")
_MIN = _function("minimum", "okiw")
_MAX = _function("maximum", "okiw")
_ANY = _function("logical_or", "okw")
_ALL = _function("logical_and", "okw")

for _name, _call in {
    "sum": _SUM, "prod": _PROD, "min": _MIN, "max": _MAX, "amin": _MIN, "amax": _MAX, "any": _ANY, "all": _ALL,
    "mean": mean, "var": var, "std": std, "argmin": _arg("argmin"), "argmax": _arg("argmax"),
    "count_nonzero": count_nonzero, "ptp": ptp,
}.items():  # fmt: skip
    NATIVE[_name] = _call
    if _name not in ("amin", "amax", "count_nonzero", "ptp"):
        NATIVE["ndarray." + _name] = _call

__all__ = ["axes_of", "deliver", "reduce", "ufunc_reduce"]
