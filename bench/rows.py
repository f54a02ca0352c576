"""The rows of bench/fused_cpu.py: fixed programs, each written once for every library.

`body` is the source of `f`, with the library under the name `np`; `setup` makes its arguments with NumPy, of about n
elements and one data type.  `forms` holds the same computation for a library that cannot run the body as it stands:
numexpr's language, loops for numba, an update without writing for JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy

Setup = Callable[[numpy.random.Generator, int, str], tuple[Any, ...]]


class Row(NamedTuple):
    """One program."""

    name: str
    setup: Setup
    body: str
    forms: Mapping[str, str] = {}  # library -> its own body; "" where it cannot run the row
    sums: bool = False  # whether its results are sums, which libraries associate differently


def _vectors(count: int, low: float = 0.1, high: float = 2.0) -> Setup:
    return lambda rng, n, dtype: tuple(rng.uniform(low, high, n).astype(dtype) for _ in range(count))


def _matrix(ratio: int = 1) -> Setup:
    """A matrix with `ratio` times as many rows as columns."""

    def make(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
        columns = max(8, math.isqrt(n // ratio))
        return (rng.uniform(0.1, 2.0, (max(8, n // columns), columns)).astype(dtype),)

    return make


def _norm(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    (x,) = _matrix(4)(rng, n, dtype)
    return x, *(rng.uniform(0.5, 1.5, x.shape[1]).astype(dtype) for _ in range(2))


def _outer(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    side = math.isqrt(n)
    return tuple(rng.uniform(0.1, 2.0, shape).astype(dtype) for shape in (side, side, (side, side)))


def _points(most: int) -> Setup:
    """Points in three dimensions, as many as have n pairs."""

    def make(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
        return (rng.random((min(most, math.isqrt(n)), 3)).astype(dtype),)

    return make


def _clouds(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return tuple(rng.random((math.isqrt(n), 3)).astype(dtype) for _ in range(2))


def _bodies(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    (x,) = _points(3000)(rng, n, dtype)
    return x, rng.uniform(0.5, 1.5, len(x)).astype(dtype)


def _options(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return tuple(rng.uniform(*bounds, n).astype(dtype) for bounds in ((10.0, 40.0), (10.0, 40.0), (1.0, 10.0)))


def _integers(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    whole = "i8" if dtype == "f8" else "i4"
    return (rng.integers(0, 1 << 30, n).astype(whole),)


def _fields(count: int, low: float, high: float) -> Setup:
    """Square fields."""

    def make(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
        side = math.isqrt(n)
        return tuple(rng.uniform(low, high, (side, side)).astype(dtype) for _ in range(count))

    return make


def _flow(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    side = max(8, math.isqrt(n // 9))
    return (rng.uniform(0.9, 1.1, (9, side, side)).astype(dtype),)


def _gathered(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return rng.random(n).astype(dtype), rng.integers(0, n, n), rng.random(n).astype(dtype)


def _plane(rng: numpy.random.Generator, n: int, dtype: str) -> tuple[Any, ...]:
    return rng.uniform(-2.0, 0.6, n).astype(dtype), rng.uniform(-1.2, 1.2, n).astype(dtype)


_SOFTMAX = (
    "def f(x):\n    e = np.exp(x - np.amax(x, axis=1, keepdims=True))\n    return e / e.sum(axis=1, keepdims=True)"
)
_NORM = """\
def f(x, g, b):
    m = x.mean(axis=1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * g + b
"""
_STANDARD = """\
def f(x):
    c = x - x.mean(axis=1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5)
"""
_HEAT = """\
def f(u):
    v = u.copy()
    v[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return v
"""
_HEAT_JAX = """\
def f(u):
    step = 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return u.at[1:-1, 1:-1].add(step)
"""
_FORCES = """\
def f(x, m):
    d = x[None, :, :] - x[:, None, :]
    r = (d * d).sum(axis=2) + 1e-3
    return (d * (m / (r * np.sqrt(r)))[:, :, None]).sum(axis=1)
"""
_BLACK_SCHOLES = """\
def f(s, k, t):
    r = 0.25 * np.sqrt(t)
    d1 = (np.log(s / k) + 0.06125 * t) / r
    d2 = d1 - r
    n1 = 1.0 / (1.0 + np.exp(-1.5976 * d1 - 0.070565992 * d1 * d1 * d1))
    n2 = 1.0 / (1.0 + np.exp(-1.5976 * d2 - 0.070565992 * d2 * d2 * d2))
    return s * n1 - k * np.exp(-0.03 * t) * n2
"""
_FLOW = """\
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
W = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)

def f(p):
    g = [np.roll(p[k], (CY[k], CX[k]), (0, 1)) for k in range(9)]
    rho = g[0] + g[1] + g[2] + g[3] + g[4] + g[5] + g[6] + g[7] + g[8]
    ux = (g[1] + g[5] + g[8] - g[3] - g[6] - g[7]) / rho
    uy = (g[2] + g[5] + g[6] - g[4] - g[7] - g[8]) / rho
    uu = 1.5 * (ux * ux + uy * uy)
    out = []
    for k in range(9):
        cu = 3.0 * (CX[k] * ux + CY[k] * uy)
        out.append(g[k] + 0.6 * (W[k] * rho * (1.0 + cu + 0.5 * cu * cu - uu) - g[k]))
    return np.stack(out)
"""
_FLOW_NUMBA = (
    """\
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
W = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)

