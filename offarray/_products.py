"""Sums of products: dot of vectors, einsum of two operands, convolve, correlate.

in: the public functions through `_dispatch.NATIVE`; out: folds, matrix products and routines.  NotImplemented leaves a
call to NumPy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from . import _lazy, _record, _reductions, _routine
from ._array import RealArray, host, make, ndarray
from ._dispatch import COUNTERPART, NATIVE
from ._memory import native
from ._routine import Array, code, run, space
from .codegen import routines
from .runtime.config import settings

_TAPS = 256  # terms up to which summing directly is the best way


def _vectors(a: Any, b: Any) -> bool:
    """Whether both are large vectors of one real type."""
    if type(a) is not ndarray or type(b) is not ndarray or len(a._shape) != 1 or a._shape != b._shape:
        return False
    return a._dtype == b._dtype and native(a._dtype) and a._dtype.char in "fdilqILQ" and not _lazy.small((a, b))


def _by_library(a: ndarray, b: ndarray) -> bool:
    """Whether the product is the processor's library's: of floats at hand it is as fast as memory, by all cores."""
    return _routine.at_hand((a, b)) if a._dtype.char in "fd" else _routine.modest((a, b))


def vector_product(a: ndarray, b: ndarray, name: str) -> Any:
    """Sum of the products of two vectors; `name` is what warnings call it."""
    dtype, site = a._dtype, _record.here()
    product = _record.expression("multiply", [a, b], [dtype, dtype], dtype, a._shape, (0,), site)
    total = _record.fold_node(product, "add", (0,), dtype, site)
    product.alias = total.alias = name
    return _lazy.single(total, [a, b], _record.may_fault(product))


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Product of two vectors; see `numpy.dot`.  Other products are the library's."""
    if out is not None or not _vectors(a, b) or not a._shape[0] or _by_library(a, b):
        return NotImplemented
    return vector_product(a, b, "dot")


def vdot(a: Any, b: Any, /) -> Any:
    """The same, without warnings; see `numpy.vdot`."""
    with numpy.errstate(all="ignore"):
        return dot(a, b)


def matmul(a: Any, b: Any) -> Any:
    """`a @ b` of two vectors."""
    if not _vectors(a, b) or not a._shape[0] or _by_library(a, b):
        return NotImplemented
    return vector_product(a, b, "matmul")


def outer(real: numpy.ufunc, operands: Any) -> Any:
    """`ufunc.outer` of two arrays: the ufunc of what broadcasts to every pair."""
    if real.nin != 2 or len(operands) != 2 or any(type(x) is not ndarray for x in operands):
        return NotImplemented
    a, b = operands
    if not a._shape or len(a._shape) + len(b._shape) > 32:
        return NotImplemented
    return _lazy.call(real, (a[(..., *[None] * len(b._shape))], b))


# ---------------------------------------------------------------------- einsum
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Einstein's summation convention; see `numpy.einsum`.  One or two operands are folds or matrix products."""
    if out is not None or kwargs or not 2 <= len(operands) <= 3 or type(operands[0]) is not str:
        return NotImplemented
    arrays = operands[1:]
    if any(type(x) is not ndarray or not native(x._dtype) or x._dtype.char not in "fdFDilq" for x in arrays):
        return NotImplemented
    if len({x._dtype for x in arrays}) != 1 or _lazy.small(arrays):
        return NotImplemented
    parts = _parsed(operands[0], tuple([x._shape for x in arrays]))
    if parts is None:
        return NotImplemented
    terms, wanted, extents = parts
    inner = _in_memory(arrays, terms, wanted) if optimize is False else wanted
    with numpy.errstate(all="ignore"):
        if len(arrays) == 1:
            made = NotImplemented if len(wanted) == len(terms[0]) else _summed(arrays[0], terms[0], inner)
        else:
            made = _pair(arrays, terms, inner, extents)
    return made if inner == wanted or made is NotImplemented else _turned(made, inner, wanted)


def _in_memory(arrays: Any, terms: list[str], wanted: str) -> str:
    """The letters of the result in the order of its memory, which NumPy takes from that of the operands."""
    letters = wanted + "".join(c for c in dict.fromkeys("".join(terms)) if c not in wanted)
    strides = [
        tuple(x._strides[t.index(c)] if c in t else 0 for c in letters) for x, t in zip(arrays, terms, strict=True)
    ]
    order = _record.arranged(len(letters), strides)
    return "".join(letters[a] for a in order if a < len(wanted))


