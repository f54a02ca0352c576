"""What threads do for kernels while the program is busy with something else.

The first result's memory is made ready beside the import (runtime/pool.py).  LLVM's library takes as long to load as a
kernel takes to compile, and its first use as long again.  A thread does that almost wholly outside Python's lock: at
the import, where nothing was ever compiled on this machine, and otherwise when a kernel turns out not to be on disk,
beside the import of the code generator.  Whoever needs LLVM before it is ready waits for the rest.

New kernels begin with code that is made quickly; a thread makes the better code, which then also goes to disk, when
nothing has been built for a while.  A fork and the end of the process wait for all of this: neither may find LLVM half
loaded, or a kernel that the next process would have to make again.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..runtime import cache, pool, threads, trace
from . import host, llvm, mathlib, ready

_under_way: list[_thread.LockType] = []  # held while their threads run
_leaving = False
_loading = False  # whether a thread was asked to load LLVM


def background(steps: Sequence[Callable[[], object]]) -> None:
    """Do `steps` one after the other on another core; nobody needs what they make, only what they load."""
    if not spare():
        return
    done = _thread.allocate_lock()
    done.acquire()
    _under_way.append(done)

    def work() -> None:
        try:
            for step in steps:
                if _leaving:
                    break
                step()
        except Exception as error:  # whoever needs it meets the same, and tells
            trace.log(1, f"not prepared: {error}")
        finally:
            _under_way.remove(done)
            done.release()

    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:  # no threads here, or no more of them
        _under_way.remove(done)


def wait() -> None:
    """Until everything under way is done."""
    for done in list(_under_way):
        with done:
            pass


def spare() -> bool:
    """Whether there is another core for what can be done later."""
    return threads.cores() > 1


PAUSE = 0.03  # seconds without a new kernel after which better code is made

_postponed: list[Callable[[], object]] = []
_turn = _thread.allocate_lock()  # whose it is does one of them
_waiting = False  # whether a thread will do them
_last = 0.0
_final: Any = None


def later(step: Callable[[], object]) -> None:
    """Do `step` in a thread when no other comes for a while."""
    global _waiting, _last, _final
    if _leaving:  # no thread may find LLVM's library taken down
        return
    _postponed.append(step)
    _last = time.monotonic()
    processes = sys.modules.get("multiprocessing.util")
    if processes is not None and not (_final and _final.still_active()):
        _final = processes.Finalize(None, finish, exitpriority=0)  # its processes end without what `atexit` does
    if not _waiting:
        _waiting = True
        try:
            _thread.start_new_thread(_later, ())
        except RuntimeError:
            _waiting = False
            finish()


def _later() -> None:
    global _waiting
    while _postponed:
        rest = _last + PAUSE - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        else:
            _one()
    _waiting = False
    if _postponed and not _waiting:  # came in the meantime
        finish()


def _one() -> None:
    with _turn:
        step = _postponed.pop(0) if _postponed else None
        try:
            if step is not None:
                step()
        except Exception as error:  # the code that there is serves
            trace.log(1, f"no better code: {error}")


def finish() -> None:
    """Do what was put off, and wait for what is under way."""
    wait()
    while _postponed:
        _one()
    with _turn:
        pass


def _leave() -> None:
    global _leaving
    _leaving = True
    finish()


def _after_fork() -> None:
    global _waiting, _turn
    _waiting, _turn = False, _thread.allocate_lock()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=finish, after_in_child=_after_fork)


# A loop over vectors and a masked rest, as kernels have them; {n} doubles are two registers.
_SMALL = """
declare i64 @llvm.smin.i64(i64, i64)
declare <{n} x double> @llvm.fabs.v{n}f64(<{n} x double>)
declare <{n} x double> @llvm.masked.load.v{n}f64.p0(ptr, i32, <{n} x i1>, <{n} x double>)
declare void @llvm.masked.store.v{n}f64.p0(<{n} x double>, ptr, i32, <{n} x i1>)
define i32 @small(ptr %row, i64 %count) #0 {{
entry:
  %note = alloca i32, align 4
  store i32 0, ptr %note
  %source = load ptr, ptr %row
  %at1 = getelementptr i64, ptr %row, i64 1
  %number = load double, ptr %at1
  %one = insertelement <{n} x double> poison, double %number, i64 0
  %all = shufflevector <{n} x double> %one, <{n} x double> poison, <{n} x i32> zeroinitializer
  %last = sub i64 %count, {n}
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %fine ]
  %place = getelementptr double, ptr %source, i64 %k
  %x = load <{n} x double>, ptr %place, align 1
  %y = fmul <{n} x double> %x, %all
  %z = fadd <{n} x double> %y, %x
  %size = call <{n} x double> @llvm.fabs.v{n}f64(<{n} x double> %z)
  %odd = fcmp uge <{n} x double> %size, splat (double 0x7FF0000000000000)
  %bits = bitcast <{n} x i1> %odd to i{n}
  %some = icmp ne i{n} %bits, 0
  br i1 %some, label %rare, label %fine
rare:
  store i32 1, ptr %note
  br label %fine
fine:
  store <{n} x double> %z, ptr %place, align 1
  %next = add i64 %k, {n}
  %more = icmp sle i64 %next, %last
  br i1 %more, label %loop, label %rest
rest:
  %left = sub i64 %count, %next
  %few = call i64 @llvm.smin.i64(i64 %left, i64 {n})
  %short = trunc i64 %few to i16
  %first = insertelement <{n} x i16> poison, i16 %short, i64 0
  %limits = shufflevector <{n} x i16> %first, <{n} x i16> poison, <{n} x i32> zeroinitializer
  %mask = icmp ult <{n} x i16> <{steps}>, %limits
  %end = getelementptr double, ptr %source, i64 %next
  %u = call <{n} x double> @llvm.masked.load.v{n}f64.p0(ptr %end, i32 1, <{n} x i1> %mask, <{n} x double> %all)
  %v = fsub <{n} x double> %u, %all
  call void @llvm.masked.store.v{n}f64.p0(<{n} x double> %v, ptr %end, i32 1, <{n} x i1> %mask)
  %answer = load i32, ptr %note
  ret i32 %answer
}}
attributes #0 = {{ nounwind alignstack=32 "min-legal-vector-width"="256" "prefer-vector-width"="256" }}
"""


def _module() -> None:
    """Compile something small: most of what the first kernel would wait for is LLVM's code coming from the file."""
    arch, features, _ = llvm.host()
    n = host.host_target().vector // 4
    steps = ", ".join(f"i16 {k}" for k in range(n))
    host.machine(arch, features).emit(llvm.Module(_SMALL.format(n=n, steps=steps)))


def _emitter() -> None:
    from . import build

    assert build


def imported() -> None:
    """The package is imported: the first result needs memory, and LLVM will be needed if it lately was, or never."""
    if host.known():
        host.host_target()
        if ready.here():
            host.methods()
        if not cache.lately():
            background((pool.stock, mathlib.load))
            return
    _load(pool.stock, mathlib.load, llvm.load, _module, *(() if host.known() else (_emitter,)))


def missed() -> None:
    """A kernel is not on disk: LLVM is needed as soon as its text is written."""
    if not llvm.loaded() and not _loading:
        _load(llvm.load, llvm.host)


def _load(*steps: Callable[[], object]) -> None:
    global _loading
    _loading = True
    llvm.path()  # while nobody else wants Python's lock
    background(steps)
