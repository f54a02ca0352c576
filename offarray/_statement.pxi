# Statements: results of small work that wait for the operation that uses them.  Part of _direct.pyx.
#
# `a[1:-1] = 0.25 * (b[2:] + b[:-2] + c)` is four calls of NumPy's, each with its loop and its array.  Where the program
# was seen to use a result in its next operation, that result is a handle that waits: it has a shape and a type, and knows
# its operands.  The operation that uses it waits in turn, and a statement that writes the last one into an array, or
# anybody who looks at one, has the whole expression computed by one kernel.  That kernel is kept under a key of the
# expression's form, as recipes are (fusion/replay.py); what comes for the first time is planned as any graph is.
#
# What waits reads memory that nobody may write before it is computed.  Handles see to that: in C whoever writes asks for
# `end_all` first; Python can reach memory only by the handle's `_np`, `_at`, `_base` and `_offset`, which ask too.

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.long cimport PyLong_AsLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport Py_TYPE
from libc.string cimport memcpy

from offarray._handle cimport WAITING, enter_waiting, fresh, leave
from offarray.fusion.stage cimport Stage
from offarray.runtime.layout cimport descr_of

from .fusion import plan as plans
from .fusion import replay
from .fusion.lower import code as code_name
from .fusion.lower import scalar_words
from .runtime import buffer as buffers
from .runtime import placement, program

cdef enum:
    AXES = 4  # most axes, and most operations, of what waits
    OPERATIONS_ = 24
    ARRAYS = OPERATIONS_ + 1
    WORDS = 16 + OPERATIONS_ * 4 + ARRAYS * (AXES + 2)
    ROW = 128
    SPOTS = 1024
    LENGTH = 3  # operations in a row, the last one's store among them, for which waiting pays
    SURE = 3  # times that the program has to be seen doing the same
    CROWD = 32  # handles that wait at most
    CONTIGUOUS = 0x0001  # NumPy's flags of arrays
    ALIGNED = 0x0100
    WRITEABLE = 0x0400
    # words of a key
    OPERATION = 1
    ARRAY = 2
    SAME = 3
    NUMBER = 4
    AGAIN = 5
    INTO = 6

cdef PyObject *array_type = <PyObject *>numpy.ndarray
cdef object ready_array = numpy.empty(0)
cdef object empty = numpy.empty, FRESH = "fresh"
cdef dict shared_buffers = buffers.__dict__
cdef int blocked = 0  # settings under which nothing waits, by their bits


def _block(int bit, bint value):
    global blocked
    blocked = blocked | bit if value else blocked & ~bit


watch("check", lambda value: _block(1, value != 0))
watch("debug", lambda value: _block(2, value != 0))
watch("device", lambda value: _block(4, value not in ("auto", "cpu")))


# --- where in the program results are used

cdef struct Spot:
    PyObject *code  # only compared
    int offset
    int next  # the spot whose operation used the result last; STORED
    int seen  # how often in a row
    int wasted  # how often waiting was for nothing

cdef enum:
    STORED = -1

cdef Spot spots[SPOTS]


cdef int spot_now() noexcept:
    """Where the innermost frame stands, by its number in `spots`."""
    cdef PyObject *frame = frame_now()
    cdef object code
    cdef int offset, place
    cdef Spot *spot
    if frame == NULL:
        return 0
    code = code_of(frame)
    offset = lasti(frame)
    place = 1 + <int>(((<size_t><PyObject *>code >> 4) * 31 + <size_t>offset * 7) % (SPOTS - 1))
    spot = &spots[place]
    if spot.code != <PyObject *>code or spot.offset != offset:
        spot.code = <PyObject *>code
        spot.offset = offset
        spot.next = spot.seen = spot.wasted = 0
    return place


cdef inline void used(int place, int by) noexcept:
    """Note that the result made at one spot was used at another."""
    cdef Spot *spot = &spots[place]
    if spot.next == by:
        spot.seen += spot.seen < 1000
    else:
        spot.next = by
        spot.seen = 1


