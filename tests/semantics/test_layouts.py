"""Operations on operands of several layouts, folds, choices and writes into parts, all recorded, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray
from offarray.runtime import trace

RECORDED = """
m + v | c * r | c - v | t * m | m.T + r.T | m.T * k.T | m + i | i1 + g | m * f8 | g * f4 | g * f8 | i * i8
m * True | m[::-1] + 1 | m[:, ::2] * c | v[:, None] * v | m[1:-1, 1:-1] + v[2:] | m - m.mean() | m.mean() - m
m / m.sum(1, keepdims=True) | m * np.asarray(2.5) | (m > 3) & (i > 3)[0] | ~(m.T > 3) | abs(m.T) | np.sqrt(m.T)
np.maximum(m, v) | np.minimum(0, m.T) | np.hypot(c, r) | np.add(z, 1j) + v | m.sum() | np.sum(m, 0)
m.T.sum(axis=1) | t.sum(axis=(0, 2)) | t.sum(axis=1, keepdims=True) | t.T.max(axis=-1) | t.min() | i.sum()
u.sum(0) | b.sum() | u.prod(axis=1) | np.mean(i) | m.mean(axis=0) | g.mean(keepdims=True) | np.any(m > 5)
b.all(axis=0) | m.T.argmax() | np.argmin(m, 1) | m.T.argmax(axis=0) | (m * 2).sum() | c.sum(axis=1) | g.max(axis=0)
np.where(m > 3, m, k) | np.where(m > 3, v, 0) | np.where(b, i, 0.5) | np.where(b, g, 2)
np.where(v > 3, c, numpy.float32(1)) | np.where(m > m.mean(), True, i) | np.where(m.T > 3, m.T, 0.0) | m.clip(2, 4)
np.clip(g, 1.5, f8) | np.clip(m, -0.0, 0.0) | i.clip(2, 4) | m.astype("f4") | i.astype(float)
m.astype(numpy.int32) | m.T.astype("f4") | m.astype(bool) | g.astype(complex)
"""
WRITTEN = """
m[1:-1] = k[2:] * 0.5 | m[1:-1, 1:-1] = k[:-2, 1:-1] | m[1:-1] = m[2:] * 1.5 | m[:, 0] = v[:6] | m[0] = v | m[0] = 1
m[:, 1:3] = c | m[2, 3] = 7.5 | m[...] = k * 2 | m[:] = k | m[:] = v | m[:] = 3 | m[::2] = k[::2].T.T
m.T[1:3] = c[:, 0] | m[::-1] = k * 1.0 | m[1:-1] += k[1:-1] * 0.5 | m[:, 1] *= 2 | m[1:] -= m[:-1] | m += v
m += m.T[0, :1] | m *= m.max() | m -= f8 | v[1:] += v[:-1] | g[1:] = m[1:] | i[1:] = 4 | i[0] += i[1]
np.add(m, v, out=k) | np.multiply(m, k, out=m) | np.add(m[1:], 1, out=k[:-1]) | np.sqrt(m, out=k) | m[0:0] = 1
m[None, 1:] = k[1:] | m[-1] = m[0] + m[1] | m[:, :1] = m[:, 1:2] | m[1:3][:, 2:4] = 0.5 | z[1:] = m[1:] * 2
t[1] = m | t[:, 1:-1] = m[1:-1] + v | t[0, :, 1] -= 1 | m[1:, 1:] = m[:-1, :-1] + m[1:, :-1]
"""


def split(text: str) -> list[str]:
    """The statements of a table."""
    return [each.strip() for row in text.strip().splitlines() for each in row.split("|")]


def names(np: Any) -> dict[str, Any]:
    """Operands of several shapes and types, by name."""
    rng = numpy.random.default_rng(3)
    made = {name: rng.random(shape) * 5 + 1 for name, shape in
            {"m": (6, 7), "k": (6, 7), "v": (7,), "c": (6, 1), "r": (1, 7), "t": (3, 6, 7)}.items()}  # fmt: skip
    made |= {"i": rng.integers(1, 6, (6, 7)), "i1": rng.integers(1, 6, 7, "i2"), "g": (made["m"] + 1).astype("f4")}
    made |= {"u": rng.integers(0, 200, (6, 7), "u1"), "b": made["m"] > 3, "z": made["m"] * 1j}
    held = {name: np.array(value) for name, value in made.items()}
    return {**held, "np": np, "numpy": numpy, "f8": numpy.float64(1.5), "f4": numpy.float32(2), "i8": numpy.int64(3)}


@pytest.fixture(autouse=True)
def _recorded() -> Iterator[None]:
    """Everything is recorded."""
    with offarray.config(eager_size=0):
        yield


def pending(np: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The same operands, as values that nobody has asked for yet."""
    return {name: v * 1 if type(v) is np.ndarray and v.dtype != bool else v for name, v in given.items()}


