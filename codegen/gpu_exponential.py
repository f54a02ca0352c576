"""Exponential and logarithm of complex numbers on a graphics processor, by parts.

in: gpu_complex.py and gpu_power.py; out: instructions.
"""

from __future__ import annotations

import math

from . import numerics_float
from .gpu_library import library
from .numerics_float import both, choose, compare, copysign, magnitude
from .text import Code


def log_length(code: Code, part: str, x: str, y: str) -> str:
    """log(hypot(x, y)); near 1 by way of log1p of what the square lacks, far away scaled."""
    t = code.type(part)
    sizes = magnitude(code, part, x), magnitude(code, part, y)
    more = compare(code, "ogt", part, *sizes)
    large, small = choose(code, more, part, *sizes), choose(code, more, part, sizes[1], sizes[0])
    huge = 2.0**1000 if part == "f8" else 2.0**120
    step = math.log(2)
    power = 4
    far = compare(code, "ogt", part, large, huge)
    tiny = compare(code, "olt", part, large, 1 / huge)
    scale = choose(code, far, part, 2.0**-power, choose(code, tiny, part, 2.0**100, 1.0))
    shift = choose(code, far, part, power * step, choose(code, tiny, part, -100 * step, 0.0))
    scaled = [code.op(f"fmul {t} {v}, {scale}") for v in (large, small)]
    plain = library(code, "log", part, library(code, "hypot", part, *scaled))
    plain = code.op(f"fadd {t} {plain}, {shift}")
    less = code.op(f"fsub {t} {large}, {code.const(part, 1.0)}")
    plus = code.op(f"fadd {t} {large}, {code.const(part, 1.0)}")
    squares = code.intrinsic("fma", part, small, small, code.op(f"fmul {t} {less}, {plus}"))
    close = code.op(f"fmul {t} {library(code, 'log1p', part, squares)}, {code.const(part, 0.5)}")
    near = both(code, compare(code, "ogt", part, large, 0.5), compare(code, "olt", part, large, 2.0))
    return choose(code, near, part, close, plain)


def exponential(code: Code, part: str, x: str, y: str) -> tuple[str, str]:
    """exp(x + iy); in two steps where the exponential overflows and its product with the wave need not."""
    t = code.type(part)
    limit = 700.0 if part == "f8" else 85.0
    over = both(code, compare(code, "ogt", part, x, limit), compare(code, "olt", part, x, 2 * limit + 90))
    half = code.op(f"fmul {t} {x}, {code.const(part, 0.5)}")
    size = library(code, "exp", part, choose(code, over, part, half, x))
    again = choose(code, over, part, size, 1.0)
    result = []
    for name in ("cos", "sin"):
        wave = library(code, name, part, y)
        result.append(code.op(f"fmul {t} {code.op(f'fmul {t} {size}, {wave}')}, {again}"))
    re, im = result
    real = compare(code, "oeq", part, y, 0.0)
    whole = code.op(f"fmul {t} {size}, {again}")
    re, im = choose(code, real, part, whole, re), choose(code, real, part, y, im)
    unknown = numerics_float.not_finite(code, part, y)
    gone = both(code, unknown, compare(code, "oeq", part, x, -math.inf))
    grown = both(code, unknown, compare(code, "oeq", part, x, math.inf))
    re = choose(code, gone, part, 0.0, choose(code, grown, part, math.inf, re))
    return re, choose(code, gone, part, copysign(code, part, 0.0, y), im)
