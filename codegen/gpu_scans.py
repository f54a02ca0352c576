"""Scans of long rows in one pass over memory: each block has a tile in registers, and looks at what those before left.

The association is a tree fixed by the extents: lanes of a warp, steps of a thread, warps of a tile; then tiles by
groups of 32, groups by supergroups of 32, supergroups one after the other.  A tile waits only for earlier ones: blocks
begin in the order of their numbers, as NVIDIA's own library of scans takes for granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .folds import Kind, choose, join, lift
from .frame import Frame, State, begin, branch, lanes_of, parts, whole
from .gpu_threads import BITS, WARP, Group, back, barrier, word
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
        cells = Cells(self)
        group, above = code.op(f"lshr i64 {tile}, {RADIX}"), code.op(f"lshr i64 {tile}, {2 * RADIX}")
        self._publish(cells, 0, tile, total)
        told = self._if_last(tile, RADIX)  # of a group: whole groups need it at once
        tiles = self._over(self._await(cells, [self._around(cells, 0, tile)])[0])
        self._publish(cells, 1, group, self._join(tiles, total))
        begin(code, told)
        wanted = [self._around(cells, 0, tile), self._around(cells, 1, group), self._previous(cells, above)]
        first, second, before = self._await(cells, wanted)
        tiles, groups = self._over(first), self._over(second)
        told = self._if_last(tile, 2 * RADIX)
        every = self._join(groups, self._join(tiles, total))
        self._publish(cells, 2, above, self._join(before, every))
        begin(code, told)
        return self._join(self._join(before, groups), tiles)

    def _if_last(self, tile: str, width: int) -> str:
        """Begin what only the last tile of each 2**width does; gives the label behind it."""
        code, mask = self.code, (1 << width) - 1
        tell, told = code.label("tell"), code.label("told")
        branch(code, code.op(f"icmp eq i64 {code.op(f'and i64 {tile}, {mask}')}, {mask}"), tell, told)
        code.start(tell)
        return told

    def _join(self, a: dict[int, State], b: dict[int, State]) -> dict[int, State]:
        return {n: join(self.code, kind, 1, a[n], b[n]) for n, kind in self.kinds.items()}

    def _over(self, states: dict[int, State]) -> dict[int, State]:
        return {n: self.group.over_warp(kind, states[n]) for n, kind in self.kinds.items()}

    def _publish(self, cells: Cells, level: int, number: str, states: dict[int, State]) -> None:
        """The first lane leaves states for others."""
        code = self.code
        entry = cells.entry(level, number)
        put, done = code.label("put"), code.label("done")
        branch(code, code.op(f"icmp eq i32 {self.group.lane}, 0"), put, done)
        code.start(put)
        for n, kind in self.kinds.items():
            for t, r, where in zip(kind.scalars(), states[n], cells.places(n, entry), strict=True):
                cells.put(t, r, where)
        begin(code, done)

    def _await(self, cells: Cells, wanted: list[tuple[str, str]]) -> list[dict[int, State]]:
        """The states of some entries, each with whether this lane wants it, once all of them are there."""
        code = self.code
        places = [{n: cells.places(n, entry) for n in self.kinds} for entry, _ in wanted]
        look, there = code.label("look"), code.label("there")
        begin(code, look)
        found: list[dict[int, State]] = []
        ready = "true"
        for (_, some), where in zip(wanted, places, strict=True):
            states: dict[int, State] = {}
            for n, kind in self.kinds.items():
                states[n] = []
                for t, place in zip(kind.scalars(), where[n], strict=True):
                    register, fresh = cells.get(t, place)
                    states[n].append(register)
                    fresh = code.op(f"or i1 {fresh}, {code.op(f'xor i1 {some}, true')}")
                    ready = code.op(f"and i1 {ready}, {fresh}")
            found.append(states)
        branch(code, ready, there, look)
        code.start(there)
        return [
            {n: choose(code, 1, some, kind.types(1), states[n], kind.identity(1)) for n, kind in self.kinds.items()}
            for (_, some), states in zip(wanted, found, strict=True)
        ]

    def _around(self, cells: Cells, level: int, number: str) -> tuple[str, str]:
        """Each lane's tile (or group) of the present group (or supergroup), wanted if it lies before `number`."""
        code = self.code
        first = code.op(f"and i64 {number}, {-(1 << RADIX)}")
        index = code.op(f"add i64 {first}, {code.op(f'zext i32 {self.group.lane} to i64')}")
        some = code.op(f"icmp ult i64 {index}, {number}")
        return cells.entry(level, code.op(f"select i1 {some}, i64 {index}, i64 0")), some

    def _previous(self, cells: Cells, number: str) -> tuple[str, str]:
        """All supergroups before `number`."""
        code = self.code
        some = code.op(f"icmp ne i64 {number}, 0")
        earlier = code.op(f"select i1 {some}, i64 {code.op(f'sub i64 {number}, 1')}, i64 0")
        return cells.entry(2, earlier), some


