# cython: language_level=3, auto_pickle=False
"""The handle in C: its fields, how handles are made, and small work, which runs without a detour through Python.

The same as `_handle.py`.  Small work is here what it is in `_ufuncs.py` and `_indexing.py`: operands in memory of at
most `eager_size` elements go to NumPy's own operators.  Everything else goes the way that `give` was told.
"""

cimport cython
from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_CheckExact
from cpython.float cimport PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport (
    PyObject, PyObject_GetItem, PyObject_RichCompare, PyObject_SetItem, PyTypeObject, Py_TYPE,
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.slice cimport PySlice_Check
from cpython.tuple cimport PyTuple_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact

from offarray.fusion.node cimport Base, Node
from offarray.runtime.buffer cimport Buffer
from offarray.runtime.freelist cimport keep
from offarray.runtime.layout cimport axes_of, base_of, data_of, descr_of, extents_of, num_of, size_of, spread_of

import numpy

from . import _memory
from .runtime.config import watch

HOST = True
COMPILED = True
COPIES = 16  # as in _indexing.py

cdef extern from *:
    """
    static inline PyObject *offarray_made(PyObject *base, PyObject *cls, PyObject *none) {
        return ((PyTypeObject *)base)->tp_new((PyTypeObject *)cls, none, NULL);
    }
    #define offarray_call_it(cls, name) (((PyTypeObject *)(cls))->tp_name = (name))
    static void offarray_quick_call(PyObject *cls, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)cls;
        type->tp_vectorcall_offset = offset;
        type->tp_call = PyVectorcall_Call;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified(type);
    }
    #if PY_VERSION_HEX < 0x030E0000
    #define offarray_only(o) (Py_REFCNT(o) == 1)
    #else
    #define offarray_only(o) 0  /* the stack may borrow what a name holds */
    #endif
    /* A class made in Python calls methods of its base by name; these slots are the base's own functions instead. */
    static void offarray_inherit(PyObject *cls, PyObject *base) {
        PyTypeObject *to = (PyTypeObject *)cls, *from = (PyTypeObject *)base;
        void **theirs = (void **)from->tp_as_number, **mine = (void **)to->tp_as_number;
        for (size_t n = 0; n < sizeof(PyNumberMethods) / sizeof(void *); n++) if (theirs[n]) mine[n] = theirs[n];
        to->tp_richcompare = from->tp_richcompare;
        to->tp_as_mapping->mp_subscript = from->tp_as_mapping->mp_subscript;
        to->tp_as_mapping->mp_ass_subscript = from->tp_as_mapping->mp_ass_subscript;
        PyType_Modified(to);
    }
    static PyObject *offarray_power(PyObject *x, PyObject *y) { return PyNumber_Power(x, y, Py_None); }
    static PyObject *offarray_inplace_power(PyObject *x, PyObject *y) {
        return PyNumber_InPlacePower(x, y, Py_None);
    }
    typedef PyObject *(*offarray_binary)(PyObject *, PyObject *);
    typedef PyObject *(*offarray_unary)(PyObject *);
    static const offarray_binary offarray_at_once[] = {
        PyNumber_Add, PyNumber_Subtract, PyNumber_Multiply, PyNumber_TrueDivide, PyNumber_FloorDivide,
        PyNumber_Remainder, offarray_power, PyNumber_Lshift, PyNumber_Rshift, PyNumber_And, PyNumber_Or, PyNumber_Xor,
        PyNumber_MatrixMultiply, PyNumber_Divmod,
    };
    static const offarray_binary offarray_in_place[] = {
        PyNumber_InPlaceAdd, PyNumber_InPlaceSubtract, PyNumber_InPlaceMultiply, PyNumber_InPlaceTrueDivide,
        PyNumber_InPlaceFloorDivide, PyNumber_InPlaceRemainder, offarray_inplace_power, PyNumber_InPlaceLshift,
        PyNumber_InPlaceRshift, PyNumber_InPlaceAnd, PyNumber_InPlaceOr, PyNumber_InPlaceXor,
        PyNumber_InPlaceMatrixMultiply,
    };
    static const offarray_unary offarray_alone[] = {
        PyNumber_Negative, PyNumber_Positive, PyNumber_Absolute, PyNumber_Invert,
    };
    #define offarray_op2(n, x, y) (offarray_at_once[n](x, y))
    #define offarray_op2_in(n, x, y) (offarray_in_place[n](x, y))
    #define offarray_op1(n, x) (offarray_alone[n](x))
    """
    object made "offarray_made"(object base, PyObject *cls, object none)
    object vectorcall "PyObject_Vectorcall"(object f, PyObject **args, size_t count, PyObject *names)
    size_t counted "PyVectorcall_NARGS"(size_t flagged)
    void quick_call "offarray_quick_call"(PyObject *cls, Py_ssize_t offset)
    bint only "offarray_only"(PyObject *x)
    void call_it "offarray_call_it"(PyObject *cls, const char *name)
    void inherit "offarray_inherit"(PyObject *cls, PyObject *base)
    object at_once "offarray_op2"(int n, object x, object y)
    object in_place "offarray_op2_in"(int n, object x, object y)
    object alone "offarray_op1"(int n, object x)

# The operators in the order of the tables above; those of one operand, and the comparisons in Python's order, follow.
BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor", "matmul", "divmod",
)
UNARY = ("neg", "pos", "abs", "invert")
COMPARE = ("lt", "le", "eq", "ne", "gt", "ge")