cdef void stored(Handle x) noexcept:
    used(x.spot, STORED)


cdef bint promising(int place) noexcept:
    """Whether what is made here is likely to go through several operations."""
    cdef int length = 1, at = place
    if spots[place].wasted >= SURE:
        return False
    while at > 0 and spots[at].seen >= SURE:
        length += 1
        if length >= LENGTH:
            return True
        at = spots[at].next
    return False


# --- what waits

@cython.no_gc
@cython.freelist(64)
cdef class Number:
    """A number of the program as an operand."""

    cdef object value, dtype
    cdef long long word


@cython.no_gc
@cython.freelist(64)
cdef class Wait:
    """An operation that waits."""

    cdef Entry entry
    cdef object left, right, site  # operands: a Handle, a Number; None
    cdef long long serial
    cdef int fault, weight, uses, axes  # operations of the expression; how many others that wait have it as operand
    cdef Py_ssize_t size
    cdef Py_ssize_t extents[AXES]

    def __dealloc__(self):
        drop(self.left)
        drop(self.right)


cdef inline void drop(object operand) noexcept:
    cdef object wait
    if type(operand) is ndarray:
        wait = (<Handle>operand).wait
        if wait is not None:
            (<Wait>wait).uses -= 1


cdef list numbers_kept = [None] * KEPT


cdef Number number(object value, object dtype):
    """A number as an operand of a loop of `dtype`; None where it does not fit."""
    cdef size_t place
    cdef Number made
    cdef object kept
    cdef double real
    cdef long long whole
    if dtype is as_float64 and (PyFloat_CheckExact(value) or type(value) is float64):
        made = Number.__new__(Number)
        real = PyFloat_AS_DOUBLE(value)
        memcpy(&made.word, &real, 8)
        made.value = value
        made.dtype = dtype
        return made
    place = spot(value, dtype)
    kept = numbers_kept[place]
    if kept is not None and (<tuple>kept)[0] is value and (<Number>(<tuple>kept)[1]).dtype is dtype:
        return <Number>(<tuple>kept)[1]
    if side(value) < 0 or dtype.kind not in "fiub":
        return None
    fitting = scalar(value, dtype)
    if fitting is None:
        return None
    made = Number.__new__(Number)
    made.value, made.dtype = fitting, dtype
    made.word = <long long><unsigned long long>program.pack(scalar_words(code_name(dtype), fitting))[0]
    numbers_kept[place] = (value, made)
    return made


cdef Py_ssize_t filters_seen = -1
cdef object first_filter = None
cdef bint raises = False


cdef bint raising():
    """Whether a filter makes errors of warnings: then they are raised at the statement, as for all small work."""
    global filters_seen, first_filter, raises
    cdef list filters = <list>usual_filters
    cdef Py_ssize_t n = len(filters)
    if n != filters_seen or (n and filters[0] is not first_filter):
        filters_seen, first_filter = n, filters[0] if n else None
        raises = any([each[0] == "error" for each in filters])
    return raises


cdef bint plain(Handle x):
    """Whether an array in memory may be an operand of what waits."""
    cdef PyObject *a = <PyObject *>x.array
    cdef Py_ssize_t *extents
    cdef Py_ssize_t *steps
    cdef Py_ssize_t former
    cdef int n, axes = axes_of(a)
    cdef Buffer buffer
    if axes < 1 or axes > AXES or not flags_of(a) & ALIGNED or <PyObject *>Py_TYPE(x.array) != array_type:
        return False
    if x.mark != HOSTED:
        if x.mark <= 0 or x.mark != x.held.node.serial:
            return False
        buffer = <Buffer>x.held.node.buffer
        if buffer.device is not None or seen(buffer):
            return False
    extents = dims_of(a)
    steps = steps_of(a)
    former = steps[0]
    for n in range(axes):
        if extents[n] < 2 or steps[n] <= 0 or steps[n] > former:
            return False
        former = steps[n]
    return True


cdef inline int type_of(Handle x):
    if x.mark == WAITING:
        return num_of(<PyObject *>x.kind)
    return num_of(descr_of(<PyObject *>x.array))


