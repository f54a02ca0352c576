# Writes into parts of arrays.  Part of _direct.pyx; the same as `_record.write` does with a base that is in memory.

from cpython.object cimport PyObject_GetItem, PyObject_SetItem

cdef int UPDATE = nodes.UPDATE
cdef object lock = _evaluate.lock, compact = tape.compact, copied = _record.copied, update_slowly = _record._update, new_leaf = nodes.leaf


cdef bint kept_alone(Handle x):
    """Whether an array shows the value of memory that nothing pending reads and nobody else sees."""
    cdef Buffer buffer
    if x.mark <= 0 or x.mark != x.held.node.serial or x.held.borrows is not None or x.held.node.state != READY:
        return False
    buffer = <Buffer>x.held.node.buffer
    return buffer.device is None and not seen(buffer) and refs(<PyObject *>x.held.node) == 1


cdef bint overlapping(Layout *how, int number, long long reach) noexcept:
    """Whether several indices name one byte; the same as `_lazy._folded`."""
    cdef long long steps[MOST_AXES]
    cdef long long extents[MOST_AXES]
    cdef long long step
    cdef int n, m, count = 0
    for n in range(how.axes):
        if how.extents[n] > 1:
            step = how.steps[number][n]
            step = step if step > 0 else -step
            m = count
            while m > 0 and steps[m - 1] > step:
                steps[m], extents[m] = steps[m - 1], extents[m - 1]
                m -= 1
            steps[m], extents[m] = step, how.extents[n]
            count += 1
    reach -= 1
    for n in range(count):
        if steps[n] <= reach:
            return True
        reach += steps[n] * (extents[n] - 1)
    return False


cdef Node given_up(Handle x):
    """The node of what is being written, if the handle's own reference is the only one beside those of nodes."""
    cdef PyObject *y = handles.spare
    handles.spare = NULL
    if y == NULL or (<Handle>y).held is None or (<Handle>y).held is x.held or refs(<PyObject *>(<Handle>y).held) > 1:
        return None
    return (<Handle>y).held.node


cdef int overwrite(Handle x, Node value, object window, object site) except -1:
    """Write a value into a part of a base, at the statement; see `_record._update`."""
    cdef Node former = x.held.node, update, kept
    cdef bint alone
    with lock:
        update = new_node(UPDATE, "in place", x.kind, <tuple>(<tuple>window)[1], (former, value), 0, site)
        update.arg = window
        # beside those of nodes, references of the base and of this function
        alone = refs(<PyObject *>former) == 3
        if not alone:
            kept = given_up(x)
            alone = sole(former, update, kept, 2)
            if not alone:
                compact(thorough=True)  # values that died since an evaluation are no readers
                alone = sole(former, update, kept, 2)
            kept = None
        if alone:
            counters[OPERATIONS] = <object>PyDict_GetItem(counters, OPERATIONS) + 1
            try:
                _evaluate.evaluate((update,))
            except BaseException:
                if update.state == FAILED:
                    former.state, former.error = FAILED, update.error
                raise
            if update.state == READY and update.buffer is not None and update.buffer is not former.buffer:
                x.held.node = <Node>new_leaf(update.buffer, former.dtype, former.shape)
            return 0
        former = update = None
        update_slowly(x, value, window, site)
    return 0


cdef bint writable(Handle x):
    """Whether a part of an array may be written by a kernel that is recorded in C."""
    cdef Node node
    if x.held is None:
        x._base
    node = x.held.node
    if node.state != READY or node.buffer is None or x.held.borrows is not None or not x._writeable:
        return False
    if (<Buffer>node.buffer).device is not None or seen(<Buffer>node.buffer) or warns(x):
        return False
    return native(x._dtype)


cdef inline bint warns(Handle x):
    """Whether NumPy warns when an array is written; see `_memory.warns`."""
    return x.array is not None and flags_of(<PyObject *>x.array) < 0


