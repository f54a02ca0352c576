"""Loops of a device kernel: run by one thread, or divided among the threads of a group.

in: a `Loop` of the plan and the frame around it; out: emitted code, and the states of folds still under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .carrier import Packing, States
from .folds import Kind, across, better, choose, join, lift
from .frame import Frame, State, counted, parts, repeat, whole
from .gpu_attempt import attempted
from .gpu_scans import OnePass
from .kernel import Fold
from .loops import Loops
from .schedule import Level, Loop
from .text import PARTS, Code, Reg, vtype

if TYPE_CHECKING:
    from .gpu_emit import DeviceEmitter


def nest(loop: Loop) -> tuple[tuple[int, ...], list[Level], Level]:
    """The axes of perfectly nested loops, the levels between them, and the innermost body."""
    axes, between, body = [loop.axis], [], loop.body
    while not loop.scans:
        inner = [step for step in body.steps if isinstance(step, Loop)]
        plain = not body.takes and not body.stores and not body.parks
        if len(inner) != 1 or not plain or inner[0].ends or inner[0].scans:
            break
        if body.steps[-1] is not inner[0] or set(inner[0].folds) != set(loop.folds):
            break
        between.append(body)
        axes.append(inner[0].axis)
        body = inner[0].body
    return tuple(axes), between, body


Waiting = tuple[Frame, int, Reg, str | None]  # a store: its frame, number, value, and guard


def repeated(code: Code, lanes: int, register: str) -> str:
    """An i64 for each lane."""
    return register if lanes == 1 else repeat(code, "i64", lanes, register)


class Steps(Kind):
    """A fold for a position, counted by steps of a loop in 32 bits."""

    def scalars(self) -> list[str]:
        """LLVM scalar types of the state's registers."""
        return [*super().scalars()[:-1], "i32"]


