"""Products of matrices and vectors on a device.

in: `_library`; out: cuBLAS for floating and complex numbers of matrices, kernels of our own for products of vectors
(which memory bounds) and for integers and booleans (which no library multiplies exactly).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from . import _lazy, _record
from ._array import ndarray
from ._library_device import (
    DType,
    Shape,
    address,
    alone,
    array,
    by_rows,
    cast,
    dense,
    fits,
    is_dense,
    new,
    np,
    owned,
    seen,
    spread,
    step,
    store,
)
from ._views import dense_copy
from .fusion.node import MAP, Node
from .runtime import cudalib_blas as blas
from .runtime.tuples import NamedTuple


class Matrix(NamedTuple):
    """How a stack of matrices lies in memory: whether transposed, leading dimension, distance; in elements."""

    across: bool
    leading: int
    distance: int


def refuse(real: Callable[..., Any], *operands: ndarray, out: Any = None) -> None:
    """Have NumPy raise for shapes or types that it refuses, without looking at elements."""
    given = {}
    if out is not None:
        given["out"] = numpy.empty(out._shape, out._dtype)
        given["out"].flags.writeable = out._writeable
    real(*[numpy.broadcast_to(numpy.zeros((), x._dtype), x._shape) for x in operands], **given)


def layout(x: ndarray) -> Matrix | None:
    """The layout of the last two axes and the stack before them, or None where cuBLAS has no name for it."""
    size = x._dtype.itemsize
    if any(s % size or s < 0 for s in x._strides) or x._offset % size:
        return None
    (rows, width), (down, right) = x._shape[-2:], [s // size for s in x._strides[-2:]]
    distance, extent = 0, 1
    for e, s in zip(reversed(x._shape[:-2]), reversed(x._strides[:-2]), strict=True):
        if e == 1:
            continue
        if extent == 1:
            distance = s // size
        elif s // size != distance * extent:
            return None
        extent *= e
    if (right == 1 or width == 1) and (down >= width or rows == 1):
        return Matrix(False, max(down if rows > 1 else width, width, 1), distance)
    if (down == 1 or rows == 1) and (right >= rows or width == 1):
        return Matrix(True, max(right if width > 1 else rows, rows, 1), distance)
    return None


def ready(x: ndarray) -> tuple[ndarray, Matrix]:
    """`x` in a layout that cuBLAS takes: a view as it is, what is pending or lies otherwise as a dense copy."""
    found = layout(x)
    if found is None:
        x = dense_copy(x)
        found = layout(x)
    assert found is not None
    return x, found


def product(a: ndarray, b: ndarray) -> ndarray:
    """(..., m, k) times (..., k, n) for equal stacks and one data type that cuBLAS multiplies."""
    (m, k), n = a._shape[-2:], b._shape[-1]
    lead = a._shape[:-2]
    dtype = a._dtype
    if 0 in (*lead, m, n):
        return new(dtype, (*lead, m, n))[1]
    if k == 0:
        made = new(dtype, (*lead, m, n))[1]
        _record.assign(made, _record.constant(0, dtype))
        return made
    a, left = ready(a)
    b, right = ready(b)
    batch = math.prod(lead)
    with step(a, b) as found:
        buffer, made = new(dtype, (*lead, m, n))
        pa, pb, pc = address(found, a), address(found, b), found.write(buffer)
        if 1 in (m, n) and dtype.char != "e":
            pace = (b._strides[-2] if n == 1 else a._strides[-1]) // dtype.itemsize if k > 1 else 1
            _vector(found, dtype.char, (m, k, n), (pa, left), (pb, right), pace, pc, batch)
            return made
        if batch > 1 and right.distance == 0 and not left.across and left.distance == m * left.leading:
            m, batch = m * batch, 1
        blas.gemm(
            found, dtype.char, (int(right.across), int(left.across)), (n, m, k), (pb, right.leading, right.distance),
            (pa, left.leading, left.distance), (pc, n, m * n), batch,
        )  # fmt: skip
    return made


def _vector(
    found: Any, char: str, size: tuple[int, int, int], a: tuple[int, Matrix], b: tuple[int, Matrix], pace: int,
    out: int, batch: int,
) -> None:  # fmt: skip
    """A product with a matrix of one row or column, whose elements lie `pace` apart."""
    m, k, n = size
    (pm, matrix), (pv, vector) = (a, b) if n == 1 else (b, a)
    rows, width = (m, k) if n == 1 else (k, n)  # of the matrix, in C order
    # y = A x for a column on the right; y = B^T x for a row on the left
    if matrix.across:  # stored by columns as it stands
        op, shape = (blas.PLAIN if n == 1 else blas.TRANSPOSED), (rows, width)
    else:
        op, shape = (blas.TRANSPOSED if n == 1 else blas.PLAIN), (width, rows)
    blas.gemv(
        found, char, op, shape, (pm, matrix.leading, matrix.distance), (pv, pace, vector.distance),
        (out, 1, m * n), batch,
    )  # fmt: skip


def contracted(x: ndarray, y: ndarray, dtype: DType, axis: int = -1, name: str = "") -> ndarray:
    """The sum over one axis of the products of two arrays that broadcast, recorded as one kernel.

    `name` is what warnings call it.
    """
    shape = numpy.broadcast_shapes(x._shape, y._shape)
    axis %= len(shape)
    half = dtype.char == "e"
    loop = numpy.dtype("f4") if half else dtype
    times, plus = ("logical_and", "logical_or") if dtype.kind == "b" else ("multiply", "add")
    site = _record.here()
    order = tuple(range(len(shape)))
    node = each = _record.expression(times, (x, y), (loop, loop), loop, shape, order, site)
    node = _record.fold_node(node, plus, (axis,), loop, site)
    each.alias = node.alias = name
    if half:
        node = Node(MAP, "cast", dtype, node.shape, (node,), None, 0, site)
    rest = shape[:axis] + shape[axis + 1 :]
    return _record.deliver(node, rest, tuple(range(len(rest))), (x, y))


def multiplied(a: ndarray, b: ndarray, dtype: DType, name: str = "matmul") -> ndarray:
    """(..., m, k) times (..., k, n), the stacks broadcast, in the arithmetic of `dtype`."""
    lead = numpy.broadcast_shapes(a._shape[:-2], b._shape[:-2])
    a, b = spread(a, lead + a._shape[-2:]), spread(b, lead + b._shape[-2:])
    if dtype.char in blas.TYPES and a._shape[-1] != 1:  # of one term cuBLAS leaves -0.0, which no sum is
        return product(cast(a, dtype), cast(b, dtype))
    tall, wide = seen(a, lambda g: g[..., None]), seen(b, lambda g: g[..., None, :, :])
    return contracted(tall, wide, dtype, -2, name)


def _pair(real: numpy.ufunc, x: Any, y: Any, least: tuple[int, int]) -> tuple[ndarray, ndarray, DType] | None:
    """Two operands of at least so many axes, and the data type of their product."""
    a, b = array(x), array(y)
    if a is None or b is None or len(a._shape) < least[0] or len(b._shape) < least[1]:
        return None
    try:
        dtype = real.resolve_dtypes((a._dtype, b._dtype, None))[2]
    except TypeError:
        return None
    return (a, b, dtype) if dtype.char in "?bBhHiIlLqQefdFD" else None


def _given(made: ndarray, out: Any) -> Any:
    if out is not None:
        return store(out, made)
    return made if made._shape else _lazy.scalar_of(made)


def of_matmul(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """`numpy.matmul`."""
    found = None if options else _pair(numpy.matmul, x, y, (1, 1))
    out = alone(out)
    if found is None or out is NotImplemented:
        return NotImplemented
    a, b, dtype = found
    flat = len(a._shape) == 1, len(b._shape) == 1
    if all(flat):
        if a._shape != b._shape:
            refuse(numpy.matmul, a, b, out=out)
        return _given(contracted(a, b, dtype, name="matmul"), out) if fits(out, (), dtype) else NotImplemented
    rows = seen(a, lambda g: g[None, :]) if flat[0] else a
    wide = seen(b, lambda g: g[:, None]) if flat[1] else b
    try:
        lead = numpy.broadcast_shapes(rows._shape[:-2], wide._shape[:-2])
    except ValueError:
        lead = None
    if lead is None or rows._shape[-1] != wide._shape[-2]:
        refuse(numpy.matmul, a, b, out=out)
        return NotImplemented
    shape = lead + (() if flat[0] else rows._shape[-2:-1]) + (() if flat[1] else wide._shape[-1:])
    if not fits(out, shape, dtype):
        return NotImplemented
    made = multiplied(rows, wide, dtype)
    if flat[0] or flat[1]:
        made = _reshaped(made, shape)
    return _given(made, out)


def _reshaped(x: ndarray, shape: Shape) -> ndarray:
    return owned(seen(x, lambda g: g.reshape(shape)))


def _conjugate(x: ndarray) -> ndarray:
    return np.conjugate(x) if x._dtype.kind == "c" else x  # type: ignore[no-any-return]


def of_vecdot(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """`numpy.vecdot`: the first operand is conjugated."""
    found = None if options else _pair(numpy.vecdot, x, y, (1, 1))
    out = alone(out)
    if found is None or out is not None:
        return NotImplemented
    a, b, dtype = found
    try:
        numpy.broadcast_shapes(a._shape[:-1], b._shape[:-1])
        right = a._shape[-1] == b._shape[-1]
    except ValueError:
        right = False
    if not right:
        refuse(numpy.vecdot, a, b)
        return NotImplemented
    return _given(contracted(_conjugate(a), b, dtype, name="vecdot"), None)


def of_matvec(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """`numpy.matvec`."""
    return _with_vector(numpy.matvec, x, y, (2, 1), out, options)


def of_vecmat(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """`numpy.vecmat`: the vector is conjugated."""
    return _with_vector(numpy.vecmat, x, y, (1, 2), out, options)


def _with_vector(real: numpy.ufunc, x: Any, y: Any, least: tuple[int, int], out: Any, options: Any) -> Any:
    found = None if options or out is not None else _pair(real, x, y, least)
    if found is None:
        return NotImplemented
    a, b, dtype = found
    if least == (2, 1):
        b = seen(b, lambda g: g[..., None])
    else:
        a = seen(_conjugate(a), lambda g: g[..., None, :])
    try:
        numpy.broadcast_shapes(a._shape[:-2], b._shape[:-2])
        right = a._shape[-1] == b._shape[-2]
    except ValueError:
        right = False
    if not right:
        refuse(real, *found[:2])
        return NotImplemented
    made = multiplied(a, b, dtype, real.__name__)
    return _reshaped(made, made._shape[:-1] if least == (2, 1) else made._shape[:-2] + made._shape[-1:])


def _contractible(x: Any, y: Any) -> tuple[ndarray, ndarray, DType] | None:
    """Two arrays, neither a scalar, and the data type of their dot product."""
    a, b = array(x), array(y)
    if a is None or b is None or not a._shape or not b._shape:
        return None
    return a, b, numpy.result_type(a._dtype, b._dtype)


def on_dot(a: Any, b: Any, out: Any = None) -> Any:
    """`numpy.dot`: the last axis of `a` with the last but one of `b`."""
    found = _contractible(a, b)
    if found is None:
        return NotImplemented
    x, y, dtype = found
    at = max(len(y._shape) - 2, 0)
    if x._shape[-1] != y._shape[at]:
        refuse(numpy.dot, x, y)
        return NotImplemented
    shape = x._shape[:-1] + y._shape[:at] + y._shape[at + 1 :]
    if out is not None and not (fits(out, shape, dtype) and out._dtype == dtype and is_dense(out)):
        return NotImplemented
    if len(x._shape) == len(y._shape) == 1:
        return _given(contracted(x, y, dtype, name="dot"), out)
    wide = y if len(y._shape) == 2 else _wide(y, at)
    made = multiplied(_flat(x, x._shape[-1]), wide, dtype, "dot")
    return _given(_reshaped(made, shape), out)


def _flat(x: ndarray, last: int) -> ndarray:
    """`x` with all axes but the last as one."""
    if len(x._shape) == 2:
        return x
    x = dense(x)
    return seen(x, lambda g: g.reshape(math.prod(g.shape[:-1]), last))


def _wide(y: ndarray, at: int) -> ndarray:
    """`y` as a matrix: its axis `at` first, all others as one."""
    moved = seen(y, lambda g: numpy.moveaxis(g, at, 0))
    return seen(dense(moved), lambda g: g.reshape(g.shape[0], math.prod(g.shape[1:])))


def on_ndarray_dot(self: Any, b: Any, out: Any = None) -> Any:
    """`numpy.ndarray.dot`."""
    return on_dot(self, b, out)


def on_vdot(a: Any, b: Any, /) -> Any:
    """`numpy.vdot`: all elements of both, the first conjugated."""
    found = _contractible(a, b)
    if found is None:
        return NotImplemented
    x, y, dtype = found
    if math.prod(x._shape) != math.prod(y._shape):
        refuse(numpy.vdot, x, y)
        return NotImplemented
    x, y = (seen(dense(v), lambda g: g.reshape(-1)) for v in (x, y))
    with numpy.errstate(all="ignore"):
        return _given(contracted(_conjugate(x), y, dtype), None)


def on_inner(a: Any, b: Any, /) -> Any:
    """`numpy.inner`: the last axes of both."""
    found = _contractible(a, b)
    if found is None:
        return NotImplemented
    x, y, dtype = found
    if x._shape[-1] != y._shape[-1]:
        refuse(numpy.inner, x, y)
        return NotImplemented
    if len(x._shape) == len(y._shape) == 1:
        return _given(contracted(x, y, dtype, name="dot"), None)
    last = x._shape[-1]
    made = multiplied(_flat(x, last), seen(_flat(y, last) if len(y._shape) > 1 else y, _turned), dtype, "dot")
    return _reshaped(made, x._shape[:-1] + y._shape[:-1])


def _turned(g: Any) -> Any:
    return g.T if g.ndim == 2 else g[:, None]


def on_einsum(*operands: Any, **options: Any) -> Any:
    """`numpy.einsum`."""
    from ._library_einsum import einsum

    return einsum(*operands, **options)


__all__ = ["by_rows", "contracted", "multiplied", "on_dot", "on_inner", "on_vdot", "product"]
