"""Index vectors that follow the vector axis: where their lanes are neighbours, a gather is a plain load.

in: the value that picks; out: its first lane, and the condition under which the other lanes follow it one by one.
What is followed are moved and wrapped indices, such as `roll` makes: the axis' own index, with numbers added, and
choices between such by comparing one with a number.
"""

from __future__ import annotations

from ..runtime.tuples import NamedTuple
from .frame import Frame
from .kernel import Kernel
from .text import Code

_COMPARED = {"less": "slt", "less_equal": "sle", "greater": "sgt", "greater_equal": "sge"}


class Run(NamedTuple):
    """An index at the first lane, whether it grows by one from lane to lane (or stays), and what that hangs on."""

    first: str
    grows: bool
    conditions: tuple[str, ...] = ()


def run(code: Code, kernel: Kernel, domains: list[int], vector: int, frame: Frame, n: int) -> Run | None:
    """How index `n` runs along the lanes; None if that is not known."""
    value = kernel.values[n]
    if not domains[n] >> vector & 1:
        register = frame.regs.get(n)
        return Run(register, False) if isinstance(register, str) else None
    if value.dtype != "i8":
        return None
    if value.op == "iota":
        return Run(frame.index[vector], True)
    if value.op in ("add", "subtract"):
        a, b = (run(code, kernel, domains, vector, frame, s) for s in value.src)
        if a is None or b is None or (a.grows and b.grows) or (value.op == "subtract" and b.grows):
            return None
        first = code.op(f"{'add' if value.op == 'add' else 'sub'} i64 {a.first}, {b.first}")
        return Run(first, a.grows or b.grows, a.conditions + b.conditions)
    if value.op == "select":
        return _chosen(code, kernel, domains, vector, frame, value.src)
    return None


def _chosen(
    code: Code, kernel: Kernel, domains: list[int], vector: int, frame: Frame, src: tuple[int, ...]
) -> Run | None:  # fmt: skip
    """A choice between two runs: the same in all lanes where a comparison, which changes once at most, is."""
    compare = kernel.values[src[0]]
    if compare.op not in _COMPARED or any(kernel.values[s].dtype != "i8" for s in compare.src):
        return None
    found = [run(code, kernel, domains, vector, frame, s) for s in (*compare.src, *src[1:])]
    if any(r is None for r in found):
        return None
    left, right, yes, no = [r for r in found if r is not None]
    if yes.grows != no.grows or (left.grows and right.grows):
        return None
    ends = []
    for lane in (0, frame.lanes - 1):
        a, b = (code.op(f"add i64 {r.first}, {lane}") if lane and r.grows else r.first for r in (left, right))
        ends.append(code.op(f"icmp {_COMPARED[compare.op]} i64 {a}, {b}"))
    same = code.op(f"icmp eq i1 {ends[0]}, {ends[1]}")
    first = code.op(f"select i1 {ends[0]}, i64 {yes.first}, i64 {no.first}")
    return Run(first, yes.grows, sum((r.conditions for r in (left, right, yes, no)), (same,)))


def picks(kernel: Kernel) -> set[int]:
    """Values that are made of indices and numbers alone, and only say where loads find their elements."""
    made: set[int] = set()
    used = {store.value for store in kernel.stores}
    for n, value in enumerate(kernel.values):
        if value.op in ("iota", "arg") or (value.src and value.arg is None and made.issuperset(value.src)):
            made.add(n)
    for n in range(len(kernel.values) - 1, -1, -1):
        if kernel.values[n].op != "load" and (n in used or n not in made):
            used.update(kernel.values[n].src)
    return made - used
