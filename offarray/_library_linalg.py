"""Linear algebra on a device: what NumPy's Python code asks of its compiled routines, by cuSOLVER and cuBLAS.

in: the loops of `numpy.linalg._umath_linalg`, on stacks of matrices, in float64 or complex128 as NumPy computes; out:
runtime/cudalib_solver.py and cudalib_blas.py.  Matrices are copied to columns, as NumPy copies them for LAPACK.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy.linalg import LinAlgError

from . import _lazy, _record
from ._array import ndarray
from ._library_device import (
    Shape,
    address,
    array,
    as_type,
    by_rows,
    cast,
    choice,
    columns,
    dense,
    new,
    np,
    on,
    op,
    owned,
    pending,
    place,
    seen,
    spread,
    step,
    store,
    value_of,
)
from ._views import dense_copy
from .fusion.node import IOTA, READ, Node
from .fusion.view import View
from .runtime import cudalib_blas as blas
from .runtime import cudalib_solver as solver
from .runtime.cudalib import Step

SMALL = 256  # rows up to which a stack of several matrices goes to the batched routines
STACK = 16  # a longer stack of small matrices goes to the host where no batched routine exists

# Rows of a square matrix up to which LAPACK on the host is quicker than these factorisations, which wait for themselves
# at every step: measured with an H200 beside a Xeon, the way there and back included.
HOST = {"svd values": 230, "svd": 160, "eigh values": 224, "eigh": 144, "det": 300, "cholesky": 224}

_SINGULAR = "Singular matrix"


def _operand(value: Any, signature: Any, which: int = 0) -> ndarray | None:
    """An operand in the data type that NumPy asks for, without empty axes; None leaves it to NumPy."""
    x = array(value)
    if x is None or not isinstance(signature, str) or 0 in x._shape:
        return None
    return cast(x, signature[which])


def _members(lead: Shape) -> int:
    return math.prod(lead)


def _by_host(name: str, x: ndarray, count: int = 1) -> bool:
    """Whether the host is quicker with `count` matrices, one after the other."""
    return count * x._shape[-2] * x._shape[-1] <= HOST[name] ** 2


def _check(found: Step, info: int, count: int, message: str) -> None:
    """Raise if the library told of a failure of some member."""
    if found.fetch(info, numpy.int32, count).any():
        raise LinAlgError(message)


def _each(count: int, *steps: tuple[int, int]) -> list[tuple[int, ...]]:
    """Addresses of the members: (first, bytes between) of each array."""
    return [tuple(first + k * size for first, size in steps) for k in range(count)]


# ---------------------------------------------------------------------- LU
def _factor(found: Step, a: ndarray, pivots: int) -> tuple[int, bool]:
    """LU factors of a stack stored by columns, in place; addresses of info, and whether pivots have 32 bits."""
    char, n, count = a._dtype.char, a._shape[-1], _members(a._shape[:-2])
    first, size = place(found, a), n * n * a._dtype.itemsize
    if count > 1 and n <= SMALL:
        return blas.factor(found, char, n, blas.pointers(found, first, size, count), pivots, count), True
    infos = found.scratch(4 * count)
    for k, (one, own) in enumerate(_each(count, (first, size), (pivots, 8 * n))):
        found.device.move(infos + 4 * k, solver.getrf(found, char, n, one, own), 4)
    return infos, False


def _solved(a: ndarray, b: ndarray) -> ndarray:
    """Solve for right-hand sides stored by columns, both copies of ours; gives `b`."""
    char, n, right, count = a._dtype.char, a._shape[-1], b._shape[-2], _members(a._shape[:-2])
    with step(a, b) as found:
        pivots = found.scratch(8 * n * count)
        info, batched = _factor(found, a, pivots)
        _check(found, info, count, _SINGULAR)
        size, wide = n * n * a._dtype.itemsize, n * right * a._dtype.itemsize
        pa, pb = place(found, a), place(found, b)
        if batched:
            rows = [blas.pointers(found, p, s, count) for p, s in ((pa, size), (pb, wide))]
            blas.solve(found, char, n, right, rows[0], pivots, rows[1], count)
        else:
            for one, own, side in _each(count, (pa, size), (pivots, 8 * n), (pb, wide)):
                solver.getrs(found, char, n, right, one, own, side)
    return b


def of_solve(a: Any, b: Any, signature: Any = None, **options: Any) -> Any:
    """a x = b for matrices b."""
    x, y = _operand(a, signature), _operand(b, signature)
    if options or x is None or y is None or x._shape[-1] != y._shape[-2]:
        return NotImplemented
    try:
        lead = numpy.broadcast_shapes(x._shape[:-2], y._shape[:-2])
    except ValueError:
        return NotImplemented
    x, y = spread(x, lead + x._shape[-2:]), spread(y, lead + y._shape[-2:])
    return by_rows(_solved(columns(x), columns(y)))


def of_solve1(a: Any, b: Any, signature: Any = None, **options: Any) -> Any:
    """a x = b for a vector b."""
    y = array(b)
    if y is None or not y._shape:
        return NotImplemented
    made = of_solve(a, seen(y, lambda g: g[..., None]), signature, **options)
    return made if made is NotImplemented else owned(seen(made, lambda g: g[..., 0]))


def of_inv(a: Any, signature: Any = None, **options: Any) -> Any:
    """Inverses."""
    x = _operand(a, signature)
    if options or x is None:
        return NotImplemented
    unit = pending(as_type(_compared("equal", x._shape), x._dtype))
    return by_rows(_solved(columns(x), unit))


def _compared(how: str, shape: Shape) -> Node:
    """How the row of each element of matrices compares with its column."""
    sides = []
    for axis, strides in ((-2, (8, 0)), (-1, (0, 8))):
        line = Node(IOTA, "iota", numpy.dtype("i8"), (shape[axis],), (), 0)
        steps = (0,) * (len(shape) - 2) + strides
        sides.append(Node(READ, "", line.dtype, shape, (line,), View(0, shape, steps)))
    return op(how, *sides, dtype=numpy.dtype(bool))


def _signed_log(x: ndarray) -> tuple[Any, Any]:
    """Sign and logarithm of the magnitude of each determinant; nothing waits for the device."""
    lead, n = x._shape[:-2], x._shape[-1]
    a = columns(x)
    count = _members(lead)
    with step(a) as found:
        buffer, wide = new("i8", (*lead, n))
        pivots = found.write(buffer)
        _, narrow = _factor(found, a, pivots)
    places: Any = wide
    if narrow:  # the batched routine writes pivots of 32 bits, one matrix after the other
        half = on(buffer, numpy.dtype("i4"), (2 * count * n,))
        places = seen(half, lambda g: g[: count * n].reshape(*lead, n))
    diagonal: Any = seen(a, lambda g: g.diagonal(axis1=-2, axis2=-1))
    with numpy.errstate(all="ignore"):
        odd = (places != _lazy.fresh(numpy.arange(1, n + 1, dtype=places._dtype))).sum(-1) % 2
        size = abs(diagonal)
        if x._dtype.kind == "c":
            unit: Any = np.where(size == 0, 0, diagonal / size)
        else:
            unit = np.sign(diagonal)
        sign = unit.prod(-1) * (1 - 2 * odd)
        return sign.astype(x._dtype) if sign.dtype != x._dtype else sign, np.log(size).sum(-1)


def of_slogdet(a: Any, signature: Any = None, **options: Any) -> Any:
    """Sign and logarithm of determinants."""
    x = _operand(a, signature)
    if options or x is None or _by_host("det", x, _members(x._shape[:-2])):
        return NotImplemented
    return _signed_log(x)


def of_det(a: Any, signature: Any = None, **options: Any) -> Any:
    """Determinants."""
    x = _operand(a, signature)
    if options or x is None or _by_host("det", x, _members(x._shape[:-2])):
        return NotImplemented
    sign, log = _signed_log(x)
    with numpy.errstate(all="ignore"):
        return sign * np.exp(log)


# ---------------------------------------------------------------------- Cholesky
def of_cholesky_lo(a: Any, signature: Any = None, **options: Any) -> Any:
    """Lower factors."""
    return _cholesky(a, signature, options, solver.LOWER)


def of_cholesky_up(a: Any, signature: Any = None, **options: Any) -> Any:
    """Upper factors."""
    return _cholesky(a, signature, options, solver.UPPER)


def _cholesky(a: Any, signature: Any, options: Any, uplo: int) -> Any:
    x = _operand(a, signature)
    if options or x is None or _by_host("cholesky", x, _members(x._shape[:-2])):
        return NotImplemented
    made = columns(x)
    char, n, count = made._dtype.char, x._shape[-1], _members(x._shape[:-2])
    size = n * n * made._dtype.itemsize
    with step(made) as found:
        first = place(found, made)
        if count > 1 and n <= SMALL:
            matrices = blas.pointers(found, first, size, count)
            infos = solver.potrf_batched(found, char, uplo, n, matrices, count)
        else:
            infos = found.scratch(4 * count)
            for k, (one,) in enumerate(_each(count, (first, size))):
                found.device.move(infos + 4 * k, solver.potrf(found, char, uplo, n, one), 4)
        _check(found, infos, count, "Matrix is not positive definite")
    keep = _compared("greater_equal" if uplo == solver.LOWER else "less_equal", x._shape)
    factor = seen(made, lambda g: g.swapaxes(-1, -2))
    return pending(choice(keep, value_of(factor), _record.constant(0, x._dtype)), [factor])


# ---------------------------------------------------------------------- QR
def of_qr_r_raw(a: Any, signature: Any = None, **options: Any) -> Any:
    """Householder form, written into `a`; gives the factors tau."""
    x = _operand(a, signature)
    if options or x is None or x is not a or _members(x._shape[:-2]) > STACK:
        return NotImplemented
    lead, (m, n) = x._shape[:-2], x._shape[-2:]
    made = columns(x)
    k, size = min(m, n), made._dtype.itemsize
    with step(made) as found:
        buffer, tau = new(made._dtype, (*lead, k))
        first, out = place(found, made), found.write(buffer)
        for one, own in _each(_members(lead), (first, m * n * size), (out, k * size)):
            solver.geqrf(found, made._dtype.char, m, n, one, own)
    store(a, seen(made, lambda g: g.swapaxes(-1, -2)))
    return tau


def of_qr_reduced(a: Any, tau: Any, signature: Any = None, **options: Any) -> Any:
    """The first columns of Q."""
    return _q(a, tau, signature, options, False)


def of_qr_complete(a: Any, tau: Any, signature: Any = None, **options: Any) -> Any:
    """All columns of Q."""
    return _q(a, tau, signature, options, True)


def _q(a: Any, tau: Any, signature: Any, options: Any, complete: bool) -> Any:
    x, t = _operand(a, signature), _operand(tau, signature)
    if options or x is None or t is None or _members(x._shape[:-2]) > STACK:
        return NotImplemented
    lead, (m, n) = x._shape[:-2], x._shape[-2:]
    k, size = min(m, n), x._dtype.itemsize
    wide = m if complete else k
    t = dense(t)
    reflectors = seen(x, lambda g: g.swapaxes(-1, -2)[..., :k, :])
    _, made = new(x._dtype, (*lead, wide, m))
    _record.assign(seen(made, lambda g: g[..., :k, :]), reflectors)
    if wide > k:
        _record.assign(seen(made, lambda g: g[..., k:, :]), _record.constant(0, x._dtype))
    with step(made, t) as found:
        first, own = place(found, made), address(found, t)
        for one, factors in _each(_members(lead), (first, m * wide * size), (own, k * size)):
            solver.orgqr(found, made._dtype.char, m, wide, k, one, factors)
    return by_rows(made)


# ---------------------------------------------------------------------- singular values
def _finite(x: ndarray) -> bool:
    """Whether all elements are finite: what becomes of others is NumPy's to say."""
    return bool(np.isfinite(x).all())


