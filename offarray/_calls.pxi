# Calls of ufuncs in C: part of _handle.pyx, whose functions it shares.

cdef class Called:
    """What a ufunc holds: NumPy's own, and the function in C that calls it."""

    cdef public object real
    cdef public Py_ssize_t nin
    cdef object table
    cdef void *call

    def __cinit__(self, *args):
        self.call = <void *>call_ufunc


cdef object late_call = None


def quicken(cls, called):
    """Have instances of a class of ufuncs called in C; `called` runs for what is no small work."""
    global late_call
    late_call = called
    cdef Called probe = Called()
    quick_call(<PyObject *>cls, <char *>&probe.call - <char *><PyObject *>probe)


cdef object call_ufunc(PyObject *callable, PyObject **args, size_t flagged, PyObject *names):
    """A call of a ufunc: small work at once, else recorded, else the long way."""
    cdef Called me = <Called>callable
    cdef Py_ssize_t count = counted(flagged), n
    cdef PyObject *real[4]
    cdef PyObject *wide[3]
    cdef long long room = eager_size
    cdef bint plain = names == NULL and count == me.nin and count <= 3, waits = False, delayed = False, marks = False
    cdef object r
    wide[0] = wide[1] = wide[2] = NULL
    if plain:
        for n in range(count):
            if is_handle(<object>args[n]):
                if not ready(<Handle>args[n]):
                    delayed = delayed or (<Handle>args[n]).mark == WAITING
                    waits = True
                    continue
                real[n] = wide[n] = <PyObject *>(<Handle>args[n]).array
                room -= size_of(real[n])
            elif is_scalar(<object>args[n]):
                real[n] = args[n]
            elif type(<object>args[n]) in lazies:
                waits = True
            else:
                plain = False
                break
    if plain and count <= 2 and (delayed or (not waits and room >= 0 and room <= eager_size - wait_size)):
        if me.table is None:
            me.table = find_table(me.real)
        r = wait_table(me.table, <object>args[0], <object>args[1 if count == 2 else 0], count)
        if r is not None:
            return r
        marks = not waits
    if delayed:
        for n in range(count):
            if is_handle(<object>args[n]):
                end(<Handle>args[n])
        return call_ufunc(callable, args, flagged, names)
    if plain and not waits and room >= 0 and spread_of(wide[0], wide[1], wide[2]) <= eager_size:
        for n in range(count):
            Py_INCREF(<object>real[n])
        try:
            r = vectorcall(me.real, real, count, NULL)
            return marked(r) if marks else finished(r)
        finally:
            for n in range(count):
                Py_DECREF(<object>real[n])
    if plain and count <= 2:
        if me.table is None:
            me.table = find_table(me.real)
        r = record_pair(me.table, <object>args[0], <object>args[1 if count == 2 else 0], count)
        if r is not None:
            return r
    if names != NULL and count == me.nin and count <= 2 and len(<tuple>names) == 1 and (<tuple>names)[0] == "out":
        if is_handle(<object>args[count]):
            r = written_into(me, args, count, names)
            if r is not None:
                return r
    return late(me, args, count, names)


cdef object written_into(Called me, PyObject **args, Py_ssize_t count, PyObject *names):
    """A call with an array of ours as `out`; None for the long way."""
    cdef Handle out = <Handle>args[count]
    cdef PyObject *real[3]
    cdef long long room = eager_size
    cdef Py_ssize_t n
    cdef object r
    cdef bint at_hand = owned(out)
    if waiting != NULL:
        end_all()
    for n in range(count):
        if is_handle(<object>args[n]):
            at_hand = at_hand and ready(<Handle>args[n])
            real[n] = <PyObject *>(<Handle>args[n]).array
            room -= size_of(real[n]) if at_hand else 0
        elif is_scalar(<object>args[n]):
            real[n] = args[n]
        elif type(<object>args[n]) in lazies:
            at_hand = False
        else:
            return None
    if at_hand and room >= 0 and size_of(<PyObject *>out.array) <= eager_size:
        real[count] = <PyObject *>out.array
        for n in range(count + 1):
            Py_INCREF(<object>real[n])
        try:
            vectorcall(me.real, real, count, names)
        finally:
            for n in range(count + 1):
                Py_DECREF(<object>real[n])
        return out
    if out.mark == HOSTED and size_of(<PyObject *>out.array) <= eager_size:
        return None
    if me.table is None:
        me.table = find_table(me.real)
    return record_into(me.table, <object>args[0], <object>args[1 if count == 2 else 0], count, out)


cdef dict parts = {}


def part(cls, name, made):
    """Give the class an attribute that is part of an array."""
    if name == "T":
        parts[name] = made
    else:
        setattr(cls, name, made)


cdef object late(Called me, PyObject **args, Py_ssize_t count, PyObject *names):
    """The same call with the long way's function."""
    cdef Py_ssize_t n
    cdef dict named = {}
    cdef tuple words = () if names == NULL else <tuple>names
    cdef list given = [<object>args[n] for n in range(count)]
    for n in range(len(words)):
        named[words[n]] = <object>args[count + n]
    return late_call(me, *given, **named)
