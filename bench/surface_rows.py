"""The rows of bench/surface.py: one public function each, as scripts call it.

A row is a name, what it needs for `n` elements, and the call.  Where the cost grows faster than the elements, `most`
bounds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

Generator = numpy.random.Generator
Operands = tuple[Any, ...]


class Row(NamedTuple):
    """One call."""

    name: str
    setup: Callable[[Generator, int], Operands]
    call: Callable[..., Any]
    most: int = 10_000_000
    close: float = 1e-9  # relative tolerance of floats


def _vectors(count: int = 1) -> Callable[[Generator, int], Operands]:
    return lambda rng, n: tuple(rng.normal(size=n) for _ in range(count))


def _matrices(count: int = 1) -> Callable[[Generator, int], Operands]:
    return lambda rng, n: tuple(rng.normal(size=(math.isqrt(n), math.isqrt(n))) for _ in range(count))


def _tall(columns: int) -> Callable[[Generator, int], Operands]:
    return lambda rng, n: (rng.normal(size=(n // columns, columns)),)


def _integers(high: int, count: int = 1) -> Callable[[Generator, int], Operands]:
    return lambda rng, n: tuple(rng.integers(0, high, n) for _ in range(count))


def _positive(rng: Generator, n: int) -> Operands:
    a = rng.normal(size=(math.isqrt(n), math.isqrt(n)))
    return (a @ a.T + math.isqrt(n) * numpy.eye(math.isqrt(n)), rng.normal(size=math.isqrt(n)))


def _masked(rng: Generator, n: int) -> Operands:
    return rng.normal(size=n), rng.random(n) < 0.4


def _picked(rng: Generator, n: int) -> Operands:
    return rng.normal(size=n), rng.integers(0, n, n)


def _permuted(rng: Generator, n: int) -> Operands:
    return rng.normal(size=n), rng.permutation(n), rng.normal(size=n)


def _holes(rng: Generator, n: int) -> Operands:
    x = rng.normal(size=n)
    x[rng.random(n) < 0.1] = numpy.nan
    return (x,)


def _sorted_and(rng: Generator, n: int) -> Operands:
    return numpy.sort(rng.normal(size=max(n // 10, 2))), rng.normal(size=n)


def _by_rows(rng: Generator, n: int) -> Operands:
    m = rng.normal(size=(max(n // 100, 1), 100))
    return m, numpy.argsort(m, axis=1)


def _edges(rng: Generator, n: int) -> Operands:
    return rng.normal(size=n), numpy.linspace(-3, 3, 61)


def _function(rng: Generator, n: int) -> Operands:
    grid = numpy.linspace(-4, 4, 1001)
    return rng.normal(size=n), grid, numpy.sin(grid)


def _kernel(rng: Generator, n: int) -> Operands:
    return rng.normal(size=n), rng.normal(size=15)


def _axes(rng: Generator, n: int) -> Operands:
    side = math.isqrt(n)
    return numpy.linspace(0, 1, side), numpy.linspace(-1, 1, side)


def _batch(rng: Generator, n: int) -> Operands:
    return rng.normal(size=(n // 64, 8, 8)), rng.normal(size=(n // 64, 8, 8))


def _nothing(rng: Generator, n: int) -> Operands:
    return (n,)


def _written(np: Any, x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def _put(np: Any, x: Any, at: Any, value: Any) -> Any:
    np.put(x, at, value)
    return x


def _grid(np: Any, x: Any, y: Any) -> Any:
    a, b = np.meshgrid(x, y)
    return np.sqrt(a * a + b * b)


_S, _M = 250_000, 1_000_000  # most elements of a matrix whose cost is cubic, and of other dear calls

ROWS = (
    Row("sort", _vectors(), lambda np, x: np.sort(x)),
    Row("sort rows", _tall(100), lambda np, m: np.sort(m, axis=1)),
    Row("argsort", _vectors(), lambda np, x: np.argsort(x)),
    Row("argsort stable", _integers(1000), lambda np, k: np.argsort(k, kind="stable")),
    Row("partition", _vectors(), lambda np, x: np.partition(x, x.size // 3)[x.size // 3]),
    Row("unique", _integers(1000), lambda np, k: np.unique(k)),
    Row("unique floats", _vectors(), lambda np, x: np.unique(x)),
    Row("unique_counts", _integers(1000), lambda np, k: tuple(np.unique_counts(k))),
    Row("isin", _integers(1000), lambda np, k: np.isin(k, np.arange(0, 1000, 7))),
    Row("searchsorted", _sorted_and, lambda np, s, x: np.searchsorted(s, x)),
    Row("digitize", _edges, lambda np, x, e: np.digitize(x, e)),
    Row("bincount", _integers(1000), lambda np, k: np.bincount(k)),
    Row("bincount weights", lambda rng, n: (rng.integers(0, 1000, n), rng.random(n)),
        lambda np, k, w: np.bincount(k, w)),
    Row("histogram", _vectors(), lambda np, x: np.histogram(x, 50)),
    Row("percentile", _vectors(), lambda np, x: np.percentile(x, [5, 50, 95])),
    Row("median", _vectors(), lambda np, x: np.median(x)),
    Row("median rows", _tall(100), lambda np, m: np.median(m, axis=1)),
    Row("cov", _tall(10), lambda np, m: np.cov(m, rowvar=False)),
    Row("corrcoef", _vectors(2), lambda np, x, y: np.corrcoef(x, y)),
    Row("take", _picked, lambda np, x, i: np.take(x, i)),
    Row("put", _permuted, _put),
    Row("compress", _masked, lambda np, x, m: np.compress(m, x)),
    Row("nonzero", _masked, lambda np, x, m: np.nonzero(m)[0]),
    Row("where", _masked, lambda np, x, m: np.where(m, x, 0.0)),
    Row("mask read", _masked, lambda np, x, m: x[m]),
    Row("mask write", _masked, lambda np, x, m: _written(np, x, m, 0.0)),
    Row("fancy read", _picked, lambda np, x, i: x[i]),
    Row("fancy read rows", lambda rng, n: (rng.normal(size=(n // 16, 16)), rng.integers(0, n // 16, n // 16)),
        lambda np, m, i: m[i]),
    Row("fancy write", _permuted, lambda np, x, i, v: _written(np, x, i, v)),
    Row("take_along_axis", _by_rows, lambda np, m, i: np.take_along_axis(m, i, axis=1)),
    Row("concatenate", _vectors(2), lambda np, x, y: np.concatenate([x, y])),
    Row("stack", _vectors(2), lambda np, x, y: np.stack([x, y], axis=1)),
    Row("pad", _matrices(), lambda np, m: np.pad(m, 2, mode="edge")),
    Row("pad constant", _matrices(), lambda np, m: np.pad(m, 2)),
    Row("roll", _matrices(), lambda np, m: np.roll(m, 1, axis=0) + np.roll(m, -1, axis=1)),
    Row("flip", _vectors(), lambda np, x: np.flip(x) + x),
    Row("rot90", _matrices(), lambda np, m: np.rot90(m).copy()),
    Row("repeat", lambda rng, n: (rng.normal(size=n // 4),), lambda np, x: np.repeat(x, 4)),
    Row("tile", lambda rng, n: (rng.normal(size=n // 4),), lambda np, x: np.tile(x, 4)),
    Row("tril", _matrices(), lambda np, m: np.tril(m)),
    Row("meshgrid", _axes, _grid),
    Row("cumsum", _vectors(), lambda np, x: np.cumsum(x)),
    Row("cumprod", lambda rng, n: (1 + 1e-9 * rng.normal(size=n),), lambda np, x: np.cumprod(x)),
    Row("cumsum rows", _tall(100), lambda np, m: np.cumsum(m, axis=1)),
    Row("diff", _vectors(), lambda np, x: np.diff(x)),
    Row("gradient", _vectors(), lambda np, x: np.gradient(x, 0.1)),
    Row("trapezoid", _vectors(), lambda np, x: np.trapezoid(x, dx=0.1)),
    Row("interp", _function, lambda np, x, g, f: np.interp(x, g, f)),
    Row("convolve", _kernel, lambda np, x, k: np.convolve(x, k, mode="same")),
    Row("correlate", _kernel, lambda np, x, k: np.correlate(x, k, mode="valid")),
    Row("dot", _vectors(2), lambda np, x, y: np.dot(x, y)),
    Row("inner", _matrices(2), lambda np, a, b: np.inner(a, b), _S),
    Row("outer", lambda rng, n: (rng.normal(size=math.isqrt(n)), rng.normal(size=math.isqrt(n))),
        lambda np, x, y: np.outer(x, y)),
    Row("matmul", _matrices(2), lambda np, a, b: a @ b, _S),
    Row("matmul vector", _positive, lambda np, a, x: a @ x, 4_000_000),
    Row("einsum ij,jk", _matrices(2), lambda np, a, b: np.einsum("ij,jk->ik", a, b), 40_000),
    Row("einsum ij,ij", _matrices(2), lambda np, a, b: np.einsum("ij,ij->i", a, b)),
    Row("einsum bij,bjk", _batch, lambda np, a, b: np.einsum("bij,bjk->bik", a, b), _M),
    Row("tensordot", _matrices(2), lambda np, a, b: np.tensordot(a, b, axes=1), _S),
    Row("kron", lambda rng, n: (rng.normal(size=(math.isqrt(n) // 4, math.isqrt(n) // 4)), rng.normal(size=(4, 4))),
        lambda np, a, b: np.kron(a, b)),
    Row("trace", _matrices(), lambda np, m: np.trace(m)),
    Row("solve", _positive, lambda np, a, b: np.linalg.solve(a, b), _S),
    Row("inv", _positive, lambda np, a, b: np.linalg.inv(a), _S),
    Row("svd", _matrices(), lambda np, m: np.linalg.svd(m, compute_uv=False), 40_000),
    Row("eigh", _positive, lambda np, a, b: np.linalg.eigvalsh(a), 40_000),
    Row("cholesky", _positive, lambda np, a, b: np.linalg.cholesky(a), _S),
    Row("qr", _matrices(), lambda np, m: np.abs(np.linalg.qr(m)[1]), _S),
    Row("norm", _vectors(), lambda np, x: np.linalg.norm(x)),
    Row("norm rows", _tall(100), lambda np, m: np.linalg.norm(m, axis=1)),
    Row("fft", _vectors(), lambda np, x: np.fft.fft(x)),
    Row("rfft rows", lambda rng, n: (rng.normal(size=(max(n // 512, 1), 512)),), lambda np, m: np.fft.rfft(m)),
    Row("fft2", _matrices(), lambda np, m: np.fft.fft2(m)),
    Row("polyval", _vectors(), lambda np, x: np.polyval([0.1, 0.2, -0.3, 0.5], x)),
    Row("nansum", _holes, lambda np, x: np.nansum(x)),
    Row("nanmean", _holes, lambda np, x: np.nanmean(x)),
    Row("nanstd", _holes, lambda np, x: np.nanstd(x)),
    Row("sliding mean", _vectors(),
        lambda np, x: np.lib.stride_tricks.sliding_window_view(x, 10).mean(axis=-1)),
    Row("clip", _vectors(), lambda np, x: np.clip(x, -0.5, 0.5)),
    Row("argmax", _vectors(), lambda np, x: np.argmax(x)),
    Row("argmax rows", _tall(100), lambda np, m: np.argmax(m, axis=1)),
    Row("any", lambda rng, n: (rng.random(n),), lambda np, x: np.any(x > 2)),
    Row("all", lambda rng, n: (rng.random(n),), lambda np, x: np.all(x < 2)),
    Row("sum", _vectors(), lambda np, x: np.sum(x)),
    Row("var", _vectors(), lambda np, x: np.var(x)),
    Row("std rows", _tall(100), lambda np, m: np.std(m, axis=1)),
    Row("sqrt", lambda rng, n: (rng.random(n),), lambda np, x: np.sqrt(x)),
    Row("exp", _vectors(), lambda np, x: np.exp(x)),
    Row("abs", _vectors(), lambda np, x: np.abs(x)),
    Row("astype", _vectors(), lambda np, x: x.astype(np.float32)),
    Row("copy", _vectors(), lambda np, x: x.copy()),
    Row("linspace", _nothing, lambda np, n: np.linspace(0.0, 1.0, n)),
    Row("random", _nothing, lambda np, n: np.random.default_rng(1).random(n)),
    Row("normal", _nothing, lambda np, n: np.random.default_rng(1).normal(size=n)),
)  # fmt: skip
QUICK = frozenset("sort, bincount, mask read, fancy read, pad, cumsum, matmul, norm, clip, random".split(", "))
