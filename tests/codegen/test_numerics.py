"""Every operation of the numerics table against NumPy: values, signs of zero, rounding, faults."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from offarray.codegen import mathlib, numerics
from offarray.codegen.kernel import DIVIDE, INVALID, OVER, UNDER
from offarray.codegen.text import Code, Reg

from . import lanes
from .values import DTYPES, Array, describe, expected, inputs, operations, randoms, recorded, same, specials

TABLE = operations()
BOUND = 4.0  # units in the last place, for functions that libmvec computes

FINER = {"f4": "f8", "f8": "g"}


def rounded(op: str, srcs: tuple[str, ...]) -> bool:
    """Whether the operation is a libmvec function here, within BOUND of the exact value instead of NumPy's bits."""
    code = Code(lanes.target(), 8)
    return mathlib.vector_function(code, op, srcs[0]) is not None


def distance(op: str, arrays: list[Array], got: Array) -> float:
    """Greatest error in units in the last place; infinite where a special result differs from NumPy's."""
    want = expected(op, *arrays)
    special = ~numpy.isfinite(want) | (want == 0)
    if not same(got, want)[special].all() or not numpy.isfinite(got[~special]).all():
        return numpy.inf
    finer = expected(op, *(a.astype(FINER[a.dtype.str[1:]]) for a in arrays))[~special]
    with numpy.errstate(all="ignore"):
        unit = numpy.spacing(numpy.abs(want[~special])).astype("g")
    return float((abs(got[~special].astype("g") - finer.astype("g")) / unit).max(initial=0))


@pytest.mark.parametrize("op", sorted(TABLE))
def test_values(op: str) -> None:
    cases = [(srcs, out, width) for srcs, out in TABLE[op] for width in (1, 8)]
    cases += [(*TABLE[op][-1], width) for width in (2, 4, 16, 32)]
    built = lanes.build([lanes.operation(op, *case) for case in cases])
    for (srcs, _, width), function in zip(cases, built, strict=True):
        arrays = inputs(op, srcs)
        got = function(*arrays)
        if rounded(op, srcs):
            assert distance(op, arrays, got) <= BOUND, (op, srcs, width)
        else:
            assert not describe(f"{op} {srcs} x{width}", arrays, got, expected(op, *arrays))


def test_table_is_all_of_numpy() -> None:
    missing = []
    for name in dir(numpy._core.umath):  # type: ignore[attr-defined]
        ufunc = mathlib.ufunc(name)
        if ufunc is None or ufunc.nout != 1:
            continue
        for types in mathlib.signatures(name):
            if not numerics.supports(name, types[:-1], types[-1]):
                missing.append((name, types))
    assert not missing
    assert len(TABLE) >= 88


def test_unsupported() -> None:
    assert not numerics.supports("add", ("f8", "f4"), "f8")
    assert not numerics.supports("add", ("f8", "f8"), "f4")
    assert not numerics.supports("divmod", ("f8", "f8"), "f8")
    assert not numerics.supports("matmul", ("f8", "f8"), "f8")
    assert not numerics.supports("sort", ("f8",), "f8")
    assert not numerics.supports("real", ("f8",), "f8")
    assert not numerics.supports("select", ("f8", "f8", "f8"), "f8")
    with pytest.raises(NotImplementedError, match="arctan2"):
        numerics.apply(Code(lanes.target()), "arctan2", ("c8", "c8"), "c8", (("%a", "%b"), ("%c", "%d")))


@pytest.mark.parametrize(
    ("op", "srcs"), [(op, s) for op in mathlib.VECTOR for s, _ in TABLE[op] if s[0] in ("f4", "f8")]
)
def test_lanes_do_not_change_bits(op: str, srcs: tuple[str, ...]) -> None:
    built = lanes.build([lanes.operation(op, srcs, srcs[0], width) for width in (1, 2, 4, 8, 16, 32)])
    arrays = inputs(op, srcs, step=2)
    results = [function(*arrays) for function in built]
    shifted = built[3](*(numpy.roll(a, 3) for a in arrays))
    for got in (*results, numpy.roll(shifted, -3)):
        assert same(got, results[0]).all()


