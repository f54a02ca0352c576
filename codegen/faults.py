"""NumPy's floating-point warnings as explicit masks, one table row for each operation.

`suspicious` is the cheap test beside the hot path, `faults` the exact answer for the cold block behind it.  Both
look at the sources and the result alone, never at the processor's flags, which vector math functions raise falsely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy

from ..runtime.tuples import NamedTuple
from . import numerics_complex, numerics_int
from .kernel import DIVIDE, INVALID, OVER, UNDER
from .numerics_cast import out_of_range
from .numerics_float import SMALLEST, both, choose, compare, either, magnitude, not_finite
from .rules import Args, Srcs, emit, kind
from .text import PARTS, Code, Reg, Step

DEFAULT = INVALID | DIVIDE | OVER  # what NumPy warns of unless told otherwise


class Scene(NamedTuple):
    """A float operation after the fact."""

    code: Code
    dtype: str  # of the registers
    true: str  # of the result; f2 where the registers are f4
    args: tuple[str, ...]  # float sources, or the parts of complex ones
    result: str


Test = Callable[[Scene], str]  # -> i1 vector
Row = dict[int, Test]  # fault bit -> lanes that have it


def invert(code: Code, condition: str) -> str:
    """Lanes in which the condition does not hold."""
    return code.op(f"xor {code.type('b1')} {condition}, {code.const('b1', 1)}")


def _finite(s: Scene) -> list[str]:
    return [compare(s.code, "olt", s.dtype, magnitude(s.code, s.dtype, x), math.inf) for x in s.args]


def _infinite(s: Scene) -> str:
    return compare(s.code, "oeq", s.dtype, magnitude(s.code, s.dtype, s.result), math.inf)


def made_nan(s: Scene) -> str:
    """NaN out of numbers."""
    numbers = [compare(s.code, "ord", s.dtype, x, x) for x in dict.fromkeys(s.args)]
    return both(s.code, compare(s.code, "uno", s.dtype, s.result, s.result), *numbers)


def made_infinite(s: Scene) -> str:
    """An infinity out of finite numbers."""
    return both(s.code, _infinite(s), *_finite(s))


def pole(s: Scene) -> str:
    """Finite, not zero, divided by zero: the last source."""
    result = both(s.code, compare(s.code, "oeq", s.dtype, s.args[-1], 0.0), *_finite(s))
    if len(s.args) > 1:
        result = both(s.code, result, compare(s.code, "one", s.dtype, s.args[0], 0.0))
    return result


def _beyond(test: Test) -> Test:
    """Infinite results that `test` does not explain."""
    return lambda s: both(s.code, made_infinite(s), invert(s.code, test(s)))


def at(*points: float) -> Test:
    """The source is one of these numbers."""

    def test(s: Scene) -> str:
        return either(s.code, *(compare(s.code, "oeq", s.dtype, s.args[0], p) for p in points))

    return test


def _zero_to_negative(s: Scene) -> str:
    """Zero to a negative, finite power."""
    zero = compare(s.code, "oeq", s.dtype, s.args[0], 0.0)
    return both(s.code, zero, compare(s.code, "olt", s.dtype, s.args[1], 0.0), *_finite(s))


def tiny(s: Scene) -> str:
    """Below the smallest normal number."""
    return compare(s.code, "olt", s.dtype, magnitude(s.code, s.dtype, s.result), SMALLEST[s.true])


def vanished(s: Scene) -> str:
    """Tiny out of finite numbers other than zero, for functions that are not exact there."""
    some = [compare(s.code, "une", s.dtype, x, 0.0) for x in s.args]
    return both(s.code, tiny(s), *_finite(s), *some)


_SCALE = {"f4": 2.0**120, "f8": 2.0**1000}  # lifts tiny results to where a fused residual is exact


def _times(s: Scene, x: str, y: str | float) -> str:
    other = y if isinstance(y, str) else s.code.const(s.dtype, y)
    return s.code.op(f"fmul {s.code.type(s.dtype)} {x}, {other}")


def _minus(s: Scene, x: str) -> str:
    return s.code.op(f"fneg {s.code.type(s.dtype)} {x}")


def product_lost(s: Scene) -> str:
    """A tiny product that is not exact."""
    code, dtype, (x, y) = s.code, s.dtype, s.args
    if s.true == "f2":
        return both(code, tiny(s), compare(code, "one", dtype, _times(s, x, y), s.result))
    less = compare(code, "olt", dtype, magnitude(code, dtype, x), magnitude(code, dtype, y))
    small, large = choose(code, less, dtype, x, y), choose(code, less, dtype, y, x)
    scale = _SCALE[dtype]
    rest = code.intrinsic("fma", dtype, _times(s, small, scale), large, _minus(s, _times(s, s.result, scale)))
    gone = compare(code, "oeq", dtype, s.result, 0.0)  # the sources are not zero: `vanished`
    return both(code, vanished(s), either(code, compare(code, "one", dtype, rest, 0.0), gone))


def quotient_lost(s: Scene) -> str:
    """A tiny quotient that is not exact."""
    code, dtype, scale = s.code, s.dtype, _SCALE[s.dtype]
    x, y = s.args if len(s.args) > 1 else (code.const(dtype, 1.0), s.args[0])
    rest = code.intrinsic("fma", dtype, _times(s, s.result, scale), y, _minus(s, _times(s, x, scale)))
    return both(code, vanished(s), compare(code, "one", dtype, rest, 0.0))


def sum_lost(s: Scene) -> str:
    """A tiny, inexact x * y + z."""
    code, scale, t, (x, y, z) = s.code, _SCALE[s.dtype], s.code.type(s.dtype), s.args
    rest = code.op(f"fsub {t} {_times(s, z, scale)}, {_times(s, s.result, scale)}")
    rest = code.intrinsic("fma", s.dtype, _times(s, x, scale), y, rest)
    return both(code, tiny(s), *_finite(s), compare(code, "one", s.dtype, rest, 0.0))


def _ratio_lost(s: Scene) -> str:
    """A floor of zero from a tiny, inexact quotient; halves have none in f4."""
    if s.true == "f2":
        return s.code.const("b1", 0)
    ratio = s.code.op(f"fdiv {s.code.type(s.dtype)} {s.args[0]}, {s.args[1]}")
    nothing = compare(s.code, "oeq", s.dtype, s.result, 0.0)
    return both(s.code, quotient_lost(s._replace(result=ratio)), nothing)


def _stepped(s: Scene) -> str:
    """A tiny neighbour, of another number."""
    moved = compare(s.code, "one", s.dtype, s.args[0], s.args[1])
    return both(s.code, tiny(s), moved) if s.true != "f2" else s.code.const("b1", 0)


def is_nan(s: Scene) -> str:
    """NaN, whatever it came from: NumPy's loop compares its sources in a way that reports NaN."""
    return compare(s.code, "uno", s.dtype, s.result, s.result)