cdef PyObject *array_class = <PyObject *>numpy.ndarray
cdef PyObject *handle_class = NULL
cdef object kept = None  # the class itself, so that it stays
cdef tuple nothing = ()
cdef frozenset scalars = frozenset()
cdef set lazies = set()  # types of lazy scalars
cdef int OBJECTS = numpy.dtype(object).num, LAST_INTEGER = numpy.dtype("Q").num  # bool is the first of them
cdef long long eager_size = 0
cdef long long COPY = COPIES

cdef list late_binary = [None] * 14, late_reflected = [None] * 14, late_in_place = [None] * 14
cdef list late_unary = [None] * 4, late_compare = [None] * 6
record_two = NULL
record_in_place = NULL
record_one = NULL
record_pair = NULL
record_into = NULL
record_named = NULL
write_item = NULL
kept_alone = NULL
spare = NULL
find_table = NULL
waiting = NULL
waiting_count = last_spot = 0
wait_two = NULL
wait_one = NULL
wait_table = NULL
end = NULL
end_all = NULL
store = NULL
store_into = NULL
sink = NULL
cdef object late_getitem = None, late_setitem = None, late_delitem = None


def _set_eager_size(value):
    global eager_size
    eager_size = value


watch("eager_size", _set_eager_size)


def _set_wait_size(value):
    global wait_size
    wait_size = value


watch("wait_size", _set_wait_size)


cdef inline bint small_pair(PyObject *a, PyObject *b):
    return size_of(a) + size_of(b) <= eager_size and spread_of(a, b, NULL) <= eager_size


cdef inline Handle new():
    return <Handle>made(Handle, handle_class, nothing)


cdef inline bint is_handle(object x):
    return <PyObject *>Py_TYPE(x) == handle_class


cdef inline bint is_scalar(object x):
    return (
        PyFloat_CheckExact(x) or PyLong_CheckExact(x) or PyBool_Check(x) or PyComplex_CheckExact(x)
        or type(x) in scalars
    )


cdef inline bint ready(Handle x):
    """Whether `array` holds the current value."""
    return x.mark == HOSTED or (x.mark > 0 and x.mark == x.held.node.serial)


cdef inline bint simple(object key):
    if PyLong_CheckExact(key) or PySlice_Check(key):
        return True
    if PyTuple_CheckExact(key):
        for k in <tuple>key:
            if not (PyLong_CheckExact(k) or PySlice_Check(k) or k is None or k is Ellipsis):
                return False
        return True
    return key is None or key is Ellipsis


cdef inline bint picks(Handle key):
    """Whether an index is a small array of integers or truths at hand, with axes."""
    if not ready(key):
        return False
    cdef PyObject *a = <PyObject *>key.array
    return axes_of(a) > 0 and num_of(descr_of(a)) <= LAST_INTEGER and size_of(a) <= eager_size


