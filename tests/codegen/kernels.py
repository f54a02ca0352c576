"""Builds kernels over NumPy arrays by hand, and launches them."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence
from typing import Any

import numpy

from offarray.codegen.abi import layout
from offarray.codegen.check import check
from offarray.codegen.compile import compile, host_target
from offarray.codegen.kernel import MONOIDS, STRIDED, UNIT, Fold, Kernel, Load, Operand, Store, Value
from offarray.runtime.target import Compiled, Target

Array = numpy.ndarray[Any, Any]


def name_of(dtype: Any) -> str:
    """Kernel IR's name of a dtype."""
    found = numpy.dtype(dtype)
    return f"{found.kind}{found.itemsize}"


class Builder:
    """A kernel under construction over axes of the given extents; each method gives the number of a value."""

    def __init__(self, *extents: int) -> None:
        self.extents = extents
        self.values: list[Value] = []
        self.stores: list[Store] = []
        self.arrays: list[Array] = []
        self.access: list[str] = []
        self.scalars: list[tuple[str, complex]] = []
        self.load_words: dict[int, list[int]] = {}
        self.store_words: list[list[int]] = []

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _operand(self, array: Array, access: str) -> int:
        for n, known in enumerate(self.arrays):
            if known is array:
                if access not in self.access[n]:
                    self.access[n] = "rw"
                return n
        self.arrays.append(array)
        self.access.append(access)
        return len(self.arrays) - 1

    def _strides(self, array: Array, axes: Sequence[int]) -> tuple[tuple[int, ...], list[int], int]:
        classes, words, dom = [0] * len(self.extents), {}, 0
        for dimension, axis in enumerate(axes):
            stride = array.strides[dimension]
            classes[axis] = UNIT if stride == array.itemsize else STRIDED
            dom |= 1 << axis
            if classes[axis] == STRIDED:
                words[axis] = stride
        return tuple(classes), [words[a] for a in sorted(words)], dom

    def _dom(self, src: Sequence[int]) -> int:
        dom = 0
        for s in src:
            dom |= self.values[s].dom
        return dom

    def load(self, array: Array, *axes: int, at: Sequence[int] = (), strides: Sequence[int] = ()) -> int:
        """Read `array`, whose dimensions run along `axes`, at gathered places."""
        classes, words, dom = self._strides(array, axes)
        picks = tuple(UNIT if s == array.itemsize else STRIDED for s in strides)
        load = Load(self._operand(array, "r"), classes, picks)
        n = self._add(Value("load", name_of(array.dtype), tuple(at), load, dom | self._dom(at)))
        self.load_words[n] = [*words, *strides]
        return n

    def arg(self, value: complex, dtype: str) -> int:
        """A scalar argument."""
        self.scalars.append((dtype, value))
        return self._add(Value("arg", dtype, (), len(self.scalars) - 1))

    def iota(self, axis: int) -> int:
        """The index along `axis`."""
        return self._add(Value("iota", "i8", (), axis, 1 << axis))

    def op(self, name: str, dtype: str, *src: int, fault: int = 0) -> int:
        """One operation."""
        return self._add(Value(name, dtype, src, None, self._dom(src), fault))

    def fold(self, monoid: str, axes: Sequence[int], source: int, keep: str = "last", fault: int = 0) -> int:
        """A reduction or scan."""
        mask = sum(1 << a for a in axes)
        dom = self.values[source].dom
        dom = dom | mask if keep == "prefix" else dom & ~mask
        dtype = MONOIDS[monoid] or self.values[source].dtype
        return self._add(Value("fold", dtype, (source,), Fold(tuple(axes), monoid, keep), dom, fault))

    def store(self, array: Array, value: int, *axes: int) -> None:
        """Write `value` to `array`, whose dimensions run along `axes`."""
        classes, words, dom = self._strides(array, axes)
        self.stores.append(Store(self._operand(array, "w"), classes, value, dom))
        self.store_words.append(words)

    def kernel(self) -> Kernel:
        """What has been built."""
        operands = tuple(Operand(name_of(a.dtype), c) for a, c in zip(self.arrays, self.access, strict=True))
        return Kernel(
            len(self.extents), tuple(self.values), tuple(self.stores), operands, tuple(d for d, _ in self.scalars)
        )  # fmt: skip

    def compiled(self, target: Target | None = None) -> Compiled:
        """The kernel, checked and compiled."""
        kernel = self.kernel()
        check(kernel)
        return compile(kernel, target or host_target())

    def words(self) -> list[int | float]:
        """Everything up to the fault pointer."""
        words: list[int | float] = [a.ctypes.data for a in self.arrays]
        words += self.extents
        for n in range(len(self.values)):
            words += self.load_words.get(n, [])
        for more in self.store_words:
            words += more
        for dtype, value in self.scalars:
            if dtype[0] == "c":
                words += [float(value.real), float(value.imag)]
            else:
                words.append(float(value.real) if dtype[0] == "f" else int(value.real))
        return words

    def run(self, target: Target | None = None, split: Sequence[tuple[int, int]] | None = None) -> list[int]:
        """Launch the kernel, its units in the given ranges; gives the fault bytes."""
        compiled, kernel, where = self.compiled(target), self.kernel(), layout(self.kernel())
        words = self.words()
        assert len(words) == where.fault
        row = (ctypes.c_uint64 * where.words)()
        for n, word in enumerate(words):
            row[n] = struct.unpack("Q", struct.pack("d", word))[0] if isinstance(word, float) else word % 2**64
        faults = (ctypes.c_uint8 * (len(kernel.faults) + 1))()
        scratch = ctypes.create_string_buffer(compiled.scratch(self.extents) + 1)
        row[where.fault], row[where.scratch] = ctypes.addressof(faults), ctypes.addressof(scratch)
        args = ctypes.addressof(row)
        for low, high in split or [(0, compiled.units(self.extents))]:
            compiled.body(args, low, high)
        if compiled.finish is not None:
            compiled.finish(args)
        return list(faults)[: len(kernel.faults)]


def ranges(units: int, rng: numpy.random.Generator) -> list[tuple[int, int]]:
    """A random split of the units, in random order."""
    ends = sorted({0, units, *(int(k) for k in rng.integers(0, units + 1, 4))})
    pairs = list(itertools.pairwise(ends))
    order = rng.permutation(len(pairs))
    return [pairs[k] for k in order] or [(0, 0)]
