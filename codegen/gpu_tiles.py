"""Tiles of 32 by 32 points, through which operands that lie across the others pass by way of shared memory.

Each operand is read along its own unit axis; a thread then takes what another has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .frame import Frame, branch, parts, whole
from .gpu_threads import barrier
from .kernel import UNIT, Kernel, Load
from .text import PARTS, SCALARS, SIZES

if TYPE_CHECKING:
    from .gpu_emit import DeviceEmitter

SIDE = 32
PITCH = SIDE + 1  # elements from row to row in shared memory: neighbours in a column lie in different banks
SHARED = 48 << 10  # bytes of shared memory that every device has


def lying(kernel: Kernel, vector: int, axis: int) -> list[int]:
    """Loads whose neighbours lie along `axis` instead of the vector axis."""
    return [
        n for n, v in enumerate(kernel.values)
        if isinstance(v.arg, Load) and not v.src and v.arg.strides[vector] and v.arg.strides[axis] == UNIT
        and kernel.operands[v.arg.operand].noalias
    ]  # fmt: skip


def room(kernel: Kernel, loads: list[int]) -> int:
    """Bytes of shared memory that loads need."""
    return sum(SIDE * PITCH * SIZES[kernel.values[n].dtype] for n in loads)


class Tiles:
    """A device function in which each block computes one tile.

    Parameters
    ----------
    emitter : DeviceEmitter
    thread : str
        Register (i32) of a thread's number in its block.
    """

    def __init__(self, emitter: DeviceEmitter, thread: str) -> None:
        self.emitter, self.code = emitter, emitter.code
        code, variant = self.code, emitter.variant
        self.rows = variant.block // SIDE  # of threads
        self.x = code.op(f"zext i32 {code.op(f'and i32 {thread}, {SIDE - 1}')} to i64")
        self.y = code.op(f"zext i32 {code.op(f'lshr i32 {thread}, 5')} to i64")
        self.axes = (variant.tile, variant.vector)
        self.sizes = [emitter.extent(a) for a in self.axes]

    def emit(self) -> None:
        """Compute all points; tiles that lie inside altogether are not clipped."""
        code = self.code
        self.others = self._others()
        whole = None
        for corner, size in zip(self.corner, self.sizes, strict=True):
            fits = code.op(f"icmp ule i64 {code.op(f'add i64 {corner}, {SIDE}')}, {size}")
            whole = fits if whole is None else code.op(f"and i1 {whole}, {fits}")
        assert whole is not None
        simple, clipped, done = code.label("whole"), code.label("clipped"), code.label("done")
        branch(code, whole, simple, clipped)
        for label in (simple, clipped):
            code.start(label)
            self._tile(label == clipped)
            code.add(f"br label %{done}")
        code.start(done)

    def _tile(self, clip: bool) -> None:
        """Read tiles of what lies across, and compute the points."""
        code, emitter = self.code, self.emitter
        loads = lying(emitter.kernel, emitter.variant.vector, emitter.variant.tile)
        steps = range(0, SIDE, self.rows)
        arrays = {n: self._array(k, n) for k, n in enumerate(loads)}
        rows = [code.op(f"add i64 {self.y}, {k}") for k in steps]
        read = [(n, row, self._frame(clip, self.x, row)[0]) for row in rows for n in loads]
        for n, _, frame in read:
            frame.regs[n] = emitter.memory.load(frame, n)
        points = [self._frame(clip, row, self.x) for row in rows]
        for frame, _ in points:  # before anybody waits
            for n, v in enumerate(emitter.kernel.values):
                if isinstance(v.arg, Load) and not v.src and n not in loads:
                    frame.regs[n] = emitter.memory.load(frame, n)
        for n, row, frame in read:
            self._put(arrays[n], n, frame, row)
        barrier(code)
        emitter.memory.deferred = []
        for row, (frame, within) in zip(rows, points, strict=True):
            for n in loads:
                frame.regs[n] = self._get(arrays[n], n, row)
            emitter.memory.guard = within
            emitter.device.begin()
            emitter.level(emitter.level_of_unit, frame)
        emitter.memory.guard = None
        emitter.memory.flush()

    def _others(self) -> dict[int, str]:
        """The indices of the block along the axes that tiles do not run along, and where its tile begins."""
        code, emitter = self.code, self.emitter
        tiles = code.op(f"udiv i64 {code.op(f'add i64 {self.sizes[0]}, {SIDE - 1}')}, {SIDE}")
        outer, inner, column = "0", emitter.special("ctaid.y"), emitter.special("ctaid.x")
        order = [a for a in emitter.variant.axes if a not in self.axes]
        if order:
            outer, inner = emitter.split(inner, ["0", tiles])
        if emitter.variant.shell:
            inner, column = self._in_shells(inner, column, tiles)
        self.corner = [code.op(f"mul i64 {k}, {SIDE}") for k in (inner, column)]
        digits = emitter.split(outer, [emitter.extent(a) for a in order]) if order else []
        return dict(zip(order, digits, strict=True))

    def _in_shells(self, row: str, column: str, tiles: str) -> tuple[str, str]:
        """Another order of a square's tiles: (0, 0); (1, 0), (0, 1), (1, 1); (2, 0), (0, 2), (2, 1), (1, 2), (2, 2) ...

        Tiles that lie across each other follow each other, so that what both look at comes from memory once.
        """
        code = self.code
        number = code.op(f"add i64 {code.op(f'mul i64 {row}, {tiles}')}, {column}")
        number = code.op(f"trunc i64 {number} to i32")
        root = code.call("float", "llvm.nvvm.sqrt.approx.ftz.f", ("float", code.op(f"uitofp i32 {number} to float")))
        shell = code.op(f"fptoui float {root} to i32")  # of a number below 2^24: one too many or too few, at most
        above = code.op(f"icmp ugt i32 {code.op(f'mul i32 {shell}, {shell}')}, {number}")
        shell = code.op(f"sub i32 {shell}, {code.op(f'zext i1 {above} to i32')}")
        after = code.op(f"add i32 {shell}, 1")
        below = code.op(f"icmp ule i32 {code.op(f'mul i32 {after}, {after}')}, {number}")
        shell = code.op(f"select i1 {below}, i32 {after}, i32 {shell}")
        rest = code.op(f"sub i32 {number}, {code.op(f'mul i32 {shell}, {shell}')}")
        other, odd = code.op(f"lshr i32 {rest}, 1"), code.op(f"trunc i32 {rest} to i1")
        found = [code.op(f"select i1 {odd}, i32 {a}, i32 {b}") for a, b in ((other, shell), (shell, other))]
        return code.op(f"zext i32 {found[0]} to i64"), code.op(f"zext i32 {found[1]} to i64")

    def _frame(self, clip: bool, *places: str) -> tuple[Frame, str | None]:
        """The frame at a place of the tile; with `clip` at the last one there is, and whether the place is there."""
        code, frame = self.code, Frame()
        frame.index = dict(self.others)
        within: str | None = None
        for axis, corner, size, place in zip(self.axes, self.corner, self.sizes, places, strict=True):
            index = code.op(f"add i64 {corner}, {place}")
            if clip:
                within = self.emitter.both(within, code.op(f"icmp ult i64 {index}, {size}"))
                most = code.op(f"sub i64 {size}, 1")
                index = code.call("i64", "llvm.umin.i64", ("i64", index), ("i64", most))
            frame.index[axis] = index
        return frame, within

    # ------------------------------------------------------------------ shared memory
    def _array(self, number: int, n: int) -> str:
        dtype = self.emitter.kernel.values[n].dtype
        part = PARTS.get(dtype, dtype)
        count, t = SIDE * PITCH * (2 if dtype in PARTS else 1), "i8" if part == "b1" else SCALARS[part]
        self.code.declare(f"@tile{number} = internal addrspace(3) global [{count} x {t}] undef, align 16")
        return f"@tile{number}"

    def _cells(self, array: str, n: int, row: str, column: str) -> list[tuple[str, str]]:
        """(type, address) of an element's registers."""
        code, dtype = self.code, self.emitter.kernel.values[n].dtype
        t, count = SCALARS[PARTS.get(dtype, dtype)], 2 if dtype in PARTS else 1
        at = code.op(f"add i64 {code.op(f'mul i64 {row}, {PITCH * count}')}, {code.op(f'mul i64 {column}, {count}')}")
        memory = "i8" if t == "i1" else t
        return [
            (t, code.op(f"getelementptr {memory}, ptr addrspace(3) {array}, i64 {code.op(f'add i64 {at}, {k}')}"))
            for k in range(count)
        ]

    def _put(self, array: str, n: int, frame: Frame, row: str) -> None:
        """Lay down what a thread has read: rows run along the vector axis' index."""
        for (t, where), r in zip(self._cells(array, n, row, self.x), parts(frame.regs[n]), strict=True):
            if t == "i1":
                t, r = "i8", self.code.op(f"zext i1 {r} to i8")
            self.code.add(f"store {t} {r}, ptr addrspace(3) {where}")

    def _get(self, array: str, n: int, column: str) -> str | tuple[str, str]:
        found = []
        for t, where in self._cells(array, n, self.x, column):
            r = self.code.op(f"load {'i8' if t == 'i1' else t}, ptr addrspace(3) {where}")
            found.append(self.code.op(f"trunc i8 {r} to i1") if t == "i1" else r)
        return whole(found)
