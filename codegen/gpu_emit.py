"""Kernel IR to LLVM IR for a graphics processor: one function, as a delta over the host's emitter.

in: a kernel and a `Variant`, one way of running (a part of) it; out: the text of a module with one entry.

A *unit* is a point of the axes that every store iterates over.  A thread works on one unit, or on neighbours of it in
a vector; or a warp or block shares one, and its threads divide the loops inside among them.
Parameters: the words of the argument row (codegen/abi.py), then those of `EXTRA`, then one pointer for each fold of
`Variant.known` and, for "join", of `Variant.folds`.
"""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.target import Target
from . import gpu_numerics
from .emit import Emitter
from .frame import Frame, State, begin, branch, parts, whole
from .gpu_access import DeviceMemory
from .gpu_loops import DeviceLoops
from .gpu_threads import Group, special
from .kernel import Kernel
from .schedule import Goal, Level, Plan, Scheduler, axes_mask
from .text import PARTS, SCALARS

EXTRA = (("i64", "units"), ("i64", "chunks"), ("i64", "length"), ("ptr", "states"))


class Variant(NamedTuple):
    """One way of running a kernel, or a part of it."""

    # "whole"; "part" (folds leave states of chunks), "join" (states become values, then what fits); for scans "sums"
    # (as "part"), "offsets" (states become those of all chunks up to each), "chunks" (as "whole", from there on)
    role: str
    stores: tuple[int, ...]
    folds: tuple[int, ...]  # of "part" and "join", or the scans
    known: tuple[tuple[int, tuple[int, ...]], ...]  # folds computed before, with the axes of their values
    axes: tuple[int, ...]  # of the units, slowest first
    vector: int  # the axis whose neighbours one thread takes together
    lanes: int  # how many
    even: bool  # whether the vector axis' extent is a multiple of `lanes`
    group: int  # threads that share a unit: 1, a warp or the block
    block: int  # threads of a block
    keep: int  # steps of the loops whose values stay in registers from loop to loop; 0: they are read again
    rows: bool  # whether the grid's second dimension counts all axes of the units but the vector axis
    tile: int  # axis that a block's warps go along, one by one; -1 for none
    deep: bool  # whether inner loops are divided rather than those around them
    small: bool  # whether units and steps can be counted in 32 bits
    aligned: int  # operands (mask) that allow 16-byte accesses
    half: int  # operands (mask) that allow 8-byte accesses
    natural: bool  # whether every element lies at a multiple of its size


def plan_level(kernel: Kernel, variant: Variant, park: bool = False) -> Level:
    """What happens at a unit."""
    scheduler = Scheduler(kernel, variant.vector, park)
    goals: list[Goal] = [("store", k) for k in variant.stores]
    known = {n for n, _ in variant.known}
    if variant.role == "part":
        goals = [("fold", n) for n in variant.folds]
    elif variant.role == "join":
        known |= set(variant.folds)
    return scheduler.level(axes_mask(variant.axes), goals, known)


