"""Worker threads that share the units of one launch.

Each worker sleeps on a lock of its own: handing work over is one release, and its end one acquire.  A kernel's body
releases Python's lock, so the parts run at the same time.  Ranges are static; a kernel gives the same bits however
its units are split.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Sequence

from .config import settings

Body = Callable[[int, int, int], None]

_busy = _thread.allocate_lock()  # one launch at a time has the workers; another thread's launch runs by itself
_workers: list[_Worker] = []


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_count = cores()


def _after_fork() -> None:
    global _busy, _workers, _count
    _busy = _thread.allocate_lock()
    _workers = []  # their threads did not come along
    _count = cores()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Worker:
    __slots__ = ("go", "done", "job", "error")

    def __init__(self) -> None:
        self.go = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.go.acquire()
        self.done.acquire()
        self.job: tuple[Body, int, int, int] | None = None
        self.error: BaseException | None = None
        threading.Thread(target=self._loop, name="offarray", daemon=True).start()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            try:
                assert self.job is not None
                body, row, first, last = self.job
                body(row, first, last)
            except BaseException as error:
                self.error = error
            self.job = None
            self.done.release()


def count() -> int:
    """How many threads may share a launch."""
    return settings.threads or _count


def parts(units: int, most: int) -> list[tuple[int, int]]:
    """At most `most` contiguous ranges, of nearly equal length and none empty, that cover `units`."""
    most = max(1, min(most, units))
    return [(units * k // most, units * (k + 1) // most) for k in range(most)]


def run(body: Body, rows: Sequence[int], ranges: Sequence[tuple[int, int]]) -> None:
    """Call `body(row, first, last)` for each row and its range, at the same time where that is possible.

    Returns, or raises the first error, only when no part is running any more.
    """
    started: list[_Worker] = []
    error: BaseException | None = None
    owned = len(ranges) > 1 and _busy.acquire(False)
    try:
        if owned:
            while len(_workers) < len(ranges) - 1:
                _workers.append(_Worker())
            for worker, row, (first, last) in zip(_workers, rows[1:], ranges[1:], strict=False):
                worker.job = (body, row, first, last)
                worker.go.release()
                started.append(worker)
            body(rows[0], *ranges[0])
        else:
            for row, (first, last) in zip(rows, ranges, strict=True):
                body(row, first, last)
    except BaseException as problem:
        error = problem
    error = _join(started, error)
    if owned:
        _busy.release()
    if error is not None:
        raise error


def _join(started: list[_Worker], error: BaseException | None) -> BaseException | None:
    """Wait for the workers, whatever signal arrives: the memory they work on is freed right after."""
    while started:
        worker = started[-1]
        try:
            worker.done.acquire()
        except BaseException as problem:  # an interrupt, kept until all are done
            error = error or problem
            continue
        started.pop()
        error = error or worker.error
        worker.error = None
    return error
