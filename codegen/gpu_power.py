"""Powers of complex numbers on a graphics processor, as NumPy has them: small whole exponents by multiplication.

in: gpu_complex.py's table; out: instructions.  All else is exp(w log z).
"""

from __future__ import annotations

import math

from . import numerics_complex
from .gpu_exponential import exponential, log_length
from .gpu_library import library
from .numerics_complex import pick
from .numerics_float import both, choose, compare, copysign, either, magnitude
from .rules import Args, Emit, Reg, Srcs, emit
from .text import PARTS, Code

Pair = tuple[str, str]
MOST = 100  # exponents below it are multiplied out


def _times(code: Code, part: str, x: Pair, y: Pair) -> Pair:
    """Product with each operation rounded, as the C library has it and NumPy's loops of products do not."""
    t = code.type(part)
    products = [code.op(f"fmul {t} {a}, {b}") for a, b in ((x[0], y[0]), (x[1], y[1]), (x[0], y[1]), (x[1], y[0]))]
    return code.op(f"fsub {t} {products[0]}, {products[1]}"), code.op(f"fadd {t} {products[2]}, {products[3]}")


def _whole(code: Code, out: str, z: Pair, exponent: str) -> Pair:
    """z to a whole exponent other than 0, by squares; the block that follows is the current one."""
    part = PARTS[out]
    t = code.type(part)
    size = code.call("i32", "llvm.abs.i32", ("i32", code.op(f"fptosi {t} {exponent} to i32")), ("i1", "false"))
    before, head, done = code.block, code.label("square"), code.label("squared")
    code.add(f"br label %{head}")
    code.start(head)
    slot = len(code.lines)
    names = [code.temp() for _ in range(5)]  # what is left of the exponent, the square, the product
    left, square, made = names[0], (names[1], names[2]), (names[3], names[4])
    odd = code.op(f"trunc i32 {left} to i1")
    taken = pick(code, odd, part, _times(code, part, made, square), made)
    after = _times(code, part, square, square)
    rest = code.op(f"lshr i32 {left}, 1")
    starts = (size, *z, code.const(part, 1.0), code.const(part, 0.0))
    for name, first, next_, kind in zip(names, starts, (rest, *after, *taken), ("i32", t, t, t, t), strict=True):
        code.lines.insert(slot, f"  {name} = phi {kind} [ {first}, %{before} ], [ {next_}, %{head} ]")
    code.add(f"br i1 {code.op(f'icmp ne i32 {rest}, 0')}, label %{head}, label %{done}")
    code.start(done)
    squares = _times(code, part, z, z)
    cubes = _times(code, part, z, squares)
    for count, value in ((1, z), (2, squares), (3, cubes)):  # without the factor 1 of the loop, which loses infinities
        taken = pick(code, compare(code, "oeq", part, exponent, float(count)), part, value, taken)
    one = (code.const(part, 1.0), code.const(part, 0.0))
    turned = emit(code, numerics_complex.RULES["divide", "c"], (out, out), out, (one, taken))
    assert isinstance(turned, tuple)
    return pick(code, compare(code, "olt", part, exponent, 0.0), part, turned, taken)


def _product(code: Code, part: str, x: Pair, y: Pair) -> Pair:
    """C's product: where both parts are lost though something in them is infinite, an infinity."""
    t = code.type(part)
    plain = _times(code, part, x, y)
    lost = both(code, *(compare(code, "uno", part, v, v) for v in plain))

    def infinite(*values: str) -> str:
        return either(code, *(compare(code, "oeq", part, magnitude(code, part, v), math.inf) for v in values))

    def boxed(p: Pair) -> Pair:
        """Infinities as 1 and all else as 0, if there is an infinity; NaN as 0."""
        wild, units = infinite(*p), []
        for v in p:
            one = choose(code, infinite(v), part, 1.0, 0.0)
            known = choose(code, compare(code, "uno", part, v, v), part, 0.0, v)
            units.append(copysign(code, part, choose(code, wild, part, one, known), v))
        return units[0], units[1]

    found = _times(code, part, boxed(x), boxed(y))
    re, im = (code.op(f"fmul {t} {v}, {code.const(part, math.inf)}") for v in found)
    products = [code.op(f"fmul {t} {a}, {b}") for a in x for b in y]
    return pick(code, both(code, lost, infinite(*x, *y, *products)), part, (re, im), plain)


def _general(code: Code, part: str, z: Pair, w: Pair) -> Pair:
    """exp(w log z)."""
    log = log_length(code, part, *z), library(code, "atan2", part, z[1], z[0])
    re, im = _product(code, part, w, log)
    # what is no number though all sources are has the sign bit on the processor, and a zero takes it over
    numbers = [compare(code, "ord", part, *pair) for pair in (z, w)]
    made = both(code, compare(code, "uno", part, im, im), *numbers)
    return exponential(code, part, re, choose(code, made, part, -math.nan, im))


def _power(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    part, (z, w) = PARTS[out], args
    assert isinstance(z, tuple) and isinstance(w, tuple)
    t = code.type(part)
    real = compare(code, "oeq", part, w[1], 0.0)
    few = compare(code, "olt", part, magnitude(code, part, w[0]), float(MOST))
    rounded = code.intrinsic("trunc", part, w[0])
    small = both(code, real, few, compare(code, "oeq", part, rounded, w[0]))
    multiplied, general, done = code.label("whole"), code.label("general"), code.label("power")
    code.add(f"br i1 {small}, label %{multiplied}, label %{general}")
    code.start(multiplied)
    exact = _whole(code, out, z, w[0])
    ends = [code.block]
    code.add(f"br label %{done}")
    code.start(general)
    rest = _general(code, part, z, w)
    ends.append(code.block)
    code.add(f"br label %{done}")
    code.start(done)
    pairs = zip(exact, rest, strict=True)
    re, im = (code.op(f"phi {t} [ {a}, %{ends[0]} ], [ {b}, %{ends[1]} ]") for a, b in pairs)
    nothing = both(code, *(compare(code, "oeq", part, v, 0.0) for v in z))
    ahead = compare(code, "ogt", part, w[0], 0.0)
    edge = choose(code, ahead, part, 0.0, math.nan)
    re, im = choose(code, nothing, part, edge, re), choose(code, nothing, part, edge, im)
    none = both(code, *(compare(code, "oeq", part, v, 0.0) for v in w))
    return choose(code, none, part, 1.0, re), choose(code, none, part, 0.0, im)


POWERS: dict[str, Emit] = {"power": _power, "float_power": _power}