def f(p):
    out = np.empty_like(p)
    h, w = p.shape[1], p.shape[2]
    for i in prange(h):
        n, s = (i - 1 if i else h - 1), (i + 1 if i + 1 < h else 0)
        for j in range(w):
            a, b = (j - 1 if j else w - 1), (j + 1 if j + 1 < w else 0)
            g0, g1, g2, g3, g4 = p[0, i, j], p[1, i, a], p[2, n, j], p[3, i, b], p[4, s, j]
            g5, g6, g7, g8 = p[5, n, a], p[6, n, b], p[7, s, b], p[8, s, a]
            rho = g0 + g1 + g2 + g3 + g4 + g5 + g6 + g7 + g8
            ux = (g1 + g5 + g8 - g3 - g6 - g7) / rho
            uy = (g2 + g5 + g6 - g4 - g7 - g8) / rho
            uu = 1.5 * (ux * ux + uy * uy)
            out[0, i, j] = g0 + 0.6 * (WA * rho * (1.0 - uu) - g0)
            cu = 3.0 * ux
            out[1, i, j] = g1 + 0.6 * (WB * rho * (1.0 + cu + 0.5 * cu * cu - uu) - g1)
            out[3, i, j] = g3 + 0.6 * (WB * rho * (1.0 - cu + 0.5 * cu * cu - uu) - g3)
            cu = 3.0 * uy
            out[2, i, j] = g2 + 0.6 * (WB * rho * (1.0 + cu + 0.5 * cu * cu - uu) - g2)
            out[4, i, j] = g4 + 0.6 * (WB * rho * (1.0 - cu + 0.5 * cu * cu - uu) - g4)
            cu = 3.0 * (ux + uy)
            out[5, i, j] = g5 + 0.6 * (WC * rho * (1.0 + cu + 0.5 * cu * cu - uu) - g5)
            out[7, i, j] = g7 + 0.6 * (WC * rho * (1.0 - cu + 0.5 * cu * cu - uu) - g7)
            cu = 3.0 * (uy - ux)
            out[6, i, j] = g6 + 0.6 * (WC * rho * (1.0 + cu + 0.5 * cu * cu - uu) - g6)
            out[8, i, j] = g8 + 0.6 * (WC * rho * (1.0 - cu + 0.5 * cu * cu - uu) - g8)
    return out
""".replace("WA", "0.4444444444444444")
    .replace("WB", "0.1111111111111111")
    .replace("WC", "0.027777777777777776")
)
_GRAY_SCOTT = """\
def f(u, v):
    lu = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
    lv = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * v[1:-1, 1:-1]
    a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
    r = a * b * b
    return a + (0.16 * lu - r + 0.06 * (1.0 - a)), b + (0.08 * lv + r - 0.122 * b)
"""
_FDTD = """\
def f(e, hx, hy):
    hx[:, :-1] -= 0.5 * (e[:, 1:] - e[:, :-1])
    hy[:-1, :] += 0.5 * (e[1:, :] - e[:-1, :])
    e[1:-1, 1:-1] += 0.5 * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2])
    return e
"""
_FDTD_JAX = """\
def f(e, hx, hy):
    hx = hx.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
    hy = hy.at[:-1, :].add(0.5 * (e[1:, :] - e[:-1, :]))
    e = e.at[1:-1, 1:-1].add(0.5 * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]))
    return e, hx, hy
"""
_MANDELBROT = """\
def f(cr, ci):
    zr, zi, count = cr * 0.0, ci * 0.0, cr * 0.0
    for _ in range(20):
        r, i = zr * zr, zi * zi
        inside = r + i < 4.0
        zi = np.where(inside, 2.0 * zr * zi + ci, zi)
        zr = np.where(inside, r - i + cr, zr)
        count = np.where(inside, count + 1.0, count)
    return count
