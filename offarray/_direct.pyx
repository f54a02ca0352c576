# cython: language_level=3, auto_pickle=False
"""The short way to a node in C; the same as `_direct.py`.

What a pair of data types comes to is one look into a table of the ufunc; a number that the program writes comes as the
same object each time, and so does its constant.
"""

from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_CheckExact
from cpython.dict cimport PyDict_GetItem
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact

cimport offarray._handle as handles
from offarray._handle cimport HOSTED, Handle, make
from offarray.fusion.node cimport Base, Node
from offarray.fusion.scan cimport sole
from offarray.fusion.tape cimport add, due
from offarray.runtime.buffer cimport Buffer, seen
from offarray.runtime.freelist cimport keep
from offarray.runtime.layout cimport axes_of, data_of, num_of
from offarray.runtime.layout cimport size_of as elements_of

import numpy

from . import _errstate, _evaluate, _record
from ._array import host, ndarray
from ._handle import BINARY, COMPARE, UNARY
from ._memory import native
from ._promotion import WEAK, loop_of, of_numpy, scalar
from ._record import reports
from ._scalar import KINDS, lazy
from ._site import _HERE, _NUMPY
from .fusion import node as nodes
from .fusion import tape
from .fusion.view import View, contiguous
from .runtime import trace
from .runtime.config import watch
from .runtime.fault import INVALID, OVER

cdef extern from *:
    """
    #include <frameobject.h>
    #define offarray_lasti(f) PyFrame_GetLasti((PyFrameObject *)(f))
    static inline PyObject *offarray_frame(void) { return (PyObject *)PyEval_GetFrame(); }
    static inline PyObject *offarray_back(PyObject *f) { return (PyObject *)PyFrame_GetBack((PyFrameObject *)f); }
    static inline PyObject *offarray_code(PyObject *f) { return (PyObject *)PyFrame_GetCode((PyFrameObject *)f); }
    #define offarray_globals(f) PyFrame_GetGlobals((PyFrameObject *)(f))
    """
    long long refs "Py_REFCNT"(PyObject *o)
    int lasti "offarray_lasti"(PyObject *frame)
    PyObject *frame_now "offarray_frame"()
    PyObject *back_of "offarray_back"(PyObject *frame)
    object code_of "offarray_code"(PyObject *frame)
    object globals_of "offarray_globals"(PyObject *frame)

cdef extern from *:
    """
    #define offarray_dims(a) (((offarray_array *)(a))->dimensions)
    #define offarray_steps(a) (((offarray_array *)(a))->strides)
    #define offarray_flags(a) (((offarray_array *)(a))->flags)
    """
    Py_ssize_t *dims_of "offarray_dims"(PyObject *a)
    Py_ssize_t *steps_of "offarray_steps"(PyObject *a)
    int flags_of "offarray_flags"(PyObject *a)

cdef enum:
    TYPES = 28  # NumPy's numbers of the native types, then Python's own bool, int, float and complex
    SIDE = 24
    KEPT = 256  # constants that are kept, by their place

cdef int FAILED = nodes.FAILED, MAP = nodes.MAP, CONST = nodes.CONST, READ = nodes.READ, READY = nodes.READY
cdef dict told = trace.__dict__, counters = trace.counters
cdef object serials = nodes._serial
cdef object OPERATIONS = "operations", EVENTS = "events", NAME = "__name__", FILTERS = "filters", UNKNOWN = "<unknown>"
cdef object float64 = numpy.float64
cdef tuple NO_SHAPE = ()
cdef long long eager_size = 0
cdef int faults_mode = 0  # 0: auto, 1: at the statement, 2: deferred

keep(<PyTypeObject *>Node)
keep(<PyTypeObject *>Base)


def _set_eager_size(value):
    global eager_size
    eager_size = value


def _set_faults(value):
    global faults_mode
    faults_mode = ("auto", "statement", "deferred").index(value)


watch("eager_size", _set_eager_size)
watch("faults", _set_faults)