cdef bint few(PyObject *a, object key):
    """Whether an array, or what one of integers or a list picks along its first axis, is small."""
    cdef Py_ssize_t size = size_of(a), count
    if size <= eager_size or axes_of(a) == 0:
        return size <= eager_size
    if is_handle(key) and ready(<Handle>key) and num_of(descr_of(<PyObject *>(<Handle>key).array)) > 0:  # 0: truths
        count = size_of(<PyObject *>(<Handle>key).array)
    elif PyList_CheckExact(key):
        count = len(<list>key)
    else:
        return False
    return count * (size // extents_of(a)[0]) <= eager_size


cdef bint counts(list key):
    """Whether a list holds integers alone."""
    for k in key:
        if not PyLong_CheckExact(k):
            return False
    return True


cdef object plain_key(object key):
    """An index with lists of integers or small arrays at hand, as NumPy takes it; None for any other."""
    cdef list items
    cdef bint fancy = False
    if is_handle(key):
        return (<Handle>key).array if picks(<Handle>key) else None
    if PyList_CheckExact(key):
        return key if counts(<list>key) else None
    if not PyTuple_CheckExact(key):
        return None
    items = []
    for k in <tuple>key:
        if is_handle(k):
            if not picks(<Handle>k):
                return None
            fancy = True
            k = (<Handle>k).array
        elif PyList_CheckExact(k):
            if not counts(<list>k):
                return None
            fancy = True
        elif not simple(k) or PyTuple_CheckExact(k):
            return None
        items.append(k)
    return tuple(items) if fancy else None


cdef void scatter(Handle x) noexcept:
    """Forget the views of an owner."""
    cdef PyObject *y = x.first
    x.first = NULL
    while y != NULL:
        (<Handle>y).at = NULL
        x.first = (<Handle>y).after
        (<Handle>y).after = NULL
        y = x.first


cdef void leave(Handle x) noexcept:
    """Take a view out of its owner's list."""
    if x.at != NULL:
        x.at[0] = x.after
        if x.after != NULL:
            (<Handle>x.after).at = x.at
        x.at = NULL
        x.after = NULL


cdef void enter_waiting(Handle x) noexcept:
    """Put a handle whose operation waits into the list of those."""
    global waiting, waiting_count
    x.after = waiting
    if x.after != NULL:
        (<Handle>x.after).at = &x.after
    x.at = &waiting
    waiting = <PyObject *>x
    waiting_count += 1


cdef object marked(object r):
    """A result, with the place in the program that `last_spot` says."""
    r = finished(r)
    if is_handle(r):
        (<Handle>r).spot = last_spot
    return r


cdef void enter(Handle x, Handle owner) noexcept:
    """Put a view into its owner's list, which is no reference."""
    x.after = owner.first
    if x.after != NULL:
        (<Handle>x.after).at = &x.after
    x.at = &owner.first
    owner.first = <PyObject *>x


cpdef object fresh(object a):
    """A handle in host mode on a NumPy array that owns its memory and is nobody else's."""
    cdef Handle x = new()
    x.array = a
    x.mark = HOSTED
    x.open = -1
    return x


cpdef object make(
    Base base, long long offset, object strides, object shape, object dtype, object owner=None, bint writeable=True
):
    """A handle on `base`."""
    cdef Handle x = new()
    x.held = base
    x.start = offset
    x.steps = strides
    x.extents = shape
    x.kind = dtype
    x._owner = owner
    x.open = writeable
    return x


cdef inline bint shown(Handle x):
    """Whether an array shows the current value of memory of the host."""
    return x.mark == HOSTED or (
        x.mark > 0 and x.mark == x.held.node.serial and (<Buffer>x.held.node.buffer).device is None
    )


cdef bint owned(Handle x):
    """Whether an array shows the value of memory that nothing pending reads and nobody else sees."""
    return x.mark == HOSTED or (x.mark > 0 and kept_alone(x))


cpdef object view(object a, Handle parent):
    """A handle on `a`, which looks at the memory of the handle `parent`."""
    cdef Handle x = new()
    cdef object root = parent if parent._owner is None else parent._owner
    x.array = a
    x.open = -1
    x._owner = root
    if parent.mark == HOSTED and is_handle(root):
        x.mark = HOSTED
        enter(x, <Handle>root)
        return x
    if parent.held is None:
        _memory.adopt(parent)
    x.held = parent.held
    x.mark = parent.mark
    x.start = data_of(<PyObject *>a) - (<Buffer>x.held.node.buffer).address
    return x


cdef object finished(object r):
    """What NumPy gave, as the user sees it."""
    if <PyObject *>Py_TYPE(r) == array_class:
        return fresh(r)
    if PyTuple_CheckExact(r):
        return tuple([finished(v) for v in <tuple>r])
    return r


def views(Handle x):
    """The living views in host mode of an owner in host mode."""
    found = []
    cdef PyObject *y = x.first
    while y != NULL:
        if y.ob_refcnt > 0:
            found.append(<object>y)
        y = (<Handle>y).after
    return found


def restart(Handle x, object a):
    """Let a handle start afresh, in host mode on `a`."""
    if waiting != NULL:
        end_all()
    scatter(x)
    leave(x)
    x.held = None
    x.extents = x.steps = x.kind = x._owner = None
    x.array = a
    x.mark = HOSTED
    x.open = -1


def connect(object cls):
    """Learn the class of the handles."""
    global handle_class, kept
    kept = cls
    handle_class = <PyObject *>cls
    keep(<PyTypeObject *>cls)
    call_it(handle_class, "numpy.ndarray")  # as NumPy's messages name it


def give(object cls, dict table, object numbers, set lazy):
    """Learn what runs for an operation that is no small work, by the method's name, and the types of numbers."""
    global scalars, lazies, late_getitem, late_setitem, late_delitem
    scalars, lazies = frozenset(numbers), lazy
    for n, name in enumerate(BINARY):
        late_binary[n] = table[f"__{name}__"]
        late_reflected[n] = table[f"__r{name}__"]
        late_in_place[n] = table.get(f"__i{name}__")
    for n, name in enumerate(UNARY):
        late_unary[n] = table[f"__{name}__"]
    for n, name in enumerate(COMPARE):
        late_compare[n] = table[f"__{name}__"]
    late_getitem, late_setitem, late_delitem = table["__getitem__"], table["__setitem__"], table["__delitem__"]
    inherit(<PyObject *>cls, <PyObject *>Handle)


include "_calls.pxi"


cdef object forward(Handle me, object other, int n):
    cdef Handle y
    cdef object r
    cdef Py_ssize_t size
    if is_handle(other):
        y = <Handle>other
        if ready(me) and ready(y):
            size = size_of(<PyObject *>me.array) + size_of(<PyObject *>y.array)
            if size <= eager_size and spread_of(<PyObject *>me.array, <PyObject *>y.array, NULL) <= eager_size:
                if size < wait_size:
                    return finished(at_once(n, me.array, y.array))
                r = wait_two(n, me, other)
                return marked(at_once(n, me.array, y.array)) if r is None else r
        elif me.mark == WAITING or y.mark == WAITING:
            r = wait_two(n, me, other)
            if r is not None:
                return r
            end(me)
            end(y)
            return forward(me, other, n)
    elif is_scalar(other):
        if ready(me):
            size = size_of(<PyObject *>me.array)
            if size <= eager_size:
                if size < wait_size:
                    return finished(at_once(n, me.array, other))
                r = wait_two(n, me, other)
                return marked(at_once(n, me.array, other)) if r is None else r
        elif me.mark == WAITING:
            r = wait_two(n, me, other)
            if r is not None:
                return r
            end(me)
            return forward(me, other, n)
    elif type(other) not in lazies:
        return late_binary[n](me, other)
    r = record_two(n, me, other)
    return late_binary[n](me, other) if r is None else r


cdef object backward(Handle me, object other, int n):
    cdef object r
    cdef Py_ssize_t size
    if is_scalar(other):
        if ready(me):
            size = size_of(<PyObject *>me.array)
            if size <= eager_size:
                if size < wait_size:
                    return finished(at_once(n, other, me.array))
                r = wait_two(n, other, me)
                return marked(at_once(n, other, me.array)) if r is None else r
        elif me.mark == WAITING:
            r = wait_two(n, other, me)
            if r is not None:
                return r
            end(me)
            return backward(me, other, n)
        r = record_two(n, other, me)
        if r is not None:
            return r
    return late_reflected[n](me, other)


cdef inline void note_spare(object x) noexcept:
    global spare
    spare = <PyObject *>x if is_handle(x) and only(<PyObject *>x) else NULL


cdef object inplace(Handle me, object other, int n):
    cdef Handle y
    cdef object r
    if waiting != NULL:
        if is_handle(other) and (<Handle>other).mark == WAITING and store_into(n, me, other):
            return me
        end_all()
    if is_handle(other):
        y = <Handle>other
        if ready(y) and owned(me):
            if size_of(<PyObject *>me.array) + size_of(<PyObject *>y.array) <= eager_size:
                if y.spot:
                    sink(y)
                in_place(n, me.array, y.array)
                return me
    elif is_scalar(other):
        if owned(me) and size_of(<PyObject *>me.array) <= eager_size:
            in_place(n, me.array, other)
            return me
    elif type(other) not in lazies:
        return late_in_place[n](me, other)
    note_spare(other)
    r = record_in_place(n, me, other)
    return late_in_place[n](me, other) if r is None else r


cdef object single(Handle me, int n):
    cdef object r
    cdef Py_ssize_t size
    if ready(me):
        size = size_of(<PyObject *>me.array)
        if size <= eager_size:
            if size < wait_size:
                return finished(alone(n, me.array))
            r = wait_one(20 + n, me)
            return marked(alone(n, me.array)) if r is None else r
    elif me.mark == WAITING:
        r = wait_one(20 + n, me)
        if r is not None:
            return r
        end(me)
        return single(me, n)
    r = record_one(20 + n, me)
    return late_unary[n](me) if r is None else r


cdef object compared(Handle me, object other, int n):
    cdef Handle y
    cdef object r
    cdef Py_ssize_t size
    if is_handle(other):
        y = <Handle>other
        if ready(me) and ready(y):
            size = size_of(<PyObject *>me.array) + size_of(<PyObject *>y.array)
            if size <= eager_size and spread_of(<PyObject *>me.array, <PyObject *>y.array, NULL) <= eager_size:
                if size < wait_size:
                    return finished(PyObject_RichCompare(me.array, y.array, n))
                r = wait_two(14 + n, me, other)
                return marked(PyObject_RichCompare(me.array, y.array, n)) if r is None else r
        elif me.mark == WAITING or y.mark == WAITING:
            r = wait_two(14 + n, me, other)
            if r is not None:
                return r
            end(me)
            end(y)
            return compared(me, other, n)
    elif is_scalar(other):
        if ready(me):
            size = size_of(<PyObject *>me.array)
            if size <= eager_size:
                if size < wait_size:
                    return finished(PyObject_RichCompare(me.array, other, n))
                r = wait_two(14 + n, me, other)
                return marked(PyObject_RichCompare(me.array, other, n)) if r is None else r
        elif me.mark == WAITING:
            r = wait_two(14 + n, me, other)
            if r is not None:
                return r
            end(me)
            return compared(me, other, n)
    elif type(other) not in lazies:
        return late_compare[n](me, other)
    r = record_two(14 + n, me, other)
    return late_compare[n](me, other) if r is None else r


@cython.no_gc_clear  # no cycle is of handles alone, and what waits needs its operation to the end
cdef class Handle:
    """What `ndarray` holds, its operators and its index."""

    def __dealloc__(self):
        global waiting_count
        if self.mark == WAITING and self.at != NULL:
            waiting_count -= 1
        leave(self)
        scatter(self)

    def __getitem__(self, key):
        cdef PyObject *root
        cdef object a, r, picked
        if waiting != NULL:
            if self.mark == WAITING:
                end(self)
            if is_handle(key) and (<Handle>key).mark == WAITING:
                end(<Handle>key)
        if shown(self):
            a = self.array
            if simple(key) and num_of(descr_of(<PyObject *>a)) != OBJECTS:
                r = PyObject_GetItem(a, key)
                if <PyObject *>Py_TYPE(r) != array_class:
                    return r
                root = base_of(<PyObject *>r)
                if root == NULL:
                    return fresh(r)
                if root == <PyObject *>a or root == base_of(<PyObject *>a):
                    return view(r, self)
            elif few(<PyObject *>a, key) and num_of(descr_of(<PyObject *>a)) != OBJECTS:
                picked = plain_key(key)
                if picked is not None:
                    r = PyObject_GetItem(a, picked)
                    if <PyObject *>Py_TYPE(r) != array_class:
                        return r
                    root = base_of(<PyObject *>r)
                    if root == NULL:
                        return fresh(r)
                    if <PyObject *>Py_TYPE(<object>root) == array_class and base_of(root) == NULL:
                        if root.ob_refcnt == 1:
                            return view(r, fresh(<object>root))  # a new array in another order
        return late_getitem(self, key)

    def __setitem__(self, key, value):
        cdef Handle y
        cdef Py_ssize_t size
        cdef bint alone
        cdef object picked
        if waiting != NULL:
            if is_handle(value) and (<Handle>value).mark == WAITING and simple(key):
                alone = only(<PyObject *>value)
                if store(self, key, <Handle>value, alone):
                    return
            end_all()
        if not simple(key) and owned(self) and few(<PyObject *>self.array, key):
            picked = plain_key(key)
            if picked is None:
                pass
            elif is_scalar(value):
                PyObject_SetItem(self.array, picked, value)
                return
            elif is_handle(value) and num_of(descr_of(<PyObject *>self.array)) != OBJECTS:
                y = <Handle>value
                if ready(y) and size_of(<PyObject *>y.array) <= eager_size:
                    PyObject_SetItem(self.array, picked, y.array)
                    return
        if self.mark == HOSTED and simple(key):  # nothing is pending on its memory
            size = size_of(<PyObject *>self.array)
            if is_handle(value):
                y = <Handle>value
                if size <= COPY * eager_size and num_of(descr_of(<PyObject *>self.array)) != OBJECTS and ready(y):
                    if y.spot:
                        sink(y)
                    PyObject_SetItem(self.array, key, y.array)
                    return
            elif size <= eager_size or (PyLong_CheckExact(key) and axes_of(<PyObject *>self.array) == 1):
                if is_scalar(value):
                    PyObject_SetItem(self.array, key, value)
                    return
        if simple(key):
            note_spare(value)
            if write_item(self, key, value):
                return
        late_setitem(self, key, value)

    def __delitem__(self, key):
        late_delitem(self, key)

    def __richcmp__(self, other, int op):
        return compared(self, other, op)

    def __add__(self, other):
        return forward(self, other, 0)

    def __radd__(self, other):
        return backward(self, other, 0)

    def __iadd__(self, other):
        return inplace(self, other, 0)

    def __sub__(self, other):
        return forward(self, other, 1)

    def __rsub__(self, other):
        return backward(self, other, 1)

    def __isub__(self, other):
        return inplace(self, other, 1)

    def __mul__(self, other):
        return forward(self, other, 2)

    def __rmul__(self, other):
        return backward(self, other, 2)

    def __imul__(self, other):
        return inplace(self, other, 2)

    def __truediv__(self, other):
        return forward(self, other, 3)

    def __rtruediv__(self, other):
        return backward(self, other, 3)

    def __itruediv__(self, other):
        return inplace(self, other, 3)

    def __floordiv__(self, other):
        return forward(self, other, 4)

    def __rfloordiv__(self, other):
        return backward(self, other, 4)

    def __ifloordiv__(self, other):
        return inplace(self, other, 4)

    def __mod__(self, other):
        return forward(self, other, 5)

    def __rmod__(self, other):
        return backward(self, other, 5)

    def __imod__(self, other):
        return inplace(self, other, 5)

    def __pow__(self, other, modulo):
        return NotImplemented if modulo is not None else forward(self, other, 6)

    def __rpow__(self, other, modulo):
        return NotImplemented if modulo is not None else backward(self, other, 6)

    def __ipow__(self, other):
        return inplace(self, other, 6)

    def __lshift__(self, other):
        return forward(self, other, 7)

    def __rlshift__(self, other):
        return backward(self, other, 7)

    def __ilshift__(self, other):
        return inplace(self, other, 7)

    def __rshift__(self, other):
        return forward(self, other, 8)

    def __rrshift__(self, other):
        return backward(self, other, 8)

    def __irshift__(self, other):
        return inplace(self, other, 8)

    def __and__(self, other):
        return forward(self, other, 9)

    def __rand__(self, other):
        return backward(self, other, 9)

    def __iand__(self, other):
        return inplace(self, other, 9)

    def __or__(self, other):
        return forward(self, other, 10)

    def __ror__(self, other):
        return backward(self, other, 10)

    def __ior__(self, other):
        return inplace(self, other, 10)

    def __xor__(self, other):
        return forward(self, other, 11)

    def __rxor__(self, other):
        return backward(self, other, 11)

    def __ixor__(self, other):
        return inplace(self, other, 11)

    def __matmul__(self, other):
        return forward(self, other, 12)

    def __rmatmul__(self, other):
        return backward(self, other, 12)

    def __imatmul__(self, other):
        return inplace(self, other, 12)

    def __divmod__(self, other):
        return forward(self, other, 13)

    def __rdivmod__(self, other):
        return backward(self, other, 13)

    def __neg__(self):
        return single(self, 0)

    def __pos__(self):
        return single(self, 1)

    def __abs__(self):
        return single(self, 2)

    def __invert__(self):
        return single(self, 3)

    @property
    def T(self):
        """View of the transposed array."""
        cdef PyObject *root
        cdef object r
        if self.mark == WAITING:
            end(self)
        if shown(self):
            r = self.array.T
            root = base_of(<PyObject *>r)
            if r is not self.array and (root == <PyObject *>self.array or root == base_of(<PyObject *>self.array)):
                return view(r, self)
        return parts["T"].fget(self)

    @T.setter
    def T(self, value):
        parts["T"].fset(self, value)

    # --- the fields as Python sees them

    # Whoever asks for what may lead to memory may write it: what waits for it is done first.

    @property
    def _np(self):
        if waiting != NULL:
            end_all()
        return self.array

    @_np.setter
    def _np(self, value):
        if waiting != NULL:
            end_all()
        self.array = value

    @property
    def _at(self):
        if waiting != NULL:
            end_all()
        return True if self.mark == HOSTED else self.mark if self.mark else None

    @_at.setter
    def _at(self, value):
        if waiting != NULL:
            end_all()
        self.mark = HOSTED if value is True else 0 if value is None else value

    @property
    def _base(self):
        if waiting != NULL:
            end_all()
        if self.held is None:
            _memory.adopt(self)
        return self.held

    @_base.setter
    def _base(self, value):
        if waiting != NULL:
            end_all()
        self.held = value

    @property
    def _offset(self):
        if waiting != NULL:
            end_all()
        if self.held is None:
            _memory.adopt(self)
        return self.start

    @_offset.setter
    def _offset(self, value):
        if waiting != NULL:
            end_all()
        self.start = value

    @property
    def _shape(self):
        if self.extents is None:
            self.extents = self.array.shape
        return self.extents

    @_shape.setter
    def _shape(self, value):
        self.extents = value

    @property
    def _strides(self):
        if self.mark == WAITING:
            end(self)
        if self.steps is None:
            self.steps = () if self.array is None else self.array.strides  # None: no axes, and written since
        return self.steps

    @_strides.setter
    def _strides(self, value):
        self.steps = value

    @property
    def _dtype(self):
        if self.kind is None:
            self.kind = self.array.dtype
        return self.kind

    @_dtype.setter
    def _dtype(self, value):
        self.kind = value

    @property
    def _writeable(self):
        if self.open < 0:
            self.open = (self.array.flags.num & 0x400) != 0  # `_memory.may_write`
        return self.open != 0

    @_writeable.setter
    def _writeable(self, value):
        self.open = value

    @property
    def _loose(self):
        return views(self)

    @_loose.setter
    def _loose(self, value):
        scatter(self)


def _layout():
    """Whether NumPy's objects look as the declarations say."""
    cdef object a = numpy.empty((2, 3), "i4"), b = a[1:]
    return (
        data_of(<PyObject *>b) == b.__array_interface__["data"][0]
        and axes_of(<PyObject *>b) == 2 and size_of(<PyObject *>b) == 3
        and base_of(<PyObject *>b) == <PyObject *>a and base_of(<PyObject *>a) == NULL
        and descr_of(<PyObject *>b) == <PyObject *>b.dtype and num_of(<PyObject *>b.dtype) == b.dtype.num
    )


if not _layout():
    raise ImportError("offarray was compiled for another NumPy: build it again")
