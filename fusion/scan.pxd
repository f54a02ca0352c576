from offarray.fusion.node cimport Node


cdef bint sole(Node former, Node update, Node spare, long long held) except -1
