from offarray.fusion.node cimport Node

cdef long long pending_bytes, _bound, _bound_bytes

cpdef add(Node node)
cpdef bint due(Node node)
cpdef long long _kept(Node node)