def _squared(test: Test) -> Test:
    return lambda s: test(s._replace(args=s.args * 2))


_INVALID: Row = {INVALID: made_nan}
_PLAIN: Row = {INVALID: made_nan, OVER: made_infinite}
_SMOOTH: Row = {**_PLAIN, UNDER: vanished}
_LOG: Row = {DIVIDE: at(0.0), INVALID: made_nan}
_GROWTH: Row = {OVER: made_infinite}
_EXP: Row = {OVER: made_infinite, UNDER: vanished}
_ANY_NAN: Row = {INVALID: is_nan}
_SMALL: Row = {UNDER: vanished}
_POWER: Row = {**_SMOOTH, DIVIDE: _zero_to_negative, OVER: _beyond(_zero_to_negative)}
_DIVIDE: Row = {INVALID: made_nan, DIVIDE: pole, OVER: _beyond(pole), UNDER: quotient_lost}

FLOAT: dict[str, Row] = {
    "add": _PLAIN, "subtract": _PLAIN,
    "fma": {**_PLAIN, UNDER: sum_lost},
    "multiply": {**_PLAIN, UNDER: product_lost},
    "square": {OVER: made_infinite, UNDER: _squared(product_lost)},
    "divide": _DIVIDE, "reciprocal": _DIVIDE,
    "floor_divide": {
        INVALID: lambda s: either(s.code, made_nan(s), _beyond(pole)(s)) if s.true != "f2" else made_nan(s),
        DIVIDE: pole, OVER: _beyond(pole), UNDER: _ratio_lost,
    },
    "fmod": _INVALID, "remainder": _INVALID, "sqrt": _INVALID, "sin": _INVALID, "cos": _INVALID, "tan": _INVALID,
    "arccos": _INVALID, "arcsin": _INVALID, "arccosh": _INVALID,
    "log": _LOG, "log2": _LOG, "log10": _LOG,
    "log1p": {DIVIDE: at(-1.0), INVALID: made_nan},
    "arctanh": {DIVIDE: at(-1.0, 1.0), INVALID: made_nan},
    "exp": _EXP, "exp2": _EXP, "ldexp": _EXP, "expm1": _GROWTH, "sinh": _GROWTH, "cosh": _GROWTH,
    "power": _POWER, "float_power": _POWER,
    "hypot": _SMOOTH, "degrees": _SMOOTH, "rad2deg": _SMOOTH, "logaddexp": _ANY_NAN, "logaddexp2": _ANY_NAN,
    "radians": _SMALL, "deg2rad": _SMALL, "arctan2": _SMALL,
    "nextafter": {OVER: lambda s: both(s.code, _infinite(s), _finite(s)[0]), UNDER: _stepped},
}  # fmt: skip

