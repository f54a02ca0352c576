"""What blocks leave for each other in memory: states of folds, values, and who comes first or last.

in: frames and states of the emitted function; out: code.  States lie as [fold's register][chunk][unit], with room for 8
bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .folds import Kind, join
from .frame import Frame, State, begin, branch, counted, parts, whole
from .gpu_threads import BITS, barrier, fence
from .text import PARTS, SCALARS

if TYPE_CHECKING:
    from .gpu_emit import DeviceEmitter

AHEAD = 8  # states that a thread reads at the same time


class Chunks:
    """The exchange between the blocks of one device function."""

    def __init__(self, emitter: DeviceEmitter) -> None:
        self.emitter, self.code = emitter, emitter.code
        self.number = "0"  # register: the tile that a block has taken

    # ------------------------------------------------------------------ turns
    def _told(self, name: str, label: str, made: str) -> str:
        """What the leader has found out, for all threads of the block."""
        code = self.code
        code.declare(f"@{name} = internal addrspace(3) global [1 x i32] undef, align 4")
        code.add(f"store i32 {made}, ptr addrspace(3) @{name}")
        begin(code, label)
        barrier(code)
        return code.op(f"load i32, ptr addrspace(3) @{name}")

    def is_last(self, thread: str) -> str:
        """Whether all other chunks of this block's units are done (i1); the counter ends where it began."""
        code = self.code
        fence(code)
        barrier(code)
        count, told = code.label("count"), code.label("told")
        branch(code, code.op(f"icmp eq i32 {thread}, 0"), count, told)
        code.start(count)
        where = code.op(f"getelementptr i32, ptr %signals, i64 {self.emitter.special('ctaid.x')}")
        most = code.op(f"trunc i64 {code.op('sub i64 %chunks, 1')} to i32")
        found = code.op(f'atomicrmw uinc_wrap ptr {where}, i32 {most} syncscope("device") acq_rel')
        last = code.op(f"zext i1 {code.op(f'icmp eq i32 {found}, {most}')} to i32")
        last = self._told("islast", told, last)
        fence(code)
        return code.op(f"icmp ne i32 {last}, 0")

    # ------------------------------------------------------------------ states
    def slot(self, n: int, register: int) -> int:
        """Number of a state's register among those of all partial folds."""
        before = 0
        for p in self.emitter.variant.folds:
            if p == n:
                return before + register
            before += len(self.emitter.kinds[p].scalars())
        raise KeyError(n)

    def _place(self, n: int, register: int, chunk: str, unit: str) -> str:
        """Address of the first unit's register."""
        code, emitter = self.code, self.emitter
        units = emitter.extents_of(emitter.variant.axes)
        room = code.op(f"mul i64 {code.op(f'mul i64 %chunks, {units}')}, {self.slot(n, register)}")
        first = code.op(f"getelementptr i64, ptr %states, i64 {room}")
        at = code.op(f"add i64 {code.op(f'mul i64 {chunk}, {units}')}, {unit}")
        return code.op(f"getelementptr {self._type(n, register)}, ptr {first}, i64 {at}")

    def _type(self, n: int, register: int) -> str:
        """Type of a state's register in memory."""
        t = self.emitter.kinds[n].scalars()[register]
        return "i8" if t == "i1" else t

    def put(self, type: str, register: str, where: str) -> None:
        """Store a scalar."""
        if type == "i1":
            type, register = "i8", self.code.op(f"zext i1 {register} to i8")
        self.code.add(f"store {type} {register}, ptr {where}, align {max(BITS[type] // 8, 1)}")

    def get(self, type: str, where: str) -> str:
        """Load a scalar."""
        r = self.code.op(f"load {'i8' if type == 'i1' else type}, ptr {where}, align {max(BITS[type] // 8, 1)}")
        return self.code.op(f"trunc i8 {r} to i1") if type == "i1" else r

    def _lanes(self, frame: Frame) -> int:
        """Units of a frame, side by side."""
        return frame.lanes if self.emitter.variant.vector in self.emitter.variant.axes else 1

    def _varies(self, n: int) -> bool:
        """Whether a fold's value differs between the lanes of a frame; of uniform values it does not."""
        along = self.emitter.variant.vector
        return along >= 0 and bool(self.emitter.domains[n] >> along & 1)

    def leave(self, frame: Frame, n: int, state: State, lanes: int) -> None:
        """Leave the state of this block's chunk, for each unit of the frame."""
        code, emitter = self.code, self.emitter
        kind = emitter.kinds[n]
        if emitter.group is not None:
            leave, left = code.label("leave"), code.label("left")
            branch(code, emitter.group.leader, leave, left)
            code.start(leave)
        chunk, unit = emitter.special("ctaid.y"), emitter.linear(frame, emitter.variant.axes)
        for register, (t, r) in enumerate(zip(kind.scalars(), state, strict=True)):
            place = self._place(n, register, chunk, unit)
            if lanes > 1 and t != "i1":
                code.add(f"store <{lanes} x {t}> {r}, ptr {place}, align {self._align(t)}")
                continue
            for lane in range(self._lanes(frame)):
                one = r if lanes == 1 else code.op(f"extractelement <{lanes} x {t}> {r}, i64 {lane}")
                self.put(t, one, code.op(f"getelementptr {self._type(n, register)}, ptr {place}, i64 {lane}"))
        if emitter.group is not None:
            code.add(f"br label %{left}")
            code.start(left)

    def _align(self, type: str) -> int:
        """Of the states of neighbours."""
        variant = self.emitter.variant
        return 16 if variant.even and variant.lanes * BITS[type] >= 128 else BITS[type] // 8

    def _fetch(self, kind: Kind, places: list[str], chunk: str, lanes: int) -> State:
        """The state of a chunk, from the places of the first chunk's registers."""
        code, fetched = self.code, []
        offset = code.op(f"mul i64 {chunk}, {self.emitter.extents_of(self.emitter.variant.axes)}")
        for t, place in zip(kind.scalars(), places, strict=True):
            memory = "i8" if t == "i1" else t
            where = code.op(f"getelementptr {memory}, ptr {place}, i64 {offset}")
            if lanes == 1:
                fetched.append(self.get(t, where))
                continue
            if t != "i1":
                fetched.append(code.op(f"load <{lanes} x {t}>, ptr {where}, align {self._align(t)}"))
                continue
            vector = "poison"
            for k in range(lanes):
                one = self.get(t, code.op(f"getelementptr {memory}, ptr {where}, i64 {k}"))
                vector = code.op(f"insertelement <{lanes} x {t}> {vector}, {t} {one}, i64 {k}")
            fetched.append(vector)
        return fetched

    def gather(self, frame: Frame, n: int) -> None:
        """Combine the states that the chunks have left for the frame's units."""
        code, emitter, kind = self.code, self.emitter, self.emitter.kinds[n]
        lanes = self._lanes(frame) if self._varies(n) else 1
        unit = emitter.linear(frame, emitter.variant.axes)
        places = [self._place(n, k, "0", unit) for k in range(len(kind.scalars()))]
        group = emitter.group
        first, step = (group.number, emitter.variant.group) if group is not None else ("0", 1)
        ahead = AHEAD if group is None else AHEAD // 2

        def at(chunk: str, state: State) -> State:
            found = []
            for k in range(ahead):
                number = code.op(f"add i64 {chunk}, {k * step}")
                within = code.op(f"icmp slt i64 {number}, %chunks")
                safe = code.op(f"select i1 {within}, i64 {number}, i64 {chunk}")
                found.append((within, self._fetch(kind, places, safe, lanes)))
            for within, other in found:
                joined = join(code, kind, lanes, state, other)
                state = [
                    code.op(f"select i1 {within}, {t} {x}, {t} {y}")
                    for t, x, y in zip(kind.types(lanes), joined, state, strict=True)
                ]
            return state

        state = counted(code, first, "%chunks", step * ahead, kind.types(lanes), kind.identity(lanes), at)
        if group is not None:
            state = group.total(kind, state)
        frame.regs[n] = emitter.device.result(n, kind, state, lanes)
        emitter.check_fold(frame, n, lanes)
        if n in emitter.leaves:
            self._leave_value(frame, n, lanes)

    # ------------------------------------------------------------------ values, from launch to launch
    def _cells(self, pointer: str, n: int, place: str, lanes: int) -> list[list[tuple[str, str]]]:
        """For each lane and register of a value: (type, address); registers side by side."""
        dtype = self.emitter.kernel.values[n].dtype
        part = PARTS.get(dtype)
        types = [SCALARS[part]] * 2 if part else [SCALARS[dtype]]
        found = []
        for lane in range(lanes):
            row = []
            for k, t in enumerate(types):
                at = self.code.op(f"add i64 {place}, {lane}")
                at = self.code.op(f"add i64 {self.code.op(f'mul i64 {at}, {len(types)}')}, {k}")
                row.append((t, self.code.op(f"getelementptr i64, ptr {pointer}, i64 {at}")))
            found.append(row)
        return found

    def recall(self, frame: Frame, n: int, axes: tuple[int, ...]) -> str | tuple[str, str]:
        """The value of a fold that an earlier launch has left."""
        code, emitter = self.code, self.emitter
        lanes = frame.lanes if emitter.variant.vector in axes and self._varies(n) else 1
        rows = self._cells(f"%value{n}", n, emitter.linear(frame, axes), lanes)
        registers = [[self.get(t, where) for t, where in row] for row in rows]
        if lanes == 1:
            return whole(registers[0])
        dtype = emitter.kernel.values[n].dtype
        scalar, result = SCALARS[PARTS.get(dtype, dtype)], []
        for part in range(len(registers[0])):
            vector = "poison"
            for k in range(lanes):
                vector = code.op(f"insertelement <{lanes} x {scalar}> {vector}, {scalar} {registers[k][part]}, i64 {k}")
            result.append(vector)
        return whole(result)

    def _leave_value(self, frame: Frame, n: int, lanes: int) -> None:
        """Leave the value of fold `n` for a later launch."""
        code, emitter = self.code, self.emitter
        dtype = emitter.kernel.values[n].dtype
        scalar = SCALARS[PARTS.get(dtype, dtype)]
        if emitter.group is not None:
            leave, left = code.label("leave"), code.label("left")
            branch(code, emitter.group.leader, leave, left)
            code.start(leave)
        rows = self._cells(f"%value{n}", n, emitter.linear(frame, emitter.variant.axes), lanes)
        for k, row in enumerate(rows):
            for (t, where), register in zip(row, parts(frame.regs[n]), strict=True):
                one = register if lanes == 1 else code.op(f"extractelement <{lanes} x {scalar}> {register}, i64 {k}")
                self.put(t, one, where)
        if emitter.group is not None:
            code.add(f"br label %{left}")
            code.start(left)
