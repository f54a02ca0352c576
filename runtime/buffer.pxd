from offarray.runtime.pool cimport account, give, take

cdef class Buffer:
    cdef public object array, device, _export, _raw
    cdef public long long address, nbytes
    cdef public bint foreign, _pooled
    cdef object __weakref__


cdef inline bint seen(Buffer buffer):
    """Whether somebody outside looks at the memory: `buffer.shared`, asked where it may be."""
    return buffer.foreign or (buffer._export is not None and buffer.shared)
