"""Which launches run a kernel on a graphics processor: a choice by extents and by how the operands lie.

in: a kernel, the extents of one call and the operands' alignment; out: `Pass`es, launched one after the other.

Where units are few and folds long, the folds are cut into chunks: one launch leaves the chunks' states, the next one
combines them, and what needs their values follows.  The choice depends on extents and alignment alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .folds import kind_of
from .gpu_emit import Variant, plan_level
from .gpu_loops import nest
from .kernel import ABSENT, UNIT, Kernel, Load
from .schedule import CHEAP, Goal, Level, Loop, Scheduler, axes_mask, bits, vector_axis
from .text import PARTS, SIZES

THREADS = 256  # of a block, unless a unit wants another number
TILE = 32  # threads of a block along the vector axis, where an operand lies across
MANY = 1 << 15  # threads that keep a large processor busy
BLOCKS = 1056  # blocks of 256 threads that fill it
ROW = 1 << 15  # elements of a fold from which on several blocks share it
KEPT = 128  # bytes of a value that one thread keeps in registers
MOST = 1 << 16  # chunks of a fold: the limit of a grid's second dimension
LANES = 16  # neighbours that one thread takes, at most
BIG = 80  # values of a kernel too large to be written out for several lanes


CUT = ("part", "sums", "chunks")  # roles of launches that take one chunk each


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
        each = self.variant.block // self.variant.group
        blocks = -(-self.units // each)
        return blocks, self.chunks if self.variant.role in CUT else self.rows


class Choice:
    """The passes of one kernel for one call."""

    def __init__(self, kernel: Kernel, extents: tuple[int, ...], aligned: int, half: int, natural: bool) -> None:
        self.kernel, self.extents = kernel, extents
        self.aligned, self.half, self.natural = aligned, half, natural
        self.vector = vector_axis(kernel)
        self.scheduler = Scheduler(kernel, self.vector, False)
        self.known: dict[int, tuple[int, ...]] = {}
        self.small = math.prod(extents) < 1 << 31
        self.lanes = self._lanes()

    def size(self, mask: int) -> int:
        """Points of some axes."""
        return math.prod(self.extents[a] for a in bits(mask))

    def _lanes(self) -> int:
        """How many neighbours along the vector axis a thread takes together."""
        kernel, vector = self.kernel, self.vector
        if vector < 0 or not self.natural:
            return 1
        places = [(v.arg.operand, v.arg.strides[vector]) for v in kernel.values if isinstance(v.arg, Load)]
        stores = [(s.operand, s.strides[vector]) for s in kernel.stores if s.operand >= 0]
        side_by_side = [o for o, c in (*places, *stores) if c == UNIT]
        width = 0
        for size, fit in ((8, self.half), (16, self.aligned)):
            most = 2 * sum(fit >> o & 1 for o in side_by_side) >= len(side_by_side)
            if most and all(fit >> o & 1 for o, c in stores if c == UNIT):
                width = size
        if not side_by_side or not width:
            return 1
        lanes = min(max(width // max(SIZES[kernel.operands[o].dtype] for o in side_by_side), 1), LANES)
        costly = sum(v.op not in CHEAP for v in kernel.values if v.op != "fold")
        if len(kernel.values) > BIG or costly > 6:
            return 1
        if costly > 2:
            lanes = min(lanes, 2)
        return lanes if self.extents[vector] >= 2 * lanes else 1

    def variant(self, role: str, stores: tuple[int, ...], axes: int, group: int, block: int) -> Variant:
        """A variant of the usual kind."""
        lanes = self.lanes
        inside = bool(axes >> self.vector & 1) if self.vector >= 0 else False
        even = lanes == 1 or self.extents[self.vector] % lanes == 0
        if role == "join" or (group == 1 and not inside) or (not inside and not even) or (inside and group > 1):
            lanes, even = 1, True
        return Variant(
            role, stores, (), tuple(sorted(self.known.items())), bits(axes), self.vector, lanes, even, group, block, 0,
            self._by_rows(role, axes, lanes, group), -1, False, self.small, self.aligned, self.half, self.natural,
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
            rows = points // self.extents[self.vector]
            blocks = -(-rows // (THREADS // TILE))
            return Pass(variant, -(-self.extents[self.vector] // TILE) * THREADS, chunks, length, points, blocks)
        if variant.rows:
            units //= points // self.extents[self.vector]
        rows = points // self.extents[self.vector] if variant.rows else 1
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
            found.append(first)
            self.known |= dict.fromkeys(now, bits(axes))
            rest = s.level(axes, goals, set(self.known))
            last = not any(isinstance(step, Loop) for step in rest.steps)
            found.append(self._join(axes, now, first.chunks, stores if last else ()))
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
        variant = self.variant("whole", stores, axes, 1, THREADS)
        if self.vector < 0 or not axes >> self.vector & 1 or self.extents[self.vector] < TILE:
            return variant
        for v in self.kernel.values:
            if not isinstance(v.arg, Load) or not v.arg.strides[self.vector]:
                continue
            for a in bits(axes & ~(1 << self.vector)):
                if v.arg.strides[a] == UNIT and self.extents[a] >= THREADS // TILE:
                    rows = self.size(axes) // self.extents[self.vector]
                    if -(-rows // (THREADS // TILE)) < MOST:
                        return variant._replace(lanes=1, even=True, rows=False, tile=a)
        return variant

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
        if row <= 2 and inner <= 4:
            return variant
        warp = self.variant("whole", stores, axes, 32, THREADS)
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
                keep = -(-steps // group)
                if keep * lanes * widest <= KEPT:
                    return warp._replace(group=group, block=THREADS if group <= 32 else group, keep=keep)
        return warp._replace(group=part) if steps <= 512 else warp._replace(group=THREADS)

    def _longest(self, loop: Loop) -> int:
        """Steps of the longest loop within another's body."""
        _, _, body = nest(loop)
        return max((self.size(axes_mask(nest(inner)[0])) for inner in self._loops(body)), default=0)

    # ------------------------------------------------------------------ chunks
    def _chunked(self, axes: int, need: list[int]) -> tuple[Pass, tuple[int, ...]] | None:
        """The launch that leaves states of chunks, and the folds it works on; None if units alone are enough."""
        s = self.scheduler
        stage = s.stages(need, axes)
        first = [n for n in need if n in s.folds and s.is_here(n, axes) and stage[n] == 1]
        if not first:
            return None
        space = max((s.space(("fold", n)) for n in first), key=self.size)
        now = tuple(n for n in first if s.space(("fold", n)) == space)
        row, points = self.size(space & ~axes), self.size(axes)
        column = self.vector >= 0 and bool(axes >> self.vector & 1)
        variant = self.variant("part", (), axes, 1 if column else THREADS, THREADS)._replace(folds=now)
        pass_ = self.one(variant)
        if (column and (pass_.units >= MANY or row <= 128)) or (not column and (row < ROW or points >= BLOCKS // 4)):
            return None
        loops = self._loops(plan_level(self.kernel, variant))
        if len(loops) != 1 or loops[0].scans:
            return None
        inner_axes, _, body = nest(loops[0])
        if column:
            steps, least, wanted = self.size(axes_mask(inner_axes)), 32, -(-2 * MANY // pass_.units)
        else:
            lanes = variant.lanes if inner_axes[-1] == self.vector else 1
            deep = bool(self._loops(body)) and self._longest(loops[0]) >= 32
            variant = variant._replace(lanes=lanes, deep=deep)
            steps, least, wanted = self.size(axes_mask(inner_axes)) // lanes, 4 * THREADS, -(-BLOCKS // points)
            least = 1 if deep else THREADS if self._loops(body) else least
        chunks = min(wanted, max(steps // least, 1), MOST - 1)
        if chunks < 2:
            return None
        length = -(-steps // chunks)
        return self.one(variant, -(-steps // length), length), now

    def _chunked_scans(self, axes: int, folds: list[int], stores: tuple[int, ...]) -> list[Pass]:
        """The launches of independent scans along one long axis; none if units alone are enough."""
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
        row = self.extents[loops[0].axis]
        chunks = min(-(-BLOCKS // points), row // (8 * base.group))
        if chunks < 2:
            return []
        length = -(-row // (chunks * base.group)) * base.group
        chunks = -(-row // length)
        base = base._replace(folds=tuple(folds))
        return [
            self.one(base._replace(role="sums"), chunks, length), self.one(base._replace(role="offsets"), chunks),
            self.one(base._replace(role="chunks"), chunks, length),
        ]  # fmt: skip

    def _join(self, axes: int, folds: tuple[int, ...], chunks: int, stores: tuple[int, ...]) -> Pass:
        points = self.size(axes)
        group = 1 if points >= 4 * THREADS else 32 if chunks <= 64 else THREADS
        for n in folds:
            del self.known[n]
        variant = self.variant("join", stores, axes, group, THREADS)._replace(folds=folds)
        self.known |= dict.fromkeys(folds, bits(axes))
        return self.one(variant, chunks)


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


def state_words(kernel: Kernel, variant: Variant) -> int:
    """Registers of the states that "part" leaves for one unit and chunk."""
    return sum(len(kind_of(kernel, n).scalars()) for n in variant.folds)


def value_words(kernel: Kernel, n: int) -> int:
    """Words of a fold's value."""
    return 2 if kernel.values[n].dtype in PARTS else 1
