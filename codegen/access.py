"""Loads and stores of a kernel: addresses built up axis by axis, and vectors of memory."""

from __future__ import annotations

from . import partial
from .abi import Layout
from .follow import run
from .frame import Frame, begin, branch, lanes_of, parts, phi, repeat, whole
from .kernel import STRIDED, UNIT, Kernel, Load
from .partial import Count
from .text import PARTS, SCALARS, SIZES, Code, Reg, cut, mask, mtype, vtype

LINE = 64  # bytes of a cache line
GATHERED = 32  # the same where an index picks items
SINGLY = 16  # so many lanes at most are loaded one by one
Access = tuple[str, int]  # ("load", number of the value) or ("store", number of the store)


class Memory:
    """Emits the accesses of one function.

    Parameters
    ----------
    code : Code
    kernel : Kernel
    layout : Layout
    domains : list of int
        The axes that each value varies over.
    vector : int
        The vector axis.
    row : str
        Register of the argument row.
    """

    def __init__(
        self, code: Code, kernel: Kernel, layout: Layout, domains: list[int], vector: int, row: str
    ) -> None:  # fmt: skip
        self.code, self.kernel, self.layout = code, kernel, layout
        self.domains, self.vector, self.row = domains, vector, row
        self._words: dict[tuple[int, str], str] = {}
        self._lanes: dict[tuple[str, int], str] = {}
        self.ahead: tuple[int, int] | None = None  # (axis, distance): fetch what vectors need so much later

    def word(self, number: int, type: str = "i64") -> str:
        """A word of the argument row, loaded once at the top of the function."""
        key = (number, type)
        if key not in self._words:
            place, register = self.code.temp(), self.code.temp()
            self.code.slots += [
                f"  {place} = getelementptr i64, ptr {self.row}, i64 {number}",
                f"  {register} = load {type}, ptr {place}, align 8",
            ]
            self._words[key] = register
        return self._words[key]

    def _hoisted(self, text: str) -> str:
        name = self.code.temp()
        self.code.slots.append(f"  {name} = {text}")
        return name

    def lane_offsets(self, stride: str, lanes: int) -> str:
        """0, stride, 2 * stride ... for a stride that is known at the top of the function."""
        key = (stride, lanes)
        if key not in self._lanes:
            vector = f"<{lanes} x i64>"
            first = self._hoisted(f"insertelement {vector} poison, i64 {stride}, i64 0")
            every = self._hoisted(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")
            steps = ", ".join(f"i64 {k}" for k in range(lanes))
            self._lanes[key] = self._hoisted(f"mul {vector} {every}, <{steps}>")
        return self._lanes[key]

    # ------------------------------------------------------------------ pointers
    def _what(self, access: Access) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """(operand, stride classes, stride words) of an access."""
        kind, n = access
        if kind == "store":
            store = self.kernel.stores[n]
            return store.operand, store.strides, self.layout.store_strides[n]
        load = self.kernel.values[n].arg
        assert isinstance(load, Load)
        return load.operand, load.strides, self.layout.load_strides[n]

    def stride(self, access: Access, axis: int) -> str:
        """Bytes from one index of `axis` to the next, as a register or a constant."""
        operand, classes, words = self._what(access)
        if classes[axis] == UNIT:
            return str(SIZES[self.kernel.operands[operand].dtype])
        return self.word(words[sum(c == STRIDED for c in classes[:axis])]) if classes[axis] else "0"

    def pointer(self, frame: Frame, access: Access) -> str:
        """The pointer of an access with every open axis added (of the vector axis the first lane)."""
        operand, classes, _ = self._what(access)
        where, added = frame.places.get(access) or (self.word(operand, "ptr"), 0)
        for axis, index in frame.index.items():
            if classes[axis] and not added >> axis & 1:
                added |= 1 << axis
                if classes[axis] == UNIT:
                    # 16-byte items are not an addressing mode's scale: count in parts of them
                    dtype = self.kernel.operands[operand].dtype
                    item = f"[2 x {SCALARS[PARTS[dtype]]}]" if dtype in PARTS else mtype(dtype, 1)
                    where = self.code.op(f"getelementptr {item}, ptr {where}, i64 {index}")
                else:
                    offset = self.code.op(f"mul i64 {index}, {self.stride(access, axis)}")
                    where = self.code.op(f"getelementptr i8, ptr {where}, i64 {offset}")
        frame.places[access] = (where, added)
        return where

    # ------------------------------------------------------------------ loads and stores
    def load(self, frame: Frame, n: int) -> Reg:
        """The value of load `n`."""
        code, value = self.code, self.kernel.values[n]
        assert isinstance(value.arg, Load)
        dtype = self.kernel.operands[value.arg.operand].dtype
        where = self.pointer(frame, ("load", n))
        words = self.layout.load_strides[n][len(self.layout.load_strides[n]) - len(value.src) :]
        offsets = None
        for s, number in zip(value.src, words, strict=True):
            index, stride = frame.regs[s], self.word(number)
            assert isinstance(index, str)
            if self.is_vector(s, frame):
                every = repeat(code, "i64", frame.lanes, stride)
                step = code.op(f"mul <{frame.lanes} x i64> {index}, {every}")
                offsets = step if offsets is None else code.op(f"add <{frame.lanes} x i64> {offsets}, {step}")
            else:
                where = code.op(f"getelementptr i8, ptr {where}, i64 {code.op(f'mul i64 {index}, {stride}')}")
        if not self.is_vector(n, frame):
            code.lanes = 1
            return code.read(dtype, where, 1)
        code.lanes = frame.lanes
        kind = value.arg.strides[self.vector]
        if offsets is None and kind == UNIT:
            if self.ahead is not None and value.arg.strides[self.ahead[0]] and frame.lanes * SIZES[dtype] >= LINE:
                self._prefetch(where, self.stride(("load", n), self.ahead[0]), frame.lanes * SIZES[dtype])
            return self.read(frame, dtype, where)
        if kind and offsets is None:
            return self._strided(frame, dtype, where, self.stride(("load", n), self.vector))
        if kind:
            along = self.lane_offsets(self.stride(("load", n), self.vector), frame.lanes)
            offsets = code.op(f"add <{frame.lanes} x i64> {offsets}, {along}")
        assert offsets is not None
        return self._gather(frame, dtype, where, offsets) if kind else self._followed(frame, n, dtype, where, offsets)

    def _followed(self, frame: Frame, n: int, dtype: str, where: str, offsets: str) -> Reg:
        """What an index picks: neighbours at once wherever it is seen to follow the vector axis."""
        code, value = self.code, self.kernel.values[n]
        assert isinstance(value.arg, Load)
        picks = [k for k, s in enumerate(value.src) if self.is_vector(s, frame)]
        if len(picks) > 1 or not value.arg.picks or value.arg.picks[picks[0]] != UNIT:
            return self._gather(frame, dtype, where, offsets)
        index, size = value.src[picks[0]], SIZES[dtype]
        chosen = run(code, self.kernel, self.domains, self.vector, frame, index)
        if chosen is None or not chosen.grows or not chosen.conditions:
            if frame.mask is None and dtype not in PARTS and dtype != "b1" and frame.lanes <= GATHERED:
                return self._picked(frame, dtype, where, str(frame.regs[index]))
            return self._gather(frame, dtype, where, offsets)
        near = chosen.conditions[0]
        for condition in chosen.conditions[1:]:
            near = code.op(f"and i1 {near}, {condition}")
        together, apart, done = code.label("together"), code.label("apart"), code.label("picked")
        branch(code, near, together, apart)
        code.start(together)
        place = code.op(f"getelementptr i8, ptr {where}, i64 {code.op(f'mul i64 {chosen.first}, {size}')}")
        first = parts(self.read(frame, dtype, place))
        begin(code, together + "x")
        code.add(f"br label %{done}")
        code.start(apart)
        second = parts(self._gather(frame, dtype, where, offsets))
        begin(code, apart + "x")
        begin(code, done)
        wide = vtype(PARTS.get(dtype, dtype), frame.lanes)
        ends = zip(first, second, strict=True)
        return whole([phi(code, wide, (a, together + "x"), (b, apart + "x")) for a, b in ends])

    def _picked(self, frame: Frame, dtype: str, where: str, index: str) -> Reg:
        """Lanes at an index of items, loaded one by one: an address that a processor adds up itself."""
        code, lanes = self.code, frame.lanes
        code.lanes, found, wide = 1, "poison", f"<{lanes} x {SCALARS[dtype]}>"
        for k in range(lanes):
            at = code.op(f"extractelement <{lanes} x i64> {index}, i64 {k}")
            item = code.read(dtype, code.op(f"getelementptr {mtype(dtype, 1)}, ptr {where}, i64 {at}"), 1)
            found = code.op(f"insertelement {wide} {found}, {SCALARS[dtype]} {item}, i64 {k}")
        code.lanes = lanes
        return found

    def _prefetch(self, where: str, stride: str, size: int) -> None:
        """Ask for the cache lines of a vector some rows on."""
        code = self.code
        assert self.ahead is not None
        later = code.op(f"getelementptr i8, ptr {where}, i64 {code.op(f'mul i64 {stride}, {self.ahead[1]}')}")
        code.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for first in range(0, size, LINE):
            line = code.op(f"getelementptr i8, ptr {later}, i64 {first}")
            code.add(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 2, i32 1)")

    def is_vector(self, n: int, frame: Frame) -> bool:
        """Whether value `n` fills a register with neighbours here."""
        return frame.lanes > 1 and bool(self.domains[n] >> self.vector & 1)

    def store(self, frame: Frame, k: int, value: Reg) -> None:
        """Write `value` (a vector if the store runs along the open vector axis) to its place."""
        code, store = self.code, self.kernel.stores[k]
        dtype = self.kernel.operands[store.operand].dtype
        where = self.pointer(frame, ("store", k))
        code.lanes = frame.lanes
        if frame.lanes == 1:
            code.write(dtype, value, where, 1)
        elif store.strides[self.vector] == UNIT:
            self.write(frame, dtype, where, value)
        else:
            self._spread(frame, dtype, where, self.stride(("store", k), self.vector), value)

    def _spread(self, frame: Frame, dtype: str, where: str, stride: str, value: Reg) -> None:
        """Write lanes `stride` bytes apart, one by one."""
        code, lanes = self.code, frame.lanes
        if frame.mask is not None or lanes > SINGLY:
            self._scatter(frame, dtype, where, self.lane_offsets(stride, lanes), value)
            return
        scalar = SCALARS[PARTS.get(dtype, dtype)]
        code.lanes = 1
        for k in range(lanes):
            code.write(dtype, whole([lanes_of(code, scalar, lanes, r, k, 1) for r in parts(value)]), where, 1)
            where = code.op(f"getelementptr i8, ptr {where}, i64 {stride}") if k + 1 < lanes else where
        code.lanes = lanes

    def reload(self, frame: Frame, k: int) -> Reg:
        """What was last stored to the place of store `k`."""
        code, store = self.code, self.kernel.stores[k]
        dtype = self.kernel.operands[store.operand].dtype
        where = self.pointer(frame, ("store", k))
        code.lanes = frame.lanes
        if frame.lanes == 1:
            return code.read(dtype, where, 1)
        if store.strides[self.vector] == UNIT:
            return self.read(frame, dtype, where)
        return self._strided(frame, dtype, where, self.stride(("store", k), self.vector))

    def _strided(self, frame: Frame, dtype: str, where: str, stride: str) -> Reg:
        """Lanes that lie `stride` bytes apart: loaded one by one, which waits less for memory than a gather."""
        code, lanes = self.code, frame.lanes
        if frame.mask is not None or lanes > SINGLY:
            return self._gather(frame, dtype, where, self.lane_offsets(stride, lanes))
        code.lanes, found = 1, []
        for k in range(lanes):
            found.append(parts(code.read(dtype, where, 1)))
            where = code.op(f"getelementptr i8, ptr {where}, i64 {stride}") if k + 1 < lanes else where
        code.lanes = lanes
        vectors = []
        for part in range(len(found[0])):
            scalar, vector = SCALARS[PARTS.get(dtype, dtype)], "poison"
            for k in range(lanes):
                wide = f"<{lanes} x {scalar}>"
                vector = code.op(f"insertelement {wide} {vector}, {scalar} {found[k][part]}, i64 {k}")
            vectors.append(vector)
        return whole(vectors)

    def _double(self, frame: Frame) -> Count:
        """The mask with every lane twice: of interleaved complex parts."""
        code, n = self.code, frame.lanes
        assert frame.mask is not None
        twice = mask([k // 2 for k in range(2 * n)])
        both = code.op(f"shufflevector <{n} x i1> {frame.mask}, <{n} x i1> poison, {twice}")
        return Count(both, code.op(f"add i64 {frame.mask.left}, {frame.mask.left}"))

    def read(self, frame: Frame, dtype: str, where: str) -> Reg:
        """Neighbouring lanes, those inside the mask."""
        code, lanes = self.code, frame.lanes
        if frame.mask is None:
            return code.read(dtype, where, 1)
        if dtype in PARTS:
            both = self._masked_load(vtype(PARTS[dtype], 2 * lanes), where, self._double(frame))
            return code.split(PARTS[dtype], both)
        value = self._masked_load(mtype(dtype, lanes), where, frame.mask)
        return code.from_byte(value) if dtype == "b1" else value

    def _masks(self, type: str) -> bool:
        return partial.masks(self.code.target.features, cut(type)[1])

    def _masked_load(self, type: str, where: str, mask: Count) -> str:
        if not self._masks(type):
            return partial.load(self.code, type, where, mask.left)
        lanes = cut(type)[0]
        arguments = (("ptr", where), ("i32", "1"), (f"<{lanes} x i1>", str(mask)), (type, "zeroinitializer"))
        return self.code.call(type, f"llvm.masked.load.{_suffix(type)}.p0", *arguments)

    def write(self, frame: Frame, dtype: str, where: str, value: Reg) -> None:
        """Write neighbouring lanes, those inside the mask."""
        code, lanes = self.code, frame.lanes
        if frame.mask is None:
            code.write(dtype, value, where, 1)
            return
        if isinstance(value, tuple):
            type, lanes, select = vtype(PARTS[dtype], 2 * lanes), 2 * lanes, self._double(frame)
            value = code.join(PARTS[dtype], value)
        else:
            type, select = mtype(dtype, lanes), frame.mask
            value = code.to_byte(value) if dtype == "b1" else value
        if not self._masks(type):
            partial.store(code, type, where, select.left, value)
            return
        mask_type, name = f"<{lanes} x i1>", f"llvm.masked.store.{_suffix(type)}.p0"
        code.declare(f"declare void @{name}({type}, ptr, i32, {mask_type})")
        code.add(f"call void @{name}({type} {value}, ptr {where}, i32 1, {mask_type} {select})")

    def _gather(self, frame: Frame, dtype: str, where: str, offsets: str) -> Reg:
        if dtype in PARTS:
            part = PARTS[dtype]
            second = self.code.op(f"getelementptr i8, ptr {where}, i64 {SIZES[part]}")
            first = self._gather(frame, part, where, offsets)
            other = self._gather(frame, part, second, offsets)
            assert isinstance(first, str) and isinstance(other, str)
            return first, other
        code, lanes, type = self.code, frame.lanes, mtype(dtype, frame.lanes)
        if not self._masks(type):
            value = partial.load(code, type, where, _count(frame), offsets)
            return code.from_byte(value) if dtype == "b1" else value
        places = code.op(f"getelementptr i8, ptr {where}, <{lanes} x i64> {offsets}")
        chosen = frame.mask or "splat (i1 true)"
        value = code.call(
            type, f"llvm.masked.gather.{_suffix(type)}.v{lanes}p0",
            (f"<{lanes} x ptr>", places), ("i32", "1"), (f"<{lanes} x i1>", chosen), (type, "zeroinitializer"),
        )  # fmt: skip
        return code.from_byte(value) if dtype == "b1" else value

    def _scatter(self, frame: Frame, dtype: str, where: str, offsets: str, value: Reg) -> None:
        code, lanes = self.code, frame.lanes
        if isinstance(value, tuple):
            part = PARTS[dtype]
            second = code.op(f"getelementptr i8, ptr {where}, i64 {SIZES[part]}")
            self._scatter(frame, part, where, offsets, value[0])
            self._scatter(frame, part, second, offsets, value[1])
            return
        if dtype == "b1":
            value = code.to_byte(value)
        type = mtype(dtype, lanes)
        if lanes > SINGLY or not self._masks(type):
            partial.store(code, type, where, _count(frame), value, offsets)
            return
        places = code.op(f"getelementptr i8, ptr {where}, <{lanes} x i64> {offsets}")
        name = f"llvm.masked.scatter.{_suffix(type)}.v{lanes}p0"
        code.declare(f"declare void @{name}({type}, <{lanes} x ptr>, i32, <{lanes} x i1>)")
        chosen = frame.mask or "splat (i1 true)"
        code.add(f"call void @{name}({type} {value}, <{lanes} x ptr> {places}, i32 1, <{lanes} x i1> {chosen})")


def _count(frame: Frame) -> str:
    """How many lanes are inside the mask."""
    return frame.mask.left if frame.mask is not None else str(frame.lanes)


def _suffix(type: str) -> str:
    """An intrinsic's name for a vector type: "v8f64"."""
    count, scalar = cut(type)
    return f"v{count}" + {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
