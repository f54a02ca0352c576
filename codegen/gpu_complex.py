"""Complex operations on a graphics processor, composed of libdevice's functions; special values are NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import numerics_float
from .gpu_arcs import ARCS
from .gpu_exponential import exponential, log_length
from .gpu_library import hypot, library
from .gpu_power import POWERS
from .numerics_complex import pick
from .numerics_float import both, choose, compare, copysign, magnitude
from .rules import Args, Emit, Srcs
from .text import PARTS, Code, Reg


def _pair(value: Reg) -> tuple[str, str]:
    assert isinstance(value, tuple)
    return value


def _absolute(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return hypot(code, out, *_pair(args[0]))


def _complex_exp(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return exponential(code, PARTS[out], *_pair(args[0]))


def _log(scale: float) -> Emit:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        part, (x, y) = PARTS[out], _pair(args[0])
        length, angle = log_length(code, part, x, y), library(code, "atan2", part, y, x)
        if scale != 1:
            t = code.type(part)
            length, angle = (code.op(f"fmul {t} {v}, {code.const(part, scale)}") for v in (length, angle))
        return length, angle

    return rule


def _hyperbolic(sine: bool) -> Callable[[Code, str, str, str], tuple[str, str]]:
    """sinh or cosh of x + iy."""

    def rule(code: Code, part: str, x: str, y: str) -> tuple[str, str]:
        t = code.type(part)
        s, c = library(code, "sinh", part, x), library(code, "cosh", part, x)
        sin, cos = library(code, "sin", part, y), library(code, "cos", part, y)
        # where they overflow the product with the wave need not: exp(|x|) / 2 in two steps
        size = magnitude(code, part, x)
        over = compare(code, "ogt", part, size, 700.0 if part == "f8" else 85.0)
        half = library(code, "exp", part, code.op(f"fmul {t} {size}, {code.const(part, 0.5)}"))
        again = choose(code, over, part, half, 1.0)
        half = code.op(f"fmul {t} {half}, {code.const(part, 0.5)}")
        s = choose(code, over, part, copysign(code, part, half, x), s)
        c = choose(code, over, part, half, c)
        first, second = (s, c) if sine else (c, s)
        re = code.op(f"fmul {t} {code.op(f'fmul {t} {first}, {cos}')}, {again}")
        im = code.op(f"fmul {t} {code.op(f'fmul {t} {second}, {sin}')}, {again}")
        s, c = (code.op(f"fmul {t} {v}, {again}") for v in (s, c))
        flat = compare(code, "oeq", part, y, 0.0)
        edge = compare(code, "oeq", part, x, 0.0)
        wild = both(code, edge, numerics_float.not_finite(code, part, y))  # a wave without phase, times zero
        if sine:
            re = choose(code, flat, part, s, choose(code, wild, part, x, re))
            im = choose(code, flat, part, y, im)
        else:
            turned = code.op(f"fmul {t} {y}, {copysign(code, part, 1.0, x)}")
            turned = choose(code, compare(code, "uno", part, x, x), part, y, turned)
            re = choose(code, flat, part, c, re)
            im = choose(code, flat, part, turned, choose(code, wild, part, 0.0, im))
        endless = compare(code, "oeq", part, magnitude(code, part, x), math.inf)
        lost = both(code, endless, numerics_float.not_finite(code, part, y))
        return choose(code, lost, part, math.inf, re), choose(code, lost, part, math.nan, im)

    return rule


def _hyperbolic_rule(sine: bool) -> Emit:
    inner = _hyperbolic(sine)

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return inner(code, PARTS[out], *_pair(args[0]))

    return rule


def _circular_rule(sine: bool) -> Emit:
    """sin z = -i sinh(iz), cos z = cosh(iz)."""
    inner = _hyperbolic(sine)

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        part, (x, y) = PARTS[out], _pair(args[0])
        minus = code.op(f"fneg {code.type(part)} {y}")
        if not sine:
            return inner(code, part, minus, x)
        re, im = inner(code, part, minus, x)  # sinh(-y + ix)
        endless = compare(code, "oeq", part, magnitude(code, part, y), math.inf)
        lost = both(code, endless, numerics_float.not_finite(code, part, x))
        return im, choose(code, lost, part, math.inf, code.op(f"fneg {code.type(part)} {re}"))

    return rule


def _sqrt(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """By the half length, of a number scaled into range."""
    part, (x, y) = PARTS[out], _pair(args[0])
    t = code.type(part)
    sizes = magnitude(code, part, x), magnitude(code, part, y)
    largest = choose(code, compare(code, "ogt", part, *sizes), part, *sizes)
    huge, tiny = (2.0**1000, 2.0**-960) if part == "f8" else (2.0**124, 2.0**-90)
    far, near = compare(code, "ogt", part, largest, huge), compare(code, "olt", part, largest, tiny)
    up = 2.0**108 if part == "f8" else 2.0**46
    scale = choose(code, far, part, 0.0625, choose(code, near, part, up, 1.0))
    back = choose(code, far, part, 4.0, choose(code, near, part, 1 / math.sqrt(up), 1.0))
    a, b = (code.op(f"fmul {t} {v}, {scale}") for v in (x, y))
    length = library(code, "hypot", part, a, b)
    total = code.op(f"fadd {t} {length}, {magnitude(code, part, a)}")
    root = code.intrinsic("sqrt", part, code.op(f"fmul {t} {total}, {code.const(part, 0.5)}"))
    other = code.op(f"fdiv {t} {magnitude(code, part, b)}, {code.op(f'fadd {t} {root}, {root}')}")
    root, other = (code.op(f"fmul {t} {v}, {back}") for v in (root, other))
    right = compare(code, "oge", part, x, 0.0)
    re, im = choose(code, right, part, root, other), choose(code, right, part, other, root)
    zero = both(code, *(compare(code, "oeq", part, v, 0.0) for v in (x, y)))
    re, im = choose(code, zero, part, 0.0, re), choose(code, zero, part, 0.0, im)
    # infinities: of the imaginary part before all else, then of the real part
    unknown = compare(code, "uno", part, y, y)
    left = compare(code, "oeq", part, x, -math.inf)
    re = choose(code, left, part, choose(code, unknown, part, math.nan, 0.0), re)
    im = choose(code, left, part, math.inf, im)
    ahead = compare(code, "oeq", part, x, math.inf)
    re = choose(code, ahead, part, math.inf, re)
    im = choose(code, ahead, part, choose(code, unknown, part, math.nan, 0.0), im)
    endless = compare(code, "oeq", part, magnitude(code, part, y), math.inf)
    re, im = choose(code, endless, part, math.inf, re), choose(code, endless, part, math.inf, im)
    broken = both(code, compare(code, "uno", part, x, x), compare(code, "ord", part, y, y))
    lost = both(code, broken, code.op(f"xor i1 {endless}, true"))
    re, im = choose(code, lost, part, math.nan, re), choose(code, lost, part, math.nan, im)
    return re, copysign(code, part, im, y)


def _sign(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """x / |x|, and 0 for 0."""
    part, (x, y) = PARTS[out], _pair(args[0])
    t = code.type(part)
    length = hypot(code, part, x, y)
    finite = code.op(f"fcmp une {t} {length}, {code.const(part, math.inf)}")
    zero = compare(code, "oeq", part, length, 0.0)
    re, im = (code.op(f"fdiv {t} {v}, {length}") for v in (x, y))
    infinite = code.op(f"xor i1 {finite}, true")
    both_infinite = both(code, *(compare(code, "oeq", part, magnitude(code, part, v), math.inf) for v in (x, y)))
    # a length that overflows is an infinite imaginary part to NumPy
    ahead = compare(code, "oeq", part, magnitude(code, part, x), math.inf)
    ones = [copysign(code, part, 1.0, v) for v in (x, y)]
    lone = [choose(code, ahead, part, ones[0], 0.0), choose(code, ahead, part, 0.0, ones[1])]
    for_inf = [choose(code, both_infinite, part, math.nan, v) for v in lone]
    nan = both(code, compare(code, "uno", part, x, y), finite)
    re, im = choose(code, infinite, part, for_inf[0], re), choose(code, infinite, part, for_inf[1], im)
    re, im = (choose(code, nan, part, math.nan, choose(code, zero, part, 0.0, v)) for v in (re, im))
    return re, im


def _clip(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """By real part, then imaginary part, whatever is NaN in them; a source that is NaN stays."""
    part, value = PARTS[out], _pair(args[0])
    for condition, bound in (("ogt", _pair(args[1])), ("olt", _pair(args[2]))):
        equal = compare(code, "oeq", part, value[0], bound[0])
        first, second = (compare(code, condition, part, v, b) for v, b in zip(value, bound, strict=True))
        b = code.type("b1")
        keep = code.op(f"select {b} {equal}, {b} {second}, {b} {first}")
        keep = code.op(f"or {b} {keep}, {compare(code, 'uno', part, *value)}")
        value = pick(code, keep, part, value, bound)
    return value


def _expm1(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """As NumPy: the cosine's distance from 1 by the sine of half the angle."""
    part, (x, y) = PARTS[out], _pair(args[0])
    t = code.type(part)
    half = library(code, "sin", part, code.op(f"fmul {t} {y}, {code.const(part, 0.5)}"))
    grown = code.op(f"fmul {t} {library(code, 'expm1', part, x)}, {library(code, 'cos', part, y)}")
    short = code.op(f"fmul {t} {code.op(f'fmul {t} {half}, {half}')}, {code.const(part, 2.0)}")
    im = code.op(f"fmul {t} {library(code, 'exp', part, x)}, {library(code, 'sin', part, y)}")
    return code.op(f"fsub {t} {grown}, {short}"), im


