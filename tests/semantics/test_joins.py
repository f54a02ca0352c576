"""Joining computed pieces: one node, whose pieces one kernel computes in their place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from tests import twice
from tests.twice import MODULE as np

pytestmark = pytest.mark.skipif(twice.SELF, reason="NumPy fuses nothing")

SHAPES = [(90, 70), (13, 31, 17), (4001,)]
DTYPES = ["f8", "f4", "i4", "c16", "?"]


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with np.config(faults="deferred", eager_size=100):
        yield


def pieces(shape: tuple[int, ...], dtype: str, count: int = 3) -> list[numpy.ndarray]:
    rng = numpy.random.default_rng(3)
    return [(rng.random(shape) * 9).astype(dtype) for _ in range(count)]


def same(got: Any, want: numpy.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.strides == want.strides
    assert got.base is None
    numpy.testing.assert_array_equal(numpy.asarray(got), want)


JOINS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "stack": lambda m, x: m.stack([a + a for a in x]),
    "last": lambda m, x: m.stack([a + a for a in x], axis=-1),
    "concatenate": lambda m, x: m.concatenate([a + x[0] for a in x], axis=-1),
    "transposed": lambda m, x: m.concatenate([(a + x[0]).T for a in x], axis=0),
    "one twice": lambda m, x: m.stack([x[0] + x[1]] * 3),
    "types": lambda m, x: m.stack([x[0] + x[0], m.ones_like(x[1], dtype="i8") + 2]),
    "reversed": lambda m, x: m.stack([(a + a)[::-1] for a in x]),
    "nested": lambda m, x: m.stack([m.stack([x[0] + x[1], x[1]]), m.stack([x[2], x[2] + x[0]])], axis=1),
    "with what is there": lambda m, x: m.stack([x[0], x[1] + x[1], x[2]]),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_memory(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    given = pieces(shape, dtype)
    for _ in range(2):  # planned, and replayed
        same(JOINS[name](np, [np.array(a) for a in given]), JOINS[name](numpy, given))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pieces_that_share_their_work_are_one_kernel(axis: int) -> None:
    given = pieces((60, 50), "f8", 9)
    want = numpy.stack([a * sum(given) for a in given], axis)
    arrays = [np.array(a) for a in given]

    def joined() -> Any:
        total = sum(arrays)
        return np.stack([a * total for a in arrays], axis)

    for _ in range(2):
        made = joined()
        with np.expect(kernels=1):
            np.evaluate(made)
        same(made, want)


def test_pieces_that_stay_alive_keep_their_values() -> None:
    given = pieces((80, 40), "f8")
    arrays = [np.array(a) for a in given]
    doubled = [a * 2 for a in arrays]
    made = np.stack(doubled)
    again = made + 1
    made[0] += 5
    want = numpy.stack([a * 2 for a in given])
    same(again, want + 1)
    for a, d in zip(given, doubled, strict=True):
        same(d, a * 2)
    want[0] += 5
    same(made, want)
    arrays[1][...] = 0
    same(made, want)


def test_a_piece_that_another_reads_through_a_window() -> None:
    (a,) = pieces((200, 30), "f8", 1)
    x = np.array(a)

    def f(m: Any, x: Any) -> Any:
        y = m.stack([x[1:] * 2, x[:-1] * 3])
        return y[0, 1:] + y[1, :-1], y.sum(axis=0), m.stack([y[0], y[1][::-1]])

    for got, want in zip(f(np, x), f(numpy, a), strict=True):
        numpy.testing.assert_allclose(numpy.asarray(got), want, rtol=1e-14)


def test_folds_are_pieces() -> None:
    given = pieces((70, 300), "f8", 4)
    made = np.stack([np.array(a).sum(axis=1) for a in given], axis=1)
    numpy.testing.assert_allclose(numpy.asarray(made), numpy.stack([a.sum(axis=1) for a in given], axis=1), rtol=1e-12)


def test_many_pieces_and_pieces_of_several_shapes() -> None:
    given = pieces((30, 20), "f8", 40)
    same(np.stack([np.array(a) + 1 for a in given]), numpy.stack([a + 1 for a in given]))
    rows = [given[0], given[1][:7], given[2][3:4]]
    same(np.concatenate([np.array(a) + 1 for a in rows]), numpy.concatenate([a + 1 for a in rows]))


def test_faults_of_pieces_are_told() -> None:
    given = pieces((50, 50), "f8", 2)
    given[1][7, 7] = 0.0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = np.stack([1.0 / np.array(a) for a in given])
        np.evaluate(made)
    assert [str(w.message) for w in told].count("divide by zero encountered in divide") == 1
    assert numpy.isinf(numpy.asarray(made)[1, 7, 7])
