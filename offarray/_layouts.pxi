# Operations on operands that broadcast, lie in another order in memory or are converted.  Part of _direct.pyx.
#
# The same nodes as `_record.elementwise` gives: the result in NumPy's "K" order, operands read through strides, casts.

cdef enum:
    MOST_AXES = 8
    MOST_OPERANDS = 3

cdef object cast = _record.cast, literal = _record.constant
cdef set lazies = KINDS
cdef long long BUFFERED = _record.BUFFERED, FAR = 1 << 40  # elements beyond which the long way asks for memory


cdef struct Layout:
    int axes
    long long extents[MOST_AXES]
    long long steps[MOST_OPERANDS][MOST_AXES]  # bytes between elements, 0 along what is broadcast
    int order[MOST_AXES]  # axes from the slowest to the fastest in memory
    bint straight  # whether that is C order


cdef int lower_than(Layout *how, int count, int a, int b) noexcept:
    """1 if axis `a` is at least as slow as `b`, 0 if it is faster, -1 where no operand has a stride along both."""
    cdef int n, verdict = -1
    cdef long long x, y
    for n in range(count):
        x, y = how.steps[n][a], how.steps[n][b]
        if x and y:
            if (y if y > 0 else -y) <= (x if x > 0 else -x):
                return 1
            verdict = 0
    return verdict


cdef void arrange(Layout *how, int count) noexcept:
    """The order of the result; the same as `fusion.order.memory_order`."""
    cdef int place, target, other, axis, verdict
    for axis in range(how.axes):
        how.order[axis] = axis
    how.straight = True
    for place in range(how.axes - 2, -1, -1):
        axis = how.order[place]
        target = place
        for other in range(place + 1, how.axes):
            verdict = lower_than(how, count, axis, how.order[other])
            if verdict == 1:
                break
            if verdict == 0:
                target = other
        if target != place:
            how.straight = False
            for other in range(place, target):
                how.order[other] = how.order[other + 1]
            how.order[target] = axis


cdef tuple shape_from(Layout *how):
    """The extents in the order of memory."""
    cdef int n
    return tuple([how.extents[how.order[n]] for n in range(how.axes)])


cdef Node read_at(Handle x, Layout *how, int number, tuple shape):
    """An operand as the result's loop meets it; `shape` is the result's, in the order of memory."""
    cdef Node node = x.held.node, made
    cdef tuple own = <tuple>x.extents, theirs = <tuple>node.shape
    cdef int n, axis
    cdef long long step
    if not own:
        if not theirs and x.start == 0 and node.dtype is x.kind:
            return node
        made = Node.__new__(Node)
        made.shape = NO_SHAPE
        made.arg = View(x.start, NO_SHAPE, NO_SHAPE)
    else:
        if x.start == 0 and node.dtype is x.kind and len(theirs) == how.axes and (shape is theirs or shape == theirs):
            step = node.dtype.itemsize
            for n in range(how.axes - 1, -1, -1):
                axis = how.order[n]
                if how.extents[axis] != 1:
                    if how.steps[number][axis] != step:
                        break
                    step *= how.extents[axis]
            else:
                return node
        made = Node.__new__(Node)
        made.shape = shape
        made.arg = View(x.start, shape, tuple([how.steps[number][how.order[n]] for n in range(how.axes)]))
    made.kind = READ
    made.op = made.alias = ""
    made.dtype = x.kind
    made.src = (node,)
    made.serial = next(serials)
    return made


cdef object steps_from(Layout *how, long long itemsize):
    """Strides by axis of a result that lies densely in its order."""
    cdef long long found[MOST_AXES]
    cdef int n
    for n in range(how.axes - 1, -1, -1):
        found[how.order[n]] = itemsize
        itemsize *= how.extents[how.order[n]]
    return tuple([found[n] for n in range(how.axes)])


cdef inline bint usable(Handle x):
    """Whether a handle's value may be an operand of what is recorded in C."""
    cdef Node node
    if x.held is None:
        x._base
    node = x.held.node
    if node.state > READY or (node.buffer is not None and seen(<Buffer>node.buffer)):
        return False
    x._shape, x._strides, x._dtype  # noted down
    return True


