"""The front door of codegen: a kernel and a target in, a `Compiled` out.

Compiled kernels are kept in memory, and on disk by a key of everything that they depend on.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import pathlib
import threading
import time
from collections.abc import Callable
from functools import cache, partial

import llvmlite
import numpy

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import host
from .abi import layout
from .check import check
from .emit import emit
from .folds import kind_of, size_of
from .host import host_target
from .kernel import Kernel, text
from .reporting import can_rerun, with_checks
from .schedule import Plan, schedule, supported, unit_count

_lock = threading.Lock()
_known: dict[tuple[Kernel, Target], Compiled] = {}


@cache
def _version() -> str:
    """Fingerprint of everything but kernel and target that code depends on."""
    digest = hashlib.sha256(f"{llvmlite.__version__} {numpy.__version__}".encode())
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(kernel: Kernel, target: Target) -> str:
    """Content hash under which a compiled kernel is kept."""
    return hashlib.sha256(f"{kernel!r} {target!r} {_version()}".encode()).hexdigest()


def compile(kernel: Kernel, target: Target) -> Compiled:
    """Make `kernel` ready to launch on `target`.

    Raises
    ------
    offarray.codegen.schedule.UnsupportedKernel
        If the kernel must be cut into several launches; `supported` says so beforehand.
    """
    found = _known.get((kernel, target))
    if found is not None:
        return found
    with _lock:
        found = _known.get((kernel, target))
        if found is None:
            if settings.check:
                check(kernel)
            found = _known[kernel, target] = _MAKERS[target.kind](kernel, target)
    return found


def _null(kernel: Kernel, target: Target) -> Compiled:
    return Compiled(
        target, key_of(kernel, target), lambda args, low, high: None, None, lambda extents: 1, lambda extents: 0,
        0.0, text(kernel),
    )  # fmt: skip


def _interpret(kernel: Kernel, target: Target) -> Compiled:
    from . import interpret  # it is large, and few programs use it

    found: Compiled = interpret.compiled(kernel, target)
    return found


def _host(kernel: Kernel, target: Target) -> Compiled:
    start = time.perf_counter()
    key = key_of(kernel, target)
    again = bool(kernel.faults) and can_rerun(kernel)
    written = with_checks(kernel) if kernel.faults and not again else kernel
    plan = schedule(written)
    body, finish = _functions(written, plan, target, key, exact=not again, writes=True)
    state = 8 + sum(size_of(kind_of(written, n)) for n in plan.partial) if plan.finish is not None else 0
    units, scratch = partial(_units, plan), partial(_scratch, plan, state)
    if again:
        body, finish = _Report(kernel, plan, target, key).watch(body, finish)
    elapsed = 1e3 * (time.perf_counter() - start)
    return Compiled(target, key, body, finish, units, scratch, elapsed, text(kernel))  # type: ignore[arg-type]


def _functions(kernel: Kernel, plan: Plan, target: Target, key: str, exact: bool, writes: bool) -> host.Functions:
    """Machine code of a kernel, from disk if it is there."""
    name = "k" + key[:24] + ("" if writes else "r")
    stored = disk.load(key if writes else key + "report")
    if stored is not None:
        head, code = stored.split(b"\n", 1)
        try:
            return host.link(code, json.loads(head), name, plan.finish is not None)
        except LookupError:
            pass  # another C library than the one the code was made for
    module = emit(kernel, plan, target, name, exact, writes)
    code = host.build(module.text, target, verify=bool(settings.check))
    disk.store(key if writes else key + "report", json.dumps(sorted(module.externs)).encode() + b"\n" + code)
    trace.count("compiles")
    return host.link(code, module.externs, name, plan.finish is not None)


class _Report:
    """The second run of a kernel that found something suspicious: it stores nothing and reports exactly."""

    def __init__(self, kernel: Kernel, plan: Plan, target: Target, key: str) -> None:
        self.kernel, self.main, self.target, self.key = with_checks(kernel), plan, target, key
        self.plan: Plan | None = None
        self.functions: host.Functions | None = None

    def watch(self, body: Callable[[int, int, int], int], finish: Callable[[int], int] | None) -> host.Functions:
        """The functions of the kernel, followed by the second run where it is needed."""

        def watched(args: int, low: int, high: int) -> int:
            return self.run(args, low, high) if body(args, low, high) else 0

        def watched_finish(args: int) -> int:
            assert finish is not None
            return self.run(args) if finish(args) else 0

        # With states to combine, units leave their suspicions for `finish`.
        return (watched, None) if finish is None else (body, watched_finish)

    def run(self, args: int, low: int = 0, high: int = 0) -> int:
        """Report the faults of units `low` to `high`, or of the launch."""
        with _lock:
            if self.functions is None:
                self.plan = schedule(self.kernel, park=False)
                self.functions = _functions(self.kernel, self.plan, self.target, self.key, exact=True, writes=False)
        plan, (body, finish) = self.plan, self.functions
        assert plan is not None
        if plan.split == self.main.split and finish is None and high:
            return body(args, low, high)
        where = layout(self.kernel)
        row = (ctypes.c_uint64 * where.words).from_buffer_copy(ctypes.string_at(args, 8 * where.words))
        extents = tuple(row[where.extents : where.extents + self.kernel.rank])
        state = 8 + sum(size_of(kind_of(self.kernel, n)) for n in plan.partial)
        scratch = ctypes.create_string_buffer(_scratch(plan, state, extents))
        row[where.scratch] = ctypes.addressof(scratch)
        body(ctypes.addressof(row), 0, _units(plan, extents))
        return finish(ctypes.addressof(row)) if finish is not None else 0


def _units(plan: Plan, extents: tuple[int, ...]) -> int:
    return unit_count(extents, plan.split, plan.vector)


def _scratch(plan: Plan, state: int, extents: tuple[int, ...]) -> int:
    return state * unit_count(extents, plan.split, plan.vector) if state else 0


_MAKERS = {"host": _host, "interpret": _interpret, "null": _null}


def module_text(kernel: Kernel, target: Target) -> str:
    """The LLVM IR of a kernel, to be read."""
    return emit(kernel, schedule(kernel), target, "kernel").text


__all__ = ["compile", "host_target", "key_of", "module_text", "supported"]
