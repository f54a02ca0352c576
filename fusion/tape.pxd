cimport cython
from offarray.fusion.node cimport Node

cdef long long pending_bytes, _bound, _bound_bytes
cdef object first_site

cpdef add(Node node, long long nbytes=*)
cpdef bint due(Node node)
cpdef long long _kept(Node node)
@cython.locals(node=Node)
cpdef passed(list order)
@cython.locals(node=Node, keep=list)
cpdef compact(bint thorough=*)
