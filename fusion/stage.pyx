# cython: language_level=3, auto_pickle=False
"""Stages in C; the same as `stage.py`.  What a launch on the host needs is worked out once for each recipe."""

from cpython.dict cimport PyDict_GetItem
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_AsDouble, PyFloat_Check
from cpython.long cimport PyLong_AsUnsignedLongLongMask
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_Long
from cpython.object cimport PyObject
from libc.string cimport memcpy

from offarray.fusion.node cimport Node
from offarray.runtime.buffer cimport Buffer
from offarray.runtime.pool cimport take

from . import node as nodes
from ..runtime import buffer as buffers
from ..runtime import program, threads, trace
from ..runtime.buffer import allocate
from ..runtime.config import watch
from .lower import scalar_words
from .memory import Move
from typing import Any
from ..runtime.tuples import NamedTuple

MADE, ORDER, LEAVES = range(3)

cdef int PENDING = nodes.PENDING, RUNNING = nodes.RUNNING, READY = nodes.READY
cdef int FAILED = nodes.FAILED, CONSUMED = nodes.CONSUMED, UPDATE = nodes.UPDATE
cdef dict shared = buffers.__dict__, launches = program.__dict__, counters = trace.counters
cdef dict crew = threads.__dict__
cdef object BOARD = "_board"
cdef object board_seen = None  # the board whose first slot is at `first_seat`, with so many workers
cdef long long *first_seat = NULL
cdef int hired = 0
cdef object usual_launch = program.launch
cdef object FRESH = "fresh", LAUNCH = "launch", PACE = "_pace", KERNELS = "kernels", BYTES = "kernel_bytes"
cdef double GUESS = program._GUESS, SHARE = program.SHARE, QUICK = program.QUICK, START = program.START, NEAR = threads.NEAR
cdef enum:
    ASLEEP = 0
    POSTED = 2
    CODE = 1
    ROW = 2
    FIRST = 3
    LAST = 4
    ANSWER = 5
    DONE = 6
    PATIENCE = 7
    STEP = 16
if any(getattr(threads, name) != value for name, value in (
    ("ASLEEP", ASLEEP), ("POSTED", POSTED), ("CODE", CODE), ("ROW", ROW), ("FIRST", FIRST), ("LAST", LAST),
    ("ANSWER", ANSWER), ("DONE", DONE), ("PATIENCE", PATIENCE), ("STEP", STEP),
)):  # fmt: skip
    raise ImportError("offarray: this extension was built for another version of runtime/threads.py")
cdef long long LONG = threads.LONG, BRIEF = threads.BRIEF
cdef double last_end = 0.0, last_launch = 0.0, owed = 0.0
cdef tuple nothing = ()
cdef long long SHORT = 1 << 16  # bytes: a kernel on fewer is over before another thread would have got Python's lock
cdef bint watched = False


def _set_watched(value):
    global watched
    watched = value >= 2


watch("debug", _set_watched)

cdef extern from *:
    """
    #include <time.h>
    static inline double offarray_clock(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + 1e-9 * t.tv_nsec;
    }
    """
    double clock "offarray_clock"() nogil


class Output(NamedTuple):
    """Where a value of a step goes."""

    node: int  # position in the order
    nbytes: int
    donor: Any  # number of the node whose memory it takes; None for new memory
    update: bool  # whether it only writes part of that memory, which stays the donor's


class Copy(NamedTuple):
    """A copy before or after the launch; see `memory.Move`."""

    source: Any
    target: Any
    base: Any  # number of the node
    view: Any
    dtype: Any
    boxed: Any