# --- the context's floating-point errors, and the user's line

cdef extern from *:
    int context_get "PyContextVar_Get"(object var, PyObject *default, PyObject **value) except -1
    void release "Py_XDECREF"(PyObject *o)

cdef object errors = _errstate._extobj_contextvar
cdef object state_seen = None  # the state that `armed` and `strict` belong to
cdef int armed = 0
cdef bint strict = False
cdef dict warnings_names = _errstate.warnings.__dict__
cdef object usual_filters = _errstate._filters


cdef int look_at_errors() except -1:
    """Fault bits that are not ignored in this context."""
    global state_seen, armed, strict
    cdef PyObject *state = NULL
    context_get(errors, NULL, &state)
    if state != NULL and state == <PyObject *>state_seen:
        release(state)
        return armed
    release(state)
    state_seen, armed, strict = _errstate._modes()
    return armed


cdef inline bint at_statement():
    """Whether a fault of the context last looked at must be reported at the statement."""
    if strict or faults_mode == 1:
        return True
    return faults_mode == 0 and PyDict_GetItem(warnings_names, FILTERS) != <PyObject *>usual_filters


cdef list theirs = [None] * 16, ours = [None] * 16  # code seen last, of users, and of offarray's and NumPy's own


cdef object here():
    """The innermost frame that is neither offarray's nor NumPy's: (code, offset, module, its names)."""
    cdef PyObject *frame = frame_now()
    cdef PyObject *held = NULL
    cdef object code, names, site = None
    cdef size_t place
    cdef PyObject *module
    while frame != NULL:
        code = code_of(frame)
        place = ((<size_t><PyObject *>code) >> 5) & 15
        if code is not ours[place]:
            if code is not theirs[place]:
                name = code.co_filename
                if name.startswith(_HERE) or name.startswith(_NUMPY):
                    ours[place] = code
                else:
                    theirs[place] = code
            if code is theirs[place]:
                names = globals_of(frame)
                module = PyDict_GetItem(names, NAME)
                site = (code, lasti(frame), UNKNOWN if module == NULL else <object>module, names)
                break
        frame = back_of(frame)
        release(held)
        held = frame
    release(held)
    return site


# --- what an operation comes to

cdef class Entry:
    """A loop: the operation, the types of its operands and of its result."""

    cdef object op, dtype, first, second
    cdef tuple inputs
    cdef bint faults
    cdef long long itemsize


cdef class Table:
    """The loops of one ufunc, by the numbers of its operands' types; False where there is no short way."""

    cdef object real
    cdef list found

    def __init__(self, real):
        self.real = real
        self.found = [None] * (TYPES * TYPES)


cdef dict tables = {}  # ufunc -> Table


cdef object find_table(object real):
    found = tables.get(real)
    if found is None:
        found = Table(real)
        if of_numpy(real):
            tables[real] = found
    return found


cdef object learn(Table t, int place, tuple kinds):
    """Ask NumPy what an operation comes to, once."""
    t.found[place] = False
    if t.real is numpy.power or not all([isinstance(k, numpy.dtype) or k in WEAK for k in kinds]):
        return False
    loop = loop_of(t.real, kinds)
    if loop is None or len(loop.ops) != 1 or loop.ops[0] == "power":
        return False
    t.found[place] = made = entry(loop.ops[0], loop.inputs, loop.outputs[0])
    return made


cdef Entry entry(object op, tuple inputs, object dtype):
    """A loop as it is kept."""
    cdef Entry made = Entry()
    made.op, made.inputs, made.dtype = op, inputs, dtype
    made.faults = reports(op, inputs[0], dtype)
    made.itemsize = dtype.itemsize
    made.first, made.second = inputs[0], inputs[-1]
    return made


cdef inline int side(object x):
    """The number of the type of a Python number; -1 for anything else."""
    if PyFloat_CheckExact(x):
        return SIDE + 2
    if PyLong_CheckExact(x):
        return SIDE + 1
    if PyBool_Check(x):
        return SIDE
    return SIDE + 3 if PyComplex_CheckExact(x) else -1


