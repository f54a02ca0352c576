"""The interpreter against NumPy, through the same argument rows that machine code gets."""

from __future__ import annotations

import struct
from typing import Any

import numpy
import pytest

from offarray.codegen.abi import layout
from offarray.codegen.interpret import compiled
from offarray.codegen.kernel import (
    ABSENT,
    DIVIDE,
    INVALID,
    OVER,
    STRIDED,
    UNIT,
    Fold,
    Kernel,
    Load,
    Operand,
    Store,
    Value,
)
from offarray.runtime.target import Target

Array = numpy.ndarray[Any, Any]
TARGET = Target("interpret", "numpy", "", 0)
D, S = ABSENT, STRIDED


def launch(
    kernel: Kernel,
    arrays: list[Array],
    extents: tuple[int, ...],
    strides: tuple[int, ...] = (),
    scalars: tuple[Any, ...] = (),
) -> list[int]:
    """Run a kernel on arrays (their first elements are the pointers); gives back the fault bytes."""
    places, made = layout(kernel), compiled(kernel, TARGET)
    faults = numpy.zeros(max(1, len(kernel.faults)), "u1")
    row = b"".join(struct.pack("q", a.ctypes.data) for a in arrays)
    row += struct.pack(f"{len(extents) + len(strides)}q", *extents, *strides)
    for dtype, scalar in zip(kernel.scalars, scalars, strict=True):
        kind = dtype[0]
        if kind == "c":
            row += struct.pack("dd", scalar.real, scalar.imag)
        else:
            row += struct.pack({"f": "d", "u": "Q"}.get(kind, "q"), scalar)
    row += struct.pack("qq", faults.ctypes.data, 0)
    assert len(row) == 8 * places.words
    memory = numpy.frombuffer(row, "i8").copy()
    assert (made.units(extents), made.scratch(extents), made.finish) == (1, 0, None)
    made.body(memory.ctypes.data, 0, made.units(extents))
    return faults[: len(kernel.faults)].tolist()


def load(operand: int, dtype: str, dom: int, *classes: int, src: tuple[int, ...] = ()) -> Value:
    return Value("load", dtype, src, Load(operand, classes), dom)


def test_elementwise_over_broadcast_operands() -> None:
    kernel = Kernel(
        2,
        (
            load(0, "f8", 3, S, UNIT),
            load(1, "f8", 2, D, UNIT),
            Value("arg", "f8", arg=0),
            Value("multiply", "f8", (0, 1), dom=3),
            Value("add", "f8", (3, 2), dom=3),
        ),
        (Store(2, (S, UNIT), 4, 3),),
        (Operand("f8", "r"), Operand("f8", "r"), Operand("f8", "w")),
        ("f8",),
    )
    a, b, out = numpy.arange(12.0).reshape(3, 4), numpy.arange(4.0), numpy.zeros((3, 4))
    assert launch(kernel, [a, b, out], (3, 4), (32, 32), (0.5,)) == []
    assert numpy.array_equal(out, a * b + 0.5)
    assert compiled(kernel, TARGET).key == compiled(kernel, TARGET).key != compiled(kernel._replace(rank=3), TARGET).key


def test_an_empty_range_writes_nothing() -> None:
    kernel = Kernel(1, (Value("iota", "i8", arg=0, dom=1),), (Store(0, (UNIT,), 0, 1),), (Operand("i8", "w"),))
    out = numpy.full(3, 7)
    row = numpy.array([out.ctypes.data, 3, 0, 0])
    compiled(kernel, TARGET).body(row.ctypes.data, 1, 1)
    assert out.tolist() == [7, 7, 7]
    compiled(kernel, TARGET).body(row.ctypes.data, 0, 1)
    assert out.tolist() == [0, 1, 2]


def test_negative_and_zero_strides() -> None:
    kernel = Kernel(
        2,
        (load(0, "i4", 3, S, S), load(1, "i4", 3, S, S), Value("subtract", "i4", (0, 1), dom=3)),
        (Store(2, (S, S), 2, 3),),
        (Operand("i4", "r"), Operand("i4", "r"), Operand("i4", "w")),
    )
    a = numpy.arange(24, dtype="i4").reshape(4, 6)
    reversed_, repeated = a[::-1, ::-2], numpy.broadcast_to(a[0, :3], (4, 3))
    out = numpy.zeros((3, 4), "i4").T
    strides = (*reversed_.strides, *repeated.strides, *out.strides)
    launch(kernel, [reversed_, repeated, out], (4, 3), strides)
    assert numpy.array_equal(out, reversed_ - repeated)


