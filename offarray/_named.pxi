# Functions and methods that are recorded in C: folds, choices and conversions.  Part of _direct.pyx.
#
# The usual forms of the calls in `_reductions.py` and `_creation.py`, with the same nodes; any other call goes there.

cdef enum:
    FOLDED = 1
    LOGICAL = 2
    PLACED = 3
    MEAN = 4
    CHOSEN = 5
    LIMITED = 6
    CONVERTED = 7

cdef int FOLD = nodes.FOLD, SUMS = OVER | INVALID
cdef object BOOL = numpy.dtype(bool), WHOLE = numpy.dtype(numpy.int_), NATURAL = numpy.dtype(numpy.uintp)
cdef object INDEX = numpy.dtype("i8"), as_float64 = numpy.dtype("f8"), clip = numpy._core.umath.clip
cdef dict ways = {}  # by the name of the function or method
cdef dict choices = {}, limits = {}, wanted_types = {}
cdef bint as_numbers = False  # whether results without axes are NumPy's scalars


def _set_scalars(value):
    global as_numbers
    as_numbers = value == "numpy"


watch("scalars", _set_scalars)


cdef class Way:
    """How a function is recorded."""

    cdef int what
    cdef object monoid
    cdef list loops  # by the number of the elements' type: what they are converted to, and that of the result

    def __init__(self, what, monoid=None):
        self.what, self.monoid = what, monoid
        self.loops = [None] * SIDE


def _install_ways():
    folds = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "amin": "minimum", "amax": "maximum"}
    found = {name: Way(FOLDED, monoid) for name, monoid in folds.items()}
    found.update(any=Way(LOGICAL, "logical_or"), all=Way(LOGICAL, "logical_and"), mean=Way(MEAN, "add"))
    found.update(argmin=Way(PLACED, "argmin"), argmax=Way(PLACED, "argmax"), clip=Way(LIMITED))
    for name, way in found.items():
        ways[name] = ways["ndarray." + name] = way
    ways["where"] = Way(CHOSEN)
    ways["ndarray.astype"] = Way(CONVERTED)


_install_ways()


cdef object by_name(object name, PyObject **args, Py_ssize_t count, PyObject *names):
    """Record a call of a public function or method; None for what is not recorded here."""
    cdef PyObject *found = PyDict_GetItem(ways, name)
    cdef Way way
    cdef object word, axis = None
    cdef bint keepdims = False
    cdef Py_ssize_t n
    cdef Handle x
    if found == NULL:
        return None
    if type(<object>args[0]) is ndarray:
        x = <Handle>args[0]
        if x.mark == HOSTED and elements_of(<PyObject *>x.array) <= eager_size:
            return None
    way = <Way><object>found
    if way.what >= CHOSEN:
        if names != NULL:
            return None
        if way.what == CHOSEN:
            return chosen(<object>args[0], <object>args[1], <object>args[2]) if count == 3 else None
        if type(<object>args[0]) is not ndarray:
            return None
        if way.what == LIMITED:
            return limited(<Handle>args[0], <object>args[1], <object>args[2]) if count == 3 else None
        return converted(<Handle>args[0], <object>args[1]) if count == 2 else None
    if count > 2 or type(<object>args[0]) is not ndarray:
        return None
    if count == 2:
        axis = <object>args[1]
    if names != NULL:
        for n in range(len(<tuple>names)):
            word = (<tuple>names)[n]
            if word == "axis" and count == 1:
                axis = <object>args[count + n]
            elif word == "keepdims" and PyBool_Check(<object>args[count + n]):
                keepdims = <object>args[count + n] is True
            else:
                return None
    return folded(way, <Handle>args[0], axis, keepdims)


# --- folds

cdef object loops_of(Way way, object dtype):
    """What a fold of elements of a type converts them to, and the type of its result; False for what is not done here."""
    cdef object kind = dtype.kind
    if kind not in "biuf" or dtype.char == "e" or not native(dtype):
        return False
    if way.what == LOGICAL:
        return BOOL, BOOL
    if way.what == PLACED:
        return dtype, INDEX
    if way.what == MEAN:
        return (dtype, dtype) if kind == "f" else (as_float64, as_float64)
    if way.monoid in ("add", "multiply") and kind != "f" and dtype.itemsize < 8:
        dtype = NATURAL if kind == "u" else WHOLE
    return dtype, dtype


