"""Which launches run a kernel on a graphics processor: a choice by extents and by how the operands lie.

in: a kernel, the extents of one call and the operands' alignment; out: `Pass`es, launched one after the other.

Where units are few and folds long, the folds are cut into chunks, whose states the last block to finish combines; what
must read everything again with their values is a launch of its own.  The choice depends on extents and alignment alone.
"""

from __future__ import annotations

import math

from ..runtime.tuples import NamedTuple
from .folds import kind_of
from .gpu_access import WIDEST
from .gpu_emit import COUNTERS, Variant, plan_level
from .gpu_loops import nest
from .gpu_scans import CELL, entries
from .gpu_shifts import Shift
from .gpu_tiles import SHARED, SIDE, lying, room
from .kernel import ABSENT, UNIT, Kernel, Load
from .schedule import CHEAP, Goal, Level, Loop, Scheduler, axes_mask, bits, vector_axis
from .text import PARTS, SIZES

THREADS = 256  # of a block, unless a unit wants another number
MANY = 1 << 17  # threads that keep a large processor busy
BLOCKS = 1056  # blocks of 256 threads that fill it
RESIDENT = 1024  # threads of a processor that have room for what they keep in registers
ROW = 1 << 15  # elements of a fold from which on several blocks share it
KEPT = 256  # bytes of a value that one thread keeps in registers
HELD = 32  # elements of it
SHARE = 128  # bytes that a thread has under way
MOST = 1 << 16  # chunks of a fold: the limit of a grid's second dimension
LANES = 16  # neighbours that one thread takes, at most
BIG = 80  # values of a kernel too large to be written out for several lanes
SQUARE = 1 << 17  # elements along the sides of a matrix whose tiles are counted in 24 bits
TILED = 128  # threads of a block that takes a tile
TAKEN = 2  # rows that a thread takes together where they are looked up
CHUNKS = 264  # blocks that share a long fold
COLUMNS = 1 << 16  # threads that share the folds of neighbours
BOX = 128  # threads of a block that takes a box
LINE = 512  # bytes of each of its rows
TALL = 2  # rows side by side that each of its threads takes
DEEP = 64  # bytes that a thread has in rows one behind the other
ROWS = 8  # rows that a thread takes together where several operands may share them, at most
COSTLY = 4  # neighbours that a thread takes where they call for functions
POINTS = 4  # indices of the first axis that a thread has in a fold over pairs
SHORT = 4  # accesses of 16 bytes that a thread with short rows has under way
FEW = 1 << 12  # elements of a fold that every block works out for itself
WRITTEN = 8  # steps of an inner loop that is written out
SCAN = 64  # bytes of a thread in a tile of a scan