_COMPLEX_LOG: Row = {
    DIVIDE: lambda s: both(s.code, *(compare(s.code, "oeq", s.dtype, x, 0.0) for x in s.args)), INVALID: made_nan,
}  # fmt: skip


@cache
def _tells(dtype: str) -> bool:
    """Whether NumPy's loops report lengths that overflow: those for vectors of many processors do not."""
    kind = numpy.dtype({"f4": "c8"}.get(dtype, "c16"))
    most = numpy.finfo(kind).max
    try:
        with numpy.errstate(over="raise"):
            numpy.absolute(numpy.full(64, complex(most, most), kind))
    except FloatingPointError:
        return True
    return False


def _too_long(s: Scene) -> str:
    """Infinite length of a finite number."""
    return made_infinite(s) if _tells(s.dtype) else s.code.const("b1", 0)


_POLES: Row = {DIVIDE: made_infinite, INVALID: made_nan}
COMPLEX: dict[str, Row] = {
    **dict.fromkeys("exp exp2 expm1 sin cos tan sinh cosh tanh sqrt power float_power".split(), _PLAIN),
    **dict.fromkeys("arcsin arccos arcsinh arccosh".split(), _PLAIN),
    **dict.fromkeys(("log", "log2", "log10"), _COMPLEX_LOG),
    **dict.fromkeys(("log1p", "arctan", "arctanh"), _POLES),
    "absolute": {OVER: _too_long},
}
_STEPS = ("add", "subtract", "multiply", "square", "divide", "reciprocal")  # faults are those of the float steps
_SCALED = ("divide", "reciprocal")
_COMPARED = ("less", "less_equal", "greater", "greater_equal")


def _row(op: str, srcs: Srcs, out: str) -> Row:
    """Table row of an operation on floats or complex numbers."""
    return COMPLEX.get(op, {}) if srcs[0] in PARTS else FLOAT.get(op, {})