@pytest.mark.parametrize("features", ["+sse4.2", "+avx2,+fma,+f16c"])
def test_smaller_vectors(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = lanes.target()._replace(features=features, vector=32 if "avx2" in features else 16)
    monkeypatch.setattr(lanes, "target", lambda: narrow)
    for op, srcs, out in (
        ("exp", ("f8",), "f8"), ("sin", ("f4",), "f4"), ("power", ("f8", "f8"), "f8"), ("exp", ("c16",), "c16"),
        ("remainder", ("f4", "f4"), "f4"), ("floor_divide", ("i4", "i4"), "i4"),
    ):  # fmt: skip
        arrays = inputs(op, srcs)
        for width in (1, 4, 8):
            got = lanes.build([lanes.operation(op, srcs, out, width)])[0](*arrays)
            if op in mathlib.VECTOR and srcs[0][0] == "f":
                assert distance(op, arrays, got) <= BOUND
            else:
                assert not describe(op, arrays, got, expected(op, *arrays))


def test_without_libmvec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathlib, "vector_function", lambda code, op, dtype: None)
    for op in ("exp", "log", "tanh", "arctan2", "power"):
        srcs = TABLE[op][-1][0] if op == "arctan2" else ("f8",) * (2 if op == "power" else 1)
        arrays = inputs(op, srcs)
        got = lanes.build([lanes.operation(op, srcs, "f8", 8)])[0](*arrays)
        assert not describe(op, arrays, got, expected(op, *arrays))


def test_unverified_ufunc_objects_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathlib, "_COUNT", 52)  # the wrong offset: nothing there agrees
    mathlib._loops.cache_clear()
    try:
        assert not numerics.supports("gcd", ("i4", "i4"), "i4")
        assert not numerics.supports("exp", ("c16",), "c16")
        assert numerics.supports("add", ("f8", "f8"), "f8")
        with pytest.raises(LookupError):
            mathlib.resolve("npy:gcd:i4,i4,i4")
    finally:
        mathlib._loops.cache_clear()


def test_resolve() -> None:
    assert mathlib.resolve("npy:exp:f8,f8") == mathlib._loops("exp")[0][mathlib.signatures("exp")["f8", "f8"]]
    assert mathlib.resolve("fmod")
    for name in ("npy:exp:i4,i4", "npy:nothing:f8,f8", "no_such_function_anywhere"):
        with pytest.raises(LookupError, match="no symbol"):
            mathlib.resolve(name)


def exact_values() -> list[tuple[str, Array, Array]]:
    powers = numpy.arange(-1000.0, 1000)
    tens, cubes = 10.0 ** numpy.arange(-20, 23), numpy.arange(-50.0, 50) ** 3
    return [
        ("log2", 2.0**powers, powers), ("exp2", powers, 2.0**powers), ("log10", tens[20:], numpy.arange(0.0, 23)),
        ("cbrt", cubes, numpy.cbrt(cubes)), ("exp", numpy.zeros(1), numpy.ones(1)),
        ("sin", numpy.array([0.0, -0.0]), numpy.array([0.0, -0.0])),
    ]  # fmt: skip


@pytest.mark.parametrize(("op", "x", "want"), exact_values())
def test_exact_values(op: str, x: Array, want: Array) -> None:
    assert not describe(op, [x], lanes.build([lanes.operation(op, ("f8",), "f8")])[0](x), want)


EDGES = (
    200, 300, -300, 32768, 40000, 65503.5, 65519, 65520, 65519.999999, 65536, -(2**31) - 1, -(2.0**31) - 0.5,
    2.0**31 - 0.5, 2**31, 2**32, 2**32 - 0.5, 2**33, 2**63, 2**63 * 1.5, 2.0**64, -(2.0**63), -(2.0**63) * 1.5, -0.99,
    -(2.0**32), 1e-7, 1e-5, 6e-8, 2.0**-24, 2.0**-25, 2.0**-25 * (1 + 2.0**-40), 1e-39, 2.0**-140, 2.0**-150, 2049,
    2049 * (1 + 2.0**-30), 2049 * (1 - 2.0**-30), 1e300, -1e-300,
)  # fmt: skip