def test_read_and_written_operand_is_read_first() -> None:
    kernel = Kernel(
        1,
        (load(0, "f8", 1, UNIT), load(1, "f8", 1, UNIT)),
        (Store(1, (UNIT,), 0, 1), Store(0, (UNIT,), 1, 1)),
        (Operand("f8", "rw"), Operand("f8", "rw")),
    )
    a, b = numpy.arange(4.0), numpy.arange(4.0) + 10
    launch(kernel, [a, b], (4,))
    assert (a.tolist(), b.tolist()) == ([10, 11, 12, 13], [0, 1, 2, 3])


def test_overlapping_shift() -> None:
    kernel = Kernel(
        1,
        (load(0, "f8", 1, UNIT), load(1, "f8", 1, UNIT), Value("add", "f8", (0, 1), dom=1)),
        (Store(1, (UNIT,), 2, 1),),
        (Operand("f8", "r", False), Operand("f8", "rw", False)),
    )
    a = numpy.arange(6.0)
    want = a.copy()
    want[1:] += a[:-1].copy()
    launch(kernel, [a[:-1], a[1:]], (5,))
    assert numpy.array_equal(a, want)


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [
        ("b1", True),
        ("i1", -3),
        ("u2", 65535),
        ("u8", 2**64 - 1),
        ("i8", -(2**63)),
        ("f2", 0.5),
        ("f4", 1.25),
        ("f8", -0.0),
        ("c8", 1 - 2j),
        ("c16", complex(-0.0, 3)),
    ],
)
def test_scalars(dtype: str, scalar: Any) -> None:
    values = (Value("arg", "f8", arg=0), Value("arg", dtype, arg=1))
    kernel = Kernel(1, values, (Store(0, (UNIT,), 1, 1),), (Operand(dtype, "w"),), ("f8", dtype))
    out = numpy.zeros(3, dtype)
    launch(kernel, [out], (3,), (), (9.0, scalar))
    assert out.tobytes() == numpy.full(3, scalar, dtype).tobytes()


def fold_kernel(monoid: str, dtype: str, out: str, axes: tuple[int, ...], keep: str, scale: int = 0) -> Kernel:
    """x[i, j, k] folded over `axes`, stored over the rest."""
    rest = 7 if keep == "prefix" else 7 & ~sum(1 << a for a in axes)
    classes = tuple(S if rest >> a & 1 else D for a in range(3))
    values = (load(0, dtype, 7, S, S, S), Value("fold", out, (0,), Fold(axes, monoid, keep), rest, scale))
    return Kernel(3, values, (Store(1, classes, 1, rest),), (Operand(dtype, "r"), Operand(out, "w")))


def folded(monoid: str, x: Array, out: Array, axes: tuple[int, ...], keep: str = "last", fault: int = 0) -> list[int]:
    kernel = fold_kernel(monoid, x.dtype.str[1:], out.dtype.str[1:], axes, keep, fault)
    return launch(kernel, [x, out], x.shape, (*x.strides, *out.strides))


MONOIDS = ["add", "multiply", "minimum", "maximum", "fmin", "fmax"]


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("monoid", MONOIDS)
def test_folds(monoid: str, axes: tuple[int, ...]) -> None:
    x = numpy.random.default_rng(3).normal(size=(3, 4, 5))
    x[1, 2, 3] = numpy.nan
    want = getattr(numpy, monoid).reduce(x, axis=axes)
    out = numpy.zeros(want.shape)
    folded(monoid, x, out, axes)
    numpy.testing.assert_allclose(out, want, rtol=1e-13)


@pytest.mark.parametrize("monoid", ["bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply"])
def test_folds_of_integers_wrap(monoid: str) -> None:
    x = numpy.random.default_rng(3).integers(-128, 127, (3, 4, 5), "i1")
    out = numpy.zeros((3, 5), "i1")
    folded(monoid, x, out, (1,))
    assert numpy.array_equal(out, getattr(numpy, monoid).reduce(x, axis=1, dtype="i1"))


@pytest.mark.parametrize("monoid", ["logical_and", "logical_or"])
def test_folds_of_truth(monoid: str) -> None:
    x = numpy.random.default_rng(3).integers(0, 2, (3, 4, 5)).astype("f8")
    out = numpy.zeros((3, 4), "?")
    values = (load(0, "f8", 7, S, S, S), Value("fold", "b1", (0,), Fold((2,), monoid), 3))
    kernel = Kernel(3, values, (Store(1, (S, UNIT, D), 1, 3),), (Operand("f8", "r"), Operand("b1", "w")))
    launch(kernel, [x, out], x.shape, (*x.strides, 4))
    assert numpy.array_equal(out, getattr(numpy, monoid).reduce(x, axis=2))


