"""Float operations as LLVM IR: f4 and f8 directly, f2 computed in f4 and rounded once for each operation."""

from __future__ import annotations

import math

from . import mathlib
from .rules import Args, Rule, Rules, Srcs, emit, merge, same
from .text import SIZES, Code, Reg

MANTISSA = {"f2": 10, "f4": 23, "f8": 52}
SMALLEST = {"f2": 2.0**-14, "f4": 2.0**-126, "f8": 2.0**-1022}  # normal
LARGEST = {"f2": 65504.0, "f4": (2 - 2.0**-23) * 2.0**127, "f8": (2 - 2.0**-52) * 2.0**1023}


def compare(code: Code, condition: str, dtype: str, x: Reg, y: Reg | float) -> str:
    """fcmp of a register with a register or a number."""
    other = y if isinstance(y, str) else code.const(dtype, y)  # type: ignore[arg-type]
    return code.op(f"fcmp {condition} {code.type(dtype)} {x}, {other}")


def choose(code: Code, condition: str, dtype: str, x: Reg | float, y: Reg | float) -> str:
    """Select of registers or numbers."""
    first, second = (v if isinstance(v, str) else code.const(dtype, v) for v in (x, y))  # type: ignore[arg-type]
    t = code.type(dtype)
    return code.op(f"select {code.type('b1')} {condition}, {t} {first}, {t} {second}")


def both(code: Code, *conditions: str) -> str:
    """All of the conditions."""
    held = conditions[0]
    for other in conditions[1:]:
        held = code.op(f"and {code.type('b1')} {held}, {other}")
    return held


def either(code: Code, *conditions: str) -> str:
    """Any of the conditions."""
    held = conditions[0]
    for other in conditions[1:]:
        held = code.op(f"or {code.type('b1')} {held}, {other}")
    return held


def magnitude(code: Code, dtype: str, x: Reg) -> str:
    """Absolute value."""
    return code.intrinsic("fabs", dtype, str(x))


def copysign(code: Code, dtype: str, x: Reg | float, y: Reg) -> str:
    """x with the sign of y."""
    first = x if isinstance(x, str) else code.const(dtype, x)  # type: ignore[arg-type]
    return code.intrinsic("copysign", dtype, first, str(y))


def not_finite(code: Code, dtype: str, x: Reg) -> str:
    """Lanes that hold NaN or an infinity."""
    return compare(code, "uge", dtype, magnitude(code, dtype, x), math.inf)