cdef inline Node dense(Handle x):
    """The node of an array that is the whole of its base in C order; its shape is then the node's very tuple."""
    if x.held is None:
        x._base
    cdef Node node = x.held.node
    if node.shape is x.extents and node.dtype is x.kind and node.state <= READY and <tuple>node.shape is not NO_SHAPE:
        return node
    return None


cdef Node seen_at(Handle x):
    """The node of an array that is a part of its base in C order, as it is read; None for any other."""
    cdef Node node
    cdef tuple shape, steps
    cdef long long step, extent, former = 0x7fffffffffffffff
    cdef Py_ssize_t n
    if x.held is None:
        x._base
    node = x.held.node
    if node.state > READY or node.dtype is not x._dtype or node.kind == CONST:
        return None
    shape, steps = x._shape, x._strides
    if not shape or (node.buffer is not None and seen(<Buffer>node.buffer)):
        return None
    for n in range(len(shape)):
        extent, step = shape[n], steps[n]
        if extent < 2 or step <= 0 or step > former:
            return None  # an order of axes, or a broadcast: the long way knows it
        former = step
    cdef Node made = Node.__new__(Node)
    made.kind = READ
    made.op = made.alias = ""
    made.dtype = node.dtype
    made.shape = shape
    made.src = (node,)
    made.arg = View(x.start, shape, steps)
    made.serial = next(serials)
    return made


cdef inline bint ready(Handle x):
    """Whether `array` holds the current value."""
    return x.mark == HOSTED or (x.mark > 0 and x.mark == x.held.node.serial)


cdef inline long long size_of(tuple shape):
    cdef long long n = 1
    for extent in shape:
        n *= <long long>extent
    return n


cdef list constants = [None] * KEPT


cdef inline size_t spot(object value, object dtype):
    """Where a number of a type is kept: literals of one program lie side by side, 16 or 32 bytes apart."""
    cdef size_t at = <size_t><PyObject *>value >> 4
    return (at ^ at >> 8 ^ <size_t><PyObject *>dtype >> 5) & (KEPT - 1)


cdef Node constant(object value, object dtype):
    """A number as a node, or None where it does not fit."""
    cdef size_t place = spot(value, dtype)
    cdef object kept = constants[place]
    if kept is None or (<tuple>kept)[0] is not value or (<tuple>kept)[1] is not dtype:
        fitting = scalar(value, dtype)
        if fitting is None:
            return None
        kept = constants[place] = (value, dtype, fitting)
    cdef Node node = Node.__new__(Node)
    node.kind = CONST
    node.op = node.alias = ""
    node.dtype = dtype
    node.shape = node.src = NO_SHAPE
    node.arg = (<tuple>kept)[2]
    node.serial = next(serials)
    return node


cdef inline Node source(Node node, object value, object dtype):
    """An operand of the loop's dtype; None for what needs the long way."""
    if node is None:
        return constant(value, dtype)
    if node.dtype is not dtype or (node.buffer is not None and seen(<Buffer>node.buffer)):
        return None
    return node


cdef object record(Entry e, tuple sources, tuple shape, Handle like, Handle into):
    """Put the node of an operation on dense operands on the tape; gives its handle."""
    cdef object strides = None
    if into is None:
        if e.dtype is like.kind and like.held.node.shape is shape:
            strides = like.steps if like.steps is not None else like._strides
        else:
            strides = contiguous(shape, e.dtype.itemsize)
    cdef Node node = new_node(MAP, e.op, e.dtype, shape, sources, look_at_errors() if e.faults else 0, here())
    return commit(node, strides, shape, size_of(shape) * e.itemsize, False, into)


