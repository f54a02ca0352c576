"""Order statistics without sorting: median, percentile, quantile.

in: the public functions through `_dispatch.NATIVE`; out: routines and NumPy's partition of what little they leave.

A sample says between which values an element of the wanted rank lies, one pass collects what is between them, and
NumPy finds the element there.  Where the sample was wrong, NumPy looks at everything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _lazy, _routine
from ._array import fresh, ndarray
from ._choosing import chosen
from ._dispatch import NATIVE
from ._routine import Array, code, kind, run, space
from .codegen import routines

_UNSET: Any = numpy._NoValue  # type: ignore[attr-defined]
_SAMPLE = 4096
_SPREAD = 3.5 * math.sqrt(_SAMPLE) / 2  # of the rank in the sample: more than three standard deviations at the median
_ROW = 512  # up to here sorting a row is faster than looking for its middle
_TYPES = frozenset("dfilq")


def select(a: Array, ranks: list[int]) -> Array | None:
    """Elements of these ascending ranks in a dense array of one axis; None if there is a NaN."""
    n = a.size
    sample = numpy.sort(a[:: max(n // _SAMPLE, 1)])
    made = numpy.empty(len(ranks), a.dtype)
    work = space(n + 1, a.dtype)
    done = 0
    while done < len(ranks):
        low, high = _bounds(sample, ranks[done], n)
        found = numpy.zeros(3, "i8")
        ends = numpy.array([low, high], a.dtype)
        words = [a, ends, work, found]
        run(routines.between, words, [(0, n)], a.nbytes, T=code(a.dtype), KIND=kind(a.dtype))
        below, inside, bad = map(int, found)
        if bad:
            return None
        reached = done
        while reached < len(ranks) and below <= ranks[reached] < below + inside:
            reached += 1
        if reached == done:
            return numpy.partition(a, ranks)[ranks]
        wanted = [r - below for r in ranks[done:reached]]
        part = work.array[:inside]
        part.partition(wanted)
        made[done:reached] = part[wanted]
        done = reached
    return made


def _bounds(sample: Array, rank: int, n: int) -> tuple[Any, Any]:
    """Values between which the element of a rank lies, as far as the sample knows."""
    m = sample.size
    place = rank * m / n
    low, high = math.floor(place - _SPREAD), math.ceil(place + _SPREAD)
    first, last = _ends(sample.dtype)
    return (sample[low] if low >= 0 else first), (sample[high] if high < m else last)


def _ends(dtype: Any) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -numpy.inf, numpy.inf
    info = numpy.iinfo(dtype)
    return info.min, info.max


def _line(a: Any, axis: Any) -> Array | None:
    """The flattened memory of an operand of which all elements are meant."""
    if type(a) is not ndarray or a._dtype.char not in _TYPES:
        return None
    if axis is not None and (type(axis) is not int or len(a._shape) != 1 or not -1 <= axis <= 0):
        return None
    found = _routine.ready(a)
    return None if found is None or found.size < 2 * _SAMPLE else found.reshape(-1)


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """The middle of the sorted elements; see `numpy.median`."""
    if out is not None or keepdims is not False or overwrite_input is not False:
        return NotImplemented
    line = _line(a, axis)
    if line is None:
        return _rows(a, axis)
    n = line.size
    found = select(line, [n // 2] if n % 2 else [n // 2 - 1, n // 2])
    if found is None:
        return numpy.mean(line[:1] * numpy.nan)
    return numpy.mean(found)


def _rows(a: Any, axis: Any) -> Any:
    """Medians of short rows, which are sorted."""
    if type(a) is not ndarray or type(axis) is not int or a._dtype.char not in "df" or len(a._shape) < 2:
        return NotImplemented
    if axis not in (-1, len(a._shape) - 1) or not 2 <= a._shape[-1] <= _ROW:
        return NotImplemented
    memory = _routine.ready(a)
    if memory is None:
        return NotImplemented
    size = memory.shape[-1]
    work = space(memory.shape, memory.dtype)
    ordered = work.array
    ordered[...] = memory
    ordered.sort(axis=-1)
    middle = ordered[..., (size - 1) // 2 : size // 2 + 1]
    made = numpy.mean(middle, axis=-1)
    last = ordered[..., -1]
    numpy.copyto(made, last, where=numpy.isnan(last))
    return fresh(made)


def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = _UNSET) -> Any:
    """The middle of the elements that are not NaN; see `numpy.nanmedian`."""
    if out is not None or keepdims is not _UNSET or overwrite_input is not False or type(a) is not ndarray:
        return NotImplemented
    line = _line(a, axis) if a._dtype.kind == "f" else None
    if line is None:
        return NotImplemented
    good = ~numpy.isnan(line)
    rest = line if good.all() else chosen(good, line).array
    n = rest.size
    if n < 2 * _SAMPLE:
        return numpy.median(rest) if n else NotImplemented
    found = select(rest, [n // 2] if n % 2 else [n // 2 - 1, n // 2])
    return NotImplemented if found is None else numpy.mean(found)


def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Elements, or values between them, of given shares; see `numpy.quantile`."""
    if not (out is None and weights is None and method == "linear" and keepdims is False and overwrite_input is False):
        return NotImplemented
    if type(a) is not ndarray or a._dtype.char == "f" or _lazy.small((a,)):
        return NotImplemented
    shares = _shares(q)
    line = _line(a, axis) if shares is not None else None
    return NotImplemented if line is None or shares is None else _interpolated(line, shares)


def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Elements, or values between them, of given shares in hundredths; see `numpy.percentile`."""
    if type(q) not in (int, float, list, tuple, numpy.ndarray) or type(a) is not ndarray or _lazy.small((a,)):
        return NotImplemented
    try:
        shares = numpy.true_divide(q, 100)
    except TypeError:
        return NotImplemented
    return quantile(a, shares, axis, out, overwrite_input, method, keepdims, weights=weights)


def _shares(q: Any) -> Array | None:
    """Shares between 0 and 1 as an array of f8."""
    if type(q) not in (int, float, list, tuple, numpy.ndarray, numpy.float64):
        return None
    given = numpy.asarray(q)
    if given.dtype.kind not in "if" or given.ndim > 1 or not given.size or given.size > 64:
        return None
    given = given.astype("f8")
    return given if bool(numpy.all((given >= 0) & (given <= 1))) else None


def _interpolated(line: Array, shares: Array) -> Any:
    """NumPy's default method: linear between the two nearest elements."""
    n = line.size
    virtual = (n - 1) * shares
    before = numpy.floor(virtual).astype("i8")
    after = numpy.minimum(before + 1, n - 1)
    ranks = numpy.unique(numpy.concatenate([before.ravel(), after.ravel()]))
    found = select(line, ranks.tolist())
    if found is None:
        made = numpy.full(shares.shape, numpy.nan)
    else:
        a, b = found[numpy.searchsorted(ranks, before)], found[numpy.searchsorted(ranks, after)]
        gap, t = b - a, virtual - before
        made = numpy.where(t >= 0.5, b - gap * (1 - t), a + gap * t)
    return fresh(made) if made.ndim else made[()]


NATIVE.update({"median": median, "nanmedian": nanmedian, "quantile": quantile, "percentile": percentile})

__all__ = ["select"]
