ctypedef int (*kernel)(void *row, long long first, long long last) noexcept nogil

cdef class Stage:
    cdef public object launch
    cdef public tuple sources, scalars, outputs, faults, asides, before, after
    cdef object body, finish, key, report
    cdef kernel code
    cdef bint quick, placed
    cdef object shot
    cdef Py_ssize_t words, fault, reports
    cdef long long units, scratch, nbytes
    cdef long long *template
    cdef int *plan  # (table, number) by slot, (slot) by pointer, (word, constant) by scalar
    cdef long long *offsets  # by pointer
    cdef char *real  # by scalar: whether it is a floating-point number
    cdef int slots, pointers, constants
