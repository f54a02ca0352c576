"""Inverse complex functions on a graphics processor: arcs and areas of sine, cosine and tangent, cut as NumPy's.

in: gpu_complex.py's table; out: instructions.  Everything is computed in f8, for c8 as well: the distances from the
branch points then neither overflow nor cancel.  The method is that of Hull, Fairgrieve and Tang (1997): the arc sine
through the sum of the distances of z from -1 and 1, in the first quadrant; signs are put back at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..runtime.tuples import NamedTuple
from .gpu_library import hypot, library
from .numerics_cast import real_cast
from .numerics_float import both, choose, compare, copysign, either, magnitude
from .rules import Args, Emit, Reg, Srcs
from .text import Code

Quadrant = Callable[[Code, str, str], tuple[str, str]]
FAR = 2.0**60  # beyond it, 1 is nothing beside |z|
CROSS = 0.6417  # arc sines of more are taken from the small angle that is left
NEAR_ONE = 1.5


class Float(NamedTuple):
    """Arithmetic of f8 registers and numbers."""

    code: Code

    def do(self, op: str, x: str | float, y: str | float) -> str:
        """One rounded operation."""
        a, b = (v if isinstance(v, str) else self.code.const("f8", v) for v in (x, y))
        return self.code.op(f"{op} {self.code.type('f8')} {a}, {b}")

    def add(self, x: str | float, y: str | float) -> str:
        """x + y."""
        return self.do("fadd", x, y)

    def sub(self, x: str | float, y: str | float) -> str:
        """x - y."""
        return self.do("fsub", x, y)

    def mul(self, x: str | float, y: str | float) -> str:
        """x * y."""
        return self.do("fmul", x, y)

    def div(self, x: str | float, y: str | float) -> str:
        """x / y."""
        return self.do("fdiv", x, y)

    def sqrt(self, x: str) -> str:
        """Root of x."""
        return self.code.intrinsic("sqrt", "f8", x)

    def call(self, name: str, *args: str) -> str:
        """libdevice's function."""
        return library(self.code, name, "f8", *args)


def arc(code: Code, a: str, b: str) -> tuple[str, str, str]:
    """Of a + bi in the first quadrant: arc sine and arc cosine of its real part's share, and the area."""
    f = Float(code)
    right, left = hypot(code, "f8", f.add(a, 1.0), b), hypot(code, "f8", f.sub(a, 1.0), b)
    total = f.mul(f.add(right, left), 0.5)
    share = f.div(a, total)
    inside = compare(code, "olt", "f8", a, 1.0)
    far = either(code, *(compare(code, "ogt", "f8", v, FAR) for v in (a, b)))
    # the small side of the triangle whose angle is the arc: products of differences that do not cancel
    beyond = f.add(right, f.add(a, 1.0))
    sums = f.add(total, a)
    near = f.add(left, f.sub(1.0, a))
    side = f.sqrt(f.mul(f.mul(sums, 0.5), f.add(f.mul(b, f.div(b, beyond)), near)))
    other = f.add(f.div(sums, beyond), f.div(sums, f.add(left, f.sub(a, 1.0))))
    side = choose(code, compare(code, "ole", "f8", a, 1.0), "f8", side, f.mul(b, f.sqrt(f.mul(other, 0.5))))
    plain = compare(code, "ole", "f8", share, CROSS)
    sine = choose(code, plain, "f8", f.call("asin", share), f.call("atan2", a, side))
    cosine = choose(code, plain, "f8", f.call("acos", share), f.call("atan2", side, a))
    sine = choose(code, far, "f8", f.call("atan2", a, b), sine)
    cosine = choose(code, far, "f8", f.call("atan2", b, a), cosine)
    return sine, cosine, _area(code, f, (a, b), (total, beyond, left), inside, far)


def _area(code: Code, f: Float, z: tuple[str, str], sides: tuple[str, str, str], inside: str, far: str) -> str:
    """arcosh of half the sum of the distances."""
    (a, b), (total, beyond, left) = z, sides
    # total - 1, divided by b inside: b * b may be nothing where b is not
    per = f.mul(f.add(f.div(b, beyond), f.div(b, f.add(left, f.sub(1.0, a)))), 0.5)
    less = f.mul(f.add(f.mul(b, f.div(b, beyond)), f.add(left, f.sub(a, 1.0))), 0.5)
    plus = f.add(total, 1.0)
    root = choose(code, inside, "f8", f.mul(f.sqrt(b), f.sqrt(f.mul(per, plus))), f.sqrt(f.mul(less, plus)))
    less = choose(code, inside, "f8", f.mul(b, per), less)
    close = f.call("log1p", f.add(less, root))
    wide = f.call("log", f.add(total, f.sqrt(f.mul(f.sub(total, 1.0), plus))))
    found = choose(code, compare(code, "ole", "f8", total, NEAR_ONE), "f8", close, wide)
    large = compare(code, "ogt", "f8", a, b)
    most, least = choose(code, large, "f8", a, b), choose(code, large, "f8", b, a)
    ratio = f.div(least, most)
    length = f.mul(f.call("log1p", f.mul(ratio, ratio)), 0.5)
    length = f.add(f.add(f.call("log", most), length), math.log(2))
    endless = either(code, *(compare(code, "oeq", "f8", v, math.inf) for v in (a, b)))
    return choose(code, endless, "f8", math.inf, choose(code, far, "f8", length, found))


