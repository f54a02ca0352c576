cimport cython
from offarray._handle cimport Handle, fresh
from offarray.fusion.node cimport Base, Node

@cython.locals(node=Node)
cpdef dense(object x)
@cython.locals(a=Node, b=Node)
cpdef binary(object real, object x, object y)
@cython.locals(a=Node)
cpdef unary(object real, object x)