cdef inline bint fits(Handle x, Wait made):
    """Whether an operand has the shape of the expression, which the first one gives."""
    cdef Py_ssize_t *extents
    cdef int n, axes
    cdef Wait wait
    if x.mark == WAITING:
        wait = <Wait>x.wait
        axes = wait.axes
        extents = wait.extents
    else:
        axes = axes_of(<PyObject *>x.array)
        extents = dims_of(<PyObject *>x.array)
    if made.axes == 0:
        made.axes = axes
        made.size = 1
        for n in range(axes):
            made.extents[n] = extents[n]
            made.size *= extents[n]
        return True
    if axes != made.axes:
        return False
    for n in range(axes):
        if extents[n] != made.extents[n]:
            return False
    return True


cdef object typed(Handle x):
    return x.kind if x.mark == WAITING else <object>descr_of(<PyObject *>x.array)


cdef object wait_for(Table t, object x, object y, Py_ssize_t count):
    """Let `t.real(x, y)`, or of `x` alone, wait; None where it does not, with `last_spot` set."""
    cdef int i, j = 0, place, weight = 1, fault
    cdef bint waits = False, first = type(x) is ndarray, second = count == 2 and type(y) is ndarray
    cdef Handle a = None, b = None, made
    cdef Wait wait, other
    cdef Entry e
    cdef object found, left, right = None
    handles.last_spot = place = spot_now()
    if first:
        a = <Handle>x
        if a.spot:
            used(a.spot, place)
        waits = a.mark == WAITING
    if second:
        b = <Handle>y
        if b.spot:
            used(b.spot, place)
        waits = waits or b.mark == WAITING
    if not (waits or handles.wait_size == 0 or promising(place)) or blocked:
        return None
    if PyDict_GetItem(shared_buffers, FRESH) != <PyObject *>None or PyDict_GetItem(told, EVENTS) != <PyObject *>None:
        return None  # a device is in use, or somebody listens
    wait = Wait.__new__(Wait)
    if first:
        if a.mark == WAITING:
            weight += (<Wait>a.wait).weight
        elif not plain(a):
            return None
        fits(a, wait)
        i = type_of(a)
    else:
        i = side(x)
        if i < 0 and type(x) is float64:
            i = SIDE + 2
    if second:
        if b.mark == WAITING:
            weight += (<Wait>b.wait).weight
        elif not plain(b):
            return None
        if not fits(b, wait):
            return None
        j = type_of(b)
    elif count == 2:
        j = side(y)
        if j < 0 and type(y) is float64:
            if i != as_float64.num:
                return None
            j = SIDE + 2
    if not first and type(x) is float64 and j != as_float64.num:
        return None
    if i < 0 or j < 0 or i >= TYPES or j >= TYPES or (first and i >= SIDE) or (second and j >= SIDE):
        return None
    if wait.axes == 0 or weight > OPERATIONS_ or 2 * wait.size > eager_size:
        return None
    if count == 2:
        found = t.found[i * TYPES + j]
        if found is None:
            found = learn(t, i * TYPES + j, (typed(a) if first else type(x), typed(b) if second else type(y)))
    else:
        found = t.found[i]
        if found is None:
            found = learn(t, i, (typed(a),))
    if found is False:
        return None
    e = <Entry>found
    if first:
        if typed(a) is not e.first:
            return None
        left = a
    else:
        left = number(x, e.first)
    if second:
        if typed(b) is not e.second:
            return None
        right = b
    elif count == 2:
        right = number(y, e.second)
    if left is None or (count == 2 and right is None):
        return None
    fault = look_at_errors() if e.faults else 0
    if fault and (at_statement() or (faults_mode == 0 and raising())):
        return None
    if handles.waiting_count >= CROWD:
        end_all()
        if waits:
            return None
    wait.entry = e
    wait.left, wait.right = left, right
    if first and a.mark == WAITING:
        (<Wait>a.wait).uses += 1
    if second and b.mark == WAITING:
        (<Wait>b.wait).uses += 1
    wait.site = here()
    wait.serial = next(serials)
    wait.fault = fault
    wait.weight = weight
    made = <Handle>make(None, 0, None, extents_of(a if first else b), e.dtype)
    made.wait = wait
    made.spot = place
    made.mark = WAITING
    enter_waiting(made)
    counters[OPERATIONS] = <object>PyDict_GetItem(counters, OPERATIONS) + 1
    return made


