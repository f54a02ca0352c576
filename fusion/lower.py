"""Lowering: one step of a plan -> kernel IR with its argument row.

in: a step whose inputs are in memory; out: a `Lowered`, the kernel with pointers, words and extents.

Every node is visited with an index map (fusion/view.py); the pair is computed once.  Reads of memory become loads
with a byte offset and a byte stride for each axis, so views, broadcasting and shifted windows cost nothing.
Afterwards adjacent axes that every access crosses evenly are merged and strides are classified.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy

from ..codegen.kernel import ABSENT, STRIDED, UNIT, Fold, Kernel, Load, Operand, Store, Value
from ..runtime.buffer import Buffer
from ..runtime.tuples import NamedTuple
from .node import CONST, FOLD, GATHER, IOTA, JOIN, MAP, PENDING, READ, UPDATE, Node, Shape
from .plan import FEW, NODES, OUTPUTS, Plan, Step
from .view import Map, View, compose, contiguous, disjoint, identity, place, span

Key = tuple[int, Map]


class Pointer(NamedTuple):
    """A pointer argument: a buffer, the byte offset of index zero, and the bytes [low, high) that may be touched.

    `grid` has the extents and the strides, not negative, of the elements from `low` on; None where they are gathered.
    """

    buffer: Buffer
    offset: int
    low: int
    high: int
    grid: tuple[Shape, Shape] | None
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, each counted once."""
        span = self.high - self.low
        return span if self.grid is None else min(span, math.prod(self.grid[0]) * self.itemsize)


class Lowered(NamedTuple):
    """A kernel with all its arguments."""

    kernel: Kernel
    pointers: tuple[Pointer, ...]
    words: tuple[int | float, ...]  # between the pointers and the fault pointer
    extents: Shape
    faults: tuple[Node, ...]  # the node of each faulting value, in the order of their bytes
    nbytes: int
    scalars: tuple[tuple[int, str, Node], ...] = ()  # (word, dtype, node) of each scalar that is a constant's value


class Target(NamedTuple):
    """Where an output goes: its buffer and the view of it that the kernel writes."""

    buffer: Buffer
    view: View
    dtype: numpy.dtype[Any]


def code(dtype: numpy.dtype[Any]) -> str:
    """Kernel IR's name of a dtype: "f8", "b1" ..."""
    return f"{dtype.kind}{dtype.itemsize}"


class Place(NamedTuple):
    """An access to memory, before its strides are classified: byte offset, and byte stride by kernel axis."""

    buffer: Buffer
    dtype: str
    offset: int
    strides: dict[int, int]
    gathers: tuple[int, ...]  # byte strides of the gather indices


Choose = Callable[[dict[int, list[Place]]], list[Target]]


