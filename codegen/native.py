"""Kernels as machine code of this process: kept on disk, reported on, and built for long or short vector axes.

in: a kernel; out: a `Compiled` for the host.
"""

from __future__ import annotations

import ctypes
import json
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import host
from .abi import layout
from .emit import emit
from .folds import kind_of, size_of
from .kernel import Kernel, text
from .reporting import can_rerun, with_checks
from .schedule import GRAIN, Plan, UnsupportedKernel, narrow_axis, row_plan, schedule, unit_count
from .text import SIZES

NARROW = 8  # an axis of at most so many indices fills no vector well
FEW = 4  # fewer units than this do not occupy the processor's cores

_lock = threading.RLock()


def functions(kernel: Kernel, plan: Plan, target: Target, key: str, exact: bool, writes: bool) -> host.Functions:
    """Machine code of a kernel, from disk if it is there."""
    name = "k" + key[:24] + key[64:]  # what follows the hash tells kernels of one origin apart
    finish = plan.finish is not None
    stored = disk.load(key)
    if stored is not None:
        head, code = stored.split(b"\n", 1)
        try:
            return host.link(code, json.loads(head), name, finish)
        except LookupError:
            pass  # another C library than the one the code was made for
    module = emit(kernel, plan, target, name, exact, writes)
    code = host.build(module.text, target, verify=bool(settings.check))
    disk.store(key, json.dumps(sorted(module.externs)).encode() + b"\n" + code)
    trace.count("compiles")
    return host.link(code, module.externs, name, finish)


class Native:
    """One schedule of a kernel, with the second run that reports its faults; built when it is first asked for.

    Parameters
    ----------
    kernel, target
        What is built, and for which processor.
    key : str
        Where it is kept on disk.
    plan : callable
        From the kernel to its plan.
    """

    def __init__(
        self, kernel: Kernel, target: Target, key: str, plan: Callable[[Kernel], Plan] = schedule
    ) -> None:  # fmt: skip
        self.source, self.target, self.key = kernel, target, key
        self.again = bool(kernel.faults) and can_rerun(kernel)
        self.kernel = with_checks(kernel) if kernel.faults and not self.again else kernel
        self.plan = plan(self.kernel)
        self.state = 8 + sum(size_of(kind_of(self.kernel, n)) for n in self.plan.partial)
        self._functions: host.Functions | None = None

    def functions(self) -> host.Functions:
        """The callables `body` and `finish`."""
        if self._functions is None:
            with _lock:
                if self._functions is None:
                    exact = not self.again
                    made = functions(self.kernel, self.plan, self.target, self.key, exact, writes=True)
                    if self.again:
                        made = Report(self.source, self.plan, self.target, self.key).watch(*made)
                    self._functions = made
        return self._functions

    def units(self, extents: tuple[int, ...]) -> int:
        """Independent units of work."""
        return unit_count(extents, self.plan.split, self.plan.vector)

    def scratch(self, extents: tuple[int, ...]) -> int:
        """Bytes of scratch memory."""
        if self.plan.finish is None:
            return 0
        columns = sum(SIZES[self.kernel.values[n].dtype] for n in self.plan.rows)
        width = extents[self.plan.vector] if columns else 0
        return self.units(extents) * (self.state + columns * width)


class Report:
    """The second run of a kernel that found something suspicious: it stores nothing and reports exactly."""

    def __init__(self, kernel: Kernel, plan: Plan, target: Target, key: str) -> None:
        self.kernel, self.main, self.target, self.key = with_checks(kernel), plan, target, key + "r"
        self.plan: Plan | None = None
        self.functions: host.Functions | None = None

    def watch(self, body: Callable[[int, int, int], int], finish: Callable[[int], int] | None) -> host.Functions:
        """The functions of the kernel, followed by the second run where it is needed."""

        def watched(args: int, low: int, high: int) -> int:
            return self.run(args, low, high) if body(args, low, high) else 0

        vars(watched).update(machine=body, report=self.run)  # for callers that do the same by themselves

        def watched_finish(args: int) -> int:
            assert finish is not None
            return self.run(args) if finish(args) else 0

        # With states to combine, units leave their suspicions for `finish`.
        return (watched, None) if finish is None else (body, watched_finish)

    def run(self, args: int, low: int = 0, high: int = 0) -> int:
        """Report the faults of units `low` to `high`, or of the launch."""
        with _lock:
            if self.functions is None:
                self.plan = schedule(self.kernel, park=False, vector=self.main.vector)
                self.functions = functions(self.kernel, self.plan, self.target, self.key, exact=True, writes=False)
        plan, (body, finish) = self.plan, self.functions
        assert plan is not None
        if plan.split == self.main.split and finish is None and high:
            return body(args, low, high)
        where = layout(self.kernel)
        row = (ctypes.c_uint64 * where.words).from_buffer_copy(ctypes.string_at(args, 8 * where.words))
        extents = tuple(row[where.extents : where.extents + self.kernel.rank])
        units = unit_count(extents, plan.split, plan.vector)
        state = 8 + sum(size_of(kind_of(self.kernel, n)) for n in plan.partial)
        scratch = ctypes.create_string_buffer(state * units + 1)
        row[where.scratch] = ctypes.addressof(scratch)
        body(ctypes.addressof(row), 0, units)
        return finish(ctypes.addressof(row)) if finish is not None else 0


