"""The first launch of a new kernel in NumPy, while a thread makes its code.

in: a kernel that is not on disk; out: a `Compiled` that is meant for one launch, and later the kernel's own.

Making code takes tens of milliseconds, in which NumPy does most kernels' work many times over.  Only kernels whose bits
are NumPy's in any case are run so: arithmetic of one axis, element by element.  It is done in blocks that stay in the
processor's cache, so that nothing but operands is read from memory.  The thread starts when the launch is done, as both
need Python's lock; it is waited for at the end of the process, so that the code is on disk for the next one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy

from ..runtime import trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import prepare
from .abi import layout
from .kernel import ABSENT, DIVIDE, INVALID, OVER, UNDER, UNIT, Kernel, Load, Value

BLOCK = 1 << 13  # elements at a time
WORK = 1 << 24  # elements times values that NumPy does faster than code is made

# Operations that round once, and of which there is only one right result.
_EXACT = frozenset(
    "add subtract multiply divide negative positive absolute sqrt square equal not_equal less less_equal greater"
    " greater_equal logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor invert".split()
)
_DTYPES = ("f8", "f4", "b1")
_KINDS = {"divide": DIVIDE, "over": OVER, "under": UNDER, "invalid": INVALID}

Array = numpy.ndarray[Any, numpy.dtype[Any]]


def suits(kernel: Kernel, extents: tuple[int, ...]) -> bool:
    """Whether NumPy gives the kernel's bits, and soon, and a thread can make the code."""
    if kernel.rank != 1 or not settings.meanwhile or not prepare.able() or prepare.crowded():
        return False
    if extents[0] * len(kernel.values) > WORK or trace.events is not None or settings.debug or settings.check:
        return False
    if not all(o.noalias and o.dtype in _DTYPES for o in kernel.operands):
        return False
    return all(s.strides == (UNIT,) for s in kernel.stores) and all(_exact(kernel, v) for v in kernel.values)


def _exact(kernel: Kernel, value: Value) -> bool:
    if value.dtype not in _DTYPES:
        return False
    if isinstance(value.arg, Load):
        return not value.src and value.arg.strides in ((UNIT,), (ABSENT,))
    if value.op == "cast":
        return kernel.values[value.src[0]].dtype == "b1" or value.dtype != "b1"
    return value.op in _EXACT or value.op in ("arg", "select")


def compiled(kernel: Kernel, target: Target, key: str, make: Callable[[], Any]) -> Compiled:
    """The kernel in NumPy for one launch, after which `make` is called in a thread."""
    prepare.missed()  # LLVM is loaded without Python's lock

    def body(args: int, first: int, last: int) -> int:
        if first < last:
            _Run(kernel, args).run()
        prepare.background((make,), needed=True)
        return 0

    # What is learned of its speed says nothing about the code.
    return Compiled(
        target, key + "n", body, None, lambda extents: 1, lambda extents: 0, 0.0, brief=True,  # type: ignore[arg-type]
    )  # fmt: skip


class _Seen:
    """Takes floating-point faults down in the byte of the value that is computed."""

    def __init__(self) -> None:
        self.value = 0
        self.flags: dict[int, int] = {}

    def __call__(self, message: str, flags: int) -> None:
        self.flags[self.value] = self.flags.get(self.value, 0) | flags


class _Run:
    """One launch."""

    def __init__(self, kernel: Kernel, args: int) -> None:
        self.kernel, where = kernel, layout(kernel)
        words = (ctypes.c_int64 * where.words).from_address(args)
        floats = (ctypes.c_double * where.words).from_address(args)
        self.extent, self.fault = words[where.extents], words[where.fault]
        self.scalars: list[Any] = [
            floats[word] if dtype[0] == "f" else words[word]
            for dtype, word in zip(kernel.scalars, where.scalars, strict=True)
        ]
        self.pointers = [words[n] for n in range(len(kernel.operands))]
        self.values: list[Array] = []
        self.seen = _Seen()

    def run(self) -> None:
        """Compute and store, then report faults."""
        kernel, extent = self.kernel, self.extent
        wanted = 0
        for value in kernel.values:
            wanted |= value.fault
        kinds: Any = {kind: "call" if wanted & bit else "ignore" for kind, bit in _KINDS.items()}
        memory = [self.memory(n) for n in range(len(kernel.operands))]
        blocks = [numpy.empty(min(BLOCK, extent) if v.dom else 1, v.dtype) for v in kernel.values]
        with numpy.errstate(call=self.seen, **kinds):
            for n, value in enumerate(kernel.values):
                if not value.dom:
                    self.value(n, value, blocks, memory, blocks[n])
            for first in range(0, extent, BLOCK):
                self.block([m[first : first + BLOCK] if len(m) > 1 else m for m in memory], blocks)
        for number, n in enumerate(kernel.faults):
            flags = self.seen.flags.get(n, 0) & kernel.values[n].fault
            if flags:
                ctypes.c_uint8.from_address(self.fault + number).value |= flags

    def memory(self, number: int) -> Array:
        """An operand's elements; one where every point of the axis reads the same."""
        loads = [v.arg for v in self.kernel.values if isinstance(v.arg, Load) and v.arg.operand == number]
        count = 1 if loads and all(load.strides == (ABSENT,) for load in loads) else self.extent
        dtype = numpy.dtype(self.kernel.operands[number].dtype)
        raw: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(self.pointers[number])
        return numpy.frombuffer(raw, dtype)

    def block(self, memory: list[Array], blocks: list[Array]) -> None:
        """Some elements: every value, then the stores, so that what is overwritten has been read."""
        count = max(len(memory[s.operand]) for s in self.kernel.stores)
        now = [b[:count] if v.dom else b for b, v in zip(blocks, self.kernel.values, strict=True)]
        for n, value in enumerate(self.kernel.values):
            if value.dom:
                self.value(n, value, now, memory, now[n])
        for store in self.kernel.stores:
            memory[store.operand][...] = now[store.value]

    def value(self, number: int, value: Value, now: list[Array], memory: list[Array], out: Array) -> None:
        """One value, into `out` or, of what is loaded, the operand itself."""
        self.seen.value = number
        if isinstance(value.arg, Load):
            if value.dom:
                now[number] = memory[value.arg.operand]
            else:
                out[...] = memory[value.arg.operand][:1]
        elif value.op == "arg":
            out[...] = self.scalars[int(value.arg or 0)]  # type: ignore[arg-type]
        elif value.op == "cast":
            out[...] = now[value.src[0]]
        elif value.op == "select":
            condition, x, y = (now[s] for s in value.src)
            out[...] = y
            numpy.copyto(out, x, where=condition)
        else:
            getattr(numpy, value.op)(*(now[s] for s in value.src), out=out)
