"""Worker threads that share the units of one launch.

Ranges are static; a kernel gives the same bits however its units are split.  Machine code is handed over on a board of
words (codegen/crew.py): each worker has a slot, in which it looks for a while for the next part, and then sleeps on a
lock of its own.  Anything else is called in the interpreter.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any

from .config import settings

Body = Callable[[int, int, int], Any]
Crew = tuple[Callable[[int, int, int], int], Callable[[int], int]]

# States of a worker, and the words of its slot.  Slot 0 is the caller's own.
ASLEEP, AWAKE, POSTED, RUNNING = range(4)
CODE, ROW, FIRST, LAST, ANSWER, DONE, PATIENCE, STEP = 1, 2, 3, 4, 5, 6, 7, 16
WORDS = (
    "ASLEEP", "AWAKE", "POSTED", "RUNNING", "CODE", "ROW", "FIRST", "LAST", "ANSWER", "DONE", "PATIENCE", "STEP",
)  # fmt: skip
LONG = 10_000  # pauses of some 25 nanoseconds that somebody looks for work, or for its end, before he sleeps
BRIEF = 400  # where the last launch is long past, and the next one may be
NEAR = 400e-6  # seconds
SLOTS = 1025  # as many as the setting `threads` allows, and the first

_busy = _thread.allocate_lock()  # one launch at a time has the workers; another thread's launch runs by itself
_workers: list[_Worker] = []
_board: array[int] | None = None
_first = 0  # the word of the board that is the first slot's; slots lie on cache lines of their own
_last_end = 0.0
crew: Callable[[], Crew | None] | None = None  # what makes the code; codegen puts it here
_crew: Crew | None = None
_asked = False


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_count = cores()


def _after_fork() -> None:
    global _busy, _workers, _count, _board
    _busy = _thread.allocate_lock()
    _workers = []  # their threads did not come along
    _board = None
    _count = cores()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Worker:
    __slots__ = ("go", "done", "job", "error", "slot")

    def __init__(self, slot: int) -> None:
        self.go = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.go.acquire()
        self.done.acquire()
        self.job: tuple[Body, int, int, int] | None = None
        self.error: BaseException | None = None
        self.slot = slot  # address
        _thread.start_new_thread(self._loop, ())  # without waiting until it runs

    def wake(self) -> None:
        """Let the worker look for what there is to do."""
        if self.go.locked():  # else it is on its way; only who holds `_busy` comes here
            self.go.release()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            if self.job is None:
                if _crew is not None:
                    _crew[1](self.slot)
                continue
            try:
                body, row, first, last = self.job
                body(row, first, last)
            except BaseException as error:
                self.error = error
            self.job = None
            self.done.release()


def started() -> int:
    """How many workers there are."""
    return len(_workers)


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
    if len(ranges) < 2 or not _busy.acquire(False):
        for row, (first, last) in zip(rows, ranges, strict=True):
            body(row, first, last)
        return
    try:
        more = getattr(body, "__dict__", {})
        code = _code(more.get("machine", body))
        if code and _prepared():
            _share(code, more.get("report"), rows, ranges)
        else:
            _call(body, rows, ranges)
    finally:
        _busy.release()


def _keep(board: array[int]) -> None:
    """Have a board outlast the interpreter: workers may look at it while that ends."""
    if sys.implementation.name == "cpython":
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(board))


def _hire(number: int) -> array[int]:
    """Have so many workers; gives the board."""
    global _board, _first
    if _board is None:
        made = array("q", bytes(8 * (SLOTS + 1) * STEP))
        _first = -(made.buffer_info()[0] // 8) % STEP
        _keep(made)
        _board = made
    while len(_workers) < number:
        _workers.append(_Worker(_board.buffer_info()[0] + 8 * (_first + STEP * (len(_workers) + 1))))
    return _board


# ---------------------------------------------------------------------- machine code
def _code(body: Body) -> int:
    """Address of the machine code behind a callable; 0 if it is none."""
    if type(body) is BuiltinFunctionType:
        code = body.__self__
        if type(code) is int:  # one of codegen/builtin.py, whose object is the address
            return code
    return 0


def _prepared() -> bool:
    """Whether machine code can be handed over without the interpreter."""
    global _crew, _asked
    if not _asked and crew is not None:
        _crew, _asked = crew(), True
    return _crew is not None


def seats(number: int) -> int:
    """Address of the board's first slot, with so many workers at the others; 0 where there is no board."""
    if not _prepared():
        return 0
    return _hire(number).buffer_info()[0] + 8 * _first


def _share(code: int, report: Body | None, rows: Sequence[int], ranges: Sequence[tuple[int, int]]) -> None:
    """Run machine code on each range; where it answers that something is suspicious, `report` goes over it."""
    global _last_end
    assert _crew is not None
    board, share = _hire(len(ranges) - 1), _crew[0]
    patience = LONG if time.perf_counter() - _last_end < NEAR else BRIEF
    slot = _first
    for row, (first, last) in zip(rows, ranges, strict=True):
        board[slot + CODE : slot + PATIENCE + 1] = array("q", (code, row, first, last, 0, 0, patience))
        slot += STEP
    slot, error, answer = _first, None, None
    try:
        for worker in _workers[: len(ranges) - 1]:
            slot += STEP
            if board[slot] == ASLEEP:
                board[slot] = POSTED
                worker.wake()
    except BaseException as problem:  # an interrupt: what is handed over must end first
        error = problem
    address = board.buffer_info()[0] + 8 * _first
    while answer is None:
        try:
            answer = share(address, len(ranges), 0)
        except BaseException as problem:  # an interrupt; done parts are not done again
            error = error or problem
    _last_end = time.perf_counter()
    if error is not None:
        raise error
    if answer and report is not None:
        for k, (row, (first, last)) in enumerate(zip(rows, ranges, strict=True)):
            if board[_first + STEP * k + ANSWER]:
                report(row, first, last)


# ---------------------------------------------------------------------- the interpreter
def _call(body: Body, rows: Sequence[int], ranges: Sequence[tuple[int, int]]) -> None:
    """Call a Python function for each range."""
    started: list[_Worker] = []
    error: BaseException | None = None
    try:
        _hire(len(ranges) - 1)
        for worker, row, (first, last) in zip(_workers, rows[1:], ranges[1:], strict=False):
            worker.job = (body, row, first, last)
            started.append(worker)
            worker.wake()
        body(rows[0], *ranges[0])
    except BaseException as problem:
        error = problem
    error = _join(started, error)
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
