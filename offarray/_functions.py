"""Which function runs how: tables of compositions and library steps, and functions about shapes and types alone.

in: `_dispatch.public`; out: `_dispatch.NATIVE`.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import (  # noqa: F401
    _choosing,
    _counting,
    _creation,
    _fallback,
    _lazy,
    _moving,
    _products,
    _record,
    _routine,
    _sorting,
    _statistics,
)
from ._array import RealArray, host, ndarray
from ._dispatch import COMPOSED, LIBRARY, NATIVE, NEUTRAL, SCALARS, numpy_call
from ._memory import native
from ._reach import WIDE, widen
from ._views import ghost, is_pending, unwritten
from .fusion.order import join_order
from .fusion.plan import OUTPUTS
from .runtime import buffer as buffers
from .runtime.config import settings

# NumPy's Python code is right for these over recorded arrays, and made of operations that are recorded.
COMPOSED.update(
    """
    gradient diff trapezoid average cov corrcoef nansum nanprod nanmean nanvar nanstd nanmax nanmin nancumsum
    nancumprod rot90 flip fliplr flipud kron outer meshgrid pad stack hstack vstack dstack column_stack row_stack
    append block isclose allclose array_equal array_equiv vander polyval tri tril triu cross unwrap nan_to_num sinc
    i0 ediff1d fix isneginf isposinf angle real_if_close select moveaxis rollaxis roll atleast_1d atleast_2d
    atleast_3d tile expand_dims array_split split hsplit vsplit dsplit unstack iscomplex isreal linspace logspace
    geomspace full full_like cumulative_sum cumulative_prod ptp trim_zeros linalg.norm linalg.vector_norm
    linalg.matrix_norm linalg.outer linalg.cross fft.fftshift fft.ifftshift insert delete diag diagflat
    take_along_axis put_along_axis histogram_bin_edges histogramdd setdiff1d intersect1d setxor1d union1d polyadd
    polysub polymul polyder polyint nanargmax nanargmin ix_ diag_indices_from tril_indices_from triu_indices_from
    poly resize
    """.split()
)
WIDE.update(COMPOSED)
_METHODS = (
    "sum prod min max any all mean var std argmin argmax clip round astype copy repeat flatten ravel take dot".split()
)
for _name in _METHODS:
    widen(_name, getattr(RealArray, _name))
WIDE.update("amin amax count_nonzero ptp around concatenate dot inner vdot".split())
# NumPy's compiled routines that are the processor's library.
LIBRARY.update(
    """
    sort argsort partition argpartition searchsorted lexsort sort_complex unique unique_all unique_counts
    unique_inverse unique_values isin median percentile quantile nanmedian nanpercentile nanquantile matmul dot
    inner vdot vecdot matvec vecmat einsum einsum_path tensordot bincount histogram histogram2d digitize interp
    convolve correlate take put choose compress repeat concatenate nonzero argwhere flatnonzero packbits unpackbits
    place extract putmask fill_diagonal diagonal trace count_nonzero argmax argmin copyto ravel_multi_index
    unravel_index broadcast_to broadcast_arrays roots polyfit polydiv piecewise apply_along_axis apply_over_axes
    fill
    """.split()
)
# Conversion, text, files and questions: no work that a kernel could have done.
NEUTRAL.update(
    """
    array asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite require asmatrix array_repr array_str
    array2string save savez savez_compressed savetxt load loadtxt genfromtxt fromregex result_type can_cast
    min_scalar_type shares_memory may_share_memory shape ndim size iscomplexobj isrealobj common_type isfortran isscalar
    broadcast_shapes base_repr binary_repr format_float_positional format_float_scientific info iterable typename
    empty_like zeros_like empty zeros frombuffer fromfile fromstring fromiter from_dlpack copy view tobytes byteswap
    getfield setfield reshape ravel flatten transpose swapaxes squeeze real imag astype
    """.split()
)


# --- questions that a pending array answers without its value ---------------------------------------------------


def _shape(a: Any) -> Any:
    return a._shape if type(a) is ndarray else NotImplemented


def _ndim(a: Any) -> Any:
    return len(a._shape) if type(a) is ndarray else NotImplemented


def _size(a: Any, axis: Any = None) -> Any:
    if type(a) is not ndarray or not (axis is None or (type(axis) is int and -len(a._shape) <= axis < len(a._shape))):
        return NotImplemented
    return a.size if axis is None else a._shape[axis]


def _iscomplexobj(x: Any) -> Any:
    return x._dtype.kind == "c" if type(x) is ndarray else NotImplemented


def _isrealobj(x: Any) -> Any:
    return x._dtype.kind != "c" if type(x) is ndarray else NotImplemented


def _by_type(real: Any) -> Any:
    """A question about data types: arrays are asked for theirs."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(is_pending(v) for v in args):
            return NotImplemented
        return real(*[v._dtype if type(v) is ndarray else v for v in args], **kwargs)

    return call


