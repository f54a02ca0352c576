# cython: language_level=3, auto_pickle=False
"""One look at a graph, in C; the same as `scan.py`.  The key is a string of 8-byte words.

A word is a number or the address of an object, which the recipe then keeps alive.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE

from offarray.fusion.node cimport Node
from offarray.runtime.buffer cimport Buffer, seen

from sys import intern

from . import node as nodes
from ..runtime.config import watch

Key = bytes
SPAN = 1 << 24
HALF = SPAN >> 1

cdef enum:
    SPAN_ = 1 << 24  # numbers that one look at a graph may give; the upper half counts the leaves
    HALF_ = 1 << 23
    NUMBER = 1
    TUPLE = 2
    OBJECT = 3
    MEMORY = 3  # words of the key that tell of a leaf's memory

cdef int CONST = nodes.CONST, PENDING = nodes.PENDING, READY = nodes.READY, UPDATE = nodes.UPDATE
cdef object places = set()  # names of devices that keys hold, for good
cdef long long base_ = SPAN_  # the number of the first node found by the next look; what is lower is from earlier ones
cdef int donate = 1


def _set_donate(value):
    global donate
    donate = value


watch("donate", _set_donate)

cdef extern from *:
    """
    #define offarray_refs(o) ((long long)Py_REFCNT(o))
    static inline int offarray_fits(PyObject *o, long long *value) {
        int over = 0;
        *value = PyLong_AsLongLongAndOverflow(o, &over);
        return !over;
    }
    """
    long long references "offarray_refs"(PyObject *o)
    bint fits "offarray_fits"(PyObject *o, long long *value)


cdef struct Words:
    long long *at
    Py_ssize_t count, room


cdef int grow(Words *row) except -1:
    cdef Py_ssize_t room = 2 * row.room + 256
    cdef void *at = PyMem_Realloc(row.at, room * sizeof(long long))
    if at == NULL:
        raise MemoryError()
    row.at = <long long *>at
    row.room = room
    return 0


cdef inline int put(Words *row, long long word) except -1:
    if row.count == row.room:
        grow(row)
    row.at[row.count] = word
    row.count += 1
    return 0


cdef class Graph:
    """The pending graph below some roots, by first visit, and what its key is made of."""

    cdef public list order, leaves
    cdef Words words, uses, reads

    def __cinit__(self):
        self.order, self.leaves = [], []

    def __dealloc__(self):
        PyMem_Free(self.words.at)
        PyMem_Free(self.uses.at)
        PyMem_Free(self.reads.at)

    def kept(self):
        """What has to stay alive as long as the key is in use: all whose addresses may be in it."""
        return [(node.dtype, node.op, node.arg) for node in (*self.order, *self.leaves)]

    cdef inline int name(self, object o) except -1:
        return put(&self.words, <long long><PyObject *>o)

    cdef int shape(self, object shape) except -1:
        cdef Py_ssize_t n
        put(&self.words, PyTuple_GET_SIZE(shape))
        for n in range(PyTuple_GET_SIZE(shape)):
            put(&self.words, <long long><object>PyTuple_GET_ITEM(shape, n))
        return 0

    cdef int argument(self, object o) except -1:
        """Whatever a node holds beside its sources."""
        cdef long long value = 0
        cdef Py_ssize_t n
        if PyLong_CheckExact(o) and fits(<PyObject *>o, &value):
            put(&self.words, NUMBER)
            put(&self.words, value)
        elif PyTuple_Check(o):
            put(&self.words, TUPLE)
            put(&self.words, PyTuple_GET_SIZE(o))
            for n in range(PyTuple_GET_SIZE(o)):
                self.argument(<object>PyTuple_GET_ITEM(o, n))
        else:
            put(&self.words, OBJECT)
            self.name(o)
        return 0


cpdef Graph scan(list roots):
    """Look at the pending graph below `roots`; None if something there has failed."""
    global base_
    cdef long long base = base_, number
    base_ = base + SPAN_  # at once: an interrupted look leaves no number that the next could mistake for its own
    cdef Graph graph = Graph()
    cdef Words *words = &graph.words
    cdef list stack = roots[::-1]
    cdef Node node
    cdef tuple sources
    cdef Py_ssize_t n
    while stack:
        node = <Node>stack.pop()
        number = node.number - base
        if number >= 0:
            put(words, -number)
            if number < HALF_:
                graph.uses.at[number - 1] += 1
            else:
                graph.reads.at[number - HALF_] += 1
        elif node.state == PENDING:
            graph.order.append(node)
            put(&graph.uses, 1)
            node.number = base + PyList_GET_SIZE(graph.order)
            put(words, 1 + node.kind)
            graph.name(node.dtype)
            if node.kind != CONST:
                sources = <tuple>node.src
                graph.name(node.op)
                put(words, node.fault)
                graph.shape(node.shape)
                if node.arg is None:
                    put(words, 0)
                else:
                    graph.argument(node.arg)
                put(words, node.demanded > 0)
                put(words, PyTuple_GET_SIZE(sources))
                for n in range(PyTuple_GET_SIZE(sources)):
                    stack.append(<object>PyTuple_GET_ITEM(sources, n))
        elif node.state == READY:
            node.number = base + HALF_ + PyList_GET_SIZE(graph.leaves)
            graph.leaves.append(node)
            put(&graph.reads, 1)
            put(words, 0)
            graph.shape(node.shape)
            graph.name(node.dtype)
        else:
            return None
    return graph


cpdef object key_of(Graph graph, object place):
    """The key of a graph evaluated on the device `place`, or None where memory is seen under two names."""
    cdef Words *words = &graph.words
    cdef PyObject *o
    cdef Node node
    cdef Buffer buffer, other
    cdef Py_ssize_t n, m, count = PyList_GET_SIZE(graph.leaves)
    cdef long long found
    cdef bint free, shared
    put(words, PyList_GET_SIZE(graph.order))
    for n in range(PyList_GET_SIZE(graph.order)):
        o = PyList_GET_ITEM(graph.order, n)
        found = references(o) - graph.uses.at[n] - 1  # the list
        node = <Node>o
        put(words, found - node.taped > 0 and node.kind != CONST)
    place = intern(place)
    if place not in places:
        places.add(place)
    graph.name(place)
    put(words, donate)
    node = None
    for n in range(count):
        o = PyList_GET_ITEM(graph.leaves, n)
        found = references(o) - graph.reads.at[n] - 1
        node = <Node>o
        if node.buffer is None:
            return None
        buffer = <Buffer>node.buffer
        for m in range(n):
            if (<Node>PyList_GET_ITEM(graph.leaves, m)).buffer is buffer:
                return None
        shared = seen(buffer)  # such memory is written where it is
        free = (
            found - node.taped <= 0 and not shared
            and (buffer._pooled or buffer.writeable) and buffer.nbytes == node.nbytes
        )
        put(words, free)
        put(words, (node.kind == UPDATE) + 2 * shared)
        put(words, buffer.nbytes)
    return PyBytes_FromStringAndSize(<char *>words.at, words.count * sizeof(long long))


cdef bint sole(Node former, Node update, Node spare, long long held) except -1:
    """Whether `update` alone needs `former`; what it is made of and somebody can ask for afterwards is then kept.

    Parameters
    ----------
    former
        A value in memory, with `held` references beside those of nodes.
    update
        A new node whose value, the last of its sources, nobody else knows.
    spare
        A node whose only holder beside nodes and the caller will not ask for it; None for no such node.
    """
    cdef Graph graph = scan([update])
    if graph is None:
        return False
    cdef long long base = base_ - SPAN_, known
    cdef Py_ssize_t n, m, count = PyList_GET_SIZE(graph.order)
    cdef PyObject *o
    cdef PyObject *value = PyTuple_GET_ITEM(update.src, PyTuple_GET_SIZE(update.src) - 1)
    cdef tuple sources
    cdef bint more = False, needs
    cdef bytearray found = bytearray(count)
    cdef char *needing = found
    for n in range(PyList_GET_SIZE(graph.leaves)):
        o = PyList_GET_ITEM(graph.leaves, n)
        if o == <PyObject *>former:
            more = references(o) - graph.reads.at[n] - 1 == held
    if not more:
        return False
    while more:
        more = False
        for n in range(count - 1, 0, -1):
            if needing[n]:
                continue
            sources = <tuple>(<Node>PyList_GET_ITEM(graph.order, n)).src
            needs = False
            for m in range(PyTuple_GET_SIZE(sources)):
                o = PyTuple_GET_ITEM(sources, m)
                needs = needs or o == <PyObject *>former or (
                    (<Node>o).state == PENDING and needing[(<Node>o).number - base - 1]
                )
            if needs:
                needing[n] = more = True
    for n in range(1, count):
        o = PyList_GET_ITEM(graph.order, n)
        if needing[n] and o != value:
            known = graph.uses.at[n] + 1 + (<Node>o).taped + 2 * (o == <PyObject *>spare)
            if references(o) > known:
                (<Node>o).demanded += 1  # later, the memory that it needs is overwritten
    return True


def decided(Graph graph, bytes key):
    """What the key says beside the nodes: how memory may be used, and who is alive."""
    cdef Py_ssize_t memory = len(key) - 8 * (1 + MEMORY * len(graph.leaves)), place = memory - 8
    return key[place - 8 * len(graph.order) : place] + key[memory:]
