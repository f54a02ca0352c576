"""Host memory that a device reaches directly, for values that make room there: blocks kept for the next ones.

in: copies.py, when a value leaves a device; out: arrays of bytes, whose memory comes back here when nobody looks at it
any more.  Pinning costs what several transfers save, and takes memory from everybody: so the blocks are kept, and
bounded by the setting `pinned_bytes` and a quarter of the host's memory.  It is plain memory, registered with the
driver: a forked child has it, and a device that dies leaves it behind.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import Any

import numpy

from . import threads, trace
from .config import settings
from .errors import OffarrayError
from .pool import capacity

Memory = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]

LEAST = 1 << 20  # smaller values go through the driver's own staging
PAGE = 1 << 12
_lock = threading.RLock()  # re-entrant: a block may die in a collection inside this file
_free: dict[tuple[int, int], list[Memory]] = {}  # (device, capacity) -> blocks; the class used last stands last
_devices: dict[int, Any] = {}  # by number
_taken = 0  # bytes pinned, in use or free
_refused = 0  # bytes that were pinned when the system gave no more; 0 if it always did
_open = True  # until the interpreter ends


def _close() -> None:
    global _open
    _open = False


atexit.register(_close)


class Block:
    """Pinned memory in use, as NumPy sees it."""

    __slots__ = ("__array_interface__", "device", "memory")

    def __init__(self, device: Any, memory: Memory, nbytes: int) -> None:
        self.device, self.memory = device, memory
        self.__array_interface__ = {
            "data": (address_of(memory), False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if not _open:
            return
        with _lock:
            if self.device in _devices.values():
                key = self.device.number, self.memory.nbytes
                blocks = _free.pop(key, [])
                blocks.append(self.memory)
                _free[key] = blocks


def host_memory() -> int:
    """Bytes of the host's memory, if the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def limit() -> int:
    """Most bytes that may be pinned."""
    most = settings.pinned_bytes
    quarter = host_memory() // 4
    if quarter:
        most = min(most, quarter)
    return min(most, _refused) if _refused else most


def take(device: Any, nbytes: int, new: bool = True) -> Memory | None:
    """Memory for a value that comes from a device; None where pageable memory has to do.

    Parameters
    ----------
    new : bool
        Whether memory may be pinned for it; else only what is pinned and free will do.
    """
    global _taken, _refused
    if nbytes < LEAST or settings.memory_limit:
        return None
    size = capacity(nbytes)
    with _lock:
        blocks = _free.get((device.number, size))
        if blocks and _devices.get(device.number) is device:
            return numpy.asarray(Block(device, blocks.pop(), nbytes))
        if not new:
            return None
        while _taken + size > limit() and _drop():
            pass
        if _taken + size > limit():
            trace.log(1, f"{nbytes} bytes go to pageable memory: {_taken} are pinned, of at most {limit()}")
            return None
        try:
            memory = _touched(size)
            device.register(address_of(memory), size)
        except (OffarrayError, MemoryError) as error:
            _refused = max(_taken, 1)
            trace.log(1, f"{nbytes} bytes go to pageable memory, as no more can be pinned: {error}")
            return None
        _taken += size
        _devices[device.number] = device
        return numpy.asarray(Block(device, memory, nbytes))


def address_of(memory: Memory) -> int:
    """Where a block begins."""
    address: int = memory.__array_interface__["data"][0]
    return address


def _touched(size: int) -> Memory:
    """New memory, its pages fetched from the system by several threads."""
    memory = numpy.empty(size + PAGE, numpy.uint8)
    memory = memory[-address_of(memory) % PAGE :][:size]
    first = address_of(memory)

    def touch(_: int, low: int, high: int) -> None:
        ctypes.memset(first + low, 0, high - low)

    shares = max(1, min(threads.count(), size // LEAST))
    threads.run(touch, [0] * shares, threads.parts(size, shares))
    return memory


def _drop() -> bool:
    """Give one free block, of the class that was used longest ago, back to the system; False where there is none."""
    global _taken
    for key in list(_free):
        blocks = _free[key]
        if blocks:
            memory = blocks.pop()
            _taken -= memory.nbytes
            _devices[key[0]].unregister(address_of(memory))
            return True
        del _free[key]
    return False


def trim() -> None:
    """Give all free blocks back to the system."""
    with _lock:
        while _drop():
            pass


def forget(device: Any = None) -> None:
    """A device is lost, or all are, in a forked child: blocks are plain memory now, and not used for others again."""
    global _taken, _lock
    if device is None:
        _lock = threading.RLock()  # the parent's may be locked by a thread that the child lacks
        _devices.clear()
        _free.clear()
        _taken = 0
        return
    with _lock:
        if device in _devices.values():
            del _devices[device.number]
            for key in [k for k in _free if k[0] == device.number]:
                del _free[key]


def held() -> int:
    """Bytes that are pinned, in use or free."""
    return _taken
