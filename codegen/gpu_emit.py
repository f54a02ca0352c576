"""Kernel IR to LLVM IR for a graphics processor: one function, as a delta over the host's emitter.

in: a kernel and a `Variant`, one way of running (a part of) it; out: the text of a module with one entry.

A *unit* is a point of the axes that every store iterates over.  A thread works on one unit, or on neighbours of it in
a vector; or a warp or block shares one, and its threads divide the loops inside among them.
Parameters: the words of the argument row (codegen/abi.py), then those of `EXTRA`, then one pointer for each fold whose
value comes from an earlier launch or goes to a later one (`values_of`).
"""

from __future__ import annotations

from itertools import product

from ..runtime.target import Target
from ..runtime.tuples import NamedTuple
from . import gpu_numerics
from .emit import Emitter
from .faults import shows
from .frame import Frame, State, begin, branch, lanes_of
from .gpu_access import DeviceMemory
from .gpu_attempt import ORDINARY, Trial, root
from .gpu_chunks import Chunks
from .gpu_division import divided, ordinary, quick, quotient
from .gpu_loops import DeviceLoops
from .gpu_shifts import Shift
from .gpu_threads import Group, special
from .gpu_tiles import Tiles
from .kernel import Kernel
from .schedule import Goal, Level, Plan, Scheduler, axes_mask
from .text import SCALARS

# `signals`: `COUNTERS` words that every launch leaves at 0, then those in which tiles of scans leave `epoch`, a number
# that no earlier launch had.
EXTRA = (
    ("i64", "units"), ("i64", "chunks"), ("i64", "length"), ("ptr", "states"), ("ptr", "signals"), ("i64", "epoch"),
)  # fmt: skip
COUNTERS = 4096


class Variant(NamedTuple):
    """One way of running a kernel, or a part of it."""

    # "whole"; "part" (folds leave states of chunks; the last block to finish makes the values, and stores what waits
    # for nothing else); "scan" (blocks take tiles of a row one after the other, and look at what those before left)
    role: str
    stores: tuple[int, ...]
    folds: tuple[int, ...]  # of "part", or the scans
    known: tuple[tuple[int, tuple[int, ...]], ...]  # folds computed before, with the axes of their values
    axes: tuple[int, ...]  # of the units, slowest first
    vector: int  # the axis whose neighbours one thread takes together
    lanes: int  # how many
    even: bool  # whether the vector axis' extent is a multiple of `lanes`
    group: int  # threads that share a unit: 1, a warp or the block
    block: int  # threads of a block
    keep: int  # steps of the loops written out, their values in registers from loop to loop; 0: they are read again
    full: bool  # whether every thread has all of these steps
    stack: int  # units, or rows, that a thread or a group takes at the same time
    rows: bool  # whether the grid's second dimension counts all axes of the units but the vector axis
    shifts: tuple[Shift, ...]  # loads told by another one's pointer
    skews: tuple[tuple[int, int], ...]  # of these loads, bytes from the last place for a wide access to the operand
    thick: int  # rows that a block takes side by side; those of `stack` then lie along the axis before
    tall: int  # rows side by side that a thread takes, of those
    tile: int  # axis that a block's warps go along, one by one; -1 for none
    shell: bool  # whether tiles come in an order in which those that lie across each other are neighbours
    deep: bool  # whether inner loops are divided rather than those around them
    square: bool  # whether a chunk is a range of the first folded axis, one index a thread, by one of the second
    fixed: tuple[tuple[int, int], ...]  # axes of short inner loops, with their extents: such loops are written out
    small: bool  # whether units and steps can be counted in 32 bits
    aligned: int  # operands (mask) that allow 16-byte accesses
    half: int  # operands (mask) that allow 8-byte accesses
    natural: bool  # whether every element lies at a multiple of its size
    resident: int  # threads of a processor whose registers there has to be room for; 0: the assembler chooses
    unroll: int  # steps of a loop that are written out


