"""Floating-point faults as explicit masks (first version: the kinds that show in the result)."""

from __future__ import annotations

from .kernel import DIVIDE, INVALID, OVER
from .numerics_float import both, compare, not_finite
from .text import PARTS, Code, Reg


def suspicious(
    code: Code, op: str, srcs: tuple[str, ...], out: str, args: tuple[Reg, ...], result: Reg, kinds: int = 11
) -> Reg | None:
    """i1 vector: lanes in which a fault of `kinds` might have happened; None if the operation has none."""
    if out[0] == "c":
        part = PARTS[out]
        tests = [not_finite(code, part, v) for v in result]
        return code.op(f"or {code.type('b1')} {tests[0]}, {tests[1]}")
    if out[0] == "f" and srcs[0][0] == "f":
        return not_finite(code, out, result)
    return None


def faults(
    code: Code, op: str, srcs: tuple[str, ...], out: str, args: tuple[Reg, ...], result: Reg, kinds: int
) -> Reg:
    """i8 vector: fault bits of each lane."""
    raise NotImplementedError
