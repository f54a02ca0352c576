cimport cython
from offarray.fusion.node cimport Node

cdef class Graph:
    cdef public list order, leaves, uses, reads, parts

@cython.locals(base=cython.longlong, number=cython.longlong, state=cython.int, kind=cython.int, node=Node, order=list, leaves=list, uses=list, reads=list, parts=list, stack=list, graph=Graph)
cpdef scan(list roots)
