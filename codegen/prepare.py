"""Loading LLVM while the program is busy with something else.

The first result's memory is made ready by a thread (runtime/pool.py), and so is LLVM, where that is needed.

LLVM's library takes as long to load as a kernel takes to compile, and its first use as long again.  Threads do that
almost wholly outside Python's lock: at the import, where nothing was ever compiled on this machine, and otherwise when
a kernel turns out not to be on disk, beside the import of the code generator.  Whoever needs LLVM before it is ready
waits for the rest.  A fork and the end of the process wait too: neither may find LLVM half loaded.
"""

from __future__ import annotations

import _thread
import atexit
import os
from collections.abc import Callable, Sequence

from ..runtime import pool, threads, trace
from . import host, llvm, ready

_under_way: list[_thread.LockType] = []  # held while their threads run
_leaving = False
_loading = False  # whether a thread was asked to load LLVM


def background(steps: Sequence[Callable[[], object]]) -> None:
    """Do `steps` one after the other on another core; nobody needs what they make, only what they load."""
    if threads.cores() < 2:
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


def _leave() -> None:
    global _leaving
    _leaving = True
    wait()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait)


def _module() -> None:
    """Compile something small: most of what the first kernel would wait for is LLVM's code coming from the file."""
    from . import builtin

    arch, features, _ = llvm.host()
    host.machine(arch, features).emit(llvm.Module(builtin.text()))


def _emitter() -> None:
    from . import build

    assert build


def imported() -> None:
    """The package is imported: the first result needs memory, and LLVM will be needed if it never was."""
    if not host.known():
        _load(pool.stock, llvm.load, _module, _emitter)
        return
    background((pool.stock,))
    host.host_target()
    if ready.here():
        host.methods()


def missed() -> None:
    """A kernel is not on disk: LLVM is needed as soon as its text is written."""
    if not llvm.loaded() and not _loading:
        _load(llvm.load, llvm.host)


def _load(*steps: Callable[[], object]) -> None:
    global _loading
    _loading = True
    llvm.path()  # while nobody else wants Python's lock
    background(steps)