def _widen(code: Code, dtype: str, x: Reg) -> str:
    return code.op(f"fpext {code.type('f2')} {x} to {code.type('f4')}") if dtype == "f2" else str(x)


def _scene(code: Code, srcs: Srcs, out: str, args: Args, result: Reg) -> Scene:
    """The operation on floats, halves widened."""
    values = tuple(_widen(code, src, x) for src, x in zip(srcs, args, strict=True) if src[0] == "f")
    return Scene(code, "f4" if out == "f2" else out, out, values, _widen(code, out, result))


def _parts(args: Args) -> tuple[str, ...]:
    return tuple(part for x in args for part in (x if isinstance(x, tuple) else (x,)))


def _found(scene: Scene, row: Row, kinds: int) -> list[tuple[int, str]]:
    return [(bit, test(scene)) for bit, test in row.items() if bit & kinds]


def _integers(
    code: Code, op: str, srcs: Srcs, args: Args, kinds: int
) -> list[tuple[int, str]]:  # fmt: skip
    if op not in ("floor_divide", "remainder", "fmod", "reciprocal") or srcs[0] == "b1":
        return []
    dtype, found = srcs[0], []
    zero = numerics_int.zero_divisor(code, dtype, str(args[-1]))
    if kinds & DIVIDE:
        found.append((DIVIDE, zero))
    if op == "reciprocal" and kinds & INVALID:
        found.append((INVALID, zero))
    if op == "floor_divide" and dtype[0] == "i" and kinds & OVER:
        found.append((OVER, numerics_int.overflowing(code, dtype, str(args[0]), str(args[1]))))
    return found


def _of_cast(code: Code, src: str, out: str, x: Reg, result: Reg, kinds: int) -> list[tuple[int, str]]:
    if src in PARTS:
        if out in PARTS:
            pairs = zip(_parts((x,)), _parts((result,)), strict=True)
            return [f for a, r in pairs for f in _of_cast(code, PARTS[src], PARTS[out], a, r, kinds)]
        return [] if out == "b1" else _of_cast(code, PARTS[src], out, _parts((x,))[0], result, kinds)
    if out in PARTS:
        return _of_cast(code, src, PARTS[out], x, _parts((result,))[0], kinds)
    if src[0] == "f" and out[0] in "iu":
        if not kinds & INVALID:
            return []
        return [(INVALID, out_of_range(code, "f4" if src == "f2" else src, out, _widen(code, src, x)))]
    if out not in ("f2", "f4") or src in ("b1", "i1", "u1", "i2", "f2", out) or (out == "f4" and src[0] in "iu"):
        return []
    scene = _scene(code, (src,) if src[0] == "f" else (), out, (x,) if src[0] == "f" else (), result)
    if src == "f8":
        back = code.op(f"fpext {code.type(scene.dtype)} {scene.result} to {code.type('f8')}")
        scene = scene._replace(dtype="f8", result=back)
    row: Row = {OVER: made_infinite}
    if src[0] == "f":
        row[UNDER] = lambda s: both(s.code, tiny(s), compare(s.code, "one", s.dtype, s.args[0], s.result))
    return _found(scene, row, kinds)


def _of_steps(
    code: Code, op: str, srcs: Srcs, out: str, args: Args, kinds: int
) -> list[tuple[int, str]]:  # fmt: skip
    trace = code.trace = list[Step]()
    emit(code, numerics_complex.RULES[op, "c"], srcs, out, args)
    code.trace = None
    found = []
    for name, part, values, result, when in trace:
        for bit, mask in _found(Scene(code, part, part, values, result), FLOAT[name], kinds):
            found.append((bit, both(code, mask, when) if when else mask))
    if op in _SCALED and kinds & INVALID:  # which part is larger is asked in a way that reports NaN
        divisor = args[-1]
        found.append((INVALID, numerics_complex.has_nan(code, PARTS[srcs[0]], (divisor[0], divisor[1]))))
    return found


