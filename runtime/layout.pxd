# What of NumPy's arrays and data types is read in C: part of its stable binary interface.
from cpython.object cimport PyObject, PyTypeObject

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
