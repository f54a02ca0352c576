"""A kernel made into machine code of the host; imported only when a kernel is not on disk.

in: a kernel and its plan; out: what a launch must know of the plan, and what makes code that can be kept.
"""

from __future__ import annotations

from collections.abc import Callable

from ..runtime import trace
from ..runtime.config import settings
from ..runtime.target import Target
from . import host
from .emit import emit
from .folds import kind_of, size_of
from .kernel import Kernel
from .schedule import Facts, Plan, narrow_axis, row_plan
from .text import SIZES


def facts_of(kernel: Kernel, plan: Plan, choices: bool) -> Facts:
    """What a launch must know of a plan; with `choices` also which other plans there are."""
    state = 8 + sum(size_of(kind_of(kernel, n)) for n in plan.partial)
    column = sum(SIZES[kernel.values[n].dtype] for n in plan.rows)
    narrow = narrow_axis(kernel, plan.vector) if choices else None
    rows = choices and narrow is None and row_plan(kernel, plan) is not None
    return Facts(plan.vector, plan.split, plan.finish is not None, state, column, narrow, rows)


def maker(kernel: Kernel, plan: Plan, target: Target, name: str, exact: bool, writes: bool) -> Callable[[int], bytes]:
    """Machine code of a plan, by the level of LLVM's code generator."""
    module = emit(kernel, plan, target, name, exact, writes)

    def make(level: int) -> bytes:
        if settings.debug >= 4 and level == host.OPT:
            trace.log(4, f"LLVM IR of {name}\n{module.text}")
            if settings.debug >= 7:
                trace.log(7, f"assembly of {name}\n{host.assembly(module.text, target)}")
        return host.pack(host.build(module.text, target, bool(settings.check), level), module.externs)

    return make