class Builder:
    """Values of one kernel while it is being lowered."""

    def __init__(self, shape: Shape, plan: Plan, inside: set[int]) -> None:
        self.extents = list(shape)
        self.order = list(range(len(shape)))  # axes, slowest first
        self.plan = plan
        self.inside = inside  # stored nodes computed in this very kernel
        self.values: list[Value] = []
        self.places: dict[int, Place] = {}
        self.scalars: list[tuple[str, Any, Node | None]] = []
        self.memo: dict[Key, int] = {}
        self.loads: dict[Any, int] = {}
        self.iotas: dict[int, int] = {}
        self.fold_maps: dict[Key, Map] = {}
        self.nodes: dict[int, Node] = {}  # value -> node that faults in it
        self.keep: list[Node] = []  # keeps ids unique while they are keys

    # ------------------------------------------------------------------ values
    def value(self, root: Node, mapping: Map) -> int:
        """The value number of `root` at `mapping`, everything below it computed first; no recursion."""
        stack: list[tuple[Node, Map]] = [(root, mapping)]
        children: dict[Key, list[tuple[Node, Map]]] = {}
        while stack:
            node, at = stack[-1]
            key = (id(node), at)
            if key in self.memo:
                stack.pop()
                continue
            below = children.get(key)
            if below is None:
                below = children[key] = self._children(node, at)
                missing = [c for c in below if (id(c[0]), c[1]) not in self.memo]
                if missing:
                    stack.extend(reversed(missing))
                    continue
            self.keep.append(node)
            self.memo[key] = self._build(node, at, [self.memo[id(c), m] for c, m in below])
            stack.pop()
        return self.memo[id(root), mapping]

    def _inside(self, node: Node) -> bool:
        return node.state == PENDING and (id(node) not in self.plan.stored or id(node) in self.inside)

    def _children(self, node: Node, at: Map) -> list[tuple[Node, Map]]:
        if not self._inside(node):
            return []
        if node.kind == MAP:
            return [(s, at if s.shape or not at else ()) for s in node.src]
        if node.kind == READ:
            source = node.src[0]
            mapping = self.plan.maps.get(id(node))
            if mapping is not None and source.state == PENDING and id(source) not in self.plan.stored:
                return [(source, compose(mapping, at))]
            return []
        if node.kind == FOLD:
            if id(node) in self.plan.written:
                return [(node.src[0], m) for m in _elements(node, at)]
            return [(node.src[0], self._fold_map(node, at))]
        if node.kind == GATHER:
            return [(s, at if s.shape or not at else ()) for s in node.src[1:]]
        return []

    def _build(self, node: Node, at: Map, below: list[int]) -> int:
        dtype = code(node.dtype)
        if not self._inside(node):
            return self._load(node, View(0, node.shape, contiguous(node.shape, node.dtype.itemsize)), at, dtype)
        if node.kind == MAP:
            return self._map(node, dtype, tuple(below))
        if node.kind == READ:
            return below[0] if below else self._load(node.src[0], node.arg, at, dtype)
        if node.kind == FOLD:
            if id(node) in self.plan.written:
                return self._written(node, dtype, below)
            return self._fold(node, dtype, below[0], at)
        if node.kind == CONST:
            return self._scalar(dtype, node.arg, node)
        if node.kind == IOTA:
            return self._index(at[node.arg])
        assert node.kind == GATHER, node
        offset, strides, index_strides = node.arg
        return self._load(node.src[0], View(offset, node.shape, strides), at, dtype, tuple(below), index_strides)

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _map(self, node: Node, dtype: str, below: tuple[int, ...]) -> int:
        dom = 0
        for n in below:
            dom |= self.values[n].dom
        number = self._add(Value(node.op, dtype, below, None, dom, node.fault))
        if node.fault:
            self.nodes[number] = node
        return number

    def _load(
        self, node: Node, view: View, at: Map, dtype: str, indices: tuple[int, ...] = (), index_strides: Shape = ()
    ) -> int:
        buffer = node.buffer
        assert buffer is not None, node
        offset, strides = place(view.offset, view.strides, at)
        key = (id(buffer), offset, tuple(sorted(strides.items())), dtype, indices, index_strides)
        found = self.loads.get(key)
        if found is None:
            dom = 0
            for axis in strides:
                dom |= 1 << axis
            for n in indices:
                dom |= self.values[n].dom
            found = self.loads[key] = self._add(Value("load", dtype, indices, None, dom))
            self.places[found] = Place(buffer, dtype, offset, strides, index_strides)
        return found

    def _scalar(self, dtype: str, value: Any, node: Node | None = None) -> int:
        self.scalars.append((dtype, value, node))
        return self._add(Value("arg", dtype, (), len(self.scalars) - 1))

    def _index(self, affine: tuple[int, tuple[tuple[int, int], ...]]) -> int:
        constant, terms = affine
        total = None
        for axis, coefficient in terms:
            if axis not in self.iotas:
                self.iotas[axis] = self._add(Value("iota", "i8", (), axis, 1 << axis))
            term = self.iotas[axis]
            if coefficient != 1:
                term = self._add(Value("multiply", "i8", (term, self._scalar("i8", coefficient)), None, 1 << axis))
            if total is None:
                total = term
            else:
                dom = self.values[total].dom | 1 << axis
                total = self._add(Value("add", "i8", (total, term), None, dom))
        if total is None:
            return self._scalar("i8", constant)
        if constant:
            total = self._add(Value("add", "i8", (total, self._scalar("i8", constant)), None, self.values[total].dom))
        return total

    # ------------------------------------------------------------------ folds
    def _written(self, node: Node, dtype: str, below: list[int]) -> int:
        """A fold of a few elements, one after the other."""
        total = below[0]
        if node.arg[0] == "add" and dtype[0] in "fc":
            total = self._positive(total, dtype)
        for element in below[1:]:
            dom = self.values[total].dom | self.values[element].dom
            total = self._add(Value(node.arg[0], dtype, (total, element), None, dom, node.fault))
            if node.fault:
                self.nodes[total] = node
        return total

    def _fold_map(self, node: Node, at: Map) -> Map:
        """The map of a fold's source: the folded axes get kernel axes that the rest of the map leaves free."""
        known = self.fold_maps.get((id(node), at))
        if known is not None:
            return known
        source = node.src[0]
        _, axes, _ = node.arg
        scan = node.arg[2] != "last"
        outer = iter(at)
        mapping: list[Any] = [next(outer) if scan or d not in axes else None for d in range(len(source.shape))]
        taken = {axis for entry in mapping if entry for axis, _ in entry[1]}
        after: int | None = None
        for d in reversed(range(len(source.shape))):
            if mapping[d] is None:
                if source.shape[d] == 1:
                    mapping[d] = (0, ())
                    continue
                axis = self._free_axis(source.shape[d], taken, after)
                taken.add(axis)
                mapping[d] = (0, ((axis, 1),))
            terms = mapping[d][1]
            if len(terms) == 1:
                after = terms[0][0]
        self.fold_maps[id(node), at] = found = tuple(mapping)
        return found

    def _free_axis(self, extent: int, taken: set[int], after: int | None) -> int:
        limit = self.order.index(after) if after is not None else len(self.order)
        for position in reversed(range(limit)):
            axis = self.order[position]
            if self.extents[axis] == extent and axis not in taken:
                return axis
        self.extents.append(extent)
        self.order.insert(limit, len(self.extents) - 1)
        return len(self.extents) - 1

    def _fold(self, node: Node, dtype: str, below: int, at: Map) -> int:
        monoid, axes, keep = node.arg
        mapping = self._fold_map(node, at)
        folded = tuple(mapping[d][1][0][0] for d in sorted(axes) if mapping[d][1])
        mask = 0
        for axis in folded:
            mask |= 1 << axis
        source = self.values[below]
        if not folded:
            if monoid == "add" and keep == "last" and dtype[0] in "fc":
                return self._positive(below, dtype)
            return self._scalar("i8", 0) if monoid in ("argmin", "argmax") else below
        if keep == "last" and mask & ~source.dom:
            # the source does not vary along a folded axis: give it the axis, so that it counts every element
            below = self._spread(below, mask & ~source.dom)
        dom = source.dom | mask if keep != "last" else source.dom & ~mask
        number = self._add(Value("fold", dtype, (below,), Fold(folded, monoid, keep), dom, node.fault))
        if node.fault:
            self.nodes[number] = node
        return number

    def _positive(self, below: int, dtype: str) -> int:
        """The value of which a sum begins, with 0.0 before it: no sum is -0.0."""
        return self._add(Value("add", dtype, (below, self._scalar(dtype, 0.0)), None, self.values[below].dom))

    def _spread(self, below: int, mask: int) -> int:
        source = self.values[below]
        for axis in range(len(self.extents)):
            if mask >> axis & 1:
                index = self._index((0, ((axis, 1),)))
                always = self._add(
                    Value("greater_equal", "b1", (index, self._scalar("i8", 0)), None, self.values[index].dom)
                )
                dom = self.values[below].dom | 1 << axis
                below = self._add(Value("select", source.dtype, (always, below, below), None, dom))
        return below


