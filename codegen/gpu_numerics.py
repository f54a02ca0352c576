"""NumPy's scalar semantics on a graphics processor: the shared rules, and forms of their own for what calls a library.

in: gpu_emit.py hands over registers and dtypes; out: instructions appended to its `Code`.

Mathematics is libdevice's ("__nv_..." functions, linked in by nvptx.py).  Halves are computed in f4.
Rules of `SINGLE` are written for one lane and repeated over the lanes.
"""

from __future__ import annotations

import math

import numpy

from . import gpu_complex, numerics, numerics_float, numerics_int
from .gpu_library import LIBRARY, hypot, library
from .numerics_cast import real_cast
from .numerics_float import both, choose, compare, copysign, magnitude
from .rules import Args, Emit, Rule, Rules, Srcs, emit, kind
from .text import PARTS, SCALARS, Code, Reg


def _library(name: str) -> Emit:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return library(code, name, out, *(str(a) for a in args))

    return rule


def _halves(rule: Emit) -> Emit:
    """The rule in f4, its floats widened and its result rounded."""

    def narrow(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        values = [real_cast(code, "f2", "f4", str(a)) if s == "f2" else a for s, a in zip(srcs, args, strict=True)]
        wide = tuple("f4" if s == "f2" else s for s in srcs)
        result = rule(code, wide, "f4" if out == "f2" else out, tuple(values))
        return real_cast(code, "f4", "f2", str(result)) if out == "f2" else result

    return narrow


# ---------------------------------------------------------------------- floats
def _log_add(exp: str, unit: float, scale: float) -> Emit:
    """log(exp(x) + exp(y)) from the larger one; `unit` is what two equals add, `scale` what log1p is short of."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        t, (x, y) = code.type(out), (str(a) for a in args)
        apart = code.op(f"fsub {t} {x}, {y}")
        less = code.op(f"fneg {t} {magnitude(code, out, apart)}")
        rest = library(code, "log1p", out, library(code, exp, out, less))
        if scale != 1:
            rest = code.op(f"fmul {t} {rest}, {code.const(out, scale)}")
        larger = choose(code, compare(code, "ogt", out, apart, 0.0), out, x, y)
        result = code.op(f"fadd {t} {larger}, {rest}")
        equal = compare(code, "oeq", out, x, y)  # infinities too
        result = choose(code, equal, out, code.op(f"fadd {t} {x}, {code.const(out, unit)}"), result)
        return choose(code, compare(code, "uno", out, apart, apart), out, _nan_unless(code, out, equal, apart, result),
                      result)  # fmt: skip

    return rule


def _nan_unless(code: Code, dtype: str, condition: str, nan: str, value: str) -> str:
    return choose(code, condition, dtype, value, nan)


def _spacing(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Distance to the next number away from zero."""
    x, t = str(args[0]), code.type(out)
    further = library(code, "nextafter", out, x, copysign(code, out, math.inf, x))
    result = code.op(f"fsub {t} {further}, {x}")
    infinite = compare(code, "oeq", out, magnitude(code, out, x), math.inf)
    return choose(code, infinite, out, math.nan, result)


# Of two zeros NumPy gives the first one, and from 2.5 on the second.
_SECOND = bool(numpy.signbit(numpy.nextafter(numpy.float16(0.0), numpy.float16(-0.0))))


def _half_next(code: Code, x: str, y: str) -> str:
    """The half after x towards y, on its bits."""
    t, b = code.type("i2"), code.type("b1")
    bits = code.op(f"bitcast {code.type('f2')} {x} to {t}")
    wide = [real_cast(code, "f2", "f4", v) for v in (x, y)]
    zero = compare(code, "oeq", "f4", wide[0], 0.0)
    # the magnitude grows where y lies further from zero on x's side
    up = compare(code, "ogt", "f4", wide[1], wide[0])
    positive = compare(code, "ogt", "f4", wide[0], 0.0)
    grows = code.op(f"xor {b} {up}, {code.op(f'xor {b} {positive}, ' + code.const('b1', 1))}")
    moved = code.op(f"select {b} {grows}, {t} {code.op(f'add {t} {bits}, 1')}, {t} {code.op(f'sub {t} {bits}, 1')}")
    least = code.op(f"select {b} {up}, {t} 1, {t} {-32767}")
    moved = code.op(f"select {b} {zero}, {t} {least}, {t} {moved}")
    result = code.op(f"bitcast {t} {moved} to {code.type('f2')}")
    same = compare(code, "oeq", "f4", *wide)
    result = choose(code, same, "f2", y if _SECOND else x, result)
    total = real_cast(code, "f4", "f2", code.op(f"fadd float {wide[0]}, {wide[1]}"))
    return choose(code, compare(code, "uno", "f4", *wide), "f2", total, result)


def _half_nextafter(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return _half_next(code, str(args[0]), str(args[1]))


def _half_spacing(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Distance to the next greater number, by the exponent; a power of two below zero has it closer."""
    bits = code.op(f"bitcast half {args[0]} to i16")
    exponent, rest = code.op(f"and i16 {bits}, {0x7C00}"), code.op(f"and i16 {bits}, {0x03FF}")
    edge = both(code, code.op(f"icmp slt i16 {bits}, 0"), code.op(f"icmp eq i16 {rest}, 0"))
    last = code.op(f"select i1 {edge}, i16 {0x2C00}, i16 {0x2800}")
    place = code.op(f"sub i16 {code.op(f'lshr i16 {exponent}, 10')}, {code.op(f'select i1 {edge}, i16 2, i16 1')}")
    tiny = code.op(f"shl i16 1, {code.op(f'and i16 {place}, 15')}")
    small = code.op(f"select i1 {code.op(f'icmp ugt i16 {exponent}, {0x0400}')}, i16 {tiny}, i16 1")
    large = code.op(f"icmp ugt i16 {exponent}, {last}")
    result = code.op(f"select i1 {large}, i16 {code.op(f'sub i16 {exponent}, {last}')}, i16 {small}")
    result = code.op(f"select i1 {code.op(f'icmp eq i16 {bits}, {0x7BFF}')}, i16 {0x7C00}, i16 {result}")
    unknown = code.op(f"icmp eq i16 {exponent}, {0x7C00}")
    return code.op(f"bitcast i16 {code.op(f'select i1 {unknown}, i16 {0x7E00}, i16 {result}')} to half")


def _hypot(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return hypot(code, out, str(args[0]), str(args[1]))


def _by_double(rule: Emit) -> Emit:
    """The rule in f8, its result rounded to f4."""

    def wide(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        if out != "f4":
            return rule(code, srcs, out, args)
        values = tuple(real_cast(code, "f4", "f8", str(a)) for a in args)
        return real_cast(code, "f8", "f4", str(rule(code, ("f8",) * len(args), "f8", values)))

    return wide


def _ldexp(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    t, count = SCALARS[out], str(args[1])
    if srcs[1] == "i8":
        count = code.call("i64", "llvm.smax.i64", ("i64", count), ("i64", "-20000"))
        count = code.call("i64", "llvm.smin.i64", ("i64", count), ("i64", "20000"))
        count = code.op(f"trunc i64 {count} to i32")
    return code.call(t, f"__nv_ldexp{'f' if out == 'f4' else ''}", (t, str(args[0])), ("i32", count))


def _frexp(which: int) -> Emit:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        dtype, t, x = srcs[0], SCALARS[srcs[0]], str(args[0])
        slot = code.alloca("i32", 4)
        mantissa = code.call(t, f"__nv_frexp{'f' if dtype == 'f4' else ''}", (t, x), ("ptr", slot))
        special = numerics_float.not_finite(code, dtype, x)
        if which == 0:
            return choose(code, special, dtype, x, mantissa)
        exponent = code.op(f"load i32, ptr {slot}, align 4")
        return code.op(f"select i1 {special}, i32 0, i32 {exponent}")

    return rule


# ---------------------------------------------------------------------- integers
def _gcd(code: Code, dtype: str, x: str, y: str) -> str:
    """Euclid's algorithm on magnitudes."""
    t = code.type(dtype)
    if dtype[0] == "i":
        x, y = (str(emit(code, numerics_int.SIGNED["absolute"], (dtype,), dtype, (v,))) for v in (x, y))
    before, head, again, done = code.block, code.label("gcd"), code.label("gcdnext"), code.label("gcdend")
    code.add(f"br label %{head}")
    code.start(head)
    rest = code.temp()
    a = code.temp()
    b = code.temp()
    code.add(f"{a} = phi {t} [ {x}, %{before} ], [ {b}, %{again} ]")
    code.add(f"{b} = phi {t} [ {y}, %{before} ], [ {rest}, %{again} ]")
    code.add(f"br i1 {code.op(f'icmp eq {t} {b}, 0')}, label %{done}, label %{again}")
    code.start(again)
    code.add(f"{rest} = urem {t} {a}, {b}")
    code.add(f"br label %{head}")
    code.start(done)
    return a


def _gcd_rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return _gcd(code, out, str(args[0]), str(args[1]))


def _lcm(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    t = code.type(out)
    x, y = str(args[0]), str(args[1])
    if out[0] == "i":
        x, y = (str(emit(code, numerics_int.SIGNED["absolute"], (out,), out, (v,))) for v in (x, y))
    common = _gcd(code, "u" + out[1], x, y)
    nothing = code.op(f"icmp eq {t} {common}, 0")
    safe = code.op(f"select i1 {nothing}, {t} 1, {t} {common}")
    return code.op(f"mul {t} {code.op(f'udiv {t} {x}, {safe}')}, {y}")


def _integer_reciprocal(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    wide = real_cast(code, out, "f8", str(args[0]))
    ratio = code.op(f"fdiv {code.type('f8')} {code.const('f8', 1.0)}, {wide}")
    return real_cast(code, "f8", out, ratio)


def _one(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    one = code.const(PARTS.get(out, out), 1)
    return (one, code.const(PARTS[out], 0)) if out in PARTS else one


def _shift(op: str, kind_of_source: str) -> Emit:
    """A shift of 8 bytes by a count that is looked at in two halves: a device's shift takes 4 bytes of it."""
    rule = numerics.RULES[op, kind_of_source]

    def split(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        if out not in ("i8", "u8"):
            return emit(code, rule, srcs, out, args)
        low = code.op(f"zext i32 {code.op(f'trunc i64 {args[1]} to i32')} to i64")
        high = code.op(f"icmp ne i64 {code.op(f'lshr i64 {args[1]}, 32')}, 0")
        result = emit(code, rule, srcs, out, (args[0], low))
        rest = code.op(f"ashr i64 {args[0]}, 63") if op == "right_shift" and out == "i8" else "0"
        return code.op(f"select i1 {high}, i64 {rest}, i64 {result}")

    return split


# ---------------------------------------------------------------------- tables
_FLOATS: dict[str, Emit] = {
    **{op: _library(name) for op, name in LIBRARY.items()},
    "logaddexp": _by_double(_log_add("exp", math.log(2), 1)), "hypot": _hypot,
    "logaddexp2": _by_double(_log_add("exp2", 1.0, 1 / math.log(2))),
    "ldexp": _ldexp, "frexp_mantissa": _frexp(0), "frexp_exponent": _frexp(1), "spacing": _spacing,
}  # fmt: skip
_EXACT = ("fmod", "remainder", "floor_divide")  # shared rules that call libdevice's fmod where it counts

SINGLE: Rules = {
    **{(op, "f"): rule for op, rule in _FLOATS.items()},
    **{(op, "h"): _halves(rule) for op, rule in _FLOATS.items()},
    **{(op, kind): numerics.RULES[op, kind] for op in _EXACT for kind in "fh"},
    ("nextafter", "h"): _half_nextafter, ("spacing", "h"): _half_spacing,
    **{("gcd", kind): _gcd_rule for kind in "iu"}, **{("lcm", kind): _lcm for kind in "iu"},
    **{(op, kind): _shift(op, kind) for op in ("left_shift", "right_shift") for kind in "iu"},
    **{("power", kind): numerics.RULES["power", kind] for kind in "iu"},
    **{(op, "c"): rule for op, rule in gpu_complex.SINGLE.items()},
}  # fmt: skip

WIDE: Rules = {
    **{(op, kind): rule for (op, kind), rule in numerics.RULES.items() if (op, kind) not in SINGLE},
    **{("reciprocal", kind): _integer_reciprocal for kind in "iu"},
    **{("_ones_like", kind): _one for kind in "biuhfc"}, **{(op, "c"): rule for op, rule in gpu_complex.WIDE.items()},
}  # fmt: skip


def supports(op: str, srcs: Srcs, out: str) -> bool:
    """Whether `apply` emits this operation; it must be one of `numerics.supports` too."""
    if op in ("cast", "select", "real", "imag"):
        return numerics.supports(op, srcs, out)
    key = (op, kind(srcs[0]))
    return (key in SINGLE or key in WIDE) and numerics.supports(op, srcs, out)


def apply(code: Code, op: str, srcs: Srcs, out: str, args: Args) -> Reg:
    """Emit one operation; as `numerics.apply`."""
    if op in ("cast", "select"):
        return numerics.apply(code, op, srcs, out, args)
    key = (op, kind(srcs[0]))
    if key in SINGLE:
        return _each(code, SINGLE[key], srcs, out, args)
    if key not in WIDE:
        raise NotImplementedError(f"no device code for {op}({', '.join(srcs)}) -> {out}")
    return emit(code, WIDE[key], srcs, out, args)


def _each(code: Code, rule: Rule, srcs: Srcs, out: str, args: Args) -> Reg:
    """A rule for one lane, over all lanes."""
    lanes = code.lanes
    if lanes == 1:
        return emit(code, rule, srcs, out, args)
    code.lanes = 1
    whole = ["poison", "poison"]
    scalar = SCALARS[PARTS.get(out, out)]
    for k in range(lanes):
        taken = tuple(_lane(code, s, a, lanes, k) for s, a in zip(srcs, args, strict=True))
        result = emit(code, rule, srcs, out, taken)
        for p, register in enumerate([result] if isinstance(result, str) else result):
            whole[p] = code.op(f"insertelement <{lanes} x {scalar}> {whole[p]}, {scalar} {register}, i64 {k}")
    code.lanes = lanes
    return (whole[0], whole[1]) if out in PARTS else whole[0]


def _lane(code: Code, dtype: str, value: Reg, lanes: int, k: int) -> Reg:
    t = f"<{lanes} x {SCALARS[PARTS.get(dtype, dtype)]}>"
    if isinstance(value, tuple):
        first, second = (code.op(f"extractelement {t} {v}, i64 {k}") for v in value)
        return first, second
    return code.op(f"extractelement {t} {value}, i64 {k}")