def _all(
    code: Code, op: str, srcs: Srcs, out: str, args: Args, result: Reg, kinds: int
) -> list[tuple[int, str]]:  # fmt: skip
    """(fault bit, lanes that have it); a bit may come several times."""
    if op == "cast":
        return _of_cast(code, srcs[0], out, args[0], result, kinds)
    if kind(srcs[0]) in "biu":
        return _integers(code, op, srcs, args, kinds)
    if srcs[0] not in PARTS:
        row = _row(op, srcs, out)
        return _found(_scene(code, srcs, out, args, result), row, kinds) if row else []
    part = PARTS[srcs[0]]
    if op in _STEPS:
        return _of_steps(code, op, srcs, out, args, kinds)
    if op in _COMPARED:
        x, y = args
        unordered = compare(code, "uno", part, x[0], y[0])
        equal = compare(code, "oeq", part, x[0], y[0])
        second = both(code, equal, compare(code, "uno", part, x[1], y[1]))
        return [(INVALID, either(code, unordered, second))] if kinds & INVALID else []
    row = _row(op, srcs, out)
    values = _parts(args)
    return [f for r in _parts((result,)) for f in _found(Scene(code, part, part, values, r), row, kinds)]


def faults(
    code: Code, op: str, srcs: Srcs, out: str, args: Args, result: Reg, kinds: int
) -> Reg:  # fmt: skip
    """i8 vector: the fault bits of each lane that NumPy would raise, among `kinds`."""
    t, b = code.type("u1"), code.type("b1")
    total = ""
    for bit, mask in _all(code, op, srcs, out, args, result, kinds):
        value = code.op(f"select {b} {mask}, {t} {code.const('u1', bit)}, {t} {code.const('u1', 0)}")
        total = code.op(f"or {t} {total}, {value}") if total else value
    return total or code.const("u1", 0)


def suspicious(
    code: Code, op: str, srcs: Srcs, out: str, args: Args, result: Reg, kinds: int = DEFAULT
) -> Reg | None:  # fmt: skip
    """i1 vector, cheap: lanes in which a fault of `kinds` might have happened; None if the operation has none.

    Without UNDER among `kinds`, a float operation is one "not finite" test of the result.
    """
    exact = kind(srcs[0]) in "biu" or (op == "cast" and out[0] in "iu") or op in _COMPARED
    if exact:
        found = _all(code, op, srcs, out, args, result, kinds)
        return either(code, *(mask for _, mask in found)) if found else None
    steps = srcs[0] in PARTS and op in _STEPS
    row: Row = {} if steps or op == "cast" else _row(op, srcs, out)
    if op == "cast" and not _may_cast(srcs[0], out) or not steps and op != "cast" and not any(k & kinds for k in row):
        return None
    if steps and kinds & UNDER:
        return code.const("b1", 1)  # the result does not show an underflow on the way
    tests = []
    part = PARTS.get(out, out)
    for value in _parts((result,)):
        tests.append(not_finite(code, part, value))
        if kinds & UNDER:
            tests.append(compare(code, "olt", part, magnitude(code, part, value), SMALLEST[part]))
        elif steps and op in _SCALED:
            tests.append(compare(code, "oeq", part, value, 0.0))  # of an overflow on the way
    return either(code, *tests)


def shows(op: str, srcs: Srcs, out: str, kinds: int) -> bool:
    """Whether `suspicious` is nothing but a test of a real result for being infinite or NaN."""
    if out not in ("f4", "f8") or kinds & UNDER or kind(srcs[0]) != "f" or op == "cast" or op in _COMPARED:
        return False
    return any(k & kinds for k in _row(op, srcs, out))


def _may_cast(src: str, out: str) -> bool:
    """Whether a cast to a float or complex dtype can lose magnitude."""
    src, out = PARTS.get(src, src), PARTS.get(out, out)
    return (out == "f4" and src == "f8") or (out == "f2" and src in ("f4", "f8"))
