"""Lines of numbers, scans of ufuncs, and the options that NumPy's own code passes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offarray as np
from offarray.runtime.config import config

from .compare import same


@pytest.fixture(autouse=True)
def _large(_small_work: None) -> Iterator[None]:
    """Everything is large work, and nothing may fall back."""
    with config(eager_size=0, fallback="raise"):
        yield


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.integers(-9, 9), st.floats(-1e6, 1e6)), st.one_of(st.integers(-9, 9), st.floats(-1e6, 1e6)),
    st.integers(0, 300), st.booleans(),
)  # fmt: skip
def test_linspace(start: Any, stop: Any, num: int, endpoint: bool) -> None:
    want = numpy.linspace(start, stop, num, endpoint)
    got = np.linspace(start, stop, num, endpoint)
    same(got, want)
    assert got.size == 0 or not endpoint or num < 2 or got[-1] == stop


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_accumulate(name: str, dtype: str) -> None:
    x = (numpy.random.default_rng(2).random((30, 7)) * 3).astype(dtype)
    for axis in (0, 1, -1):
        want = getattr(numpy, name).accumulate(x, axis)
        same(getattr(np, name).accumulate(np.array(x), axis), want, 1e-5 if dtype == "f4" else 1e-12)
    same(getattr(np, name).accumulate(np.array(x[0]) + 1), getattr(numpy, name).accumulate(x[0] + 1), 1e-5)
    if dtype[0] == "f":
        x[4, 2] = numpy.nan
        same(getattr(np, name).accumulate(np.array(x)), getattr(numpy, name).accumulate(x), 1e-5)


COMPOSITIONS: dict[str, Any] = {
    "nanstd": lambda np, x, m: (np.nanstd(x), np.nanvar(m, axis=0), np.nanstd(m, axis=1, ddof=1)),
    "kron": lambda np, x, m: np.kron(m[:4, :4], m[:3, :2]),
    "vander": lambda np, x, m: (np.vander(x[:20], 4), np.vander(x[:20], 4, increasing=True)),
    "cumulative": lambda np, x, m: (
        np.cumsum(x, out=np.zeros(200)),
        np.add.accumulate(x, out=np.zeros(200)),
        np.cumulative_sum(x),
        np.cumulative_prod(m, axis=1),
        np.cumulative_sum(m, axis=0),
    ),
    "out": lambda np, x, m: (np.multiply(x, 2.0, out=...), np.add(x.sum(), 1.0, out=...), np.add(x, x, subok=False)),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions_without_fallback(name: str) -> None:
    x = numpy.random.default_rng(3).random(200)
    if name == "nanstd":
        x[::7] = numpy.nan
    m = x.reshape(20, 10)
    same(COMPOSITIONS[name](np, np.array(x), np.array(m)), COMPOSITIONS[name](numpy, x.copy(), m.copy()), 1e-12)