cdef object extents_of(Handle x):
    if x.extents is None:
        x.extents = x.array.shape
    return x.extents


cdef object wait_two(int n, object x, object y):
    cdef object t = operators[n]
    handles.last_spot = 0
    return None if t is None else wait_for(<Table>t, x, y, 2)


cdef object wait_one(int n, object x):
    return wait_for(<Table>operators[n], x, None, 1)


cdef object wait_table(object table, object x, object y, Py_ssize_t count):
    return wait_for(<Table>table, x, y, count)


# --- the form of an expression

cdef struct Form:
    long long words[WORDS]
    PyObject *arrays[ARRAYS]
    PyObject *numbers[ARRAYS]
    PyObject *operations[OPERATIONS_]
    int count, array_count, number_count, operation_count


cdef void describe(Handle x, Form *form) noexcept:
    """Write down the expression below a handle: its words, and what fills them in."""
    cdef Wait wait = <Wait>x.wait
    cdef PyObject *me = <PyObject *>x
    cdef int n
    for n in range(form.operation_count):
        if form.operations[n] == me:
            form.words[form.count] = AGAIN
            form.words[form.count + 1] = n
            form.count += 2
            return
    form.operations[form.operation_count] = me
    form.operation_count += 1
    form.words[form.count] = OPERATION | wait.fault << 8
    form.words[form.count + 1] = <long long><PyObject *>wait.entry
    form.count += 2
    operand(wait.left, form)
    if wait.right is not None:
        operand(wait.right, form)


cdef void operand(object x, Form *form) noexcept:
    cdef PyObject *a
    cdef Py_ssize_t *steps
    cdef int n
    if type(x) is not ndarray:
        form.words[form.count] = NUMBER
        form.count += 1
        form.numbers[form.number_count] = <PyObject *>x
        form.number_count += 1
        return
    if (<Handle>x).mark == WAITING:
        describe(<Handle>x, form)
        return
    a = <PyObject *>(<Handle>x).array
    for n in range(form.array_count):
        if form.arrays[n] == a:
            form.words[form.count] = SAME
            form.words[form.count + 1] = n
            form.count += 2
            return
    form.arrays[form.array_count] = a
    form.array_count += 1
    form.words[form.count] = ARRAY
    form.count += 1
    steps = steps_of(a)
    for n in range(axes_of(a)):
        form.words[form.count] = steps[n]
        form.count += 1


cdef object key_of(Handle x, Form *form, PyObject *target):
    """The key of the expression below a handle, written into a target of its own strides if there is one."""
    cdef Wait wait = <Wait>x.wait
    cdef int n
    form.count = form.array_count = form.number_count = form.operation_count = 0
    describe(x, form)
    form.words[form.count] = wait.axes
    form.count += 1
    for n in range(wait.axes):
        form.words[form.count] = wait.extents[n]
        form.count += 1
    if target != NULL:
        form.words[form.count] = INTO
        form.count += 1
        for n in range(wait.axes):
            form.words[form.count] = steps_of(target)[n]
            form.count += 1
    return PyBytes_FromStringAndSize(<char *>form.words, 8 * form.count)


# --- kernels

cdef class Ready:
    """The kernel of a form, and what fills in its row."""

    cdef Stage stage
    cdef int leaves[ARRAYS + 1]  # leaf of the stage -> array of the form; -1: what is written
    cdef int constants[ARRAYS]  # scalar of the stage -> number of the form
    cdef tuple faults  # value that faults -> operation of the form


cdef dict known = {}  # key -> Ready; False where no single kernel does it
cdef enum:
    KNOWN = 4096