cdef int axes_in(object axis, int rank):
    """The axes of a fold as bits; 0 where the long way is asked."""
    cdef int found = 0, bit
    cdef long long n
    if axis is None:
        return (1 << rank) - 1
    if not PyTuple_CheckExact(axis):
        axis = (axis,)
    for each in <tuple>axis:
        if not PyLong_CheckExact(each) or not -rank <= each < rank:
            return 0
        n = each
        bit = 1 << (n % rank if n >= 0 else n + rank)
        if found & bit:
            return 0
        found |= bit
    return found


cdef object folded(Way way, Handle x, object axis, bint keepdims):
    cdef Layout how
    cdef Node source, node
    cdef int rank, n, at, reduced, num, fault = 0, armed_now
    cdef long long size = 1, count = 1, step
    cdef long long steps[MOST_AXES]
    cdef object pair, loop, dtype, site, made, strides
    cdef tuple shape, kept
    cdef list inner = [], left = []
    cdef bint straight = True
    if not usable(x):
        return None
    shape = <tuple>x.extents
    rank = <int>len(shape)
    num = num_of(<PyObject *>x.kind)
    if rank == 0 or rank > MOST_AXES or num < 0 or num >= SIDE or (way.what == PLACED and PyTuple_CheckExact(axis)):
        return None
    pair = way.loops[num]
    if pair is None:
        pair = way.loops[num] = loops_of(way, x.kind)
    if pair is False or not native(x.kind):
        return None
    loop, dtype = <tuple>pair
    reduced = axes_in(axis, rank)
    how.axes = rank
    for n in range(rank):
        how.extents[n] = shape[n]
        how.steps[0][n] = (<tuple>x.steps)[n] if how.extents[n] != 1 else 0
        size *= how.extents[n]
        if size > FAR:
            return None
        if reduced >> n & 1:
            count *= how.extents[n]
    if not reduced or size == 0 or (x.held.node.state == READY and size <= eager_size):
        return None
    if way.what == PLACED:
        for n in range(rank):
            how.order[n] = n
        how.straight = True
    else:
        arrange(&how, 1)
    site = here()
    armed_now = look_at_errors()
    source = read_at(x, &how, 0, shape if how.straight else shape_from(&how))
    if source.dtype is not loop:
        source = <Node>cast(source, loop, armed_now, site)
        if source.kind == MAP:
            source.alias = "reduce"
    # the node lies in memory without the axes that are gone, the handle by axis
    step = dtype.itemsize
    for n in range(rank - 1, -1, -1):
        at = how.order[n]
        steps[at] = step
        if reduced >> at & 1:
            inner.append(n)
        else:
            left.append(how.extents[at])
            step *= how.extents[at]
    inner.reverse()
    left.reverse()
    kept = tuple(left)
    if way.monoid in ("add", "multiply") and dtype.kind == "f":
        fault = armed_now & SUMS
    node = new_node(FOLD, way.monoid, dtype, kept, (source,), fault, site)
    node.arg = (way.monoid, tuple(inner), "last")
    node.alias = "reduce"
    if keepdims:
        shape = tuple([1 if reduced >> n & 1 else how.extents[n] for n in range(rank)])
        strides = tuple([steps[n] for n in range(rank)])
    else:
        strides = tuple([steps[n] for n in range(rank) if not reduced >> n & 1])
        shape = kept  # the very tuple where the axes lie in their own order: then the array is all of its node
        if not ascending(&how, reduced):
            shape = tuple([how.extents[n] for n in range(rank) if not reduced >> n & 1])
    made = commit(node, strides, shape, size * loop.itemsize, source.kind == MAP and source.fault != 0, None)
    if way.what == MEAN:
        made = shared(<Handle>made, count, armed_now, site)
    return made if <tuple>(<Handle>made).extents else number_of(<Handle>made)


cdef bint ascending(Layout *how, int reduced) noexcept:
    """Whether the axes that stay lie in memory in their own order."""
    cdef int n, former = -1
    for n in range(how.axes):
        if not reduced >> how.order[n] & 1:
            if how.order[n] < former:
                return False
            former = how.order[n]
    return True