cdef object spread(Entry e, list operands, Handle into):
    """Record an operation on handles and constants; None for what needs the long way, or is small work.

    `into` is written: all of its base, or, where it looks at a part of it, at this statement.
    """
    cdef Layout how, target
    cdef bint part_of = into is not None and into.held.node.shape is not into.extents
    cdef Handle x
    cdef Node node
    cdef object operand, kind, site
    cdef tuple own, shape = None
    cdef list sources = []
    cdef long long extent, size = 1, total = 0, part
    cdef int n, number, shift, armed_now, count = len(operands)
    cdef bint at_hand = True, faulty = False, backwards = False, alike
    how.axes = 0
    for operand in operands:
        if type(operand) is ndarray:
            x = <Handle>operand
            if not usable(x):
                return None
            n = len(<tuple>x.extents)
            if n > MOST_AXES:
                return None
            at_hand = at_hand and (n == 0 or x.held.node.state == READY)
            how.axes = max(how.axes, n)
    if how.axes == 0:
        return None
    for n in range(how.axes):
        how.extents[n] = 1
    for number in range(count):
        for n in range(how.axes):
            how.steps[number][n] = 0
        if type(operands[number]) is not ndarray:
            continue
        x = <Handle>operands[number]
        own = <tuple>x.extents
        shift = how.axes - <int>len(own)
        part = 1
        for n in range(len(own)):
            extent = own[n]
            if extent == 1:
                continue
            if extent == 0 or (how.extents[n + shift] != 1 and how.extents[n + shift] != extent):
                return None
            how.extents[n + shift] = extent
            how.steps[number][n + shift] = (<tuple>x.steps)[n]
            backwards = backwards or how.steps[number][n + shift] < 0
            part *= extent
        total += part
    for n in range(how.axes):
        size *= how.extents[n]
        if size > FAR:
            return None
    if at_hand and (backwards or (total <= eager_size and size <= eager_size)):
        return None  # of reversed operands the long way decides
    if into is not None:
        shape = <tuple>into.extents
        if len(shape) != how.axes or e.dtype is not into.kind:
            return None
        target.axes = how.axes
        for n in range(how.axes):
            target.extents[n] = how.extents[n]
            if <long long>shape[n] != how.extents[n]:
                return None
            target.steps[0][n] = (<tuple>into.steps)[n] if how.extents[n] != 1 else 0
        arrange(&target, 1)
        how.order, how.straight = target.order, target.straight
        if part_of and overlapping(&target, 0, e.itemsize):
            return None
    else:
        arrange(&how, count)
        for operand in operands:  # a shape that an operand has keeps its tuple
            if type(operand) is ndarray and len(<tuple>(<Handle>operand).extents) == how.axes:
                own = <tuple>(<Handle>operand).extents
                alike = True
                for n in range(how.axes):
                    alike = alike and <long long>own[n] == how.extents[n]
                if alike:
                    shape = own
                    break
        else:
            shape = tuple([how.extents[n] for n in range(how.axes)])
    own = shape if how.straight else shape_from(&how)
    armed_now = look_at_errors()
    site = here()
    for number in range(count):
        operand = operands[number]
        kind = e.inputs[number]
        extent = 0
        if type(operand) is ndarray:
            x = <Handle>operand
            node = read_at(x, &how, number, own)
            extent = size_of(<tuple>x.extents)
        else:
            node = <Node>operand
        if node.dtype is not kind:
            if not native(node.dtype):
                return None
            node = <Node>cast(node, kind, armed_now, site, e.op if extent > BUFFERED else "")
            faulty = faulty or (node.fault != 0 and node.kind == MAP)
        sources.append(node)
    node = new_node(MAP, e.op, e.dtype, own, tuple(sources), armed_now if e.faults else 0, site)
    if part_of:
        sources.clear()  # nobody but the new node holds them
        return write_through(into, node, &how, own, site)
    return commit(
        node, None if into is not None else steps_from(&how, e.itemsize), shape, size * e.itemsize, faulty, into
    )


cdef object operand_of(object value, object dtype):
    """A handle as it is, a number as a constant of `dtype` or, if NumPy's, of its own type; None for anything else."""
    cdef object t = type(value)
    if t is ndarray:
        return value
    if t in lazies:
        return value._handle
    if side(value) >= 0:
        return constant(value, dtype)
    if isinstance(value, numpy.generic) and native(value.dtype):
        return constant(value, dtype) if value.dtype is dtype else literal(value, value.dtype)
    return None


cdef int type_number(object value):
    """Where the table of a ufunc has the type of an operand; -1 for what is none."""
    cdef object t = type(value), dtype
    cdef int n
    if t is ndarray:
        dtype = (<Handle>value)._dtype
    elif t in lazies:
        dtype = (<Handle>value._handle)._dtype
    else:
        n = side(value)
        if n >= 0 or not isinstance(value, numpy.generic):
            return n
        dtype = value.dtype
    n = num_of(<PyObject *>dtype)
    return n if 0 <= n < SIDE and native(dtype) else -1


cdef object kind_of(object value):
    """What NumPy's promotion asks of an operand."""
    if type(value) is ndarray:
        return (<Handle>value)._dtype
    return value.dtype if type(value) in lazies or isinstance(value, numpy.generic) else type(value)


cdef object mixed(Table t, object x, object y, Py_ssize_t count, Handle into):
    """Record an operation of one operand or two, whatever their layouts."""
    cdef int i = type_number(x), j = 0 if count == 1 else type_number(y), place
    cdef object e, left, right
    if i < 0 or j < 0 or i >= TYPES or j >= TYPES:
        return None
    place = i if count == 1 else i * TYPES + j
    e = t.found[place]
    if e is None:
        e = learn(t, place, (kind_of(x),) if count == 1 else (kind_of(x), kind_of(y)))
    if e is False:
        return None
    left = operand_of(x, (<Entry>e).first)
    if left is None:
        return None
    if count == 1:
        return spread(<Entry>e, [left], into)
    right = operand_of(y, (<Entry>e).second)
    return None if right is None else spread(<Entry>e, [left, right], into)