cdef object MISSING = object(), EVALUATIONS = "evaluations", KERNELS = "kernels", BYTES = "kernel_bytes"


cdef object launched(Ready ready, Form *form, long long out):
    """Run a kernel; gives its fault bytes, or None where there are none."""
    cdef Stage stage = ready.stage
    cdef long long row[ROW]
    cdef int *plan = stage.plan
    cdef int *where
    cdef int n, answer
    memcpy(row, stage.template, 8 * stage.words)
    for n in range(stage.pointers):
        where = plan + 2 * plan[2 * stage.slots + n]
        if where[0] == 0 or ready.leaves[where[1]] < 0:
            row[n] = out + stage.offsets[n]
        else:
            row[n] = data_of(form.arrays[ready.leaves[where[1]]]) + stage.offsets[n]
    where = plan + 2 * stage.slots + stage.pointers
    for n in range(stage.constants):
        row[where[0]] = (<Number>form.numbers[ready.constants[n]]).word
        where += 2
    row[stage.fault] = <long long>row + 8 * (stage.fault + 2)
    if stage.units:
        answer = stage.code(row, 0, stage.units)
        if answer and stage.report is not None:
            stage.report(<long long>row, 0, stage.units)
    if stage.finish is not None:
        stage.finish(<long long>row)
    counters[EVALUATIONS] = <object>PyDict_GetItem(counters, EVALUATIONS) + 1
    counters[KERNELS] = <object>PyDict_GetItem(counters, KERNELS) + 1
    counters[BYTES] = <object>PyDict_GetItem(counters, BYTES) + stage.nbytes
    for n in range(stage.fault + 2, stage.words):
        if row[n]:
            return (<char *>(row + stage.fault + 2))[: stage.reports]
    return None


cdef object met(Ready ready, Form *form, bytes found):
    """The operations that met faults, as `_errstate.report` wants them."""
    cdef Wait wait
    told_of = []
    for n, bits in enumerate(found):
        if bits:
            wait = <Wait>(<Handle>form.operations[ready.faults[n]]).wait
            node = nodes.Node(MAP, wait.entry.op, wait.entry.dtype, (), (), None, wait.fault, wait.site)
            node.serial = wait.serial
            told_of.append((node, bits))
    return told_of


