"""Mistakes put into the numerics tables on purpose: comparison with NumPy must notice each one."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from offarray.codegen import faults, mathlib, numerics, numerics_cast, numerics_float, numerics_int
from offarray.codegen.kernel import DIVIDE, INVALID, OVER
from offarray.codegen.rules import Args, Rule, Srcs, emit, same
from offarray.codegen.text import Code, Reg

from . import lanes
from .values import describe, inputs, mismatch, recorded, specials

ORIGINAL = dict(numerics.RULES)


def truncating(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Quotient towards zero."""
    return numerics_int.divide(code, out, str(args[0]), str(args[1]), floor=False)[0]


def float_quotient(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Floor of the rounded quotient."""
    return code.intrinsic("floor", out, code.op(f"fdiv {code.type(out)} {args[0]}, {args[1]}"))


def plain_fmod(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Remainder with the dividend's sign."""
    return numerics_float.fmod(code, out, str(args[0]), str(args[1]))


def signless_remainder(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Remainder whose zero is always positive."""
    rest = emit(code, ORIGINAL["remainder", "f"], srcs, out, args)
    zero = numerics_float.compare(code, "oeq", out, rest, 0.0)
    return numerics_float.choose(code, zero, out, 0.0, rest)


def by_select(condition: str) -> Rule:
    """Choice by one comparison: NaN goes wherever a false comparison sends it."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return numerics_float.choose(
            code, numerics_float.compare(code, condition, out, *args), out, args[0], args[1]
        )  # fmt: skip

    return rule


def unwrapped_shift(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Shift by the count modulo the width, as the processor does it."""
    width = code.const(out, numerics_int.bits(out) - 1)
    count = code.op(f"and {code.type(out)} {args[1]}, {width}")
    return code.op(f"shl {code.type(out)} {args[0]}, {count}")


def saturating(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Sum that stops at the limits."""
    return code.intrinsic("sadd.sat", out, *(str(a) for a in args))


def sticky_sign(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """sign(-0.0) == -0.0."""
    return numerics_float.copysign(code, out, emit(code, ORIGINAL["sign", "f"], srcs, out, args), args[0])


def numeric_truth(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """NaN taken for false."""
    return numerics_float.compare(code, "ueq", srcs[0], args[0], 0.0)


def double_rounding(code: Code, x: str) -> str:
    """f8 to f2 by way of f4, rounded twice."""
    return code.op(f"fptrunc {code.type('f8')} {x} to {code.type('f4')}")


def narrow_work(src: str, out: str) -> str:
    """Conversion to bytes by way of 64 bits."""
    return "i8"


def zero_not_min(code: Code, src: str, out: str, x: str) -> str:
    """Conversion that gives 0 for NaN."""
    bad = numerics_cast.out_of_range(code, src, out, x)
    safe = numerics_float.choose(code, bad, src, 0.0, x)
    return code.op(f"fptosi {code.type(src)} {safe} to {code.type(out)}")


def conjugated(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Complex product with the conjugate."""
    conjugate = emit(code, ORIGINAL["conjugate", "c"], srcs[:1], out, args[1:])
    return emit(code, ORIGINAL["multiply", "c"], srcs, out, (args[0], conjugate))


def signless_sum(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Sum without its sign."""
    return code.intrinsic("fabs", out, str(emit(code, ORIGINAL["add", "h"], srcs, out, args)))


def third_power(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """x ** (1/3)."""
    return mathlib.call_loop(code, "power", (out, out, out), (args[0], code.const(out, 1 / 3)))


def plain_count(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Bits set of the two's complement."""
    return code.intrinsic("ctpop", srcs[0], str(args[0]))


# name -> (key of the table, mistake, signature that shows it)
RULES: dict[str, tuple[tuple[str, str], Rule, Srcs, str]] = {
    "floor_divide of ints truncates": (("floor_divide", "i"), truncating, ("i4", "i4"), "i4"),
    "floor_divide of floats rounds first": (("floor_divide", "f"), float_quotient, ("f8", "f8"), "f8"),
    "remainder keeps the dividend's sign": (("remainder", "f"), plain_fmod, ("f8", "f8"), "f8"),
    "remainder's zero has no sign": (("remainder", "f"), signless_remainder, ("f4", "f4"), "f4"),
    "fmod takes the divisor's sign": (("fmod", "f"), ORIGINAL["remainder", "f"], ("f8", "f8"), "f8"),
    "fmax propagates NaN": (("fmax", "f"), ORIGINAL["maximum", "f"], ("f8", "f8"), "f8"),
    "maximum ignores NaN": (("maximum", "f"), ORIGINAL["fmax", "f"], ("f8", "f8"), "f8"),
    "minimum loses the first NaN": (("minimum", "f"), by_select("olt"), ("f4", "f4"), "f4"),
    "maximum takes the first of equals": (("maximum", "f"), ORIGINAL["maximum", "h"], ("f8", "f8"), "f8"),
    "shift counts wrap": (("left_shift", "i"), unwrapped_shift, ("i8", "i8"), "i8"),
    "right shift fills with zeros": (("right_shift", "i"), ORIGINAL["right_shift", "u"], ("i2", "i2"), "i2"),
    "sums saturate": (("add", "i"), saturating, ("i1", "i1"), "i1"),
    "sign keeps the sign of zero": (("sign", "f"), sticky_sign, ("f8",), "f8"),
    "NaN is false": (("logical_not", "f"), numeric_truth, ("f8",), "b1"),
    "comparison is unordered": (("less", "f"), "fcmp ult {t} {0}, {1}", ("f8", "f8"), "b1"),
    "inequality is ordered": (("not_equal", "f"), "fcmp one {t} {0}, {1}", ("f4", "f4"), "b1"),
    "unsigned comparison is signed": (("greater", "u"), "icmp sgt {t} {0}, {1}", ("u4", "u4"), "b1"),
    "rint rounds half up": (("rint", "f"), numerics_float._intrinsic("round"), ("f8",), "f8"),
    "absolute of ints does nothing": (("absolute", "i"), same, ("i4",), "i4"),
    "negative subtracts from zero": (("negative", "f"), "fsub {t} zeroinitializer, {0}", ("f8",), "f8"),
    "sums of halves lose their sign": (("add", "h"), signless_sum, ("f2", "f2"), "f2"),
    "complex product conjugates": (("multiply", "c"), conjugated, ("c16", "c16"), "c16"),
    "complex order ignores imaginary parts": (
        ("less", "c"), lambda code, srcs, out, args: numerics_float.compare(code, "olt", "f8", args[0][0], args[1][0]),
        ("c16", "c16"), "b1",
    ),
    "cbrt is a power": (("cbrt", "f"), third_power, ("f8",), "f8"),
    "bits of negative numbers are counted": (("bitwise_count", "i"), plain_count, ("i1",), "u1"),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key, mistake, srcs, out = RULES[name]
    assert not mismatch(key[0], srcs, out)
    monkeypatch.setitem(numerics.RULES, key, mistake)
    assert mismatch(key[0], srcs, out), f"nobody notices that {name}"


def cast_mismatch(src: str, out: str) -> str:
    """First differences of a cast."""
    extra = [1e10, 3e9, 300.0, 2049 * (1 + 2.0**-30)] if src[0] == "f" else []
    x = numpy.concatenate([specials(src), numpy.array(extra, src)])
    with numpy.errstate(all="ignore"):
        want = x.repeat(32).astype(out)[::32]
    return describe("cast", [x], lanes.build([lanes.operation("cast", (src,), out)])[0](x), want)


@pytest.mark.parametrize(
    ("name", "mistake", "src", "out"),
    [
        ("round_to_odd", double_rounding, "f8", "f2"),
        ("work_type", narrow_work, "f8", "i2"),
        ("_signed", zero_not_min, "f8", "i4"),
        ("_unsigned", zero_not_min, "f4", "u8"),
    ],
)
def test_cast(name: str, mistake: Any, src: str, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not cast_mismatch(src, out)
    monkeypatch.setattr(numerics_cast, name, mistake)
    assert cast_mismatch(src, out), f"nobody notices {mistake.__doc__}"


def fault_mismatch(op: str, srcs: tuple[str, ...]) -> str:
    """First differences of the fault bits."""
    arrays = inputs(op, srcs, 20, 1 if srcs[0][0] == "i" else 2)
    kinds = DIVIDE | OVER | INVALID
    got = lanes.build([lanes.fault_bits(op, srcs, srcs[0], kinds)])[0](*arrays)
    return describe(f"faults of {op}", arrays, got, recorded(getattr(numpy, op), *arrays) & kinds)


@pytest.mark.parametrize(
    ("op", "row", "srcs"),
    [
        ("divide", {INVALID: faults.made_nan, OVER: faults.made_infinite}, ("f8", "f8")),
        ("divide", {INVALID: faults.made_nan, DIVIDE: faults.pole, OVER: faults.made_infinite}, ("f8", "f8")),
        ("add", {INVALID: faults.is_nan, OVER: faults.made_infinite}, ("f8", "f8")),
        ("multiply", {INVALID: faults.made_nan}, ("f4", "f4")),
        ("log", {INVALID: faults.made_nan}, ("f8",)),
        ("log1p", {DIVIDE: faults.at(0.0), INVALID: faults.made_nan}, ("f8",)),
        ("floor_divide", {INVALID: faults.made_nan, DIVIDE: faults.pole}, ("f8", "f8")),
        ("remainder", {}, ("f8", "f8")),
        ("multiply", {INVALID: faults.made_nan}, ("c16", "c16")),
    ],
)
def test_fault(op: str, row: faults.Row, srcs: Srcs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not fault_mismatch(op, srcs)
    monkeypatch.setitem(faults.FLOAT, op, row)
    assert fault_mismatch(op, srcs)


def test_integer_division_by_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(code: Code, dtype: str, x: str, y: str) -> str:
        return code.const("b1", 0)

    assert not fault_mismatch("floor_divide", ("i4", "i4"))
    monkeypatch.setattr(numerics_int, "overflowing", nothing)
    assert fault_mismatch("floor_divide", ("i4", "i4"))


@pytest.mark.parametrize(
    ("monoid", "wrong", "dtype", "x"),
    [("add", -0.0, "f8", -0.0), ("fmin", math.inf, "f8", math.nan), ("minimum", 1e308, "f8", math.inf)],
)
def test_identity(monoid: str, wrong: float, dtype: str, x: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def joined() -> str:
        literal = numerics.identity(monoid, dtype)
        rule = lanes.Case(
            (dtype,), dtype, 1, lambda code, args: numerics.combine(code, monoid, dtype, literal, args[0])
        )
        sample = numpy.array([x])
        want = getattr(numpy, monoid).reduce(sample[:, None], axis=1)
        return describe(monoid, [sample], lanes.build([rule])[0](sample), want)

    assert not joined()
    monkeypatch.setattr(numerics, "_identity", lambda monoid, dtype: wrong)
    assert joined()
