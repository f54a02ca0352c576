from offarray.fusion.node cimport Node

cpdef add(Node node)
cpdef due(Node node)
