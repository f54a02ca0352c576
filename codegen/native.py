"""Kernels as machine code of this process: kept on disk, reported on, and built for long or short vector axes.

in: a kernel; out: a `Compiled` for the host.  What comes from disk needs no schedule and no code generator.
"""

from __future__ import annotations

import ctypes
import marshal
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from ..runtime import cache as disk
from ..runtime import threads, trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import crew, host, image, prepare, ready
from .abi import layout
from .kernel import Kernel, can_rerun
from .schedule import Facts, Plan, UnsupportedKernel, row_plan, schedule

NARROW = 8  # an axis of at most so many indices fills no vector well
FEW = 4  # fewer units than this do not occupy the processor's cores
TALL = 1 << 17  # elements that are worth units of their own

_lock = threading.RLock()
threads.crew = crew.made


class Build:
    """A kernel by one plan: what a launch must know of it, and its machine code when that is asked for.

    Parameters
    ----------
    kernel : callable
        Gives what is built.
    target
        For which processor.
    key : str
        Where it is kept on disk.
    plan : callable
        From the kernel to its plan.
    exact, writes : bool
        As for `emit`.
    choices : bool
        Whether other plans of the kernel count.
    """

    def __init__(
        self, kernel: Callable[[], Kernel], target: Target, key: str, plan: Callable[[Kernel], Plan], exact: bool,
        writes: bool = True, choices: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.target, self.key, self._plan = kernel, target, key, plan
        self.exact, self.writes = exact, writes
        self.name = "k" + key[:24] + key[64:]  # what follows the hash tells kernels of one origin apart
        self.code: bytes | None = None
        stored = _stored(key)
        self.quick = False  # whether the code is what was made first
        if stored is not None:
            self.facts, self.code, self.quick = stored
            return
        prepare.missed()
        from .build import facts_of  # the code generator

        kernel_, self.code = kernel(), None
        self.facts = facts_of(kernel_, plan(kernel_), choices)
        if self.facts.narrow is not None or self.facts.rows:  # which plan is built is not known yet
            disk.store(key, marshal.dumps((tuple(self.facts), None), 2))

    def functions(self) -> host.Functions:
        """The callables `body` and `finish`."""
        if self.code is not None and settings.debug < 4:  # else its text is asked for
            try:
                made = self._quickly(self.code) if self.quick else self._callables(self.code)
                trace.count("cache_hits")
                return made
            except (image.Refused, LookupError, EOFError, TypeError, ValueError) as error:
                trace.log(1, f"code from disk is made anew: {error}")  # another C library, or another system
        make = self._maker()
        trace.count("compiles")
        if _passes() and settings.debug < 4:
            code = make(host.QUICK)
            try:
                made = self._quickly(code, make)
            except image.Refused as error:
                trace.log(1, f"LLVM's linker loads all code: {error}")
            else:  # kept at once: the process may end before it has better code
                disk.store(self.key, marshal.dumps((tuple(self.facts), code, True), 2))
                return made
        return self._callables(self._better(make))

    def _maker(self) -> Callable[[int], bytes]:
        from .build import maker

        kernel = self.kernel()
        return maker(kernel, self._plan(kernel), self.target, self.name, self.exact, self.writes)

    def _callables(self, code: bytes) -> host.Functions:
        return host.callables(code, self.name, self.facts.finish)

    def _quickly(self, code: bytes, make: Callable[[int], bytes] | None = None) -> host.Functions:
        """Functions that run code made quickly until a thread has made better."""
        made, improve = host.passing(code, self.name, self.facts.finish)
        prepare.later(lambda: improve(self._better(make or self._maker())))
        return made

    def _better(self, make: Callable[[int], bytes]) -> bytes:
        """The code that stays."""
        code = make(host.OPT)
        disk.store(self.key, marshal.dumps((tuple(self.facts), code), 2))
        return code


def _passes() -> bool:
    """Whether kernels begin with code that is made quickly, while a thread makes better."""
    return host.QUICK < host.OPT and ready.here() and image.loadable() and prepare.spare()


def _stored(key: str) -> tuple[Facts, bytes | None, bool] | None:
    """What is on disk of a kernel, and whether its code was made quickly; None where such code does not do."""
    found = disk.load(key, counted=False)
    if found is None:
        return None
    try:
        facts, code, *quick = marshal.loads(found)
        return None if quick and not _passes() else (Facts(*facts), code, bool(quick))
    except (EOFError, TypeError, ValueError):
        trace.log(1, f"code cache: {key} holds something else")
        return None


class Native(Build):
    """A kernel, with the second run that reports its faults.

    Parameters
    ----------
    kernel, target, key, plan, choices
        As for `Build`.
    """

    def __init__(
        self, kernel: Kernel, target: Target, key: str, plan: Callable[[Kernel], Plan] = schedule,
        choices: bool = False,
    ) -> None:  # fmt: skip
        self.source, self.again = kernel, bool(kernel.faults) and can_rerun(kernel)
        super().__init__(self._checked, target, key, plan, not self.again, choices=choices)
        self._functions: host.Functions | None = None

    def _checked(self) -> Kernel:
        return _with_checks(self.source) if self.source.faults and not self.again else self.source

    def functions(self) -> host.Functions:
        """The callables `body` and `finish`."""
        if self._functions is None:
            with _lock:
                if self._functions is None:
                    made = super().functions()
                    if self.again:
                        made = Report(self.source, self.facts, self.target, self.key).watch(*made)
                    self._functions = made
        return self._functions


def _with_checks(kernel: Kernel) -> Kernel:
    from .reporting import with_checks  # the code generator

    return with_checks(kernel)


class Report:
    """The second run of a kernel that found something suspicious: it stores nothing and reports exactly."""

    def __init__(self, kernel: Kernel, main: Facts, target: Target, key: str) -> None:
        self.kernel, self.main, self.target, self.key = kernel, main, target, key + "r"
        self.facts: Facts | None = None
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
                plan = partial(schedule, park=False, vector=self.main.vector)
                build = Build(partial(_with_checks, self.kernel), self.target, self.key, plan, True, writes=False)
                self.facts, self.functions = build.facts, build.functions()
        facts, (body, finish) = self.facts, self.functions
        assert facts is not None
        if facts.split == self.main.split and finish is None and high:
            return body(args, low, high)
        where = layout(self.kernel)
        row = (ctypes.c_uint64 * where.words).from_buffer_copy(ctypes.string_at(args, 8 * where.words))
        extents = tuple(row[where.extents : where.extents + self.kernel.rank])
        units = facts.units(extents)
        scratch = ctypes.create_string_buffer(facts.state * units + 1)
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

    def functions(self, extents: tuple[int, ...]) -> host.Functions:
        """The callables for these extents."""
        return self.pick(extents).functions()

    def body(self, args: int, low: int, high: int) -> int:
        """Run units `low` to `high`."""
        return self._at(args).functions()[0](args, low, high)

    def finish(self, args: int) -> int:
        """Combine what the units left."""
        finish = self._at(args).functions()[1]
        return finish(args) if finish is not None else 0

    def units(self, extents: tuple[int, ...]) -> int:
        """Independent units of work."""
        return self.pick(extents).facts.units(extents)

    def scratch(self, extents: tuple[int, ...]) -> int:
        """Bytes of scratch memory."""
        return self.pick(extents).facts.scratch(extents)


def _choice(kernel: Kernel, target: Target, key: str, usual: Native) -> Choice | None:
    """The second schedule that a kernel may run by, if there is one."""
    facts = usual.facts
    vector, narrow = facts.vector, facts.narrow
    if narrow is not None:

        def is_short(extents: tuple[int, ...]) -> bool:
            return extents[vector] <= NARROW and extents[narrow] > extents[vector]

        across = partial(schedule, vector=narrow)
        return Choice(kernel, usual, is_short, lambda: Native(kernel, target, f"{key}v{narrow}", across))
    if not facts.rows:
        return None

    def is_tall(extents: tuple[int, ...]) -> bool:
        return math.prod(extents) >= TALL and 0 < facts.units(extents) < FEW

    def by_rows(checked: Kernel) -> Plan:
        found = row_plan(checked, schedule(checked))
        if found is None:
            raise UnsupportedKernel("no plan by rows")
        return found

    return Choice(kernel, usual, is_tall, lambda: Native(kernel, target, f"{key}w", by_rows))


def compiled(kernel: Kernel, target: Target, key: str) -> Compiled:
    """The kernel for the host."""
    start = time.perf_counter()
    usual = Native(kernel, target, key, choices=True)
    choice = _choice(kernel, target, key, usual)
    body: Callable[[int, int, int], int]
    finish: Callable[[int], int] | None
    if choice is None:
        body, finish = usual.functions()
        units, scratch = usual.facts.units, usual.facts.scratch
    else:
        # By rows there are states to combine even where the usual schedule has none.
        body, finish = choice.body, choice.finish
        units, scratch = choice.units, choice.scratch
    elapsed = 1e3 * (time.perf_counter() - start)
    at = None if choice is None else choice.functions
    return Compiled(target, key, body, finish, units, scratch, elapsed, at=at)  # type: ignore[arg-type]