class DeviceLoops(Loops):
    """Writes the loops of one device function."""

    def __init__(self, emitter: DeviceEmitter) -> None:
        super().__init__(emitter)
        self.device = emitter
        self.inside = False  # within a loop that is divided among threads
        self.sharing: str | None = None  # within a divided loop with scans: which threads have an element
        self.partial: set[int] = set()  # folds whose states hold one thread's share
        self.first = True  # the first loop of a part that has its folds takes the chunk's range
        self.kept: dict[tuple[int, ...], list[Frame]] = {}
        self.before: list[Frame] = []  # of the loop written out, what earlier ones have left at its steps
        self.ordinary: set[int] = set()  # quotients whose operands were looked at together

    def begin(self) -> None:
        """Begin a unit."""
        self.first, self.kept, self.before, self.ordinary = True, {}, [], set()

    # ------------------------------------------------------------------ a loop
    def loop(self, loop: Loop, frame: Frame) -> States:
        """Emit `loop`; folds that end go into the frame, the others' states are given back."""
        variant = self.device.variant
        for access in self.accesses(loop):
            self.device.memory.pointer(frame, access)
        chunk = variant.role == "part" and self.first and not self.device.joining
        chunk = chunk and not set(loop.folds).isdisjoint(variant.folds)
        self.first = self.first and not chunk
        axes, between, body = nest(loop)
        alone = variant.group == 1 or self.inside
        if variant.role == "scan":
            OnePass(self.device, loop, frame).emit()
            return {}
        if loop.scans and not alone:
            if any(isinstance(step, Loop) and step.scans for step in loop.body.steps):
                states, lanes = self._in_sequence((loop.axis,), [], loop.body, loop, frame, False, 1)
            else:
                states, lanes = self._scans(loop, frame)
        elif chunk and variant.square:
            states, lanes = self._square(axes, between, body, loop, frame)
        elif not alone and variant.keep:
            states, lanes = self._kept(axes, between, body, loop, frame)
        elif alone and not chunk:
            states, lanes = self._in_sequence((loop.axis,), [], loop.body, loop, frame, chunk, 1)
        else:
            # Inner loops are divided instead of this one if they are long enough.
            deep = variant.deep and any(isinstance(step, Loop) for step in body.steps)
            step = 1 if alone or deep else variant.group
            states, lanes = self._in_sequence(axes, between, body, loop, frame, chunk, step)
        for n in loop.ends:
            self._end(frame, n, states[n], lanes[n])
        return {n: states[n] for n in loop.folds if n not in loop.ends}

    def _wide(self, axes: tuple[int, ...], frame: Frame) -> int:
        """Lanes inside a loop over `axes`."""
        variant = self.device.variant
        if variant.lanes > 1 and variant.vector == axes[-1] and not self.inside:
            return variant.lanes
        return frame.lanes

    def _lanes(self, loop: Loop, lanes: int, axes: tuple[int, ...], frame: Frame) -> dict[int, int]:
        """Lanes of each fold's elements."""
        probe = Frame()
        probe.lanes = lanes
        found = {n: self.device.fold_lanes(n, probe) for n in loop.folds}
        return found | {n: self.scan_lanes(n, frame) for n in loop.scans}

    def _sizes(self, axes: tuple[int, ...], lanes: int) -> list[str]:
        """Steps along each axis; the last one's are vectors."""
        sizes = [self.device.extent(a) for a in axes]
        if lanes > 1:
            sizes[-1] = self.code.op(f"udiv i64 {sizes[-1]}, {lanes}")
        return sizes

    def _enter(self, axes: tuple[int, ...], frame: Frame, digits: list[str], wide: int) -> Frame:
        """The frame at the given step."""
        inner = frame
        for axis, digit in zip(axes, digits, strict=True):
            if wide > 1 and axis == axes[-1]:
                digit = self.code.op(f"mul i64 {digit}, {wide}")
                inner = inner.enter(axis, digit, wide)
            else:
                inner = inner.enter(axis, digit)
        return inner

    def _body(self, between: list[Level], body: Level, inner: Frame, divided: bool) -> States:
        """What happens at one step."""
        former, self.inside = self.inside, self.inside or divided
        self._between(between, inner)
        elements = self.device.level(body, inner)
        self.inside = former
        return elements

    def _between(self, between: list[Level], inner: Frame) -> None:
        """What is computed between perfectly nested loops."""
        for level in between:
            computed: list[int] = []
            for step in level.steps:
                if not isinstance(step, Loop):
                    self.device.values(level, inner, step)
                    computed += step
            self.device.after(level, inner, computed)

    def _in_sequence(
        self, axes: tuple[int, ...], between: list[Level], body: Level, loop: Loop, frame: Frame, chunk: bool, step: int
    ) -> tuple[States, dict[int, int]]:
        """A counted loop, over every `step`-th of the steps if it is divided among threads."""
        code, device = self.code, self.device
        divided = step > 1
        wide = self._wide(axes, frame) if divided else frame.lanes
        own = wide if divided and wide > 1 else 1
        lanes = self._lanes(loop, wide, axes, frame)
        numbered = {n for n in loop.folds if self._in_order(n)}
        kinds = {n: device.kinds[n] for n in (*loop.folds, *loop.scans)}
        if device.variant.small:
            kinds |= {n: Steps(*kinds[n]) for n in numbered}
        packing = Packing(kinds, lanes)
        states = {n: device.kinds[n].identity(lanes[n]) for n in loop.folds}
        states |= {n: frame.entry.get(n) or device.kinds[n].identity(lanes[n]) for n in loop.scans}
        sizes = self._sizes(axes, own)
        stop = sizes[0]
        for size in sizes[1:]:
            stop = code.op(f"mul i64 {stop}, {size}")
        start, stop = self._range(chunk, stop)
        if divided:
            assert device.group is not None
            start = code.op(f"add i64 {start}, {device.group.number}")

        def at(index: str, flat: State) -> State:
            now = packing.cut(flat)
            digits = [index] if len(axes) == 1 else device.split(index, sizes)
            inner = self._enter(axes, frame, digits, own)
            inner.carry.update({n: now[n] for n in loop.scans})
            inner.entry = dict(inner.carry)
            elements = self._body(between, body, inner, divided)
            result = {n: inner.carry[n] for n in loop.scans}
            for n in loop.folds:
                if n in numbered:
                    elements[n] = [*elements[n][:-1], self._step(kinds[n], lanes[n], index)]
                combine = better if n in numbered else join
                result[n] = combine(code, kinds[n], lanes[n], now[n], elements[n])
            return packing.flat(result)

        for n in numbered:  # the first step, for elements that are not better than nothing
            states[n][-1] = self._step(kinds[n], lanes[n], start)
        unroll = 0 if self._long(body) or loop.scans else device.variant.unroll
        done = packing.cut(counted(code, start, stop, step, packing.types(), packing.flat(states), at, unroll))
        for n in loop.scans:
            if n in frame.carry:
                frame.carry[n] = done[n]
        for n in numbered:
            done[n][-1] = self._place(kinds[n], lanes[n], done[n][-1], own)
        if divided:
            self._gathered(loop, axes, done, lanes)
        return done, lanes

    def _step(self, kind: Kind, lanes: int, index: str) -> str:
        """A step's number as the state of a fold holds it, for all lanes."""
        t = kind.scalars()[-1]
        index = self.code.op(f"trunc i64 {index} to i32") if t == "i32" else index
        return index if lanes == 1 else repeat(self.code, t, lanes, index)

    def _place(self, kind: Kind, lanes: int, step: str, own: int) -> str:
        """The position of an element from the number of its step, which had `own` neighbours."""
        code, t = self.code, "i64" if lanes == 1 else f"<{lanes} x i64>"
        if kind.scalars()[-1] == "i32":
            step = code.op(f"zext {'i32' if lanes == 1 else f'<{lanes} x i32>'} {step} to {t}")
        if own == 1:
            return step
        place = code.op(f"mul {t} {step}, {repeated(code, lanes, str(own))}")
        return code.op(f"add {t} {place}, <{', '.join(f'i64 {k}' for k in range(lanes))}>") if lanes > 1 else place

    def _in_order(self, n: int) -> bool:
        """Whether elements come to fold `n`, which wants the position of the best, by rising positions."""
        fold, kind = self.device.kernel.values[n].arg, self.device.kinds[n]
        return kind.position and isinstance(fold, Fold) and len(fold.axes) == 1 and kind.dtype[0] in "iuf"

    def _long(self, body: Level) -> bool:
        """Whether there is a loop within that is not written out."""
        written = dict(self.device.variant.fixed)
        return any(isinstance(step, Loop) and step.axis not in written for step in body.steps)

    def _chunk(self) -> str:
        return self.device.special("ctaid.y")

    def _range(self, chunk: bool, stop: str) -> tuple[str, str]:
        """First step and end of a loop, or of this launch's chunk of it."""
        if not chunk:
            return "0", stop
        start = self.code.op(f"mul i64 {self._chunk()}, %length")
        return start, self._lesser(self.code.op(f"add i64 {start}, %length"), stop)

    def _square(
        self, axes: tuple[int, ...], between: list[Level], body: Level, loop: Loop, frame: Frame
    ) -> tuple[States, dict[int, int]]:
        """A chunk of two folded axes: each thread has one index of the first, and goes through some of the second."""
        code, device = self.code, self.device
        assert device.group is not None
        extent, block = device.extent(axes[0]), device.variant.block * device.variant.stack
        blocks = code.op(f"udiv i64 {code.op(f'add i64 {extent}, {block - 1}')}, {block}")
        column, row = device.split(self._chunk(), ["0", blocks])
        first = code.op(f"mul i64 {row}, {block}")
        first = code.op(f"add i64 {first}, {device.group.number}")
        points: list[tuple[Frame, str]] = []
        for k in range(device.variant.stack):
            place = code.op(f"add i64 {first}, {k * device.variant.block}")
            within = code.op(f"icmp ult i64 {place}, {extent}")
            points.append((frame.enter(axes[0], code.op(f"select i1 {within}, i64 {place}, i64 0")), within))
            self._between(between, points[-1][0])
        lanes = self._lanes(loop, 1, axes, frame)
        packing = Packing({n: device.kinds[n] for n in loop.folds}, lanes)
        start = code.op(f"mul i64 {column}, %length")
        stop = self._lesser(code.op(f"add i64 {start}, %length"), device.extent(axes[1]))

        def at(index: str, flat: State) -> State:
            def taken() -> list[tuple[str, str]]:
                found: State = []
                for outer, _ in points:
                    found += packing.flat(self._body([], body, outer.enter(axes[1], index), True))
                return list(zip(packing.types() * len(points), found, strict=True))

            result, found = [], attempted(device, taken)
            for k in range(0, len(flat), width):
                now, elements = packing.cut(flat[k : k + width]), packing.cut(found[k : k + width])
                result += packing.flat({n: join(code, device.kinds[n], 1, now[n], elements[n]) for n in loop.folds})
            return result

        flat = packing.flat({n: device.kinds[n].identity(1) for n in loop.folds})
        width = len(flat)
        unroll = 0 if self._long(body) else device.variant.unroll
        count = len(points)
        ends = counted(code, start, stop, 1, packing.types() * count, flat * count, at, unroll)
        total: States = {}
        for k, (_, within) in enumerate(points):
            done = packing.cut(ends[k * width : (k + 1) * width])
            for n in loop.folds:
                kind = device.kinds[n]
                mine = choose(code, 1, within, kind.types(1), done[n], kind.identity(1))
                total[n] = join(code, kind, 1, total[n], mine) if k else mine
        self.partial.update(loop.folds)
        return total, lanes

    def _lesser(self, a: str, b: str) -> str:
        return self.code.call("i64", "llvm.smin.i64", ("i64", a), ("i64", b))

    def _gathered(self, loop: Loop, axes: tuple[int, ...], states: States, lanes: dict[int, int]) -> None:
        """After a divided loop: one lane for each fold, the share of one thread."""
        for n in loop.folds:
            if lanes[n] > 1 and axes[-1] == self.device.variant.vector:
                states[n] = across(self.code, self.device.kinds[n], lanes[n], states[n])
                lanes[n] = 1
            self.partial.add(n)

    # ------------------------------------------------------------------ values kept in registers
    def _kept(
        self, axes: tuple[int, ...], between: list[Level], body: Level, loop: Loop, frame: Frame
    ) -> tuple[States, dict[int, int]]:
        """A divided loop written out step by step; what was computed at a step is there in the next such loop."""
        code, device = self.code, self.device
        assert device.group is not None
        wide = self._wide(axes, frame)
        lanes = self._lanes(loop, wide, axes, frame)
        states = {n: device.kinds[n].identity(lanes[n]) for n in loop.folds}
        sizes = self._sizes(axes, wide)
        total = sizes[0]
        for size in sizes[1:]:
            total = code.op(f"mul i64 {total}, {size}")
        former = self.kept.get(axes)
        self.before = former or []

        spots: list[tuple[Frame, str | None]] = []
        for k in range(device.variant.keep):
            safe = index = code.op(f"add i64 {device.group.number}, {k * device.variant.group}")
            within = None
            if not device.variant.full:
                within = code.op(f"icmp ult i64 {index}, {total}")
                safe = code.op(f"select i1 {within}, i64 {index}, i64 0")
            digits = [safe] if len(axes) == 1 else device.split(safe, sizes)
            spots.append((self._enter(axes, frame, digits, wide), within))

        here = device.memory.guard
        guards = [here if within is None else device.both(here, within) for _, within in spots]

        def step(k: int) -> tuple[Frame, str | None, States]:
            inner, within = spots[k]
            inner = inner.enter(axes[-1], inner.index[axes[-1]])
            if former is not None:
                inner.index = {**former[k].index, **{a: inner.index[a] for a in frame.index}}
                inner.regs = {**former[k].regs, **frame.regs}
                inner.places = {**frame.places, **former[k].places}
            guard = device.memory.guard
            device.memory.guard = guards[k]
            elements = self._body(between, body, inner, True)
            device.memory.guard = guard
            return inner, within, elements

        if former is not None and not loop.folds:  # what is left are stores
            self._stored(lambda: [step(k) for k in range(device.variant.keep)])
            return {}, {}
        self.kept[axes] = []
        for k in range(device.variant.keep):
            inner, within, elements = step(k)
            self.kept[axes].append(inner)
            for n in loop.folds:
                kind = device.kinds[n]
                joined = join(code, kind, lanes[n], states[n], elements[n])
                if within is None:
                    states[n] = joined
                    continue
                every = within if lanes[n] == 1 else repeat(code, "i1", lanes[n], within)
                states[n] = choose(code, lanes[n], every, kind.types(lanes[n]), joined, states[n])
        self._gathered(loop, axes, states, lanes)
        return states, lanes

    def _stored(self, make: Callable[[], object]) -> None:
        """Stores of all steps, their values by shortcuts where those hold."""
        memory, kernel = self.device.memory, self.device.kernel
        waiting: list[Waiting] = []

        def written() -> list[tuple[str, str]]:
            outer, memory.deferred = memory.deferred, []
            make()
            found, memory.deferred = memory.deferred, outer
            waiting[:] = waiting or found
            typed: list[tuple[str, str]] = []
            for frame, k, value, _ in found:
                dtype = kernel.operands[kernel.stores[k].operand].dtype
                typed += [(vtype(PARTS.get(dtype, dtype), frame.lanes), r) for r in parts(value)]
            return typed

        done, guard = attempted(self.device, written), memory.guard
        for frame, k, value, memory.guard in waiting:
            count = len(parts(value))
            memory.store(frame, k, whole(done[:count]))
            done = done[count:]
        memory.guard = guard

    # ------------------------------------------------------------------ scans by a group
    def _scans(self, loop: Loop, frame: Frame) -> tuple[States, dict[int, int]]:
        """A divided loop with scans: every thread takes a step, those behind the end without an element."""
        code, device = self.code, self.device
        assert device.group is not None
        kinds = {n: device.kinds[n] for n in (*loop.folds, *loop.scans)}
        lanes = dict.fromkeys(kinds, 1)
        packing = Packing(kinds, lanes)
        states = {n: kinds[n].identity(1) for n in loop.folds}
        states |= {n: frame.entry.get(n) or kinds[n].identity(1) for n in loop.scans}
        start, stop = "0", device.extent(loop.axis)

        def at(first: str, flat: State) -> State:
            assert device.group is not None
            now = packing.cut(flat)
            index = code.op(f"add i64 {first}, {device.group.number}")
            within = code.op(f"icmp slt i64 {index}, {stop}")
            inner = frame.enter(loop.axis, code.op(f"select i1 {within}, i64 {index}, i64 {first}"))
            inner.carry.update({n: now[n] for n in loop.scans})
            inner.entry = dict(inner.carry)
            former = device.memory.guard
            self.sharing, device.memory.guard = within, device.both(former, within)
            elements = self._body([], loop.body, inner, True)
            self.sharing, device.memory.guard = None, former
            result = {n: inner.carry[n] for n in loop.scans}
            for n in loop.folds:
                joined = join(code, kinds[n], 1, now[n], elements[n])
                result[n] = choose(code, 1, within, kinds[n].types(1), joined, now[n])
            return packing.flat(result)

        size = device.variant.group
        done = packing.cut(counted(code, start, stop, size, packing.types(), packing.flat(states), at))
        for n in loop.scans:
            if n in frame.carry:
                frame.carry[n] = done[n]
        self.partial.update(loop.folds)
        return done, lanes

    def scan_step(self, frame: Frame, n: int) -> str | tuple[str, str]:
        """The prefix of scan `n` for each thread of the group; the carry is what all of them have."""
        code, device = self.code, self.device
        assert device.group is not None and self.sharing is not None
        v, kind = device.kernel.values[n], device.kinds[n]
        source = v.src[0]
        x = parts(lift(code, kind, device.kernel.values[source].dtype, device.operand(frame, source, False)))
        x = choose(code, 1, self.sharing, kind.types(1), x, kind.identity(1))
        mine, all_of_them = device.group.scan(kind, x)
        before = frame.carry[n]
        frame.carry[n] = join(code, kind, 1, before, all_of_them)
        return whole(join(code, kind, 1, before, mine))

    # ------------------------------------------------------------------ ends of folds
    def _end(self, frame: Frame, n: int, state: State, lanes: int) -> None:
        """Make the value of fold `n`, or leave its state for another launch."""
        device, kind = self.device, self.device.kinds[n]
        if n in self.partial:
            assert device.group is not None
            state = device.group.total(kind, state)
            self.partial.discard(n)
        if device.variant.role == "part" and n in device.variant.folds:
            device.chunks.leave(frame, n, state, lanes)
            return
        frame.regs[n] = self.result(n, kind, state, lanes)
        device.check_fold(frame, n, lanes)