def of_svd(a: Any, signature: Any = None, **options: Any) -> Any:
    """Singular values alone."""
    return _svd(a, signature, options, "N")


def of_svd_f(a: Any, signature: Any = None, **options: Any) -> Any:
    """Singular values and all vectors."""
    return _svd(a, signature, options, "A")


def of_svd_s(a: Any, signature: Any = None, **options: Any) -> Any:
    """Singular values and the vectors that belong to them."""
    return _svd(a, signature, options, "S")


def _svd(a: Any, signature: Any, options: Any, job: str) -> Any:
    x = _operand(a, signature)
    if options or x is None or (_members(x._shape[:-2]) > STACK and max(x._shape[-2:]) < SMALL):
        return NotImplemented
    if _by_host("svd values" if job == "N" else "svd", x) or not _finite(x):
        return NotImplemented
    lead, (rows, width) = x._shape[:-2], x._shape[-2:]
    flat = rows < width  # the library wants the longer side down: A^T = U' S V', A = V'^T S U'^T
    size = max(rows, width), min(rows, width)
    for polar in (True, False):
        work = dense_copy(x) if flat else columns(x)
        how = "S" if polar and job == "N" else job  # without vectors the polar form gives wrong values
        found = _singular(work, how, lead, size, polar)
        if found is not None:
            break
    assert found is not None
    s, u, v = found
    if job == "N":
        return s
    # what is stored by columns is its transpose by rows: U' is U'^T there, and V of the polar form V^T
    right = (_conjugate(v) if polar else by_rows(v)) if not flat else None
    left = (_conjugate(by_rows(v)) if polar else v) if flat else by_rows(u)
    return left, s, (u if flat else right)


