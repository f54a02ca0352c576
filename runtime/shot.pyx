# cython: language_level=3, auto_pickle=False
"""Launches on a device that were done before, in C; the same as `shot.py`.

The parameters lie in one place for each launch, and the driver's function is called by its address.  What a device's
copy of a buffer says is read from its slots.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.string cimport memcpy

from offarray.runtime.buffer cimport Buffer

from functools import lru_cache, partial
import ctypes
import struct

from . import late, supply, trace
from .config import watch
from .copies import Copy, lock
from .errors import MemoryLimitError, OffarrayError
from .signals import of as signals_of

FAR = 1 << 40

cdef extern from *:
    """
    #include <stddef.h>
    #include <structmember.h>
    typedef int (*offarray_launcher)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                     void *, void **, void **);
    static Py_ssize_t offarray_offset(PyObject *type, const char *name) {
        PyObject *found = PyObject_GetAttrString(type, name);
        if (found == NULL) return -1;
        Py_ssize_t offset = -1;
        if (Py_TYPE(found) == &PyMemberDescr_Type) offset = ((PyMemberDescrObject *)found)->d_member->offset;
        else PyErr_Format(PyExc_TypeError, "%s is no slot", name);
        Py_DECREF(found);
        return offset;
    }
    #define offarray_slot(o, offset) (*(PyObject **)((char *)(o) + (offset)))
    static inline void offarray_set(PyObject *o, Py_ssize_t offset, PyObject *value) {
        PyObject *former = offarray_slot(o, offset);
        Py_INCREF(value);
        offarray_slot(o, offset) = value;
        Py_XDECREF(former);
    }
    static inline long long offarray_narrow(long long word) {
        double wide;
        memcpy(&wide, &word, 8);
        float narrow = (float)wide;
        unsigned bits;
        memcpy(&bits, &narrow, 4);
        return bits;
    }
    """
    ctypedef int (*launcher "offarray_launcher")(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)
    Py_ssize_t offset_of "offarray_offset"(PyObject *cls, const char *name) except -1
    PyObject *slot "offarray_slot"(PyObject *o, Py_ssize_t offset)
    void set_slot "offarray_set"(PyObject *o, Py_ssize_t offset, PyObject *value)
    PyObject *type_of "(PyObject *)Py_TYPE"(PyObject *o)
    long long narrow "offarray_narrow"(long long word)

cdef PyObject *copy_class = <PyObject *>Copy
cdef Py_ssize_t DEVICE = offset_of(copy_class, "device"), POINTER = offset_of(copy_class, "pointer")
cdef Py_ssize_t FIRST = offset_of(copy_class, "first"), LAST = offset_of(copy_class, "last")
cdef Py_ssize_t HOST = offset_of(copy_class, "host"), PUBLIC = offset_of(copy_class, "public")
cdef Py_ssize_t USED = offset_of(copy_class, "used"), BEFORE = offset_of(copy_class, "before")
cdef Py_ssize_t PEEKS = offset_of(copy_class, "peeks"), PARTS = offset_of(copy_class, "parts")
cdef Py_ssize_t THERE = offset_of(copy_class, "there")
cdef Py_ssize_t NBYTES = offset_of(copy_class, "nbytes"), HIGH = offset_of(copy_class, "high")
cdef object blueprint = Copy(None, 0, False)
cdef list places = [offset_of(copy_class, name.encode()) for name in Copy.__slots__]
cdef object take = supply.take, note = supply.note, Late = late.Late
cdef dict events = trace.__dict__, counters = trace.counters, lateness = late.__dict__
cdef object KERNELS = "kernels", BYTES = "kernel_bytes", EVENTS = "events", ALLOWED = "allowed"
cdef object acquire = lock.acquire, release = lock.release, tick = supply.tick, zero = 0, no = bool(0)
cdef dict limits = supply.limits, rooms = late._rooms
cdef list waiting = late.waiting
cdef set protected = late.protected
cdef bint watched = False, checked = False, limited = False


def _set_watched(value):
    global watched
    watched = value >= 2


def _set_checked(value):
    global checked
    checked = value > 0


def _set_limited(value):
    global limited
    limited = value > 0


watch("device_memory", _set_limited)
watch("debug", _set_watched)
watch("check", _set_checked)


@lru_cache(1 << 12)
def narrowed(word):
    """The bits of a double as those of a 32-bit float."""
    number = ctypes.c_float(struct.unpack("d", struct.pack("Q", word))[0])
    return ctypes.c_uint32.from_buffer(number).value


def later(again, words):
    """The fault bytes of a launch on these words, from what looks for them."""
    return again([*struct.unpack(f"{len(words) // 8}Q", words)])


def ready(device, prepared):
    """The launch of `prepared` made ready for a device; None where its kernel cannot be."""
    step = prepared.step
    if step.compiled.fixed is None or not step.spans:
        return None
    row = [FAR * (place + 1) + offset for place, offset in step.pointers]
    return Shot(device, prepared, step.compiled.fixed([*row, *prepared.row[len(row) : prepared.fault + 2]]))


cdef struct Part:
    launcher call
    void *entry
    void *stream
    unsigned x, y, block
    int words, values  # those of its own, and addresses in scratch memory
    long long *own  # its words, the three addresses that all share, and those in scratch memory
    void **places  # of all parameters


cdef class Shot:
    """One launch made ready for a device."""

    cdef public object device, step, fixed
    cdef object again, starts, named
    cdef long long *head  # pointers, words, fault, scratch: as they are passed
    cdef long long *usual  # the same as they are known beforehand, doubles not narrowed
    cdef long long *spans  # (offset, low, high) by pointer
    cdef long long *offsets  # of parts in scratch memory
    cdef int *slots  # by pointer
    cdef int *narrows
    cdef bint *writes  # by pointer
    cdef Part *parts
    cdef Py_ssize_t pointers, fault, narrowing, count
    cdef long long scratch, states, signals, reports, nbytes

    def __init__(self, device, prepared, fixed):
        cdef Py_ssize_t n, m, total
        cdef Part *part
        step = prepared.step
        self.device, self.step, self.fixed, self.again = device, step, fixed, fixed.again
        self.named = id(device)
        self.pointers, self.fault, self.count = len(step.pointers), prepared.fault, len(fixed.parts)
        self.scratch, self.states, self.signals = fixed.scratch, fixed.states, fixed.signals
        self.reports, self.nbytes, self.narrowing = fixed.reports, step.nbytes, len(fixed.narrow)
        self.starts = tuple([part_.start for part_ in fixed.parts])
        self.head = <long long *>PyMem_Malloc(8 * (self.fault + 2))
        self.usual = <long long *>PyMem_Malloc(8 * (self.fault + 2))
        self.spans = <long long *>PyMem_Malloc(24 * self.pointers + 8)
        self.slots = <int *>PyMem_Malloc(sizeof(int) * (self.pointers + 1))
        self.writes = <bint *>PyMem_Malloc(sizeof(bint) * (self.pointers + 1))
        self.narrows = <int *>PyMem_Malloc(sizeof(int) * (self.narrowing + 1))
        self.parts = <Part *>PyMem_Malloc(sizeof(Part) * (self.count + 1))
        if self.head == NULL or self.usual == NULL or self.spans == NULL or self.slots == NULL or self.parts == NULL:
            raise MemoryError()
        if self.writes == NULL or self.narrows == NULL:
            raise MemoryError()
        for n in range(self.count):
            self.parts[n].own = NULL
            self.parts[n].places = NULL
        for n in range(self.fault):
            self.usual[n] = <long long><unsigned long long>prepared.row[n]
        self.usual[self.fault] = self.usual[self.fault + 1] = 0
        for n in range(self.narrowing):
            self.narrows[n] = fixed.narrow[n]
        for n in range(self.pointers):
            self.slots[n] = step.pointers[n][0]
            self.spans[3 * n] = step.pointers[n][1]
            self.spans[3 * n + 1], self.spans[3 * n + 2] = step.spans[n]
            self.writes[n] = step.access[n] != "r"
        for n in range(self.count):
            part = &self.parts[n]
            each = fixed.parts[n]
            part.words, part.values = len(each.words), len(each.values)
            total = part.words + 3 + part.values
            part.own = <long long *>PyMem_Malloc(8 * (total + part.values))
            part.places = <void **>PyMem_Malloc(sizeof(void *) * (self.fault + 2 + total))
            if part.own == NULL or part.places == NULL:
                raise MemoryError()
            for m in range(part.words):
                part.own[m] = each.words[m]
            for m in range(part.values):
                part.own[total + m] = each.values[m]
            for m in range(self.fault + 2):
                part.places[m] = &self.head[m]
            for m in range(total):
                part.places[self.fault + 2 + m] = &part.own[m]
            row = getattr(each.start, "row", None)  # of gpu_launch.Start
            part.call = NULL
            if row is not None:
                part.call = <launcher><size_t>row[0]
                part.entry = <void *><size_t>row[1]
                part.x, part.y, part.block = row[2], row[3], row[4]
                part.stream = <void *><size_t>row[5]

    def __dealloc__(self):
        cdef Py_ssize_t n
        if self.parts != NULL:
            for n in range(self.count):
                PyMem_Free(self.parts[n].own)
                PyMem_Free(self.parts[n].places)
        PyMem_Free(self.parts)
        PyMem_Free(self.head)
        PyMem_Free(self.usual)
        PyMem_Free(self.spans)
        PyMem_Free(self.slots)
        PyMem_Free(self.writes)
        PyMem_Free(self.narrows)

    def blank(self, nbytes):
        """A buffer for a value that the launch makes; without memory where there is none yet."""
        cdef Buffer made = Buffer.__new__(Buffer)
        cdef PyObject *copy
        cdef PyObject *value
        cdef Py_ssize_t n
        made.nbytes = nbytes
        made._pooled = True
        fresh = Copy.__new__(Copy)
        copy = <PyObject *>fresh
        for n in range(len(places)):  # as a new one is
            value = slot(<PyObject *>blueprint, <Py_ssize_t>(<list>places)[n])
            if value != NULL:
                set_slot(copy, <Py_ssize_t>(<list>places)[n], value)
        parts, there = [], []
        set_slot(copy, PARTS, <PyObject *>parts)
        set_slot(copy, THERE, <PyObject *>there)
        set_slot(copy, DEVICE, <PyObject *>self.device)
        set_slot(copy, NBYTES, <PyObject *>nbytes)
        made.device = fresh
        try:
            pointer = take(self.device, nbytes) if limited or limits else self.device.allocate(nbytes)
        except MemoryLimitError:
            if limited or limits:
                return made
            try:
                pointer = take(self.device, nbytes)  # others make room
            except MemoryLimitError:
                return made
        set_slot(copy, POINTER, <PyObject *>pointer)
        set_slot(copy, HIGH, <PyObject *>nbytes)
        set_slot(copy, LAST, <PyObject *>nbytes)
        note(fresh, made, nbytes)
        return made

    def fire(self, list slots, scalars=()):
        """Launch on these buffers; None where it has to be done the long way, and nothing has happened."""
        cdef object found = None, place = None, left = None
        cdef long long fault = 0, scratch = 0, address = 0
        cdef Py_ssize_t n
        if watched or checked or PyDict_GetItem(events, EVENTS) != <PyObject *>None or self.device.lost:
            return None
        if self.reports and not <object>PyDict_GetItem(lateness, ALLOWED):
            return None
        acquire()
        try:
            if self.scratch:  # before the operands are looked at: others may have to make room for it
                scratch = supply.take(self.device, self.scratch)
            try:
                memcpy(self.head, self.usual, 8 * (self.fault + 2))
                for number, bits in scalars:
                    self.head[self.pointers + <Py_ssize_t>number] = <long long><unsigned long long>bits
                if protected:
                    for n in range(self.pointers):
                        if self.writes[n]:
                            late.before((<Buffer>slots[self.slots[n]]).device)
                if not self.look(slots):
                    return None
                if self.reports:
                    room = rooms.get(self.named)
                    if room is None:
                        return None
                    place = room.take(self.reports)
                    if place is None:
                        return None
                    address, fault = place
                if self.again is not None:
                    found = partial(later, self.again, (<char *>self.head)[: 8 * (self.fault + 2)])
                self.launch(slots, fault, scratch)
            finally:
                if scratch and not self.device.lost:
                    self.device.free(scratch)
            counters[KERNELS] = <object>PyDict_GetItem(counters, KERNELS) + 1
            counters[BYTES] = <object>PyDict_GetItem(counters, BYTES) + self.nbytes
            if not self.reports:
                return b""
            left = Late(self.device, address, self.reports, found)
            if found is None:
                waiting.append(left)
            else:
                late.keep(left, [slots[self.slots[n]] for n in range(self.pointers) if not self.writes[n]])
            return left
        finally:
            release()

    def duplicate(self, Buffer source, Buffer target):
        """Copy all of a buffer within the device; False where something has to move first."""
        cdef PyObject *copy
        cdef Buffer buffer
        if self.device.lost:
            return False
        acquire()
        try:
            late.before(target.device)
            for buffer in (source, target):
                if not self.held(buffer):
                    return False
                copy = <PyObject *>buffer.device
                if <long long><object>slot(copy, FIRST) or <long long><object>slot(copy, LAST) < buffer.nbytes:
                    return False
            self.device.move(target.device.pointer, source.device.pointer, source.nbytes)
            target.device.written()
        finally:
            release()
        return True

    cdef bint held(self, Buffer buffer) except -1:
        """Whether the device has the buffer, and nobody else looks at it."""
        cdef PyObject *copy
        if buffer.device is None or buffer.foreign or (buffer._export is not None and buffer.shared):
            return False
        copy = <PyObject *>buffer.device
        if type_of(copy) != copy_class or slot(copy, DEVICE) != <PyObject *>self.device:
            return False
        return slot(copy, PUBLIC) == <PyObject *>no and slot(copy, POINTER) != <PyObject *>zero

    cdef bint look(self, list slots) except -1:
        """Fill in addresses; false where something has to move first."""
        cdef Py_ssize_t n
        cdef PyObject *copy
        cdef Buffer buffer
        cdef long long pointer, offset
        now = tick()
        for n in range(self.pointers):
            buffer = <Buffer?>slots[self.slots[n]]
            if not self.held(buffer):
                return False
            copy = <PyObject *>buffer.device
            pointer, offset = <long long><object>slot(copy, POINTER), self.spans[3 * n]
            if pointer & 15:
                return False
            if offset + self.spans[3 * n + 1] < <long long><object>slot(copy, FIRST):
                return False
            if offset + self.spans[3 * n + 2] > <long long><object>slot(copy, LAST):
                return False
            set_slot(copy, BEFORE, slot(copy, USED))
            set_slot(copy, USED, <PyObject *>now)
            self.head[n] = pointer + offset
        return True

    cdef int launch(self, list slots, long long fault, long long scratch) except -1:
        cdef long long signals = 0, epoch = 0, answer = 0
        cdef long long *own
        cdef Part *part
        cdef Py_ssize_t n, m, total
        self.head[self.fault] = fault
        self.head[self.fault + 1] = scratch
        if self.signals:
            signals, epoch = signals_of(self.device).take(self.signals)
        before = self.device.launches
        for n in range(self.narrowing):
            self.head[self.narrows[n]] = narrow(self.head[self.narrows[n]])
        try:
            if self.count and self.parts[0].call != NULL:
                self.device._here()
            for n in range(self.count):
                part = &self.parts[n]
                own = part.own + part.words
                own[0], own[1], own[2] = scratch + self.states, signals, epoch
                for m in range(part.values):
                    own[3 + m] = scratch + own[3 + part.values + m]
                answer = 1
                if part.call != NULL:
                    answer = part.call(
                        part.entry, part.x, part.y, 1, part.block, 1, 1, 0, part.stream, part.places, NULL
                    )
                if answer:  # without a function to call, or to say what is wrong
                    total = self.fault + 5 + part.words + part.values
                    self.starts[n]([(<unsigned long long *>part.places[m])[0] for m in range(total)])
                else:
                    self.device.launches += 1
        except (OffarrayError, MemoryError) as error:
            if self.device.launches == before and not self.device.lost:
                error.begun = False
            else:
                self.wrote(slots)
            raise
        self.wrote(slots)
        return 0

    cdef int wrote(self, list slots) except -1:
        """What the host has seen of the memory written is out of date."""
        cdef Py_ssize_t n
        cdef PyObject *copy
        for n in range(self.pointers):
            if self.writes[n]:
                copy = <PyObject *>(<Buffer>slots[self.slots[n]]).device
                set_slot(copy, HOST, <PyObject *>no)
                set_slot(copy, PEEKS, <PyObject *>zero)
                if <list>slot(copy, PARTS):
                    (<list>slot(copy, PARTS)).clear()
                if <list>slot(copy, THERE):
                    (<list>slot(copy, THERE)).clear()
        return 0
