"""NumPy's scalar semantics as LLVM IR over vectors: one table, the operations and the monoids.

in: emit.py hands over registers and dtypes; out: instructions appended to its `Code`.

An operation is found in `RULES` under (its name, the class of its sources); what has no rule runs NumPy's own inner
loop over the lanes (`mathlib.call_loop`).  Dtypes are those of NumPy's loops: the front end has put the casts in.
"""

from __future__ import annotations

import math
from functools import cache

from . import faults as _faults
from . import mathlib, numerics_cast, numerics_complex, numerics_float, numerics_int
from .rules import Args, Rules, Srcs, emit, kind
from .text import PARTS, SIZES, Code, Reg, literal

RULES: Rules = numerics_int.RULES | numerics_float.RULES | numerics_complex.RULES

# one result of a ufunc that has two -> (ufunc, which)
SPLIT = {
    "modf_frac": ("modf", 0), "modf_int": ("modf", 1), "frexp_mantissa": ("frexp", 0), "frexp_exponent": ("frexp", 1),
}  # fmt: skip

suspicious = _faults.suspicious
faults = _faults.faults


@cache
def _loop(op: str, srcs: Srcs, out: str) -> tuple[str, tuple[str, ...], int] | None:
    """(ufunc, types, which result) of NumPy's loop for the operation."""
    name, which = SPLIT.get(op, (op, 0))
    if op not in SPLIT and mathlib.listed(op, (*srcs, out)):
        return op, (*srcs, out), 0
    for types in mathlib.signatures(name):
        if types[: len(srcs)] == srcs and types[len(srcs) + which : len(srcs) + which + 1] == (out,):
            return (name, types, which) if op in SPLIT or len(types) == len(srcs) + 1 else None
    return None


def supports(op: str, srcs: Srcs, out: str) -> bool:
    """Whether `apply` emits this operation for these dtypes of the sources and the result."""
    if op == "cast":
        return len(srcs) == 1 and srcs[0] in SIZES and out in SIZES
    if op == "select":
        return len(srcs) == 3 and srcs[0] == "b1" and srcs[1] == srcs[2] == out and out in SIZES
    if op in ("real", "imag"):
        return len(srcs) == 1 and PARTS.get(srcs[0]) == out
    loop = _loop(op, srcs, out)
    return loop is not None and ((op, kind(srcs[0])) in RULES or mathlib.has_loop(loop[0], loop[1]))


def apply(code: Code, op: str, srcs: Srcs, out: str, args: Args) -> Reg:
    """Emit one operation.

    Parameters
    ----------
    op
        "cast", "select", or a NumPy ufunc by its own name ("real", "imag" and the parts of `SPLIT` too).
    srcs, out
        Dtypes of the sources and of the result.

    Raises
    ------
    NotImplementedError
        Where `supports` is false.
    """
    if op == "cast":
        return numerics_cast.cast(code, srcs, out, args)
    if op == "select":
        return _select(code, out, args)
    rule = RULES.get((op, kind(srcs[0])))
    if rule is not None:
        return emit(code, rule, srcs, out, args)
    loop = _loop(op, srcs, out)
    if loop is None or not mathlib.has_loop(loop[0], loop[1]):
        raise NotImplementedError(f"no code for {op}({', '.join(srcs)}) -> {out}")
    return mathlib.call_loop(code, loop[0], loop[1], args, loop[2])


def _select(code: Code, out: str, args: Args) -> Reg:
    condition, x, y = args
    assert isinstance(condition, str)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return numerics_complex.pick(code, condition, PARTS[out], x, y)
    t = code.type(out)
    return code.op(f"select {code.type('b1')} {condition}, {t} {x}, {t} {y}")


def _identity(monoid: str, dtype: str) -> float:
    whole = dtype[0] in "biu"
    low, high = (-math.inf, math.inf)
    if dtype == "b1":
        low, high = 0, 1
    elif whole:
        low, high = numerics_int.minimum_of(dtype), numerics_int.maximum_of(dtype)
    if monoid in ("fmin", "fmax") and not whole:
        return math.nan
    return {
        "add": 0, "multiply": 1, "minimum": high, "fmin": high, "argmin": high, "maximum": low,
        "fmax": low, "argmax": low, "logical_and": 1, "logical_or": 0,
        "bitwise_and": high if dtype[0] in "bu" else -1, "bitwise_or": 0, "bitwise_xor": 0,
    }[monoid]  # fmt: skip


def identity(monoid: str, dtype: str, keep: str = "last") -> Reg:
    """Constant of one lane to start a fold with (a pair of constants for complex dtypes).

    It leaves every value as it is, but for one thing that NumPy does: sums start from 0.0, so a sum of nothing but
    -0.0 is 0.0.  Scans (`keep="prefix"`) start from -0.0, as they begin with the first element itself.
    For "argmin" and "argmax" it is the value; the position to go with it is the greatest i8.
    """
    part = PARTS.get(dtype)
    value = _identity(monoid, part or dtype)
    if monoid == "add" and keep == "prefix" and (part or dtype)[0] == "f":
        value = -0.0
    if part is None:
        return literal(dtype, value)
    second = 0.0 if monoid == "multiply" else value
    return literal(part, value), literal(part, second)


def combine(code: Code, monoid: str, dtype: str, acc: Reg, x: Reg) -> Reg:
    """acc joined with x, both of `dtype` (b1 for "logical_and" and "logical_or")."""
    return apply(code, monoid, (dtype, dtype), dtype, (acc, x))


def combine_arg(code: Code, monoid: str, dtype: str, acc: tuple[Reg, str], x: tuple[Reg, str]) -> tuple[Reg, str]:
    """Join two (value, i8 position) pairs: the better value, the smaller position of equals, the first NaN of all."""
    (v, i), (w, j) = acc, x
    i8, b = code.type("i8"), code.type("b1")
    earlier = code.op(f"icmp slt {i8} {i}, {j}")
    better, equal = _ranks(code, monoid, dtype, v, w)
    first = code.op(f"or {b} {better}, {code.op(f'and {b} {equal}, {earlier}')}")
    value = _select(code, dtype, (first, v, w))
    return value, code.op(f"select {b} {first}, {i8} {i}, {i8} {j}")


def _ranks(code: Code, monoid: str, dtype: str, v: Reg, w: Reg) -> tuple[str, str]:
    """Where v ranks before w, and where neither ranks before the other; NaN ranks before all else."""
    b, name = code.type("b1"), "less" if monoid == "argmin" else "greater"
    better = str(apply(code, name, (dtype, dtype), "b1", (v, w)))
    equal = str(apply(code, "equal", (dtype, dtype), "b1", (v, w)))
    if dtype[0] in "biu":
        return better, equal
    nans = [str(apply(code, "isnan", (dtype,), "b1", (a,))) for a in (v, w)]
    only = code.op(f"and {b} {nans[0]}, {code.op(f'xor {b} {nans[1]}, ' + code.const('b1', 1))}")
    # Comparisons with NaN are false, but a complex NaN may still compare by its real part.
    plain = code.op(f"xor {b} {nans[1]}, {code.const('b1', 1)}")
    better = code.op(f"and {b} {better}, {plain}")
    better = code.op(f"or {b} {better}, {only}")
    return better, code.op(f"or {b} {equal}, {code.op(f'and {b} {nans[0]}, {nans[1]}')}")