def _elements(node: Node, at: Map) -> list[Map]:
    """The maps of a fold's source at each element that it combines, in order."""
    extents, axes = node.src[0].shape, sorted(node.arg[1])
    found = []
    for chosen in itertools.product(*(range(extents[a]) for a in axes)):
        given, outer = dict(zip(axes, chosen, strict=True)), iter(at)
        found.append(tuple((given[d], ()) if d in given else next(outer) for d in range(len(extents))))
    return found


def lower(step: Step, plan: Plan, choose: Choose) -> Lowered:
    """Lower `step`.

    Parameters
    ----------
    step, plan
        The step, whose inputs are all in memory.
    choose
        Says where each output goes, and each piece of one, given the accesses that the kernel makes to each buffer (by
        the buffer's id).  An output may share a buffer with an input only where every read of that buffer is at the
        index written; such a pair becomes one pointer that is read and written.
    """
    wanted: list[Node] = []
    for node in step.outputs:
        wanted += node.src if node.kind == JOIN else [node.src[1] if node.kind == UPDATE else node]
    shape, maps = step.shape, [identity(step.shape)]
    builder, numbers = _built(step, plan, wanted, shape, maps)
    axis = _short(step, builder)
    if axis is not None:
        shape = (*shape[:axis], 1, *shape[axis + 1 :])
        maps = [(*maps[0][:axis], (k, ()), *maps[0][axis + 1 :]) for k in range(step.shape[axis])]
        builder, numbers = _built(step, plan, wanted, shape, maps)
    reads: dict[int, list[Place]] = {}
    for where in builder.places.values():
        reads.setdefault(id(where.buffer), []).append(where)
    stores: list[tuple[int, Place]] = []
    targets = [(target, at) for target in choose(reads) for at in maps]
    for number, (target, at) in zip(numbers, targets, strict=True):
        offset, strides = place(target.view.offset, target.view.strides, at)
        stores.append((number, Place(target.buffer, code(target.dtype), offset, strides, ())))
    return _finish(builder, stores, shape)