def cast_inputs(dtype: str, size: int = 1000) -> Array:
    """Numbers near the limits of other types."""
    some = [specials(dtype), randoms(dtype, size)]
    if dtype[0] == "f":
        random = numpy.random.default_rng(5)
        far = random.normal(size=size) * 10.0 ** random.integers(-10, 22, size)
        with numpy.errstate(over="ignore"):
            some += [numpy.array(EDGES).astype(dtype), far.astype(dtype)]
    return numpy.concatenate(some)


def bulk(dtype: str) -> Callable[[Array], Array]:
    """Cast of each element among enough others for NumPy's vector loop (its scalar one casts f8 to u4 otherwise)."""
    return lambda x: x.repeat(32).astype(dtype)[::32]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("src", DTYPES)
def test_casts(src: str) -> None:
    x = cast_inputs(src)
    cases = [(out, width) for out in DTYPES for width in (1, 8, 16)]
    built = lanes.build([lanes.operation("cast", (src,), out, width) for out, width in cases])
    for (out, width), function in zip(cases, built, strict=True):
        with numpy.errstate(all="ignore"):
            want = bulk(out)(x)
        assert not describe(f"{src} to {out} x{width}", [x], function(x), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_select(dtype: str) -> None:
    assert numerics.supports("select", ("b1", dtype, dtype), dtype)
    condition, x, y = randoms("b1", 300), randoms(dtype, 300), randoms(dtype, 300, 2)
    for function in lanes.build([lanes.operation("select", ("b1", dtype, dtype), dtype, w) for w in (1, 8)]):
        assert not describe("select", [condition, x, y], function(condition, x, y), numpy.where(condition, x, y))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts(dtype: str) -> None:
    part = "f4" if dtype == "c8" else "f8"
    x = specials(dtype)
    real, imag = lanes.build([lanes.operation(op, (dtype,), part, 8) for op in ("real", "imag")])
    assert not describe("real", [x], real(x), x.real)
    assert not describe("imag", [x], imag(x), x.imag)


# Faults

ALL = DIVIDE | OVER | UNDER | INVALID
WARNED = DIVIDE | OVER | INVALID
ARITHMETIC = "add subtract multiply divide floor_divide remainder fmod square reciprocal sqrt".split()
QUIET = (
    "equal less maximum minimum fmax fmin clip sign absolute negative floor ceil rint trunc isnan isfinite signbit "
    "copysign logical_and heaviside bitwise_and left_shift modf_int tanh arctan arcsinh"
).split()
SPECIAL = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh arcsin arccos arccosh arctanh power float_power hypot "
    "degrees"
).split()


def fault_case(op: str, srcs: tuple[str, ...], out: str, kinds: int) -> tuple[list[Array], Array, Array]:
    """(sources, fault bits that we find, fault bits that NumPy reports)."""
    step = {1: 1, 2: 2, 3: 2}[len(srcs)]
    arrays = inputs(op, srcs, 20, step)
    got, suspects = lanes.build([m(op, srcs, out, kinds) for m in (lanes.fault_bits, lanes.suspicion)])
    bits = got(*arrays)
    assert suspects(*arrays)[bits != 0].all(), f"{op} {srcs}: a fault that nothing suspected"
    ufunc: Any = mathlib.ufunc(numerics.SPLIT.get(op, (op, 0))[0])
    return arrays, bits, recorded(ufunc, *arrays) & kinds