class Cells:
    """Where tiles, groups and supergroups of this block's row leave their states.

    A cell holds one register in words of 64 bits, each with 32 bits of it below the launch's number: who sees the
    number in a word sees what belongs to it, in whatever order words are written.
    """

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
        self.base = code.op(f"getelementptr i32, ptr %signals, i64 {COUNTERS}")
        self.stamp = code.op("shl i64 %epoch, 32")

    def entry(self, level: int, number: str) -> str:
        """Number of an entry."""
        return self.code.op(f"add i64 {self.firsts[level]}, {number}")

    def places(self, n: int, entry: str) -> list[str]:
        """The cells of an entry's state of scan `n`."""
        code, chunks = self.code, self.scan.emitter.chunks
        found = []
        for register in range(len(self.scan.kinds[n].scalars())):
            at = code.op(f"add i64 {code.op(f'mul i64 {self.every}, {chunks.slot(n, register)}')}, {entry}")
            found.append(code.op(f"getelementptr [2 x i64], ptr {self.base}, i64 {at}"))
        return found

    def put(self, type: str, register: str, where: str) -> None:
        """Fill a cell."""
        code, bits = self.code, word(self.code, type, register)
        if BITS[type] < 64:
            both = code.op(f"or i64 {code.op(f'zext i32 {bits} to i64')}, {self.stamp}")
            code.add(f"store volatile i64 {both}, ptr {where}, align 16")
            return
        halves = code.op(f"and i64 {bits}, {0xFFFFFFFF}"), code.op(f"lshr i64 {bits}, 32")
        vector = "poison"
        for k, half in enumerate(halves):
            both = code.op(f"or i64 {half}, {self.stamp}")
            vector = code.op(f"insertelement <2 x i64> {vector}, i64 {both}, i64 {k}")
        code.add(f"store volatile <2 x i64> {vector}, ptr {where}, align 16")

    def get(self, type: str, where: str) -> tuple[str, str]:
        """(register, whether it is there) of a cell."""
        code = self.code
        if BITS[type] < 64:
            words = [code.op(f"load volatile i64, ptr {where}, align 16")]
        else:
            both = code.op(f"load volatile <2 x i64>, ptr {where}, align 16")
            words = [code.op(f"extractelement <2 x i64> {both}, i64 {k}") for k in (0, 1)]
        fresh = [code.op(f"icmp eq i64 {code.op(f'lshr i64 {w}, 32')}, %epoch") for w in words]
        if len(words) == 1:
            return back(code, type, code.op(f"trunc i64 {words[0]} to i32")), fresh[0]
        low = code.op(f"and i64 {words[0]}, {0xFFFFFFFF}")
        bits = code.op(f"or i64 {code.op(f'shl i64 {words[1]}, 32')}, {low}")
        return back(code, type, bits), code.op(f"and i1 {fresh[0]}, {fresh[1]}")


CELL = 4  # words of 32 bits


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