def _built(step: Step, plan: Plan, wanted: list[Node], shape: Shape, maps: list[Map]) -> tuple[Builder, list[int]]:
    """The values of a step over `shape`, and the number of each that is wanted at each map."""
    builder = Builder(shape, plan, {id(node) for node in step.outputs if node.kind not in (UPDATE, JOIN)})
    return builder, [builder.value(node, at if node.shape or not at else ()) for node in wanted for at in maps]


def _short(step: Step, builder: Builder) -> int | None:
    """An axis of a few indices to be written out, as its indices share work that its loop would do each time."""
    if any(node.kind in (UPDATE, JOIN) for node in step.outputs):
        return None
    scanned = {a for v in builder.values if isinstance(v.arg, Fold) and v.arg.keep != "last" for a in v.arg.axes}
    for axis, extent in enumerate(step.shape):
        if (
            axis in scanned
            or not 1 < extent <= FEW
            or len(step.outputs) * extent > OUTPUTS
            or extent * len(builder.values) > NODES
        ):
            continue
        if any(v.dom and not v.dom >> axis & 1 and v.op not in ("load", "iota", "arg") for v in builder.values):
            return axis
    return None


class _Arguments:
    """The argument row while it is laid out: pointers, one for each way of going through memory, and words."""

    def __init__(self, builder: Builder, order: list[int]) -> None:
        self.builder, self.order = builder, order
        self.entries: list[list[Any]] = []  # [pointer, dtype, access]
        self.words: list[int | float] = [builder.extents[a] for a in order]
        self.known: dict[Any, int] = {}

    def access(self, where: Place, access: str) -> tuple[int, tuple[int, ...]]:
        """Number of the operand that is accessed, and the classes of its strides."""
        codes = _codes(where, self.order, self.words)
        self.words.extend(where.gathers)
        strides = tuple(where.strides.get(a, 0) for a in self.order)
        key = (id(where.buffer), where.offset, where.dtype, strides, where.gathers)
        number = self.known.setdefault(key, len(self.entries))
        if number == len(self.entries):
            self.entries.append([_pointer(where, self.builder.extents), where.dtype, access])
        elif access not in self.entries[number][2]:
            self.entries[number][2] = "rw"
        return number, codes

    def scalars(self) -> tuple[tuple[int, str, Node], ...]:
        """Add the scalars' words; gives those that are a constant's value."""
        constants = []
        for dtype, scalar, node in self.builder.scalars:
            if node is not None:
                constants.append((len(self.words), dtype, node))
            self.words.extend(scalar_words(dtype, scalar))
        return tuple(constants)


def _finish(builder: Builder, stores: list[tuple[int, Place]], shape: Shape) -> Lowered:
    """Merge and renumber axes, classify strides, lay out the arguments."""
    order, domain = _axes(builder, stores, shape)
    arguments = _Arguments(builder, order)
    number = {axis: n for n, axis in enumerate(order)}
    values = _renumbered(builder, arguments, number)
    written = []
    for n, where in stores:
        operand, codes = arguments.access(where, "w")
        written.append(Store(operand, codes, n, _mask(domain, number)))
    constants, entries = arguments.scalars(), arguments.entries
    types = tuple(dtype for dtype, _, _ in builder.scalars)
    kernel = Kernel(len(order), values, tuple(written), _operands(entries), types)
    faults = tuple(builder.nodes[n] for n in sorted(builder.nodes))
    pointers = tuple(entry[0] for entry in entries)
    nbytes = sum(len(entry[2]) * pointer.nbytes for pointer, entry in zip(pointers, entries, strict=True))
    extents = tuple(builder.extents[a] for a in order)
    return Lowered(kernel, pointers, tuple(arguments.words), extents, faults, nbytes, constants)


def _axes(builder: Builder, stores: list[tuple[int, Place]], shape: Shape) -> tuple[list[int], int]:
    """The axes that remain, slowest first, and those (mask) that stores iterate over."""
    folds = [v.arg for v in builder.values if isinstance(v.arg, Fold)]
    domain = 0
    for axis, extent in enumerate(shape):
        if extent != 1:
            domain |= 1 << axis
    used = domain
    for value in builder.values:
        used |= value.dom
    return _merge(builder, stores, folds, domain, [a for a in builder.order if used >> a & 1]), domain


def _mask(dom: int, number: dict[int, int]) -> int:
    """A domain in the new numbers of the axes."""
    return sum(1 << n for axis, n in number.items() if dom >> axis & 1)