@pytest.mark.parametrize("op", ARITHMETIC)
def test_faults_of_arithmetic(op: str) -> None:
    for srcs, out in TABLE[op]:
        kinds = ALL if srcs[0][0] == "f" or srcs[0][0] in "biu" else WARNED
        arrays, got, want = fault_case(op, srcs, out, kinds)
        assert not describe(f"faults of {op} {srcs}", arrays, got, want)


@pytest.mark.parametrize("op", SPECIAL)
def test_faults_of_functions(op: str) -> None:
    for srcs, out in TABLE[op]:
        if srcs[0][0] != "f":
            continue
        arrays, got, want = fault_case(op, srcs, out, WARNED)
        if op == "power":  # some processors' loops report faults of infinite exponents, which C has not
            keep = numpy.isfinite(arrays[1])
            arrays, got, want = [a[keep] for a in arrays], got[keep], want[keep]
        assert not describe(f"faults of {op} {srcs}", arrays, got, want)


@pytest.mark.parametrize("op", QUIET)
def test_no_faults(op: str) -> None:
    for srcs, out in TABLE[op]:
        if srcs[0][0] == "c":
            continue
        arrays, got, want = fault_case(op, srcs, out, WARNED)
        assert not got.any()
        assert not want.any(), f"{op} {srcs} faults at {[a[want != 0][:3] for a in arrays]}"


@pytest.mark.parametrize("op", ["less", "greater_equal", "equal", "not_equal", "absolute", "log"])
def test_faults_of_complex_functions(op: str) -> None:
    for srcs, out in TABLE[op]:
        if srcs[0][0] != "c":
            continue
        arrays, got, want = fault_case(op, srcs, out, WARNED)
        assert not describe(f"faults of {op}", arrays, got, want)


@pytest.mark.parametrize("src", DTYPES)
def test_faults_of_casts(src: str) -> None:
    x = numpy.unique(cast_inputs(src, 20))
    for out in DTYPES:
        got, suspects = lanes.build([m("cast", (src,), out, ALL) for m in (lanes.fault_bits, lanes.suspicion)])
        want = recorded(lambda v, out=out: v.repeat(33).astype(out), x)
        assert not describe(f"faults of {src} to {out}", [x], got(x), want)
        assert suspects(x)[got(x) != 0].all()


def test_fault_kinds_are_masked() -> None:
    x, y = numpy.array([1.0, 1e308, 0.0, 1e-300]), numpy.array([0.0, 1e-10, 0.0, 1e300])
    for kinds in range(16):
        got = lanes.build([lanes.fault_bits("divide", ("f8", "f8"), "f8", kinds)])[0](x, y)
        assert got.tolist() == [DIVIDE & kinds, OVER & kinds, INVALID & kinds, UNDER & kinds]


# Folds

MONOIDS = ("add", "multiply", "minimum", "maximum", "fmin", "fmax")


@pytest.mark.parametrize("keep", ["last", "prefix"])
@pytest.mark.parametrize("monoid", [*MONOIDS, "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or"])
def test_identity(monoid: str, keep: str) -> None:
    for dtype in ["b1"] if monoid.startswith("logical") else DTYPES:
        if not numerics.supports(monoid, (dtype, dtype), dtype):
            continue
        literal = numerics.identity(monoid, dtype, keep)

        def emit(code: Code, args: tuple[Reg, ...], dtype: str = dtype, literal: Reg = literal) -> Reg:
            return numerics.combine(code, monoid, dtype, literal, args[0])

        x = specials(dtype)
        if dtype[0] == "c" and monoid == "multiply":
            x = x[numpy.isfinite(x)]  # (1 + 0j) * (inf + 1j) has NaN in it
            x = x[~numpy.signbit(x.real) & ~numpy.signbit(x.imag)]
        if dtype[0] == "c" and monoid[0] == "f":
            x = x[~numpy.isnan(x)]  # both parts become NaN
        got = lanes.build([lanes.Case((dtype,), dtype, 1, emit)])[0](x)
        ufunc = getattr(numpy, monoid)
        want = ufunc.reduce(x[:, None], axis=1, dtype=dtype) if keep == "last" else x
        assert not describe(f"identity of {monoid} {dtype}", [x], got, want)