def plan_level(kernel: Kernel, variant: Variant, park: bool = False) -> Level:
    """What happens at a unit."""
    scheduler = Scheduler(kernel, variant.vector, park)
    goals: list[Goal] = [("store", k) for k in variant.stores]
    known = {n for n, _ in variant.known}
    if variant.role == "part":
        goals = [("fold", n) for n in variant.folds]
    return scheduler.level(axes_mask(variant.axes), goals, known)


def last_level(kernel: Kernel, variant: Variant) -> Level:
    """What the last block of a "part" does with the values."""
    goals: list[Goal] = [("store", k) for k in variant.stores]
    known = {n for n, _ in variant.known} | set(variant.folds)
    return Scheduler(kernel, variant.vector, False).level(axes_mask(variant.axes), goals, known)


class DeviceEmitter(Emitter):
    """Writes one function."""

    memory: DeviceMemory

    def __init__(
        self, kernel: Kernel, variant: Variant, target: Target, exact: bool = False, writes: bool = True
    ) -> None:  # fmt: skip
        self.level_of_unit = plan_level(kernel, variant)
        plan = Plan(variant.vector, variant.axes, self.level_of_unit, (), None)
        super().__init__(kernel, plan, target, exact, writes)
        self.variant = variant
        self.last = last_level(kernel, variant) if variant.role == "part" else None
        self.joining = False  # the last block is at work
        self.greatest: dict[str, str] = {}  # dtype -> where the greatest exponent of its results is kept
        self.trial: Trial | None = None  # of shortcuts
        self.usual = False  # where they do not
        self.leaves = set(variant.folds) if variant.role == "part" and not variant.stores else set()
        self.memory = DeviceMemory(
            self.code, kernel, self.layout, self.domains, variant.vector, variant.aligned, variant.half, variant.natural
        )
        self.memory.shifts = {n: (base, steps) for n, base, steps in variant.shifts}
        self.memory.shifts |= {base: (base, (0,) * kernel.rank) for _, base, _ in variant.shifts}
        self.memory.skews = dict(variant.skews)
        self.group: Group | None = None
        self.row = "0"  # register: the place along all axes of the unit but the vector axis
        self.places: list[str] = []  # registers: the places along each of them, where they are known
        self.chunks = Chunks(self)
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
        if v.op == "divide" and v.dtype == "f8" and self._many(n):
            frame.regs[n] = self._quotient(n, str(args[0]), str(args[1]))
            return
        if v.op == "sqrt" and v.dtype in ORDINARY and self.trial is not None:
            frame.regs[n], fits = root(self.code, v.dtype, str(args[0]))
            self.trial.fits.append(fits)
            return
        frame.regs[n] = gpu_numerics.apply(self.code, v.op, self.sources(n), v.dtype, args)

    def notes(self) -> list[tuple[str, str]]:
        """(type, address) of what is kept of faults so far."""
        return [("i32", where) for where in (*self.greatest.values(), *([self.flag] if self.flag else []))]

    def _many(self, n: int) -> bool:
        """Whether quotient `n` is one of many that a thread divides by the same number."""
        dividend, divisor = self.kernel.values[n].src
        around = axes_mask(self.variant.axes) | self.domains[divisor]
        return self.variant.keep > 1 and bool(self.domains[dividend] & ~around) and not self.domains[divisor] & ~around

    def _quotient(self, n: int, x: str, s: str) -> str:
        """Quotient `n`: of all that a thread has it is asked once whether they are ordinary, where all are there."""
        if self.usual:
            return divided(self.code, x, s)
        dividend, frames = self.kernel.values[n].src[0], self.device.before
        if self.trial is None or not frames or any(dividend not in frame.regs for frame in frames):
            return quotient(self.code, x, s)
        if n not in self.device.ordinary:
            self.device.ordinary.add(n)
            self.trial.leave(self.code, ordinary(self.code, [s, *(str(frame.regs[dividend]) for frame in frames)]))
        return quick(self.code, x, s)

    def _number(self, word: int, dtype: str) -> str:
        if dtype != "f4":
            return super()._number(word, dtype)
        low = self.code.op(f"trunc i64 {self.memory.word(word)} to i32")
        return self.code.op(f"bitcast i32 {low} to float")

    def values(self, level: Level, frame: Frame, numbers: tuple[int, ...]) -> None:
        """Compute values of a level that are not kept from an earlier loop."""
        super().values(level, frame, tuple(n for n in numbers if n not in frame.regs))

    def scan(self, frame: Frame, n: int) -> str | tuple[str, str]:
        """The prefix of scan `n` at the present index."""
        return self.device.scan_step(frame, n) if self.device.sharing else super().scan(frame, n)

    def suspect(self, condition: str) -> None:
        """Note that something is suspicious if `condition` (i1) holds, without a branch: loads may move across."""
        former = self.code.op(f"load i32, ptr {self.flag}")
        self.code.add(f"store i32 {self.code.op(f'select i1 {condition}, i32 1, i32 {former}')}, ptr {self.flag}")

    def report(self, frame: Frame, values: list[int], bail: str | None) -> None:
        """Check values for faults; of real results the greatest exponent is kept, and looked at in the end."""
        rest = []
        for n in values:
            v = self.kernel.values[n]
            if self.flag is None or n not in self.checked or not shows(v.op, self.sources(n), v.dtype, v.fault):
                rest.append(n)
                continue
            lanes = frame.lanes if self.memory.is_vector(n, frame) else 1
            for k in range(lanes):
                self._measure(v.dtype, lanes_of(self.code, SCALARS[v.dtype], lanes, str(frame.regs[n]), k, 1))
        if rest:
            super().report(frame, rest, bail)

    def _measure(self, dtype: str, number: str) -> None:
        """Keep the word with the exponent if it is greater than those so far."""
        code = self.code
        if dtype not in self.greatest:
            self.greatest[dtype] = code.alloca("i32", 4)
            code.slots.append(f"  store i32 0, ptr {self.greatest[dtype]}")
        word = code.op(f"bitcast {SCALARS[dtype]} {number} to {'i32' if dtype == 'f4' else 'i64'}")
        if dtype == "f8":
            word = code.op(f"trunc i64 {code.op(f'lshr i64 {word}, 32')} to i32")
        word = code.op(f"and i32 {word}, {0x7FFFFFFF}")
        former = code.op(f"load i32, ptr {self.greatest[dtype]}")
        most = code.call("i32", "llvm.umax.i32", ("i32", former), ("i32", word))
        code.add(f"store i32 {most}, ptr {self.greatest[dtype]}")

    # ------------------------------------------------------------------ units
    def extent(self, axis: int) -> str:
        """An axis' extent: a register, or a constant."""
        for a, extent in self.variant.fixed:
            if a == axis:
                return str(extent)
        return super().extent(axis)

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
        if self.places:
            return [*self.places, number]
        return [*self.split(self.row, sizes[:-1]), number] if self.variant.rows else self.split(number, sizes)

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
            frame.regs[n] = self.chunks.recall(frame, n, axes)
        if not self.joining:
            self.level(self.level_of_unit, frame)
            return
        assert self.last is not None
        for n in self.variant.folds:
            self.chunks.gather(frame, n)
        self.level(self.last, frame)

    def after(self, level: Level, frame: Frame, computed: list[int], bail: str | None = None) -> dict[int, State]:
        """As the host's; what a whole group stores, one thread stores."""
        outside = self.group is not None and not self.device.inside
        if outside and level.stores:
            assert self.group is not None
            if any(self.kernel.operands[self.kernel.stores[k].operand].access == "rw" for k in level.stores):
                self.group.sync()  # others may still have to read what is overwritten
        former = self.memory.guard
        if outside:
            assert self.group is not None
            self.memory.guard = self.both(former, self.group.leader)
        states = super().after(level, frame, computed, bail)
        self.memory.guard = former
        return states

    def both(self, a: str | None, b: str) -> str:
        """Both conditions, of which the first may be missing."""
        return b if a is None else self.code.op(f"and i1 {a}, {b}")

    # ------------------------------------------------------------------ the function
    def function(self, name: str) -> str:
        """The text of the entry."""
        code, variant = self.code, self.variant
        thread = special(code, "tid.x")
        if variant.group > 1:
            once = variant.keep > 0 if variant.role == "whole" else variant.role == "part" and not variant.deep
            self.group = Group(code, variant.group, variant.block, thread, once)
        if variant.tile >= 0:
            Tiles(self, thread).emit()
        elif variant.role == "scan":
            self._scan()
        elif variant.rows and (variant.stack > 1 or variant.thick > 1):
            self._rows(thread)
        elif variant.stack > 1 and variant.role == "whole":
            self._stack(thread)
        else:
            self._single(thread)
        self._finish_flag()
        code.add("ret void")
        parameters = [*self.memory.parameters(), *(f"{t} %{label}" for t, label in EXTRA)]
        parameters += [f"ptr %value{n}" for n in values_of(variant)]
        return code.function(f"define ptx_kernel void @{name}({', '.join(parameters)}) #0")

    def special(self, name: str) -> str:
        """A special register as i64."""
        return self.code.op(f"zext i32 {special(self.code, name)} to i64")

    def numbered(self, thread: str, place: str) -> str:
        """The unit of a thread in block number `place`."""
        code, each = self.code, self.variant.block // self.variant.group
        if each == 1:
            return place
        own = thread if self.variant.group == 1 else code.op(f"udiv i32 {thread}, {self.variant.group}")
        return code.op(f"add i64 {code.op(f'mul i64 {place}, {each}')}, {code.op(f'zext i32 {own} to i64')}")

    def _single(self, thread: str) -> None:
        """One unit, or vector of units, for each thread or group."""
        code = self.code
        number = self.numbered(thread, self.special("ctaid.x"))
        if self.variant.rows:
            self.row = self.special("ctaid.y")
        within, work, done = code.op(f"icmp ult i64 {number}, %units"), code.label("work"), code.label("done")
        branch(code, within, work, done)
        code.start(work)
        self.unit(number)
        begin(code, done)
        if self.variant.role != "part":
            return
        last, again, end = code.label("last"), code.label("again"), code.label("end")
        branch(code, self.chunks.is_last(thread), last, end)
        code.start(last)
        branch(code, within, again, end)
        code.start(again)
        self.joining = True
        self.unit(number)
        begin(code, end)

    def _stack(self, thread: str) -> None:
        """Several units at the same time: all are read before the first is stored; those behind the end repeat it."""
        code, count = self.code, self.variant.stack
        first = code.op(f"mul i64 {self.special('ctaid.x')}, {count}")
        self.memory.deferred = []
        for k in range(count):
            number = self.numbered(thread, code.op(f"add i64 {first}, {k}"))
            number, self.memory.guard = self._within(number, "%units")
            self.unit(number)
        self.memory.flush()

    def _rows(self, thread: str) -> None:
        """The same of several rows; what neighbours in a block share comes from its memory once."""
        code, variant = self.code, self.variant
        order, number = self.unit_order()[:-1], self.special("ctaid.y")
        near = order[-1]
        wide = variant.block // variant.thick
        column = code.op(f"zext i32 {code.op(f'and i32 {thread}, {wide - 1}')} to i64")
        first = code.op(f"mul i64 {self.special('ctaid.x')}, {wide}")
        column = code.op(f"add i64 {first}, {column}")
        column, inside = self._within(column, "%units")
        row = ""
        if variant.thick > 1:
            number, low = self._part(number, order[-1], variant.thick * variant.tall)
            own = code.op(f"zext i32 {code.op(f'lshr i32 {thread}, {wide.bit_length() - 1}')} to i64")
            if variant.tall > 1:
                own = code.op(f"mul i64 {own}, {variant.tall}")
            row, order = code.op(f"add i64 {low}, {own}"), order[:-1]
        number, first = self._part(number, order[-1], variant.stack)
        far = self.split(number, [self.extent(a) for a in order[:-1]]) if order[:-1] else []
        end = self.extent(order[-1])
        whole = code.op(f"icmp ule i64 {code.op(f'add i64 {first}, {variant.stack}')}, {end}")
        if row:
            high = code.op(f"add i64 {low}, {variant.thick * variant.tall}")
            edge = code.op(f"icmp ule i64 {high}, {self.extent(near)}")
            whole = code.op(f"and i1 {whole}, {edge}")
        simple, clipped, done = code.label("whole"), code.label("clipped"), code.label("done")
        branch(code, whole, simple, clipped)
        for label in (simple, clipped):
            code.start(label)
            self.memory.deferred = []
            for k, beside in product(range(variant.stack), range(variant.tall)):
                place, self.memory.guard, last = code.op(f"add i64 {first}, {k}"), inside, row
                if beside:
                    last = code.op(f"add i64 {row}, {beside}")
                if label == clipped:  # what is not there repeats the last row that is
                    place, fits = self._within(place, end)
                    self.memory.guard = self.both(inside, fits)
                    if row:
                        last, fits = self._within(last, self.extent(near))
                        self.memory.guard = self.both(self.memory.guard, fits)
                self.places = [*far, place, *([last] if row else [])]
                self.unit(column)
                if row and beside == variant.tall - 1:  # fewer registers let more threads read
                    self.memory.flush()
                    self.memory.deferred = []
            self.memory.flush()
            self.memory.guard = None
            code.add(f"br label %{done}")
        code.start(done)

    def _within(self, number: str, end: str) -> tuple[str, str]:
        """The number, or the last one there is, and whether it is there."""
        code = self.code
        fits = code.op(f"icmp ult i64 {number}, {end}")
        most = code.op(f"sub i64 {end}, 1")
        return code.call("i64", "llvm.umin.i64", ("i64", number), ("i64", most)), fits

    def _part(self, number: str, axis: int, size: int) -> tuple[str, str]:
        """A block's number without its place along an axis, and where its range of `size` begins there."""
        code = self.code
        count = code.op(f"add i64 {self.extent(axis)}, {size - 1}")
        rest, place = self.split(number, ["0", code.op(f"udiv i64 {count}, {size}")])
        return rest, code.op(f"mul i64 {place}, {size}")

    def _scan(self) -> None:
        """One tile of a row for each block, in the order in which blocks begin."""
        unit, self.chunks.number = self.split(self.special("ctaid.x"), ["0", "%chunks"])
        self.unit(unit)

    def _finish_flag(self) -> None:
        code = self.code
        if self.flag is None:
            return
        for dtype, place in self.greatest.items():
            limit = 0x7F800000 if dtype == "f4" else 0x7FF00000  # from infinity on
            self.suspect(code.op(f"icmp uge i32 {code.op(f'load i32, ptr {place}')}, {limit}"))
        found = code.op(f"load i32, ptr {self.flag}")
        tell, told = code.label("tell"), code.label("told")
        branch(code, code.op(f"icmp ne i32 {found}, 0"), tell, told)
        code.start(tell)
        code.add(f"store volatile i8 1, ptr {self.memory.word(self.layout.fault, 'ptr')}")
        begin(code, told)


def values_of(variant: Variant) -> tuple[int, ...]:
    """Folds whose values are pointers behind the other parameters: of earlier launches, or for later ones."""
    left = variant.folds if variant.role == "part" and not variant.stores else ()
    return (*(n for n, _ in variant.known), *left)


def emit_device(
    kernel: Kernel, variant: Variant, target: Target, name: str, exact: bool = False, writes: bool = True
) -> str:  # fmt: skip
    """Text of the module with the entry `name`."""
    emitter = DeviceEmitter(kernel, variant, target, exact, writes)
    function = emitter.function(name)
    attributes = f'nounwind convergent "nvvm.maxntid"="{variant.block}"'
    if variant.resident:
        attributes += f' "nvvm.minctasm"="{max(variant.resident // variant.block, 1)}"'
    attributes = f"attributes #0 = {{ {attributes} }}"
    return "\n".join([*emitter.code.declarations, function, attributes, ""])