"""

# Loops for numba, where the body has an axis, a keyword or a nesting that it does not compile.
_SPREAD = """\
def f(x{more}):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        m = x.dtype.type(x[i].mean())
        v = x.dtype.type(0)
        for j in range(x.shape[1]):
            v += (x[i, j] - m) ** 2
        s = np.sqrt(v / x.dtype.type(x.shape[1]) + 1e-5)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - m) / s{scaled}
    return out
"""  # rows by their mean and deviation
_LOOPS = {
    "softmax": """\
def f(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out
""",
    "norm": _SPREAD.format(more=", g, b", scaled=" * g[j] + b[j]"),
    "standard": _SPREAD.format(more="", scaled=""),
    "outer": """\
def f(a, b, c):
    out = np.empty_like(c)
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            out[i, j] = a[i] * b[j] + c[i, j]
    return out
""",
    "kernel": """\
def f(x, y):
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        total = x.dtype.type(0)
        for j in range(y.shape[0]):
            p, q, r = x[i, 0] - y[j, 0], x[i, 1] - y[j, 1], x[i, 2] - y[j, 2]
            total += np.exp(-(p * p + q * q + r * r))
        out[i] = total
    return out
""",
    "distances": """\
def f(x):
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.shape[0]):
            p, q, r = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            total += np.sqrt(p * p + q * q + r * r)
        out[i] = total
    return out.sum()
""",
    "forces": """\
def f(x, m):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        fx = fy = fz = x.dtype.type(0)
        for j in range(x.shape[0]):
            p, q, r = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            s = p * p + q * q + r * r + 1e-3
            w = m[j] / (s * np.sqrt(s))
            fx += p * w
            fy += q * w
            fz += r * w
        out[i, 0], out[i, 1], out[i, 2] = fx, fy, fz
    return out
""",
    "cumsum": """\
def f(a, b):
    out = np.empty_like(a)
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
        out[i] = total
    return out
""",
    "gray-scott": """\
def f(u, v):
    h, w = u.shape
    p, q = np.empty((h - 2, w - 2), u.dtype), np.empty((h - 2, w - 2), u.dtype)
    for i in prange(1, h - 1):
        for j in range(1, w - 1):
            a, b = u[i, j], v[i, j]
            lu = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * a
            lv = v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1] - 4.0 * b
            r = a * b * b
            p[i - 1, j - 1] = a + (0.16 * lu - r + 0.06 * (1.0 - a))
            q[i - 1, j - 1] = b + (0.08 * lv + r - 0.122 * b)
    return p, q
""",
    "fdtd": """\
def f(e, hx, hy):
    h, w = e.shape
    for i in prange(h):
        for j in range(w - 1):
            hx[i, j] -= 0.5 * (e[i, j + 1] - e[i, j])
    for i in prange(h - 1):
        for j in range(w):
            hy[i, j] += 0.5 * (e[i + 1, j] - e[i, j])
    for i in prange(1, h - 1):
        for j in range(1, w - 1):
            e[i, j] += 0.5 * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])
    return e
""",
    "gather": """\
def f(x, idx, w):
    total = x.dtype.type(0)
    for i in prange(x.shape[0]):
        total += x[idx[i]] * w[i]
    return total
""",
    "mandelbrot": """\
def f(cr, ci):
    out = np.empty_like(cr)
    for k in prange(cr.shape[0]):
        zr = zi = count = cr.dtype.type(0)
        for _ in range(20):
            r, i = zr * zr, zi * zi
            if r + i < 4.0:
                zi = 2.0 * zr * zi + ci[k]
                zr = r - i + cr[k]
                count += 1.0
        out[k] = count
    return out