def _arcsin(code: Code, x: str, y: str) -> tuple[str, str]:
    sine, _, area = arc(code, magnitude(code, "f8", x), magnitude(code, "f8", y))
    sine = choose(code, compare(code, "oeq", "f8", x, 0.0), "f8", x, sine)
    return copysign(code, "f8", sine, x), copysign(code, "f8", area, y)


def _turned(code: Code, x: str, y: str) -> str:
    """Real part of the arc cosine."""
    _, cosine, _ = arc(code, magnitude(code, "f8", x), magnitude(code, "f8", y))
    behind = compare(code, "olt", "f8", x, 0.0)
    cosine = choose(code, behind, "f8", Float(code).sub(math.pi, cosine), cosine)
    return choose(code, compare(code, "oeq", "f8", x, 0.0), "f8", math.pi / 2, cosine)


def _arccos(code: Code, x: str, y: str) -> tuple[str, str]:
    area = arc(code, magnitude(code, "f8", x), magnitude(code, "f8", y))[2]
    sign = code.op(f"icmp slt i64 {code.op(f'bitcast double {y} to i64')}, 0")
    below = both(code, sign, compare(code, "ord", "f8", y, y))  # what is no number counts as above
    return _turned(code, x, y), choose(code, below, "f8", area, code.op(f"fneg double {area}"))


def _arcsinh(code: Code, x: str, y: str) -> tuple[str, str]:
    im, re = _arcsin(code, y, x)
    return re, im


def _arccosh(code: Code, x: str, y: str) -> tuple[str, str]:
    area = arc(code, magnitude(code, "f8", x), magnitude(code, "f8", y))[2]
    return area, copysign(code, "f8", _turned(code, x, y), y)


def _arctanh(code: Code, x: str, y: str) -> tuple[str, str]:
    f = Float(code)
    a, b = magnitude(code, "f8", x), magnitude(code, "f8", y)
    less, plus = f.sub(1.0, a), f.add(1.0, a)
    square = f.mul(b, b)
    re = f.mul(f.call("log1p", f.div(f.mul(a, 4.0), f.add(f.mul(less, less), square))), 0.25)
    im = f.mul(f.call("atan2", f.mul(b, 2.0), f.sub(f.mul(less, plus), square)), 0.5)
    pole = both(code, compare(code, "oeq", "f8", a, 1.0), compare(code, "olt", "f8", b, 2.0**-30))
    re = choose(code, pole, "f8", f.mul(f.sub(math.log(2), f.call("log", b)), 0.5), re)
    far = either(code, *(compare(code, "ogt", "f8", v, FAR) for v in (a, b)))
    large = compare(code, "ogt", "f8", a, b)
    most, least = choose(code, large, "f8", a, b), choose(code, large, "f8", b, a)
    ratio = f.div(least, most)
    share = f.div(choose(code, large, "f8", 1.0, ratio), f.add(1.0, f.mul(ratio, ratio)))
    re = choose(code, far, "f8", f.div(share, most), re)
    im = choose(code, far, "f8", math.pi / 2, im)
    unknown = compare(code, "uno", "f8", a, b)
    re, im = (choose(code, unknown, "f8", math.nan, v) for v in (re, im))
    im = choose(code, compare(code, "oeq", "f8", b, math.inf), "f8", math.pi / 2, im)
    endless = either(code, *(compare(code, "oeq", "f8", v, math.inf) for v in (a, b)))
    nothing = both(code, compare(code, "oeq", "f8", a, 0.0), compare(code, "uno", "f8", b, b))
    re = choose(code, either(code, endless, nothing), "f8", 0.0, re)
    return copysign(code, "f8", re, x), copysign(code, "f8", im, y)


def _arctan(code: Code, x: str, y: str) -> tuple[str, str]:
    im, re = _arctanh(code, y, x)
    return re, im


def rule(inner: Quadrant) -> Emit:
    """The function on f8 parts, for both complex types."""

    def wide(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        assert isinstance(args[0], tuple)
        x, y = args[0]
        if out == "c16":
            return inner(code, x, y)
        re, im = inner(code, *(real_cast(code, "f4", "f8", v) for v in (x, y)))
        return real_cast(code, "f8", "f4", re), real_cast(code, "f8", "f4", im)

    return wide


ARCS: dict[str, Emit] = {
    "arcsin": rule(_arcsin), "arccos": rule(_arccos), "arctan": rule(_arctan),
    "arcsinh": rule(_arcsinh), "arccosh": rule(_arccosh), "arctanh": rule(_arctanh),
}  # fmt: skip
