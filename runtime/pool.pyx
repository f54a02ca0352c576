# cython: language_level=3, auto_pickle=False
"""Memory for new arrays, in C; the same as `pool.py`.

Python's own lock is all that is needed: nothing here lets go of it while the tables are between two states, except
where a list is made, which may start a collection.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from offarray.runtime.layout cimport base_of, data_of, size_of

import atexit
import threading

import numpy

from .config import watch
from .errors import MemoryLimitError

ALIGN = 64
CALLOC = 1 << 18
STOCK = 1 << 20
LEAST = STOCK >> 3

_lock = threading.RLock()  # for those who look at the tables from outside
_free = {}  # capacity -> (block, address); the class used last stands last
cdef dict free_ = _free
cdef long long limit = 0, kept_bytes = 0
_stock = []  # what `stock` has made ready
cdef list stock_ = _stock
_held = _live = _most = _taken = 0
_open = True

cdef extern from *:
    """
    #define offarray_count(o) ((long long)Py_REFCNT(o))
    static inline int offarray_bits(unsigned long long n) { return 64 - __builtin_clzll(n); }
    """
    long long references "offarray_count"(PyObject *o)
    int bits "offarray_bits"(unsigned long long n)


def _set_limit(value):
    global limit
    limit = value


def _set_kept(value):
    global kept_bytes
    kept_bytes = value


def _close():
    global _open
    _open = False


watch("memory_limit", _set_limit)
watch("pool_bytes", _set_kept)
atexit.register(_close)


cpdef long long capacity(long long nbytes):
    """Bytes of the block that serves `nbytes`: eight classes for each power of two, at least 64 bytes."""
    cdef int shift
    if nbytes <= 64:
        return 64
    shift = bits(nbytes - 1) - 4
    if shift < 6:
        shift = 6
    return (nbytes + (1LL << shift) - 1) >> shift << shift


cdef tuple fresh(long long size, bint zero):
    if stock_ and not zero and 1 << 17 <= size <= 1 << 20:
        owner = stock_.pop()
    else:
        owner = (numpy.zeros if zero else numpy.empty)(size + 64, numpy.uint8)
    cdef long long address = data_of(<PyObject *>owner)
    cdef long long start = -address & 63
    return owner[start : start + size], address + start


cdef int reserve(long long size) except -1:
    """Make room for `size` more bytes under the limit, or raise."""
    if _live + _held + size <= limit:
        return 0
    trim()
    if _live + size > limit:
        raise MemoryLimitError(f"{size} bytes asked for, {_live} in use, and memory_limit is {limit}")
    return 0


cpdef tuple take(long long nbytes, bint zero):
    """A block of at least `nbytes`, zeroed on demand, and its address."""
    global _held, _live, _most, _taken
    cdef long long size = capacity(nbytes)
    cdef tuple block = None
    cdef PyObject *blocks
    if not (zero and size >= 1 << 18):
        blocks = PyDict_GetItem(free_, size)
        if blocks != NULL and <list>blocks:
            block = <tuple>(<list>blocks).pop()
            _held -= size
    if block is None and limit:
        reserve(size)
    _live += size
    _taken += 1
    if _live > _most:
        _most = _live
    if block is not None:
        if zero:
            block[0].fill(0)
        return block
    try:
        try:
            return fresh(size, zero)
        except MemoryError:
            trim()
            return fresh(size, zero)
    except BaseException:
        _live -= size
        raise


cpdef account(long long nbytes):
    """Count memory that came from elsewhere as in use (or, negative, as no longer in use)."""
    global _live
    _live += nbytes


cpdef give(object holder):
    """Take back the block in `holder.array`, to be used again if nothing else refers to it."""
    global _held, _live
    if not _open:
        return
    cdef object array = holder.array, key
    cdef long long size = size_of(<PyObject *>array)
    cdef list blocks, made = None
    _live -= size
    if size > kept_bytes or references(<PyObject *>array) != 2 or references(base_of(<PyObject *>array)) != 1:
        return  # the holder and `array` here
    key = size
    item = (array, holder.address)
    if key not in free_:
        made = []
    while _held + size > kept_bytes:
        evict()
    blocks = free_.pop(key, None)
    if blocks is None:
        blocks = made if made is not None else []
    blocks.append(item)
    free_[key] = blocks
    _held += size


cdef evict():
    """Drop one block of the class that was used longest ago."""
    global _held
    size = next(iter(free_))
    blocks = free_[size]
    if blocks:
        blocks.pop()
        _held -= size
    if not blocks:
        del free_[size]


def trim():
    """Give all freed memory back to the system."""
    global _held
    free_.clear()
    stock_.clear()
    _held = 0


def stock():
    """Have pages ready for the first result: for one of this size they take longer than its kernel.

    Made by a thread beside the import; without Python's lock but for a moment.
    """
    if limit or kept_bytes < 16 * STOCK:
        return
    owner = numpy.empty(STOCK + ALIGN, numpy.uint8)
    owner.fill(0)
    stock_.append(owner)


def mark():
    """From now on `marked` tells of what follows."""
    global _most, _taken
    _most, _taken = _live, 0


def marked():
    """Most bytes that were in use at once since `mark`, and the number of blocks taken."""
    return _most, _taken


def stats():
    """Bytes in use by buffers, and bytes kept for new ones."""
    return {"live": _live, "held": _held}