cdef object shared(Handle total, long long count, int fault, object site):
    """A sum divided by how many it is of."""
    cdef Node node = total.held.node, made
    made = new_node(MAP, "divide", node.dtype, node.shape, (node, literal(count, node.dtype)), fault, site)
    if not total.extents:
        made.alias = "scalar divide"  # as NumPy says
    return commit(made, total.steps, total.extents, size_of(node.shape) * <long long>node.dtype.itemsize, False, None)


cdef object number_of(Handle x):
    """A result without axes as the user sees it."""
    return host(x)[()] if as_numbers or x.held.node.state == READY else lazy(x)


# --- choices

cdef object chosen(object condition, object x, object y):
    """`where(condition, x, y)`."""
    cdef object e, key, left, right
    if type(condition) is not ndarray or (<Handle>condition)._dtype is not BOOL:
        return None
    if x is None or y is None or type_number(x) < 0 or type_number(y) < 0:
        return None
    key = (kind_of(x), kind_of(y))
    e = choices.get(key)
    if e is None:
        e = choices[key] = choice_of((<tuple>key)[0], (<tuple>key)[1])
    if e is False:
        return None
    left = alternative(x, (<Entry>e).dtype)
    right = alternative(y, (<Entry>e).dtype)
    if left is None or right is None:
        return None
    return spread(<Entry>e, [condition, left, right], None)


cdef object choice_of(object x, object y):
    """The operation that chooses between operands of these kinds; False for two numbers, whose type their values tell."""
    if isinstance(x, type) and isinstance(y, type):
        return False
    dtype = numpy.result_type(*[BOOL if k is bool else k(0) if isinstance(k, type) else k for k in (x, y)])
    return entry("select", (BOOL, dtype, dtype), dtype) if native(dtype) else False


cdef object alternative(object value, object dtype):
    if type(value) is ndarray:
        return value
    if type(value) in lazies:
        return value._handle
    return constant(value, dtype) if side(value) >= 0 else literal(value, dtype)


cdef object limited(Handle x, object low, object high):
    """`clip(x, low, high)` of floating-point numbers between two numbers; see `_creation._limited`."""
    cdef object dtype = x._dtype, key, found, beyond, made = x
    cdef int n
    if dtype.kind != "f" or type_number(low) < 0 or type_number(high) < 0:
        return None
    if type(low) is ndarray or type(high) is ndarray or type(low) in lazies or type(high) in lazies:
        return None
    key = (dtype, kind_of(low), kind_of(high))
    found = limits.get(key)
    if found is None:
        found = limits[key] = limits_of(key)
    if found is False:
        return None
    low, high = operand_of(low, dtype), operand_of(high, dtype)
    if low is None or high is None or (<Node>low).arg != (<Node>low).arg or (<Node>high).arg != (<Node>high).arg:
        return None
    for n in range(2):
        bound = high if n else low
        beyond = spread(<Entry>(<tuple>found)[n], [made, bound], None)
        if beyond is None:
            return None
        made = spread(<Entry>(<tuple>found)[2], [beyond, bound, made], None)
    return made


cdef object limits_of(tuple kinds):
    dtype = kinds[0]
    loop = loop_of(clip, kinds)
    if loop is None or loop.outputs != (dtype,) or loop.inputs != (dtype, dtype, dtype):
        return False
    less, greater = (entry(op, (dtype, dtype), BOOL) for op in ("less", "greater"))
    return less, greater, entry("select", (BOOL, dtype, dtype), dtype)


# --- conversions

cdef object converted(Handle x, object wanted):
    """`x.astype(wanted)` of an array in C order."""
    cdef Node node = dense(x), made
    cdef object dtype
    cdef long long size
    if not (isinstance(wanted, type) or PyUnicode_CheckExact(wanted) or isinstance(wanted, numpy.dtype)):
        return None
    if node is None or not usable(x):
        return None
    dtype = wanted_types.get(wanted)
    if dtype is None:
        try:
            dtype = numpy.dtype(wanted)
        except TypeError:
            return None
        if len(wanted_types) < 1000:
            wanted_types[wanted] = dtype
    size = size_of(node.shape)
    if dtype == node.dtype or node.dtype.kind == "c" or not native(dtype) or not native(node.dtype):
        return None
    if size == 0 or (node.state == READY and size <= eager_size):
        return None
    made = <Node>cast(node, dtype, look_at_errors(), here())
    return commit(made, contiguous(node.shape, dtype.itemsize), node.shape, size * <long long>dtype.itemsize, False, None)
