"""Kernel IR to LLVM IR: the levels of a schedule written out with explicit vectors.

in: a kernel and its plan; out: the text of a module with the functions `body` and `finish` of a `Compiled`.
"""

from __future__ import annotations

from ..runtime.target import Target
from ..runtime.tuples import NamedTuple
from . import numerics
from .abi import layout
from .access import Memory
from .folds import Kind, join, kind_of, lift, positions, scan_lanes
from .frame import Frame, State, begin, branch, counted, lesser, parts, repeat, whole
from .kernel import Fold, Kernel
from .loops import Loops
from .reporting import SINK, checked, fold_fault, is_summed, not_finite
from .rules import any_lane
from .schedule import COLLECT, COLUMNS, GRAIN, Level, Loop, Plan, axes_mask, domains
from .text import PARTS, SCALARS, SIZES, Code, Reg, vtype


class Module(NamedTuple):
    """The text of one kernel's module and what it links to."""

    text: str
    externs: dict[str, int | None]


class Emitter:
    """Writes one function: `level` for straight code, `Loops` for what repeats it.

    Parameters
    ----------
    kernel, plan, target
        What to write, in which loops, and for which processor.
    exact : bool
        Report the kinds of faults; otherwise only whether there may be some.
    writes : bool
        Whether stores write.
    """

    def __init__(self, kernel: Kernel, plan: Plan, target: Target, exact: bool = False, writes: bool = True) -> None:
        self.kernel, self.plan, self.exact, self.writes = kernel, plan, exact, writes
        self.code = Code(target)
        self.layout = layout(kernel)
        self.domains = domains(kernel)
        self.memory = Memory(self.code, kernel, self.layout, self.domains, plan.vector, "%row")
        self.kinds: dict[int, Kind] = {
            n: kind_of(kernel, n) for n, v in enumerate(kernel.values) if isinstance(v.arg, Fold)
        }
        self.fault_byte = {n: k for k, n in enumerate(kernel.faults)}
        self.checked = checked(kernel, exact)
        self.flag: str | None = None  # where the function notes that something is suspicious
        if self.fault_byte and not exact:
            self.flag = self.code.alloca("i32", 4)
            self.code.slots.append(f"  store i32 0, ptr {self.flag}")
        self.range: dict[int, tuple[str, str]] = {}  # split axis -> this unit's bounds
        self.loops = Loops(self)

    # ------------------------------------------------------------------ values
    def extent(self, axis: int) -> str:
        """Register of an axis' extent."""
        return self.memory.word(self.layout.extents + axis)

    def bounds(self, axis: int) -> tuple[str, str]:
        """First index and end of the loop over `axis`."""
        return self.range.get(axis) or ("0", self.extent(axis))

    def wide(self, frame: Frame, n: int) -> Reg:
        """Value `n` as a vector."""
        reg = frame.regs[n]
        if self.memory.is_vector(n, frame):
            return reg
        if n not in frame.wide:
            dtype = self.kernel.values[n].dtype
            scalar = SCALARS[PARTS.get(dtype, dtype)]
            frame.wide[n] = whole([repeat(self.code, scalar, frame.lanes, r) for r in parts(reg)])
        return frame.wide[n]

    def operand(self, frame: Frame, n: int, vector: bool) -> Reg:
        """Value `n` for an operation on vectors or on scalars."""
        return self.wide(frame, n) if vector else frame.regs[n]

    def value(self, frame: Frame, n: int) -> None:
        """Compute value `n`."""
        v, vector = self.kernel.values[n], self.memory.is_vector(n, frame)
        if v.op == "load":
            frame.regs[n] = self.memory.load(frame, n)
            return
        self.code.lanes = frame.lanes if vector else 1
        if v.op == "iota":
            index = frame.index[int(v.arg or 0)]  # type: ignore[arg-type]
            frame.regs[n] = positions(self.code, frame.lanes, index) if vector else index
        elif v.op == "arg":
            frame.regs[n] = self.scalar(int(v.arg or 0), v.dtype)  # type: ignore[arg-type]
        elif v.op == "fold":
            frame.regs[n] = self.scan(frame, n)
        elif v.op == "fold_fault":
            args = tuple(self.operand(frame, s, vector) for s in v.src)
            source = int(v.arg or 0)  # type: ignore[arg-type]
            dtype, kinds = self.kernel.values[source].dtype, self.kernel.values[source].fault
            frame.regs[n] = fold_fault(self.code, dtype, args[0], str(args[1]), str(args[2]), kinds)
        else:
            args = tuple(self.operand(frame, s, vector) for s in v.src)
            frame.regs[n] = numerics.apply(self.code, v.op, self.sources(n), v.dtype, args)

    def sources(self, n: int) -> tuple[str, ...]:
        """Dtypes of a value's sources."""
        return tuple(self.kernel.values[s].dtype for s in self.kernel.values[n].src)

    def scalar(self, number: int, dtype: str) -> Reg:
        """A scalar argument, from its words."""
        word = self.layout.scalars[number]
        if dtype in PARTS:
            both = [self._number(word + k, PARTS[dtype]) for k in (0, 1)]
            return both[0], both[1]
        return self._number(word, dtype)

    def _number(self, word: int, dtype: str) -> str:
        code = self.code
        if dtype[0] == "f":
            register = self.memory.word(word, "double")
            if dtype == "f4":
                return code.op(f"fptrunc double {register} to float")
            if dtype == "f2":
                # By way of float: exact, and no processor lacks the two steps.  The first is a constrained one, so that
                # they are never joined to one step, which is a call of a compiler's run-time library.
                narrow = "llvm.experimental.constrained.fptrunc.f32.f64"
                code.declare(f"declare float @{narrow}(double, metadata, metadata)")
                register = code.op(
                    f'call float @{narrow}(double {register}, metadata !"round.tonearest", metadata !"fpexcept.ignore")'
                )
                return code.op(f"fptrunc float {register} to half")
            return register
        register = self.memory.word(word)
        if dtype == "b1":
            return code.op(f"icmp ne i64 {register}, 0")
        return register if dtype in ("i8", "u8") else code.op(f"trunc i64 {register} to {vtype(dtype, 1)}")

    def scan(self, frame: Frame, n: int) -> Reg:
        """The prefix of scan `n` at the present index, or indices."""
        v, kind, code = self.kernel.values[n], self.kinds[n], self.code
        assert isinstance(v.arg, Fold)
        source = v.src[0]
        vector = self.memory.is_vector(n, frame)
        x = parts(lift(code, kind, self.kernel.values[source].dtype, self.operand(frame, source, vector)))
        if vector and self.plan.vector in v.arg.axes:
            frame.carry[n], result = scan_lanes(code, kind, frame.lanes, frame.carry[n], x, frame.mask)
            return whole(result)
        frame.carry[n] = join(code, kind, code.lanes, frame.carry[n], x)
        return whole(frame.carry[n])

    # ------------------------------------------------------------------ levels
    def level(self, level: Level, frame: Frame, bail: str | None = None) -> dict[int, State]:
        """Emit a level at the present index.

        Parameters
        ----------
        bail : str, optional
            Label of a block that does this level over, with the reporting of faults; without it they are
            reported here.

        Returns
        -------
        states : dict
            The element of every fold that is under way.
        """
        computed: list[int] = []
        states: dict[int, State] = {}
        for step in level.steps:
            if isinstance(step, Loop):
                states |= self.loops.loop(step, frame)
                continue
            self.values(level, frame, step)
            computed += step
        return states | self.after(level, frame, computed, bail)

    def values(self, level: Level, frame: Frame, numbers: tuple[int, ...]) -> None:
        """Compute values of a level, or take them from where an earlier loop has parked them."""
        parks, fetches = dict(level.parks), dict(level.fetches)
        for n in numbers:
            if n in fetches:
                row = fetches[n] == COLLECT
                frame.regs[n] = self.loops.take_rows(frame, n) if row else self.memory.reload(frame, fetches[n])
                continue
            self.value(frame, n)
            if n in parks:
                self.memory.store(frame, parks[n], self.operand(frame, n, frame.lanes > 1))

    def after(self, level: Level, frame: Frame, computed: list[int], bail: str | None = None) -> dict[int, State]:
        """Emit what follows the steps of a level: reports of faults, elements of folds, stores."""
        parked = dict(level.fetches)
        faulting = [
            n for n in computed
            if n in self.fault_byte and self.kernel.values[n].op != "fold" and n not in parked
        ]  # fmt: skip
        if faulting:
            self.report(frame, faulting, bail)
        for n in level.keeps:
            self.loops.leave_row(frame, n)
        states = {n: self.element(frame, n) for n in level.takes}
        for k in level.stores:
            operand, _, value, _ = self.kernel.stores[k]
            if operand == SINK:
                self._or_faults(frame, int(self.kernel.values[value].arg or 0), value)  # type: ignore[arg-type]
            elif self.writes:
                self.memory.store(frame, k, self.operand(frame, value, frame.lanes > 1))
        return states

    def element(self, frame: Frame, n: int) -> State:
        """What fold `n` combines at the present index."""
        v, kind, code = self.kernel.values[n], self.kinds[n], self.code
        assert isinstance(v.arg, Fold)
        source, vector = v.src[0], self.fold_lanes(n, frame) > 1
        code.lanes = frame.lanes if vector else 1
        x = parts(lift(code, kind, self.kernel.values[source].dtype, self.operand(frame, source, vector)))
        if not kind.position:
            return x
        place = frame.index[v.arg.axes[0]]
        for axis in v.arg.axes[1:]:
            place = code.op(f"add i64 {code.op(f'mul i64 {place}, {self.extent(axis)}')}, {frame.index[axis]}")
        if not vector:
            return [*x, place]
        if self.plan.vector not in v.arg.axes:
            return [*x, repeat(code, "i64", frame.lanes, place)]
        if self.plan.vector == v.arg.axes[-1]:
            return [*x, positions(code, frame.lanes, place)]
        step = "1"
        for axis in v.arg.axes[v.arg.axes.index(self.plan.vector) + 1 :]:
            step = code.op(f"mul i64 {step}, {self.extent(axis)}")
        every = repeat(code, "i64", frame.lanes, step)
        lanes = positions(code, frame.lanes, "0")
        lanes = code.op(f"mul <{frame.lanes} x i64> {lanes}, {every}")
        return [*x, code.op(f"add <{frame.lanes} x i64> {lanes}, {repeat(code, 'i64', frame.lanes, place)}")]

    def fold_lanes(self, n: int, frame: Frame) -> int:
        """Lanes of fold `n`'s elements inside the open vector loop."""
        fold = self.kernel.values[n].arg
        assert isinstance(fold, Fold)
        if frame.lanes == 1:
            return 1
        return frame.lanes if (self.domains[n] | axes_mask(fold.axes)) >> self.plan.vector & 1 else 1

    # ------------------------------------------------------------------ faults
    def report(self, frame: Frame, values: list[int], bail: str | None) -> None:
        """Check values for faults: cheaply first, then in a block apart, or in the block `bail`."""
        code = self.code
        lanes: dict[int, str] = {}
        for n in values:
            found = self._suspicion(frame, n) if n in self.checked else None
            if found is not None:  # lanes of one size are asked together
                size = SIZES[self.kernel.values[n].dtype] if self.memory.is_vector(n, frame) else 0
                width = frame.lanes if size else 1
                known = lanes.get(size)
                lanes[size] = code.op(f"or {vtype('b1', width)} {known}, {found}") if known else found
        some = None
        for size, found in lanes.items():
            self.code.lanes = frame.lanes if size else 1
            any_ = any_lane(code, found)
            some = any_ if some is None else code.op(f"or i1 {some}, {any_}")
        if some is None:
            return
        if self.flag is not None:
            self.suspect(some)
            return
        fine = code.label("fine")
        if bail is not None:
            self.loops.bailed = code.block
            branch(code, some, bail, fine)
            code.start(fine)
            return
        rare = code.label("fault")
        branch(code, some, rare, fine)
        code.start(rare)
        for n in values:
            self._exact(frame, n)
        begin(code, fine)

    def suspect(self, condition: str) -> None:
        """Note that something is suspicious if `condition` (i1) holds."""
        code, rare, fine = self.code, self.code.label("rare"), self.code.label("fine")
        branch(code, condition, rare, fine)
        code.start(rare)
        code.add(f"store i32 1, ptr {self.flag}")
        begin(code, fine)

    def check_fold(self, frame: Frame, n: int, lanes: int) -> None:
        """Be suspicious of a sum that is not finite."""
        if self.flag is None or not is_summed(self.kernel, n):
            return
        self.code.lanes = lanes
        found = not_finite(self.code, self.kernel.values[n].dtype, frame.regs[n])
        if lanes > 1 and frame.mask is not None:
            found = self.code.op(f"and {self.code.type('b1')} {found}, {frame.mask}")
        self.suspect(any_lane(self.code, found))

    def _or_faults(self, frame: Frame, n: int, value: int) -> None:
        """OR the fault bits in `value` into the byte of value `n`."""
        code, vector = self.code, self.memory.is_vector(value, frame)
        code.lanes = frame.lanes if vector else 1
        self._raise(frame, n, str(frame.regs[value]), vector)

    def _taken(self, frame: Frame, n: int) -> tuple[tuple[str, ...], tuple[Reg, ...], bool]:
        vector = self.memory.is_vector(n, frame)
        self.code.lanes = frame.lanes if vector else 1
        v = self.kernel.values[n]
        return self.sources(n), tuple(self.operand(frame, s, vector) for s in v.src), vector

    def _suspicion(self, frame: Frame, n: int) -> str | None:
        """Where, by lane, a value may report something."""
        v = self.kernel.values[n]
        srcs, args, vector = self._taken(frame, n)
        found = numerics.suspicious(self.code, v.op, srcs, v.dtype, args, frame.regs[n], v.fault)
        if found is None:
            return None
        if vector and frame.mask is not None:
            found = self.code.op(f"and {self.code.type('b1')} {found}, {frame.mask}")
        return str(found)

    def _exact(self, frame: Frame, n: int) -> None:
        code, v = self.code, self.kernel.values[n]
        srcs, args, vector = self._taken(frame, n)
        found = str(numerics.faults(code, v.op, srcs, v.dtype, args, frame.regs[n], v.fault))
        self._raise(frame, n, found, vector)

    def _raise(self, frame: Frame, n: int, found: str, vector: bool) -> None:
        code = self.code
        if vector:
            if frame.mask is not None:
                t = code.type("i1")
                found = code.op(f"select {code.type('b1')} {frame.mask}, {t} {found}, {t} zeroinitializer")
            found = code.call("i8", f"llvm.vector.reduce.or.v{frame.lanes}i8", (code.type("i1"), found))
        first = self.memory.word(self.layout.fault, "ptr")
        place = code.op(f"getelementptr i8, ptr {first}, i64 {self.fault_byte[n]}")
        code.op(f"atomicrmw or ptr {place}, i8 {found} monotonic")