class Pass(NamedTuple):
    """One launch."""

    variant: Variant
    units: int
    chunks: int
    length: int  # steps of a chunk
    points: int  # points of the unit's axes
    rows: int  # of a grid that counts them

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks along x and y."""
        variant = self.variant
        if variant.role == "scan":
            return self.units, 1
        each = variant.block // variant.group * (1 if variant.rows or variant.square else variant.stack)
        blocks = -(-self.units // (each // variant.thick))
        return blocks, self.chunks if variant.role == "part" else self.rows


class Choice:
    """The passes of one kernel for one call."""

    def __init__(
        self, kernel: Kernel, extents: tuple[int, ...], aligned: int, half: int, natural: bool,
        shifts: tuple[Shift, ...] = (), offsets: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.shifts = shifts
        self.kernel, self.extents = kernel, extents
        self.aligned, self.half, self.natural = aligned, half, natural
        self.vector = vector_axis(kernel)
        self.scheduler = Scheduler(kernel, self.vector, False)
        self.known: dict[int, tuple[int, ...]] = {}
        self.small = all(self.size(mask) < 1 << 31 for mask in self._spaces())
        self.skews = self._skews(offsets)
        self.costly = sum(v.op not in CHEAP for v in kernel.values if v.op != "fold")
        self.light = len(kernel.values) <= BIG // 2 and self.costly <= 2  # few registers do
        self.widest = max((SIZES[o.dtype] for o in kernel.operands), default=8)
        self.lanes = self._lanes()

    def _spaces(self) -> set[int]:
        """All axes of which points are counted together: of values, of folds and of stores."""
        found = set(self.scheduler.dom)
        found |= {self.scheduler.space(("fold", n)) for n in self.scheduler.folds}
        return found | {self.scheduler.space(("store", k)) for k in range(len(self.kernel.stores))}

    def size(self, mask: int) -> int:
        """Points of some axes."""
        return math.prod(self.extents[a] for a in bits(mask))

    def _skews(self, offsets: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Loads of one array in several places whose wide accesses are the same, wherever their elements begin."""
        found = []
        for n in sorted({n for load, base, _ in self.shifts for n in (load, base)}):
            load = self.kernel.values[n].arg
            if not offsets or not isinstance(load, Load) or self.vector < 0 or load.strides[self.vector] != UNIT:
                continue
            operand = self.kernel.operands[load.operand]
            if offsets[load.operand] >= 0 and operand.noalias and operand.dtype not in PARTS:
                found.append((n, offsets[load.operand]))
        return tuple(found)

    def _lanes(self) -> int:
        """How many neighbours along the vector axis a thread takes together."""
        kernel, vector = self.kernel, self.vector
        if vector < 0 or not self.natural:
            return 1
        skewed = {n for n, _ in self.skews}
        places = [
            (v.arg.operand, v.arg.strides[vector]) for n, v in enumerate(kernel.values)
            if isinstance(v.arg, Load) and n not in skewed
        ]  # fmt: skip
        stores = [(s.operand, s.strides[vector]) for s in kernel.stores if s.operand >= 0]
        side_by_side = [o for o, c in (*places, *stores) if c == UNIT]
        width = 0
        for size, fit in ((8, self.half), (16, self.aligned)):
            fits = len(skewed) + sum(fit >> o & 1 for o in side_by_side)
            most = 2 * fits >= len(skewed) + len(side_by_side)
            if most and all(fit >> o & 1 for o, c in stores if c == UNIT):
                width = size
        side_by_side += [v.arg.operand for n in skewed if isinstance((v := kernel.values[n]).arg, Load)]
        if not side_by_side or not width:
            return 1
        lanes = min(max(width // max(SIZES[kernel.operands[o].dtype] for o in side_by_side), 1), LANES)
        if len(kernel.values) > BIG or self.costly > 6:
            return 1
        if self.costly > 2:
            lanes = min(lanes, COSTLY)
        return lanes

    def variant(self, role: str, stores: tuple[int, ...], axes: int, group: int, block: int) -> Variant:
        """A variant of the usual kind."""
        lanes = self.lanes
        inside = bool(axes >> self.vector & 1) if self.vector >= 0 else False
        even = lanes == 1 or self.extents[self.vector] % lanes == 0
        if (group == 1 and not inside) or (not inside and not even) or (inside and group > 1):
            lanes, even = 1, True
        rows = self._by_rows(role, axes, lanes, group)
        if role == "whole" and group == 1 and lanes > 1 and not rows:
            even = False  # one entry for all extents
        skews = self.skews if lanes > 1 else ()
        shifts = self.shifts if skews else ()
        return Variant(
            role, stores, (), tuple(sorted(self.known.items())), bits(axes), self.vector, lanes, even, group, block,
            0, False, 1, rows, shifts, skews, 1, 1, -1, False, False, False, (), self.small, self.aligned, self.half,
            self.natural, 0, 4,
        )  # fmt: skip

    def _by_rows(self, role: str, axes: int, lanes: int, group: int) -> bool:
        """Whether blocks take parts of rows, which spares every thread the division by a row's length."""
        if role != "whole" or group > 1 or not axes >> max(self.vector, 0) & 1:
            return False
        row, points = self.extents[self.vector], self.size(axes)
        steps = row // lanes
        return 1 < points // row < MOST and steps >= 0.7 * THREADS * -(-steps // THREADS)

    def one(self, variant: Variant, chunks: int = 1, length: int = 0) -> Pass:
        """The launch of a variant."""
        points = self.size(axes_mask(variant.axes))
        units = points
        if variant.lanes > 1 and self.vector in variant.axes:
            row = self.extents[self.vector]
            steps = row // variant.lanes + (0 if variant.even else row % variant.lanes)
            units = points // row * steps
        if variant.tile >= 0:
            along, across = self.extents[self.vector], self.extents[variant.tile]
            rows = points // along // across * -(-across // SIDE)
            return Pass(variant, -(-along // SIDE) * variant.block, chunks, length, points, rows)
        if variant.rows:
            units //= points // self.extents[self.vector]
        rows = self._rows(variant) if variant.rows else 1
        return Pass(variant, units, chunks, length, points, rows)

    # ------------------------------------------------------------------ the passes
    def passes(self) -> list[Pass]:
        """All launches, in order."""
        found: list[Pass] = []
        stores = tuple(range(len(self.kernel.stores)))
        s = self.scheduler
        goals: list[Goal] = [("store", k) for k in stores]
        while True:
            need = s.needed(goals, set(self.known))
            folds = [n for n in need if n in s.folds]
            if not folds:
                return found + self._maps(stores)
            axes = -1
            for goal in goals:
                axes &= s.space(goal)
            for n in folds:
                axes &= ~axes_mask(s.folds[n].axes)
            scans = self._chunked_scans(axes, folds, stores)
            if scans:
                return found + scans
            chunked = self._chunked(axes, need)
            if not chunked:
                return [*found, self.one(self._shared(stores, axes))]
            first, now = chunked
            self.known |= dict.fromkeys(now, bits(axes))
            rest = s.level(axes, goals, set(self.known))
            last = not any(isinstance(step, Loop) for step in rest.steps)
            found.append(first._replace(variant=first.variant._replace(stores=stores if last else ())))
            if last:
                return found

    def _maps(self, stores: tuple[int, ...]) -> list[Pass]:
        """Launches of stores that wait for no fold any more: one for each domain."""
        by_space: dict[int, list[int]] = {}
        for k in stores:
            by_space.setdefault(self.scheduler.space(("store", k)), []).append(k)
        if len(by_space) > 1 and self.scheduler.writes:
            axes = -1
            for space in by_space:
                axes &= space
            return [self.one(self._shared(stores, axes))]
        return [self.one(self._map(tuple(ks), axes)) for axes, ks in by_space.items()]

    def _map(self, stores: tuple[int, ...], axes: int) -> Variant:
        """One thread for each point, in tiles where an operand lies across."""
        variant, kernel = self.variant("whole", stores, axes, 1, THREADS), self.kernel
        if self.vector < 0 or not axes >> self.vector & 1:
            return variant
        for a in bits(axes & ~(1 << self.vector)):
            loads = lying(kernel, self.vector, a)
            rows = self.size(axes) // self.extents[self.vector]
            long = self.extents[a] >= SIDE // 2 and self.extents[self.vector] >= SIDE
            if loads and long and room(kernel, loads) <= SHARED and rows < MOST:
                shell = self.extents[a] == self.extents[self.vector] < SQUARE and len(loads) < len(self._whole())
                return variant._replace(lanes=1, even=True, rows=False, tile=a, shell=shell, block=TILED)
        side_by_side = sum(isinstance(v.arg, Load) and v.arg.strides[self.vector] == UNIT for v in kernel.values)
        even = self.extents[self.vector] % variant.lanes == 0
        if variant.rows and even and any(v.src for v in kernel.values if isinstance(v.arg, Load)):
            return variant._replace(stack=TAKEN)
        if not even or side_by_side <= 2 or len(kernel.values) > BIG:
            return variant
        around = [self.extents[a] for a in bits(axes) if a != self.vector]
        steps = self.extents[self.vector] // variant.lanes
        nbytes = variant.lanes * self.widest
        wide, deep = min(max(LINE // nbytes, 8), BOX // 2), min(max(DEEP // nbytes, 2), ROWS)
        full = steps >= 0.7 * wide * -(-steps // wide)
        several = variant._replace(resident=RESIDENT if self.light else 0, shifts=self.shifts)
        if len(around) > 1 and around[-2] >= deep and around[-1] >= BOX // wide * TALL and full:
            box = several._replace(rows=True, even=True, thick=BOX // wide, block=BOX, stack=deep, tall=TALL)
            if self._rows(box) < MOST:
                return box
        if variant.rows:
            return several._replace(stack=deep)
        return variant._replace(stack=2) if variant.even else variant

    def _whole(self) -> list[int]:
        """Loads that vary over all axes of a matrix."""
        return [n for n, v in enumerate(self.kernel.values) if isinstance(v.arg, Load) and v.arg.strides[self.vector]]

    def _rows(self, variant: Variant) -> int:
        """Blocks along the rows of a grid."""
        around = [self.extents[a] for a in variant.axes if a != self.vector]
        far = -2 if variant.thick > 1 else -1
        around[-1] = -(-around[-1] // (variant.thick * variant.tall))
        around[far] = -(-around[far] // variant.stack)
        return math.prod(around)

    def _loops(self, level: Level) -> list[Loop]:
        return [step for step in level.steps if isinstance(step, Loop)]

    def _shared(self, stores: tuple[int, ...], axes: int) -> Variant:
        """One launch of all that is left: a thread, a warp or a block for each unit."""
        variant = self.variant("whole", stores, axes, 1, THREADS)
        loops = self._loops(plan_level(self.kernel, variant))
        if self.vector >= 0 and axes >> self.vector & 1 or not loops:
            return variant
        nests = [nest(loop) for loop in loops]
        row = max(self.size(axes_mask(n[0])) for n in nests)
        inner = max(self._longest(loop) for loop in loops)
        fixed = tuple(sorted({pair for _, _, body in nests for pair in self._short(body)}))
        variant = variant._replace(fixed=fixed)
        if row <= 2 and inner <= 4:
            return variant
        if fixed and self.size(axes) >= MANY // 4 and self._apart(axes, axes_mask(a for n in nests for a in n[0])):
            return variant
        warp = self.variant("whole", stores, axes, 32, THREADS)._replace(fixed=fixed)
        if any(loop.scans for loop in loops):
            warp = warp._replace(lanes=1, even=True)
            return warp if max(row, inner) <= 128 else warp._replace(group=512, block=512)
        lanes = warp.lanes if all(n[0][-1] == self.vector for n in nests) else 1
        warp = warp._replace(lanes=lanes)
        steps = row // lanes
        flat = all(not self._loops(body) for _, _, body in nests)
        if not flat and inner >= 32:
            return warp._replace(deep=True, group=THREADS if inner // lanes > 512 else 32)
        part = min(32, 1 << max(steps - 1, 1).bit_length()) if flat else 32  # threads that have something to do
        inner_values = [v for v, dom in zip(self.kernel.values, self.scheduler.dom, strict=True) if dom & ~axes]
        widest = max((SIZES[v.dtype] for v in inner_values), default=8)
        if len(loops) > 1 and flat and len({n[0] for n in nests}) == 1:
            for group in (part, 128, 256, 512, 1024):
                keep = _power(-(-steps // group))
                held = keep * lanes * widest
                if held <= KEPT and keep * lanes <= HELD:
                    block = THREADS if group <= 32 else group
                    resident = RESIDENT if block >= 2 * THREADS else 3 * THREADS if held <= SHARE else 2 * THREADS
                    warp = warp._replace(group=group, block=block, keep=keep, resident=resident if keep > 1 else 0)
                    return self._together(warp, lanes * widest, steps)
        if len(loops) == 1 and flat and steps <= SHORT * part:
            keep = _power(-(-steps // part))
            warp = warp._replace(group=part, keep=keep, resident=3 * THREADS if keep > 1 else 0)
            return self._together(warp, lanes * widest, steps)
        return warp._replace(group=part) if steps <= 512 else warp._replace(group=THREADS)

    def _together(self, variant: Variant, nbytes: int, steps: int) -> Variant:
        """With several units for each group, where one keeps few bytes under way and units are many."""
        variant = variant._replace(full=steps == variant.keep * variant.group)
        blocks = self.size(axes_mask(variant.axes)) * variant.group // THREADS
        stack = min(SHORT // max(variant.keep, 1), SHARE // (nbytes * variant.keep), blocks // (2 * BLOCKS))
        return variant._replace(stack=stack) if variant.group <= 32 and stack > 1 else variant

    def _longest(self, loop: Loop) -> int:
        """Steps of the longest loop within another's body."""
        _, _, body = nest(loop)
        return max((self.size(axes_mask(nest(inner)[0])) for inner in self._loops(body)), default=0)

    # ------------------------------------------------------------------ chunks
    def _chunked(self, axes: int, need: list[int]) -> tuple[Pass, tuple[int, ...]] | None:
        """The launch that leaves states of chunks, and the folds it works on; None if units alone are enough."""
        s = self.scheduler
        stage = s.stages(need, axes)
        here = [n for n in need if n in s.folds and s.is_here(n, axes)]
        first = [n for n in here if stage[n] == 1]
        if not first:
            return None
        few = 0
        if self.size(axes) == 1 and all(self.size(s.space(("fold", n))) <= FEW for n in first):
            few = len({s.space(("fold", n)) for n in first})  # every block works them out
            first = [n for n in here if stage[n] == 2]
        if not first:
            return None
        space = max((s.space(("fold", n)) for n in first), key=self.size)
        now = tuple(n for n in first if s.space(("fold", n)) == space)
        row, points = self.size(space & ~axes), self.size(axes)
        column = self.vector >= 0 and bool(axes >> self.vector & 1)
        apart = not column and points >= THREADS and self._apart(axes, space & ~axes)
        column = column or apart
        variant = self.variant("part", (), axes, 1 if column else THREADS, THREADS)
        variant = variant._replace(folds=now, resident=3 * THREADS if self.light else 0)
        pass_ = self.one(variant)
        if (column and (pass_.units >= MANY or row <= 128)) or (not column and (row < ROW or points >= BLOCKS // 4)):
            return None
        loops = self._loops(plan_level(self.kernel, variant))
        if len(loops) > 1 + few or any(loop.scans for loop in loops) or loops[-1].folds != now:
            return None
        inner_axes, _, body = nest(loops[-1])
        plain = not self._loops(body) and not self.costly
        variant = variant._replace(fixed=self._short(body), unroll=8 if plain else 4)
        if not column and not few and len(inner_axes) == 2 and self._apart(*(1 << a for a in inner_axes)):
            return self._square(variant, inner_axes), now
        if column:
            steps, least, wanted = self.size(axes_mask(inner_axes)), 32, -(-(MANY if apart else COLUMNS) // pass_.units)
        else:
            lanes = variant.lanes if inner_axes[-1] == self.vector else 1
            deep = bool(self._loops(body)) and self._longest(loops[-1]) >= 32
            variant = variant._replace(lanes=lanes, deep=deep)
            steps, least, wanted = self.size(axes_mask(inner_axes)) // lanes, 4 * THREADS, -(-CHUNKS // points)
            least = 1 if deep else THREADS if self._loops(body) else least
        chunks = min(wanted, max(steps // least, 1), MOST - 1)
        if chunks < 2:
            return None
        length = -(-steps // chunks)
        each = variant.unroll * variant.group  # steps that are written out: all chunks but the last have these alone
        if not variant.deep and length > each:
            length = -(-length // each) * each
        return self.one(variant, -(-steps // length), length), now

    def _apart(self, some: int, others: int) -> bool:
        """Whether no operand is read that varies over axes of both masks: then neighbours need not be neighbours."""
        for v in self.kernel.values:
            if isinstance(v.arg, Load):
                used = axes_mask(a for a, c in enumerate(v.arg.strides) if c)
                if v.src or used & some and used & others:
                    return False
        return True

    def _short(self, body: Level) -> tuple[tuple[int, int], ...]:
        """The axes of short loops within a body, with their extents."""
        found: dict[int, int] = {}
        waiting = self._loops(body)
        for loop in waiting:
            waiting += self._loops(loop.body)
            if self.extents[loop.axis] <= WRITTEN:
                found[loop.axis] = self.extents[loop.axis]
        return tuple(sorted(found.items()))

    def _square(self, variant: Variant, axes: tuple[int, ...]) -> Pass:
        """Chunks of the two axes of a fold."""
        first, second = (self.extents[a] for a in axes)
        stack = POINTS if first >= POINTS * THREADS else 1
        blocks = -(-first // (THREADS * stack))
        parts = max(min(-(-2 * BLOCKS // blocks), second // 64, (MOST - 1) // blocks), 1)
        length = -(-second // parts)
        return self.one(
            variant._replace(square=True, stack=stack, lanes=1, even=True), blocks * -(-second // length), length
        )

    def _chunked_scans(self, axes: int, folds: list[int], stores: tuple[int, ...]) -> list[Pass]:
        """The launch of independent scans along one long axis; none if units alone are enough."""
        s, points = self.scheduler, self.size(axes)
        base = self.variant("whole", stores, axes, 2 * THREADS, 2 * THREADS)._replace(lanes=1, even=True)
        if any(s.folds[n].keep != "prefix" for n in folds) or (self.vector >= 0 and axes >> self.vector & 1):
            return []
        loops = self._loops(plan_level(self.kernel, base))
        if len(loops) != 1 or set(loops[0].scans) != set(folds) or loops[0].folds or self._loops(loops[0].body):
            return []
        below: set[int] = set()
        for n, value in enumerate(self.kernel.values):
            if any(source in below for source in value.src):
                if n in folds:
                    return []  # a scan of a scan
                below.add(n)
            if n in folds:
                below.add(n)
        row, lanes = self.extents[loops[0].axis], self.lanes
        each = max(SCAN // max(SIZES[self.kernel.values[n].dtype] for n in folds), 1)
        each, tile = min(each, 16), THREADS * min(each, 16)
        if loops[0].axis != self.vector or row % lanes or lanes > each:
            lanes = 1
        if row < 2 * tile or points >= BLOCKS // 2:
            return []
        chunks = -(-row // tile)
        base = base._replace(
            role="scan", folds=tuple(folds), group=THREADS, block=THREADS, keep=each // lanes, lanes=lanes,
            resident=RESIDENT,
        )  # fmt: skip
        return [Pass(base, points * chunks, chunks, tile, points, 1)]


def _power(number: int) -> int:
    """The next power of two: fewer entries serve more extents."""
    return 1 << max(number - 1, 0).bit_length()


def alignment(
    kernel: Kernel, extents: tuple[int, ...], row: list[int], loads: tuple[tuple[int, ...], ...],
    stores: tuple[tuple[int, ...], ...],
) -> tuple[int, int, bool]:  # fmt: skip
    """Operands (masks) that allow accesses of 16 and of 8 bytes; whether all lie at multiples of their size.

    Parameters
    ----------
    row
        The words of the argument row.
    loads, stores
        Words of the strides (`abi.Layout`).
    """
    vector = vector_axis(kernel)
    aligned = half = (1 << len(kernel.operands)) - 1
    natural = True
    places = [
        (v.arg.operand, v.arg.strides, words) for v, words in zip(kernel.values, loads, strict=False)
        if isinstance(v.arg, Load)
    ]  # fmt: skip
    places += [(s.operand, s.strides, words) for s, words in zip(kernel.stores, stores, strict=False)]
    for operand, classes, words in places:
        dtype = kernel.operands[operand].dtype
        size, part = SIZES[dtype], SIZES[PARTS.get(dtype, dtype)]
        steps = [row[w] for w in words]
        if row[operand] % part or any(step % part for step in steps):
            natural = False
        crossed = any(c == UNIT and a != vector and extents[a] > 1 for a, c in enumerate(classes))
        if crossed and vector >= 0 and classes[vector] == ABSENT and size != 16:
            crossed = False  # one element at a time anyway
        if row[operand] % 16 or any(step % 16 for step in steps) or (crossed and size != 16):
            aligned &= ~(1 << operand)
        if row[operand] % 8 or any(step % 8 for step in steps) or (crossed and size < 8):
            half &= ~(1 << operand)
    return aligned, half, natural


def offsets(kernel: Kernel, row: list[int], loads: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Of each operand the bytes from the last place for an access of 16 bytes to its elements, -1 where they differ."""
    found = [word & WIDEST - 1 for word in row[: len(kernel.operands)]]
    for v, words in zip(kernel.values, loads, strict=False):
        if isinstance(v.arg, Load) and (v.src or any(row[w] % WIDEST for w in words)):
            found[v.arg.operand] = -1
    return tuple(found)


def state_words(kernel: Kernel, step: Pass) -> tuple[int, int]:
    """Words that blocks leave for each other: of 64 bits among the states, of 32 among the signals."""
    registers = step.points * sum(len(kind_of(kernel, n).scalars()) for n in step.variant.folds)
    if step.variant.role == "scan":
        return 0, COUNTERS + CELL * registers * entries(step.chunks)
    return registers * step.chunks, COUNTERS


def value_words(kernel: Kernel, n: int) -> int:
    """Words of a fold's value."""
    return 2 if kernel.values[n].dtype in PARTS else 1