def _conjugate(x: ndarray) -> Any:
    return np.conjugate(x) if x._dtype.kind == "c" else x


def _singular(
    work: ndarray, job: str, lead: Shape, size: tuple[int, int], polar: bool
) -> tuple[ndarray, ndarray, ndarray] | None:
    """Singular values and vectors by columns (V, or its adjoint); None where the polar form would be inexact."""
    (m, n), dtype = size, work._dtype
    real = numpy.dtype(dtype.char.lower())
    tall, vectors = (m if job == "A" else n), job != "N"
    count, width = _members(lead), dtype.itemsize
    with step(work) as found:
        values, s = new(real, (*lead, n))
        left, u = new(dtype, (*lead, tall, m) if vectors else (*lead, 1))
        right, v = new(dtype, (*lead, n, n) if vectors else (*lead, 1))
        first, ps, pu, pv = place(found, work), found.write(values), found.write(left), found.write(right)
        infos = found.scratch(4 * count)
        steps = (first, m * n * width), (ps, n * real.itemsize), (pu, m * tall * width), (pv, n * n * width)
        for k, (one, sigma, pu_, pv_) in enumerate(_each(count, *steps)):
            at = (one, sigma, pu_, pv_) if vectors else (one, sigma, pu, pv)
            if polar:
                info, disturbed = solver.gesvdp(found, dtype.char, job, m, n, *at)
                if disturbed:
                    return None
            else:
                info = solver.gesvd(found, dtype.char, job, m, n, *at)
            found.device.move(infos + 4 * k, info, 4)
        _check(found, infos, count, "SVD did not converge")
    return s, u, v