def test_positions_count_in_the_order_of_the_axes() -> None:
    x = numpy.random.default_rng(4).integers(0, 4, (3, 4, 5)).astype("f8")
    x[2, 0, 1] = numpy.nan
    for monoid in ("argmin", "argmax"):
        for axes in ((0,), (2,), (0, 2), (2, 0), (1, 0, 2)):
            rest = [a for a in range(3) if a not in axes]
            moved = x.transpose(*rest, *axes).reshape(*(x.shape[a] for a in rest), -1)
            want = getattr(moved, monoid)(axis=-1)
            out = numpy.zeros(want.shape, "i8")
            folded(monoid, x, out, axes)
            assert numpy.array_equal(out, want), (monoid, axes)


@pytest.mark.parametrize("monoid", MONOIDS)
def test_scans(monoid: str) -> None:
    x = numpy.random.default_rng(5).normal(size=(3, 4, 5))
    for axis in range(3):
        out = numpy.zeros(x.shape)
        folded(monoid, x, out, (axis,), "prefix")
        assert numpy.array_equal(out, getattr(numpy, monoid).accumulate(x, axis=axis))


def test_scan_over_all_axes() -> None:
    x = numpy.arange(60).reshape(3, 4, 5)
    out = numpy.zeros_like(x)
    folded("add", x, out, (0, 1, 2), "prefix")
    assert numpy.array_equal(out, x.cumsum().reshape(x.shape))
    with pytest.raises(NotImplementedError, match="argmin"):
        folded("argmin", x, out, (0,), "prefix")


def test_fold_of_what_does_not_vary_along_the_axis() -> None:
    values = (load(0, "i8", 1, UNIT, D), Value("fold", "i8", (0,), Fold((1,), "add"), 1))
    kernel = Kernel(2, values, (Store(1, (UNIT, D), 1, 1),), (Operand("i8", "r"), Operand("i8", "w")))
    x, out = numpy.arange(3), numpy.zeros(3, "i8")
    launch(kernel, [x, out], (3, 7))
    assert out.tolist() == [0, 7, 14]


def test_empty_extents() -> None:
    out = numpy.full((2, 3), 5.0)
    folded("add", numpy.zeros((2, 0, 3)), out, (1,))
    assert not out.any()
    nothing = numpy.zeros((0, 3))
    folded("add", numpy.zeros((0, 4, 3)), nothing, (1,))


def test_softmax_in_stages() -> None:
    values = (
        load(0, "f8", 3, S, UNIT),
        Value("fold", "f8", (0,), Fold((1,), "maximum"), 1),
        Value("subtract", "f8", (0, 1), dom=3),
        Value("exp", "f8", (2,), dom=3),
        Value("fold", "f8", (3,), Fold((1,), "add"), 1),
        Value("divide", "f8", (3, 4), dom=3),
    )
    kernel = Kernel(2, values, (Store(1, (S, UNIT), 5, 3),), (Operand("f8", "r"), Operand("f8", "w")))
    x = numpy.random.default_rng(6).normal(size=(4, 9))
    out = numpy.zeros_like(x)
    launch(kernel, [x, out], x.shape, (72, 72))
    e = numpy.exp(x - x.max(1, keepdims=True))
    numpy.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-14)


def test_gathers() -> None:
    values = (
        load(0, "i8", 1, UNIT, D),
        load(1, "i8", 2, D, UNIT),
        load(2, "c16", 3, D, D, src=(0, 1)),
        load(2, "c16", 3, D, UNIT, src=(0,)),
    )
    kernel = Kernel(
        2,
        values,
        (Store(3, (S, UNIT), 2, 3), Store(4, (S, UNIT), 3, 3)),
        (Operand("i8", "r"), Operand("i8", "r"), Operand("c16", "r"), Operand("c16", "w"), Operand("c16", "w")),
    )
    table = numpy.arange(30).reshape(5, 6) * (1 - 1j)
    rows, columns = numpy.array([4, 0, 0, 3]), numpy.array([5, 1, 2])
    both, one = numpy.zeros((4, 3), "c16"), numpy.zeros((4, 3), "c16")
    launch(kernel, [rows, columns, table, both, one], (4, 3), (96, 16, 96, 48, 48))
    assert numpy.array_equal(both, table[numpy.ix_(rows, columns)])
    assert numpy.array_equal(one, table[rows, :3])


