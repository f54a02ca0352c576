# C fields of the handle, and its allocation, for the compiled front end.
cimport cython

cdef extern from *:
    """
    static PyObject *offarray_new(PyObject *base, PyObject *cls) {
        static PyObject *none = NULL;
        if (!none) none = PyTuple_New(0);
        return ((PyTypeObject *)base)->tp_new((PyTypeObject *)cls, none, NULL);
    }
    """
    object offarray_new(object base, object cls)


cdef class Handle:
    cdef public object _at, _np, _owner, _loose
    cdef object __weakref__


cdef inline object _new(object cls):
    return offarray_new(Handle, cls)


@cython.locals(x=Handle)
cpdef object fresh(object a)