def _by_ghost(real: Any) -> Any:
    """A question about layout: a pending operand is asked through its ghost."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not args or not is_pending(args[0]) or kwargs.get("like") is not None:
            return NotImplemented
        made = real(ghost(args[0]), *args[1:], **kwargs)
        return _lazy.fresh(made) if type(made) is RealArray else made

    return call


_empty_ghost = _by_ghost(numpy.empty_like)


def _empty_like(*args: Any, **kwargs: Any) -> Any:
    made = _empty_ghost(*args, **kwargs)
    return unwritten(made) if type(made) is ndarray else made


# Types of which no value is an array on a device; what is done with a value that is one is _interchange.py's.
HERE: frozenset[type] = frozenset({RealArray, ndarray, list, tuple, range, str, bytes, *SCALARS})
taken: Any = lambda *args, **kwargs: NotImplemented  # noqa: E731


_zeros_ghost = _by_ghost(numpy.zeros_like)


def _zeros_like(*args: Any, **kwargs: Any) -> Any:
    """Zeros that nobody has written yet, where that saves pages."""
    made = _zeros_ghost(*args, **kwargs)
    if made is NotImplemented and len(args) == 1 and not kwargs and _lazy.worth(args[0]):
        if args[0].flags.c_contiguous:
            return _creation.full(args[0]._shape, 0, args[0]._dtype)
    return made


def _identity(name: str) -> Any:
    """A conversion that gives a handle back as it is."""
    real = getattr(numpy, name)
    order = {"ascontiguousarray": {"order": "C"}, "asfortranarray": {"order": "F"}}.get(name, {})

    def call(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(a) is not ndarray or dtype is not None or args or kwargs:
            return NotImplemented if type(a) in HERE else taken(a, dtype, *args, **{**order, **kwargs})
        if name == "ascontiguousarray" and not (a._shape and a.flags.c_contiguous):
            return NotImplemented
        if name == "asfortranarray" and not (a._shape and a.flags.f_contiguous):
            return NotImplemented
        return a

    call.__doc__ = real.__doc__
    return call


def _array(a: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", **kwargs: Any) -> Any:
    """A copy of a pending array stays pending."""
    if type(a) is list and not kwargs and a and set(map(type, a)) <= SCALARS:
        if dtype is None and copy is True and order == "K":
            return _lazy.fresh(numpy.array(a))
        return _lazy.fresh(numpy_call(numpy.array, (a, dtype), {"copy": copy, "order": order}))
    if type(a) in (list, tuple) and (dtype is object or dtype == "O"):
        options = {"copy": copy, "order": order, **kwargs}
        return _lazy.fresh(numpy_call(numpy.array, (a, dtype), options))  # elements stay what they are
    if kwargs.keys() == {"ndmin"} and type(a) is ndarray and copy and _lazy.worth(a):
        missing = kwargs["ndmin"] - len(a._shape) if type(kwargs["ndmin"]) is int else -1
        made = _array(a, dtype, order=order) if 0 <= missing <= 32 - len(a._shape) else NotImplemented
        return made if made is NotImplemented else made.reshape((1,) * missing + a._shape)
    if kwargs.keys() <= {"subok"} and _lazy.worth(a) and copy is True:
        kwargs = {}
    elif not is_pending(a):
        return NotImplemented if type(a) in HERE else taken(a, dtype, copy=copy, order=order, **kwargs)
    if kwargs or order != "K":
        return NotImplemented if type(a) in HERE else taken(a, dtype, copy=copy, order=order, **kwargs)
    if dtype is not None and numpy.dtype(dtype) != a._dtype:
        return a.astype(dtype) if copy is not False else NotImplemented
    return a.copy("K") if copy else a


def _conjugate(x: Any, *args: Any, **kwargs: Any) -> Any:
    """`x.conj()`: a real array itself."""
    if type(x) is not ndarray or args or kwargs or not native(x._dtype):
        return NotImplemented
    return _lazy.call(numpy.conjugate, (x,)) if x._dtype.kind == "c" else x


# --- joining --------------------------------------------------------------------------------------------------------


def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Join arrays along an axis; see `numpy.concatenate`.

    A few pieces of one shape are a node; otherwise each operand is written into its part of the result.
    """
    if out is not None or dtype is not None or type(arrays) not in (list, tuple) or type(axis) is not int:
        return NotImplemented
    if not all(type(a) is ndarray and native(a._dtype) and a._shape for a in arrays):
        return NotImplemented
    if len(arrays) < 2 or sum(a.size for a in arrays) <= settings.eager_size:
        return NotImplemented
    if not settings.device.startswith("cuda") and not any(is_pending(a) or _routine.is_elsewhere(a) for a in arrays):
        return _joined([host(a) for a in arrays], axis)
    shape = arrays[0]._shape
    if not -len(shape) <= axis < len(shape):
        return NotImplemented
    axis %= len(shape)
    rest = shape[:axis] + shape[axis + 1 :]
    if any(len(a._shape) != len(shape) or a._shape[:axis] + a._shape[axis + 1 :] != rest for a in arrays):
        return NotImplemented
    kind = numpy.result_type(*(a._dtype for a in arrays))
    extent = sum(a._shape[axis] for a in arrays)
    order = join_order([(a._shape, a._strides) for a in arrays])
    whole = (*shape[:axis], extent, *shape[axis + 1 :])
    if len(arrays) <= OUTPUTS and all(a._shape == shape for a in arrays):
        return _record.join(arrays, axis, whole, order, kind)
    if order == tuple(range(len(order))):
        if buffers.fresh is None:
            joined = _routine.space(whole, kind).handle()
        else:  # a device computes
            joined = unwritten(_lazy.fresh(numpy.empty(whole, kind)))
    else:
        memory = numpy.empty(tuple(whole[a] for a in order), kind)
        joined = unwritten(_lazy.fresh(memory.transpose(tuple(order.index(a) for a in range(len(order))))))
    start = 0
    for a in arrays:
        stop = start + a._shape[axis]
        if stop > start:
            joined[(slice(None),) * axis + (slice(start, stop),)] = a
        start = stop
    return joined