cdef inline Node new_node(int kind, object op, object dtype, tuple shape, tuple sources, int fault, object site):
    cdef Node node = Node.__new__(Node)
    node.kind = kind
    node.op = op
    node.alias = ""
    node.dtype = dtype
    node.shape = shape
    node.src = sources
    node.fault = fault
    node.site = site
    node.serial = next(serials)
    return node


cdef object commit(Node node, object strides, tuple shape, long long nbytes, bint faulty, Handle into):
    """Put a node on the tape; gives its handle, which is `into` if that is written.  `faulty`: what it reads may fault."""
    cdef Base base
    cdef object result
    if into is not None:  # a new version of the whole of a private base
        into.held.node = node
        into.array = None
        into.mark = 0
        result = into
    else:
        base = Base.__new__(Base)
        base.node = node
        result = make(base, 0, strides, shape, node.dtype)
    counters[OPERATIONS] = <object>PyDict_GetItem(counters, OPERATIONS) + 1
    if PyDict_GetItem(told, EVENTS) != <PyObject *>None:
        trace.emit("operation", node.site, op=node.op)
    if due(node):
        _evaluate.flush()
    add(node, nbytes)
    if (node.fault or faulty) and at_statement():
        _evaluate.evaluate((node,))
    return result


cdef inline bint settled(Node node):
    """Whether an operand's value is in memory."""
    if node.kind == READ and node.site is None and node.state != READY:  # one of `seen_at`
        node = <Node>(<tuple>node.src)[0]
    return node.state == READY


cdef object pair(Table t, object x, object y, Handle into=None):
    """An operation of two operands; None for small work, and for what needs the long way."""
    cdef object made = alike(t, x, y, into)
    return mixed(t, x, y, 2, into) if made is None else made


cdef object alike(Table t, object x, object y, Handle into):
    """The same for arrays of one shape that lie in C order, and such an array and a number."""
    cdef Node a = None, b = None, left, right
    cdef Handle like
    cdef int i, j
    cdef object e
    cdef tuple shape
    cdef long long size
    if type(x) is ndarray:
        like = <Handle>x
        a = dense(like)
        if a is None:
            a = seen_at(like)
            if a is None:
                return None
        shape = a.shape
        i = num_of(<PyObject *>a.dtype)
        if type(y) is ndarray:
            b = dense(<Handle>y)
            if b is None:
                b = seen_at(<Handle>y)
            if b is None or (b.shape is not shape and b.shape != shape):
                return None
            j = num_of(<PyObject *>b.dtype)
        else:
            j = side(y)
    elif type(y) is ndarray:
        like = <Handle>y
        b = dense(like)
        if b is None:
            b = seen_at(like)
            if b is None:
                return None
        shape = b.shape
        i = side(x)
        j = num_of(<PyObject *>b.dtype)
    else:
        return None
    if i < 0 or j < 0 or i >= TYPES or j >= TYPES or (a is not None and i >= SIDE) or (b is not None and j >= SIDE):
        return None
    if (a is None or settled(a)) and (b is None or settled(b)):
        size = size_of(shape)
        if size * ((a is not None) + (b is not None)) <= eager_size:
            return None
    e = t.found[i * TYPES + j]
    if e is None:
        e = learn(t, i * TYPES + j, (a.dtype if a is not None else type(x), b.dtype if b is not None else type(y)))
    if e is False:
        return None
    left = source(a, x, (<Entry>e).first)
    if left is None:
        return None
    right = source(b, y, (<Entry>e).second)
    if right is None:
        return None
    if into is not None and ((<Entry>e).dtype is not into.kind or into.held.node.shape is not shape):
        return None
    return record(<Entry>e, (left, right), shape, like, into)


cdef object lone(Table t, Handle x, Handle into=None):
    """An operation of one operand, as `pair`."""
    cdef object made = straight(t, x, into)
    return mixed(t, x, None, 1, into) if made is None else made


