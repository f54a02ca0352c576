"""Order statistics, einsum, products of vectors and convolutions: NumPy's values, types and errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offarray as np
from offarray import _statistics
from offarray.runtime.config import config

from .compare import told, twice

SMALL = settings(max_examples=25, deadline=None)


@pytest.fixture(autouse=True)
def _routines(_small_work: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is large work, and small samples say where ranks lie."""
    monkeypatch.setattr(_statistics, "_SAMPLE", 16)
    monkeypatch.setattr(_statistics, "_SPREAD", 3.0)
    with config(eager_size=0):
        yield


def _data(seed: int, size: int, dtype: str, form: int) -> Any:
    rng = numpy.random.default_rng(seed)
    x = rng.normal(size=size) * 100
    if form == 1:
        x = numpy.round(x / 50)  # ties
    elif form == 2:
        x = numpy.sort(x)[::-1]
    elif form == 3:
        x = numpy.exp(x / 5)  # far from even
    if form == 4 and dtype[0] == "f":
        x[:: max(size // 5, 1)] = numpy.inf
    return x.astype(dtype)


@SMALL
@given(
    st.integers(0, 99), st.integers(1, 400), st.sampled_from(["f8", "f4", "i8", "i4"]), st.integers(0, 4),
    st.lists(st.integers(0, 100), min_size=1, max_size=4),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_order_statistics(seed: int, size: int, dtype: str, form: int, shares: list[int]) -> None:
    x = _data(seed, size, dtype, form)
    with numpy.errstate(all="ignore"):
        twice(lambda np, x: np.median(x), x)
        twice(lambda np, x: np.nanmedian(x), x)
        twice(lambda np, x: np.nanmedian(np.where(x > 50, np.nan, x)), x)
        twice(lambda np, x: np.percentile(x, shares), x)
        twice(lambda np, x: np.percentile(x, shares[0]), x)
        twice(lambda np, x: np.quantile(x, shares[0] / 100), x)
        twice(lambda np, x: np.percentile(x.reshape(1, -1), shares, method="lower"), x)


def test_medians_of_rows_and_nans() -> None:
    x = numpy.random.default_rng(1).normal(size=(40, 13))
    twice(lambda np, x: (np.median(x, axis=1), np.median(x, axis=0), np.median(x[:, :12], axis=-1)), x)
    twice(lambda np, x: np.median(x, axis=1, keepdims=True), x)
    x[3, 5] = numpy.nan
    twice(lambda np, x: np.median(x, axis=1), x)
    twice(lambda np, x: (np.median(x), np.percentile(x, 30), np.quantile(x, [0.2, 0.5])), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda np, x: np.percentile(x, 101), lambda np, x: np.quantile(x, -0.1),
        lambda np, x: np.quantile(x, [0.1, 2.0]),
        lambda np, x: np.median(x, axis=4), lambda np, x: np.percentile(x, 5, method="nonsense"),
        lambda np, x: np.einsum("ij,j", x, x), lambda np, x: np.einsum("i,j->k", x, x),
        lambda np, x: np.einsum("i,i->i", x, x[:5]), lambda np, x: np.dot(x, x[:5]), lambda np, x: np.inner(x, x[:5]),
        lambda np, x: np.convolve(x, x[:0]), lambda np, x: np.correlate(x, x[:3], mode="nonsense"),
        lambda np, x: np.convolve(x.reshape(2, -1), x[:3]),
    ],
)  # fmt: skip
def test_errors_are_numpys(call: Any) -> None:
    twice(call, numpy.arange(90.0))


EINSUMS = (
    "ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,kj->ik", "ji,jk->ik", "ij,ij->i", "ij,ij->", "ij,ij", "ij,ij->ij",
    "ij,ij->ji", "ij,j->i", "ij,i->j", "ij,j", "ij->i", "ij->j", "ij->", "ij->ji", "ij,jk->i", "ij,jk->k", "ij,jk->",
    "i,j->ij", "i,j", "i,i->i", "i,i", "ij,jkl->ikl", "bij,bjk->bik", "bij,bjk->kbi", "bij,bik->bjk", "bij,bij->b",
    "bij,bj->bi", "bij,ji->b", "ij,kl->ijkl", "ijk->ki", "ii->i", "ii", "ij,jk,kl->il", "ij , jk -> ik", "...i,i",
    "i,i->",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum(subscripts: str, dtype: str) -> None:
    rng = numpy.random.default_rng(2)
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    operands = [(rng.normal(size=(5,) * len(t.replace("...", "xy"))) * 4).astype(dtype) for t in terms]
    if dtype == "c16":
        operands = [x + 1j * x[..., ::-1] for x in operands]
    rtol = {"f8": 1e-12, "f4": 1e-4, "c16": 1e-12}.get(dtype, 0.0)
    twice(lambda np, *v: np.einsum(subscripts, *v), *operands, rtol=rtol)
    twice(lambda np, *v: np.einsum(subscripts, *[x + x for x in v]), *operands, rtol=rtol)


def test_results_of_einsum_own_their_memory() -> None:
    x = np.array(numpy.arange(24.0).reshape(4, 6))
    made = np.einsum("ij,jk->ki", x, x.T)
    made[0, 0] = 5.0
    assert x[0, 0] == 0.0
    assert made.flags.writeable
    view = np.einsum("ij->ji", x)
    view[0, 1] = 7.0
    assert x[1, 0] == 7.0


@SMALL
@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from(["f8", "f4", "i8", "i4"]), st.booleans())
def test_convolution(n: int, m: int, dtype: str, pending: bool) -> None:
    rng = numpy.random.default_rng(n * 100 + m)
    x, taps = (rng.normal(size=n) * 9).astype(dtype), (rng.normal(size=m) * 9).astype(dtype)
    rtol = {"f8": 1e-12, "f4": 1e-4}.get(dtype, 0.0)
    for mode in ("valid", "same", "full"):

        def body(np: Any, x: Any, t: Any, mode: str = mode) -> Any:
            x = x + x if pending else x
            return np.convolve(x, t, mode), np.correlate(x, t, mode), np.convolve(x, [1, 2, 3], mode=mode)

        twice(body, x, taps, rtol=rtol)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u8", "c16", "?", "i1"])
def test_products_of_vectors(dtype: str) -> None:
    rng = numpy.random.default_rng(5)
    x, y = ((rng.normal(size=300) * 3).astype(dtype) for _ in range(2))
    rtol = {"f8": 1e-12, "f4": 1e-4, "c16": 1e-12}.get(dtype, 0.0)
    twice(lambda np, x, y: (np.dot(x, y), np.inner(x, y), x.dot(y), np.vdot(x, y), x @ y), x, y, rtol=rtol)
    twice(lambda np, x, y: np.dot(x + x, y), x, y, rtol=rtol)


@pytest.mark.parametrize("values", [[1e200], [numpy.inf, -numpy.inf], [numpy.inf, 0.0], [1.0]])
def test_warnings_of_products_are_numpys(values: list[float]) -> None:
    x = numpy.resize(numpy.array(values), 600)
    for call in (
        lambda np, x: np.dot(x, x[::-1]), lambda np, x: np.inner(x, x), lambda np, x: np.vdot(x, x),
        lambda np, x: np.einsum("i,i->", x, x), lambda np, x: np.convolve(x, x[:3]),
    ):  # fmt: skip
        said = told(call, x)
        assert said[0] == said[1]


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
def test_rounding_outer_products_and_lazy_scalars(dtype: str) -> None:
    x = (numpy.random.default_rng(7).normal(size=60) * 50).astype(dtype)
    if dtype == "c16":
        x = x + 1j * x[::-1]
    for decimals in (-1, 0, 1, 3):
        twice(lambda np, x, d=decimals: (np.round(x, d), x.round(d), np.around(x * 3, decimals=d)), x)
    twice(lambda np, x: (np.multiply.outer(x, x[:7]), np.add.outer(x[:6].reshape(2, 3), x[:4].reshape(2, 2))), x)
    twice(lambda np, x: np.subtract.outer(x[:5], 1), x)
    with config(fallback="raise"):
        m = np.array(x)
        np.multiply.outer(m, m)
        np.multiply(m, m, out=...)
        np.round(m) if dtype == "i8" else None
        if dtype[0] == "f":
            np.round(m, 2)
        if dtype != "i8":
            m /= m.sum()
            m *= m.sum()


def test_in_place_operators_take_lazy_scalars() -> None:
    def body(np: Any, x: Any) -> Any:
        x /= x.sum()
        y = x * 2
        y -= y.mean()
        k = np.arange(60)
        k += k.max()
        return x, y, k

    twice(body, numpy.arange(1.0, 61.0), rtol=1e-12)


def test_vectors_at_vectors_are_folds() -> None:
    x = np.evaluate(np.arange(400.0))
    np.synchronize()  # what other tests left
    before = np.stats()
    with config(faults="deferred"):
        total = (x + 1) @ x
    assert float(total) == float(numpy.dot(numpy.arange(400.0) + 1, numpy.arange(400.0)))
    after = np.stats()
    assert after["library_bytes"] == before["library_bytes"]
    assert after["kernels"] == before["kernels"] + 1


LAID = """
ij,jk->ik ij,jk->ki ij,ij->ij ij,ij->ji ij,j->ij ij,j->ji ij,ij->i ij,ij->j ij->ji ijk->ki ijk->ij ijk->ji ijk->kj
bij,bjk->bik bij,bjk->kbi i,j->ij i,j->ji ijk,jk->i ijk,ik->jk ijk,ik->kj ij,kj->ik ji,jk->ki ijk,kl->ijl ijk,kl->lij
ij,ik->ijk ij,jk ijk,ilk->jl ijk,ilk->lij
""".split()


def laid(x: Any, layout: int) -> Any:
    """A NumPy array in one of three layouts."""
    if layout == 0:
        return x
    axes = (1, 0, 2) if x.ndim == 3 and layout == 2 else tuple(range(x.ndim))[::-1]
    return numpy.ascontiguousarray(x.transpose(axes)).transpose(numpy.argsort(axes))


@pytest.mark.parametrize(("dtype", "eager_size"), [("f8", 0), ("i8", 64)])
@pytest.mark.parametrize("text", LAID)
def test_einsum_lies_in_memory_as_its_operands_do(text: str, dtype: str, eager_size: int) -> None:
    terms = text.partition("->")[0].split(",")
    extents = dict(zip("ijklb", (7, 11, 5, 6, 3), strict=True))
    rng = numpy.random.default_rng(1)
    for layouts in itertools.product(range(3), repeat=len(terms)):
        operands = [
            laid(rng.integers(1, 9, [extents[c] for c in term]).astype(dtype), layout)
            for term, layout in zip(terms, layouts, strict=True)
        ]
        want = numpy.einsum(text, *operands)
        with config(eager_size=eager_size):
            got = np.einsum(text, *[np.array(x, order="K") for x in operands])
            assert (got.shape, got.dtype, got.strides) == (want.shape, want.dtype, want.strides), layouts
            numpy.testing.assert_array_equal(got, want)
            assert (got.base is None, got.flags.owndata) == (
                want.base is None,
                want.flags.owndata,
            ) or want.base is not None