def _exp2(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """As NumPy: exp of the product with log 2."""
    part = PARTS[out]
    x, y = (code.op(f"fmul {code.type(part)} {v}, {code.const(part, math.log(2))}") for v in _pair(args[0]))
    return exponential(code, part, x, y)


def _log1p(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """As NumPy: length and angle of 1 + z, near 0 too."""
    part, (x, y) = PARTS[out], _pair(args[0])
    more = code.op(f"fadd {code.type(part)} {x}, {code.const(part, 1.0)}")
    return library(code, "log", part, hypot(code, part, more, y)), library(code, "atan2", part, y, more)


def _hyperbolic_tangent(code: Code, part: str, x: str, y: str) -> tuple[str, str]:
    """sinh(x) cosh(x) + i sin(y) cos(y), divided by sinh(x)^2 + cos(y)^2."""
    t = code.type(part)
    s, c = library(code, "sinh", part, x), library(code, "cosh", part, x)
    sin, cos = library(code, "sin", part, y), library(code, "cos", part, y)

    def times(a: str, b: str) -> str:
        return code.op(f"fmul {t} {a}, {b}")

    below = code.op(f"fadd {t} {times(s, s)}, {times(cos, cos)}")
    wave = times(sin, cos)
    re, im = (code.op(f"fdiv {t} {v}, {below}") for v in (times(s, c), wave))
    size = magnitude(code, part, x)
    far = compare(code, "ogt", part, size, 22.0)
    fall = library(code, "exp", part, times(size, code.const(part, -2.0)))
    tail = times(times(wave, code.const(part, 4.0)), fall)
    unknown = numerics_float.not_finite(code, part, y)
    tail = choose(code, both(code, unknown, compare(code, "oeq", part, size, math.inf)), part,
                  copysign(code, part, 0.0, y), tail)  # fmt: skip
    re, im = choose(code, far, part, copysign(code, part, 1.0, x), re), choose(code, far, part, tail, im)
    lost = both(code, unknown, compare(code, "one", part, size, math.inf))
    re = choose(code, lost, part, math.nan, re)
    re = choose(code, compare(code, "oeq", part, x, 0.0), part, x, re)
    return re, choose(code, compare(code, "oeq", part, y, 0.0), part, y, im)


def _tanh(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return _hyperbolic_tangent(code, PARTS[out], *_pair(args[0]))


def _tan(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """The hyperbolic one of iz, turned back: both are odd in each part."""
    x, y = _pair(args[0])
    im, re = _hyperbolic_tangent(code, PARTS[out], y, x)
    return re, im


SINGLE: dict[str, Emit] = {
    "absolute": _absolute, "log": _log(1), "log2": _log(1 / math.log(2)), "log10": _log(1 / math.log(10)),
    "exp": _complex_exp, "sinh": _hyperbolic_rule(True), "cosh": _hyperbolic_rule(False),
    "sin": _circular_rule(True), "cos": _circular_rule(False), "sqrt": _sqrt, "sign": _sign,
    "expm1": _expm1, "exp2": _exp2, "log1p": _log1p, "tanh": _tanh, "tan": _tan, **ARCS, **POWERS,
}  # fmt: skip

WIDE: dict[str, Emit] = {"clip": _clip}