# ---------------------------------------------------------------------- eigenvalues
def of_eigh_lo(a: Any, signature: Any = None, **options: Any) -> Any:
    """Eigenvalues and vectors, from the lower triangle."""
    return _eigh(a, signature, options, solver.LOWER, True)


def of_eigh_up(a: Any, signature: Any = None, **options: Any) -> Any:
    """Eigenvalues and vectors, from the upper triangle."""
    return _eigh(a, signature, options, solver.UPPER, True)


def of_eigvalsh_lo(a: Any, signature: Any = None, **options: Any) -> Any:
    """Eigenvalues, from the lower triangle."""
    return _eigh(a, signature, options, solver.LOWER, False)


def of_eigvalsh_up(a: Any, signature: Any = None, **options: Any) -> Any:
    """Eigenvalues, from the upper triangle."""
    return _eigh(a, signature, options, solver.UPPER, False)


def _eigh(a: Any, signature: Any, options: Any, uplo: int, vectors: bool) -> Any:
    x = _operand(a, signature)
    if options or x is None:
        return NotImplemented
    if _by_host("eigh" if vectors else "eigh values", x, _members(x._shape[:-2])) or not _finite(x):
        return NotImplemented
    made = columns(x)
    lead, n, dtype = x._shape[:-2], x._shape[-1], x._dtype
    real = numpy.dtype(dtype.char.lower())
    count, jobs = _members(lead), int(vectors)
    with step(made) as found:
        buffer, w = new(real, (*lead, n))
        first, out = place(found, made), found.write(buffer)
        if count > 1 and n <= SMALL:
            infos = solver.syev_batched(found, dtype.char, jobs, uplo, n, first, out, count)
        else:
            infos = found.scratch(4 * count)
            steps = (first, n * n * dtype.itemsize), (out, n * real.itemsize)
            for k, (one, own) in enumerate(_each(count, *steps)):
                found.device.move(infos + 4 * k, solver.syevd(found, dtype.char, jobs, uplo, n, one, own), 4)
        _check(found, infos, count, "Eigenvalues did not converge")
    return (w, by_rows(made)) if vectors else w


# ---------------------------------------------------------------------- least squares
def of_lstsq(a: Any, b: Any, rcond: Any, signature: Any = None, **options: Any) -> Any:
    """Least squares by singular values, as LAPACK's gelsd: solution, residuals, rank, singular values."""
    x, y = _operand(a, signature), _operand(b, signature)
    if options or x is None or y is None or len(x._shape) != 2 or len(y._shape) != 2:
        return NotImplemented
    kind = signature[0]
    parts = _svd(x, f"{kind}->{kind}{kind.lower()}{kind}", {}, "S")
    if parts is NotImplemented or not _finite(y):
        return NotImplemented
    u, s, vh = parts
    limit = float(rcond)
    values = numpy.asarray(s)
    rank = int((values > (limit if limit >= 0 else numpy.finfo(values.dtype).eps) * values[0]).sum())
    scale: Any = _lazy.fresh(numpy.where(numpy.arange(len(values)) < rank, 1 / numpy.where(values, values, 1), 0))
    projected = np.matmul(u.conj().T, y)
    solution = np.matmul(vh.conj().T, projected * scale[:, None])
    (m, n), sides = x._shape, y._shape[1]
    if m > n and rank == n:
        rest = abs(y - np.matmul(x, solution))
        residuals = (rest * rest).sum(0)
    else:
        residuals = _lazy.fresh(numpy.zeros(sides, values.dtype))
    return solution, residuals, numpy.int32(rank), s