def arg_case(monoid: str, dtype: str) -> lanes.Case:
    """Position, of (v, i) and (w, j), that wins."""

    def emit(code: Code, args: tuple[Reg, ...]) -> Reg:
        v, i, w, j = args
        return numerics.combine_arg(code, monoid, dtype, (v, str(i)), (w, str(j)))[1]

    return lanes.Case((dtype, "i8", dtype, "i8"), "i8", 4, emit)


@pytest.mark.parametrize("monoid", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_combine_arg(monoid: str, dtype: str) -> None:
    v, w = inputs(monoid, (dtype, dtype), 300)
    best = lanes.build([arg_case(monoid, dtype)])[0]
    early, late = numpy.full(len(v), 3), numpy.full(len(v), 5)
    want = getattr(numpy.stack([v, w]), monoid)(axis=0)
    assert not describe(monoid, [v, w], best(v, early, w, late), numpy.where(want, 5, 3))
    # given the other way round: the position decides between equals, not the order
    assert not describe(monoid, [v, w], best(w, late, v, early), numpy.where(want, 5, 3))


@pytest.mark.parametrize("monoid", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_identity_of_arg(monoid: str, dtype: str) -> None:
    literal = numerics.identity(monoid, dtype)

    def emit(code: Code, args: tuple[Reg, ...]) -> Reg:
        return numerics.combine_arg(code, monoid, dtype, (literal, str(2**63 - 1)), (args[0], str(args[1])))[1]

    x = specials(dtype)
    got = lanes.build([lanes.Case((dtype, "i8"), "i8", 1, emit)])[0](x, numpy.arange(len(x)))
    assert numpy.array_equal(got, numpy.arange(len(x)))


# Any numbers at all


@functools.cache
def pair(op: str, dtype: str) -> Any:
    return lanes.build([lanes.operation(op, (dtype, dtype), dtype, 4)])[0]


@pytest.mark.parametrize("op", ["remainder", "floor_divide", "fmod"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u8"])
@hypothesis.given(data=st.data())
def test_division_of_anything(op: str, dtype: str, data: st.DataObject) -> None:
    width = 8 * int(dtype[1])
    if dtype[0] == "f":
        number: st.SearchStrategy[Any] = st.floats(width=width)  # type: ignore[arg-type]
    else:
        info = numpy.iinfo(dtype)
        number = st.integers(int(info.min), int(info.max)) | st.integers(max(-5, int(info.min)), 5)
    x, y = (numpy.array(data.draw(st.lists(number, min_size=8, max_size=8)), dtype) for _ in range(2))
    assert not describe(op, [x, y], pair(op, dtype)(x, y), expected(op, x, y))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_remainder_near_multiples(dtype: str) -> None:
    random = numpy.random.default_rng(9)
    y = (random.normal(size=4000) * 10.0 ** random.integers(-5, 5, 4000)).astype(dtype)
    x = (y * random.integers(-(2**20), 2**20, 4000)).astype(dtype)
    for step in (0, 1, -1):
        near = numpy.nextafter(x, numpy.full_like(x, numpy.inf * step)) if step else x
        for op in ("remainder", "fmod", "floor_divide"):
            assert not describe(op, [near, y], pair(op, dtype)(near, y), expected(op, near, y))


def test_loops_are_found_whichever_way_they_are_looked_up() -> None:
    for name in sorted(n for n in dir(numpy) if isinstance(getattr(numpy, n), numpy.ufunc)):
        known, results = mathlib.signatures(name), getattr(numpy, name).nout
        for types in known:
            if results > 1:
                assert not mathlib.listed(name, types)
            else:
                assert numerics._loop(name, types[:-1], types[-1]) == (name, types, 0)
        for types in itertools.product(set(mathlib.DTYPES.values()), repeat=3):
            if types not in known:
                assert not mathlib.listed(name, types) and numerics._loop(name, types[:-1], types[-1]) is None