""",
}

_POLYNOMIAL = "1.0 + x * (0.5 + x * (0.3 + x * (0.2 + x * (0.1 + x * (0.05 + x * (0.02 + x * (0.01 + x * 0.005)))))))"

ROWS = (
    Row("scale and add", _vectors(2), "def f(a, b):\n    return a * 2.0 + b", {"numexpr": "a * 2.0 + b"}),
    Row(
        "polynomial of degree 8",
        _vectors(1),
        "def f(x):\n"
        "    y = 0.1 + x * (0.05 + x * (0.02 + x * (0.01 + x * 0.005)))\n"
        "    return 1.0 + x * (0.5 + x * (0.3 + x * (0.2 + x * y)))",
        {"numexpr": _POLYNOMIAL},
    ),
    Row(
        "distance and mask",
        _vectors(4),
        "def f(a, b, c, d):\n    r = np.sqrt((a - c) ** 2 + (b - d) ** 2)\n    return np.where(r > 0.5, r, a * b)",
        {"numexpr": "where(sqrt((a - c) ** 2 + (b - d) ** 2) > 0.5, sqrt((a - c) ** 2 + (b - d) ** 2), a * b)"},
    ),
    Row(
        "root where",
        _vectors(3),
        "def f(a, b, c):\n    return np.where(a > b, np.sqrt(a), b * c)",
        {"numexpr": "where(a > b, sqrt(a), b * c)"},
    ),
    Row(
        "exponential and logarithm",
        _vectors(2),
        "def f(a, b):\n    return np.exp(-a * a) * np.log(b + 1.0) / (1.0 + np.exp(-b))",
        {"numexpr": "exp(-a * a) * log(b + 1.0) / (1.0 + exp(-b))"},
    ),
    Row(
        "exponential and sine",
        _vectors(3),
        "def f(a, b, c):\n    return np.exp(-a * a) * np.sin(b) + c / 2.0",
        {"numexpr": "exp(-a * a) * sin(b) + c / 2.0"},
    ),
    Row("sum of products", _vectors(2), "def f(a, b):\n    return (a * b).sum()", {"numexpr": "sum(a * b)"}, True),
    Row(
        "sum of squares",
        _vectors(2),
        "def f(a, b):\n    return ((a - b) ** 2).sum()",
        {"numexpr": "sum((a - b) ** 2)"},
        True,
    ),
    Row("mean and variance", _vectors(1), "def f(x):\n    m = x.mean()\n    return ((x - m) ** 2).mean()", {}, True),
    Row(
        "variance",
        _vectors(1),
        "def f(x):\n    return np.var(x)",
        {"torch": "def f(x):\n    return np.var(x, correction=0)"},
        True,
    ),
    Row("softmax of rows", _matrix(4), _SOFTMAX, {"numba": _LOOPS["softmax"]}),
    Row("layer norm", _norm, _NORM, {"numba": _LOOPS["norm"]}),
    Row("standardise rows", _matrix(4), _STANDARD, {"numba": _LOOPS["standard"]}),
    Row(
        "five-point stencil",
        _matrix(),
        "def f(u):\n    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])",
    ),
    Row(
        "heat step in place",
        _matrix(),
        _HEAT,
        {"jax": _HEAT_JAX, "torch": _HEAT.replace("copy", "clone")},
    ),
    Row("outer product and add", _outer, "def f(a, b, c):\n    return a[:, None] * b + c", {"numba": _LOOPS["outer"]}),
    Row(
        "pairwise kernel sum",
        _clouds,
        "def f(x, y):\n    return np.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)).sum(axis=1)",
        {"numba": _LOOPS["kernel"]},
        True,
    ),
    Row(
        "sum of pair distances",
        _points(4096),
        "def f(x):\n    return np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)).sum()",
        {"numba": _LOOPS["distances"]},
        True,
    ),
    Row("forces of bodies", _bodies, _FORCES, {"numba": _LOOPS["forces"]}, True),
    Row("Black-Scholes", _options, _BLACK_SCHOLES),
    Row(
        "saxpy and clip",
        _vectors(2),
        "def f(a, b):\n    return np.minimum(np.maximum(a * 3.0 - b, 0.0), 1.0)",
        {"torch": "def f(a, b):\n    return np.clamp(a * 3.0 - b, 0.0, 1.0)"},
    ),
    Row(
        "integer hash",
        _integers,
        "def f(k):\n    k = (k ^ (k >> 13)) * 16777619\n    return (k ^ (k >> 7)) & 1023",
    ),
    Row("maximum and its place", _vectors(1), "def f(x):\n    return x.argmax(), x.max()"),
    Row("lattice Boltzmann step", _flow, _FLOW, {"numba": _FLOW_NUMBA}),
    Row("Gray-Scott step", _fields(2, 0.1, 0.9), _GRAY_SCOTT, {"numba": _LOOPS["gray-scott"]}),
    Row("FDTD step in place", _fields(3, -1.0, 1.0), _FDTD, {"jax": _FDTD_JAX, "numba": _LOOPS["fdtd"]}),
    Row(
        "cumulative sum of products",
        _vectors(2),
        "def f(a, b):\n    return np.cumsum(a * b)",
        {"torch": "def f(a, b):\n    return np.cumsum(a * b, 0)", "numba": _LOOPS["cumsum"]},
        True,
    ),
    Row(
        "gather, multiply, sum",
        _gathered,
        "def f(x, idx, w):\n    return (x[idx] * w).sum()",
        {"numba": _LOOPS["gather"]},
        True,
    ),
    Row("Mandelbrot loop", _plane, _MANDELBROT, {"numba": _LOOPS["mandelbrot"]}),
)
