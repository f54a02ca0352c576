"""Axes of a few elements: their folds are written out, and so are outputs along them that share work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from tests import twice
from tests.twice import MODULE as np

pytestmark = pytest.mark.skipif(twice.SELF, reason="NumPy fuses nothing")


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with np.config(faults="deferred", eager_size=100):
        yield


def check(f: Callable[[Any, Any], Any], x: numpy.ndarray) -> None:
    wanted, found = f(numpy, x), f(np, np.array(x))
    if type(found) is not list:
        wanted, found = [wanted], [found]
    np.evaluate(*found)  # together: kernels of several outputs
    for want, got in zip(wanted, found, strict=True):
        made = numpy.asarray(got)
        assert made.dtype == want.dtype
        assert made.shape == want.shape
        if want.dtype.kind in "fc":
            tolerance = 1e-5 if want.dtype in ("f4", "c8") else 1e-13
            numpy.testing.assert_allclose(made, want, rtol=tolerance, atol=tolerance * abs(want).max())
        else:
            numpy.testing.assert_array_equal(made, want)


FOLDS = ("sum", "prod", "max", "min", "any", "argmax", "mean")


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?"])
@pytest.mark.parametrize("count", [3, 4])
def test_folds_of_a_few(dtype: str, count: int) -> None:
    rng = numpy.random.default_rng(2)
    for shape, axis in (((213, count), 1), ((20, count, 11), 1)):
        x = (rng.random(shape) * 3).astype(dtype)
        check(lambda m, x, axis=axis: [getattr(x | x if dtype == "?" else x + x, f)(axis=axis) for f in FOLDS], x)


def test_folds_of_halves() -> None:
    x = (numpy.random.default_rng(2).random((213, 3)) * 3).astype("f2")
    check(lambda m, x: [(x + x).max(axis=1), (x + x).argmax(axis=1)], x)


def test_what_is_not_a_number_and_signs_of_zero() -> None:
    x = numpy.array([[0.0, 0.0, numpy.nan], [0.0, 0.0, 0.0], [-0.0, -0.0, -0.0], [numpy.inf, 1.0, -1.0]] * 60)
    for name in ("max", "min", "sum"):
        want = getattr(-x, name)(axis=1)
        got = numpy.asarray(getattr(-np.array(x), name)(axis=1))
        numpy.testing.assert_array_equal(got, want)
        numpy.testing.assert_array_equal(numpy.signbit(got[1:3]), numpy.signbit(want[1:3]))


def forces(m: Any, x: Any) -> Any:
    d = x[None] - x[:, None]
    r = (d * d).sum(axis=2) + 1e-3
    return (d * (x[:, 0] / (r * m.sqrt(r)))[:, :, None]).sum(axis=1)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "forces": forces,
    "unit vectors": lambda m, x: x / m.sqrt((x * x).sum(axis=1, keepdims=True)),
    "softmax": lambda m, x: m.exp(x) / m.exp(x).sum(axis=1, keepdims=True),
    "centred": lambda m, x: x - x.mean(axis=1, keepdims=True),
    "of sums": lambda m, x: (x * x).sum(axis=1).sum(),
    "rows of weights": lambda m, x: x.T * m.exp(x[:, 0]),
    "both": lambda m, x: ((x - x.mean(axis=0)) * x.sum(axis=1)[:, None]).std(axis=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_programs(name: str, dtype: str, count: int) -> None:
    x = numpy.random.default_rng(8).random((230, count)).astype(dtype) + 0.5
    for _ in range(2):
        check(PROGRAMS[name], x)


def test_forces_are_one_kernel() -> None:
    x = np.array(numpy.random.default_rng(8).random((150, 3)))
    made = forces(np, x)
    with np.expect(kernels=1):
        np.evaluate(made)


def test_an_overflow_is_told_once_of_the_fold() -> None:
    x = numpy.ones((300, 3))
    x[5], x[7, 1:] = 1e308, 1e308
    with pytest.warns(RuntimeWarning) as told:
        np.evaluate((np.array(x) * 1.0).sum(axis=1))
    assert [str(w.message) for w in told] == ["overflow encountered in reduce"]


def test_interleaved_parts_of_one_array() -> None:
    x = numpy.arange(600.0)

    def f(m: Any, x: Any) -> Any:
        y = x + 0
        y[::2] += y[1::2] * 2
        y[1::3] *= y[::3] + 1
        y[:200] += y[100:300]
        return y

    check(f, x)
