from offarray.runtime.pool cimport account, give, take

cdef class Buffer:
    cdef public object array, device, _export, _raw
    cdef public long long address, nbytes
    cdef public bint foreign, _pooled
    cdef object __weakref__
