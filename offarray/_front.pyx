# cython: language_level=3, auto_pickle=False
"""The front of public functions and methods in C; see `_front.py`, and `_reach.quick` for what is small work."""

from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact

cimport offarray._handle as handles
from offarray._handle cimport HOSTED, Handle, fresh, view
from offarray.runtime.layout cimport axes_of, base_of, descr_of, extents_of, size_of

from types import MethodType as bound

import numpy

from . import _array
from ._convert import SCALARS
from ._memory import native
from ._reach import OPTIONS, SPAN, bounded
from .runtime.config import watch

COMPILED = True

cdef extern from *:
    """
    static void offarray_front_call(PyObject *cls, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)cls;
        type->tp_vectorcall_offset = offset;
        type->tp_call = PyVectorcall_Call;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    """
    object vectorcall "PyObject_Vectorcall"(object f, PyObject **args, size_t count, PyObject *names)
    size_t counted "PyVectorcall_NARGS"(size_t flagged)
    void front_call "offarray_front_call"(PyObject *cls, Py_ssize_t offset)

cdef enum:
    MOST = 12  # arguments of a call that is looked at

cdef PyObject *handle_class = <PyObject *>_array.ndarray
cdef PyObject *array_class = <PyObject *>numpy.ndarray
cdef frozenset scalars = SCALARS, options = frozenset(OPTIONS)
cdef long long eager_size = 0, far = SPAN
cdef bint away = False
cdef object give_back = None


def _set_eager_size(value):
    global eager_size
    eager_size = value


def _set_device(value):
    global away
    away = value.startswith("cuda")


watch("eager_size", _set_eager_size)
watch("device", _set_device)


def learn(how):
    """`how(value, handles)` makes of what NumPy returned for handles what the user sees."""
    global give_back
    give_back = how


cdef inline bint is_handle(object x):
    return <PyObject *>Py_TYPE(x) == handle_class


cdef inline bint ready(Handle x):
    """Whether `array` holds the current value."""
    return x.mark == HOSTED or (x.mark > 0 and x.mark == x.held.node.serial)


cdef inline bint plain(object x):
    return x is None or PyLong_CheckExact(x) or PyUnicode_CheckExact(x) or type(x) in options


cdef bint option(object x):
    """Whether an argument is no array and holds none."""
    if PyTuple_CheckExact(x):
        for each in <tuple>x:
            if not plain(each):
                return False
        return True
    if PyList_CheckExact(x):
        for each in <list>x:
            if not plain(each):
                return False
        return True
    return plain(x)


cdef inline bint alike(PyObject *a, PyObject *b):
    """Whether two arrays have one shape."""
    cdef int n, axes = axes_of(a)
    if axes != axes_of(b):
        return False
    for n in range(axes):
        if extents_of(a)[n] != extents_of(b)[n]:
            return False
    return True


cdef class Front:
    """What stands for a function of NumPy's or a method."""

    cdef object real, late, name
    cdef bint free, light, wide, joins, bare, told, writes
    cdef dict __dict__
    cdef object __weakref__
    cdef void *call

    def __cinit__(self, late=None, real=None, **how):
        self.late, self.real, self.name = late, real, how.get("name", "")
        self.free, self.light, self.wide = how.get("free", 0), how.get("light", 0), how.get("wide", 0)
        self.joins, self.bare, self.told = how.get("joins", 0), how.get("bare", 0), how.get("told", 0)
        self.writes = how.get("writes", 0)
        self.call = <void *>call_front

    def __call__(self, *args, **kwargs):
        return self.late(*args, **kwargs)

    def __get__(self, x, cls):
        return self if x is None else bound(self, x)

    def __getattr__(self, name):
        return getattr(self.late, name)

    def __reduce__(self):
        return self.__qualname__  # found again by its name, as NumPy's own functions are

    def __repr__(self):
        return repr(self.late)


def front(late, real, **how):
    """A callable that runs NumPy's `real` on small work and `late` on any other."""
    made = Front(late, real, **how)
    vars(made).update(vars(late))
    vars(made).update({name: getattr(late, name) for name in ("__name__", "__qualname__", "__doc__", "__module__")})
    return made


cdef Front _probe = Front()
front_call(<PyObject *>Front, <char *>&_probe.call - <char *><PyObject *>_probe)


