"""Runs kernel IR with NumPy: the executable specification of what a compiled kernel does.

in: a kernel and the same argument row that machine code gets (codegen/abi.py); out: operands and fault bytes written.

Every value is an array with one dimension for each axis of the kernel, of length 1 along the axes that it does not
vary over.  All values are worked out before the first store, so an operand that is read and written needs no care.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import time
from typing import Any

import numpy

from ..runtime.target import Compiled, Target
from . import mathlib
from .abi import Layout, layout
from .kernel import DIVIDE, INVALID, OVER, STRIDED, UNDER, UNIT, Fold, Kernel, Load, Operand, Value
from .numerics import SPLIT

Array = numpy.ndarray[Any, numpy.dtype[Any]]

_KINDS = {"divide": DIVIDE, "over": OVER, "under": UNDER, "invalid": INVALID}


def compiled(kernel: Kernel, target: Target) -> Compiled:
    """`kernel` as a `Compiled` whose body is NumPy; it has one unit of work and needs no scratch memory."""
    start = time.perf_counter()
    places = layout(kernel)

    def body(args: int, first: int, last: int) -> None:
        if first < last:
            _Run(kernel, places, args).run()

    key = hashlib.sha256(f"interpret {kernel!r}".encode()).hexdigest()
    build_ms = 1e3 * (time.perf_counter() - start)
    return Compiled(target, key, body, None, lambda extents: 1, lambda extents: 0, build_ms)


class _Run:
    """One launch."""

    def __init__(self, kernel: Kernel, places: Layout, args: int) -> None:
        self.kernel = kernel
        self.places = places
        self.words = (ctypes.c_int64 * places.words).from_address(args)
        self.floats = (ctypes.c_double * places.words).from_address(args)
        self.extents = tuple(self.words[places.extents + a] for a in range(kernel.rank))
        self.values: list[Array] = []

    def run(self) -> None:
        """Evaluate, report faults, store."""
        reports = 0
        for number, value in enumerate(self.kernel.values):
            kinds: Any = {kind: "call" if value.fault & bit else "ignore" for kind, bit in _KINDS.items()}
            seen = _Seen()
            with numpy.errstate(call=seen, **kinds):
                self.values.append(self.value(number, value))
            if value.fault:
                place = self.words[self.places.fault] + reports
                ctypes.c_uint8.from_address(place).value |= seen.flags & value.fault
                reports += 1
        sources = [self.values[s.value].copy() for s in self.kernel.stores]
        for store, words, source in zip(self.kernel.stores, self.places.store_strides, sources, strict=True):
            strides = self.strides(store.strides, words, store.operand)
            self.memory(store.operand, store.dom, strides)[...] = source

    def value(self, number: int, value: Value) -> Array:
        """One value, from those before it."""
        sources = [self.values[s] for s in value.src]
        if isinstance(value.arg, Load):
            return self.load(value, value.arg, self.places.load_strides[number], sources)
        if isinstance(value.arg, Fold):
            return self.fold(value.arg, sources[0])
        if value.op == "iota":
            axis = int(value.arg or 0)
            shape = [n if a == axis else 1 for a, n in enumerate(self.extents)]
            return numpy.arange(self.extents[axis], dtype="i8").reshape(shape)
        if value.op == "arg":
            return self.scalar(int(value.arg or 0))
        return _operation(value.op, sources, numpy.dtype(value.dtype))

    def shape(self, dom: int) -> tuple[int, ...]:
        """Lengths of a value's dimensions."""
        return tuple(n if dom >> a & 1 else 1 for a, n in enumerate(self.extents))

    def strides(self, classes: tuple[int, ...], words: tuple[int, ...], operand: int) -> tuple[int, ...]:
        """Bytes from one index to the next along each axis."""
        rest = iter(words)
        size = numpy.dtype(self.kernel.operands[operand].dtype).itemsize
        return tuple(self.words[next(rest)] if c == STRIDED else size if c == UNIT else 0 for c in classes)

    def memory(self, number: int, dom: int, strides: tuple[int, ...]) -> Array:
        """An operand's elements over the axes of `dom`."""
        return _view(self.kernel.operands[number], self.words[number], self.shape(dom), strides)

    def load(self, value: Value, arg: Load, words: tuple[int, ...], gathers: list[Array]) -> Array:
        """Copy of an operand's elements, by place or gathered."""
        direct = arg.strides.count(STRIDED)
        strides = self.strides(arg.strides, words[:direct], arg.operand)
        if not gathers:
            return self.memory(arg.operand, value.dom, strides).copy()
        shape = self.shape(value.dom)
        offset = numpy.zeros(shape, "i8")
        for axis, stride in enumerate(strides):
            steps = [-1 if a == axis else 1 for a in range(len(shape))]
            if shape[axis] != 1:
                offset += (numpy.arange(shape[axis]) * stride).reshape(steps)
        for index, word in zip(gathers, words[direct:], strict=True):
            offset += index * self.words[word]
        return _gather(self.kernel.operands[arg.operand], self.words[arg.operand], offset)

    def scalar(self, number: int) -> Array:
        """A scalar argument, broadcast over every axis."""
        dtype, word = numpy.dtype(self.kernel.scalars[number]), self.places.scalars[number]
        found: Any = self.words[word]
        if dtype.kind == "c":
            found = complex(self.floats[word], self.floats[word + 1])
        elif dtype.kind == "f":
            found = self.floats[word]
        elif dtype.kind == "u":
            found &= (1 << 8 * dtype.itemsize) - 1
        return numpy.full((1,) * self.kernel.rank, found, dtype)

    def fold(self, fold: Fold, source: Array) -> Array:
        """A reduction or scan, the folded axes taken as one in their order."""
        shape = [self.extents[a] if a in fold.axes else n for a, n in enumerate(source.shape)]
        last = range(-len(fold.axes), 0)
        moved = numpy.moveaxis(numpy.broadcast_to(source, shape), fold.axes, last)
        outer = moved.shape[: moved.ndim - len(fold.axes)]
        flat = moved.reshape(*outer, math.prod(self.extents[a] for a in fold.axes))
        if fold.monoid in ("argmin", "argmax"):
            if fold.keep != "last":
                raise NotImplementedError(f"scan of {fold.monoid}")
            found = getattr(flat, fold.monoid)(axis=-1)
        else:
            ufunc = getattr(numpy, fold.monoid)
            dtype = "b1" if fold.monoid.startswith("logical") else flat.dtype
            if fold.keep == "prefix":
                scanned = ufunc.accumulate(flat, axis=-1, dtype=dtype).reshape(moved.shape)
                return numpy.moveaxis(scanned, last, fold.axes)
            found = ufunc.reduce(flat, axis=-1, dtype=dtype)
        return numpy.expand_dims(found, fold.axes)


