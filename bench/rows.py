"""The rows of bench/fused_cpu.py: fixed programs, each written once for every library.

`body` is the source of `f`, with the library under the name `np`; `setup` makes its arguments with NumPy.  `numexpr` is
the same computation in its language, where it has one.  `torch` and `jax` tell whether the body runs there as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy


class Row(NamedTuple):
    """One program."""

    name: str
    setup: Callable[[numpy.random.Generator], tuple[Any, ...]]
    body: str
    numexpr: str = ""
    jax: bool = True
    torch: bool = True


def _vectors(count: int, n: int, low: float = 0.1, high: float = 2.0) -> Callable[[numpy.random.Generator], Any]:
    return lambda rng: tuple(rng.uniform(low, high, n) for _ in range(count))


def _matrix(*shape: int) -> Callable[[numpy.random.Generator], Any]:
    return lambda rng: (rng.uniform(0.1, 2.0, shape),)


N = 4_000_000

ROWS = (
    Row("scale and add", _vectors(2, N), "def f(a, b):\n    return a * 2.0 + b", "a * 2.0 + b"),
    Row(
        "polynomial of degree 8",
        _vectors(1, N),
        "def f(x):\n"
        "    y = 0.1 + x * (0.05 + x * (0.02 + x * (0.01 + x * 0.005)))\n"
        "    return 1.0 + x * (0.5 + x * (0.3 + x * (0.2 + x * y)))",
        "1.0 + x * (0.5 + x * (0.3 + x * (0.2 + x * (0.1 + x * (0.05 + x * (0.02 + x * (0.01 + x * 0.005)))))))",
    ),
    Row(
        "distance and mask",
        _vectors(4, N),
        "def f(a, b, c, d):\n    r = np.sqrt((a - c) ** 2 + (b - d) ** 2)\n    return np.where(r > 0.5, r, a * b)",
        "where(sqrt((a - c) ** 2 + (b - d) ** 2) > 0.5, sqrt((a - c) ** 2 + (b - d) ** 2), a * b)",
    ),
    Row(
        "exponential and logarithm",
        _vectors(2, N),
        "def f(a, b):\n    return np.exp(-a * a) * np.log(b + 1.0) / (1.0 + np.exp(-b))",
        "exp(-a * a) * log(b + 1.0) / (1.0 + exp(-b))",
    ),
    Row("sum of squares", _vectors(2, N), "def f(a, b):\n    return ((a - b) ** 2).sum()", "sum((a - b) ** 2)"),
    Row(
        "mean and variance",
        _vectors(1, N),
        "def f(x):\n    m = x.mean()\n    return ((x - m) ** 2).mean()",
    ),
    Row(
        "softmax of rows",
        _matrix(4000, 1000),
        "def f(x):\n    e = np.exp(x - x.max(axis=1, keepdims=True))\n    return e / e.sum(axis=1, keepdims=True)",
        torch=False,
    ),
    Row(
        "standardise rows",
        _matrix(4000, 1000),
        "def f(x):\n"
        "    c = x - x.mean(axis=1, keepdims=True)\n"
        "    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5)",
    ),
    Row(
        "five-point stencil",
        _matrix(2000, 2000),
        "def f(u):\n    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])",
    ),
    Row(
        "heat step in place",
        _matrix(2000, 2000),
        "def f(u):\n"
        "    v = u.copy()\n"
        "    v[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])\n"
        "    return v",
        jax=False,
        torch=False,
    ),
    Row(
        "pairwise kernel sum",
        lambda rng: (rng.random((1500, 3)), rng.random((1500, 3))),
        "def f(x, y):\n    return np.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)).sum(axis=1)",
    ),
    Row(
        "Black-Scholes",
        lambda rng: (rng.uniform(10.0, 40.0, N // 4), rng.uniform(10.0, 40.0, N // 4), rng.uniform(0.25, 10.0, N // 4)),
        "def f(s, k, t):\n"
        "    r = 0.25 * np.sqrt(t)\n"
        "    d1 = (np.log(s / k) + 0.06125 * t) / r\n"
        "    d2 = d1 - r\n"
        "    n1 = 1.0 / (1.0 + np.exp(-1.5976 * d1 - 0.070565992 * d1 * d1 * d1))\n"
        "    n2 = 1.0 / (1.0 + np.exp(-1.5976 * d2 - 0.070565992 * d2 * d2 * d2))\n"
        "    return s * n1 - k * np.exp(-0.03 * t) * n2",
    ),
    Row(
        "float32 saxpy and clip",
        lambda rng: (rng.random(2 * N, dtype="f4"), rng.random(2 * N, dtype="f4")),
        "def f(a, b):\n    return np.minimum(np.maximum(a * 3.0 - b, 0.0), 1.0)",
        torch=False,
    ),
    Row(
        "integer hash",
        lambda rng: (rng.integers(0, 1 << 62, N),),
        "def f(k):\n    k = (k ^ (k >> 13)) * 1099511628211\n    return (k ^ (k >> 7)) & 1023",
    ),
)
