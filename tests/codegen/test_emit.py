"""Kernels as machine code: values against NumPy, bits against every split, width and place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from offarray.codegen import build, native
from offarray.codegen import compile as front
from offarray.codegen.check import InvalidKernel, check
from offarray.codegen.compile import host_target, supported
from offarray.codegen.emit import emit
from offarray.codegen.kernel import INVALID, OVER, Fold, Kernel, Load, Operand, Store, Value
from offarray.codegen.schedule import UnsupportedKernel, schedule

from .kernels import Array, Builder, ranges

KINDS = 11  # OVER | DIVIDE | INVALID
FLOATS = ["f8", "f4"]
ALL = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


def numbers(shape: Any, dtype: str, seed: int = 0) -> Array:
    """Random array of any dtype."""
    rng = numpy.random.default_rng(seed)
    found = rng.standard_normal(shape) * 10
    if dtype[0] == "c":
        found = found + 1j * rng.standard_normal(shape)
    if dtype == "b1":
        return numpy.asarray(found > 0)
    if dtype[0] == "u":
        found = abs(found)
    return numpy.asarray(found).astype(dtype)


def close(result: Array, expected: Array, scale: float = 8.0) -> None:
    """Equal to a few units of the last place, relative to the largest."""
    dtype = result.dtype if result.dtype.kind in "fc" else numpy.dtype("f8")
    size = float(numpy.max(abs(expected), initial=1.0)) if expected.size else 1.0
    limit = scale * size * float(numpy.finfo(dtype).eps)
    numpy.testing.assert_allclose(result, expected, rtol=0, atol=limit)


# ---------------------------------------------------------------------- elementwise
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_tail(dtype: str) -> None:
    for n in range(68):
        a, b, out = numbers(n, dtype), numbers(n, dtype, 1), numpy.full(n + 4, 7, dtype)
        k = Builder(n)
        k.store(out[:n], k.op("add", dtype, k.op("multiply", dtype, k.load(a, 0), k.arg(2.5, dtype)), k.load(b, 0)), 0)
        k.run()
        assert (out[:n] == a * a.dtype.type(2.5) + b).all()
        assert (out[n:] == 7).all()


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("step", [1, -1, 3])
def test_copies_of_every_dtype(dtype: str, step: int) -> None:
    for n in (1, 7, 64, 131):
        a = numbers(n * abs(step), dtype)[::step]
        out = numpy.zeros(n * abs(step), dtype)[::step]
        k = Builder(n)
        k.store(out, k.load(a, 0), 0)
        k.run()
        assert out.tobytes() == a.tobytes()


def test_bool_bytes_that_are_not_one() -> None:
    a = numpy.array([0, 1, 2, 255, 0, 16, 3], "u1")
    out = numpy.zeros(7, bool)
    k = Builder(7)
    k.store(out, k.load(a.view(bool), 0), 0)
    k.run()
    assert out.view("u1").tolist() == [0, 1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16"])
def test_broadcast_reversed_and_transposed(dtype: str) -> None:
    shape = (5, 13, 21)
    a, b, c = numbers(shape, dtype), numbers((13, 1), dtype, 1), numbers(shape[::-1], dtype, 2)
    out = numpy.zeros(shape, dtype)
    k = Builder(*shape)
    x, y, z = k.load(a[::-1, :, ::-1], 0, 1, 2), k.load(b[:, 0], 1), k.load(c.T, 0, 1, 2)
    k.store(out, k.op("subtract", dtype, k.op("multiply", dtype, x, y), z), 0, 1, 2)
    k.run()
    expected = a[::-1, :, ::-1] * b - c.T
    close(out, expected, 4) if dtype[0] == "c" else numpy.testing.assert_array_equal(out, expected)


def test_scalars_of_every_dtype() -> None:
    for dtype in ALL:
        out = numpy.zeros(11, dtype)
        value = {"b": 1, "u": 200, "i": -77, "f": -1.5, "c": 2.5 - 3j}[dtype[0]]
        k = Builder(11)
        source = k.arg(value, dtype)
        k.store(out, source, 0)
        k.run()
        assert (out == numpy.array(value).astype(dtype)).all()


def test_mixed_widths_and_casts() -> None:
    n = 1003
    a, b, flag = numbers(n, "i2"), numbers(n, "f4"), numbers(n, "b1")
    out, also = numpy.zeros(n, "f8"), numpy.zeros(n, bool)
    k = Builder(n)
    x, y, c = k.op("cast", "f8", k.load(a, 0)), k.op("cast", "f8", k.load(b, 0)), k.load(flag, 0)
    k.store(out, k.op("select", "f8", c, x, y), 0)
    k.store(also, k.op("less", "b1", x, y), 0)
    k.run()
    assert (out == numpy.where(flag, a.astype("f8"), b)).all()
    assert (also == (a < b)).all()


def test_same_bits_at_every_place() -> None:
    a = numbers(333, "f8")
    out, single = numpy.zeros(333), numpy.zeros(1)

    def kernel(source: Array, target: Array) -> Builder:
        k = Builder(len(source))
        k.store(target, k.op("sin", "f8", k.op("exp", "f8", k.load(source, 0))), 0)
        return k

    kernel(a, out).run()
    for n in range(333):
        kernel(a[n : n + 1], single).run()
        assert single.tobytes() == out[n : n + 1].tobytes()


def test_iota_and_select() -> None:
    out = numpy.zeros((9, 30), "i8")
    k = Builder(9, 30)
    same = k.op("equal", "b1", k.iota(0), k.iota(1))
    k.store(out, k.op("select", "i8", same, k.arg(-1, "i8"), k.op("add", "i8", k.iota(0), k.iota(1))), 0, 1)
    k.run()
    i, j = numpy.indices((9, 30))
    assert (out == numpy.where(i == j, -1, i + j)).all()


def test_in_place() -> None:
    a = numbers((70, 33), "f8")
    before, sums = a.copy(), numpy.zeros(70)
    k = Builder(70, 33)
    x = k.load(a, 0, 1)
    total = k.fold("add", (1,), x)
    k.store(a, k.op("divide", "f8", x, k.fold("maximum", (1,), x)), 0, 1)
    k.store(sums, total, 0)
    k.run()
    assert (a == before / before.max(1, keepdims=True)).all()
    close(sums, before.sum(1))


def test_stencil() -> None:
    a, out = numbers((40, 50), "f4"), numpy.zeros((40, 50), "f4")
    k = Builder(38, 48)
    parts = [k.load(a[i : 38 + i, j : 48 + j], 0, 1) for i, j in ((0, 1), (2, 1), (1, 0), (1, 2))]
    total = k.op("add", "f4", k.op("add", "f4", parts[0], parts[1]), k.op("add", "f4", parts[2], parts[3]))
    k.store(out[1:-1, 1:-1], k.op("multiply", "f4", total, k.arg(0.25, "f4")), 0, 1)
    k.run()
    expected = ((a[:-2, 1:-1] + a[2:, 1:-1]) + (a[1:-1, :-2] + a[1:-1, 2:])) * numpy.float32(0.25)
    assert (out[1:-1, 1:-1] == expected).all()
    assert not out[0].any()


# ---------------------------------------------------------------------- gathers
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "b1", "c8", "i2"])
def test_gathers(dtype: str) -> None:
    table, index = numbers((50, 40), dtype), numpy.random.default_rng(3).integers(0, 40, 77)
    rows = numpy.random.default_rng(4).integers(0, 50, 9)
    flat, taken, pairs = numpy.zeros(77, dtype), numpy.zeros((9, 40), dtype), numpy.zeros((9, 77), dtype)
    k = Builder(77)
    k.store(flat, k.load(table[7], at=[k.load(index, 0)], strides=[table.strides[1]]), 0)
    k.run()
    assert (flat == table[7][index]).all()
    k = Builder(9, 40)  # whole rows: the vector axis is not gathered
    k.store(taken, k.load(table[0], 1, at=[k.load(rows, 0)], strides=[table.strides[0]]), 0, 1)
    k.run()
    assert (taken == table[rows]).all()
    k = Builder(9, 77)
    both = [k.load(rows, 0), k.load(index, 1)]
    k.store(pairs, k.load(table, at=both, strides=table.strides), 0, 1)
    k.run()
    assert (pairs == table[rows[:, None], index]).all()


# ---------------------------------------------------------------------- folds
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "u1"])
@pytest.mark.parametrize("n", [0, 1, 5, 31, 32, 33, 511, 513, 5000, 70001])
def test_full_sums(dtype: str, n: int) -> None:
    a = numbers(n, dtype)
    out = numpy.full((), 9, dtype)
    k = Builder(n)
    k.store(out, k.fold("add", (0,), k.load(a, 0)))
    k.run()
    expected = a.astype("c16" if dtype[0] == "c" else "f8" if dtype[0] == "f" else dtype).sum(dtype=None)
    if dtype[0] in "iu":
        assert out == numpy.add.reduce(a, dtype=dtype)
        return
    eps = float(numpy.finfo(out.dtype).eps)
    assert abs(out - expected) <= eps * (1 + float(abs(a).astype("f8").sum()))
    if n == 0:
        assert not numpy.signbit(out.real)
    rng, first = numpy.random.default_rng(n), out.tobytes()
    for _ in range(3):
        out[...] = 9
        k.run(split=ranges(k.compiled().units((n,)), rng))
        assert out.tobytes() == first


def test_sums_are_as_accurate_as_pairwise_ones() -> None:
    a = numpy.full(3_000_000, 0.1, "f4")
    out = numpy.zeros((), "f4")
    k = Builder(a.size)
    k.store(out, k.fold("add", (0,), k.load(a, 0)))
    k.run()
    exact = float(a.astype("f8").sum())
    assert abs(out - exact) <= max(abs(a.sum() - exact), 3e-7 * exact)
    columns = numpy.zeros(5, "f4")
    b = numpy.full((100_000, 5), 0.1, "f4")
    k = Builder(*b.shape)
    k.store(columns, k.fold("add", (0,), k.load(b, 0, 1)), 1)
    k.run()
    assert abs(columns - b[:, 0].astype("f8").sum()).max() <= 1e-6 * 10_000


SHAPES = [(1, 1), (3, 5), (33, 65), (100, 1000), (1000, 3), (2, 40000)]
MONOID: dict[str, Callable[..., Any]] = {
    "add": numpy.add.reduce, "multiply": numpy.multiply.reduce, "minimum": numpy.min, "maximum": numpy.max,
    "fmax": numpy.fmax.reduce, "argmax": numpy.argmax, "argmin": numpy.argmin,
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_folds_over_each_axis(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    rng = numpy.random.default_rng(1)
    for a in (numbers(shape, dtype), numpy.asfortranarray(numbers(shape, dtype)), numbers(shape, dtype)[::-1, ::-1]):
        for monoid in ("add", "minimum", "fmax", "argmax", "argmin"):
            position = monoid.startswith("arg")
            if not position:
                expected = numpy.asarray(MONOID[monoid](a.astype("f8") if dtype[0] == "f" else a, axis=axes))
            else:
                expected = numpy.asarray(MONOID[monoid](a, axis=axes[0] if len(axes) == 1 else None))
            out = numpy.zeros(expected.shape, "i8" if position else dtype)
            k = Builder(*shape)
            k.store(out, k.fold(monoid, axes, k.load(a, 0, 1)), *(x for x in (0, 1) if x not in axes))
            k.run(split=ranges(k.compiled().units(shape), rng))
            if monoid == "add" and dtype[0] == "f":
                close(out, expected, 400)
            else:
                assert (out == expected.astype(out.dtype)).all()


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2), (0, 1, 2), (1,)])
def test_folds_of_three_axes(axes: tuple[int, ...]) -> None:
    a = numbers((6, 35, 41), "f8")
    expected = a.sum(axes)
    out, place = numpy.zeros(expected.shape), numpy.zeros(expected.shape, "i8")
    rest = [x for x in (0, 1, 2) if x not in axes]
    k = Builder(*a.shape)
    x = k.load(a, 0, 1, 2)
    k.store(out, k.fold("add", axes, x), *rest)
    k.store(place, k.fold("argmax", axes, x), *rest)
    k.run()
    close(out, expected, 50)
    moved = numpy.moveaxis(a, axes, range(3 - len(axes), 3)).reshape(*expected.shape, -1)
    assert (place == moved.argmax(-1)).all()


@pytest.mark.parametrize("dtype", ["f8", "f4", "c8", "b1", "i8"])
@pytest.mark.parametrize("shape", [(100_000, 3), (3000, 130), (400, 900)])
def test_few_columns_of_many_rows(shape: tuple[int, int], dtype: str) -> None:
    a = numbers(shape, dtype)
    extreme = "logical_or" if dtype in ("c8", "b1") else "maximum"
    sums, best = numpy.zeros(shape[1], dtype), numpy.zeros(shape[1], bool if extreme == "logical_or" else dtype)
    k = Builder(*shape)
    x = k.load(a, 0, 1)
    k.store(best, k.fold(extreme, (0,), x), 1)
    if dtype != "b1":
        fault = KINDS if dtype[0] in "fc" else 0
        k.store(sums, k.op("negative", dtype, k.fold("add", (0,), x, fault=fault)), 1)
    units = k.compiled().units(shape)
    assert units >= 4  # the rows are shared out
    assert not any(k.run())
    assert (best == (a.any(0) if extreme == "logical_or" else a.max(0))).all()
    if dtype != "b1":
        close(-sums, a.sum(0, dtype="c16" if dtype == "c8" else "f8" if dtype[0] == "f" else "i8"), 400)
    first = sums.tobytes()
    k.run(split=[(n, n + 1) for n in reversed(range(units))])
    assert sums.tobytes() == first
    if dtype[0] == "f":
        a[5, 1] = a[6, 1] = numpy.finfo(dtype).max
        assert k.run() == [OVER]
        a[5:7, 1] = numpy.inf, -numpy.inf
        assert k.run() == [INVALID]


def test_argmax_of_equals_and_nan() -> None:
    for content in ([1, 3, 3, 2], [numpy.nan, 5, numpy.nan], [-numpy.inf] * 3, [2, numpy.nan, numpy.inf]):
        a = numpy.array(content * 20)
        for monoid in ("argmax", "argmin"):
            out = numpy.zeros((), "i8")
            k = Builder(a.size)
            k.store(out, k.fold(monoid, (0,), k.load(a, 0)))
            k.run()
            assert out == MONOID[monoid](a)


@pytest.mark.parametrize("dtype", ["b1", "f8", "i2", "c8"])
def test_logical_and_bitwise_folds(dtype: str) -> None:
    for a in (numbers((40, 70), dtype), numpy.zeros((40, 70), dtype), numpy.ones((40, 70), dtype)):
        for axes in ((0,), (1,), (0, 1)):
            rest = [x for x in (0, 1) if x not in axes]
            every, some = numpy.asarray(a.all(axes)), numpy.asarray(a.any(axes))
            outs = numpy.zeros_like(every), numpy.zeros_like(some)
            k = Builder(*a.shape)
            x = k.load(a, 0, 1)
            for out, monoid in zip(outs, ("logical_and", "logical_or"), strict=True):
                k.store(out, k.fold(monoid, axes, x), *rest)
            k.run()
            assert (outs[0] == every).all()
            assert (outs[1] == some).all()


def test_folds_of_nothing() -> None:
    a = numpy.zeros((4, 0))
    sums, products, flags = numpy.full(4, 9.0), numpy.full(4, 9.0), numpy.zeros(4, bool)
    k = Builder(4, 0)
    x = k.load(a, 0, 1)
    k.store(sums, k.fold("add", (1,), x), 0)
    k.store(products, k.fold("multiply", (1,), x), 0)
    k.store(flags, k.fold("logical_and", (1,), x), 0)
    k.run()
    assert sums.tolist() == [0.0] * 4
    assert not numpy.signbit(sums).any()
    assert products.tolist() == [1.0] * 4
    assert flags.all()


# ---------------------------------------------------------------------- several stages
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 7), (64, 1000), (3, 5000)])
@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1)])
def test_softmax(dtype: str, shape: tuple[int, int], axes: tuple[int, ...]) -> None:
    a = numbers(shape, dtype) / a_type(dtype)(4)
    out = numpy.zeros_like(a)
    k = Builder(*shape)
    x = k.load(a, 0, 1)
    e = k.op("exp", dtype, k.op("subtract", dtype, x, k.fold("maximum", axes, x)))
    k.store(out, k.op("divide", dtype, e, k.fold("add", axes, e)), 0, 1)
    k.run()
    expected = numpy.exp(a.astype("f8") - a.max(axes, keepdims=True))
    close(out, expected / expected.sum(axes, keepdims=True), 20)


def a_type(dtype: str) -> Any:
    return numpy.dtype(dtype).type


@pytest.mark.parametrize("axis", [0, 1])
def test_layer_norm(axis: int) -> None:
    a, gain = numbers((70, 90), "f8"), numbers((70, 90)[axis], "f8", 1)
    out = numpy.zeros_like(a)
    k = Builder(70, 90)
    x, size = k.load(a, 0, 1), k.arg(float(a.shape[axis]), "f8")
    centred = k.op("subtract", "f8", x, k.op("divide", "f8", k.fold("add", (axis,), x), size))
    variance = k.op("divide", "f8", k.fold("add", (axis,), k.op("multiply", "f8", centred, centred)), size)
    scaled = k.op("divide", "f8", centred, k.op("sqrt", "f8", variance))
    k.store(out, k.op("multiply", "f8", scaled, k.load(gain, axis)), 0, 1)
    k.run()
    centre = a - a.mean(axis, keepdims=True)
    expected = centre / a.std(axis, keepdims=True) * (gain if axis else gain[:, None])
    close(out, expected, 50)


@pytest.mark.parametrize("size", [(5, 7, 3), (40, 33, 3), (10, 100, 65)])
def test_nested_folds(size: tuple[int, int, int]) -> None:
    n, m, d = size
    x, y = numbers((n, d), "f8") / 10, numbers((m, d), "f8", 1) / 10
    out = numpy.zeros(n)
    k = Builder(n, m, d)
    difference = k.op("subtract", "f8", k.load(x, 0, 2), k.load(y, 1, 2))
    squares = k.fold("add", (2,), k.op("multiply", "f8", difference, difference))
    k.store(out, k.fold("add", (1,), k.op("exp", "f8", k.op("negative", "f8", squares))), 0)
    k.run()
    close(out, numpy.exp(-((x[:, None] - y) ** 2).sum(-1)).sum(1), 50)


def test_stores_of_different_domains() -> None:
    a = numbers((30, 45), "f8")
    double, rows, columns, total = numpy.zeros_like(a), numpy.zeros(30), numpy.zeros(45), numpy.zeros(())
    k = Builder(30, 45)
    x = k.load(a, 0, 1)
    k.store(double, k.op("add", "f8", x, x), 0, 1)
    k.store(rows, k.fold("add", (1,), x), 0)
    k.store(columns, k.fold("maximum", (0,), x), 1)
    k.store(total, k.op("sqrt", "f8", k.fold("add", (0, 1), k.op("multiply", "f8", x, x))))
    k.run()
    assert (double == 2 * a).all()
    close(rows, a.sum(1), 50)
    assert (columns == a.max(0)).all()
    close(total, numpy.sqrt((a * a).sum()))


def test_an_elementwise_result_beside_a_full_sum() -> None:
    a, out, total = numbers(100_000, "f8"), numpy.zeros(100_000), numpy.zeros(())
    k = Builder(a.size)
    y = k.op("multiply", "f8", k.load(a, 0), k.arg(3.0, "f8"))
    k.store(out, y, 0)
    k.store(total, k.fold("maximum", (0,), y))
    k.run(split=ranges(k.compiled().units((a.size,)), numpy.random.default_rng(0)))
    assert (out == a * 3).all()
    assert total == (a * 3).max()


# ---------------------------------------------------------------------- scans
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 100, 1003])
def test_scans(dtype: str, n: int) -> None:
    a = numbers(n, dtype)
    sums, best = numpy.zeros_like(a), numpy.zeros_like(a)
    k = Builder(n)
    x = k.load(a, 0)
    k.store(sums, k.op("negative", dtype, k.fold("add", (0,), x, "prefix")), 0)
    if dtype[0] != "c":
        k.store(best, k.fold("maximum", (0,), x, "prefix"), 0)
    k.run()
    assert (sums == -numpy.cumsum(a)).all()
    assert dtype[0] == "c" or (best == numpy.maximum.accumulate(a)).all()


@pytest.mark.parametrize("shape", [(3, 5), (40, 70), (17, 130)])
def test_scans_of_two_axes(shape: tuple[int, int]) -> None:
    a = numbers(shape, "f8")
    for axes in ((0,), (1,), (0, 1)):
        out = numpy.zeros_like(a)
        k = Builder(*shape)
        k.store(out, k.fold("add", axes, k.load(a, 0, 1), "prefix"), 0, 1)
        k.run()
        expected = numpy.cumsum(a, axes[0]) if len(axes) == 1 else numpy.cumsum(a).reshape(shape)
        assert (out == expected).all()
    for axis in (0, 1):
        best = numpy.zeros(shape[1 - axis])
        k = Builder(*shape)
        k.store(best, k.fold("maximum", (axis,), k.fold("add", (axis,), k.load(a, 0, 1), "prefix")), 1 - axis)
        k.run()
        assert (best == numpy.cumsum(a, axis).max(axis)).all()


# ---------------------------------------------------------------------- faults
def numpy_faults(call: Callable[..., Any], *args: Any) -> int:
    """The fault bits that NumPy reports."""
    found = 0

    def note(_: str, bits: int) -> None:
        nonlocal found
        found |= bits

    old = numpy.seterrcall(note)
    with numpy.errstate(all="call"):
        call(*args)
    numpy.seterrcall(old)
    return found & KINDS


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("bad", [(1e308, 2.0), (numpy.inf, numpy.inf), (0.0, 0.0), (3.0, 0.0), None])
@pytest.mark.parametrize("n", [5, 8, 13, 100, 70000])
def test_faults(in_place: bool, bad: tuple[float, float] | None, n: int) -> None:
    for where in (0, n // 2, n - 1):
        a, b, out = numbers(n, "f8"), abs(numbers(n, "f8", 1)) + 1, numpy.zeros(n)
        if bad:
            a[where], b[where] = bad
        source = a.copy()
        k = Builder(n)
        tens = k.op("multiply", "f8", k.load(a, 0), k.arg(10.0, "f8"), fault=KINDS)
        ratio = k.op("divide", "f8", tens, k.load(b, 0), fault=KINDS)
        k.store(a if in_place else out, k.op("log", "f8", k.op("absolute", "f8", ratio), fault=KINDS), 0)
        found = k.run(split=ranges(k.compiled().units((n,)), numpy.random.default_rng(n)))
        with numpy.errstate(all="ignore"):
            first = source * 10.0
            second = first / b
            expected = numpy.log(abs(second))
        bits = [numpy_faults(numpy.multiply, source, 10.0), numpy_faults(numpy.divide, first, b)]
        assert found == [*bits, numpy_faults(numpy.log, abs(second))]
        numpy.testing.assert_allclose(a if in_place else out, expected, rtol=1e-14)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    ("bad", "expected"),
    [((1e308, 1e308), OVER), ((numpy.inf, 1.0), 0), ((numpy.inf, -numpy.inf), INVALID), ((numpy.nan, 1.0), 0)],
)
def test_faults_of_sums(in_place: bool, axes: tuple[int, ...], bad: tuple[float, float], expected: int) -> None:
    for shape in ((3, 5), (300, 1000)):
        a = numbers(shape, "f8")
        a[1, 1] = bad[0]
        a[(2, 1) if axes == (0,) else (1, 2)] = bad[1]
        out = numpy.zeros([shape[x] for x in (0, 1) if x not in axes])
        k = Builder(*shape)
        x = k.load(a, 0, 1)
        k.store(out, k.fold("add", axes, x, fault=KINDS), *(x for x in (0, 1) if x not in axes))
        if in_place:
            k.store(a, k.op("negative", "f8", x), 0, 1)
        units = k.compiled().units(shape)
        assert k.run(split=[(n, n + 1) for n in range(units)]) == [expected]


def test_masked_lanes_report_nothing() -> None:
    a, out = numpy.ones(11), numpy.zeros(11)
    k = Builder(11)
    k.store(out, k.op("divide", "f8", k.arg(1.0, "f8"), k.load(a, 0), fault=KINDS), 0)
    assert k.run() == [0]


# ---------------------------------------------------------------------- targets
FEATURES = ["+avx2,+fma,+avx,+sse4.2,+f16c,+bmi,+bmi2,+lzcnt,+popcnt", "+sse2,+sse4.2,+popcnt"]


@pytest.mark.parametrize("features", FEATURES)
def test_other_processors(features: str) -> None:
    target = host_target(features)
    a, b = numbers((37, 91), "f8"), numbers((37, 91), "f4", 1)
    out, sums, place, half = numpy.zeros_like(a), numpy.zeros(37), numpy.zeros(91, "i8"), numpy.zeros(37, "f4")
    results = []
    for t in (host_target(), target):
        k = Builder(37, 91)
        x, y = k.load(a, 0, 1), k.op("cast", "f8", k.load(b, 0, 1))
        ratio = k.op("divide", "f8", x, y, fault=KINDS)
        root = k.op("sqrt", "f8", k.op("absolute", "f8", x))
        k.store(out, k.op("select", "f8", k.op("less", "b1", x, y), ratio, root), 0, 1)
        k.store(sums, k.fold("add", (1,), x), 0)
        k.store(half, k.fold("maximum", (1,), k.load(b, 0, 1)), 0)
        k.run(t)
        k = Builder(37, 91)
        k.store(place, k.fold("argmin", (0,), k.load(a, 0, 1)), 1)
        k.run(t)
        results.append([array.tobytes() for array in (out, sums, place, half)])
    assert results[0] == results[1]
    assert (place == a.argmin(0)).all()


@pytest.mark.parametrize("features", [None, *FEATURES])
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("step", [1, 3])
def test_the_last_lanes_of_every_processor(dtype: str, step: int, features: str | None) -> None:
    """Copies in place and elsewhere touch no element after the last, whatever accesses the processor has."""
    for n in (1, 2, 15, 16, 17, 63, 64, 65, 130):
        a = numbers(n * step, dtype)
        out, flipped = numpy.zeros((n + 3) * step, dtype), numpy.zeros(n + 3, dtype)
        out[n * step :] = flipped[n:] = 1
        k = Builder(n)
        k.store(out[::step][:n], k.load(a[::step], 0), 0)
        k.store(flipped[:n], k.load(a[::step], 0), 0)
        k.run(host_target(features))
        assert out[::step][:n].tobytes() == flipped[:n].tobytes() == a[::step].tobytes()
        assert (out[n * step :] == 1).all() and (flipped[n:] == 1).all()


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("dtype", ["u1", "b1", "f2", "i2"])
def test_no_branch_for_each_lane(dtype: str, features: str) -> None:
    """Masked accesses that a processor lacks would be written out lane by lane: code for dozens, at each access."""
    k = Builder(40)
    k.store(numpy.zeros(40, dtype), k.load(numpy.zeros(40, dtype), 0), 0)
    kernel = k.kernel()
    text = emit(kernel, schedule(kernel), host_target(features), "short").text
    assert "llvm.masked" not in text
    assert "llvm.masked" in emit(kernel, schedule(kernel), host_target("+avx512f,+avx512bw,+avx2"), "short").text


# ---------------------------------------------------------------------- size, errors, caches
def test_many_values_and_operands() -> None:
    arrays = [numbers(100, "f8", seed) for seed in range(400)]
    out = numpy.zeros(100)
    k = Builder(100)
    total = k.load(arrays[0], 0)
    for n, a in enumerate(arrays[1:]):
        total = k.op("subtract" if n % 2 else "add", "f8", total, k.load(a, 0))
    k.store(out, total, 0)
    k.run()
    expected = arrays[0]
    for n, a in enumerate(arrays[1:]):
        expected = expected - a if n % 2 else expected + a
    assert (out == expected).all()


def test_kernels_that_need_two_launches_are_refused() -> None:
    a, out = numbers((6, 7), "f8"), numpy.zeros((6, 7))
    k = Builder(6, 7)
    x = k.load(a, 0, 1)
    rows, columns = k.fold("add", (1,), x), k.fold("add", (0,), x)
    k.store(out, k.op("subtract", "f8", k.op("subtract", "f8", x, rows), columns), 0, 1)
    assert supported(k.kernel()) is not None
    with pytest.raises(UnsupportedKernel, match="no order of loops"):
        k.run()


def test_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    k = Builder(3)
    k.store(numpy.zeros(3), k.op("add", "f8", k.load(numpy.ones(3), 0), k.arg(1.0, "f8")), 0)
    first = k.compiled()
    assert k.compiled() is first
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(native.disk, "load", lambda key, counted=True: kept.get(key))
    monkeypatch.setattr(native.disk, "store", kept.__setitem__)
    monkeypatch.setattr(front, "_known", {})
    assert k.compiled() is not first
    assert list(kept) == [first.key]
    monkeypatch.setattr(front, "_known", {})
    monkeypatch.setattr(build, "emit", None)  # from now on only the stored code will do
    out = numpy.zeros(3)
    k = Builder(3)
    k.store(out, k.op("add", "f8", k.load(numpy.ones(3), 0), k.arg(1.0, "f8")), 0)
    k.run()
    assert (out == 2).all()


_LOAD = Value("load", "f8", (), Load(0, (1,)), 1)
_OPERANDS = (Operand("f8", "r"), Operand("f8", "w"))
BROKEN = [
    Kernel(1, (_LOAD._replace(dtype="f4"),), (), _OPERANDS),
    Kernel(1, (_LOAD._replace(dom=0),), (), _OPERANDS),
    Kernel(1, (_LOAD._replace(arg=Load(1, (1,))),), (), _OPERANDS),
    Kernel(1, (Value("add", "f8", (0, 0), None, 1),), (), _OPERANDS),
    Kernel(1, (_LOAD,), (Store(0, (1,), 0, 1),), _OPERANDS),
    Kernel(1, (_LOAD,), (Store(1, (0,), 0, 1),), _OPERANDS),
    Kernel(1, (_LOAD, Value("fold", "f8", (0,), Fold((0,), "add"), 1)), (), _OPERANDS),
    Kernel(1, (_LOAD, Value("fold", "f8", (0,), Fold((), "add"), 1)), (), _OPERANDS),
    Kernel(1, (_LOAD, Value("fold", "f8", (0,), Fold((0,), "median"), 0)), (), _OPERANDS),
    Kernel(1, (Value("arg", "f8", (), 0),), (), _OPERANDS, ("f4",)),
    Kernel(1, (Value("iota", "i8", (), 1, 2),), (), _OPERANDS),
]


@pytest.mark.parametrize("kernel", BROKEN)
def test_malformed_kernels(kernel: Kernel) -> None:
    with pytest.raises(InvalidKernel):
        check(kernel)