class DeviceEmitter(Emitter):
    """Writes one function."""

    memory: DeviceMemory

    def __init__(
        self, kernel: Kernel, variant: Variant, target: Target, exact: bool = False, writes: bool = True
    ) -> None:  # fmt: skip
        self.level_of_unit = plan_level(kernel, variant)
        plan = Plan(variant.vector, variant.axes, self.level_of_unit, (), None)
        super().__init__(kernel, plan, target, exact, writes and variant.role != "sums")
        self.variant = variant
        self.memory = DeviceMemory(
            self.code, kernel, self.layout, self.domains, variant.vector, variant.aligned, variant.half, variant.natural
        )
        self.group: Group | None = None
        self.tile_row = "0"
        self.device = DeviceLoops(self)
        self.loops = self.device

    # ------------------------------------------------------------------ values
    def value(self, frame: Frame, n: int) -> None:
        """Compute value `n`."""
        v = self.kernel.values[n]
        if v.op in ("load", "iota", "arg", "fold", "fold_fault"):
            super().value(frame, n)
            return
        vector = self.memory.is_vector(n, frame)
        self.code.lanes = frame.lanes if vector else 1
        args = tuple(self.operand(frame, s, vector) for s in v.src)
        frame.regs[n] = gpu_numerics.apply(self.code, v.op, self.sources(n), v.dtype, args)

    def values(self, level: Level, frame: Frame, numbers: tuple[int, ...]) -> None:
        """Compute values of a level that are not kept from an earlier loop."""
        super().values(level, frame, tuple(n for n in numbers if n not in frame.regs))

    def scan(self, frame: Frame, n: int) -> str | tuple[str, str]:
        """The prefix of scan `n` at the present index."""
        if not self.device.sharing:
            return super().scan(frame, n)  # of "sums": each thread adds up its share
        return self.device.scan_step(frame, n)

    # ------------------------------------------------------------------ units
    def extents_of(self, axes: tuple[int, ...]) -> str:
        """Product of extents."""
        total = "1"
        for a in axes:
            total = self.code.op(f"mul i64 {total}, {self.extent(a)}")
        return total

    def linear(self, frame: Frame, axes: tuple[int, ...]) -> str:
        """Position of the present index among all of `axes`, the last one fastest."""
        place = "0"
        for a in axes:
            place = self.code.op(f"add i64 {self.code.op(f'mul i64 {place}, {self.extent(a)}')}, {frame.index[a]}")
        return place

    def split(self, number: str, sizes: list[str]) -> list[str]:
        """A number as digits, the last one fastest; the first digit takes what is left."""
        code, digits = self.code, []
        t = "i32" if self.variant.small else "i64"
        rest = code.op(f"trunc i64 {number} to i32") if t == "i32" else number
        for k in range(len(sizes) - 1, 0, -1):
            size = code.op(f"trunc i64 {sizes[k]} to i32") if t == "i32" else sizes[k]
            digits.append(code.op(f"urem {t} {rest}, {size}"))
            rest = code.op(f"udiv {t} {rest}, {size}")
        digits.append(rest)
        if t == "i32":
            digits = [code.op(f"zext i32 {d} to i64") for d in digits]
        return digits[::-1]

    def digits(self, number: str, sizes: list[str]) -> list[str]:
        """The unit's place along each axis."""
        if self.variant.tile >= 0:
            return [*self.split(self.tile_row, sizes[:-1]), number]
        if not self.variant.rows:
            return self.split(number, sizes)
        row = self.code.op(f"zext i32 {special(self.code, 'ctaid.y')} to i64")
        return [*self.split(row, sizes[:-1]), number]

    def unit_order(self) -> tuple[int, ...]:
        """The unit's axes, the vector axis last."""
        axes, last = self.variant.axes, [a for a in (self.variant.tile, self.variant.vector) if a in self.variant.axes]
        return (*(a for a in axes if a not in last), *last)

    def unit(self, number: str) -> None:
        """Emit unit `number`."""
        variant, code = self.variant, self.code
        order = self.unit_order()
        wide = variant.lanes > 1 and variant.vector in order
        sizes = [self.extent(a) for a in order]
        if not wide:
            self._at(dict(zip(order, self.digits(number, sizes), strict=True)) if order else {}, 1)
            return
        whole_steps = code.op(f"udiv i64 {sizes[-1]}, {variant.lanes}")
        rest = "0" if variant.even else code.op(f"urem i64 {sizes[-1]}, {variant.lanes}")
        sizes[-1] = whole_steps if variant.even else code.op(f"add i64 {whole_steps}, {rest}")
        digits = self.digits(number, sizes)
        index = dict(zip(order[:-1], digits[:-1], strict=True))
        first = code.op(f"mul i64 {digits[-1]}, {variant.lanes}")
        if variant.even:
            self._at({**index, order[-1]: first}, variant.lanes)
            return
        full, single, done = code.label("full"), code.label("single"), code.label("unitend")
        branch(code, code.op(f"icmp ult i64 {digits[-1]}, {whole_steps}"), full, single)
        code.start(full)
        self._at({**index, order[-1]: first}, variant.lanes)
        code.add(f"br label %{done}")
        code.start(single)
        skipped = code.op(f"mul i64 {whole_steps}, {variant.lanes - 1}")
        self._at({**index, order[-1]: code.op(f"add i64 {digits[-1]}, {skipped}")}, 1)
        begin(code, done)

    def _at(self, index: dict[int, str], lanes: int) -> None:
        frame = Frame()
        frame.index, frame.lanes = index, lanes
        self.device.begin()
        for n, axes in self.variant.known:
            frame.regs[n] = self.recall(frame, n, axes)
        if self.variant.role == "join":
            for n in self.variant.folds:
                self.device.gather(frame, n)
        if self.variant.role == "offsets":
            for n in self.variant.folds:
                self.device.accumulate(frame, n)
            return
        self.level(self.level_of_unit, frame)

    def report(self, frame: Frame, values: list[int], bail: str | None) -> None:
        """Check values for faults; the sums of chunks are no values yet."""
        if self.variant.role != "sums":
            super().report(frame, values, bail)

    def after(self, level: Level, frame: Frame, computed: list[int], bail: str | None = None) -> dict[int, State]:
        """As the host's; what a whole group stores, one thread stores."""
        outside = self.group is not None and not self.device.inside
        if outside and level.stores:
            assert self.group is not None
            if any(self.kernel.operands[self.kernel.stores[k].operand].access == "rw" for k in level.stores):
                self.group.sync()  # others may still have to read what is overwritten
            self.memory.guard = self.group.leader
        states = super().after(level, frame, computed, bail)
        if outside:
            self.memory.guard = None
        return states

    # ------------------------------------------------------------------ folds from launch to launch
    def _cells(self, pointer: str, n: int, place: str, lanes: int) -> list[list[tuple[str, str, str]]]:
        """For each lane and register of a value: (type in memory, type, address); values side by side."""
        dtype = self.kernel.values[n].dtype
        part = PARTS.get(dtype)
        types = [SCALARS[part]] * 2 if part else [SCALARS[dtype]]
        found = []
        for lane in range(lanes):
            row = []
            for k, t in enumerate(types):
                at = self.code.op(f"add i64 {place}, {lane}")
                at = self.code.op(f"add i64 {self.code.op(f'mul i64 {at}, {len(types)}')}, {k}")
                row.append(("i8" if t == "i1" else t, t, self.code.op(f"getelementptr i64, ptr {pointer}, i64 {at}")))
            found.append(row)
        return found

    def recall(self, frame: Frame, n: int, axes: tuple[int, ...]) -> str | tuple[str, str]:
        """The value of a fold that an earlier launch has left."""
        code = self.code
        lanes = frame.lanes if self.variant.vector in axes else 1
        registers: list[list[str]] = []
        for row in self._cells(f"%value{n}", n, self.linear(frame, axes), lanes):
            loaded = [code.op(f"load {m}, ptr {where}, align 8") for m, _, where in row]
            registers.append([
                code.op(f"trunc i8 {r} to i1") if t == "i1" else r for r, (_, t, _) in zip(loaded, row, strict=True)
            ])  # fmt: skip
        if lanes == 1:
            return whole(registers[0])
        dtype = self.kernel.values[n].dtype
        scalar, result = SCALARS[PARTS.get(dtype, dtype)], []
        for part in range(len(registers[0])):
            vector = "poison"
            for k in range(lanes):
                vector = code.op(f"insertelement <{lanes} x {scalar}> {vector}, {scalar} {registers[k][part]}, i64 {k}")
            result.append(vector)
        return whole(result)

    def leave_value(self, frame: Frame, n: int) -> None:
        """Leave the value of fold `n` for a later launch."""
        code = self.code
        lanes = frame.lanes if self.memory.is_vector(n, frame) else 1
        dtype = self.kernel.values[n].dtype
        scalar = SCALARS[PARTS.get(dtype, dtype)]
        rows = self._cells(f"%value{n}", n, self.linear(frame, self.variant.axes), lanes)
        for k, row in enumerate(rows):
            for (memory, t, where), register in zip(row, parts(frame.regs[n]), strict=True):
                one = register if lanes == 1 else code.op(f"extractelement <{lanes} x {scalar}> {register}, i64 {k}")
                one = code.op(f"zext i1 {one} to i8") if t == "i1" else one
                code.add(f"store {memory} {one}, ptr {where}, align 8")

    def state_slot(self, n: int, register: int) -> int:
        """Number of a state's register among those of all partial folds."""
        before = 0
        for p in self.variant.folds:
            if p == n:
                return before + register
            before += len(self.kinds[p].scalars())
        raise KeyError(n)

    # ------------------------------------------------------------------ the function
    def function(self, name: str) -> str:
        """The text of the entry."""
        code, variant = self.code, self.variant
        thread, block = special(code, "tid.x"), special(code, "ctaid.x")
        each = variant.block // variant.group  # units of a block
        if variant.group > 1:
            self.group = Group(code, variant.group, variant.block, thread)
        number = code.op(f"zext i32 {block} to i64")
        if each > 1:
            own = thread if variant.group == 1 else code.op(f"udiv i32 {thread}, {variant.group}")
            number = code.op(f"mul i64 {number}, {each}")
            number = code.op(f"add i64 {number}, {code.op(f'zext i32 {own} to i64')}")
        work, leave = code.label("work"), code.label("leave")
        if variant.tile >= 0:
            number, within = self._tile(thread, block)
        else:
            within = code.op(f"icmp ult i64 {number}, %units")
        branch(code, within, work, leave)
        code.start(work)
        self.unit(number)
        self._finish_flag()
        begin(code, leave)
        code.add("ret void")
        parameters = [*self.memory.parameters(), *(f"{t} %{label}" for t, label in EXTRA)]
        parameters += [f"ptr %value{n}" for n in values_of(variant)]
        return code.function(f"define ptx_kernel void @{name}({', '.join(parameters)}) #0")

    def _tile(self, thread: str, block: str) -> tuple[str, str]:
        """(index along the vector axis, whether the thread has a point) in a tile of a warp's width."""
        code = self.code
        column = code.op(f"add i32 {code.op(f'mul i32 {block}, 32')}, {code.op(f'and i32 {thread}, 31')}")
        row = code.op(f"mul i32 {special(code, 'ctaid.y')}, {self.variant.block // 32}")
        row = code.op(f"add i32 {row}, {code.op(f'lshr i32 {thread}, 5')}")
        column, self.tile_row = (code.op(f"zext i32 {r} to i64") for r in (column, row))
        rows = self.extents_of(self.unit_order()[:-1])
        first = code.op(f"icmp ult i64 {column}, {self.extent(self.variant.vector)}")
        second = code.op(f"icmp ult i64 {self.tile_row}, {rows}")
        return column, code.op(f"and i1 {first}, {second}")

    def _finish_flag(self) -> None:
        code = self.code
        if self.flag is None:
            return
        found = code.op(f"load i32, ptr {self.flag}")
        tell, told = code.label("tell"), code.label("told")
        branch(code, code.op(f"icmp ne i32 {found}, 0"), tell, told)
        code.start(tell)
        code.add(f"store volatile i8 1, ptr {self.memory.word(self.layout.fault, 'ptr')}")
        begin(code, told)


def values_of(variant: Variant) -> tuple[int, ...]:
    """Folds whose values are pointers behind the other parameters."""
    return (*(n for n, _ in variant.known), *(variant.folds if variant.role == "join" else ()))


def emit_device(
    kernel: Kernel, variant: Variant, target: Target, name: str, exact: bool = False, writes: bool = True
) -> str:  # fmt: skip
    """Text of the module with the entry `name`."""
    emitter = DeviceEmitter(kernel, variant, target, exact, writes)
    function = emitter.function(name)
    attributes = f'attributes #0 = {{ nounwind convergent "nvvm.maxntid"="{variant.block}" }}'
    return "\n".join([*emitter.code.declarations, function, attributes, ""])
