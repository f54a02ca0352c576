"""Loops of a level: their shape, the states they carry, and the folds that end with them.

in: a `Loop` of the plan and the frame around it; out: emitted code, and the states of folds still under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .access import Access
from .carrier import Carrier, Packing, Shape, States
from .folds import BLOCK, LANES, Counter, Kind, join, size_of
from .follow import picks
from .frame import Frame, State, begin, branch, counted, lesser, name, parts, phi, whole
from .kernel import Fold, Load
from .reporting import SINK
from .schedule import CHEAP, Loop, levels, values_in
from .text import PARTS, SIZES, Reg

if TYPE_CHECKING:
    from .emit import Emitter

Run = Callable[[str, str, States], States]

# Loops of nothing but cheap operations are unrolled by wider vectors.
FEW = 12  # so many operations are a small loop body
INDEXED = 4  # bytes that an element counts for at least where indices are computed
MANY = 400  # beyond this a loop is written once, masked, instead of twice


class Loops:
    """Writes the loops of one function."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter, self.code = emitter, emitter.code
        self.vector = emitter.plan.vector
        self.unit, self.count = "0", "1"  # registers: this unit, and how many there are
        self.bailed: str | None = None  # the block that left a fast body for the slow one
        self._accesses: dict[int, list[Access]] = {}
        self._shapes: dict[int, Shape] = {}
        largest, apart = 1, picks(emitter.kernel)
        for n, (value, dom) in enumerate(zip(emitter.kernel.values, emitter.domains, strict=True)):
            if self.vector >= 0 and dom >> self.vector & 1 and n not in apart:
                largest = max(largest, SIZES[PARTS.get(value.dtype, value.dtype)])
        if apart:  # indices are computed beside the elements, and have eight bytes
            largest = max(largest, INDEXED)
        self.width = max(8, 64 // largest)

    # ------------------------------------------------------------------ shape
    def accesses(self, loop: Loop) -> list[Access]:
        """Loads and stores within a loop."""
        found = self._accesses.get(id(loop))
        if found is None:
            kernel = self.emitter.kernel
            found = [("load", n) for n in values_in(loop) if isinstance(kernel.values[n].arg, Load)]
            for level in levels(loop):
                used = [*level.stores, *(k for _, k in (*level.parks, *level.fetches))]
                if self.emitter.writes:
                    found += [("store", k) for k in used if k >= 0 and kernel.stores[k].operand != SINK]
            self._accesses[id(loop)] = found
        return found

    def shape(self, loop: Loop) -> Shape:
        """How wide a loop over the vector axis is."""
        found = self._shapes.get(id(loop))
        if found is None:
            found = self._shapes[id(loop)] = self._shape(loop)
        return found

    def _shape(self, loop: Loop) -> Shape:
        width = self.width
        fetched = {n for level in levels(loop) for n, _ in level.fetches}
        ops = [self.emitter.kernel.values[n].op for n in values_in(loop) if n not in fetched]
        cheap = len(ops) <= FEW and CHEAP.issuperset(ops)
        nested = any(isinstance(step, Loop) for step in loop.body.steps)
        if loop.scans:
            return Shape(width, width, len(ops) > MANY)
        if loop.folds:
            ordered = any(self.emitter.kinds[n].ordered for n in loop.folds)
            wide = LANES if ordered else min(4 * width, 64)
            lanes = max(wide, width) if cheap and not nested else width
            lanes = min(lanes, LANES) if ordered else lanes
            return Shape(lanes, lanes, len(ops) > MANY)
        if nested and cheap:
            return Shape(8 * width, width, False)
        return Shape(width, width, len(ops) > MANY or not self.emitter.writes)

    def scan_lanes(self, n: int, frame: Frame) -> int:
        """Lanes of the state of scan `n`."""
        fold = self.emitter.kernel.values[n].arg
        assert isinstance(fold, Fold)
        if self.vector in fold.axes:
            return 1
        return frame.lanes if self.emitter.domains[n] >> self.vector & 1 else 1

    # ------------------------------------------------------------------ a loop
    def loop(self, loop: Loop, frame: Frame) -> States:
        """Emit `loop`; folds that end go into the frame, the others' states are given back."""
        emitter = self.emitter
        for access in self.accesses(loop):
            emitter.memory.pointer(frame, access)
        lanes = {n: emitter.fold_lanes(n, frame) for n in loop.folds}
        lanes |= {n: self.scan_lanes(n, frame) for n in loop.scans}
        states = {n: emitter.kinds[n].identity(lanes[n]) for n in loop.folds}
        states |= {n: frame.entry.get(n) or emitter.kinds[n].identity(lanes[n]) for n in loop.scans}
        carrier = Carrier(self, loop, frame, lanes)
        start, stop = emitter.bounds(loop.axis)
        ordered = [n for n in loop.folds if emitter.kinds[n].ordered]
        run = carrier.vector if loop.axis == self.vector else carrier.scalar
        size = BLOCK * LANES if loop.axis == self.vector else BLOCK
        states = self.blocks(carrier, ordered, start, stop, size, states, run) if ordered else run(start, stop, states)
        for n in loop.scans:
            if n in frame.carry:
                frame.carry[n] = states[n]
        for n in loop.ends:
            self.end(frame, n, states[n], lanes[n])
        return {n: states[n] for n in loop.folds if n not in loop.ends}

    def end(self, frame: Frame, n: int, state: State, lanes: int) -> None:
        """Make the value of fold `n` from its last state."""
        emitter, kind = self.emitter, self.emitter.kinds[n]
        if n in emitter.plan.partial:
            self._leave(n, state, self.unit)
        else:
            frame.regs[n] = self.result(n, kind, state, lanes)
            emitter.check_fold(frame, n, lanes)

    def result(self, n: int, kind: Kind, state: State, lanes: int) -> str | tuple[str, str]:
        """The value of a complete fold; a sum of nothing is +0, though sums start at -0."""
        code, fold = self.code, self.emitter.kernel.values[n].arg
        assert isinstance(fold, Fold)
        if kind.position:
            return state[-1]
        if kind.monoid == "add" and kind.dtype[0] in "fc":
            size = "1"
            for axis in fold.axes:
                size = code.op(f"mul i64 {size}, {self.emitter.extent(axis)}")
            empty = code.op(f"icmp eq i64 {size}, 0")
            zero = [f"{t} zeroinitializer" for t in kind.types(lanes)]
            state = [
                code.op(f"select i1 {empty}, {z}, {t} {r}")
                for z, t, r in zip(zero, kind.types(lanes), state, strict=True)
            ]
        return whole(state)

    # ------------------------------------------------------------------ states of units
    def _slot(self, unit: str, n: int | None = None) -> str:
        """Where a unit leaves the state of fold `n`, or its flag."""
        emitter, code, before, total = self.emitter, self.code, 0, 8
        for p in emitter.plan.partial:
            if p == n:
                before = total
            total += size_of(emitter.kinds[p])
        first = emitter.memory.word(emitter.layout.scratch, "ptr")
        offset = code.op(f"add i64 {code.op(f'mul i64 {unit}, {total}')}, {before}")
        return code.op(f"getelementptr i8, ptr {first}, i64 {offset}")

    def leave_flag(self) -> None:
        """Leave word of suspicions for `finish`."""
        if self.emitter.plan.finish is not None and self.emitter.flag:
            flag = self.code.op(f"load i32, ptr {self.emitter.flag}")
            self.code.add(f"store i32 {flag}, ptr {self._slot(self.unit)}, align 8")

    def _leave(self, n: int, state: State, unit: str) -> None:
        code, where = self.code, self._slot(unit, n)
        for k, (t, register) in enumerate(zip(self.emitter.kinds[n].scalars(), state, strict=True)):
            place = code.op(f"getelementptr i64, ptr {where}, i64 {k}")
            if t == "i1":
                t, register = "i8", code.op(f"zext i1 {register} to i8")
            code.add(f"store {t} {register}, ptr {place}, align 8")

    def _fetch(self, n: int, unit: str) -> State:
        code, where, state = self.code, self._slot(unit, n), []
        for k, t in enumerate(self.emitter.kinds[n].scalars()):
            place = code.op(f"getelementptr i64, ptr {where}, i64 {k}")
            register = code.op(f"load {'i8' if t == 'i1' else t}, ptr {place}, align 8")
            state.append(code.op(f"trunc i8 {register} to i1") if t == "i1" else register)
        return state

    def collect(self, frame: Frame, folds: tuple[int, ...], count: str) -> None:
        """Combine the states that `count` units have left: neighbours in place, then pairs of pairs."""
        code, kinds = self.code, self.emitter.kinds
        head, latch, leave = code.label("pairs"), code.label("pairslatch"), code.label("pairsend")
        before, twice = code.block, code.temp()
        code.add(f"br label %{head}")
        code.start(head)
        step = phi(code, "i64", ("1", before), (twice, latch))
        code.add(f"{twice} = shl i64 {step}, 1")

        def join_pair(index: str, _: State) -> State:
            other = code.op(f"add i64 {index}, {step}")
            for n in folds:
                self._leave(n, join(code, kinds[n], 1, self._fetch(n, index), self._fetch(n, other)), index)
            return []

        counted(code, "0", code.op(f"sub i64 {count}, {step}"), twice, [], [], join_pair)
        begin(code, latch)
        branch(code, code.op(f"icmp slt i64 {twice}, {count}"), head, leave)
        code.start(leave)
        packing = Packing({n: kinds[n] for n in folds}, dict.fromkeys(folds, 1))
        empty = packing.flat({n: kinds[n].identity(1) for n in folds})

        def first(index: str, _: State) -> State:
            return packing.flat({n: self._fetch(n, index) for n in folds})

        some = lesser(code, count, "1")
        states = packing.cut(counted(code, "0", some, 1, packing.types(), empty, first))
        for n in folds:
            frame.regs[n] = self.result(n, kinds[n], states[n], 1)
            self.emitter.check_fold(frame, n, 1)

    def collect_flags(self, count: str) -> None:
        """Take over the suspicions that the units have left."""
        code, flag = self.code, self.emitter.flag
        if flag is None:
            return

        def unit(index: str, _: State) -> State:
            old, new = code.op(f"load i32, ptr {flag}"), code.op(f"load i32, ptr {self._slot(index)}, align 8")
            code.add(f"store i32 {code.op(f'or i32 {old}, {new}')}, ptr {flag}")
            return []

        counted(code, "0", count, 1, [], [], unit)

    def _row(self, frame: Frame, n: int, unit: str) -> str:
        """Where a unit leaves fold `n` of the present columns, behind all units' flags."""
        emitter, code, before, total = self.emitter, self.code, 0, 0
        for p in emitter.plan.rows:
            before = total if p == n else before
            total += SIZES[emitter.kernel.values[p].dtype]
        size, columns = SIZES[emitter.kernel.values[n].dtype], emitter.extent(self.vector)
        row = code.op(f"add i64 {code.op(f'mul i64 {unit}, {total}')}, {before}")
        offset = code.op(f"add i64 {code.op(f'mul i64 {row}, {columns}')}, {code.op(f'shl i64 {self.count}, 3')}")
        offset = code.op(f"add i64 {offset}, {code.op(f'mul i64 {frame.index[self.vector]}, {size}')}")
        return code.op(f"getelementptr i8, ptr {emitter.memory.word(emitter.layout.scratch, 'ptr')}, i64 {offset}")

    def leave_row(self, frame: Frame, n: int) -> None:
        """Leave fold `n` of the present columns for `finish`."""
        self.code.lanes = frame.lanes
        self.emitter.memory.write(
            frame, self.emitter.kernel.values[n].dtype, self._row(frame, n, self.unit), frame.regs[n]
        )  # fmt: skip

    def take_rows(self, frame: Frame, n: int) -> Reg:
        """Fold `n` of the present columns, from what all units left."""
        code, kind, lanes = self.code, self.emitter.kinds[n], frame.lanes

        def unit(index: str, state: State) -> State:
            code.lanes = lanes
            left = self.emitter.memory.read(frame, kind.dtype, self._row(frame, n, index))
            return join(code, kind, lanes, state, parts(left))

        state = counted(code, "0", self.count, 1, kind.types(lanes), kind.identity(lanes), unit)
        frame.regs[n] = self.result(n, kind, state, lanes)
        self.emitter.check_fold(frame, n, lanes)
        return frame.regs[n]

    # ------------------------------------------------------------------ ordered folds
    def blocks(
        self, packing: Packing, ordered: list[int], start: str, stop: str, size: int, states: States, run: Run
    ) -> States:
        """Run a loop in blocks of `size`; the ordered folds' states of the blocks are combined pairwise."""
        code = self.code
        others = packing.part([n for n in states if n not in ordered])
        mine = packing.part(ordered)
        counter = Counter(code, [(mine.kinds[n], mine.lanes[n]) for n in ordered])
        lanes = mine.lanes[ordered[0]]  # all the same: vectors are open around the loop, or none is
        head, push, collapse, done = (code.label(hint) for hint in ("block", "blockpush", "blocktotal", "blockdone"))
        pushed = push + "x"
        before = code.block
        code.add(f"br label %{head}")
        code.start(head)
        next_index, next_count = code.temp(), code.temp()
        fresh = [code.temp() for _ in others.types()]
        index = phi(code, "i64", (start, before), (next_index, pushed))
        count = phi(code, "i64", ("0", before), (next_count, pushed))
        carried = [
            phi(code, t, (s, before), (f, pushed))
            for t, s, f in zip(others.types(), others.flat(states), fresh, strict=True)
        ]
        end = lesser(code, code.op(f"add i64 {index}, {size}"), stop)
        now = run(index, end, {n: states[n] for n in ordered} | others.cut(carried))
        code.add(f"{next_index} = add i64 {index}, {size}")
        more = code.op(f"icmp slt i64 {next_index}, {stop}")
        busy = code.op(f"or i1 {more}, {code.op(f'icmp ne i64 {count}, 0')}")
        last = code.block
        branch(code, busy, push, done)
        code.start(push)
        counter.push(count, mine.flat(now), lanes)
        begin(code, pushed)
        code.add(f"{next_count} = add i64 {count}, 1")
        for f, t, r in zip(fresh, others.types(), others.flat(now), strict=True):
            name(code, f, t, r)
        branch(code, more, head, collapse)
        code.start(collapse)
        total = counter.total(next_count, lanes)
        end_block = code.block
        code.add(f"br label %{done}")
        code.start(done)
        result = [
            phi(code, t, (r, last), (s, end_block)) for t, r, s in zip(mine.types(), mine.flat(now), total, strict=True)
        ]
        return mine.cut(result) | {n: now[n] for n in others.kinds}
