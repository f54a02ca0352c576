"""The rows of bench/gpu.py: expressions written once for every library, and the fewest elements that each must move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

N = 1 << 26  # elements of a vector
M = 1 << 13  # rows and columns of a matrix
CUBE = (256, 512, 512)
POINTS = 1 << 14
COEFFICIENTS = [0.9 - 0.05 * k for k in range(16)]

Arrays = dict[str, Any]


class Library:
    """What differs between libraries: names of a few functions; the rest are methods and operators."""

    def __init__(self, module: Any) -> None:
        self.exp, self.log, self.sqrt, self.tanh = module.exp, module.log, module.sqrt, module.tanh
        self.cumsum = module.cumsum

    def top(self, m: Any) -> Any:
        """Maximum of each row, as a column."""
        return m.max(axis=1, keepdims=True)

    def total(self, m: Any) -> Any:
        """Sum of each row, as a column."""
        return m.sum(axis=1, keepdims=True)

    def mean(self, m: Any) -> Any:
        """Mean of each row, as a column."""
        return m.mean(axis=1, keepdims=True)

    def variance(self, a: Any) -> Any:
        """Of all elements."""
        return a.var()


class Torch(Library):
    """PyTorch's words."""

    def top(self, m: Any) -> Any:
        return m.amax(1, keepdim=True)

    def total(self, m: Any) -> Any:
        return m.sum(1, keepdim=True)

    def mean(self, m: Any) -> Any:
        return m.mean(1, keepdim=True)

    def variance(self, a: Any) -> Any:
        return a.var(correction=0)


def triad(x: Arrays, lib: Library) -> Any:
    """a + 0.5 * b."""
    return x["a"] + 0.5 * x["b"]


def daxpy(x: Arrays, lib: Library) -> Any:
    """y += 1e-9 * a, in place where the library writes at all."""
    y = x["y"]
    y += 1e-9 * x["a"]
    return y


def black_scholes(x: Arrays, lib: Library) -> Any:
    """Price of a call, the normal distribution by tanh."""
    s, k = x["a"] * 50 + 50, x["b"] * 50 + 50
    d1 = (lib.log(s / k) + 0.05) / 0.2
    d2 = d1 - 0.2
    n1, n2 = (0.5 * (1 + lib.tanh(0.79788 * (d + 0.044715 * d * d * d))) for d in (d1, d2))
    return s * n1 - k * n2 * 0.97


def dot(x: Arrays, lib: Library) -> Any:
    """(a * b).sum()."""
    return (x["a"] * x["b"]).sum()


def eos(x: Arrays, lib: Library) -> Any:
    """RAJAPerf's EOS: 7 shifted reads of one vector, one of two others."""
    u, y, z = x["a"], x["b"], x["z"]
    q, r, t = 0.5, 0.25, 0.125
    s = [u[k : len(u) - 6 + k] for k in range(7)]
    inner = s[6] + q * (s[5] + q * s[4])
    return s[0] + r * (z[:-6] + r * y[:-6]) + t * (s[3] + r * (s[2] + r * s[1]) + t * inner)


def stencil5(x: Arrays, lib: Library) -> Any:
    """5 points of a matrix."""
    u = x["m"]
    return 0.5 * u[1:-1, 1:-1] + 0.125 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def stencil7(x: Arrays, lib: Library) -> Any:
    """7 points of a box."""
    u = x["q"]
    c = u[1:-1, 1:-1, 1:-1]
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    return 0.4 * c + 0.1 * (around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:])


def softmax(x: Arrays, lib: Library) -> Any:
    """Of rows."""
    e = lib.exp(x["m"] - lib.top(x["m"]))
    return e / lib.total(e)


def layer_norm(x: Arrays, lib: Library) -> Any:
    """Of rows."""
    d = x["m"] - lib.mean(x["m"])
    return d / lib.sqrt(lib.mean(d * d) + 1e-5)


def column_sum(x: Arrays, lib: Library) -> Any:
    """(A * A).sum(axis=0)."""
    return (x["m"] * x["m"]).sum(0)


def total(x: Arrays, lib: Library) -> Any:
    """Sum of all elements."""
    return x["a"].sum()


