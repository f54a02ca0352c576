"""Buffers: who owns host memory, and whether anybody outside can see it.

Nodes and executing programs refer to buffers; a buffer refers to neither.
"""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy
from numpy.lib.array_utils import byte_bounds

from . import lattice
from .pool import account, give, take

Array = numpy.ndarray[Any, Any]
DType = numpy.dtype[Any]


_word = ctypes.c_void_p.from_address
_HEAD = object.__basicsize__


def _by_interface(array: Array) -> int:
    data: int = array.__array_interface__["data"][0]
    return data


def _by_layout(array: Array) -> int:
    return _word(id(array) + _HEAD).value or 0


def _same() -> bool:
    probe = numpy.empty(2)
    return _by_layout(probe) == _by_interface(probe)


# Address of an array's first element.  In CPython the data pointer follows the object's head: a microsecond saved.
address_of = _by_layout if sys.implementation.name == "cpython" and _same() else _by_interface


class Memory:
    """Memory for `numpy.asarray` to look at; keeps `owner` alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


class Export:
    """Alive as long as an array that was handed out, or a view or memoryview of one, is."""

    __slots__ = ("buffer", "__weakref__")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


class Buffer:
    """Host memory of one value.

    Attributes
    ----------
    array : numpy.ndarray
        The owner: 1-d uint8 (and perhaps longer than `nbytes`) for memory of our own, any array when adopted; None,
        with the address 0, for a buffer that only a device holds so far.
    address, nbytes : int
        Where the memory starts, at its lowest address, and its extent.
    foreign : bool
        Somebody else's memory backs it.
    device : residency.Copy or None
        Its copy on a device; whoever looks at the host's memory asks that first.
    """

    __slots__ = ("array", "address", "nbytes", "foreign", "device", "_export", "_raw", "_pooled", "__weakref__")

    def __init__(self, array: Array, address: int, nbytes: int, foreign: bool, pooled: bool) -> None:
        self._pooled = pooled
        self.array = array
        self.address = address
        self.nbytes = nbytes
        self.foreign = foreign
        self.device: Any = None
        self._export: weakref.ref[Export] | None = None
        self._raw: Array | None = None

    def __del__(self) -> None:
        if self.device is not None:
            self.device.unpin()  # while the memory is there
        if self._pooled:
            self._raw = None
            if self.array is not None:
                give(self)
        elif not self.foreign:
            account(-self.nbytes)

    def __repr__(self) -> str:
        return f"<Buffer {self.nbytes} bytes at {self.address:#x}{' shared' if self.shared else ''}>"

    @property
    def shared(self) -> bool:
        """Whether memory outside our control backs it or looks at it: then its address and value are public."""
        return self.foreign or (self._export is not None and self._export() is not None)

    @property
    def writeable(self) -> bool:
        """Whether the memory may be written at all."""
        return self._pooled or bool(self.array.flags.writeable)

    @property
    def raw(self) -> Array:
        """The memory as 1-d uint8, from `address` on; memory of our own may go on behind `nbytes`."""
        if self.device is not None:
            self.device.look(self)
        return self.memory()

    def memory(self) -> Array:
        """The same, whatever it holds now: for those who have looked already."""
        if self._pooled:
            return self.array
        if self._raw is None:
            self._raw = self._bytes(self.array)
        return self._raw

    def _bytes(self, owner: Any) -> Array:
        """1-d uint8 over the whole extent, with `owner` kept alive by it."""
        data = (self.address, not self.writeable)
        return numpy.asarray(Memory(owner, {"data": data, "shape": (self.nbytes,), "typestr": "|u1", "version": 3}))

    def poison(self, byte: int) -> None:
        """Overwrite memory of our own, so that whoever reads it later is found out."""
        if self.array is not None:
            self.device = None
        if self._pooled and self.array is not None:
            self.array.fill(byte)

    def view(
        self, dtype: DType, shape: tuple[int, ...], offset: int = 0, strides: tuple[int, ...] | None = None,
        writeable: bool = True, write: bool = True,
    ) -> Array:  # fmt: skip
        """An array of our own on this memory, which `shared` does not count; `offset` is from `address`.

        Without `strides` the elements lie in C order.  Without `write` nobody writes through it who does not say so
        first to the copy on a device.
        """
        if self.device is not None:
            _seen(self, dtype.itemsize, shape, offset, strides, write and writeable)
        if 0 in shape:
            offset = 0  # NumPy refuses an offset into empty memory
        if dtype.kind == "T":
            array = self._sliced(dtype, shape, offset, strides)
        elif dtype.hasobject:
            array = self._references(self.array, dtype, shape, offset, strides)
        else:
            array = numpy.ndarray(shape, dtype, self.memory(), offset, strides)
        if not writeable:
            array.flags.writeable = False
        return array

    def export(
        self, dtype: DType, shape: tuple[int, ...], offset: int = 0, strides: tuple[int, ...] | None = None,
        writeable: bool = True, like: Array | None = None,
    ) -> Array:  # fmt: skip
        """An array to hand out: while it, or anything made from it without a copy, lives, the buffer is shared.

        `like` is an array of our own on the same elements, if there is one.
        """
        if self.device is not None:
            if self.device.outside:  # memory of a device, of which the host has an image for the moment
                array = numpy.array(self.view(dtype, shape, offset, strides, write=False))
                array.flags.writeable = False
                return array
            self.device.look(self)
        if self.foreign:
            array = like.view() if like is not None and dtype.kind == "T" else self.view(dtype, shape, offset, strides)
        else:
            token = self._export() if self._export is not None else None
            if token is None:
                token = Export(self)
                self._export = weakref.ref(token)
            if 0 in shape:
                offset = min(offset, self.nbytes)
            if dtype.kind == "T":
                array = lattice.hold(self._sliced(dtype, shape, offset, strides) if like is None else like, token)
            elif dtype.hasobject:
                array = self._references(token, dtype, shape, offset, strides)
            else:
                try:
                    array = numpy.ndarray(shape, dtype, self._bytes(token), offset, strides)
                except ValueError:  # strides that somebody made up and that reach beyond the memory
                    if like is None:
                        raise
                    array = lattice.hold(like, token)
        if not writeable:
            array.flags.writeable = False
        return array

    def _references(
        self, owner: Any, dtype: DType, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None
    ) -> Array:
        """An array of a type that holds Python references, which NumPy does not make from plain bytes."""
        interface = {
            "data": (self.address + offset, not self.writeable), "shape": tuple(shape), "strides": strides,
            "typestr": dtype.str, "descr": dtype.descr, "version": 3,
        }  # fmt: skip
        array = numpy.asarray(Memory(owner, interface))
        if array.dtype != dtype and dtype == self.array.dtype:  # `descr` told less than all about it
            return lattice.hold(self._sliced(dtype, shape, offset, strides), owner)
        return array if array.dtype == dtype else array.view(dtype)

    def _sliced(self, dtype: DType, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None) -> Array:
        """A view of the owner itself, whose type of elements it has."""
        if 0 in shape:
            return numpy.empty(shape, dtype)
        size = dtype.itemsize
        if strides is None:
            steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        else:
            steps = tuple(s // size for s in strides)
        flat = lattice.line(self.array)
        return lattice.strided(flat, (self.address + offset - address_of(flat)) // size, tuple(shape), steps)


_RUNS = 16  # fetches that one small look may take


def _seen(
    buffer: Buffer, itemsize: int, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None, write: bool
) -> None:
    """Bring to the host what an array is about to show, or everything where it may be written."""
    copy = buffer.device
    if copy.host or write:
        copy.look(buffer, write)
        return
    if 0 in shape:
        copy.look(buffer, False, 0, 0)
        return
    if strides is None:
        copy.look(buffer, False, offset, offset + math.prod(shape) * itemsize)
        return
    low, high, axes = offset, offset + itemsize, []
    for extent, step in zip(shape, strides, strict=True):
        reach = (extent - 1) * step
        low, high = low + min(reach, 0), high + max(reach, 0)
        if extent > 1 and step:
            axes.append((abs(step), extent))
    width = itemsize
    axes.sort()
    while axes and axes[0][0] == width:
        width *= axes.pop(0)[1]
    if axes and axes[0][0] > width and math.prod(n for _, n in axes[1:]) <= _RUNS:
        starts = [low]
        for step, extent in axes[1:]:
            starts = [start + k * step for start in starts for k in range(extent)]
        if all(copy.columns(buffer, start, width, *axes[0]) for start in starts):
            return
    copy.look(buffer, False, low, high)


unsettled: list[Buffer] = []  # memory of devices that others look at, whose image the host is writing


def settle() -> None:
    """At the end of a statement: what the host has written is there for all who look at it."""
    while unsettled:
        buffer = unsettled.pop()
        buffer.device.put(buffer)


fresh: Callable[[int], Buffer | None] | None = None  # once a device is in use: makes buffers without host memory
carry: Callable[..., bool] | None = None  # then too: copies within the device (carrying.py)


def allocate(nbytes: int, zero: bool = False) -> Buffer:
    """Private memory of `nbytes`, 64-byte aligned.

    Raises
    ------
    MemoryLimitError
        When the setting `memory_limit` would be passed.
    """
    if fresh is not None and not zero:
        made = fresh(nbytes)
        if made is not None:
            return made
    block, address = take(nbytes, zero)
    return Buffer(block, address, nbytes, False, True)


def adopt(array: Array, foreign: bool) -> Buffer:
    """The memory of `array`, whatever its layout: `foreign` if anybody else may look at it or write it."""
    if array.flags.c_contiguous:
        low = address_of(array)
        nbytes = array.nbytes
    else:
        low, high = byte_bounds(array)
        nbytes = high - low if array.size else 0
    if not foreign:
        account(nbytes)
    return Buffer(array, low, nbytes, foreign, False)
