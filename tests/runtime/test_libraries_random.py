"""Library steps on random shapes, views and values, on a device made of host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offarray as np
from offarray.runtime.config import config

from . import fakelibraries
from .librarycases import compare

FEW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
KINDS = st.sampled_from(["f8", "f4", "c16", "i8", "?", "u1", "f2"])


@pytest.fixture(scope="module")
def libraries() -> Iterator[Any]:
    with fakelibraries.installed() as found, config(eager_size=0):
        yield found


@st.composite
def views(draw: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """How an array of this shape lies in a larger one: (the larger one, what makes the view of it)."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in shape]
    spare = [draw(st.integers(0, 2)) for _ in shape]
    repeated = [draw(st.integers(0, 5)) == 0 for _ in shape]
    extents = [1 if r else e * abs(s) + p for e, s, p, r in zip(shape, steps, spare, repeated, strict=True)]
    big = numpy.random.default_rng(draw(st.integers(0, 99))).integers(-4, 5, [extents[a] for a in order]).astype(dtype)

    def view(x: Any) -> Any:
        x = x.transpose([order.index(a) for a in range(len(shape))])
        key = []
        for e, s, r in zip(shape, steps, repeated, strict=True):
            key.append(slice(None) if r else slice(0, e * abs(s), abs(s)))
        x = x[tuple(key)]
        turned = tuple(slice(None, None, -1 if s < 0 else 1) for s in steps)
        return x[turned]

    return big, view, shape


def seen(space: Any, door: Any, made: Any) -> Any:
    big, view, shape = made
    return space.broadcast_to(view(door(big)), shape)


@st.composite
def factors(draw: Any) -> Any:
    m, k, n = (draw(st.integers(1, 6)) for _ in range(3))
    lead = draw(arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3, min_side=1))
    kinds = draw(KINDS), draw(KINDS)
    left, right = lead.input_shapes
    form = draw(st.integers(0, 3))
    first = (k,) if form == 1 else (*left, m, k)
    second = (k,) if form == 2 else (*right, k, n)
    return draw(views(first, kinds[0])), draw(views(second, kinds[1]))


@FEW
@given(pair=factors())
def test_products_of_any_layout(libraries: Any, pair: Any) -> None:
    a, b = pair
    want = seen(numpy, lambda x: x, a) @ seen(numpy, lambda x: x, b)
    compare(seen(np, np.array, a) @ seen(np, np.array, b), want)


@FEW
@given(data=st.data())
def test_transforms_of_any_axis(libraries: Any, data: Any) -> None:
    shape = data.draw(arrays.array_shapes(max_dims=3, max_side=6))
    made = data.draw(views(shape, data.draw(st.sampled_from(["f8", "c16", "f4", "c8"]))))
    name = data.draw(st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]))
    options = {
        "axis": data.draw(st.integers(-len(shape), len(shape) - 1)), "n": data.draw(st.none() | st.integers(1, 9)),
        "norm": data.draw(st.sampled_from([None, "ortho", "forward", "backward"])),
    }  # fmt: skip
    results = []
    for space, door in ((numpy, lambda x: x), (np, np.array)):
        try:
            results.append(getattr(space.fft, name)(seen(space, door, made), **options))
        except Exception as error:
            results.append((type(error).__name__, str(error)))
    if type(results[0]) is tuple:
        assert results[0] == results[1]
    else:
        compare(results[1], results[0])


FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, float("nan"), -float("nan"), float("inf")])


