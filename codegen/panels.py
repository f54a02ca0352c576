"""Loops over other axes inside vectors of columns, interchanged so that memory is read row by row.

A sum over the rows of a matrix would read one narrow strip of it after the other.  Here a panel of columns goes through
blocks of rows, and the states of every column wait on the stack; bits are the same as in the plain order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .folds import BLOCK, Counter, Slots, join
from .frame import Frame, State, counted, lesser
from .schedule import Loop

if TYPE_CHECKING:
    from .carrier import Carrier, Shape
    from .emit import Emitter
    from .text import Code

PANEL = 512  # columns
FOLDS = 6  # more would need too much of the stack

Values = tuple[int, ...]


def suits(loop: Loop) -> bool:
    """Whether the loops inside a loop over columns can be interchanged with it."""
    inner = [step for step in loop.body.steps if isinstance(step, Loop)]
    folds = [n for step in inner for n in step.folds]
    return bool(inner) and not any(step.scans for step in inner) and len(folds) <= FOLDS and not loop.body.takes


class Panels:
    """The interchanged loops inside one loop over the vector axis."""

    def __init__(self, carrier: Carrier, shape: Shape) -> None:
        self.carrier, self.shape = carrier, shape
        self.emitter: Emitter = carrier.loops.emitter
        self.code: Code = self.emitter.code
        self.loop = carrier.loop
        self.plain: dict[int, Slots] = {}
        self.ordered: dict[Loop, Counter] = {}
        self.bases = [carrier.prepare(lanes) for lanes in (shape.main, shape.tail)]
        for step in self.loop.body.steps:
            if not isinstance(step, Loop):
                continue
            kinds = {n: self.emitter.kinds[n] for n in step.folds}
            ordered = [(kind, PANEL) for kind in kinds.values() if kind.ordered]
            if ordered:
                self.ordered[step] = Counter(self.code, ordered)
            self.plain |= {n: Slots(self.code, kind, PANEL, 1) for n, kind in kinds.items() if not kind.ordered}

    def emit(self, start: str, stop: str) -> None:
        """The loop over panels."""

        def panel(first: str, _: State) -> State:
            end = lesser(self.code, self.code.op(f"add i64 {first}, {PANEL}"), stop)
            for k, step in enumerate(self.loop.body.steps):
                if isinstance(step, Loop):
                    self._rows(first, end, step, k)
            last = max(k for k, step in enumerate(self.loop.body.steps) if isinstance(step, Loop))
            if self.loop.body.stores or self.loop.body.keeps or last + 1 < len(self.loop.body.steps):
                self._columns(first, end, lambda frame, lane: self._finish(frame, lane), wide=False)
            return []

        counted(self.code, start, stop, PANEL, [], [], panel)

    def _columns(self, start: str, stop: str, body: Callable[[Frame, str], None], wide: bool = True) -> None:
        """All vectors of a panel."""
        code, shape, axis = self.code, self.shape, self.loop.axis

        def step(base: Frame) -> Callable[[str, State], State]:
            def vector(index: str, _: State) -> State:
                frame = base.enter(axis, index)
                frame.mask = self.carrier.mask(index, stop, base.lanes)
                body(frame, code.op(f"sub i64 {index}, {start}"))
                return []

            return vector

        if not wide:
            counted(code, start, stop, shape.tail, [], [], step(self.bases[1]))
            return
        # Wide vectors, unless only a narrow one is left; both masked, for a third body would be built in vain.
        rest = code.op(f"and i64 {code.op(f'sub i64 {stop}, {start}')}, {shape.main - 1}")
        narrow = code.op(f"icmp sle i64 {rest}, {shape.tail}")
        middle = code.op(f"sub i64 {stop}, {code.op(f'select i1 {narrow}, i64 {rest}, i64 0')}")
        counted(code, start, middle, shape.main, [], [], step(self.bases[0]))
        counted(code, middle, stop, shape.tail, [], [], step(self.bases[1]))

    def _before(self, frame: Frame, lane: str, count: int) -> list[int]:
        """What comes before step `count`: values computed anew, folds taken from the stack."""
        done: list[int] = []
        for step in self.loop.body.steps[:count]:
            if isinstance(step, Loop):
                self._fetch(frame, lane, step)
            else:
                self.emitter.values(self.loop.body, frame, step)
                done += step
        return done

    def _rows(self, start: str, stop: str, step: Loop, number: int) -> None:
        """One loop over rows, in blocks, each for all columns of the panel."""
        code, emitter = self.code, self.emitter
        low, high = emitter.bounds(step.axis)

        def block(row: str, _: State) -> State:
            end = lesser(code, code.op(f"add i64 {row}, {BLOCK}"), high)
            self._columns(start, stop, lambda frame, lane: strip(frame, lane, row, end))
            return []

        def strip(frame: Frame, lane: str, row: str, end: str) -> None:
            self._before(frame, lane, number)
            for access in emitter.loops.accesses(step):
                emitter.memory.pointer(frame, access)
            states = {n: emitter.kinds[n].identity(frame.lanes) for n in step.folds}
            carrier = type(self.carrier)(emitter.loops, step, frame, dict.fromkeys(step.folds, frame.lanes))
            emitter.memory.ahead = (step.axis, BLOCK)
            states = carrier.scalar(row, end, states)
            emitter.memory.ahead = None
            done = code.op(f"lshr i64 {code.op(f'sub i64 {row}, {low}')}, {BLOCK.bit_length() - 1}")
            if step in self.ordered:
                flat = [r for n in step.folds if emitter.kinds[n].ordered for r in states[n]]
                self.ordered[step].push(done, flat, frame.lanes, lane)
            for n in step.folds:
                if n in self.plain:
                    self._join(n, frame.lanes, lane, done, states[n])

        counted(code, low, high, BLOCK, [], [], block)

    def _join(self, n: int, lanes: int, lane: str, done: str, state: State) -> None:
        code, kind, slots = self.code, self.emitter.kinds[n], self.plain[n]
        first = code.op(f"icmp eq i64 {done}, 0")
        old = [
            code.op(f"select i1 {first}, {t} {i}, {t} {r}")
            for t, i, r in zip(kind.types(lanes), kind.identity(lanes), slots.load(lane, lanes), strict=True)
        ]
        slots.store(lane, lanes, join(code, kind, lanes, old, state))

    def _fetch(self, frame: Frame, lane: str, step: Loop) -> None:
        """Folds that ended with `step`, from the stack."""
        code, emitter, lanes = self.code, self.emitter, frame.lanes
        low, high = emitter.bounds(step.axis)
        rows = code.op(f"add i64 {code.op(f'sub i64 {high}, {low}')}, {BLOCK - 1}")
        count = code.op(f"lshr i64 {rows}, {BLOCK.bit_length() - 1}")
        some = lesser(code, count, "1")
        numbers = [n for n in step.folds if n not in self.plain]
        flat: State = []
        if numbers:
            kinds = [emitter.kinds[n] for n in numbers]
            types = [t for kind in kinds for t in kind.types(lanes)]
            empty = [r for kind in kinds for r in kind.identity(lanes)]
            counter = self.ordered[step]
            flat = counted(code, "0", some, 1, types, empty, lambda _, __: counter.total(count, lanes, lane))
        for n in step.folds:
            kind = emitter.kinds[n]
            if n in self.plain:
                is_some = code.op(f"icmp ne i64 {count}, 0")
                state = [
                    code.op(f"select i1 {is_some}, {t} {r}, {t} {i}")
                    for t, i, r in zip(
                        kind.types(lanes), kind.identity(lanes), self.plain[n].load(lane, lanes), strict=True
                    )
                ]
            else:
                state, flat = flat[: len(kind.scalars())], flat[len(kind.scalars()) :]
            emitter.loops.end(frame, n, state, lanes)

    def _finish(self, frame: Frame, lane: str) -> None:
        """What is left for each vector after the last loop over rows."""
        self.emitter.after(self.loop.body, frame, self._before(frame, lane, len(self.loop.body.steps)))
