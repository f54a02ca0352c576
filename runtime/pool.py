"""Memory for new arrays: size classes of freed blocks, kept up to a limit.

A block is a 64-byte aligned uint8 array inside a NumPy allocation.  It is used again only when nothing but the
buffer that gives it back still refers to it.  Fresh pages are what makes a new array dear, not malloc.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any

import numpy

from .config import settings
from .errors import MemoryLimitError

Block = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]

ALIGN = 64
CALLOC = 1 << 18  # from here on zeroed memory is the system's fresh pages, never a used block
STOCK = 1 << 20  # bytes that are in memory before anybody asks
LEAST = STOCK >> 3  # of a block that is worth all of them

_lock = threading.RLock()  # re-entrant: a buffer may be finalised by a collection inside this file
_free: dict[int, list[tuple[Block, int]]] = {}  # capacity -> (block, address); the class used last stands last
_held = 0  # bytes in _free
_live = 0  # bytes of buffers in use
_most = 0  # the highest that _live was, and the blocks taken, since `mark`
_taken = 0
_stock: list[Any] = []  # what `stock` has made ready
_open = True  # until the interpreter ends: what comes afterwards finds nothing in order


def _close() -> None:
    global _open
    _open = False


atexit.register(_close)


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # the parent's may be locked by a thread that the child lacks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def capacity(nbytes: int) -> int:
    """Bytes of the block that serves `nbytes`: eight classes for each power of two, at least 64 bytes."""
    if nbytes <= ALIGN:
        return ALIGN
    shift = max((nbytes - 1).bit_length() - 4, 6)
    return (nbytes + (1 << shift) - 1) >> shift << shift


def _fresh(size: int, zero: bool) -> tuple[Block, int]:
    if _stock and not zero and LEAST <= size <= STOCK:
        owner = _stock.pop()
    else:
        owner = (numpy.zeros if zero else numpy.empty)(size + ALIGN, numpy.uint8)
    address: int = owner.__array_interface__["data"][0]  # a fresh page costs more than this
    start = -address % ALIGN
    return owner[start : start + size], address + start


def _new(size: int, zero: bool) -> tuple[Block, int]:
    try:
        return _fresh(size, zero)
    except MemoryError:
        trim()
        return _fresh(size, zero)


def _reserve(size: int) -> None:
    """Make room for `size` more bytes under the limit, or raise."""
    limit = settings.memory_limit
    if _live + _held + size <= limit:
        return
    trim()
    if _live + size > limit:
        text = f"{size} bytes asked for, {_live} in use, and memory_limit is {limit}"
        raise MemoryLimitError(text)


def take(nbytes: int, zero: bool) -> tuple[Block, int]:
    """A block of at least `nbytes`, zeroed on demand, and its address."""
    global _held, _live, _most, _taken
    size = capacity(nbytes)
    block: tuple[Block, int] | None = None
    with _lock:
        if not (zero and size >= CALLOC):
            blocks = _free.get(size)
            if blocks:
                block = blocks.pop()
                _held -= size
        if block is None and settings.memory_limit:
            _reserve(size)
        _live += size
        _taken += 1
        if _live > _most:
            _most = _live
    if block is not None:
        if zero:
            block[0].fill(0)
        return block
    try:
        return _new(size, zero)
    except BaseException:
        account(-size)
        raise


def account(nbytes: int) -> None:
    """Count memory that came from elsewhere as in use (or, negative, as no longer in use)."""
    global _live
    if not _open:
        return
    with _lock:
        _live += nbytes


class _Probe:
    __slots__ = ("address", "array")

    def __init__(self) -> None:
        self.array, self.address = _fresh(ALIGN, False)


def _references(holder: Any) -> tuple[int, int]:
    return sys.getrefcount(holder.array), sys.getrefcount(holder.array.base)


_ALONE = _references(_Probe())  # what is counted when nothing else refers to a block: measured, not assumed


def give(holder: Any) -> None:
    """Take back the block in `holder.array`, to be used again if nothing else refers to it."""
    global _held, _live
    if not _open:
        return
    size = holder.array.nbytes
    alone = _references(holder) == _ALONE
    with _lock:
        _live -= size
        limit = settings.pool_bytes
        if not alone or size > limit:
            return
        while _held + size > limit:
            _evict()
        blocks = _free.pop(size, None)
        if blocks is None:
            blocks = []
        blocks.append((holder.array, holder.address))
        _free[size] = blocks
        _held += size


def _evict() -> None:
    """Drop one block of the class that was used longest ago."""
    global _held
    size = next(iter(_free))
    blocks = _free[size]
    if blocks:
        blocks.pop()
        _held -= size
    if not blocks:
        del _free[size]


def trim() -> None:
    """Give all freed memory back to the system."""
    global _held
    with _lock:
        _free.clear()
        _stock.clear()
        _held = 0


def stock() -> None:
    """Have pages ready for the first result: for one of this size they take longer than its kernel.

    Made by a thread beside the import; without Python's lock but for a moment.
    """
    if settings.memory_limit or settings.pool_bytes < 16 * STOCK:
        return
    owner = numpy.empty(STOCK + ALIGN, numpy.uint8)
    owner.fill(0)
    _stock.append(owner)


def mark() -> None:
    """From now on `marked` tells of what follows."""
    global _most, _taken
    _most, _taken = _live, 0


def marked() -> tuple[int, int]:
    """Most bytes that were in use at once since `mark`, and the number of blocks taken."""
    return _most, _taken


def stats() -> dict[str, int]:
    """Bytes in use by buffers, and bytes kept for new ones."""
    return {"live": _live, "held": _held}
