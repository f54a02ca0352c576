"""Calls that a device has library steps for, each as a function of the namespace and of a door for arrays.

Run with NumPy, and with offarray on a device of host memory or on a real one: the results have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy

Case = Callable[[Any, Callable[[Any], Any]], Any]

rng = numpy.random.default_rng(7)
A = rng.standard_normal((40, 30))
B = rng.standard_normal((30, 20))
V = rng.standard_normal(30)
C = A + 1j * rng.standard_normal((40, 30))
STACK = rng.standard_normal((5, 40, 30))
SQUARE = rng.standard_normal((6, 6))
SQUARES = rng.standard_normal((4, 6, 6))
POSITIVE = SQUARE @ SQUARE.T + 6 * numpy.eye(6)
INTEGERS = rng.integers(-9, 9, (7, 8))
MASK = rng.random((6, 50)) > 0.5


def of_type(dtype: str) -> Any:
    """Numbers with ties, zeros of both signs, infinities and all kinds of NaN."""
    x = (rng.standard_normal((6, 50)) * 20).astype(dtype)
    if dtype in "efdFD":
        x[0, 3], x[1, 2:5], x[2, :3] = numpy.nan, [0, -0.0, 0], [numpy.inf, -numpy.inf, numpy.nan]
    if dtype in "efd":
        x[3, :4] = -numpy.float64("nan")
    if dtype in "FD":
        nan = numpy.nan
        x[3, :4] = [complex(1, nan), complex(nan, 1), complex(0, nan), complex(nan, nan)]
    return x


def out_of_matmul(np: Any, d: Any) -> Any:
    r = np.empty((40, 20))
    assert np.matmul(d(A), d(B), out=r) is r
    return r


def sorted_in_place(dtype: str) -> Case:
    def case(np: Any, d: Any) -> Any:
        y = d(of[dtype].copy())
        y.sort()
        y.sort(axis=0)
        y[:, ::2].sort(axis=1)
        return y

    return case


def rebuilt(x: Any, full: bool) -> Case:
    """Singular values, and what the vectors make of them: signs are free."""

    def case(np: Any, d: Any) -> Any:
        u, s, vh = np.linalg.svd(d(x), full)
        n = s.shape[-1]
        unit = u.conj().swapaxes(-1, -2) @ u
        return u.shape, s, vh.shape, (u[..., :n] * s[..., None, :]) @ vh[..., :n, :], unit

    return case


def own_vectors(x: Any, uplo: str) -> Case:
    def case(np: Any, d: Any) -> Any:
        w, v = np.linalg.eigh(d(x), uplo)
        return w, (v * w[..., None, :]) @ v.conj().swapaxes(-1, -2)

    return case


def factors(x: Any, mode: str) -> Case:
    def case(np: Any, d: Any) -> Any:
        if mode == "r":
            return abs(np.linalg.qr(d(x), mode))
        q, r = np.linalg.qr(d(x), mode)
        return (abs(q), abs(r)) if mode == "raw" else (q @ r, q.conj().swapaxes(-1, -2) @ q, abs(r))

    return case


PRODUCTS: dict[str, Case] = {
    "matrices": lambda np, d: d(A) @ d(B),
    "transposed": lambda np, d: d(B).T @ d(A).T,
    "mixed": lambda np, d: d(A).T @ d(A),
    "matrix and vector": lambda np, d: d(A) @ d(V),
    "vector and matrix": lambda np, d: d(V) @ d(B),
    "transposed and vector": lambda np, d: d(A).T @ d(A)[:, 3],
    "vectors": lambda np, d: d(V) @ d(V),
    "stack and matrix": lambda np, d: d(STACK) @ d(B),
    "stack transposed": lambda np, d: d(STACK).swapaxes(1, 2) @ d(A),
    "stacks": lambda np, d: d(STACK) @ d(STACK).swapaxes(1, 2),
    "stack and vector": lambda np, d: d(STACK) @ d(V),
    "stacks that broadcast": lambda np, d: d(SQUARES)[:, None] @ d(SQUARES)[None, :2],
    "complex": lambda np, d: d(C) @ d(B),
    "complex and vector": lambda np, d: d(C) @ d(V),
    "steps": lambda np, d: d(A)[::2, ::3] @ d(B)[::3],
    "backwards": lambda np, d: d(A)[::-1, ::-1] @ d(B)[::-1],
    "integers": lambda np, d: d(INTEGERS) @ d(INTEGERS).T,
    "bytes": lambda np, d: d(INTEGERS.astype("i1")) @ d(INTEGERS.astype("i1")).T,
    "booleans": lambda np, d: (d(INTEGERS) > 0) @ (d(INTEGERS) > 0).T,
    "float32": lambda np, d: d(A.astype("f4")) @ d(B.astype("f4")),
    "complex64": lambda np, d: d(C.astype("c8")) @ d(B.astype("c8")),
    "float16": lambda np, d: d(A.astype("f2")) @ d(B.astype("f2")),
    "float16 vectors": lambda np, d: d(V.astype("f2")) @ d(V.astype("f2")),
    "two types": lambda np, d: d(A.astype("f4")) @ d(INTEGERS.astype("i2").repeat(5, 0)[:30]),
    "nothing to sum": lambda np, d: d(A)[:, :0] @ d(B)[:0],
    "dot of three axes": lambda np, d: np.dot(d(STACK), d(B)),
    "dot with three axes": lambda np, d: np.dot(d(A), d(STACK).swapaxes(1, 2)),
    "dot method": lambda np, d: d(A).dot(d(B)),
    "inner": lambda np, d: np.inner(d(STACK), d(A)),
    "vdot": lambda np, d: np.vdot(d(C), d(C)),
    "vecdot": lambda np, d: np.vecdot(d(C), d(C)),
    "matvec": lambda np, d: np.matvec(d(C), d(V)),
    "vecmat": lambda np, d: np.vecmat(d(V + 1j), d(B)),
    "tensordot": lambda np, d: np.tensordot(d(STACK), d(A), ([1, 2], [0, 1])),
    "between kernels": lambda np, d: (d(A) * 2 + 1) @ (d(B) - 1) * 3,
    "out": out_of_matmul,
    "powers": lambda np, d: np.linalg.matrix_power(d(SQUARE), 5),
    "chain": lambda np, d: np.linalg.multi_dot([d(A), d(B), d(B.T)]),
}

_EINSUMS: dict[str, tuple[Any, ...]] = {
    "ij,jk": (A, B), "ij,jk->ki": (A, B), "ij->": (A,), "ii": (SQUARE,), "ii->i": (SQUARE,), "ji": (A,),
    "bij,jk->bik": (STACK, B), "bij,bij->b": (STACK, STACK), "bij,bkj->bik": (STACK, STACK), "i,j->ij": (V, V),
    "ij,ij": (A, A), "ij,jk,kl->il": (A, B, B.T), "...ij,jk": (STACK, B), "ij,kl->": (A, B),
    "ij,jk ": (INTEGERS.T, INTEGERS),
    "bij,cij->bc": (STACK, STACK), "iij->j": (SQUARES.reshape(4, 6, 6).transpose(1, 2, 0),), "ij,i->": (A, A[:, 0]),
    "aij,ajk,k->ai": (STACK, STACK.swapaxes(1, 2).copy(), A[:, 0]), "ij,ij->ij": (A, A[:1]),
}  # fmt: skip


def einsums() -> Iterator[tuple[str, Case]]:
    for text, operands in _EINSUMS.items():
        for how in (False, True):
            yield (
                f"einsum {text} {how}",
                lambda np, d, text=text, operands=operands, how=how: np.einsum(text, *map(d, operands), optimize=how),
            )
    yield "einsum by lists", lambda np, d: np.einsum(d(A), [0, 1], d(B), [1, 2], [0, 2])


def single(x: Any) -> Any:
    return x.astype("c8" if x.dtype.kind == "c" else "f4")


def transforms() -> Iterator[tuple[str, Case]]:
    for name in ("fft", "ifft", "rfft", "hfft", "ihfft", "irfft"):
        x = C if name == "irfft" else A
        for label, given, options in (
            ("", x, {}), ("first axis", x, {"axis": 0, "n": 50, "norm": "ortho"}), ("odd", x, {"n": 21}),
            ("middle", STACK, {"axis": 1, "n": 33, "norm": "forward"}), ("single", single(x), {}),
        ):  # fmt: skip
            yield (
                f"{name} {label}",
                lambda np, d, name=name, given=given, options=options: getattr(np.fft, name)(d(given), **options),
            )
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
        yield name, lambda np, d, name=name: getattr(np.fft, name)(d(STACK))
    for norm in ("ortho", "forward", "backward"):
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn"):
            yield f"{name} {norm}", lambda np, d, name=name, norm=norm: getattr(np.fft, name)(d(STACK), norm=norm)
    yield "fftn of some axes", lambda np, d: np.fft.fftn(d(STACK), (4, 50), (0, 2))
    yield "fftn of the first axes", lambda np, d: np.fft.fftn(d(C[:, :5]), axes=(0,))
    yield "rfftn single", lambda np, d: np.fft.rfftn(d(STACK.astype("f4")))
    yield "fft of integers", lambda np, d: np.fft.fft(d(INTEGERS))


LINALG: dict[str, Case] = {
    "solve": lambda np, d: np.linalg.solve(d(SQUARE), d(A[:6, :3])),
    "solve a vector": lambda np, d: np.linalg.solve(d(SQUARE), d(V[:6])),
    "solve stacks": lambda np, d: np.linalg.solve(d(SQUARES), d(A[:6, :3])),
    "solve float32": lambda np, d: np.linalg.solve(d(SQUARES.astype("f4")), d(A[:6, :3].astype("f4"))),
    "inv": lambda np, d: np.linalg.inv(d(SQUARE)),
    "inv of complex stacks": lambda np, d: np.linalg.inv(d(SQUARES + 1j)),
    "det": lambda np, d: np.linalg.det(d(SQUARE)),
    "det of stacks": lambda np, d: np.linalg.det(d(SQUARES)),
    "det of complex": lambda np, d: np.linalg.det(d(SQUARES + 1j)),
    "slogdet": lambda np, d: tuple(np.linalg.slogdet(d(SQUARES))),
    "slogdet of one": lambda np, d: tuple(np.linalg.slogdet(d(SQUARE))),
    "slogdet of singular": lambda np, d: tuple(np.linalg.slogdet(d(SQUARES * 0))),
    "cholesky": lambda np, d: np.linalg.cholesky(d(POSITIVE)),
    "cholesky upper": lambda np, d: np.linalg.cholesky(d(POSITIVE + SQUARES * 0), upper=True),
    "svdvals": lambda np, d: np.linalg.svdvals(d(A)),
    "eigvalsh": lambda np, d: np.linalg.eigvalsh(d(POSITIVE)),
    "lstsq": lambda np, d: tuple(np.linalg.lstsq(d(A), d(A[:, :3].copy() + 1))),
    "lstsq wide": lambda np, d: tuple(np.linalg.lstsq(d(A.T), d(V))),
    "lstsq complex": lambda np, d: tuple(np.linalg.lstsq(d(C), d(A[:, 0]))),
    "pinv": lambda np, d: np.linalg.pinv(d(A)),
    "matrix_rank": lambda np, d: np.linalg.matrix_rank(d(A)),
    "matrix_rank of singular": lambda np, d: np.linalg.matrix_rank(d(A @ numpy.diag(numpy.arange(30) > 9))),
    "pinv of singular": lambda np, d: np.linalg.pinv(d(A @ numpy.diag(numpy.arange(30) > 9))),
    "svd of singular": rebuilt(A @ numpy.diag(numpy.arange(30) > 9), False),
    "svd of singular wide": rebuilt((C @ numpy.diag(numpy.arange(30) > 9)).T, False),
    "cond": lambda np, d: np.linalg.cond(d(SQUARES)),
    "cond 1": lambda np, d: np.linalg.cond(d(SQUARES), 1),
    "norm 2": lambda np, d: np.linalg.norm(d(A), 2),
    "norm nuc": lambda np, d: np.linalg.norm(d(A), "nuc"),
    "tensorinv": lambda np, d: np.linalg.tensorinv(d(SQUARE.reshape(6, 2, 3)), 1),
    "tensorsolve": lambda np, d: np.linalg.tensorsolve(d(SQUARE.reshape(2, 3, 6)), d(A[:2, :3])),
    "eigh": own_vectors(POSITIVE, "L"),
    "eigh of stacks": own_vectors(POSITIVE + SQUARES, "U"),
    "eigh complex": own_vectors(POSITIVE + 1j * (SQUARE - SQUARE.T), "L"),
    **{f"qr {m} {x.shape} {x.dtype}": factors(x, m) for m in ("reduced", "complete", "r", "raw") for x in (A, A.T, C)},
    "qr of stacks": factors(STACK, "reduced"),
    "qr of many": factors(STACK.reshape(30, 20, 10), "reduced"),
    "qr of many complete": factors(STACK.reshape(30, 20, 10), "complete"),
    "qr of many r": factors(STACK.reshape(30, 20, 10), "r"),
    "svd of many": rebuilt(STACK.reshape(30, 20, 10), True),
    **{f"svd {x.shape} {x.dtype} {f}": rebuilt(x, f) for x in (A, A.T, C, C.T, STACK) for f in (False, True)},
}

TYPES = "?bBhHiIqQefdFD"
of = {dtype: of_type(dtype) for dtype in TYPES}


def orders() -> Iterator[tuple[str, Case]]:
    for t in TYPES:
        for axis in (-1, 0, None):
            yield f"sort {t} {axis}", lambda np, d, t=t, axis=axis: np.sort(d(of[t]), axis=axis)
            yield f"sort stable {t} {axis}", lambda np, d, t=t, axis=axis: np.sort(d(of[t]), axis, "stable")
            yield f"argsort {t} {axis}", lambda np, d, t=t, axis=axis: np.argsort(d(of[t]), axis, "stable")
        yield f"sort in place {t}", sorted_in_place(t)
        yield f"nonzero {t}", lambda np, d, t=t: np.nonzero(d(of[t]))
        yield f"mask {t}", lambda np, d, t=t: d(of[t])[d(MASK)]
        for k in ({}, {"return_index": True}, {"return_inverse": True, "return_counts": True}, {"equal_nan": False}):
            yield f"unique {t} {k}", lambda np, d, t=t, k=k: np.unique(d(of[t]), **k)
        if t in "FD":
            continue
        for side in ("left", "right"):
            yield (
                f"searchsorted {t} {side}",
                lambda np, d, t=t, side=side: np.searchsorted(d(numpy.sort(of[t][0])), d(of[t]), side),
            )


SELECTIONS: dict[str, Case] = {
    "mask of rows": lambda np, d: d(STACK)[d(numpy.arange(5) % 2 == 0)],
    "mask of nothing": lambda np, d: d(STACK)[d(numpy.arange(5) > 7)],
    "compress": lambda np, d: np.compress(numpy.arange(30) % 3 == 0, d(STACK), axis=2),
    "extract": lambda np, d: np.extract(d(A) > 0, d(A)),
    "flatnonzero": lambda np, d: np.flatnonzero(d(A) > 0),
    "argwhere": lambda np, d: np.argwhere(d(A) > 0),
    "bincount": lambda np, d: np.bincount(d(abs(INTEGERS).ravel())),
    "bincount of more": lambda np, d: np.bincount(d(abs(INTEGERS).ravel()), minlength=20),
    "histogram": lambda np, d: np.histogram(d(A)),
    "histogram in a range": lambda np, d: np.histogram(d(A), 20, (-1, 1)),
    "histogram of edges": lambda np, d: np.histogram(d(A), [-1, 0, 0.5, 2]),
    "histogram as density": lambda np, d: np.histogram(d(A), 20, density=True),
    "histogram of integers": lambda np, d: np.histogram(d(INTEGERS), 8),
    "bincount with weights": lambda np, d: np.bincount(d(abs(INTEGERS).ravel()), d(A.ravel()[:56].copy())),
    "histogram with weights": lambda np, d: np.histogram(d(A), 9, weights=d(C.imag.copy())),
    "histogram with whole weights": lambda np, d: np.histogram(d(INTEGERS), 9, weights=d(INTEGERS * 2)),
    "histogram with density of weights": lambda np, d: np.histogram(d(A), 9, (-1, 1), True, d(abs(A))),
    "histogram of edges with weights": lambda np, d: np.histogram(d(A), [-1, 0, 0.5, 2], weights=d(A)),
    "digitize": lambda np, d: np.digitize(d(A), numpy.linspace(-1, 1, 9)),
    "lexsort": lambda np, d: np.lexsort((d(A[:, 0]), d(numpy.round(A[:, 1])))),
    "partition": lambda np, d: np.partition(d(A), 5)[:, 5],
    "argpartition": lambda np, d: np.take_along_axis(d(A), np.argpartition(d(A), 5), -1)[:, 5],
    "median": lambda np, d: np.median(d(A), axis=1),
    "median of all": lambda np, d: np.median(d(A)),
    "percentile": lambda np, d: np.percentile(d(A), [10, 50, 90]),
    "median of nan": lambda np, d: np.median(d(of["d"]), axis=1),
    "quantile": lambda np, d: np.quantile(d(A), [0.25, 0.5], axis=0, method="nearest"),
    "nanmedian": lambda np, d: np.nanmedian(d(of["d"])),
    "nanmedian of rows": lambda np, d: np.nanmedian(d(of["f"]), axis=1),
    "nanpercentile": lambda np, d: np.nanpercentile(d(of["d"]), 30),
    "percentile of integers": lambda np, d: np.percentile(d(INTEGERS), 40, axis=1),
    "unique_counts": lambda np, d: tuple(np.unique_counts(d(INTEGERS))),
    "setdiff1d": lambda np, d: np.setdiff1d(d(INTEGERS), d(INTEGERS[:2])),
    "union1d": lambda np, d: np.union1d(d(INTEGERS), d(INTEGERS[:2] + 5)),
    "intersect1d": lambda np, d: np.intersect1d(d(INTEGERS), d(INTEGERS[:2] + 5)),
    "isin": lambda np, d: np.isin(d(INTEGERS), d(INTEGERS[:2] + 5)),
    "searchsorted of a number": lambda np, d: np.searchsorted(d(numpy.sort(V)), 0.1),
}

# Calls that NumPy refuses.
REFUSED: dict[str, Case] = {
    "solve singular": lambda np, d: np.linalg.solve(d(SQUARE * 0), d(V[:6])),
    "solve singular stacks": lambda np, d: np.linalg.solve(d(SQUARES * 0), d(A[:6, :2])),
    "inv singular": lambda np, d: np.linalg.inv(d(SQUARES * 0)),
    "cholesky": lambda np, d: np.linalg.cholesky(d(-POSITIVE)),
    "svd of nan": lambda np, d: np.linalg.svd(d(SQUARE * numpy.nan)),
    "eigh of nan": lambda np, d: np.linalg.eigh(d(SQUARE * numpy.nan)),
    "matmul of shapes": lambda np, d: d(A) @ d(A),
    "matmul of stacks": lambda np, d: d(SQUARES) @ d(SQUARES[:3]),
    "matmul of a number": lambda np, d: np.matmul(d(A), 3.0),
    "dot of shapes": lambda np, d: np.dot(d(A), d(A)),
    "inner of shapes": lambda np, d: np.inner(d(A), d(B)),
    "vdot of sizes": lambda np, d: np.vdot(d(A), d(B)),
    "einsum of shapes": lambda np, d: np.einsum("ij,jk", d(A), d(A)),
    "einsum of letters": lambda np, d: np.einsum("ij,jk->im", d(A), d(B)),
    "solve not square": lambda np, d: np.linalg.solve(d(A), d(V)),
    "inv of a vector": lambda np, d: np.linalg.inv(d(V)),
    "fft of nothing": lambda np, d: np.fft.fft(d(A), n=0),
    "fft norm": lambda np, d: np.fft.fft(d(A), norm="x"),
    "fftn axes": lambda np, d: np.fft.fftn(d(A), axes=(0, 2)),
    "fft2 of a vector": lambda np, d: np.fft.fft2(d(V)),
    "rfft2 of complex": lambda np, d: np.fft.rfft2(d(C)),
    "fft2 norm": lambda np, d: np.fft.fft2(d(C), norm="x"),
    "fft axis": lambda np, d: np.fft.fft(d(A), axis=2),
    "rfft of complex": lambda np, d: np.fft.rfft(d(C)),
    "sort kind": lambda np, d: np.sort(d(A), kind="x"),
    "sort axis": lambda np, d: np.sort(d(A), axis=9),
    "sort both": lambda np, d: np.sort(d(A), kind="stable", stable=True),
    "partition": lambda np, d: np.partition(d(A), 99),
    "bincount of negative": lambda np, d: np.bincount(d(INTEGERS.ravel())),
    "bincount of floats": lambda np, d: np.bincount(d(V)),
    "searchsorted side": lambda np, d: np.searchsorted(d(V), d(V), "x"),
    "mask of another shape": lambda np, d: d(A)[d(numpy.ones(7, bool))],
    "histogram of nan": lambda np, d: np.histogram(d(V * numpy.nan)),
    "histogram of edges": lambda np, d: np.histogram(d(V), [3, 2, 1]),
}

CASES: dict[str, Case] = {
    **PRODUCTS, **dict(einsums()), **dict(transforms()), **LINALG, **dict(orders()), **SELECTIONS,
}  # fmt: skip

# Draws of a generator: method, arguments, options.
DRAWS: list[Any] = [
    ("random", (5000,)), ("random", ((3, 7),)), ("random", (5001,), {"dtype": numpy.float32}),
    ("random", (600,), {"dtype": "f4"}), ("uniform", (-1, 3, 5000)), ("integers", (0, 100, 5000)),
    ("integers", (0, 64, 5001)), ("integers", (0, 2**32, 5001)), ("integers", (-5, 2**31 - 1, 501), {"dtype": "i4"}),
    ("integers", (3 * 2**30,), {"size": 6001}), ("integers", (-(2**63), 2**63 - 1, 400), {"endpoint": True}),
    ("integers", (0, 3 * 2**61, 4000)), ("integers", (5, 6 * 10**9, (40, 50))), ("choice", (1000, 500)),
    ("integers", (0, 100, 7), {"dtype": "u1"}), ("integers", (0, 100, 7)), ("standard_normal", (5,)),
    ("choice", (numpy.arange(10.0), 77)), ("random", ()), ("integers", (7,)),
]  # fmt: skip


# Draws that NumPy refuses.
REFUSED_DRAWS = [
    ("integers", (5, 3, 4000)), ("integers", (0, 2**40, 4000), {"dtype": "i4"}), ("uniform", (0, numpy.inf, 4000)),
    ("random", (-1,)), ("random", (4000,), {"dtype": "f2"}), ("choice", (0, 4000)), ("random", (4000,), {"x": 1}),
]  # fmt: skip


def draw_of(generator: Any, draw: Any) -> Any:
    name, args, *options = draw
    return getattr(generator, name)(*args, **(options[0] if options else {}))


# Calls of the table that run on the host.
HOSTED = ("nothing to sum", "nanmedian of rows", "qr of many r")


def tolerance(want: Any) -> float:
    """How far results of a type may differ: libraries add in another order."""
    return {"e": 2e-2, "f": 1e-4, "F": 1e-4, "d": 1e-9, "D": 1e-9}.get(numpy.asarray(want).dtype.char, 0.0)


def compare(got: Any, want: Any) -> None:
    """Types and shapes the same, values within their tolerance."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            compare(x, y)
        return
    assert isinstance(got, numpy.generic) == isinstance(want, numpy.generic) or not numpy.ndim(want)
    x, y = numpy.asarray(got), numpy.asarray(want)
    assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, y.dtype, x.shape, y.shape)
    bound = tolerance(y)
    size = float(numpy.max(abs(y), initial=1, where=numpy.isfinite(y))) if bound else 0.0
    numpy.testing.assert_allclose(x, y, rtol=bound, atol=bound * size)
