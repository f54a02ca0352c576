"""The iterations of one loop: the states that they carry, whole vectors, and the masked ones at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..runtime.tuples import NamedTuple
from .folds import LANES, Kind, Slots, across, better, choose, join, positions
from .frame import Frame, State, begin, branch, counted, lesser, name, phi, repeat
from .kernel import Fold
from .panels import Panels, suits
from .partial import Count
from .schedule import Loop, values_in

if TYPE_CHECKING:
    from .loops import Loops

States = dict[int, State]


class Shape(NamedTuple):
    """Lanes of a loop over the vector axis: of whole steps, and of the masked steps at the end."""

    main: int
    tail: int
    once: bool  # written once, masked


class Packing:
    """The states of several folds and scans side by side."""

    def __init__(self, kinds: dict[int, Kind], lanes: dict[int, int]) -> None:
        self.kinds, self.lanes = kinds, lanes

    def part(self, numbers: list[int]) -> Packing:
        """The packing of some of them."""
        return Packing({n: self.kinds[n] for n in numbers}, {n: self.lanes[n] for n in numbers})

    def types(self) -> list[str]:
        """LLVM types of all registers."""
        return [t for n, kind in self.kinds.items() for t in kind.types(self.lanes[n])]

    def flat(self, states: States) -> State:
        """All registers in order."""
        return [r for n in self.kinds for r in states[n]]

    def cut(self, flat: State) -> States:
        """The states again."""
        found, at = {}, 0
        for n, kind in self.kinds.items():
            size = len(kind.scalars())
            found[n] = flat[at : at + size]
            at += size
        return found


class Carrier(Packing):
    """The iterations of one loop, with the states that they carry."""

    def __init__(self, loops: Loops, loop: Loop, frame: Frame, lanes: dict[int, int]) -> None:
        super().__init__({n: loops.emitter.kinds[n] for n in (*loop.folds, *loop.scans)}, lanes)
        self.loops, self.loop, self.frame = loops, loop, frame
        self.code, self.emitter = loops.code, loops.emitter

    def is_quick(self, n: int) -> bool:
        """Whether elements come to fold `n` in the order of their positions, each a plain number."""
        fold, kind = self.emitter.kernel.values[n].arg, self.kinds[n]
        return kind.position and isinstance(fold, Fold) and len(fold.axes) == 1 and kind.dtype[0] in "iuf"

    # ------------------------------------------------------------------ any other axis
    def scalar(self, start: str, stop: str, states: States) -> States:
        """The loop over an axis whose indices are visited one by one."""
        loop = self.loop

        def body(index: str, flat: State) -> State:
            now = self.cut(flat)
            inner = self.frame.enter(loop.axis, index)
            inner.carry.update({n: now[n] for n in loop.scans})
            inner.entry = dict(inner.carry)
            elements = self.emitter.level(loop.body, inner)
            result = {n: inner.carry[n] for n in loop.scans}
            for n in loop.folds:
                combine = better if self.is_quick(n) else join
                result[n] = combine(self.code, self.kinds[n], self.lanes[n], now[n], elements[n])
            return self.flat(result)

        for n in loop.folds:
            if self.is_quick(n):
                lanes = self.lanes[n]
                first = start if lanes == 1 else repeat(self.code, "i64", lanes, start)
                states = states | {n: [*states[n][:-1], first]}
        return self.cut(counted(self.code, start, stop, 1, self.types(), self.flat(states), body))

    # ------------------------------------------------------------------ the vector axis
    def vector(self, start: str, stop: str, states: States) -> States:
        """The loop over the vector axis."""
        shape = self.loops.shape(self.loop)
        if shape.main != shape.tail:
            if suits(self.loop):
                Panels(self, shape).emit(start, stop)
            else:
                self._columns(start, stop, shape)
            return states
        folds, kinds = self.loop.folds, self.kinds
        memory: dict[int, Slots] = {}
        for n in folds:
            if kinds[n].ordered and shape.main < LANES:
                memory[n] = Slots(self.code, kinds[n], LANES, 1)
                memory[n].store("0", LANES, kinds[n].identity(LANES))
        inside = {n: shape.main for n in folds if n not in memory} | dict.fromkeys(self.loop.scans, 1)
        packing = Packing({n: kinds[n] for n in inside}, inside)
        base = self.prepare(shape.main)

        def body(index: str, mask: Count | None, flat: State, bail: str | None) -> State:
            return packing.flat(self._step(base, index, mask, packing.cut(flat), memory, bail))

        begin_with = {n: states[n] if n in self.loop.scans else kinds[n].identity(k) for n, k in inside.items()}
        for n in folds:
            if self.is_quick(n):
                begin_with[n][-1] = positions(self.code, shape.main, start)
        flat = packing.flat(begin_with)
        if shape.once:
            flat = self._masked(start, stop, shape.main, packing.types(), flat, body)
        else:
            flat = self._fast_and_slow(start, stop, shape.main, packing.types(), flat, body)
        result = packing.cut(flat)
        for n in folds:
            lanes = LANES if n in memory else shape.main
            state = memory[n].load("0", LANES) if n in memory else result[n]
            state = across(self.code, kinds[n], lanes, state)
            # An ordered fold begins anew with each block.
            result[n] = state if kinds[n].ordered else join(self.code, kinds[n], 1, states[n], state)
        return result

    def prepare(self, lanes: int) -> Frame:
        """A frame in which the scalars that vectors meet are repeated in every lane already."""
        emitter, base = self.emitter, self.frame.enter(self.loop.axis, "0")
        base.lanes = lanes
        values, domains, vector = emitter.kernel.values, emitter.domains, self.loops.vector
        used = {
            s for n in values_in(self.loop) if domains[n] >> vector & 1 and values[n].op != "load"
            for s in values[n].src
        }  # fmt: skip
        used |= {emitter.kernel.stores[k].value for k in self.loop.body.stores}
        used |= {values[n].src[0] for n in self.loop.folds}
        for s in sorted(used):
            if s in base.regs and not domains[s] >> vector & 1:
                emitter.wide(base, s)
        return base

    def _step(
        self, base: Frame, index: str, mask: Count | None, now: States, memory: dict[int, Slots], bail: str | None
    ) -> States:
        """One vector of the loop."""
        loop, code = self.loop, self.code
        inner = base.enter(loop.axis, index)
        inner.places = dict(self.frame.places)
        inner.mask = mask
        inner.carry.update({n: now[n] for n in loop.scans})
        inner.entry = dict(inner.carry)
        elements = self.emitter.level(loop.body, inner, bail)
        result = {n: inner.carry[n] for n in loop.scans}
        for n in loop.folds:
            kind, element, lanes = self.kinds[n], elements[n], base.lanes
            lane = code.op(f"and i64 {index}, {LANES - 1}") if n in memory else ""
            old = memory[n].load(lane, lanes) if n in memory else now[n]
            state = (better if self.is_quick(n) else join)(code, kind, lanes, old, element)
            if mask is not None:
                state = choose(code, lanes, mask, kind.types(lanes), state, old)
            if n in memory:
                memory[n].store(lane, lanes, state)
            else:
                result[n] = state
        return result

    def mask(self, index: str, stop: str, lanes: int) -> Count:
        """Which lanes lie below `stop`."""
        code = self.code
        left = lesser(code, code.op(f"sub i64 {stop}, {index}"), str(lanes))
        every = repeat(code, "i16", lanes, code.op(f"trunc i64 {left} to i16"))
        steps = ", ".join(f"i16 {k}" for k in range(lanes))
        return Count(code.op(f"icmp ult <{lanes} x i16> <{steps}>, {every}"), left)

    def _masked(
        self, start: str, stop: str, lanes: int, types: list[str], state: State,
        body: Callable[[str, Count | None, State, str | None], State],
    ) -> State:  # fmt: skip
        def step(index: str, flat: State) -> State:
            return body(index, self.mask(index, stop, lanes), flat, None)

        return counted(self.code, start, stop, lanes, types, state, step)

    def _columns(self, start: str, stop: str, shape: Shape) -> None:
        """A loop without states around others: many columns at once, then few under a mask."""
        code = self.code

        def step(base: Frame, masked: bool) -> Callable[[str, State], State]:
            def body(index: str, _: State) -> State:
                mask = self.mask(index, stop, base.lanes) if masked else None
                self._step(base, index, mask, {}, {}, None)
                return []

            return body

        size = code.op(f"and i64 {code.op(f'sub i64 {stop}, {start}')}, {-shape.main}")
        middle = code.op(f"add i64 {start}, {size}")
        counted(code, start, middle, shape.main, [], [], step(self.prepare(shape.main), False))
        counted(code, middle, stop, shape.tail, [], [], step(self.prepare(shape.tail), True))

    def _fast_and_slow(
        self, start: str, stop: str, lanes: int, types: list[str], state: State,
        body: Callable[[str, Count | None, State, str | None], State],
    ) -> State:  # fmt: skip
        """Whole vectors in a small loop; the masked end, and vectors with faults, in a body apart."""
        code = self.code
        direct = [n for step in self.loop.body.steps if not isinstance(step, Loop) for n in step]
        faulty = self.emitter.exact and any(n in self.emitter.fault_byte for n in direct)
        fast, middle, slow, leave = (code.label(hint) for hint in ("fast", "middle", "slow", "leave"))
        fast_end, slow_end = fast + "x", slow + "x"
        limit = code.op(f"sub i64 {stop}, {lanes}")
        before = code.block
        branch(code, code.op(f"icmp sle i64 {start}, {limit}"), fast, middle)
        from_fast, from_slow = ([code.temp() for _ in ("i64", *types)] for _ in range(2))

        def merge() -> State:
            ways = [([start, *state], before), (from_fast, fast_end)] + ([(from_slow, slow_end)] if faulty else [])
            return [phi(code, t, *((way[k], b) for way, b in ways)) for k, t in enumerate(("i64", *types))]

        def step(index: str, flat: State, fresh: State, end: str) -> None:
            begin(code, end)
            code.add(f"{fresh[0]} = add i64 {index}, {lanes}")
            for f, t, r in zip(fresh[1:], types, flat, strict=True):
                name(code, f, t, r)

        code.start(fast)
        index, *inside = merge()
        self.loops.bailed = None
        result = body(index, None, inside, slow if faulty else None)
        bailed = self.loops.bailed
        step(index, result, from_fast, fast_end)
        branch(code, code.op(f"icmp sle i64 {from_fast[0]}, {limit}"), fast, middle)
        code.start(middle)
        rest = merge()
        branch(code, code.op(f"icmp slt i64 {rest[0]}, {stop}"), slow, leave)
        code.start(slow)
        ways = [(rest, middle)] + ([([index, *inside], bailed)] if bailed else [])
        index, *inside = [phi(code, t, *((way[k], b) for way, b in ways)) for k, t in enumerate(("i64", *types))]
        result = body(index, self.mask(index, stop, lanes), inside, None)
        step(index, result, from_slow, slow_end)
        if faulty:
            branch(code, code.op(f"icmp sle i64 {from_slow[0]}, {limit}"), fast, middle)
        else:
            code.add(f"br label %{leave}")
        code.start(leave)
        if faulty:
            return rest[1:]
        ends = zip(types, rest[1:], from_slow[1:], strict=True)
        return [phi(code, t, (r, middle), (s, slow_end)) for t, r, s in ends]
