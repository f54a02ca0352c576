cdef long long _held, _live, _most, _taken
cdef bint _open
cpdef long long capacity(long long nbytes)
cpdef tuple take(long long nbytes, bint zero)
cpdef account(long long nbytes)
cpdef give(object holder)
