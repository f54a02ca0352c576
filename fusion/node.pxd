cdef class Node:
    cdef public int kind, state, fault, demanded
    cdef public bint taped
    cdef public long long number, serial
    cdef public object op, dtype, shape, src, arg, site, buffer, error, alias

cdef class Base:
    cdef public Node node
    cdef public object borrows
    cdef object __weakref__
