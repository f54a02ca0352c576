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


@pytest.mark.parametrize("dtype", ["f8", "i1", "c16", "?"])
@pytest.mark.parametrize(
    ("shift", "axis"),
    [
        (3, None), (-1, 0), (2, 1), (0, 1), (25, -1), ((1, -2), (0, 1)), ((1, 2), (1, 1)), (3, (0, 2)),
        ((1, 2, 3), (0, 1, 2)), (numpy.int64(4), 0), (-7, 2),
    ],
)  # fmt: skip
def test_roll(shift: Any, axis: Any, dtype: str) -> None:
    x = (numpy.random.default_rng(4).random((4, 5, 6)) * 9).astype(dtype)
    for form in (
        lambda x: x, lambda x: x[:, ::-1], lambda x: x.T if axis is None else x,
        lambda x: x[..., ::2] if axis != 2 else x,
    ):  # fmt: skip
        want = numpy.roll(form(x), shift, axis)
        got = np.roll(form(np.array(x)), shift, axis)
        same(got, want)
        assert got.base is None or axis is None
        pending = np.roll(form(np.array(x)).astype("c16") * 2, shift, axis)
        same(pending, numpy.roll(form(x).astype("c16") * 2, shift, axis))
    y = np.array(x)
    rolled = np.roll(y, shift, axis)
    before = x.copy()
    y[...] = 0
    same(rolled, numpy.roll(before, shift, axis))


@pytest.mark.parametrize(("shift", "axis"), [(1, 3), ((1, 2, 3), (0, 1)), ("a", 0)])
def test_errors_of_roll(shift: Any, axis: Any) -> None:
    x = numpy.zeros((3, 4))
    with pytest.raises(Exception) as want:
        numpy.roll(x, shift, axis)
    with pytest.raises(type(want.value)) as got:
        np.roll(np.array(x), shift, axis)
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("shape", [40000, (200, 300), (0, 5), (1 << 16,)])
@pytest.mark.parametrize("dtype", ["f8", "i4", "c8", "U3", "O"])
def test_empty_takes_memory_of_the_pool(shape: Any, dtype: str) -> None:
    x = np.empty(shape, dtype)
    want = numpy.empty(shape, dtype)
    assert (x.shape, x.dtype, x.strides, x.base) == (want.shape, want.dtype, want.strides, None)
    assert x.flags.owndata == want.flags.owndata
    assert x.flags.writeable
    if dtype == "f8":
        x[...] = 2.0
        assert x.sum() == 2.0 * x.size


MOVES: dict[str, Any] = {
    "repeat": lambda np, x: (np.repeat(x, 3), x.repeat(2), np.repeat(x, 2, axis=0), np.repeat(x, 4, axis=-1),
        x.T.repeat(2, 1)),
    "tile": lambda np, x: (np.tile(x, 3), np.tile(x, (2, 1)), np.tile(x[0], (2, 3)), np.tile(x * 2, 2)),
    "outer": lambda np, x: (np.outer(x[0], x[1]), np.outer(x, x[0]), np.outer(x.T, x[:, 0] * 2)),
    "copy": lambda np, x: (x.copy(), np.copy(x), np.array(x), x.T.copy(), x.T.copy("K"), x[::2, ::-1].copy(),
        np.array(x.T)),
    "array": lambda np, x: (np.array(x, ndmin=4), np.array(x, ndmin=1), np.array(x, subok=True),
        np.array(x, "f4", ndmin=3)),
    "joins": lambda np, x: (
        np.concatenate([x, x * 2]), np.concatenate([x, x], 1), np.concatenate([x.T, x.T]), np.stack([x, x], 1),
        np.hstack([x, x]), np.vstack([x[0], x[1]]), np.concatenate([x, x.astype("f4")]), np.append(x, x),
    ),
    "zeros": lambda np, x: (np.zeros_like(x), np.zeros_like(x.T), np.zeros_like(x, dtype="i4"), np.zeros_like(x * 2)),
    "grids": lambda np, x: (*np.meshgrid(x[0], x[:, 0]), *np.meshgrid(x[0], x[1], indexing="ij", sparse=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moving_elements(name: str) -> None:
    x = numpy.random.default_rng(6).random((7, 9))
    want = MOVES[name](numpy, x.copy())
    got = MOVES[name](np, np.array(x))
    same(got, want, 1e-12)
    for g, w in zip(got, want, strict=True):
        assert (g.flags.c_contiguous, g.flags.f_contiguous) == (w.flags.c_contiguous, w.flags.f_contiguous)
        assert g.flags.writeable == w.flags.writeable


def test_moved_elements_are_those_of_the_statement() -> None:
    def body(np: Any, x: Any) -> Any:
        copies = [x.copy(), np.repeat(x, 2), np.tile(x, 2)]
        copies += [np.concatenate([x, x]), np.outer(x[0], x[1]), np.zeros_like(x)]
        x[1:3] = 5.0
        copies[0][0] = 7.0
        copies[5][2:4] = x[2:4]
        return *copies, x

    x = numpy.random.default_rng(6).random((7, 9))
    same(body(np, np.array(x)), body(numpy, x.copy()))


@pytest.mark.parametrize(
    "call",
    [
        lambda np, x: np.repeat(x, -1), lambda np, x: np.repeat(x, 2, axis=3), lambda np, x: np.repeat(x, [1, 2]),
        lambda np, x: np.concatenate([x, x[0]]), lambda np, x: np.concatenate([x, x], 5), lambda np, x: x.copy("Z"),
        lambda np, x: np.concatenate([x, x[:, :2]]), lambda np, x: np.array(x, ndmin=-1),
        lambda np, x: np.repeat(x, "a"),
        lambda np, x: np.concatenate([]), lambda np, x: np.stack([x, x[0]]), lambda np, x: np.array(x, ndmin=99),
    ],
)  # fmt: skip
def test_errors_of_moving_are_numpys(call: Any) -> None:
    x = numpy.zeros((3, 4))
    try:
        want = call(numpy, x)
    except Exception as error:
        with pytest.raises(type(error)) as got:
            call(np, np.array(x))
        assert str(got.value) == str(error)
    else:
        same(call(np, np.array(x)), want)
