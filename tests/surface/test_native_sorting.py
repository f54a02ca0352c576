"""Sorting, sets, choosing, placing and counting by routines: NumPy's values, types and errors, on small operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offarray as np
from offarray import _sorting
from offarray.runtime.config import config

from .compare import same, twice

FLOATS = ("f4", "f8")
INTEGERS = ("i4", "i8", "u4", "u8")
SMALL = settings(max_examples=25, deadline=None)


@pytest.fixture(autouse=True)
def _routines(_small_work: None) -> Iterator[None]:
    """Everything is large work of the host, and no sort is left to NumPy because it is faster."""
    before = dict(_sorting._faster)
    _sorting._faster.update(dict.fromkeys("ilqILQfd", True))
    with config(eager_size=0, device="cpu"):
        yield
    _sorting._faster.clear()
    _sorting._faster.update(before)


def _elements(dtype: str) -> Any:
    if dtype[0] == "f":
        width = 8 * int(dtype[1])
        some = st.sampled_from([0.0, 1.0, -1.0, 2.5, float("nan"), float("inf"), float("-inf")])
        return some | st.floats(width=width, allow_subnormal=True).map(lambda v: v + 0.0)
    info = numpy.iinfo(dtype)
    return st.integers(-3 if info.min else 0, 5) | st.integers(info.min, info.max)


def arrays(dtypes: Any = FLOATS + INTEGERS, shape: Any = None) -> Any:
    """Arrays of one axis with ties, NaNs, infinities and the ends of the integers."""
    sizes = st.integers(0, 70) if shape is None else shape
    return st.sampled_from(dtypes).flatmap(lambda d: hnp.arrays(d, sizes, elements=_elements(d)))


@SMALL
@given(arrays())
def test_sort_and_stable_argsort(x: Any) -> None:
    twice(lambda np, x: np.sort(x), x)
    twice(lambda np, x: np.sort(x, kind="stable"), x)
    twice(lambda np, x: np.argsort(x, kind="stable"), x)
    twice(lambda np, x: np.argsort(x, stable=True), x)


@SMALL
@given(arrays())
def test_argsort_sorts(x: Any) -> None:
    order = numpy.asarray(np.argsort(np.array(x)))
    numpy.testing.assert_array_equal(numpy.sort(order), numpy.arange(x.size))
    numpy.testing.assert_array_equal(x[order], numpy.sort(x))


def test_zeros_of_both_signs_keep_their_order_where_that_is_asked_for() -> None:
    x = numpy.array([0.0, -0.0, 1.0, -0.0, 0.0, -1.0] * 9)
    got = numpy.asarray(np.sort(np.array(x), kind="stable"))
    numpy.testing.assert_array_equal(numpy.signbit(got), numpy.signbit(numpy.sort(x, kind="stable")))
    numpy.testing.assert_array_equal(numpy.argsort(x, kind="stable"), np.argsort(np.array(x), kind="stable"))
    twice(lambda np, x: np.unique(x, return_inverse=True), x)


@SMALL
@given(arrays())
def test_sets(x: Any) -> None:
    twice(lambda np, x: np.unique(x), x)
    twice(lambda np, x: np.unique(x, return_index=True, return_inverse=True, return_counts=True), x)
    twice(lambda np, x: np.unique(x, return_counts=True, equal_nan=False), x)
    twice(lambda np, x: tuple(np.unique_counts(x)), x)
    twice(lambda np, x: tuple(np.unique_all(x)), x)
    twice(lambda np, x: np.isin(x, x[::3]), x)


def test_named_results_and_shapes_of_sets() -> None:
    x = numpy.arange(60).reshape(6, 10) % 7
    got, want = np.unique_all(np.array(x)), numpy.unique_all(x)
    assert type(got) is type(want)
    for g, w in zip(got, want, strict=True):
        same(g, w)
    twice(lambda np, x: np.unique(x, axis=0), x)
    twice(lambda np, x: np.sort(x, axis=None), x)
    twice(lambda np, x: np.sort(x, axis=0), x)
    twice(lambda np, x: np.argsort(x, axis=1, kind="stable"), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda np, x: np.sort(x, kind="nonsense"),
        lambda np, x: np.sort(x, kind="stable", stable=True),
        lambda np, x: np.sort(x, axis=3),
        lambda np, x: np.argsort(x, axis=3),
        lambda np, x: np.searchsorted(x, x, side="middle"),
        lambda np, x: np.digitize(x, [0.0, 2.0, 1.0]),
        lambda np, x: np.bincount(x),
        lambda np, x: np.bincount(x.astype(int) - 1),
        lambda np, x: np.bincount(x.astype(int), minlength=-1),
        lambda np, x: np.histogram(x, 0),
        lambda np, x: np.histogram(x * np.inf, 4),
        lambda np, x: np.interp(x, [1.0], [1.0, 2.0]),
        lambda np, x: x[np.array([0, 90])],
        lambda np, x: np.put(x, np.array([0, -91]), 1.0),
        lambda np, x: np.add.at(x, np.array([0, 90]), 1.0),
        lambda np, x: x[np.array([True, False])],
        lambda np, x: np.compress(np.array([True] * 91), x),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_errors_are_numpys(call: Any) -> None:
    twice(call, numpy.arange(90.0))


@SMALL
@given(st.data())
def test_searching(data: Any) -> None:
    table = numpy.sort(data.draw(arrays(shape=st.integers(1, 40))))
    x = data.draw(arrays())
    for side in ("left", "right"):
        twice(lambda np, t, x, side=side: np.searchsorted(t, x, side), table, x)
        twice(lambda np, t, x, side=side: t.searchsorted(x, side), table, x)
    twice(lambda np, t, x: np.digitize(x, t), table, x)
    twice(lambda np, t, x: np.digitize(x, t, right=True), table, x)
    twice(lambda np, t, x: np.digitize(x, t[::-1]), table, x)


@SMALL
@given(arrays(), arrays(), st.booleans())
def test_membership(x: Any, tests: Any, invert: bool) -> None:
    twice(lambda np, x, t: np.isin(x, t, invert=invert), x, tests)
    twice(lambda np, x, t: np.isin(x.reshape(1, -1), t, kind="sort"), x, tests)
    twice(lambda np, x, t: np.isin(x, t, kind="table"), x, tests)
    twice(lambda np, x, t: np.isin(x, [1, 2, 3]), x, tests)
    twice(lambda np, x, t: np.isin(x[::2], t[::-1]), x, tests)


@SMALL
@given(hnp.arrays("f8", st.integers(0, 50), elements=_elements("f8")), st.integers(2, 9), st.sampled_from([None, -7.5]))
def test_interpolation(x: Any, size: int, left: Any) -> None:
    grid = numpy.arange(size) * 0.5 - 1.0
    values = numpy.cos(grid)
    values[size // 2] = numpy.inf
    with numpy.errstate(all="ignore"):
        twice(lambda np, x, g, v: np.interp(x, g, v, left=left), x, grid, values)


@SMALL
@given(hnp.arrays(st.sampled_from(["i1", "i4", "i8", "u2"]), st.integers(0, 60), elements=st.integers(0, 20)))
def test_counting(x: Any) -> None:
    twice(lambda np, x: np.bincount(x), x)
    twice(lambda np, x: np.bincount(x, minlength=30), x)
    twice(lambda np, x: np.bincount(x, np.linspace(0, 1, x.size)), x)


@SMALL
@given(st.sampled_from(["f8", "f4", "i4", "i8"]), st.integers(1, 70), st.integers(1, 12), st.integers(0, 99))
def test_histogram(dtype: str, size: int, bins: int, seed: int) -> None:
    rng = numpy.random.default_rng(seed)
    x = numpy.where(rng.random(size) < 0.5, rng.normal(size=size) * 3, rng.integers(-3, 4, size)).astype(dtype)
    twice(lambda np, x: np.histogram(x, bins), x)
    twice(lambda np, x: np.histogram(x, bins, (-1, 2)), x)
    twice(lambda np, x: np.histogram(x, bins, density=True), x)


@SMALL
@given(st.data())
def test_choosing(data: Any) -> None:
    x = data.draw(arrays(shape=st.integers(0, 200)))
    mask = data.draw(hnp.arrays("?", x.shape))
    for body in (
        lambda np, x, m: x[m], lambda np, x, m: np.compress(m, x), lambda np, x, m: x.compress(m),
        lambda np, x, m: np.extract(m, x), lambda np, x, m: np.nonzero(m), lambda np, x, m: m.nonzero(),
        lambda np, x, m: np.flatnonzero(x), lambda np, x, m: np.argwhere(m), lambda np, x, m: np.where(m),
        lambda np, x, m: (x * 2)[m],
    ):  # fmt: skip
        twice(body, x, mask)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(131,), (7, 23), (2, 70, 3)])
def test_masks_of_every_type_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    rng = numpy.random.default_rng(3)
    x = (rng.normal(size=shape) * 9).astype(dtype)
    for share in (0.0, 0.3, 1.0):
        mask = rng.random(shape) < share
        twice(lambda np, x, m: (x[m], np.nonzero(m), np.argwhere(m), x.T[m.T], x[..., ::2][m[..., ::2]]), x, mask)
        twice(_write_masked, x, mask)


def _write_masked(np: Any, x: Any, m: Any) -> Any:
    kept = x.copy()
    view = x[::-1]
    x[m] = kept[m][::-1]
    view[m[::-1]] = kept[m] if x.dtype.kind == "b" else kept[m] + kept[m]
    return x, view, kept


@SMALL
@given(st.integers(1, 60), st.integers(0, 90), st.sampled_from(["i8", "i4", "u1"]), st.randoms())
def test_placing(extent: int, count: int, kind: str, random: Any) -> None:
    low = 0 if kind == "u1" else -extent
    index = numpy.array([random.randrange(low, extent) for _ in range(count)], kind)
    values = numpy.arange(float(count))
    twice(_placed, numpy.zeros(extent), index, values)


def _placed(np: Any, x: Any, index: Any, values: Any) -> Any:
    made = []
    for write in (
        lambda x: x.__setitem__(index, values), lambda x: x.__setitem__(index, 7),
        lambda x: np.put(x, index, values), lambda x: np.add.at(x, index, values), lambda x: np.add.at(x, index, 1),
        lambda x: np.subtract.at(x, index, values), lambda x: np.multiply.at(x, index, 2.0),
    ):  # fmt: skip
        fresh = x + 1
        view = fresh[:]
        write(fresh)
        made += [fresh, view, x[index]]
    return made


def test_writes_through_overlapping_memory_are_numpys() -> None:
    def body(np: Any, x: Any) -> Any:
        index = np.argsort(x, kind="stable")
        index[index] = index
        x[index] = x[::-1]
        x[index[:45]] = x[45:]
        return x, index

    twice(body, numpy.arange(90.0) % 13)


def test_pending_readers_see_the_old_value() -> None:
    def body(np: Any, x: Any) -> Any:
        later = x * 2
        x[np.array([1, 2, 3])] = np.array([7.0, 8.0, 9.0])
        np.add.at(x, np.array([1, 1]), 1.0)
        np.put(x, np.array([5]), np.array([1.5]))
        return later, x

    twice(body, numpy.arange(90.0))


def test_routines_are_counted_as_kernels_and_never_fall_back() -> None:
    x, k = np.array(numpy.random.default_rng(1).normal(size=500)), np.arange(500) % 9
    with config(fallback="raise"):
        for call in (
            lambda: np.sort(x), lambda: np.argsort(x), lambda: np.unique(k), lambda: x[x > 0], lambda: np.nonzero(k),
            lambda: np.searchsorted(np.sort(x), x), lambda: np.digitize(x, [0.0, 1.0]), lambda: np.bincount(k),
            lambda: np.histogram(x, 9), lambda: np.interp(x, [0.0, 1.0], [1.0, 2.0]), lambda: np.add.at(x, k, 1.0),
        ):  # fmt: skip
            before = np.stats()
            call()
            after = np.stats()
            assert after["kernels"] > before["kernels"]
            assert after["kernel_bytes"] > before["kernel_bytes"]
            assert after["library_bytes"] == before["library_bytes"]


@pytest.mark.parametrize("size", [5, 64, 333, 4099])
def test_parts_of_a_routine_meet(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with every routine divided among four threads."""
    monkeypatch.setattr("offarray._routine.SHARE", 16)
    monkeypatch.setattr("offarray._sorting._FEW", 0)
    rng = numpy.random.default_rng(size)
    x, k = rng.normal(size=size), rng.integers(-9, 9, size)
    table = numpy.sort(rng.normal(size=50))
    with config(threads=4):
        for share in (0.0, 0.1, 0.6, 1.0):
            mask = rng.random(size) < share
            twice(lambda np, x, m: (x[m], np.nonzero(m), np.flatnonzero(m), np.compress(m, x)), x, mask)
            twice(_write_masked, x, mask)
        twice(lambda np, x, k, t: (np.searchsorted(t, x), np.digitize(x, t), np.interp(x, t, t * t)), x, k, table)
        twice(lambda np, x, k, t: (np.bincount(k + 9), np.histogram(x, 7), np.unique(k), np.sort(k)), x, k, table)
        twice(lambda np, x, k, t: (np.argsort(k, kind="stable"), np.take(x, k), x[k]), numpy.resize(x, 99), k, table)
        taps = numpy.array([1.0, 2.0, -1.0])
        got, want = np.convolve(np.array(x), taps), numpy.convolve(x, taps)
        numpy.testing.assert_allclose(numpy.asarray(got), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("extent", "count"), [(100, 499), (499, 3), (2, 600), (600, 2)])
def test_counting_at_indices_never_falls_back(extent: int, count: int) -> None:
    rng = numpy.random.default_rng(count)
    index = rng.integers(0, extent, count)
    with config(eager_size=500, fallback="raise"):
        twice(lambda np, x, i: (np.add.at(x, i, 1.0), np.multiply.at(x, i, 2.0), x), rng.random(extent), index)