cdef class Stage:
    """One step: its launch, with the words that scalars fill."""

    def __init__(
        self, launch, tuple sources, tuple scalars, tuple outputs, tuple faults, tuple asides=(), tuple before=(),
        tuple after=(),
    ):
        cdef int n = 0, each
        self.asides, self.before, self.after = asides, before, after
        self.launch, self.sources, self.scalars = launch, sources, scalars
        self.outputs, self.faults = outputs, faults
        step = launch.step
        compiled = step.compiled
        self.body, self.finish, self.key = launch.body, launch.finish, compiled.key
        self.units, self.scratch, self.nbytes = launch.units, launch.scratch, step.nbytes
        self.fault, self.reports, self.words = launch.fault, step.faults, len(launch.row)
        self.slots, self.pointers, self.constants = len(sources), len(step.pointers), len(scalars)
        self.placed, self.shot = compiled.target.kind == "cuda", None
        self.quick = compiled.target.kind != "cuda" and all([dtype[0] in "fiub" for _, dtype, _ in scalars])
        more = getattr(self.body, "__dict__", {})
        machine, self.report = more.get("machine", self.body), more.get("report")
        code = getattr(machine, "__self__", None)
        if type(machine) is type(len) and type(code) is int:  # one of codegen/builtin.py, whose object is the address
            self.code = <kernel><size_t>code
        self.template = <long long *>PyMem_Malloc(8 * (self.words + 1))
        self.plan = <int *>PyMem_Malloc(sizeof(int) * (2 * self.slots + self.pointers + 2 * self.constants + 1))
        self.offsets = <long long *>PyMem_Malloc(8 * (self.pointers + 1))
        self.real = <char *>PyMem_Malloc(self.constants + 1)
        if self.template == NULL or self.plan == NULL or self.offsets == NULL or self.real == NULL:
            raise MemoryError()
        for each in range(self.words):
            self.template[each] = <long long><unsigned long long>launch.row[each]
        for table, number in sources:
            self.plan[n] = table
            self.plan[n + 1] = number
            n += 2
        for each, (slot, offset) in enumerate(step.pointers):
            self.plan[n] = slot
            self.offsets[each] = offset
            n += 1
        for each, (word, dtype, position) in enumerate(scalars):
            self.plan[n] = self.pointers + word
            self.plan[n + 1] = position
            self.real[each] = dtype[0] == "f"
            n += 2

    def __dealloc__(self):
        PyMem_Free(self.template)
        PyMem_Free(self.plan)
        PyMem_Free(self.offsets)
        PyMem_Free(self.real)


cdef Buffer new_buffer(Stage stage, object nbytes):
    cdef Buffer made
    cdef tuple block
    if stage.placed:
        return program.room(stage.launch, nbytes)
    if PyDict_GetItem(shared, FRESH) != <PyObject *>None:
        return allocate(nbytes)
    block = take(nbytes, False)
    made = Buffer.__new__(Buffer)
    made.array = block[0]
    made.address = block[1]
    made.nbytes = nbytes
    made._pooled = True
    return made


cdef inline bint seated():
    """Whether the board is still the one that was seen."""
    return first_seat != NULL and PyDict_GetItem(crew, BOARD) == <PyObject *>board_seen


cdef long long *seats(int number) except? NULL:
    """The same as `threads.seats`, which is asked where the board or its workers are not known."""
    global board_seen, first_seat, hired
    if number > hired or not seated():
        first_seat = <long long *><long long>threads.seats(number)
        board_seen, hired = threads._board, number
    return first_seat


cdef int shares_of(Stage stage, object known) except -1:
    """How many threads a launch is worth; the same as `program._shares`."""
    global owed
    cdef double seconds = (GUESS if known is None else <double>known) * stage.nbytes, share = QUICK
    cdef long long workers, ready
    if stage.units < 2 or seconds < 2 * QUICK or stage.code == NULL:
        return 1
    if clock() - last_launch >= NEAR:
        share = SHARE
        if seconds < 2 * SHARE:
            return 1
    if known is not None:
        owed += seconds
    workers = len(threads._workers)
    ready = max(workers + 1, <long long>(seconds / (START * SHARE)))
    if ready <= workers + 1 and owed >= START * SHARE:
        ready, owed = workers + 2, 0.0
    return <int>max(1, min(stage.units, <long long>threads.count(), <long long>(seconds / share), ready))