cdef object straight(Table t, Handle x, Handle into):
    cdef Node a = dense(x)
    cdef object e
    cdef int i
    if a is None:
        a = seen_at(x)
        if a is None:
            return None
    i = num_of(<PyObject *>a.dtype)
    if i >= SIDE or i < 0:
        return None
    if settled(a) and size_of(a.shape) <= eager_size:
        return None
    e = t.found[i]
    if e is None:
        e = learn(t, i, (a.dtype,))
    if e is False or source(a, x, (<Entry>e).first) is None:
        return None
    if into is not None and ((<Entry>e).dtype is not into.kind or into.held.node.shape is not a.shape):
        return None
    return record(<Entry>e, (a,), a.shape, x, into)


include "_layouts.pxi"
include "_named.pxi"
include "_writes.pxi"


# --- the doors

def nothing(real, x, y):
    """For an operation that has no short way."""


def binary(object real, object x, object y):
    """Record `real(x, y)`, or give None."""
    return pair(<Table>find_table(real), x, y)


def unary(object real, object x):
    """Record `real(x)`, or give None."""
    return lone(<Table>find_table(real), <Handle>x)


cdef list operators = [None] * 24


def install(arithmetic, compare, single):
    """Learn the ufuncs of the operators, by their short names."""
    for n, name in enumerate((*BINARY, *COMPARE, *UNARY)):
        real = {**arithmetic, **compare, **single}[name]
        operators[n] = find_table(getattr(numpy, real)) if name not in ("pow", "matmul", "divmod") else None
    handles.record_two = operator_of_two
    handles.record_one = operator_of_one
    handles.record_in_place = operator_in_place
    handles.record_pair = of_ufunc
    handles.record_into = into_array
    handles.record_named = by_name
    handles.write_item = write_item
    handles.kept_alone = kept_alone
    handles.find_table = find_table
    connect_waiting()


cdef object operator_of_two(int n, object x, object y):
    cdef object t = operators[n]
    return None if t is None else pair(<Table>t, x, y)


cdef object operator_in_place(int n, object x, object y):
    """`x op= y` of the whole of a base that is nobody else's; None for any other."""
    cdef object t = operators[n]
    if t is None:
        return None
    if whole(<Handle>x):
        return pair(<Table>t, x, y, <Handle>x)
    return mixed(<Table>t, x, y, 2, <Handle>x) if window(<Handle>x) else None


cdef bint window(Handle x):
    """Whether an array looks at a part of memory that may be written by a kernel."""
    if x.mark == HOSTED or not writable(x):
        return False
    x._shape, x._strides  # noted down
    return x.held.node.shape is not x.extents and not covers(x)


cdef bint covers(Handle x):
    """Whether an array is as large as its base: writing it is a new version."""
    return size_of(<tuple>x.extents) * <long long>x.kind.itemsize == (<Buffer>x.held.node.buffer).nbytes


cdef bint whole(Handle me):
    """Whether an array is all of a base that is nobody else's, and may be written."""
    if handles.waiting != NULL:
        handles.end_all()
    if dense(me) is None or me.held.borrows is not None or not me._writeable or warns(me):
        return False
    if me.held.node.buffer is not None and seen(<Buffer>me.held.node.buffer):
        return False
    me._strides  # what has not been asked for yet goes with the array that was seen
    return True


cdef object into_array(object table, object x, object y, Py_ssize_t count, object out):
    """`real(x, y, out=out)`."""
    if not whole(<Handle>out):
        return mixed(<Table>table, x, y, count, <Handle>out) if window(<Handle>out) else None
    if count == 2:
        return pair(<Table>table, x, y, <Handle>out)
    return lone(<Table>table, <Handle>x, <Handle>out) if type(x) is ndarray else None


cdef object operator_of_one(int n, object x):
    return lone(<Table>operators[n], <Handle>x)


cdef object of_ufunc(object table, object x, object y, Py_ssize_t count):
    if count == 2:
        return pair(<Table>table, x, y)
    return lone(<Table>table, <Handle>x) if type(x) is ndarray else None


include "_statement.pxi"
