"""Casts between any two dtypes, with the values that NumPy's C casts give on x86.

A float outside the range of an integer type, or NaN, gives the processor's "indefinite" integer: MIN of the type that
the conversion works in, which is 32 bits wide for types of one and two bytes.
"""

from __future__ import annotations

from .numerics_float import choose, compare, either, magnitude
from .rules import Args, Srcs
from .text import PARTS, SIZES, Code, Reg


def out_of_range(code: Code, src: str, out: str, x: str) -> str:
    """Lanes that no conversion to `out` holds: NaN, and what does not fit the type it works in.

    An unsigned type takes negative values down to the least of its signed twin, wrapped.
    """
    work = work_type(src, out)
    width = 8 * SIZES[work]
    low, high = -(2.0 ** (width - 1)), 2.0 ** (width - (work[0] == "i"))
    # f8 holds numbers between low - 1 and low, which truncate to low; the coarser f4 has none there.
    between = src == "f8" and width == 32
    above = compare(code, "ogt" if between else "oge", src, x, low - 1.0 if between else low)
    inside = code.op(f"and {code.type('b1')} {above}, {compare(code, 'olt', src, x, high)}")
    return code.op(f"xor {code.type('b1')} {inside}, {code.const('b1', 1)}")


def work_type(src: str, out: str) -> str:
    """Integer type in which a float is converted to `out`."""
    if SIZES[out] < 4:
        return "i4"
    return "i8" if out == "u4" and src == "f2" else out


def _signed(code: Code, src: str, out: str, x: str) -> str:
    """Float to i4 or i8, MIN where it does not fit."""
    bad = out_of_range(code, src, out, x)
    safe = choose(code, bad, src, 0.0, x)
    t = code.type(out)
    value = code.op(f"fptosi {code.type(src)} {safe} to {t}")
    low = code.const(out, -(1 << 8 * SIZES[out] - 1))
    return code.op(f"select {code.type('b1')} {bad}, {t} {low}, {t} {value}")


def _unsigned(code: Code, src: str, out: str, x: str) -> str:
    """Float to u4 or u8: by way of the signed type, the upper half moved down before and up again after."""
    half, signed, t = 2.0 ** (8 * SIZES[out] - 1), "i" + out[1], code.type(out)
    upper = compare(code, "oge", src, x, half)
    moved = code.op(f"fsub {code.type(src)} {x}, {code.const(src, half)}")
    value = _signed(code, src, signed, choose(code, upper, src, moved, x))
    turned = code.op(f"xor {t} {value}, {code.const(signed, -(1 << 8 * SIZES[out] - 1))}")
    return code.op(f"select {code.type('b1')} {upper}, {t} {turned}, {t} {value}")


def _float_to_int(code: Code, src: str, out: str, x: str) -> str:
    narrow = src == "f2"
    if narrow:
        x = code.op(f"fpext {code.type('f2')} {x} to {code.type('f4')}")
    work = work_type(src, out)
    src = "f4" if narrow else src
    value = _unsigned(code, src, work, x) if work[0] == "u" else _signed(code, src, work, x)
    if SIZES[work] > SIZES[out]:
        return code.op(f"trunc {code.type(work)} {value} to {code.type(out)}")
    return value


def round_to_odd(code: Code, x: str) -> str:
    """f8 to f4 such that rounding the result on to f2 is rounding x to f2 once."""
    f4, f8, word = code.type("f4"), code.type("f8"), code.type("i4")
    near = code.op(f"fptrunc {f8} {x} to {f4}")
    back = code.op(f"fpext {f4} {near} to {f8}")
    inexact = compare(code, "one", "f8", back, x)
    beyond = compare(code, "ogt", "f8", magnitude(code, "f8", back), magnitude(code, "f8", x))
    bits = code.op(f"bitcast {f4} {near} to {word}")
    down = code.op(f"sext {code.type('b1')} {beyond} to {word}")
    odd = code.op(f"or {word} {code.op(f'add {word} {bits}, {down}')}, {code.const('i4', 1)}")
    chosen = code.op(f"select {code.type('b1')} {inexact}, {word} {odd}, {word} {bits}")
    return code.op(f"bitcast {word} {chosen} to {f4}")


def _float_to_float(code: Code, src: str, out: str, x: str) -> str:
    if (src, out) == ("f8", "f2"):
        # Not one fptrunc: that is a call of a compiler's run-time library on most processors.
        src, x = "f4", round_to_odd(code, x)
    if (src, out) == ("f2", "f8"):
        src, x = "f4", code.op(f"fpext {code.type('f2')} {x} to {code.type('f4')}")
    word = "fpext" if SIZES[out] > SIZES[src] else "fptrunc"
    return code.op(f"{word} {code.type(src)} {x} to {code.type(out)}")


def _int_to_float(code: Code, src: str, out: str, x: str) -> str:
    sign = "s" if src[0] == "i" else "u"
    work = "f4" if out == "f2" else out
    value = code.op(f"{sign}itofp {code.type(src)} {x} to {code.type(work)}")
    return _float_to_float(code, work, out, value) if work != out else value


def _int_to_int(code: Code, src: str, out: str, x: str) -> str:
    if SIZES[src] == SIZES[out] and src != "b1":
        return x
    word = "zext" if src[0] in "bu" else "sext"
    if SIZES[out] < SIZES[src]:
        word = "trunc"
    return code.op(f"{word} {code.type(src)} {x} to {code.type(out)}")


def real_cast(code: Code, src: str, out: str, x: str) -> str:
    """Cast between real dtypes."""
    if src == out:
        return x
    if out == "b1":
        if src[0] == "f":
            return compare(code, "une", src, x, 0.0)
        return code.op(f"icmp ne {code.type(src)} {x}, {code.const(src, 0)}")
    if src[0] == "f":
        return (_float_to_float if out[0] == "f" else _float_to_int)(code, src, out, x)
    return (_int_to_float if out[0] == "f" else _int_to_int)(code, src, out, x)


def cast(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Rule of "cast"."""
    src, x = srcs[0], args[0]
    part = PARTS.get(out)
    if isinstance(x, tuple):
        inner = PARTS[src]
        if part:
            return real_cast(code, inner, part, x[0]), real_cast(code, inner, part, x[1])
        if out == "b1":
            return either(code, *(compare(code, "une", inner, v, 0.0) for v in x))
        return real_cast(code, inner, out, x[0])
    if part:
        return real_cast(code, src, part, x), code.const(part, 0.0)
    return real_cast(code, src, out, x)