cdef int spread(Stage stage, long long *row, int shares) except -1:
    """Run a launch's units by several threads, as `threads._share` does; gives how many took part."""
    global last_end
    cdef long long *board
    cdef long long *slot
    cdef long long *copies
    cdef long long patience
    cdef object error = None
    cdef size_t share
    cdef int k, n, answer
    if not threads._busy.acquire(False):
        return 0
    try:
        board = seats(shares - 1)
        if board == NULL:
            return 0
        share = threads._crew[0].__self__
        copies = <long long *>PyMem_Malloc(8 * (shares - 1) * stage.words)
        if copies == NULL:
            raise MemoryError()
        try:
            patience = LONG if clock() - last_end < NEAR else BRIEF
            for k in range(shares):
                slot = board + STEP * k
                slot[CODE] = <long long>stage.code
                slot[ROW] = <long long>row
                if k:  # with fault bytes that no other thread writes
                    memcpy(copies + (k - 1) * stage.words, row, 8 * stage.words)
                    slot[ROW] = <long long>(copies + (k - 1) * stage.words)
                    (<long long *>slot[ROW])[stage.fault] = slot[ROW] + 8 * (stage.fault + 2)
                slot[FIRST] = stage.units * k // shares
                slot[LAST] = stage.units * (k + 1) // shares
                slot[ANSWER] = slot[DONE] = 0
                slot[PATIENCE] = patience
            try:
                for k in range(1, shares):
                    slot = board + STEP * k
                    if slot[0] == ASLEEP:
                        slot[0] = POSTED
                        threads._workers[k - 1].wake()
            except BaseException as problem:  # an interrupt: what is handed over must end first
                error = problem
            with nogil:
                answer = (<kernel>share)(board, shares, 0)
            last_end = clock()
            if error is not None:
                raise error
            if answer and stage.report is not None:
                for k in range(shares):
                    slot = board + STEP * k
                    if slot[ANSWER]:
                        stage.report(slot[ROW], slot[FIRST], slot[LAST])
            for k in range(shares - 1):
                for n in range(stage.fault + 2, stage.words):
                    row[n] |= copies[k * stage.words + n]
        finally:
            PyMem_Free(copies)
    finally:
        threads._busy.release()
    return shares


cdef object run(Stage stage, list made, list order, list leaves):
    """Launch on the host; None where it should be done the long way."""
    global last_launch
    cdef double seconds
    cdef object pace = <object>PyDict_GetItem(launches, PACE)
    cdef PyObject *known
    cdef long long *row
    cdef long long address
    cdef int *plan = stage.plan
    cdef int *scalar
    cdef Buffer buffer
    cdef Node node
    cdef object value, before, scratch = None
    cdef double number
    cdef int n, table, answer, shares
    if <object>PyDict_GetItem(launches, LAUNCH) is not usual_launch:
        return None  # somebody stands in for it
    if not stage.quick or watched or PyDict_GetItem(shared, FRESH) != <PyObject *>None:
        return None
    known = PyDict_GetItem(<dict>pace, stage.key)
    before = None if known == NULL else <object>known
    shares = shares_of(stage, before)
    row = <long long *>PyMem_Malloc(8 * (stage.words + 1))
    if row == NULL:
        raise MemoryError()
    try:
        memcpy(row, stage.template, 8 * stage.words)
        for n in range(stage.pointers):
            table = plan[2 * stage.slots + n]
            scalar = plan + 2 * table
            if scalar[0] == 0:
                buffer = <Buffer>made[scalar[1]]
            else:
                node = <Node>(order if scalar[0] == 1 else leaves)[scalar[1]]
                buffer = <Buffer?>node.buffer
            row[n] = buffer.address + stage.offsets[n]
        scalar = plan + 2 * stage.slots + stage.pointers
        for n in range(stage.constants):
            value = (<Node>order[scalar[1]]).arg
            if stage.real[n]:  # numbers as `lower.scalar_words` and `program.pack` have them
                number = PyFloat_AS_DOUBLE(value) if PyFloat_Check(value) else PyFloat_AsDouble(value)
                memcpy(row + scalar[0], &number, 8)
            else:
                row[scalar[0]] = <long long>PyLong_AsUnsignedLongLongMask(PyNumber_Long(value))
            scalar += 2
        address = <long long>row
        row[stage.fault] = address + 8 * (stage.fault + 2)
        if stage.scratch:
            scratch = allocate(stage.scratch)
            row[stage.fault + 1] = (<Buffer>scratch).address
        seconds = clock()
        if shares > 1:
            shares = spread(stage, row, shares)
        if shares > 1:
            pass
        elif stage.units and stage.code != NULL:
            shares = 1
            if stage.nbytes < SHORT:
                answer = stage.code(row, 0, stage.units)
            else:
                with nogil:
                    answer = stage.code(row, 0, stage.units)
            if answer and stage.report is not None:
                stage.report(address, 0, stage.units)
        elif stage.units:
            shares = 1
            stage.body(address, 0, stage.units)
        if stage.finish is not None:
            stage.finish(address)
        last_launch = clock()
        seconds = last_launch - seconds
        counters[KERNELS] = <object>PyDict_GetItem(counters, KERNELS) + 1
        counters[BYTES] = <object>PyDict_GetItem(counters, BYTES) + stage.nbytes
        if stage.nbytes:
            if len(<dict>pace) > 10_000:
                (<dict>pace).clear()
            number = seconds * shares / stage.nbytes
            if shares > 1:  # see `program._learn`
                number = min(number, number if before is None else <double>before)
            (<dict>pace)[stage.key] = number
        for n in range(stage.fault + 2, stage.words):
            if row[n]:
                return (<char *>(row + stage.fault + 2))[: stage.reports]
        return b""
    finally:
        PyMem_Free(row)