cdef bint write_item(Handle x, object key, object value) except -1:
    """`x[key] = value` for a basic index; false for the long way."""
    cdef Layout how
    cdef Handle y = None
    cdef Node node = None
    cdef PyObject *a
    cdef object t, site, window, number = None
    cdef tuple own, shape, theirs
    cdef long long size = 1, part = 0, extent, start, step
    cdef int n, shift, armed_now
    cdef bint whole_of_base, at_hand = True
    if type(value) in lazies:
        value = value._handle
    if type(value) is ndarray:
        y = <Handle>value
        at_hand = ready(y)
    elif side(value) < 0 and type(value) is not float64:
        return False
    n = num_of(<PyObject *>x._dtype)
    if n < 0 or n >= SIDE:
        return False
    if x.mark == HOSTED and (at_hand or x.first != NULL):
        return False  # NumPy's; and what has views in host mode gets a base the long way
    if at_hand and kept_alone(x):
        if not flags_of(<PyObject *>x.array) & WRITEABLE:
            return False  # which NumPy says before it looks at the key
        t = PyObject_GetItem(x.array, key)
        if type(t) is not numpy.ndarray:
            if y is None:
                PyObject_SetItem(x.array, key, value)
                return True
            return False
        size = elements_of(<PyObject *>t)
        if size + (0 if y is None else elements_of(<PyObject *>y.array)) <= eager_size:
            PyObject_SetItem(x.array, key, value if y is None else y.array)
            return True
        size = 1
    if not writable(x):
        return False
    if y is not None and not usable(y):
        return False
    t = PyObject_GetItem(host(x), key)
    if type(t) is not numpy.ndarray:
        return False
    a = <PyObject *>t
    how.axes = axes_of(a)
    if how.axes < 1 or how.axes > MOST_AXES:
        return False
    for n in range(how.axes):
        how.extents[n] = dims_of(a)[n]
        how.steps[0][n] = steps_of(a)[n] if how.extents[n] != 1 else 0
        how.steps[1][n] = 0
        size *= how.extents[n]
    if size == 0 or size > FAR or overlapping(&how, 0, x.kind.itemsize):
        return False
    start = data_of(a) - (<Buffer>x.held.node.buffer).address
    if y is not None:
        theirs = <tuple>y.extents
        shift = how.axes - <int>len(theirs)
        if shift < 0 or not native(y.kind) or (y.kind.kind == "c" and x.kind.kind != "c"):
            return False
        if y.held is x.held and y.start == start and y.kind is x.kind and theirs == t.shape and y.steps == t.strides:
            return True  # the second half of `x[key] += y`: Python assigns the part to itself
        part = 1
        for n in range(len(theirs)):
            extent = theirs[n]
            if extent == 1:
                continue
            if extent != how.extents[n + shift]:
                return False
            how.steps[1][n + shift] = (<tuple>y.steps)[n]
            part *= extent
        at_hand = y.held.node.state == READY
    elif x.kind is as_float64 or (PyLong_CheckExact(value) and x.kind.kind in "iu"):
        node = constant(value, x.kind)
        if node is None:
            return False
    else:
        return False
    if at_hand and size + part <= eager_size:
        return False
    arrange(&how, 1)
    shape = t.shape
    own = shape if how.straight else shape_from(&how)
    if own == x._shape:
        own = <tuple>x.extents  # the very tuple of an array that is all of its node
    site = here()
    armed_now = look_at_errors()
    if y is not None:
        node = read_at(y, &how, 1, own)
        if node is y.held.node:  # no two bases share a node
            node = <Node>copied(node, node.shape)
        if node.dtype is not x.kind:
            node = <Node>cast(node, x.kind, armed_now, site)
    step = x.kind.itemsize
    whole_of_base = start == 0 and size * step == (<Buffer>x.held.node.buffer).nbytes
    for n in range(how.axes - 1, -1, -1):
        if how.extents[how.order[n]] != 1:
            whole_of_base = whole_of_base and how.steps[0][how.order[n]] == step
            step *= how.extents[how.order[n]]
    if whole_of_base:
        if node.shape != own:
            node = <Node>copied(node, own)
        x._strides  # what has not been asked for yet goes with the array that was seen
        t = None
        commit(node, None, None, size * <long long>x.kind.itemsize, node.kind == MAP and node.fault != 0, x)
        return True
    window = View(start, own, tuple([t.strides[how.order[n]] for n in range(how.axes)]))
    t = None
    overwrite(x, node, window, site)
    return True


cdef object write_through(Handle x, Node value, Layout *how, tuple own, object site):
    """Write a new value of the shape of a view into what it looks at."""
    cdef int n
    window = View(x.start, own, tuple([(<tuple>x.steps)[how.order[n]] for n in range(how.axes)]))
    overwrite(x, value, window, site)
    return x
