"""Complex operations as LLVM IR, on pairs of f4 or f8 registers.

Their arithmetic goes through `step`, which can keep a list of the float operations done: the faults of a complex
operation are those of its steps.
"""

from __future__ import annotations

from . import mathlib
from .numerics_float import both, choose, compare, either, magnitude
from .rules import Args, Rule, Rules, Srcs, same
from .text import PARTS, Code, Reg

_STEPS = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}


def step(code: Code, op: str, part: str, x: str, y: str, when: str = "") -> str:
    """One float operation, noted in `code.trace` if that is a list; only lanes of `when` use it."""
    result = code.op(f"{_STEPS[op]} {code.type(part)} {x}, {y}")
    if code.trace is not None:
        code.trace.append((op, part, (x, y), result, when))
    return result


def _parts(value: Reg) -> tuple[str, str]:
    assert isinstance(value, tuple)
    return value


def _both_parts(op: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        part, (a, b), (c, d) = PARTS[out], _parts(args[0]), _parts(args[1])
        return step(code, op, part, a, c), step(code, op, part, b, d)

    return rule


def _fused(code: Code, part: str, x: str, y: str, z: str) -> str:
    """x * y + z, rounded once where the processor can, as NumPy's vector loops do there."""
    if "+fma" not in code.target.features.split(","):
        return step(code, "add", part, step(code, "multiply", part, x, y), z)
    result = code.intrinsic("fma", part, x, y, z)
    if code.trace is not None:
        code.trace.append(("fma", part, (x, y, z), result, ""))
    return result


def _product(code: Code, part: str, a: str, b: str, c: str, d: str) -> tuple[str, str]:
    """(a + bi) * (c + di); the products with b are rounded first."""
    minus = code.op(f"fneg {code.type(part)} {step(code, 'multiply', part, b, d)}")
    return _fused(code, part, a, c, minus), _fused(code, part, a, d, step(code, "multiply", part, b, c))


def _multiply(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return _product(code, PARTS[out], *_parts(args[0]), *_parts(args[1]))


def _square(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return _product(code, PARTS[out], *_parts(args[0]), *_parts(args[0]))


def _divide(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Smith's method: everything divided by the larger part of the divisor first; by zero, part by part."""
    part, (a, b), (c, d) = PARTS[out], _parts(args[0]), _parts(args[1])
    sizes = magnitude(code, part, c), magnitude(code, part, d)
    nothing = both(code, compare(code, "oeq", part, sizes[0], 0.0), compare(code, "oeq", part, sizes[1], 0.0))
    usual = code.op(f"xor {code.type('b1')} {nothing}, {code.const('b1', 1)}")

    def do(op: str, x: str, y: str) -> str:
        return step(code, op, part, x, y, usual)

    by_real = compare(code, "oge", part, *sizes)
    large, small = choose(code, by_real, part, c, d), choose(code, by_real, part, d, c)
    ratio = do("divide", small, large)
    scale = do("divide", code.const(part, 1.0), do("add", large, do("multiply", small, ratio)))
    # (a + b*ratio, b - a*ratio) by the real part, (a*ratio + b, b*ratio - a) by the imaginary one
    p = do("multiply", choose(code, by_real, part, b, a), ratio)
    q = do("multiply", choose(code, by_real, part, a, b), ratio)
    re = do("add", choose(code, by_real, part, a, b), p)
    im = do("subtract", choose(code, by_real, part, b, q), choose(code, by_real, part, q, a))
    re, im = do("multiply", re, scale), do("multiply", im, scale)
    zeros = step(code, "divide", part, a, sizes[0], nothing), step(code, "divide", part, b, sizes[0], nothing)
    return pick(code, nothing, part, zeros, (re, im))


def _reciprocal(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """1 / (a + bi), both parts divided by the larger one first."""
    part, (a, b) = PARTS[out], _parts(args[0])
    by_real = compare(code, "ole", part, magnitude(code, part, b), magnitude(code, part, a))
    large, small = choose(code, by_real, part, a, b), choose(code, by_real, part, b, a)
    ratio = step(code, "divide", part, small, large)
    total = step(code, "add", part, large, step(code, "multiply", part, small, ratio))
    minus = code.op(f"fneg {code.type(part)} {ratio}")
    re = step(code, "divide", part, choose(code, by_real, part, 1.0, ratio), total)
    return re, step(code, "divide", part, choose(code, by_real, part, minus, -1.0), total)


def _absolute(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    """Larger part times sqrt(1 + ratio**2), fused, on processors where NumPy's loop does so; else that loop."""
    if "+avx512f" not in code.target.features.split(","):
        return mathlib.call_loop(code, "absolute", (*srcs, out), args)
    t, sizes = code.type(out), [magnitude(code, out, v) for v in _parts(args[0])]
    by_real = compare(code, "ogt", out, *sizes)
    large, small = choose(code, by_real, out, *sizes), choose(code, by_real, out, sizes[1], sizes[0])
    ratio = code.op(f"fdiv {t} {small}, {large}")
    factor = code.intrinsic("sqrt", out, code.intrinsic("fma", out, ratio, ratio, code.const(out, 1.0)))
    result = code.op(f"fmul {t} {factor}, {large}")
    result = choose(code, compare(code, "oeq", out, large, 0.0), out, small, result)
    infinite = either(code, *(compare(code, "oeq", out, v, float("inf")) for v in sizes))
    return choose(code, infinite, out, float("inf"), result)


def _negative(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    t = code.type(PARTS[out])
    re, im = (code.op(f"fneg {t} {v}") for v in _parts(args[0]))
    return re, im


def _conjugate(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    re, im = _parts(args[0])
    return re, code.op(f"fneg {code.type(PARTS[out])} {im}")


def _rint(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    re, im = (code.intrinsic("roundeven", PARTS[out], v) for v in _parts(args[0]))
    return re, im


def _part(which: int) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return _parts(args[0])[which]

    return rule


def has_nan(code: Code, part: str, x: tuple[str, str]) -> str:
    """Lanes in which either part is NaN."""
    return compare(code, "uno", part, x[0], x[1])


def _equal(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    part, x, y = PARTS[srcs[0]], _parts(args[0]), _parts(args[1])
    return both(code, *(compare(code, "oeq", part, a, b) for a, b in zip(x, y, strict=True)))


def _not_equal(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    part, x, y = PARTS[srcs[0]], _parts(args[0]), _parts(args[1])
    return either(code, *(compare(code, "une", part, a, b) for a, b in zip(x, y, strict=True)))


def order(code: Code, condition: str, part: str, x: tuple[str, str], y: tuple[str, str]) -> str:
    """Lexicographic comparison; false where a real part is NaN, or an imaginary one that would have to decide."""
    strict = compare(code, condition[:2] + "t", part, x[0], y[0])
    clear = compare(code, "ord", part, x[1], y[1])
    equal = compare(code, "oeq", part, x[0], y[0])
    second = compare(code, condition, part, x[1], y[1])
    return either(code, both(code, strict, clear), both(code, equal, second))


def _order(condition: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        return order(code, condition, PARTS[srcs[0]], _parts(args[0]), _parts(args[1]))

    return rule


def pick(code: Code, condition: str, part: str, x: tuple[str, str], y: tuple[str, str]) -> tuple[str, str]:
    """Select of complex values."""
    return choose(code, condition, part, x[0], y[0]), choose(code, condition, part, x[1], y[1])


def _extreme(condition: str, avoid_nan: bool) -> Rule:
    """The first source where the comparison holds or NaN decides for it, else the second."""

    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        part, x, y = PARTS[out], _parts(args[0]), _parts(args[1])
        first = order(code, condition, part, x, y)
        deciding = has_nan(code, part, y if avoid_nan else x)
        return pick(code, either(code, first, deciding), part, x, y)

    return rule


def _classify(op: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        part, x = PARTS[srcs[0]], _parts(args[0])
        infinity = float("inf")
        if op == "isnan":
            return has_nan(code, part, x)
        condition, join = ("olt", both) if op == "isfinite" else ("oeq", either)
        return join(code, *(compare(code, condition, part, magnitude(code, part, v), infinity) for v in x))

    return rule


def truth(code: Code, part: str, x: tuple[str, str]) -> str:
    """Lanes that are not zero."""
    return either(code, compare(code, "une", part, x[0], 0.0), compare(code, "une", part, x[1], 0.0))


def _logical(connective: str) -> Rule:
    def rule(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
        x, y = (truth(code, PARTS[srcs[0]], _parts(a)) for a in args)
        return code.op(f"{connective} {code.type('b1')} {x}, {y}")

    return rule


def _not(code: Code, srcs: Srcs, out: str, args: Args) -> Reg:
    return code.op(f"xor {code.type('b1')} {truth(code, PARTS[srcs[0]], _parts(args[0]))}, {code.const('b1', 1)}")


RULES: Rules = {
    (op, "c"): rule
    for op, rule in {
        "add": _both_parts("add"), "subtract": _both_parts("subtract"), "multiply": _multiply, "square": _square,
        "divide": _divide, "reciprocal": _reciprocal, "absolute": _absolute, "negative": _negative, "positive": same,
        "conjugate": _conjugate, "rint": _rint,
        "real": _part(0), "imag": _part(1), "equal": _equal, "not_equal": _not_equal,
        "less": _order("olt"), "less_equal": _order("ole"), "greater": _order("ogt"), "greater_equal": _order("oge"),
        "maximum": _extreme("oge", False), "minimum": _extreme("ole", False),
        "fmax": _extreme("oge", True), "fmin": _extreme("ole", True),
        **{op: _classify(op) for op in ("isnan", "isinf", "isfinite")},
        "logical_and": _logical("and"), "logical_or": _logical("or"), "logical_xor": _logical("xor"),
        "logical_not": _not,
    }.items()
}  # fmt: skip