def _joined(arrays: list[Any], axis: int) -> Any:
    """Arrays at hand, joined by NumPy, whose copies nothing beats."""
    if not all(a.flags.c_contiguous and a.dtype == arrays[0].dtype and a.ndim == arrays[0].ndim for a in arrays):
        made = numpy.concatenate(arrays, axis)
        _fallback.library("concatenate", made)
        return _lazy.fresh(made)
    shape = list(arrays[0].shape)
    if not -len(shape) <= axis < len(shape):
        return NotImplemented
    shape[axis] = sum(a.shape[axis] for a in arrays)
    room = _routine.space(tuple(shape), arrays[0].dtype)
    numpy.concatenate(arrays, axis, out=room.array)
    _fallback.library("concatenate", room.array)
    return room.handle()


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """Euclidean length of a whole array; see `numpy.linalg.norm`.  Other norms are compositions."""
    if type(x) is not ndarray or ord is not None or axis is not None or x._dtype.kind != "f" or _lazy.small((x,)):
        return NotImplemented
    if not native(x._dtype) or x._dtype.char == "e":
        return NotImplemented
    if x._dtype.char in "fd" and _routine.at_hand((x,)):  # a product of vectors, which is the processor's library's
        made: Any = numpy.linalg.norm(host(x), keepdims=keepdims)
        _fallback.library("linalg.norm", made)
        return _lazy.fresh(made) if keepdims else made
    total = (x * x).sum(keepdims=keepdims)
    return _lazy.apply(numpy.sqrt, total)


NATIVE.update(
    {
        "shape": _shape, "ndim": _ndim, "size": _size, "iscomplexobj": _iscomplexobj, "isrealobj": _isrealobj,
        "result_type": _by_type(numpy.result_type), "common_type": _by_ghost(numpy.common_type),
        "empty_like": _empty_like, "zeros_like": _zeros_like,
        "isfortran": _by_ghost(numpy.isfortran), "concatenate": concatenate, "concat": concatenate,
        "asarray": _identity("asarray"), "asanyarray": _identity("asanyarray"), "array": _array,
        "ascontiguousarray": _identity("ascontiguousarray"), "asfortranarray": _identity("asfortranarray"),
        "linalg.norm": norm, "ndarray.conj": _conjugate, "ndarray.conjugate": _conjugate,
    }
)  # fmt: skip

__all__ = ["concatenate", "norm"]
