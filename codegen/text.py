"""Building LLVM IR text: types, literals and the body of one function.

in: numerics and emit append lines to a `Code`; out: host.py joins them into a module.

A register is the name of an SSA value, `lanes` elements wide; a complex value is a pair of registers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..runtime.target import Target

Reg = str | tuple[str, str]
Step = tuple[str, str, tuple[str, ...], str, str]  # float operation, dtype, sources, result, lanes that use it

SCALARS = {
    "b1": "i1", "i1": "i8", "u1": "i8", "i2": "i16", "u2": "i16", "i4": "i32", "u4": "i32", "i8": "i64", "u8": "i64",
    "f2": "half", "f4": "float", "f8": "double",
}  # fmt: skip
PARTS = {"c8": "f4", "c16": "f8"}  # complex dtype -> dtype of its parts
SIZES = {dtype: int(dtype[1:]) for dtype in (*SCALARS, *PARTS)}


def vtype(dtype: str, lanes: int) -> str:
    """Register type of a real dtype: "double", or "<8 x double>" if `lanes` is more than 1."""
    scalar = SCALARS[dtype]
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def mtype(dtype: str, lanes: int) -> str:
    """Type in memory: as `vtype`, but a bool is a byte."""
    return vtype("u1" if dtype == "b1" else dtype, lanes)


def cut(type: str) -> tuple[str, str]:
    """Lanes and scalar type of a vector type."""
    lanes, scalar = type[1:-1].split(" x ")
    return lanes, scalar


def literal(dtype: str, value: float) -> str:
    """Constant of one lane."""
    if dtype == "b1":
        return "true" if value else "false"
    if dtype[0] in "iu":
        return str(int(value))
    if dtype == "f2":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if dtype == "f4":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return "0x" + struct.pack(">d", value).hex().upper()


def splat(constant: str, scalar: str, lanes: int) -> str:
    """Operand text of `constant` in every lane (without its type)."""
    return constant if lanes == 1 else f"splat ({scalar} {constant})"


def mask(indices: Sequence[int]) -> str:
    """Typed mask operand of a shufflevector."""
    return f"<{len(indices)} x i32> <" + ", ".join(f"i32 {i}" for i in indices) + ">"


class Code:
    """The body of one function, with what its module must declare.

    Parameters
    ----------
    target : Target
        Whose features and vector size choose the math functions.
    lanes : int
        Vector width of the values being emitted; may be set anew at any time (1: scalar types).

    Attributes
    ----------
    block : str
        Label of the block being written; what a phi names as its predecessor.
    declarations : dict of str to None
        Module-level lines in order, without repetition.
    externs : dict of str to int or None
        Symbols to resolve when the object is linked (`mathlib.resolve`), with the address where it is known.
    """

    def __init__(self, target: Target, lanes: int = 1) -> None:
        self.target = target
        self.lanes = lanes
        self.block = "entry"
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declarations: dict[str, None] = {}
        self.externs: dict[str, int | None] = {}
        self.trace: list[Step] | None = None  # see numerics_complex.step
        self._count = 0

    def temp(self) -> str:
        """A fresh register name."""
        self._count += 1
        return f"%t{self._count}"

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begin the block `label`; the one before must have ended in a terminator."""
        self.lines.append(f"{label}:")
        self.block = label

    def add(self, line: str) -> None:
        """Append one instruction."""
        self.lines.append("  " + line)

    def op(self, text: str) -> str:
        """Append an instruction that has a result, and name the result."""
        name = self.temp()
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, line: str) -> None:
        """Module-level declaration, definition or metadata, once."""
        self.declarations[line] = None

    def extern(self, name: str, address: int | None = None) -> None:
        """Note a symbol that the linker must resolve (C library, libmvec, or "npy:..." of `mathlib`)."""
        self.externs[name] = address

    def alloca(self, type: str, align: int = 64) -> str:
        """Stack slot in the entry block."""
        name = self.temp()
        self.slots.append(f"  {name} = alloca {type}, align {align}")
        return name

    def type(self, dtype: str) -> str:
        """Register type of a real dtype at the present width."""
        return vtype(dtype, self.lanes)

    def const(self, dtype: str, value: float) -> str:
        """Operand text of a number in every lane."""
        return splat(literal(dtype, value), SCALARS[dtype], self.lanes)

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """Call of an intrinsic or function of the given (type, operand) arguments, declared on the way."""
        self.declare(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        return self.op(f"call {result} @{name}({', '.join(f'{t} {a}' for t, a in args)})")

    def intrinsic(self, name: str, dtype: str, *args: str) -> str:
        """Call of `llvm.name` whose arguments and result all have `dtype`."""
        scalar = {"half": "f16", "float": "f32", "double": "f64"}.get(SCALARS[dtype], SCALARS[dtype])
        suffix = scalar if self.lanes == 1 else f"v{self.lanes}{scalar}"
        t = self.type(dtype)
        return self.call(t, f"llvm.{name}.{suffix}", *((t, a) for a in args))

    def read(self, dtype: str, pointer: str, align: int = 0) -> Reg:
        """Load `lanes` adjacent elements; complex ones come apart, bytes become bools."""
        align = align or SIZES[dtype]
        if dtype in PARTS:
            part = PARTS[dtype]
            wide = vtype(part, 2 * self.lanes)
            both = self.op(f"load {wide}, ptr {pointer}, align {min(align, SIZES[part])}")
            return self.split(part, both)
        value = self.op(f"load {mtype(dtype, self.lanes)}, ptr {pointer}, align {align}")
        return self.from_byte(value) if dtype == "b1" else value

    def write(self, dtype: str, value: Reg, pointer: str, align: int = 0) -> None:
        """Store `lanes` adjacent elements."""
        align = align or SIZES[dtype]
        if dtype in PARTS:
            assert isinstance(value, tuple)
            part = PARTS[dtype]
            both = self.join(part, value)
            self.add(f"store {vtype(part, 2 * self.lanes)} {both}, ptr {pointer}, align {min(align, SIZES[part])}")
            return
        assert isinstance(value, str)
        if dtype == "b1":
            value = self.to_byte(value)
        self.add(f"store {mtype(dtype, self.lanes)} {value}, ptr {pointer}, align {align}")

    def split(self, part: str, both: str) -> tuple[str, str]:
        """Real and imaginary lanes of an interleaved vector of 2 * lanes elements of dtype `part`."""
        n, wide = self.lanes, vtype(part, 2 * self.lanes)
        if n == 1:
            re = self.op(f"extractelement {wide} {both}, i32 0")
            return re, self.op(f"extractelement {wide} {both}, i32 1")
        re = self.op(f"shufflevector {wide} {both}, {wide} poison, {mask(range(0, 2 * n, 2))}")
        return re, self.op(f"shufflevector {wide} {both}, {wide} poison, {mask(range(1, 2 * n, 2))}")

    def join(self, part: str, value: tuple[str, str]) -> str:
        """Interleaved vector of 2 * lanes elements."""
        n, t = self.lanes, self.type(part)
        if n == 1:
            half = self.op(f"insertelement <2 x {t}> poison, {t} {value[0]}, i32 0")
            return self.op(f"insertelement <2 x {t}> {half}, {t} {value[1]}, i32 1")
        order = [i for k in range(n) for i in (k, n + k)]
        return self.op(f"shufflevector {t} {value[0]}, {t} {value[1]}, {mask(order)}")

    def from_byte(self, value: str) -> str:
        """Bool of a byte that is 0 or not."""
        return self.op(f"icmp ne {self.type('u1')} {value}, {self.const('u1', 0)}")

    def to_byte(self, value: str) -> str:
        """Byte 0 or 1 of a bool."""
        return self.op(f"zext {self.type('b1')} {value} to {self.type('u1')}")

    def function(self, head: str, entry: str = "entry") -> str:
        """The function's text: `head` is all of "define ..." up to the brace."""
        return "\n".join([head + " {", f"{entry}:", *self.slots, *self.lines, "}"])

    def module(self, *functions: str) -> str:
        """Module text of these functions and everything declared so far."""
        return "\n".join([*self.declarations, *functions, ""])
