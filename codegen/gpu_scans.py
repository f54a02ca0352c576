"""Scans of long rows in one pass over memory: each block has a tile in registers, and looks at what those before left.

The association is a tree fixed by the extents: lanes of a warp, steps of a thread, warps of a tile; then tiles by
groups of 32, groups by supergroups of 32, supergroups one after the other.  A tile waits only for earlier ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .folds import Kind, choose, join, lift
from .frame import Frame, State, branch, lanes_of, parts, whole
from .gpu_threads import WARP, Group, barrier
from .schedule import Loop

if TYPE_CHECKING:
    from .gpu_emit import DeviceEmitter

Step = list[State]  # for each of a lane's elements the combination of the warp's up to it
RADIX = 5  # bits: groups of a warp's size


class OnePass:
    """The loop of a "scan", whose tile the block has taken.

    Parameters
    ----------
    emitter : DeviceEmitter
    loop : Loop
        Of nothing but scans of one row each.
    frame : Frame
        Around the loop.
    """

    def __init__(self, emitter: DeviceEmitter, loop: Loop, frame: Frame) -> None:
        assert emitter.group is not None
        self.emitter, self.code, self.loop, self.frame = emitter, emitter.code, loop, frame
        self.group: Group = emitter.group
        self.kinds: dict[int, Kind] = {n: emitter.kinds[n] for n in loop.scans}
        self.tile = emitter.chunks.number
        self.below = _below(emitter, loop.scans)

    def emit(self) -> None:
        """Read the tile, scan it, and go on with what needs the prefixes."""
        emitter = self.emitter
        steps = self._read()
        ours: dict[int, list[Step]] = {}
        before: dict[int, State] = {}
        total: dict[int, State] = {}
        for n, kind in self.kinds.items():
            ours[n], mine = self._within_warp(n, kind, steps)
            before[n], total[n] = self.group.before(kind, mine)
        earlier = self._look_back(total)
        former, emitter.device.inside = emitter.device.inside, True
        starts = {n: join(self.code, kind, 1, earlier[n], before[n]) for n, kind in self.kinds.items()}
        for k, (inner, within) in enumerate(steps):
            for n, kind in self.kinds.items():
                inner.regs[n] = self._value(kind, starts[n], ours[n][k])
            emitter.memory.guard = within
            emitter.level(self.loop.body, inner)
        emitter.memory.guard = None
        emitter.device.inside = former

    def _read(self) -> list[tuple[Frame, str]]:
        """The frames of a thread's steps, with what does not wait for a scan, and whether they are inside the row."""
        code, emitter = self.code, self.emitter
        keep = emitter.variant.keep
        stop, lanes = emitter.extent(self.loop.axis), emitter.variant.lanes
        if lanes > 1:
            stop = code.op(f"udiv i64 {stop}, {lanes}")
        first = code.op(f"mul i64 {self.tile}, {emitter.variant.block * keep}")
        warp, lane = (code.op(f"zext i32 {r} to i64") for r in (self.group.warp, self.group.lane))
        first = code.op(f"add i64 {first}, {code.op(f'mul i64 {warp}, {WARP * keep}')}")
        first = code.op(f"add i64 {first}, {lane}")
        body = self.loop.body
        early = tuple(n for step in body.steps if not isinstance(step, Loop) for n in step if n not in self.below)
        steps = []
        for k in range(keep):
            index = code.op(f"add i64 {first}, {k * WARP}")
            within = code.op(f"icmp slt i64 {index}, {stop}")
            safe = code.op(f"select i1 {within}, i64 {index}, i64 0")
            if lanes > 1:
                safe = code.op(f"mul i64 {safe}, {lanes}")
            inner = self.frame.enter(self.loop.axis, safe, lanes)
            emitter.values(body, inner, early)
            steps.append((inner, within))
        return steps

    def _within_warp(self, n: int, kind: Kind, steps: list[tuple[Frame, str]]) -> tuple[list[Step], State]:
        """What a warp knows of each of its steps, and the combination of all of them."""
        code, emitter = self.code, self.emitter
        source = emitter.kernel.values[n].src[0]
        dtype = emitter.kernel.values[source].dtype
        found: list[Step] = []
        run: State | None = None
        first = code.op(f"icmp eq i32 {self.group.lane}, 0")
        for inner, within in steps:
            lanes = inner.lanes
            code.lanes = lanes
            x = parts(lift(code, kind, dtype, emitter.operand(inner, source, lanes > 1)))
            code.lanes = 1
            own: list[State] = []
            for k in range(lanes):
                one = [lanes_of(code, t, lanes, r, k, 1) for t, r in zip(kind.scalars(), x, strict=True)]
                one = choose(code, 1, within, kind.types(1), one, kind.identity(1))
                own.append(join(code, kind, 1, own[-1], one) if own else one)
            upto = self.group.prefix(kind, own[-1])
            before = self.group.moved("up", kind, upto, "1")
            before = choose(code, 1, first, kind.types(1), kind.identity(1), before)
            every = self.group.moved("idx", kind, upto, str(WARP - 1))
            before = before if run is None else join(code, kind, 1, run, before)
            found.append([join(code, kind, 1, before, one) for one in own])
            run = every if run is None else join(code, kind, 1, run, every)
        assert run is not None
        return found, run

    def _value(self, kind: Kind, start: State, step: Step) -> str | tuple[str, str]:
        """The prefixes of a step's elements; `start`: of what lies before the warp."""
        code = self.code
        values = [join(code, kind, 1, start, one) for one in step]
        if len(step) == 1:
            return whole(values[0])
        result = []
        for register, t in enumerate(kind.scalars()):
            vector = "poison"
            for k, value in enumerate(values):
                vector = code.op(f"insertelement <{len(step)} x {t}> {vector}, {t} {value[register]}, i64 {k}")
            result.append(vector)
        return whole(result)

    # ------------------------------------------------------------------ tiles before this one
    def _look_back(self, total: dict[int, State]) -> dict[int, State]:
        """The combination of all tiles before this one, for every thread; the first warp finds it."""
        code = self.code
        places = {
            n: [self.group.array(t) for t in ("i8" if t == "i1" else t for t in kind.scalars())]
            for n, kind in self.kinds.items()
        }  # fmt: skip
        look, seen = code.label("look"), code.label("seen")
        branch(code, code.op(f"icmp eq i32 {self.group.warp}, 0"), look, seen)
        code.start(look)
        found = self._first_warp(total)
        for n, kind in self.kinds.items():
            for t, r, where in zip(kind.scalars(), found[n], places[n], strict=True):
                if t == "i1":
                    t, r = "i8", code.op(f"zext i1 {r} to i8")
                code.add(f"store {t} {r}, ptr addrspace(3) {where}")  # all lanes the same
        code.add(f"br label %{seen}")
        code.start(seen)
        barrier(code)
        earlier: dict[int, State] = {}
        for n, kind in self.kinds.items():
            earlier[n] = []
            for t, where in zip(kind.scalars(), places[n], strict=True):
                r = code.op(f"load {'i8' if t == 'i1' else t}, ptr addrspace(3) {where}")
                earlier[n].append(code.op(f"trunc i8 {r} to i1") if t == "i1" else r)
        return earlier

    def _first_warp(self, total: dict[int, State]) -> dict[int, State]:
        code, tile = self.code, self.tile
        levels = Entries(self)
        number, sum_of = tile, total
        earlier: dict[int, State] = {}
        self._publish(levels, 0, number, total)
        for level in (0, 1):
            around = self._combine(levels, level, number)
            earlier = self._join(around, earlier) if earlier else around
            sum_of = self._join(around, sum_of)
            mask = (1 << RADIX * (level + 1)) - 1
            upper = code.op(f"lshr i64 {number}, {RADIX}")
            ends = code.op(f"icmp eq i64 {code.op(f'and i64 {tile}, {mask}')}, {mask}")
            tell, told = code.label("tell"), code.label("told")
            branch(code, ends, tell, told)
            code.start(tell)
            mine = sum_of
            if level == 1:
                mine = self._join(self._previous(levels, upper), sum_of)
            self._publish(levels, level + 1, upper, mine)
            code.add(f"br label %{told}")
            code.start(told)
            number = upper
        return self._join(self._previous(levels, number), earlier)

    def _join(self, a: dict[int, State], b: dict[int, State]) -> dict[int, State]:
        return {n: join(self.code, kind, 1, a[n], b[n]) for n, kind in self.kinds.items()}

    def _publish(self, levels: Entries, level: int, number: str, states: dict[int, State]) -> None:
        """The first lane leaves states, and then says so."""
        code, chunks = self.code, self.emitter.chunks
        entry = levels.entry(level, number)
        put, done = code.label("put"), code.label("done")
        branch(code, code.op(f"icmp eq i32 {self.group.lane}, 0"), put, done)
        code.start(put)
        for n, kind in self.kinds.items():
            for t, r, where in zip(kind.scalars(), states[n], levels.places(n, entry), strict=True):
                chunks.put(t, r, where)
        where = code.op(f"getelementptr i32, ptr {levels.flags}, i64 {entry}")
        code.add(f'store atomic i32 {levels.epoch}, ptr {where} syncscope("device") release, align 4')
        code.add(f"br label %{done}")
        code.start(done)

    def _await(self, levels: Entries, entry: str, some: str) -> None:
        """Wait until an entry is there; lanes that want none do not wait."""
        code = self.code
        look, found = code.label("look"), code.label("found")
        branch(code, some, look, found)
        code.start(look)
        where = code.op(f"getelementptr i32, ptr {levels.flags}, i64 {entry}")
        seen = code.op(f'load atomic i32, ptr {where} syncscope("device") acquire, align 4')
        branch(code, code.op(f"icmp eq i32 {seen}, {levels.epoch}"), found, look)
        code.start(found)

    def _fetch(self, levels: Entries, entry: str, some: str) -> dict[int, State]:
        self._await(levels, entry, some)
        found = {}
        for n, kind in self.kinds.items():
            state = [
                self.emitter.chunks.get(t, where)
                for t, where in zip(kind.scalars(), levels.places(n, entry), strict=True)
            ]
            found[n] = choose(self.code, 1, some, kind.types(1), state, kind.identity(1))
        return found

    def _combine(self, levels: Entries, level: int, number: str) -> dict[int, State]:
        """All tiles (or groups) of the present group (or supergroup) before `number`; one for each lane."""
        code = self.code
        first = code.op(f"and i64 {number}, {-(1 << RADIX)}")
        index = code.op(f"add i64 {first}, {code.op(f'zext i32 {self.group.lane} to i64')}")
        some = code.op(f"icmp ult i64 {index}, {number}")
        safe = code.op(f"select i1 {some}, i64 {index}, i64 0")
        found = self._fetch(levels, levels.entry(level, safe), some)
        return {n: self.group.over_warp(kind, found[n]) for n, kind in self.kinds.items()}

    def _previous(self, levels: Entries, number: str) -> dict[int, State]:
        """All supergroups before `number`."""
        code = self.code
        some = code.op(f"icmp ne i64 {number}, 0")
        earlier = code.op(f"select i1 {some}, i64 {code.op(f'sub i64 {number}, 1')}, i64 0")
        return self._fetch(levels, levels.entry(2, earlier), some)