def _renumbered(builder: Builder, arguments: _Arguments, number: dict[int, int]) -> tuple[Value, ...]:
    """The values with the new numbers of the axes, their accesses laid out."""
    values: list[Value] = []
    for n, value in enumerate(builder.values):
        arg = value.arg
        if value.op == "load":
            where = builder.places[n]
            size = int(where.dtype[1:])
            picks = tuple(UNIT if stride == size else STRIDED for stride in where.gathers)
            arg = Load(*arguments.access(where, "r"), picks)
        elif isinstance(arg, Fold):
            arg = Fold(tuple(number[a] for a in arg.axes if a in number), arg.monoid, arg.keep)
        elif value.op == "iota":
            arg = number[arg]  # type: ignore[index]
        values.append(Value(value.op, value.dtype, value.src, arg, _mask(value.dom, number), value.fault))
    return tuple(values)


def _merge(
    builder: Builder, stores: list[tuple[int, Place]], folds: list[Any], domain: int, order: list[int]
) -> list[int]:
    """Join neighbouring axes that every access crosses evenly; returns the remaining axes, slowest first."""
    places = [*builder.places.values(), *(where for _, where in stores)]
    single = set(builder.iotas) | {f.axes[0] for f in folds if f.keep != "last"}
    position = len(order) - 2
    while position >= 0:
        outer, inner = order[position], order[position + 1]
        extent = builder.extents[inner]
        even = (
            outer not in single
            and inner not in single
            and (domain >> outer & 1) == (domain >> inner & 1)
            and all(_adjacent(f.axes, outer, inner) for f in folds)
            and all(w.strides.get(outer, 0) == w.strides.get(inner, 0) * extent for w in places)
        )
        if even:
            builder.extents[inner] *= builder.extents[outer]
            for where in places:
                where.strides.pop(outer, None)
            for n, value in enumerate(builder.values):
                dom = value.dom
                if dom >> outer & 1:
                    builder.values[n] = value._replace(dom=dom & ~(1 << outer) | 1 << inner)
                if isinstance(value.arg, Fold) and outer in value.arg.axes:
                    kept = tuple(a for a in value.arg.axes if a != outer)
                    builder.values[n] = builder.values[n]._replace(arg=value.arg._replace(axes=kept))
            folds[:] = [v.arg for v in builder.values if isinstance(v.arg, Fold)]
            order.pop(position)
        position -= 1
    return order


def _adjacent(axes: tuple[int, ...], outer: int, inner: int) -> bool:
    if outer not in axes and inner not in axes:
        return True
    return outer in axes and inner in axes and axes.index(inner) == axes.index(outer) + 1


def _codes(where: Place, order: list[int], words: list[int | float]) -> tuple[int, ...]:
    size = int(where.dtype[1:])
    codes = []
    for axis in order:
        stride = where.strides.get(axis, 0)
        codes.append(ABSENT if not stride else UNIT if stride == size else STRIDED)
        if codes[-1] == STRIDED:
            words.append(stride)
    return tuple(codes)


def _pointer(where: Place, extents: list[int]) -> Pointer:
    """The pointer of an access, with what it may touch; a gather may touch the whole buffer."""
    size = int(where.dtype[1:])
    if where.gathers:
        return Pointer(where.buffer, where.offset, 0, where.buffer.nbytes, None, size)
    counts, strides = tuple(extents[a] for a in where.strides), tuple(where.strides.values())
    low, high = span(View(where.offset, counts, strides), size)
    return Pointer(where.buffer, where.offset, low, high, (counts, tuple(map(abs, strides))), size)


def _operands(entries: list[list[Any]]) -> tuple[Operand, ...]:
    """Operands; a pointer is noalias unless another one that overlaps it is written."""
    written = [e[0] for e in entries if e[2] != "r"]
    result = []
    for pointer, dtype, access in entries:
        rivals = written if access == "r" else [e[0] for e in entries]
        alone = not any(o is not pointer and o.buffer is pointer.buffer and _meet(o, pointer) for o in rivals)
        result.append(Operand(dtype, access, alone))
    return tuple(result)


def _meet(a: Pointer, b: Pointer) -> bool:
    """Whether two pointers into one buffer may touch the same byte."""
    if a.high <= b.low or b.high <= a.low:
        return False
    if a.grid is None or b.grid is None:
        return True
    return not disjoint(View(a.low, *a.grid), View(b.low, *b.grid), a.itemsize, b.itemsize)


def scalar_words(dtype: str, value: Any) -> tuple[int | float, ...]:
    """A scalar argument as words of the argument row."""
    if dtype[0] == "c":
        return float(value.real), float(value.imag)
    if dtype[0] == "f":
        return (float(value),)
    return (int(value),)
