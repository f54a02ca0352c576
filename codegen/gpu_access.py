"""Loads, stores and words of a device kernel: parameters instead of a row, accesses of one thread, aligned."""

from __future__ import annotations

from .abi import Layout
from .access import Access, Memory
from .frame import Frame, begin, branch, lanes_of, parts, whole
from .kernel import UNIT, Kernel, Load
from .text import PARTS, SCALARS, SIZES, Code, Reg, mtype, vtype

NARROW = ("f4", "c8")  # scalars that come as 32-bit floats: no thread has to round them
WIDEST = 16  # bytes that a thread reads or writes at once


class DeviceMemory(Memory):
    """The accesses of one device function.

    Parameters
    ----------
    aligned, half : int
        Operands (bit masks) whose elements along the vector axis lie as accesses of 16 bytes, or of 8, want it.
    natural : bool
        Whether every element lies at a multiple of its size.
    """

    def __init__(
        self, code: Code, kernel: Kernel, layout: Layout, domains: list[int], vector: int, aligned: int, half: int,
        natural: bool,
    ) -> None:  # fmt: skip
        super().__init__(code, kernel, layout, domains, vector, "%row")
        self.aligned, self.half, self.natural = aligned, half, natural
        self.guard: str | None = None  # i1 register: whether this thread writes
        self.deferred: list[tuple[Frame, int, Reg, str | None]] | None = None  # stores that wait for `flush`
        self.shifts: dict[int, tuple[int, tuple[int, ...]]] = {}  # load -> (load that tells it, steps along the axes)
        self.skews: dict[int, int] = {}  # load -> bytes from the last place for a wide access to its elements
        self.doubles: set[int] = set()
        for word, dtype in zip(layout.scalars, kernel.scalars, strict=True):
            if dtype[0] in "fc" and dtype not in NARROW:
                self.doubles.update((word, word + 1) if dtype[0] == "c" else (word,))

    def word(self, number: int, type: str = "i64") -> str:
        """A word of the argument row, which is a parameter."""
        return f"%w{number}"

    def parameters(self) -> list[str]:
        """The function's parameters that stand for the row."""
        found = []
        for number in range(self.layout.words):
            if number < len(self.kernel.operands):
                o = self.kernel.operands[number]
                found.append("ptr" + " noalias" * o.noalias + " readonly" * (o.access == "r") + f" %w{number}")
            elif number >= self.layout.fault:
                found.append(f"ptr %w{number}")
            else:
                found.append(f"{'double' if number in self.doubles else 'i64'} %w{number}")
        return found

    def pointer(self, frame: Frame, access: Access, further: int = 0) -> str:
        """The pointer of an access with every open axis added.

        Of a skewed load's vector it is that of the wide access with the first lane, or `further` elements behind it.
        """
        if access[0] == "store" or access[1] not in self.shifts:
            return super().pointer(frame, access)
        base, steps = self.shifts[access[1]]
        operand, classes, _ = self._what(("load", base))
        where, added = frame.places.get(access) or (self.word(operand, "ptr"), 0)
        for axis, index in frame.index.items():
            if not classes[axis] or added >> axis & 1:
                continue
            added |= 1 << axis
            step = steps[axis] + (further - self._skew(frame, access[1]) if axis == self.vector else 0)
            if step:
                index = self.code.op(f"add i64 {index}, {step}")
            offset = self.code.op(f"mul i64 {index}, {self.stride(('load', base), axis)}")
            where = self.code.op(f"getelementptr i8, ptr {where}, i64 {offset}")
        if not further:
            frame.places[access] = (where, added)
        return where

    def _skew(self, frame: Frame, n: int) -> int:
        """Lanes of a vector of load `n` that lie before its first element in a wide access."""
        if n not in self.skews or frame.lanes == 1:
            return 0
        return self.skews[n] // SIZES[self.kernel.values[n].dtype] % frame.lanes

    def _skewed(self, frame: Frame, n: int, dtype: str) -> Reg:
        """Lanes of neighbours out of the two wide accesses that they lie in, which other loads may look at too."""
        code, lanes, skew = self.code, frame.lanes, self._skew(frame, n)
        align = lanes * SIZES[dtype]
        high = self.pointer(frame, ("load", n), lanes) if skew else ""  # before the other is kept
        low = self._get(dtype, self.pointer(frame, ("load", n)), lanes, align)
        if not skew:
            return low
        wide, order = vtype(dtype, lanes), ", ".join(f"i32 {k + skew}" for k in range(lanes))
        both = self._get(dtype, high, lanes, align)
        return code.op(f"shufflevector {wide} {low}, {wide} {both}, <{lanes} x i32> <{order}>")

    # ------------------------------------------------------------------ one access
    def _align(self, operand: int, dtype: str, lanes: int) -> int:
        size = SIZES[dtype]
        if not self.natural:
            return 1
        if self.aligned >> operand & 1:
            return min(size * lanes, WIDEST)
        if self.half >> operand & 1:
            return min(size * lanes, WIDEST // 2)
        return SIZES[PARTS[dtype]] if dtype in PARTS else size

    def _get(self, dtype: str, where: str, lanes: int, align: int) -> Reg:
        code = self.code
        code.lanes = lanes
        if dtype in PARTS:
            both = code.op(f"load {vtype(PARTS[dtype], 2 * lanes)}, ptr {where}, align {align}")
            return code.split(PARTS[dtype], both)
        value = code.op(f"load {mtype(dtype, lanes)}, ptr {where}, align {align}")
        return code.from_byte(value) if dtype == "b1" else value

    def _put(self, dtype: str, value: Reg, where: str, lanes: int, align: int) -> None:
        code = self.code
        code.lanes = lanes
        if align < SIZES[PARTS.get(dtype, dtype)] and lanes == 1 and dtype[0] in "fc":
            self._put_bits(dtype, value, where, align)
            return
        if isinstance(value, tuple):
            both = code.join(PARTS[dtype], value)
            code.add(f"store {vtype(PARTS[dtype], 2 * lanes)} {both}, ptr {where}, align {align}")
            return
        value = code.to_byte(value) if dtype == "b1" else value
        code.add(f"store {mtype(dtype, lanes)} {value}, ptr {where}, align {align}")

    def _put_bits(self, dtype: str, value: Reg, where: str, align: int) -> None:
        """Store floats where they are not aligned, as integers.

        The bits take an instruction of their own: ptxas converts a number whose register is stored in pieces.
        """
        part, code = PARTS.get(dtype, dtype), self.code
        size = SIZES[part]
        pieces: list[tuple[str, int]] = []  # (i32, byte offset)
        for k, register in enumerate(parts(value)):
            bits = code.op(f"bitcast {SCALARS[part]} {register} to i{8 * size}")
            if size == 8:
                pieces.append((code.op(f"trunc i64 {bits} to i32"), k * size))
                bits = code.op(f"trunc i64 {code.op(f'lshr i64 {bits}, 32')} to i32")
            elif size == 2:
                bits = code.op(f"zext i16 {bits} to i32")
            pieces.append((bits, k * size + max(size - 4, 0)))
        for bits, offset in pieces:
            bits = code.op(f'call i32 asm sideeffect "prmt.b32 $0, $1, 0, 0x3210;", "=r,r"(i32 {bits})')
            place = code.op(f"getelementptr i8, ptr {where}, i64 {offset}") if offset else where
            if size == 2:
                code.add(f"store i16 {code.op(f'trunc i32 {bits} to i16')}, ptr {place}, align {align}")
            else:
                code.add(f"store i32 {bits}, ptr {place}, align {align}")

    # ------------------------------------------------------------------ loads and stores
    def load(self, frame: Frame, n: int) -> Reg:
        """The value of load `n`."""
        code, value = self.code, self.kernel.values[n]
        assert isinstance(value.arg, Load)
        operand = value.arg.operand
        dtype = self.kernel.operands[operand].dtype
        if n in self.skews and frame.lanes > 1:
            return self._skewed(frame, n, dtype)
        where = self.pointer(frame, ("load", n))
        words = self.layout.load_strides[n][len(self.layout.load_strides[n]) - len(value.src) :]
        along: list[tuple[str, str]] = []  # index vectors with their strides
        for s, number in zip(value.src, words, strict=True):
            index = frame.regs[s]
            assert isinstance(index, str)
            if self.is_vector(s, frame):
                along.append((index, self.word(number)))
            else:
                offset = code.op(f"mul i64 {index}, {self.word(number)}")
                where = code.op(f"getelementptr i8, ptr {where}, i64 {offset}")
        if not self.is_vector(n, frame):
            return self._get(dtype, where, 1, self._align(operand, dtype, 1))
        if not along and value.arg.strides[self.vector] == UNIT:
            return self._get(dtype, where, frame.lanes, self._align(operand, dtype, frame.lanes))
        stride = self.stride(("load", n), self.vector)
        return self._lanes_from(frame, dtype, where, stride, along, self._align(operand, dtype, 1))

    def _lanes_from(
        self, frame: Frame, dtype: str, where: str, stride: str, along: list[tuple[str, str]], align: int
    ) -> Reg:  # fmt: skip
        """Lanes that do not lie side by side."""
        code, lanes = self.code, frame.lanes
        found = []
        for k in range(lanes):
            place = where
            if stride != "0" and k:
                place = code.op(f"getelementptr i8, ptr {place}, i64 {code.op(f'mul i64 {stride}, {k}')}")
            for index, step in along:
                one = code.op(f"extractelement <{lanes} x i64> {index}, i64 {k}")
                place = code.op(f"getelementptr i8, ptr {place}, i64 {code.op(f'mul i64 {one}, {step}')}")
            found.append(parts(self._get(dtype, place, 1, align)))
        code.lanes = lanes
        scalar, wide = SCALARS[PARTS.get(dtype, dtype)], []
        for part in range(len(found[0])):
            vector = "poison"
            for k in range(lanes):
                vector = code.op(f"insertelement <{lanes} x {scalar}> {vector}, {scalar} {found[k][part]}, i64 {k}")
            wide.append(vector)
        return whole(wide)

    def store(self, frame: Frame, k: int, value: Reg) -> None:
        """Write `value` to its place, if this thread is to write."""
        if self.deferred is not None:
            self.deferred.append((frame, k, value, self.guard))
            return
        where = self.pointer(frame, ("store", k))
        if self.guard is None:
            self._store(frame, k, value, where)
            return
        write, done = self.code.label("write"), self.code.label("written")
        branch(self.code, self.guard, write, done)
        self.code.start(write)
        self._store(frame, k, value, where)
        begin(self.code, done)

    def flush(self) -> None:
        """Carry out the stores that have waited for what was read after them."""
        waiting, self.deferred, former = self.deferred, None, self.guard
        for frame, k, value, self.guard in waiting or ():
            self.store(frame, k, value)
        self.guard = former

    def _store(self, frame: Frame, k: int, value: Reg, where: str) -> None:
        code, store, lanes = self.code, self.kernel.stores[k], frame.lanes
        dtype = self.kernel.operands[store.operand].dtype
        if lanes == 1 or not store.strides[self.vector]:
            self._put(dtype, value, where, 1, self._align(store.operand, dtype, 1))
            return
        if store.strides[self.vector] == UNIT:
            self._put(dtype, value, where, lanes, self._align(store.operand, dtype, lanes))
            return
        scalar, stride = SCALARS[PARTS.get(dtype, dtype)], self.stride(("store", k), self.vector)
        for lane in range(lanes):
            place = code.op(f"getelementptr i8, ptr {where}, i64 {code.op(f'mul i64 {stride}, {lane}')}")
            one = whole([lanes_of(code, scalar, lanes, r, lane, 1) for r in parts(value)])
            self._put(dtype, one, place, 1, self._align(store.operand, dtype, 1))
        code.lanes = lanes