class Entries:
    """Where tiles, groups and supergroups of this block's row leave their states and flags."""

    def __init__(self, scan: OnePass) -> None:
        from .gpu_emit import COUNTERS

        self.scan, self.code = scan, scan.code
        emitter, code = scan.emitter, scan.code
        groups = code.op(f"lshr i64 {code.op(f'add i64 %chunks, {(1 << RADIX) - 1}')}, {RADIX}")
        above = code.op(f"lshr i64 {code.op(f'add i64 %chunks, {(1 << 2 * RADIX) - 1}')}, {2 * RADIX}")
        every = code.op(f"add i64 {code.op(f'add i64 %chunks, {groups}')}, {above}")
        first = code.op(f"mul i64 {emitter.linear(scan.frame, emitter.variant.axes)}, {every}")
        second = code.op(f"add i64 {first}, %chunks")
        self.firsts = [first, second, code.op(f"add i64 {second}, {groups}")]
        self.every = code.op(f"mul i64 {every}, {emitter.extents_of(emitter.variant.axes)}")
        self.flags = code.op(f"getelementptr i32, ptr %signals, i64 {COUNTERS}")
        self.epoch = code.op("trunc i64 %epoch to i32")

    def entry(self, level: int, number: str) -> str:
        """Number of an entry."""
        return self.code.op(f"add i64 {self.firsts[level]}, {number}")

    def places(self, n: int, entry: str) -> list[str]:
        """Where the registers of a scan's state lie."""
        code, chunks = self.code, self.scan.emitter.chunks
        found = []
        for register in range(len(self.scan.kinds[n].scalars())):
            at = code.op(f"mul i64 {self.every}, {chunks.slot(n, register)}")
            found.append(code.op(f"getelementptr i64, ptr %states, i64 {code.op(f'add i64 {at}, {entry}')}"))
        return found


def entries(chunks: int) -> int:
    """Number of tiles, groups and supergroups of a row of so many tiles."""
    return chunks + -(-chunks >> RADIX) + -(-chunks >> 2 * RADIX)


def _below(emitter: DeviceEmitter, scans: tuple[int, ...]) -> set[int]:
    """The scans and what depends on them."""
    found: set[int] = set()
    for n, value in enumerate(emitter.kernel.values):
        if n in scans or any(source in found for source in value.src):
            found.add(n)
    return found
