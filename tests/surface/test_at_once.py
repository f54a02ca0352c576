"""Operands at hand that NumPy passes over in less time than recording takes: values, errors, warnings and order."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray._reach import SPAN
from offarray.runtime import trace
from offarray.runtime.config import config

EAGER = 100
SIZES = (EAGER // 2, EAGER * SPAN // 4, EAGER * SPAN * 2)  # small work, what is done at once, what is recorded


@pytest.fixture(autouse=True)
def _reach() -> Iterator[None]:
    with config(eager_size=EAGER, device="cpu"):
        yield


def same(found: Any, want: Any) -> None:
    """Values, types and the order in memory."""
    if type(want) in (tuple, list):
        for f, w in zip(found, want, strict=True):
            same(f, w)
        return
    a, b = numpy.asarray(found), numpy.asarray(want)
    assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    if isinstance(want, numpy.ndarray) and want.ndim > 1:
        steps = zip(want.shape, found.strides, want.strides, strict=True)
        assert all(extent == 1 or step == wanted for extent, step, wanted in steps)


CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "any": lambda np, x, m, i: [np.any(x > 5), np.any(x > 1e9), (x > 5).any(), np.logical_or.reduce(x > 5)],
    "all": lambda np, x, m, i: [np.all(x > 5), np.all(x < 1e9), (x < 1e9).all(), np.logical_and.reduce(x > -1)],
    "any of a table": lambda np, x, m, i: [np.any(x[: x.size // 2 * 2].reshape(2, -1) > 5, axis=(0, 1)), np.any(m)],
    "any kept": lambda np, x, m, i: [np.any(x > 5, keepdims=True), np.all(x > 5, where=m), np.any(x)],
    "nonzero": lambda np, x, m, i: [np.nonzero(m), np.flatnonzero(m), np.argwhere(m), m.nonzero(), np.where(m)],
    "nonzero numbers": lambda np, x, m, i: [np.nonzero(x), np.flatnonzero(i)],
    "compress": lambda np, x, m, i: [np.compress(m, x), np.extract(m, x), x[m], x.compress(m)],
    "fancy": lambda np, x, m, i: [x[i], x[i - x.size], x[i.astype("i4")], x[i.astype("u2")], x[i.astype("u8")], m[i]],
    "fancy views": lambda np, x, m, i: [x[::2][i // 2], x[::-1][i[::-1]], x[i[::3]]],
    "reversed": lambda np, x, m, i: [x[::-1] + x, x - x[::-1], -x[::-1], x[::-1] * 2, 2 / (x[::-1] + 1), x[::-1] > 3],
    "flipped": lambda np, x, m, i: [np.flip(x) + x, np.sqrt(np.flip(x)), np.add(np.flip(i), x), np.divmod(i[::-1], 3)],
    "flipped tables": lambda np, x, m, i: [
        np.flip(x[: x.size // 2 * 2].reshape(2, -1)) + 1, np.fliplr(x[: x.size // 2 * 2].reshape(2, -1).T) * 2,
    ],
    "chains": lambda np, x, m, i: [((x[::-1] + x) * 2 - x).sum(), np.where(x[::-1] > 3, x, -x)],
    "outer": lambda np, x, m, i: [
        np.outer(x[:20], x[: x.size // 80]), np.outer(i[:20], x[:30:3]), np.multiply.outer(x[:20], i[:4]),
        np.outer(x[:16].reshape(4, 4).T, m[:16].reshape(4, 4)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CALLS)
def test_calls_agree_with_numpy(name: str, size: int) -> None:
    rng = numpy.random.default_rng(size)
    values = rng.integers(0, 40, size).astype(float), rng.random(size) < 0.4, rng.integers(0, size, size)
    same(CALLS[name](np, *map(np.array, values)), CALLS[name](numpy, *values))


def test_reach() -> None:
    """What is done at once takes no kernel, but for the one that makes truth values; larger work is recorded."""
    told = []
    for size in SIZES[1:]:
        x = np.array(numpy.arange(float(size)))
        kernels = []
        m = np.evaluate(x > 5)
        for call in (
            lambda x, m: x[::-1] + x, lambda x, m: np.nonzero(m), lambda x, m: np.outer(x[:20], x[: x.size // 20]),
            lambda x, m: np.any(x > 5), lambda x, m: np.all(x > -5),
        ):  # fmt: skip
            before = trace.counters["kernels"], trace.counters["fallbacks"]
            made = call(x, m)
            np.evaluate(*(made if type(made) is tuple else (made,)))
            kernels.append(trace.counters["kernels"] - before[0])
            assert trace.counters["fallbacks"] == before[1]
        told.append(kernels)
    assert told[0] == [0, 0, 0, 1, 1] and all(told[1])


def test_errors_and_warnings_are_numpys() -> None:
    x = np.array(numpy.arange(float(SIZES[1])))
    for index in (SIZES[1], -SIZES[1] - 1):
        i = np.array(numpy.full(SIZES[1], index))
        with pytest.raises(IndexError) as want:
            numpy.arange(float(SIZES[1]))[numpy.full(SIZES[1], index)]
        with pytest.raises(IndexError) as found:
            x[i]
        assert str(found.value) == str(want.value)
    big = np.array(numpy.full(20, 1e300))
    for call, text in (
        (lambda: 1 / x[::-1], "divide by zero encountered in divide"),
        (lambda: np.log(np.flip(x)), "divide by zero encountered in log"),
        (lambda: np.outer(big, big), "overflow encountered in multiply"),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        line = inspect.getsourcelines(call)[1]
        assert [(str(w.message), w.filename, w.lineno) for w in told] == [(text, __file__, line)]
    with (
        numpy.errstate(divide="raise"),
        pytest.raises(FloatingPointError, match="divide by zero encountered in divide"),
    ):
        1 / x[::-1]