def test_gather_from_the_end() -> None:
    values = (load(0, "i8", 1, UNIT), load(1, "f4", 1, D, src=(0,)))
    operands = (Operand("i8", "r"), Operand("f4", "r"), Operand("f4", "w"))
    kernel = Kernel(1, values, (Store(2, (UNIT,), 1, 1),), operands)
    table, index, out = numpy.arange(9, dtype="f4")[::-1], numpy.array([0, 8, 3]), numpy.zeros(3, "f4")
    launch(kernel, [index, table, out], (3,), (-4,))
    assert numpy.array_equal(out, table[index])


@pytest.mark.parametrize(
    ("op", "dtypes", "out"),
    [
        ("cast", ("c16",), "f4"),
        ("cast", ("f8",), "c8"),
        ("cast", ("f4",), "b1"),
        ("cast", ("c8",), "b1"),
        ("real", ("c8",), "f4"),
        ("imag", ("c16",), "f8"),
        ("modf_frac", ("f8",), "f8"),
        ("modf_int", ("f4",), "f4"),
        ("frexp_mantissa", ("f8",), "f8"),
        ("frexp_exponent", ("f8",), "i4"),
        ("select", ("b1", "i2", "i2"), "i2"),
        ("clip", ("f8", "f8", "f8"), "f8"),
        ("less", ("i8", "u8"), "b1"),
        ("conjugate", ("c16",), "c16"),
        ("absolute", ("c16",), "f8"),
    ],
)
def test_operations(op: str, dtypes: tuple[str, ...], out: str) -> None:
    values = [load(k, dtype, 1, UNIT) for k, dtype in enumerate(dtypes)]
    values.append(Value(op, out, tuple(range(len(dtypes))), dom=1))
    operands = (*(Operand(d, "r") for d in dtypes), Operand(out, "w"))
    kernel = Kernel(1, tuple(values), (Store(len(dtypes), (UNIT,), len(dtypes), 1),), operands)
    random = numpy.random.default_rng(8)
    arrays = [
        (random.normal(size=6) * 9 + (1j * random.normal(size=6) if d[0] == "c" else 0)).astype(d) for d in dtypes
    ]
    found = numpy.zeros(6, out)
    launch(kernel, [*arrays, found], (6,))
    x, rest = arrays[0], arrays[1:]
    want: dict[str, Any] = {
        "cast": lambda: (x.real if x.dtype.kind == "c" and out[0] == "f" else x).astype(out),
        "real": lambda: x.real,
        "imag": lambda: x.imag,
        "modf_frac": lambda: numpy.modf(x)[0],
        "modf_int": lambda: numpy.modf(x)[1],
        "frexp_mantissa": lambda: numpy.frexp(x)[0],
        "frexp_exponent": lambda: numpy.frexp(x)[1],
        "select": lambda: numpy.where(x, *rest),
    }
    default = getattr(numpy, op, None)
    assert numpy.array_equal(found, want[op]() if op in want else default(*arrays))  # type: ignore[misc]


def test_faults_belong_to_their_values() -> None:
    values = (
        load(0, "f8", 1, UNIT),
        load(1, "f8", 1, UNIT),
        Value("divide", "f8", (0, 1), dom=1, fault=DIVIDE | INVALID),
        Value("multiply", "f8", (0, 0), dom=1, fault=OVER),
        Value("divide", "f8", (0, 1), dom=1),
        Value("cast", "i4", (1,), dom=1, fault=INVALID),
        Value("sqrt", "f8", (1,), dom=1, fault=DIVIDE | OVER),
    )
    stores = tuple(Store(k, (UNIT,), v, 1) for k, v in ((2, 2), (3, 3), (4, 5)))
    operands = (*(Operand("f8", "r"),) * 2, *(Operand("f8", "w"),) * 2, Operand("i4", "w"))
    kernel = Kernel(1, values, stores, operands)
    x, y = numpy.array([1.0, 2, 3]), numpy.array([0.0, 1, -1])
    outs = [numpy.zeros(3), numpy.zeros(3), numpy.zeros(3, "i4")]
    assert launch(kernel, [x, y, *outs], (3,)) == [DIVIDE, 0, 0, 0]
    assert launch(kernel, [numpy.array([0, 1e200, 1]), y, *outs], (3,)) == [INVALID, OVER, 0, 0]
    assert launch(kernel, [x, numpy.array([1, numpy.nan, 1]), *outs], (3,)) == [0, 0, INVALID, 0]


def test_faults_of_folds() -> None:
    x = numpy.full((2, 3, 2), 1e308)
    out = numpy.zeros((2, 2))
    assert folded("add", x, out, (1,), fault=OVER | INVALID) == [OVER]
    assert numpy.isinf(out).all()
    assert folded("add", x / 10, out, (1,), fault=OVER | INVALID) == [0]