# ---------------------------------------------------------------------- functions
def _chunks(emitter: Emitter) -> dict[int, tuple[str, str]]:
    """(length of a unit's range, number of ranges) for each split axis: what `schedule.chunks` says."""
    code, plan = emitter.code, emitter.plan
    budget = str(GRAIN)

    def at_least(a: str, b: str) -> str:
        return code.call("i64", "llvm.smax.i64", ("i64", a), ("i64", b))

    for a in range(emitter.kernel.rank):
        if a not in plan.split:
            budget = code.op(f"sdiv i64 {budget}, {at_least(emitter.extent(a), '1')}")
    found: dict[int, tuple[str, str]] = {}
    for a in sorted(plan.split, key=lambda a: (a != plan.vector, -a)):
        least = COLUMNS if a == plan.vector else 1
        length = code.op(f"and i64 {budget}, {-least}")
        length = at_least(lesser(code, emitter.extent(a), at_least(length, str(least))), "1")
        budget = code.op(f"sdiv i64 {budget}, {length}")
        up = code.op(f"add i64 {emitter.extent(a)}, {code.op(f'sub i64 {length}, 1')}")
        found[a] = length, code.op(f"sdiv i64 {up}, {length}")
    return found


def _body(emitter: Emitter, name: str) -> str:
    """The function that runs units %lo to %hi."""
    code, plan = emitter.code, emitter.plan
    chunks = _chunks(emitter)
    emitter.loops.count = _product(code, [count for _, count in chunks.values()])

    def unit(index: str, _: State) -> State:
        rest = index
        for a in reversed(plan.split):
            length, count = chunks[a]
            number = rest
            if a != plan.split[0]:
                number, rest = code.op(f"srem i64 {rest}, {count}"), code.op(f"sdiv i64 {rest}, {count}")
            start = code.op(f"mul i64 {number}, {length}")
            emitter.range[a] = start, lesser(code, code.op(f"add i64 {start}, {length}"), emitter.extent(a))
        emitter.loops.unit = index
        emitter.level(plan.body, Frame())
        emitter.loops.leave_flag()
        return []

    counted(code, "%lo", "%hi", 1, [], [], unit)
    return _function(emitter, f"{name}_body(ptr %row, i64 %lo, i64 %hi)")


