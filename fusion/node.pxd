cdef class Node:
    cdef public int kind, state
    cdef public bint taped
    cdef public long long number, serial
    cdef public object op, dtype, shape, src, arg, fault, site, buffer, error, alias, demanded

cdef class Base:
    cdef public Node node
    cdef public object borrows
    cdef object __weakref__