def _turned(x: Any, letters: str, wanted: str) -> Any:
    """`x` with its axes in the wanted order, where they lie in memory, as an array that owns it."""
    if letters != wanted:
        x = x.transpose([letters.index(c) for c in wanted])
    return x if x._owner is None else make(x._base, x._offset, x._strides, x._shape, x._dtype)


@lru_cache(256)
def _parsed(text: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], str, dict[str, int]] | None:
    """Letters of each operand and of the result, and the extents; None for what NumPy should do, or refuse."""
    text = text.replace(" ", "")
    left, arrow, wanted = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes) or not all(t.isalpha() and t.isascii() and len(set(t)) == len(t) for t in terms):
        return None
    if not arrow:
        wanted = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    if (wanted and not wanted.isalpha()) or len(set(wanted)) != len(wanted):
        return None
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return None
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                return None
    return (terms, wanted, extents) if set(wanted) <= set(extents) and all(extents.values()) else None


def _summed(x: Any, term: str, wanted: str) -> Any:
    """`x` summed over the letters that are not wanted, its axes in the wanted order."""
    axes = tuple(n for n, c in enumerate(term) if c not in wanted)
    kept = [c for c in term if c in wanted]
    made = x if not axes else _reductions.reduce("add", x, axes, dtype=x._dtype)
    if made is NotImplemented:
        return made
    if kept == list(wanted):
        return made
    made = _turned(made, "".join(kept), wanted)
    return made if made.flags.c_contiguous else made.copy()


def _pair(arrays: Any, terms: list[str], wanted: str, extents: dict[str, int]) -> Any:
    """A product of two operands: of matrices where each has axes of its own, else a fold."""
    (a, b), (first, second) = arrays, terms
    both = set(first) & set(second)
    lone = [(set(t) - both) - set(wanted) for t in terms]
    if lone[0]:  # summed within one operand
        kept = "".join(c for c in first if c not in lone[0])
        return _pair((_summed_array(a, first, kept), b), [kept, second], wanted, extents)
    if lone[1]:
        kept = "".join(c for c in second if c not in lone[1])
        return _pair((a, _summed_array(b, second, kept)), [first, kept], wanted, extents)
    summed = "".join(c for c in first if c in both and c not in wanted)
    batch = "".join(c for c in first if c in both and c in wanted)
    mine = "".join(c for c in first if c not in both)
    yours = "".join(c for c in second if c not in both)
    if summed and mine and yours and a._dtype.kind in "fc":
        return _matrices(a, b, terms, (batch, mine, summed, yours), wanted, extents)
    if _routine.modest((a, b)):
        return NotImplemented
    letters = wanted + summed
    product = _lazy.apply(numpy.multiply, _spread(a, first, letters), _spread(b, second, letters))
    if not summed:  # a sum all the same, which begins with 0.0: no -0.0 is left
        return _lazy.apply(numpy.add, product, 0.0) if a._dtype.kind in "fc" else product
    axes = tuple(range(len(wanted), len(letters)))
    return _reductions.reduce("add", product, axes, dtype=a._dtype)


def _summed_array(x: Any, term: str, kept: str) -> Any:
    made = _summed(x, term, kept)
    if made is NotImplemented:  # small beside the other operand
        return _lazy.fresh(numpy.array(numpy.einsum(f"{term}->{kept}", host(x))))
    return made if type(made) is ndarray else made._handle


def _spread(x: Any, term: str, letters: str) -> Any:
    """`x` with its axes in the order of `letters`, and axes of one element for those it lacks."""
    order = [term.index(c) for c in letters if c in term]
    made = x.transpose(order) if order != list(range(len(term))) else x
    return made if len(term) == len(letters) else made[tuple(slice(None) if c in term else None for c in letters)]


