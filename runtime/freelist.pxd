# Memory of freed objects of a type, kept for its next ones: they come and go with every operation.
from cpython.object cimport PyTypeObject

cdef extern from *:
    """
    #define OFFARRAY_TYPES 4
    #define OFFARRAY_KEPT 256
    static PyTypeObject *offarray_types[OFFARRAY_TYPES];
    static PyObject *offarray_kept[OFFARRAY_TYPES][OFFARRAY_KEPT];
    static int offarray_count[OFFARRAY_TYPES];

    static inline int offarray_pool(PyTypeObject *type) {
        int n = 0;
        while (n < OFFARRAY_TYPES && offarray_types[n] != type) n++;
        return n;
    }
    static PyObject *offarray_alloc(PyTypeObject *type, Py_ssize_t items) {
        int n = offarray_pool(type);
        if (n == OFFARRAY_TYPES || !offarray_count[n]) return PyType_GenericAlloc(type, items);
        PyObject *o = offarray_kept[n][--offarray_count[n]];
        memset(o, 0, type->tp_basicsize);
        (void)PyObject_Init(o, type);
        PyObject_GC_Track(o);
        return o;
    }
    static void offarray_free(void *o) {
        int n = offarray_pool(Py_TYPE((PyObject *)o));
        if (n < OFFARRAY_TYPES && offarray_count[n] < OFFARRAY_KEPT) offarray_kept[n][offarray_count[n]++] = (PyObject *)o;
        else PyObject_GC_Del(o);
    }
    /* For a type under garbage collection, of a fixed size, without a finalizer. */
    static void offarray_keep(PyTypeObject *type) {
        int n = offarray_pool(NULL);
        if (n == OFFARRAY_TYPES) return;
        offarray_types[n] = type;
        type->tp_alloc = offarray_alloc;
        type->tp_free = offarray_free;
    }
    """
    void keep "offarray_keep"(PyTypeObject *type)