def _product(code: Code, numbers: list[str]) -> str:
    result = numbers[0] if numbers else "1"
    for number in numbers[1:]:
        result = code.op(f"mul i64 {result}, {number}")
    return result


def _function(emitter: Emitter, head: str) -> str:
    code = emitter.code
    code.add(f"ret i32 {code.op(f'load i32, ptr {emitter.flag}') if emitter.flag else 0}")
    return code.function(f"define i32 @{head} #0")


def _finish(emitter: Emitter, name: str) -> str:
    """The function that combines the units' states and does what remains."""
    code, plan = emitter.code, emitter.plan
    assert plan.finish is not None
    emitter.loops.count = count = _product(code, [number for _, number in _chunks(emitter).values()])
    frame = Frame()
    if plan.partial:
        emitter.loops.collect(frame, plan.partial, count)
    emitter.loops.collect_flags(count)
    emitter.level(plan.finish, frame)
    return _function(emitter, f"{name}_finish(ptr %row)")


def emit(
    kernel: Kernel, plan: Plan, target: Target, name: str, exact: bool = False, writes: bool = True
) -> Module:  # fmt: skip
    """The module of a kernel, with functions `name`_body and, if the plan has one, `name`_finish.

    Both give 1 if something may have gone wrong that the exact kernel must report, else 0.
    """
    width = f'"min-legal-vector-width"="{8 * target.vector}" "prefer-vector-width"="{8 * target.vector}"'
    first = Emitter(kernel, plan, target, exact, writes)
    functions = [_body(first, name)]
    declared, externs = dict(first.code.declarations), dict(first.code.externs)
    if plan.finish is not None:
        second = Emitter(kernel, plan, target, exact, writes)
        functions.append(_finish(second, name))
        declared |= second.code.declarations
        externs |= second.code.externs
    # Vectors are spilled to aligned places: a spill across two cache lines is slow to come back.
    attributes = f"attributes #0 = {{ nounwind alignstack={target.vector} {width} }}"
    return Module("\n".join([*declared, *functions, attributes, ""]), externs)