def _matrices(
    a: Any, b: Any, terms: list[str], groups: tuple[str, str, str, str], wanted: str, extents: dict[str, int]
) -> Any:
    """The product of `a` as (batch, mine, summed) and `b` as (batch, summed, yours)."""
    batch, mine, summed, yours = groups

    def shaped(x: Any, term: str, *parts: str) -> Any:
        order = [term.index(c) for part in parts for c in part]
        x = x.transpose(order) if order != list(range(len(term))) else x
        head = [extents[c] for c in parts[0]]
        return x.reshape(*head, *(math.prod(extents[c] for c in part) for part in parts[1:]))

    left, right = shaped(a, terms[0], batch, mine, summed), shaped(b, terms[1], batch, summed, yours)
    made = COUNTERPART[numpy.matmul](left, right)
    letters = batch + mine + yours
    made = made.reshape([extents[c] for c in letters])
    return (
        _turned(made, wanted, wanted)
        if letters == wanted
        else made.transpose([letters.index(c) for c in wanted]).copy()
    )


# ---------------------------------------------------------------------- convolution
def _line(x: Any) -> Array | None:
    """The memory of a vector."""
    if type(x) is ndarray and len(x._shape) == 1 and native(x._dtype):
        return host(x)
    if type(x) in (list, tuple) and x and all(type(v) in (int, float) for v in x):
        return numpy.asarray(x)
    return x if type(x) is RealArray and x.ndim == 1 else None


def _correlated(a: Any, v: Any, mode: Any, turned: bool) -> Any:
    """`correlate(a, v, mode)`; with `turned` the taps run backwards."""
    if mode not in ("valid", "same", "full") or type(a) is not ndarray:
        return NotImplemented
    taps = _line(v)
    if taps is None or len(a._shape) != 1 or not 1 <= taps.size <= min(_TAPS, a._shape[0]):
        return NotImplemented
    common = numpy.result_type(a._dtype, taps.dtype)
    if common.char not in "fdilq" or a._dtype.kind not in "iuf":
        return NotImplemented
    x = _routine.ready(a)
    if x is None:
        return _windows(a, taps[::-1] if turned else taps, mode, common)
    x, taps = (numpy.ascontiguousarray(w, common) for w in (x, taps[::-1] if turned else taps))
    n, m = x.size, taps.size
    length, shift = {"valid": (n - m + 1, 0), "same": (n, m // 2), "full": (n + m - 1, m - 1)}[mode]
    made = space(length, common)
    words = [x, taps, made, m, shift, n]
    ranges = _routine.shares(x.nbytes * m // 8, length)
    run(routines.correlate, words, ranges, x.nbytes + made.array.nbytes, T=code(common))
    return made.handle()


_WINDOWS = 32  # terms of a sum that is recorded


def _windows(a: ndarray, taps: Array, mode: str, common: Any) -> Any:
    """The same where a device runs it: a sum of shifted windows, which is one kernel."""
    m = taps.size
    if not settings.device.startswith("cuda") or m > _WINDOWS or not _lazy.worth(a) or a._dtype != common:
        return NotImplemented
    before = {"valid": 0, "same": m // 2, "full": m - 1}[mode]
    behind = {"valid": 0, "same": m - m // 2 - 1, "full": m - 1}[mode]
    ends = [numpy.zeros(n, common) for n in (before, behind)]
    x = a if mode == "valid" else concatenate([_lazy.fresh(ends[0]), a, _lazy.fresh(ends[1])])
    if type(x) is not ndarray:
        return NotImplemented
    length = x._shape[0] - m + 1
    total: Any = None
    with numpy.errstate(all="ignore"):
        for n, tap in enumerate(taps.astype(common)):
            term = _lazy.apply(numpy.multiply, x[n : n + length], tap)
            total = term if total is None else _lazy.apply(numpy.add, total, term)
    return total


def concatenate(arrays: list[Any]) -> Any:
    """Joined vectors."""
    return COUNTERPART[numpy.concatenate](arrays)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """Cross-correlation of two vectors; see `numpy.correlate`."""
    return _correlated(a, v, mode, False)


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """Convolution of two vectors; see `numpy.convolve`."""
    answer = _correlated(a, v, mode, True)
    return answer if answer is not NotImplemented else _correlated(v, a, mode, True)


NATIVE.update(
    {
        "dot": dot, "ndarray.dot": dot, "inner": dot, "vdot": vdot, "einsum": einsum, "convolve": convolve,
        "correlate": correlate,
    }
)  # fmt: skip

_lazy.PRODUCTS[numpy.matmul] = matmul

__all__ = ["dot", "matmul"]
