"""The front door of codegen: a kernel and a target in, a `Compiled` out.

Compiled kernels are kept in memory, and on disk by a key of everything that they depend on.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import threading
import time
from functools import cache, partial

import llvmlite
import numpy

from ..runtime import cache as disk
from ..runtime import trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import host
from .check import check
from .emit import emit
from .folds import size_of
from .host import host_target
from .kernel import Kernel, text
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
    name = "k" + key[:24]
    plan = schedule(kernel)
    functions = None
    stored = disk.load(key)
    if stored is not None:
        functions = _load(stored, name, plan)
    if functions is None:
        module = emit(kernel, plan, target, name)
        code = host.build(module.text, target, verify=settings.check)
        functions = host.link(code, module.externs, name, plan.finish is not None)
        disk.store(key, json.dumps(sorted(module.externs)).encode() + b"\n" + code)
        trace.count("compiles")
    units = partial(_units, plan)
    state = sum(size_of_fold(kernel, n) for n in plan.partial)
    elapsed = 1e3 * (time.perf_counter() - start)
    return Compiled(target, key, *functions, units, partial(_scratch, plan, state), elapsed, text(kernel))


def _load(stored: bytes, name: str, plan: Plan):  # type: ignore[no-untyped-def]
    """The functions of a kernel from disk, or None if this process lacks what they call."""
    head, code = stored.split(b"\n", 1)
    try:
        return host.link(code, json.loads(head), name, plan.finish is not None)
    except LookupError:
        return None


def size_of_fold(kernel: Kernel, n: int) -> int:
    """Bytes of scratch memory that a unit needs for the state of fold `n`."""
    from .folds import kind_of

    return size_of(kind_of(kernel, n))


def _units(plan: Plan, extents: tuple[int, ...]) -> int:
    return unit_count(extents, plan.split, plan.vector)


def _scratch(plan: Plan, state: int, extents: tuple[int, ...]) -> int:
    return state * unit_count(extents, plan.split, plan.vector) if state else 0


_MAKERS = {"host": _host, "interpret": _interpret, "null": _null}


def module_text(kernel: Kernel, target: Target) -> str:
    """The LLVM IR of a kernel, to be read."""
    return emit(kernel, schedule(kernel), target, "kernel").text


__all__ = ["compile", "host_target", "key_of", "module_text", "supported"]