def _intrinsic(name: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return code.intrinsic(name, out, *(str(a) for a in args))

    return rule


def _vector(op: str) -> Rule:
    """libmvec's function if it is there, else NumPy's own loop."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        found = mathlib.vector_function(code, op, out)
        if found is None:
            return mathlib.call_loop(code, op, (*srcs, out), args)
        return mathlib.call_vector(code, *found, out, tuple(str(a) for a in args))

    return rule


def _log10(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """libmvec's function; NumPy's own loop where the result is next to an integer: those of powers of ten are exact."""
    found = mathlib.vector_function(code, "log10", out)
    if found is None:
        return mathlib.call_loop(code, "log10", (out, out), args)
    fast, t = mathlib.call_vector(code, *found, out, (str(args[0]),)), code.type(out)
    gap = magnitude(code, out, code.op(f"fsub {t} {fast}, {code.intrinsic('roundeven', out, fast)}"))
    bound = code.op(f"fmul {t} {magnitude(code, out, fast)}, {code.const(out, 2.0 ** (2 - MANTISSA[out]))}")
    near = both(code, compare(code, "ogt", out, gap, 0.0), compare(code, "ole", out, gap, bound))

    def exact() -> str:
        return choose(code, near, out, mathlib.call_loop(code, "log10", (out, out), args), fast)

    return merge(code, near, fast, out, exact)


def _fast_fmod(code: Code, dtype: str, x: str, y: str) -> tuple[str, str]:
    """x modulo y, exact where the other result, the lanes it does not cover, does not hold.

    With |x / y| below 2**mantissa the truncated quotient is off by one at most, and x - quotient * y is a
    multiple of y's last place no longer than y: one fused operation gives it without rounding.
    """
    t = code.type(dtype)
    ratio = code.op(f"fdiv {t} {x}, {y}")
    wide = compare(code, "uge", dtype, magnitude(code, dtype, ratio), 2.0 ** MANTISSA[dtype])
    quotient = code.intrinsic("trunc", dtype, ratio)
    minus = code.op(f"fneg {t} {quotient}")
    rest = code.intrinsic("fma", dtype, minus, y, x)
    rest = choose(code, compare(code, "oeq", dtype, quotient, 0.0), dtype, x, rest)
    # The quotient may have been rounded up to an integer: the rest then has the other sign.
    size, signed = magnitude(code, dtype, y), copysign(code, dtype, 1.0, x)
    length = code.op(f"fmul {t} {rest}, {signed}")
    low = compare(code, "olt", dtype, length, 0.0)
    length = choose(code, low, dtype, code.op(f"fadd {t} {length}, {size}"), length)
    high = compare(code, "oge", dtype, length, size)
    length = choose(code, high, dtype, code.op(f"fsub {t} {length}, {size}"), length)
    return copysign(code, dtype, length, x), wide


def fmod(code: Code, dtype: str, x: str, y: str) -> str:
    """C's fmod, exact."""
    fast, wide = _fast_fmod(code, dtype, x, y)

    def slow() -> str:
        if code.target.kind == "cuda":
            both_args = [(code.type(dtype), v) for v in (x, y)]
            return code.call(code.type(dtype), "__nv_fmod" if dtype == "f8" else "__nv_fmodf", *both_args)
        code.extern("fmod" if dtype == "f8" else "fmodf", None)
        return code.op(f"frem {code.type(dtype)} {x}, {y}")

    return merge(code, wide, fast, dtype, slow)


def _fmod(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return fmod(code, out, str(args[0]), str(args[1]))


def _sign_differs(code: Code, dtype: str, rest: str, y: str) -> str:
    some = compare(code, "une", dtype, rest, 0.0)
    b = code.type("b1")
    signs = [compare(code, "olt", dtype, v, 0.0) for v in (rest, y)]
    return both(code, some, code.op(f"xor {b} {signs[0]}, {signs[1]}"))


def _remainder(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """fmod moved to the divisor's sign; a zero takes that sign too."""
    x, y = str(args[0]), str(args[1])
    rest = fmod(code, out, x, y)
    moved = code.op(f"fadd {code.type(out)} {rest}, {y}")
    result = choose(code, _sign_differs(code, out, rest, y), out, moved, rest)
    exact = compare(code, "oeq", out, rest, 0.0)
    return choose(code, exact, out, copysign(code, out, 0.0, y), result)


def _floor_divide(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """(x - remainder) / y to the nearest integer; x / y where y is zero."""
    x, y, t = str(args[0]), str(args[1]), code.type(out)
    ratio = code.op(f"fdiv {t} {x}, {y}")
    rest = fmod(code, out, x, y)
    quotient = code.op(f"fdiv {t} {code.op(f'fsub {t} {x}, {rest}')}, {y}")
    fewer = code.op(f"fsub {t} {quotient}, {code.const(out, 1.0)}")
    quotient = choose(code, _sign_differs(code, out, rest, y), out, fewer, quotient)
    floor = code.intrinsic("floor", out, quotient)
    over = code.op(f"fsub {t} {quotient}, {floor}")
    up = compare(code, "ogt", out, over, 0.5)
    floor = choose(code, up, out, code.op(f"fadd {t} {floor}, {code.const(out, 1.0)}"), floor)
    nothing = compare(code, "oeq", out, quotient, 0.0)
    floor = choose(code, nothing, out, copysign(code, out, 0.0, ratio), floor)
    return choose(code, compare(code, "oeq", out, y, 0.0), out, ratio, floor)


def _extreme(condition: str) -> Rule:
    """maximum or minimum: the second of equals, and NaN if there is one."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        x, y = args
        chosen = choose(code, compare(code, condition, out, x, y), out, x, y)
        return choose(code, compare(code, "uno", out, x, x), out, x, chosen)

    return rule


def _extreme_half(condition: str) -> Rule:
    """As `_extreme`, but the first of equals: NumPy's loop for halves."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        x, y = args
        first = either(code, compare(code, condition, out, x, y), compare(code, "uno", out, x, x))
        return choose(code, first, out, x, y)

    return rule


def _numeric_extreme(condition: str) -> Rule:
    """fmax or fmin: NaN only if both are.  The condition says which of equals is taken."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        x, y = args
        first = either(code, compare(code, condition, out, x, y), compare(code, "uno", out, y, y))
        return choose(code, first, out, x, y)

    return rule


def _clip(low: Rule, high: Rule) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return emit(code, high, srcs[:2], out, (emit(code, low, srcs[:2], out, args[:2]), args[2]))

    return rule


def _sign(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    x = args[0]
    result = choose(code, compare(code, "oeq", out, x, 0.0), out, 0.0, x)
    result = choose(code, compare(code, "olt", out, x, 0.0), out, -1.0, result)
    return choose(code, compare(code, "ogt", out, x, 0.0), out, 1.0, result)


def _signbit(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    whole = f"i{SIZES[srcs[0]]}"
    t = code.type(whole)
    word = code.op(f"bitcast {code.type(srcs[0])} {args[0]} to {t}")
    return code.op(f"icmp slt {t} {word}, {code.const(whole, 0)}")


def _heaviside(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    x, at_zero = args
    step = choose(code, compare(code, "olt", out, x, 0.0), out, 0.0, 1.0)
    step = choose(code, compare(code, "oeq", out, x, 0.0), out, at_zero, step)
    return choose(code, compare(code, "uno", out, x, x), out, x, step)


def _scaled(factor: dict[str, float]) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return code.op(f"fmul {code.type(out)} {args[0]}, {code.const(out, factor[out])}")

    return rule


def _reciprocal(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return code.op(f"fdiv {code.type(out)} {code.const(out, 1.0)}, {args[0]}")


def _modf_frac(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """What is left of x after its integer part, with x's sign; zero for infinities."""
    x = args[0]
    rest = code.op(f"fsub {code.type(out)} {x}, {code.intrinsic('trunc', out, str(x))}")
    infinite = compare(code, "oeq", out, magnitude(code, out, x), math.inf)
    return copysign(code, out, choose(code, infinite, out, 0.0, rest), x)


def _classify(condition: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return compare(code, condition, srcs[0], magnitude(code, srcs[0], args[0]), math.inf)

    return rule


def _truth(connective: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        x, y = (compare(code, "une", srcs[0], a, 0.0) for a in args)
        return code.op(f"{connective} {code.type('b1')} {x}, {y}")

    return rule


def _not(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return compare(code, "oeq", srcs[0], args[0], 0.0)


_PI4 = 3.1415927410125732  # pi as f4
DEGREES = {"f4": 180.0 / _PI4, "f8": 180.0 / math.pi}
RADIANS = {"f4": _PI4 / 180.0, "f8": math.pi / 180.0}

FLOAT: dict[str, Rule] = {
    "add": "fadd {t} {0}, {1}", "subtract": "fsub {t} {0}, {1}", "multiply": "fmul {t} {0}, {1}",
    "divide": "fdiv {t} {0}, {1}", "negative": "fneg {t} {0}", "square": "fmul {t} {0}, {0}",
    "reciprocal": _reciprocal, "sign": _sign, "heaviside": _heaviside,
    "fmod": _fmod, "remainder": _remainder, "floor_divide": _floor_divide,
    "equal": "fcmp oeq {t} {0}, {1}", "not_equal": "fcmp une {t} {0}, {1}", "less": "fcmp olt {t} {0}, {1}",
    "less_equal": "fcmp ole {t} {0}, {1}", "greater": "fcmp ogt {t} {0}, {1}", "greater_equal": "fcmp oge {t} {0}, {1}",
    "maximum": _extreme("ogt"), "minimum": _extreme("olt"), "clip": _clip(_extreme("ogt"), _extreme("olt")),
    "fmax": _numeric_extreme("ogt"), "fmin": _numeric_extreme("olt"),
    "isnan": "fcmp uno {t} {0}, {0}", "isinf": _classify("oeq"), "isfinite": _classify("olt"), "signbit": _signbit,
    "logical_and": _truth("and"), "logical_or": _truth("or"), "logical_xor": _truth("xor"), "logical_not": _not,
    **dict.fromkeys(("rad2deg", "degrees"), _scaled(DEGREES)),
    **dict.fromkeys(("deg2rad", "radians"), _scaled(RADIANS)),
    **dict.fromkeys(("positive", "conjugate"), same), **dict.fromkeys(("absolute", "fabs"), _intrinsic("fabs")),
    **{op: _intrinsic(op) for op in ("sqrt", "floor", "ceil", "trunc", "copysign")}, "rint": _intrinsic("roundeven"),
    "modf_int": _intrinsic("trunc"), "modf_frac": _modf_frac,
    **{op: _vector(op) for op in mathlib.VECTOR}, "log10": _log10,
}  # fmt: skip


def widened(op: str) -> Rule:
    """The f4 rule of `op`, its sources widened from f2 and its result rounded back."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        wide = code.type("f4")
        values = tuple(code.op(f"fpext {code.type('f2')} {a} to {wide}") for a in args)
        inner = "f4" if out == "f2" else out
        result = emit(code, RULES[op, "f"], ("f4",) * len(srcs), inner, values)
        return code.op(f"fptrunc {wide} {result} to {code.type('f2')}") if out == "f2" else result

    return rule


_BITS = ("positive", "conjugate", "absolute", "fabs", "negative", "copysign", "signbit")
HALF: dict[str, Rule] = {
    **{op: FLOAT[op] for op in _BITS},
    **{op: widened(op) for op in FLOAT if op not in _BITS and op not in mathlib.VECTOR},
    "maximum": _extreme_half("oge"), "minimum": _extreme_half("ole"),
    "fmax": _numeric_extreme("oge"), "fmin": _numeric_extreme("ole"),
    "clip": _clip(_extreme_half("oge"), _extreme_half("ole")),
}  # fmt: skip

RULES: Rules = {(op, "f"): rule for op, rule in FLOAT.items()} | {(op, "h"): rule for op, rule in HALF.items()}