class Choice:
    """A kernel with two schedules: the usual one, and one for launches of another form.

    The second is built when it is first needed.  Which one runs depends on the extents alone, and so do the bits.
    """

    def __init__(
        self, kernel: Kernel, usual: Native, applies: Callable[[tuple[int, ...]], bool], build: Callable[[], Native]
    ) -> None:
        self.usual, self.applies, self.build = usual, applies, build
        self.other: Native | None = None
        self.first = layout(kernel).extents
        self.row = ctypes.c_int64 * kernel.rank

    def pick(self, extents: tuple[int, ...]) -> Native:
        """The schedule for these extents."""
        if not self.applies(extents):
            return self.usual
        with _lock:
            if self.other is None:
                try:
                    self.other = self.build()
                except UnsupportedKernel:
                    self.other = self.usual
            return self.other

    def _at(self, args: int) -> Native:
        return self.pick(tuple(self.row.from_address(args + 8 * self.first)))

    def body(self, args: int, low: int, high: int) -> int:
        """Run units `low` to `high`."""
        return self._at(args).functions()[0](args, low, high)

    def finish(self, args: int) -> int:
        """Combine what the units left."""
        finish = self._at(args).functions()[1]
        return finish(args) if finish is not None else 0

    def units(self, extents: tuple[int, ...]) -> int:
        """Independent units of work."""
        return self.pick(extents).units(extents)

    def scratch(self, extents: tuple[int, ...]) -> int:
        """Bytes of scratch memory."""
        return self.pick(extents).scratch(extents)


def _choice(kernel: Kernel, target: Target, key: str, usual: Native) -> Choice | None:
    """The second schedule that a kernel may run by, if there is one."""
    plan = usual.plan
    narrow, rows = narrow_axis(kernel, plan.vector), row_plan(kernel, plan)
    if narrow is not None:

        def is_short(extents: tuple[int, ...]) -> bool:
            return extents[plan.vector] <= NARROW and extents[narrow] > extents[plan.vector]

        across = partial(schedule, vector=narrow)
        return Choice(kernel, usual, is_short, lambda: Native(kernel, target, f"{key}v{narrow}", across))
    if rows is None:
        return None

    def is_tall(extents: tuple[int, ...]) -> bool:
        return math.prod(extents) >= FEW * GRAIN and 0 < usual.units(extents) < FEW

    def by_rows(checked: Kernel) -> Plan:
        found = row_plan(checked, plan)
        if found is None:
            raise UnsupportedKernel("no plan by rows")
        return found

    return Choice(kernel, usual, is_tall, lambda: Native(kernel, target, f"{key}w", by_rows))


def compiled(kernel: Kernel, target: Target, key: str) -> Compiled:
    """The kernel for the host."""
    start = time.perf_counter()
    usual = Native(kernel, target, key)
    choice = _choice(kernel, target, key, usual)
    body: Callable[[int, int, int], int]
    finish: Callable[[int], int] | None
    if choice is None:
        body, finish = usual.functions()
    else:
        # By rows there are states to combine even where the usual schedule has none.
        body, finish = choice.body, choice.finish
    made = choice or usual
    elapsed = 1e3 * (time.perf_counter() - start)
    return Compiled(
        target, key, body, finish, made.units, made.scratch, elapsed, text(kernel)  # type: ignore[arg-type]
    )  # fmt: skip
