# C fields of the handle.
from cpython.object cimport PyObject
from offarray.fusion.node cimport Base, Node

cdef enum:
    HOSTED = -1  # `mark` of a handle in host mode; 0: nothing of its value has been seen
    WAITING = -2  # its operation waits for the next one (_statement.pxi): no array, no base yet

cdef class Handle:
    cdef object array  # NumPy's array of the value as it was when last seen, or None
    cdef public object _owner  # what `.base` gives
    cdef Base held
    cdef object extents, steps, kind
    cdef long long mark, start
    cdef int open  # whether it may be written; -1: not asked for yet
    cdef PyObject *after  # views in host mode: the next one of the same owner, what names this one ...
    cdef PyObject **at
    cdef PyObject *first  # ... and, of an owner, the first of its views
    cdef object wait  # the operation that waits
    cdef int spot  # where in the program the value was made; 0: nobody has looked
    cdef object __weakref__

cpdef object fresh(object a)
cpdef object make(Base base, long long offset, object strides, object shape, object dtype, object owner=*, bint writeable=*)
cpdef object view(object a, Handle parent)

# What records an operation that is no small work, by its place among the operators; gives None for what it does not.
ctypedef object (*Two)(int n, object x, object y)
ctypedef object (*One)(int n, object x)
ctypedef object (*Pair)(object table, object x, object y, Py_ssize_t count)  # of a ufunc, by its table
ctypedef object (*Out)(object table, object x, object y, Py_ssize_t count, object out)
ctypedef object (*Named)(object name, PyObject **args, Py_ssize_t count, PyObject *names)  # a function or method
ctypedef bint (*Write)(Handle x, object key, object value) except -1
ctypedef bint (*Alone)(Handle x)
ctypedef object (*Find)(object real)
cdef Two record_two, record_in_place
cdef One record_one
cdef Pair record_pair
cdef Out record_into
cdef Named record_named
cdef Write write_item
cdef Alone kept_alone
cdef bint owned(Handle x)
cdef PyObject *spare  # a handle that is being written into another, and that nobody can ask for afterwards; or NULL
cdef Find find_table

# Operations that wait for the next one; `last_spot` is where in the program the last one asked about stands.
ctypedef object (*WaitTable)(object table, object x, object y, Py_ssize_t count)
ctypedef int (*End)(Handle x) except -1
ctypedef int (*EndAll)() except -1
ctypedef bint (*Store)(Handle x, object key, Handle value, bint alone) except -1
ctypedef bint (*Into)(int n, Handle x, object y) except -1
ctypedef void (*Ends)(Handle x) noexcept
cdef PyObject *waiting
cdef int waiting_count, last_spot
cdef long long wait_size
cdef Two wait_two
cdef One wait_one
cdef WaitTable wait_table
cdef End end
cdef EndAll end_all
cdef Store store
cdef Into store_into
cdef Ends sink
cdef void leave(Handle x) noexcept
cdef void enter_waiting(Handle x) noexcept