cpdef perform(Stage stage, list order, list leaves, list faults, list consumed):
    """Run one step on the nodes of a graph; what found faults goes to `faults`, what was overwritten to `consumed`."""
    cdef list made = [], done = [], taken = []
    cdef Node node, giver
    cdef bint begun = True, update = False
    cdef object found
    cdef Py_ssize_t n
    for position, nbytes, donor, part in stage.outputs:
        node = <Node>order[position]
        done.append(node)
        update = update or node.kind == UPDATE
        if donor is None:
            made.append(new_buffer(stage, nbytes))
        else:
            giver = <Node>(leaves[-1 - donor] if donor < 0 else order[donor])
            made.append(giver.buffer)
            if not part:
                taken.append(giver)
    giver = None
    for nbytes in stage.asides:
        made.append(new_buffer(stage, nbytes))
    for node in done:
        node.state = RUNNING
    try:
        if stage.before:
            copies(stage, stage.before, made, order, leaves)
        found = None if stage.placed else run(stage, made, order, leaves)
        if found is None:
            found = launch(stage, made, order, leaves)
        if stage.after:
            copies(stage, stage.after, made, order, leaves)
    except BaseException as error:
        begun = getattr(error, "begun", True)
        for node in done:
            node.state = FAILED if begun and (update or taken) else PENDING
            node.error = error if begun and (update or taken) else None
        raise
    finally:
        if begun and taken:
            for node in taken:
                node.state = CONSUMED
                node.buffer = None
            consumed += taken
    for n in range(len(done)):
        node = <Node>done[n]
        if update and node.kind == UPDATE and (<Buffer>made[n]).device is not None:
            nodes.renew((<tuple>node.src)[0])  # what the host has seen of its memory is out of date
        node.buffer = made[n]
        node.state = READY
        node.src = nothing
        node.arg = None
    if type(found) is not bytes:
        found.about([order[p] for p in stage.faults])  # a `Late`
    elif found:
        faults += [(order[p], bits) for p, bits in zip(stage.faults, found) if bits]


cdef copies(Stage stage, tuple wanted, list made, list order, list leaves):
    """Copies before or after a launch."""
    shot = stage.launch.shot if stage.placed else None
    for source, target, number, view, dtype, boxed in wanted:
        if shot and number is not None and boxed is None:
            if shot.duplicate(place(source, made, order, leaves), place(target, made, order, leaves)):
                continue
        base = None if number is None else leaves[-1 - number] if number < 0 else order[number]
        Move(place(source, made, order, leaves), place(target, made, order, leaves), base, view, dtype, boxed).run()


cdef object place(tuple where, list made, list order, list leaves):
    if where[0] == 0:
        return made[where[1]]
    return (<Node>(order if where[0] == 1 else leaves)[where[1]]).buffer


cdef object launch(Stage stage, list made, list order, list leaves):
    """Launch in the way that knows devices and threads."""
    cdef double number
    cdef long long bits = 0
    slots = [place(where, made, order, leaves) for where in stage.sources]
    scalars = []
    for word, dtype, n in stage.scalars:
        value = (<Node>order[n]).arg
        if dtype[0] == "f" and PyFloat_Check(value):
            number = PyFloat_AS_DOUBLE(value)
            memcpy(&bits, &number, 8)
            scalars.append((word, <unsigned long long>bits))
        else:
            scalars += enumerate(program.pack(scalar_words(dtype, value)), word)
    return program.launch(stage.launch, slots, scalars)