cdef object leaf_of(object a):
    """An array of NumPy's as a leaf, and how it is seen."""
    buffer = buffers.adopt(a, True)
    dtype = a.dtype
    if a.flags.c_contiguous:
        return nodes.leaf(buffer, dtype, a.shape), None
    leaf = nodes.leaf(buffer, dtype, (buffer.nbytes // dtype.itemsize,))
    return leaf, View(data_of(<PyObject *>a) - buffer.address, a.shape, a.strides)


cdef object graph_of(Handle x, dict made, dict leaves, dict ids):
    """The expression below a handle as nodes; `ids` says which is which."""
    cdef Wait wait = <Wait>x.wait
    cdef Number n
    if id(x) in made:
        return made[id(x)]
    sources = []
    for operand in (wait.left, wait.right):
        if operand is None:
            continue
        if type(operand) is not ndarray:
            n = <Number>operand
            value = n.dtype.type(n.value)
            node = nodes.Node(CONST, "", n.dtype, (), (), value)
            ids[id(node)] = ("number", len([1 for kind, _ in ids.values() if kind == "number"]))
        elif (<Handle>operand).mark == WAITING:
            node = graph_of(<Handle>operand, made, leaves, ids)
        else:
            a = (<Handle>operand).array
            if id(a) not in leaves:
                leaf, seen = leaf_of(a)
                ids[id(leaf)] = ("array", len(leaves))
                leaves[id(a)] = leaf if seen is None else nodes.Node(READ, "", a.dtype, a.shape, (leaf,), seen)
            node = leaves[id(a)]
        sources.append(node)
    node = nodes.Node(
        MAP, wait.entry.op, wait.entry.dtype, x.extents, tuple(sources), None, wait.fault, wait.site
    )
    node.serial = wait.serial
    ids[id(node)] = ("operation", len(made))
    made[id(x)] = node
    return node


cdef object planned(Handle x, Form *form, object key, object target):
    """Compute an expression that comes for the first time: as any graph; gives its array and what faulted."""
    cdef Wait wait = <Wait>x.wait
    cdef int n
    made, leaves, ids, faults = {}, {}, {}, []
    positions = {<size_t>form.operations[n]: n for n in range(form.operation_count)}
    order_of_ids = {}
    with _evaluate.lock:
        root = graph_of(x, made, leaves, ids)
        for handle, node in made.items():
            order_of_ids[id(node)] = positions[handle]
        node = None
        if target is not None:
            leaf, seen_as = leaf_of(target)
            if seen_as is None:
                seen_as = View(0, target.shape, target.strides)
            ids[id(leaf)] = ("target", 0)
            root = nodes.Node(nodes.UPDATE, "in place", target.dtype, target.shape, (leaf, root), seen_as, 0, wait.site)
            leaf = None
        made = leaves = None  # they would count as somebody who refers to the nodes
        wanted = [root]
        graph = replay.scan(wanted)
        recorder = replay.Recorder(graph)
        leaf_ids = [ids.get(id(leaf)) for leaf in graph.leaves]
        ids_in_order = [ids.get(id(node)) for node in graph.order]
        operations_in_order = [order_of_ids.get(id(node)) for node in graph.order]
        graph = leaf = node = None
        counters["evaluations"] += 1
        placement.aim = "cpu"
        order = plans.pending_order(wanted)
        root = None
        _evaluate._plan(wanted, order, faults, [], recorder, _evaluate.target("cpu"))
        order = None
        if key is not None:
            if len(known) >= KNOWN:
                known.clear()
            known[key] = learned(recorder, leaf_ids, ids_in_order, operations_in_order)
        if target is not None:
            return None, faults
        buffer = wanted[0].buffer
        return numpy.array(buffer.view(wanted[0].dtype, wanted[0].shape)), faults


cdef object learned(object recorder, list leaf_ids, list ids_in_order, list operations_in_order):
    """The one kernel that an evaluation took, or False."""
    cdef Ready ready = Ready()
    cdef Stage stage
    cdef int n
    if recorder.stages is None or len(recorder.stages) != 1 or recorder.lingering or recorder.cuts:
        return False
    stage = <Stage>recorder.stages[0]
    output = stage.outputs[0]
    if len(stage.outputs) != 1 or stage.asides or stage.before or stage.after or stage.words > ROW:
        return False
    if stage.code == NULL or not stage.quick or stage.scratch or (output.donor is not None and not output.update):
        return False
    for table, _ in stage.sources:
        if table == replay.ORDER:
            return False
    for n, found in enumerate(leaf_ids):
        if found is None:
            return False
        ready.leaves[n] = -1 if found[0] == "target" else found[1]
    for n, (_, dtype, position) in enumerate(stage.scalars):
        found = ids_in_order[position]
        if found is None or found[0] != "number" or n >= ARRAYS:
            return False
        ready.constants[n] = found[1]
    ready.stage = stage
    ready.faults = tuple([operations_in_order[position] for position in stage.faults])
    if None in ready.faults:
        return False
    return ready


cdef int unfit(Handle x) except -1:
    """Let nothing wait again where the program makes an expression that no single kernel computes."""
    cdef Wait wait = <Wait>x.wait
    cdef object below
    spots[x.spot].wasted += SURE
    for below in (wait.left, wait.right):
        if type(below) is ndarray and (<Handle>below).mark == WAITING:
            unfit(<Handle>below)
    return 0


# --- the end of waiting

cdef void become(Handle x, object a) noexcept:
    """Let a handle that waited be one on an array."""
    if x.at != NULL:
        handles.waiting_count -= 1
    leave(x)
    x.array = a
    x.mark = HOSTED
    x.open = -1
    x.steps = None
    x.wait = None


cdef int settle(Handle x) except -1:
    """Compute those below a handle that others know too: nothing is computed twice."""
    cdef Wait wait = <Wait>x.wait
    cdef object below
    cdef Handle y
    for below in (wait.left, wait.right):
        if type(below) is ndarray and (<Handle>below).mark == WAITING:
            y = <Handle>below
            # `below`, `y` and the loop's tuple
            if refs(<PyObject *>y) - 3 > (<Wait>y.wait).uses or (<Wait>y.wait).uses > 1 and not twin(wait):
                end(y)
            else:
                settle(y)
    return 0


cdef inline bint twin(Wait wait):
    """Whether both operands are one."""
    return wait.left is wait.right


cdef int end(Handle x) except -1:
    """Compute what waits."""
    cdef Form form
    cdef object key, found, result, faults = None
    cdef Wait wait
    if x.mark != WAITING:
        return 0
    wait = <Wait>x.wait
    if wait.weight == 1 and x.spot:
        spots[x.spot].wasted += 1
    settle(x)
    key = key_of(x, &form, NULL)
    found = known.get(key, MISSING)
    try:
        if type(found) is Ready:
            result = empty(x.extents, x.kind)
            found_faults = launched(<Ready>found, &form, data_of(<PyObject *>result))
            if found_faults is not None:
                faults = met(<Ready>found, &form, found_faults)
        else:
            result, faults = planned(x, &form, key if found is MISSING else None, None)
            if found is False:
                unfit(x)
    except Exception as error:
        fail(x, error)
        raise
    if x.mark == WAITING:
        become(x, result)
    if faults:
        _errstate.report(faults)
    return 0


cdef int fail(Handle x, object error) except -1:
    """Let a handle be that of a value that could not be computed."""
    cdef Wait wait = <Wait>x.wait
    node = nodes.Node(MAP, wait.entry.op, wait.entry.dtype, x.extents, (), None, 0, wait.site)
    node.state, node.error = nodes.FAILED, error
    become(x, None)
    x.held = <Base>nodes.Base(node)
    x.steps = contiguous(x.extents, wait.entry.itemsize)
    x.start = x.mark = 0
    x.open = True
    return 0


cdef int end_all() except -1:
    """Compute everything that waits, in its order, but for what is only a part of others."""
    cdef PyObject *each
    cdef PyObject *oldest
    cdef PyObject *inner
    cdef Handle x
    while handles.waiting != NULL:
        oldest = inner = NULL
        each = handles.waiting
        while each != NULL:
            if refs(each) > 0:
                inner = each
                if refs(each) > (<Wait>(<Handle>each).wait).uses:
                    oldest = each
            each = (<Handle>each).after
        if oldest == NULL:
            oldest = inner
        if oldest == NULL:
            return 0  # what is left is being freed
        x = <Handle>oldest
        end(x)
        x = None
    return 0


# --- statements that write

cdef char *aside = NULL
cdef Py_ssize_t aside_size = 0


cdef int spill(char *to, char *source, int axes, Py_ssize_t *extents, Py_ssize_t *steps, Py_ssize_t width) noexcept:
    """Copy dense values into a window."""
    cdef Py_ssize_t n, m, size = width
    if axes == 1:
        if steps[0] == width:
            memcpy(to, source, width * extents[0])
            return 0
        for n in range(extents[0]):
            for m in range(width):
                to[n * steps[0] + m] = source[n * width + m]
        return 0
    for n in range(1, axes):
        size *= extents[n]
    for n in range(extents[0]):
        spill(to + n * steps[0], source + n * size, axes - 1, extents + 1, steps + 1, width)
    return 0


cdef inline void reach(PyObject *a, Py_ssize_t width, long long *low, long long *high) noexcept:
    cdef int n
    low[0] = data_of(a)
    high[0] = low[0] + width
    for n in range(axes_of(a)):
        high[0] += (dims_of(a)[n] - 1) * steps_of(a)[n]


cdef bint store(Handle x, object key, Handle value, bint alone) except -1:
    """`x[key] = value` of a value that waits, by one kernel; false where it is to be done otherwise."""
    if value.spot:
        used(value.spot, STORED)
    if not alone or not handles.owned(x) or not flags_of(<PyObject *>x.array) & WRITEABLE:
        return False
    t = PyObject_GetItem(x.array, key)
    return write(t, value)


cdef bint write(object t, Handle value) except -1:
    """Write a value that waits, and that nobody else will look at, into an array; false where that cannot be."""
    global aside, aside_size
    cdef Form form
    cdef Wait wait = <Wait>value.wait
    cdef PyObject *a = <PyObject *>t
    cdef Py_ssize_t width, needed
    cdef Py_ssize_t former
    cdef long long low, high, first, last
    cdef bint apart = True
    cdef int n
    cdef object found, key, faults = None
    cdef void *room
    if <PyObject *>Py_TYPE(t) != array_type or axes_of(a) != wait.axes or descr_of(a) != <PyObject *>value.kind:
        return False
    if flags_of(a) & (ALIGNED | WRITEABLE) != (ALIGNED | WRITEABLE):
        return False
    former = steps_of(a)[0]
    for n in range(wait.axes):
        if dims_of(a)[n] != wait.extents[n] or steps_of(a)[n] <= 0 or steps_of(a)[n] > former:
            return False
        former = steps_of(a)[n]
    width = wait.entry.itemsize
    if former < width:
        return False
    settle(value)
    handles.waiting_count -= 1
    leave(value)  # the others are computed first: they read what is written now
    try:
        others(value)
    finally:
        enter_waiting(value)
    key_of(value, &form, NULL)
    reach(a, width, &low, &high)
    for n in range(form.array_count):
        reach(form.arrays[n], (<object>descr_of(form.arrays[n])).itemsize, &first, &last)
        if first < high and low < last:
            apart = False
    key = key_of(value, &form, a if apart else NULL)
    found = known.get(key, MISSING)
    if apart:
        if type(found) is Ready:
            bits = launched(<Ready>found, &form, data_of(a))
            if bits is not None:
                faults = met(<Ready>found, &form, bits)
        else:
            faults = planned(value, &form, key if found is MISSING else None, t)[1]
    elif type(found) is Ready:
        needed = wait.size * width
        if needed > aside_size:
            room = PyMem_Realloc(aside, needed)
            if room == NULL:
                raise MemoryError()
            aside = <char *>room
            aside_size = needed
        bits = launched(<Ready>found, &form, <long long>aside)
        spill(<char *>data_of(a), aside, wait.axes, wait.extents, steps_of(a), width)
        if bits is not None:
            faults = met(<Ready>found, &form, bits)
    else:
        result, faults = planned(value, &form, key if found is MISSING else None, None)
        t[...] = result
    if found is False:
        unfit(value)
    if value.mark == WAITING:
        become(value, ready_array)
        value.extents = value.kind = None
    if faults:
        _errstate.report(faults)
    return True


cdef int others(Handle value) except -1:
    """Compute what waits beside an expression that is being written."""
    cdef PyObject *each
    cdef PyObject *oldest
    cdef Handle x
    while True:
        oldest = NULL
        each = handles.waiting
        while each != NULL:
            if refs(each) > (<Wait>(<Handle>each).wait).uses and each != <PyObject *>value:
                oldest = each
            each = (<Handle>each).after
        if oldest == NULL:
            return 0
        x = <Handle>oldest
        end(x)
        x = None


cdef bint store_into(int n, Handle x, object y) except -1:
    """`x op= y` of a value that waits."""
    cdef object t = operators[n], made
    cdef Handle value
    if t is None or not handles.owned(x) or not plain(x):
        return False
    made = wait_for(<Table>t, x, y, 2)
    if made is None:
        return False
    value = <Handle>made
    if write(x.array, value):
        return True
    become(value, None)  # nobody has seen it
    return False


cdef void connect_waiting():
    handles.wait_two = wait_two
    handles.wait_one = wait_one
    handles.wait_table = wait_table
    handles.end = end
    handles.end_all = end_all
    handles.store = store
    handles.store_into = store_into
    handles.sink = stored