cdef object given(Front me, object r, Handle x, PyObject **args, Py_ssize_t count):
    """What NumPy gave, as the user sees it."""
    cdef PyObject *root
    cdef PyObject *a = <PyObject *>x.array
    if <PyObject *>Py_TYPE(r) != array_class:
        if me.bare or type(r) in scalars:
            return r
    elif <PyObject *>r == a:
        return x
    else:
        root = base_of(<PyObject *>r)
        if root == NULL:
            if (<PyObject *>r).ob_refcnt == 1:
                return fresh(r)
        elif root == a or root == base_of(a):
            return view(r, x)
        elif <PyObject *>Py_TYPE(<object>root) == array_class and base_of(root) == NULL and root.ob_refcnt == 1:
            return view(r, fresh(<object>root))  # a new array in another shape
    return give_back(r, [<object>args[n] for n in range(count) if is_handle(<object>args[n])])


cdef object call_front(PyObject *callable, PyObject **args, size_t flagged, PyObject *names):
    cdef Front me = <Front>callable
    cdef Py_ssize_t count = counted(flagged), words = 0, first = 0, n
    cdef PyObject *real[MOST]
    cdef PyObject *a
    cdef Handle x, y
    cdef object v, r
    cdef long long room
    if handles.waiting != NULL:
        handles.end_all()
    if names != NULL:
        words = len(<tuple>names)
    if count == 0 or count + words > MOST:
        return vectorcall(me.late, args, flagged, names)
    if not is_handle(<object>args[0]):
        if me.joins and names == NULL:
            r = join(me, args, count)
            if r is not NotImplemented:
                return r
        if not (
            me.told and names == NULL and 2 <= count <= 3 and type(<object>args[0]) is str
            and is_handle(<object>args[1]) and bounded(<object>args[0])
        ):
            return vectorcall(me.late, args, flagged, names)
        first = 1
        real[0] = args[0]
    x = <Handle>args[first]
    if not ready(x) or (me.writes and not handles.owned(x)):
        return slow(me, args, count, flagged, names)
    real[first] = a = <PyObject *>x.array
    room = eager_size - size_of(a)
    for n in range(first + 1, count):
        v = <object>args[n]
        if is_handle(v):
            y = <Handle>v
            if not ready(y) or not (me.free or alike(a, <PyObject *>y.array)):
                break
            real[n] = <PyObject *>y.array
            room -= size_of(real[n])
        elif option(v):
            real[n] = args[n]
        else:
            break
    else:
        for n in range(count, count + words):
            v = <object>args[n]
            if not (plain(v) or (PyTuple_CheckExact(v) and option(v))) or (<tuple>names)[n - count] == "device":
                break
            real[n] = args[n]
        else:
            if room >= 0 or me.light or (
                (me.wide or first) and not away and room + (far - 1) * eager_size >= 0 and native(<object>descr_of(a))
            ):
                return run(me, real, count, words, names, x, args)
    return slow(me, args, count, flagged, names)


cdef object slow(Front me, PyObject **args, Py_ssize_t count, size_t flagged, PyObject *names):
    """A call that is no small work."""
    cdef object r = handles.record_named(me.name, args, count, names)
    return vectorcall(me.late, args, flagged, names) if r is None else r


cdef object run(
    Front me, PyObject **real, Py_ssize_t count, Py_ssize_t words, PyObject *names, Handle x, PyObject **args
):
    cdef Py_ssize_t n
    cdef object r
    for n in range(count):
        Py_INCREF(<object>real[n])  # a callback may let go of an array
    try:
        r = vectorcall(me.real, real, count, names)
    finally:
        for n in range(count):
            Py_DECREF(<object>real[n])
    return given(me, r, x, args, count)


cdef object join(Front me, PyObject **args, Py_ssize_t count):
    """A call on a list of small ready arrays."""
    cdef object each, first = <object>args[0]
    cdef list arrays = []
    cdef long long room = eager_size if away else far * eager_size
    cdef Handle x
    cdef Py_ssize_t n
    if not (PyList_CheckExact(first) or PyTuple_CheckExact(first)):
        return NotImplemented
    for each in first:
        if not is_handle(each):
            return NotImplemented
        x = <Handle>each
        if not ready(x):
            return NotImplemented
        arrays.append(x.array)
        room -= size_of(<PyObject *>x.array)
        if room < (far - 1) * eager_size and not native(<object>descr_of(<PyObject *>x.array)):
            return NotImplemented
    for n in range(1, count):
        if not plain(<object>args[n]):
            return NotImplemented
    if room < 0 or not arrays:
        return NotImplemented
    cdef PyObject *real[MOST]
    real[0] = <PyObject *>arrays
    for n in range(1, count):
        real[n] = args[n]
    cdef object r = vectorcall(me.real, real, count, NULL)
    if <PyObject *>Py_TYPE(r) == array_class and base_of(<PyObject *>r) == NULL and (<PyObject *>r).ob_refcnt == 1:
        return fresh(r)
    return give_back(r, list(first))
