# C fields of the handle; what of NumPy's objects is read here is part of its stable binary interface.
from cpython.object cimport PyObject, PyTypeObject
from offarray.fusion.node cimport Base, Node

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        char *data; int nd; Py_ssize_t *dimensions; Py_ssize_t *strides; PyObject *base; PyObject *descr; int flags;
    } offarray_array;
    typedef struct {
        PyObject_HEAD
        PyTypeObject *typeobj; char kind, type, byteorder, former_flags; int type_num;
    } offarray_dtype;
    static inline Py_ssize_t offarray_size(PyObject *a) {
        Py_ssize_t n = 1;
        for (int i = 0; i < ((offarray_array *)a)->nd; i++) n *= ((offarray_array *)a)->dimensions[i];
        return n;
    }
    #define offarray_descr(a) (((offarray_array *)(a))->descr)
    #define offarray_num(d) (((offarray_dtype *)(d))->type_num)
    #define offarray_nd(a) (((offarray_array *)(a))->nd)
    #define offarray_base(a) (((offarray_array *)(a))->base)
    #define offarray_data(a) ((long long)((offarray_array *)(a))->data)
    """
    Py_ssize_t size_of "offarray_size"(PyObject *a)
    PyObject *descr_of "offarray_descr"(PyObject *a)
    PyObject *base_of "offarray_base"(PyObject *a)
    long long data_of "offarray_data"(PyObject *a)
    int axes_of "offarray_nd"(PyObject *a)
    int num_of "offarray_num"(PyObject *dtype)

cdef enum:
    HOSTED = -1  # `mark` of a handle in host mode; 0: nothing of its value has been seen

cdef class Handle:
    cdef public object _np  # NumPy's array of the value as it was when last seen, or None
    cdef public object _owner  # what `.base` gives
    cdef Base held
    cdef object extents, steps, kind
    cdef long long mark, start
    cdef int open  # whether it may be written; -1: not asked for yet
    cdef PyObject *after  # views in host mode: the next one of the same owner, what names this one ...
    cdef PyObject **at
    cdef PyObject *first  # ... and, of an owner, the first of its views
    cdef object __weakref__

cpdef object fresh(object a)
cpdef object make(Base base, long long offset, object strides, object shape, object dtype, object owner=*, bint writeable=*)
cpdef object view(object a, Handle parent)

# What records an operation that is no small work, by its place among the operators; gives None for what it does not.
ctypedef object (*Two)(int n, object x, object y)
ctypedef object (*One)(int n, object x)
ctypedef object (*Pair)(object table, object x, object y, Py_ssize_t count)  # of a ufunc, by its table
ctypedef object (*Find)(object real)
cdef Two record_two
cdef One record_one
cdef Pair record_pair
cdef Find find_table
