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
    static inline Py_ssize_t offarray_spread(PyObject *a, PyObject *b, PyObject *c) {
        offarray_array *all[3] = {(offarray_array *)a, (offarray_array *)b, (offarray_array *)c};
        Py_ssize_t n = 1;
        for (int axis = 0; ; axis++) {
            Py_ssize_t most = 1;
            int there = 0;
            for (int i = 0; i < 3; i++) {
                if (all[i] == NULL || all[i]->nd <= axis) continue;
                Py_ssize_t extent = all[i]->dimensions[all[i]->nd - 1 - axis];
                there = 1;
                if (extent > most) most = extent;
            }
            if (!there || n > ((Py_ssize_t)1 << 40)) return n;
            n *= most;
        }
    }
    #define offarray_descr(a) (((offarray_array *)(a))->descr)
    #define offarray_num(d) (((offarray_dtype *)(d))->type_num)
    #define offarray_nd(a) (((offarray_array *)(a))->nd)
    #define offarray_extents(a) (((offarray_array *)(a))->dimensions)
    #define offarray_base(a) (((offarray_array *)(a))->base)
    #define offarray_data(a) ((long long)((offarray_array *)(a))->data)
    """
    Py_ssize_t size_of "offarray_size"(PyObject *a)
    Py_ssize_t spread_of "offarray_spread"(PyObject *a, PyObject *b, PyObject *c)  # elements of what they broadcast to
    PyObject *descr_of "offarray_descr"(PyObject *a)
    PyObject *base_of "offarray_base"(PyObject *a)
    long long data_of "offarray_data"(PyObject *a)
    int axes_of "offarray_nd"(PyObject *a)
    Py_ssize_t *extents_of "offarray_extents"(PyObject *a)
    int num_of "offarray_num"(PyObject *dtype)
