"""`var` and `std` with a mean that is given: NumPy's values, types and errors, and the bits of those without."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config


@pytest.fixture(autouse=True)
def _recorded() -> Iterator[None]:
    with config(eager_size=0):
        yield


def outcome(np: Any, x: Any, how: str, axis: Any, mean: Any, options: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = getattr(np, how)(x, axis=axis, mean=mean, **options)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
    return numpy.asarray(made)


@pytest.mark.parametrize("how", ["var", "std"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "c16", "i4", "?", "u1"])
def test_mean_of_the_elements(kind: str, axis: Any, how: str) -> None:
    x = (numpy.random.default_rng(3).normal(size=(6, 11, 5)) * 9).astype(kind)
    mine = np.array(x)
    for options in ({}, {"ddof": 1}, {"keepdims": True}, {"correction": 2.0}):
        want = outcome(numpy, x, how, axis, numpy.mean(x, axis=axis, keepdims=True), options)
        got = outcome(np, mine, how, axis, np.mean(mine, axis=axis, keepdims=True), options)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        numpy.testing.assert_allclose(got, want, rtol={"f2": 1e-2, "f4": 1e-5}.get(kind, 1e-12))
        if kind in ("f8", "f4", "c16"):
            numpy.testing.assert_array_equal(got, numpy.asarray(getattr(np, how)(mine, axis=axis, **options)))


@pytest.mark.parametrize(
    "mean", [0.0, 2, [[1.0], [2.0], [3.0]], numpy.ones((3, 1)), numpy.ones(4), numpy.ones((2, 4)), "x"]
)
@pytest.mark.parametrize("dtype", [None, "f4"])
def test_any_other_mean(mean: Any, dtype: Any) -> None:
    x = numpy.arange(12.0).reshape(3, 4)
    mine = np.array(mean) if isinstance(mean, numpy.ndarray) else mean
    want = outcome(numpy, x, "std", 1, mean, {"dtype": dtype})
    got = outcome(np, np.array(x), "std", 1, mine, {"dtype": dtype})
    if isinstance(want, tuple):
        assert got[0] is want[0]
    else:
        numpy.testing.assert_allclose(got, want)
        assert got.dtype == want.dtype


def test_a_given_mean_is_recorded() -> None:
    x = np.arange(3000.0).reshape(50, 60)
    mean = x.mean(axis=1, keepdims=True)
    with np.expect(fallbacks=0):
        assert np.std(x, axis=1, mean=mean).shape == (50,)