@FEW
@given(
    values=st.lists(FLOATS, min_size=1, max_size=40), kind=st.sampled_from(["f2", "f4", "f8"]), rows=st.integers(1, 4)
)
def test_orders_of_any_numbers(libraries: Any, values: Any, kind: str, rows: int) -> None:
    with numpy.errstate(all="ignore"):
        x = numpy.array(values * rows).astype(kind).reshape(rows, -1)
    y = np.array(x)
    compare(np.sort(y), numpy.sort(x))
    stable = numpy.asarray(np.sort(y, kind="stable"))
    assert (stable.view(f"u{x.itemsize}") == numpy.sort(x, kind="stable").view(f"u{x.itemsize}")).all()
    compare(np.argsort(y, kind="stable"), numpy.argsort(x, kind="stable"))
    line = numpy.sort(x[0])
    for side in ("left", "right"):
        compare(np.searchsorted(np.array(line), y, side), numpy.searchsorted(line, x, side))
    compare(np.unique(y, return_counts=True, return_inverse=True, return_index=True), _unique(x))
    compare(np.nonzero(y), numpy.nonzero(x))
    mask = x > 0
    compare(y[np.array(mask)], x[mask])


def _unique(x: Any) -> Any:
    return numpy.unique(x, return_counts=True, return_inverse=True, return_index=True)


@FEW
@given(
    values=arrays.arrays("i8", st.integers(1, 60), elements=st.integers(-(2**63), 2**63 - 1)),
    kind=st.sampled_from(["i1", "u1", "i2", "u4", "i8", "u8", "?"]),
)
def test_orders_of_any_integers(libraries: Any, values: Any, kind: str) -> None:
    x = values.astype(kind)
    y = np.array(x)
    compare(np.sort(y), numpy.sort(x))
    compare(np.argsort(y, kind="stable"), numpy.argsort(x, kind="stable"))
    compare(np.unique(y, return_counts=True, return_inverse=True, return_index=True), _unique(x))
    line = numpy.sort(x)
    compare(np.searchsorted(np.array(line), y, "right"), numpy.searchsorted(line, x, "right"))
    small = abs(x.astype("i4") % 50)
    compare(np.bincount(np.array(small)), numpy.bincount(small))
    compare(np.histogram(np.array(small), 7), numpy.histogram(small, 7))


@FEW
@given(values=arrays.arrays("f8", st.integers(1, 60), elements=st.floats(-1e6, 1e6)), bins=st.integers(1, 20))
def test_histograms_of_any_numbers(libraries: Any, values: Any, bins: int) -> None:
    compare(np.histogram(np.array(values), bins), numpy.histogram(values, bins))
    compare(np.median(np.array(values)), numpy.median(values))
    compare(np.percentile(np.array(values), [3, 50, 99]), numpy.percentile(values, [3, 50, 99]))


_LETTERS = "abcd"


@FEW
@given(data=st.data())
def test_sums_of_any_letters(libraries: Any, data: Any) -> None:
    sizes = dict(zip(_LETTERS, (2, 3, 4, 5), strict=True))
    terms = data.draw(st.lists(st.text(_LETTERS, min_size=1, max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(used)))[: data.draw(st.integers(0, len(used)))]
    kind = data.draw(st.sampled_from(["f8", "i8", "c16"]))
    rng = numpy.random.default_rng(1)
    operands = [rng.integers(-3, 4, [sizes[c] for c in t]).astype(kind) for t in terms]
    text = ",".join(terms) + "->" + output
    compare(np.einsum(text, *map(np.array, operands)), numpy.einsum(text, *operands))


@FEW
@given(data=st.data())
def test_linear_systems_of_any_stacks(libraries: Any, data: Any) -> None:
    lead = data.draw(arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3, min_side=1))
    n, sides = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    rng = numpy.random.default_rng(data.draw(st.integers(0, 50)))
    kind = data.draw(st.sampled_from(["f8", "c16", "f4"]))
    a = (rng.standard_normal((*lead.input_shapes[0], n, n)) + 3 * numpy.eye(n)).astype(kind)
    b = rng.standard_normal((*lead.input_shapes[1], n, sides)).astype(kind)
    compare(np.linalg.solve(np.array(a), np.array(b)), numpy.linalg.solve(a, b))
    compare(np.linalg.inv(np.array(a)), numpy.linalg.inv(a))
    compare(np.linalg.det(np.array(a)), numpy.linalg.det(a))