def argmax(x: Arrays, lib: Library) -> Any:
    """Of all elements."""
    return x["a"].argmax()


def variance(x: Arrays, lib: Library) -> Any:
    """Of all elements."""
    return lib.variance(x["a"])


def cumsum(x: Arrays, lib: Library) -> Any:
    """Of a vector."""
    return lib.cumsum(x["a"], 0)


def pairs(x: Arrays, lib: Library) -> Any:
    """Sum of all distances between points."""
    d = x["p"][:, None] - x["p"][None]
    return lib.sqrt((d * d).sum(-1)).sum()


def polynomial(x: Arrays, lib: Library) -> Any:
    """Degree 15 by Horner: 30 operations."""
    a = x["a"]
    p = a * COEFFICIENTS[0] + COEFFICIENTS[1]
    for c in COEFFICIENTS[2:]:
        p = p * a + c
    return p


def complex_multiply(x: Arrays, lib: Library) -> Any:
    """Of two complex vectors."""
    return x["c"] * x["d"]


def transposed(x: Arrays, lib: Library) -> Any:
    """m + m.T."""
    return x["m"] + x["m"].T


def short_rows(x: Arrays, lib: Library) -> Any:
    """Maximum of rows of 16."""
    return lib.top(x["m"].reshape(-1, 16))


def row_sums(x: Arrays, lib: Library) -> Any:
    """m.sum(axis=1)."""
    return lib.total(x["m"])


def deviations(x: Arrays, lib: Library) -> Any:
    """Standard deviation of rows."""
    d = x["m"] - lib.mean(x["m"])
    return lib.sqrt(lib.mean(d * d))


def middle(x: Arrays, lib: Library) -> Any:
    """Sum over the middle of three axes."""
    return x["m"].reshape(256, 1024, 256).sum(1)


def taken(x: Arrays, lib: Library) -> Any:
    """Rows by an index."""
    return x["m"][x["i"]] * 2


def kernel_sums(x: Arrays, lib: Library) -> Any:
    """Sums of exp(-distance^2) over points."""
    p = x["p"][:4096]
    d = p[:, None] - p[None]
    return lib.exp(-(d * d).sum(-1)).sum(1)


class Row(NamedTuple):
    """An expression and what it costs at least."""

    program: Callable[[Arrays, Library], Any]
    elements: int  # real numbers read and written, each once
    needs: str  # arrays
    native: str  # kernel of bench/native, if one is written


ROWS = {
    "triad": Row(triad, 3 * N, "ab", "triad"),
    "daxpy in place": Row(daxpy, 3 * N, "ya", "daxpy"),
    "Black-Scholes": Row(black_scholes, 3 * N, "ab", "black_scholes"),
    "dot": Row(dot, 2 * N, "ab", "dot"),
    "eos": Row(eos, 4 * N, "abz", "eos"),
    "5-point stencil": Row(stencil5, 2 * N, "m", "stencil5"),
    "7-point stencil": Row(stencil7, 2 * N, "q", "stencil7"),
    "softmax": Row(softmax, 2 * N, "m", "softmax"),
    "layer norm": Row(layer_norm, 2 * N, "m", "layer_norm"),
    "(A*A).sum(axis=0)": Row(column_sum, N, "m", "column_sum"),
    "sum": Row(total, N, "a", "sum"),
    "argmax": Row(argmax, N, "a", "argmax"),
    "variance": Row(variance, N, "a", "variance"),
    "cumsum": Row(cumsum, 2 * N, "a", "cumsum"),
    "pair distances": Row(pairs, 3 * POINTS, "p", "pairs"),
    "polynomial": Row(polynomial, 2 * N, "a", "polynomial"),
    "complex multiply": Row(complex_multiply, 6 * N, "cd", "complex_multiply"),
    "m + m.T": Row(transposed, 2 * N, "m", "transposed"),
    "rows of 16": Row(short_rows, N + N // 16, "m", "short_rows"),
    "row sums": Row(row_sums, N, "m", ""),
    "row deviations": Row(deviations, N, "m", ""),
    "middle axis": Row(middle, N, "m", ""),
    "taken rows": Row(taken, 2 * N, "mi", ""),
    "kernel sums": Row(kernel_sums, 3 * 4096, "p", ""),
}