def alike(made: Any, wanted: Any) -> None:
    """Assert that both are the same array or number."""
    assert made.dtype == wanted.dtype and made.shape == wanted.shape
    if isinstance(wanted, numpy.ndarray):
        assert made.strides == wanted.strides
    numpy.testing.assert_allclose(numpy.asarray(made), wanted, rtol=1e-6)


@pytest.mark.parametrize("waits", [False, True], ids=["in memory", "pending"])
@pytest.mark.parametrize("row", range(0, len(split(RECORDED)), 3))
def test_operations(row: int, waits: bool) -> None:
    """Values, types, shapes and strides are NumPy's."""
    for statement in split(RECORDED)[row : row + 3]:
        results = []
        for np in (numpy, offarray):
            given = pending(np, names(np)) if waits else names(np)
            before = trace.counters["operations"]
            results.append(eval(statement, given))
        assert trace.counters["operations"] > before, statement
        alike(results[1], results[0])


@pytest.mark.parametrize("waits", [False, True], ids=["in memory", "pending"])
@pytest.mark.parametrize("row", range(0, len(split(WRITTEN)), 3))
def test_writes(row: int, waits: bool) -> None:
    """Every array is what it is with NumPy after a write, and what was recorded before it reads the old values."""
    for statement in split(WRITTEN)[row : row + 3]:
        found = []
        for np in (numpy, offarray):
            given = pending(np, names(np)) if waits else names(np)
            seen = given["m"][1:3]
            former = given["m"] * 2.0 + given["v"]
            exec(statement, given)
            found.append([*(given[name] for name in "mkvgizt"), seen, former])
        for made, wanted in zip(found[1], found[0], strict=True):
            alike(made, wanted)


def test_a_loop_of_writes() -> None:
    """The same statements again and again, which replay what the first did."""
    found = []
    for np in (numpy, offarray):
        u, w = names(np)["m"], names(np)["k"]
        for n in range(5):
            w[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            u[1:-1] += w[1:-1] * 0.1
            u[0] = n
            w[:, 0] = w[:, 1]
        found.append((u, w))
    alike(found[1][0], found[0][0])
    alike(found[1][1], found[0][1])


def test_a_view_is_written_as_a_whole() -> None:
    """Nobody has asked for its shape before."""
    found = []
    for np in (numpy, offarray):
        a = np.arange(42.0).reshape(6, 7) * 2
        v = np.transpose(a)
        v[...] = 7
        v[-1] = 3
        found.append((a, v))
    alike(found[1][0], found[0][0])
    alike(found[1][1], found[0][1])


def _warned(np: Any) -> list[tuple[str, int]]:
    given = names(np)
    m, v, i = given["m"], given["v"], given["i"]
    zero, far = v * 0.0, m * 1e300
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        m / zero
        np.log(-m.T)
        far.astype(numpy.int32)
        far * far[0]
        i // (i[:, :1] * 0)
        (far * 1e8).sum()
        m[1:] = m[1:] / zero
        np.divide(m, zero, out=m)
        m[:, 1:] /= zero[1:]
    start = _warned.__code__.co_firstlineno
    return [(str(w.message), w.lineno - start) for w in found if issubclass(w.category, RuntimeWarning)]


def test_warnings() -> None:
    """What NumPy warns of, at the line of the user's statement."""
    assert sorted(_warned(offarray)) == sorted(_warned(numpy))


@pytest.mark.parametrize("statement", [
    "m + v[1:]", "m[9] = 1", "m[:, 1:3] = v", "m[1:] = k", "m += t", "m.sum(axis=2)", "m.sum(axis=(0, 0))",
    "m[1:] += k",
    "np.add(m, t, out=m)", "np.where(m > 1, m, v[1:])", "m[1:] = 'a'", "i[1:] += m[1:]", "np.add(m, 1, out=i)",
    "m[1:] = z[1:] * 'a'", "np.clip(m, 1, v[1:])", "m[1, 2, 3] = k",
])  # fmt: skip
def test_errors(statement: str) -> None:
    """What NumPy refuses is refused, and nothing is written."""
    found = []
    for np in (numpy, offarray):
        given = names(np)
        given["m"] = m = given["m"] * 1.0
        with pytest.raises(Exception) as caught:
            exec(statement, given)
        found.append((caught.type, numpy.array(m).tolist()))
    assert found[0] == found[1]


def test_what_may_not_be_written_stays() -> None:
    """Arrays that are read-only, and memory that somebody outside looks at."""
    m = offarray.array(names(numpy)["m"]) * 1.0
    m.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        m[1:] = m[:-1] * 2
    with pytest.raises(ValueError, match="read-only"):
        m[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        m[1:] += 1.0
    k = offarray.array(names(numpy)["k"]) * 1.0
    outside = numpy.asarray(k)
    k[1:] = k[:-1] * 2.0
    k[0] = 5.0
    k += k[0]
    numpy.testing.assert_array_equal(outside, numpy.asarray(k))