class _Seen:
    """Collects the floating-point faults that NumPy reports."""

    def __init__(self) -> None:
        self.flags = 0

    def __call__(self, message: str, flags: int) -> None:
        self.flags |= flags


def _operation(op: str, sources: list[Array], dtype: numpy.dtype[Any]) -> Array:
    """One scalar operation, elementwise."""
    if op == "cast":
        source = sources[0]
        if source.dtype.kind == "c" and dtype.kind not in "cb":
            source = source.real
        return source.astype(dtype)
    if op == "select":
        return numpy.where(sources[0], sources[1], sources[2])
    if op in ("real", "imag"):
        return getattr(sources[0], op).copy()  # type: ignore[no-any-return]
    name, which = SPLIT.get(op, (op, 0))
    ufunc = mathlib.ufunc(name)
    if ufunc is None:
        raise NotImplementedError(f"no operation {op!r}")
    result: Any = ufunc(*sources)
    if op in SPLIT:
        result = result[which]
    assert result.dtype == dtype, (op, result.dtype, dtype)
    return numpy.asarray(result)


def _view(operand: Operand, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Array on the memory at `pointer`; strides may be negative or zero."""
    dtype = numpy.dtype(operand.dtype)
    if 0 in shape:
        return numpy.empty(shape, dtype)
    spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = sum(s for s in spans if s < 0)
    size = sum(s for s in spans if s > 0) - low + dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(pointer + low)
    return numpy.ndarray(shape, dtype, memory, -low, strides)


def _gather(operand: Operand, pointer: int, offset: Array) -> Array:
    """Elements at the given byte offsets from `pointer`."""
    dtype = numpy.dtype(operand.dtype)
    if not offset.size:
        return numpy.empty(offset.shape, dtype)
    low = int(offset.min())
    size = int(offset.max()) - low + dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(pointer + low)
    each = numpy.frombuffer(memory, "u1")[(offset - low)[..., None] + numpy.arange(dtype.itemsize)]
    elements: Array = each.view(dtype)[..., 0]
    return elements
