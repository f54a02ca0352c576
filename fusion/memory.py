"""Liveness and donation: who may still ask for a value, and whose memory a step may take over.

A buffer may be overwritten by a step only if every unmaterialised node that depends on it, transitively, is dead or an
output of that step, nobody outside looks at it, and that step is the last to read it.  Whether a node has a handle is
read from its reference count: every reference that planning itself holds is known, what is left is a handle or a
node outside this graph.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from sys import getrefcount
from typing import Any

import numpy

from ..runtime import buffer as buffers
from ..runtime import trace
from ..runtime.buffer import Buffer, allocate
from ..runtime.tuples import NamedTuple
from .lower import Place, Target, code
from .node import JOIN, LEAF, PENDING, READY, UPDATE, Base, Node, Shape
from .plan import Plan, Step, pending_order
from .view import View, contiguous, decompose, disjoint, identity, place

WHOLE = 1 << 18  # bytes of a base up to which all of it is copied at once, rather than strips round a box


def _counts(nodes: list[Node]) -> list[int]:
    return [getrefcount(node) for node in nodes]


# References that a node has when a list and nothing else holds it, as `_counts` sees them (differs by interpreter).
_BASE = _counts([Node(LEAF, "", numpy.dtype("b1"), ())])[0]


class Liveness:
    """References from outside to the pending graph below `roots`, found before planning.

    Parameters
    ----------
    roots : list of Node
        Pending nodes to evaluate.
    order : list of Node
        Every pending node below them (`pending_order`).
    taped : collection of int
        Ids of the nodes that the tape holds.
    """

    def __init__(self, roots: list[Node], order: list[Node], taped: Collection[int]) -> None:
        self.order = order
        self.leaves: list[Node] = []
        edges = self._edges()
        held = {id(node): 1 for node in roots}
        self.outside: dict[int, int] = {}
        for nodes in (self.order, self.leaves):
            counts = _counts(nodes)
            for position, found in enumerate(counts):
                key = id(nodes[position])
                self.outside[key] = found - _BASE - edges.get(key, 0) - (key in taped) - held.get(key, 0)

    def _edges(self) -> dict[int, int]:
        """References from the graph's own nodes, by node; collects the leaves."""
        edges: dict[int, int] = {}
        for node in self.order:
            for source in node.src:
                key = id(source)
                if key not in edges:
                    edges[key] = 0
                    if source.state == READY:
                        self.leaves.append(source)
                edges[key] += 1
        return edges

    def live(self, node: Node) -> bool:
        """Whether a handle, or a node outside the graph, refers to `node`."""
        return self.outside.get(id(node), 1) > 0


class Lifetimes:
    """When each buffer is read for the last time, and which of them are free to take over after that."""

    def __init__(self, liveness: Liveness, plan: Plan) -> None:
        lingering: set[int] = set()
        held: set[int] = set()
        for node in reversed(plan.order):
            if id(node) not in plan.stored and (id(node) in held or liveness.live(node)):
                lingering.add(id(node))
                held.update(id(source) for source in node.src)
        self.lingering = lingering
        bits: dict[int, int] = {}
        masks: dict[int, int] = {}
        for node in plan.order:
            mask = 0
            for source in node.src:
                if source.state == READY or id(source) in plan.stored:
                    mask |= 1 << bits.setdefault(id(source), len(bits))
                else:
                    mask |= masks[id(source)]
            masks[id(node)] = mask
        self.last: dict[int, int] = {}
        for position, step in enumerate(plan.steps):
            mask = 0
            for node in step.outputs:
                mask |= masks[id(node)]
            for key, bit in bits.items():
                if mask >> bit & 1:
                    self.last[key] = position
        self.free = {key for key in bits if key not in held and liveness.outside.get(key, 1) <= 0}

    def donors(self, step: Step, position: int) -> list[Node]:
        """Nodes in memory whose buffers `step`, the one at `position`, may take over."""
        found: dict[int, Node] = {}
        seen: set[int] = set()
        stack = list(step.outputs)
        while stack:
            for source in stack.pop().src:
                key = id(source)
                if key in seen:
                    continue
                seen.add(key)
                if source.state == PENDING:
                    stack.append(source)
                elif key in self.free and self.last.get(key) == position and source.buffer is not None:
                    if not source.buffer.shared:
                        found[key] = source
        return list(found.values())


class Move(NamedTuple):
    """A copy beside a launch: of what lies outside `view` of a base, or, without one, of dense values into it."""

    source: Buffer
    target: Buffer
    base: Node | None
    view: View
    dtype: numpy.dtype[Any]
    boxed: Any = None  # as `_boxed` gives it

    def run(self) -> None:
        """Copy."""
        if self.base is not None:
            copy_rest(self.source, self.target, self.base, self.view, self.boxed)
            return
        dense = contiguous(self.view.shape, self.dtype.itemsize)
        _copy(self.source, View(0, self.view.shape, dense), self.target, self.view, self.dtype)


class Outputs:
    """Where the outputs of one step go: new memory, a donor's, or the memory that an update writes.

    An update whose value reads the overwritten memory elsewhere than at the index written is *renamed* where most of
    the base is written (the new version gets memory of its own, the rest is copied), else computed aside and copied.
    """

    def __init__(self, step: Step, donors: list[Node]) -> None:
        self.step = step
        self.donors = donors
        self.taken: list[Node] = []
        self.buffers: list[Buffer] = []  # by output: where the value will be
        self.asides: list[Buffer] = []  # memory that the launch writes and that is copied from afterwards
        self.before: list[Move] = []
        self.after: list[Move] = []

    def choose(self, reads: dict[int, list[Place]]) -> list[Target]:
        """The target of each output, or piece of one, given the kernel's accesses by buffer."""
        found: list[Target] = []
        for node in self.step.outputs:
            if node.kind == JOIN:
                found += self._joined(node)
            else:
                found.append(self._update(node, reads) if node.kind == UPDATE else self._fresh(node, reads))
        return found

    def prepare(self) -> None:
        """Copies that come before the launch."""
        for move in self.before:
            move.run()

    def finish(self) -> None:
        """Copies that come after it."""
        for move in self.after:
            move.run()

    def _fresh(self, node: Node, reads: dict[int, list[Place]]) -> Target:
        view = View(0, node.shape, contiguous(node.shape, node.dtype.itemsize))
        offset, strides = place(0, view.strides, identity(node.shape))
        for donor in self.donors:
            buffer = donor.buffer
            assert buffer is not None
            if buffer.nbytes != node.nbytes or donor.dtype != node.dtype or not buffer.writeable:
                continue
            name = code(node.dtype)
            if all(
                p.offset == offset and p.strides == strides and p.dtype == name and not p.gathers
                for p in reads.get(id(buffer), ())
            ):
                self.donors.remove(donor)
                self.taken.append(donor)
                break
        else:
            buffer = allocate(node.nbytes)
        self.buffers.append(buffer)
        return Target(buffer, view, node.dtype)

    def _joined(self, node: Node) -> list[Target]:
        """One piece after the other in new memory."""
        buffer = allocate(node.nbytes)
        self.buffers.append(buffer)
        piece, strides = node.src[0].shape, contiguous(node.shape, node.dtype.itemsize)
        step = piece[node.arg] * strides[node.arg]
        return [Target(buffer, View(k * step, piece, strides), node.dtype) for k in range(len(node.src))]

    def _update(self, node: Node, reads: dict[int, list[Place]]) -> Target:
        base, view = node.src[0], node.arg
        old = base.buffer
        assert old is not None
        hazard = any(not _harmless(p, view, node) for p in reads.get(id(old), ()))
        most = 2 * math.prod(view.shape) * node.dtype.itemsize >= base.nbytes
        if node.op == "rename" or (hazard and most and not old.shared):
            new = allocate(old.nbytes)
            boxed = _boxed(base, view, node.dtype) if base.nbytes == old.nbytes > WHOLE else None
            rest = self.before if boxed is None else self.after  # strips once old and new are where the kernel runs
            rest.append(Move(old, new, base, view, node.dtype, boxed))
            self.buffers.append(new)
            return Target(new, view, node.dtype)
        self.buffers.append(old)
        if not hazard:
            return Target(old, view, node.dtype)
        dense = contiguous(view.shape, node.dtype.itemsize)
        aside = allocate(math.prod(view.shape) * node.dtype.itemsize)
        self.asides.append(aside)
        self.after.append(Move(aside, old, None, view, node.dtype))
        return Target(aside, View(0, view.shape, dense), node.dtype)


def _harmless(where: Place, view: View, node: Node) -> bool:
    """Whether an access to the memory that `node` overwrites is at the index written, or nowhere near it."""
    offset, strides = place(view.offset, view.strides, identity(view.shape))
    if not where.gathers and where.offset == offset and where.strides == strides and where.dtype == code(node.dtype):
        return True
    if where.gathers or any(axis >= len(view.shape) for axis in where.strides):
        return False
    window = View(where.offset, view.shape, tuple(where.strides.get(a, 0) for a in range(len(view.shape))))
    return disjoint(window, view, int(where.dtype[1:]), node.dtype.itemsize)


def _copy(source: Buffer, seen: View, target: Buffer, window: View, dtype: numpy.dtype[Any]) -> None:
    if buffers.carry is not None:
        begin, strides = (seen.offset, window.offset), (seen.strides, window.strides)
        if buffers.carry(source, target, dtype.itemsize, seen.shape, begin, strides):
            return
    values = source.view(dtype, seen.shape, seen.offset, seen.strides, write=False)
    target.view(dtype, window.shape, window.offset, window.strides)[...] = values
    trace.count("host_bytes", 2 * values.nbytes)


def _boxed(base: Node, view: View, dtype: numpy.dtype[Any]) -> Any:
    """By axis of the base, where a view lies that is a box of its elements; None for any other."""
    mapping = decompose(view, base.shape, dtype.itemsize) if dtype == base.dtype else None
    if mapping is None or not all(not t or (len(t) == 1 and t[0][1] == 1) for _, t in mapping):
        return None
    return mapping


def copy_rest(old: Buffer, new: Buffer, base: Node, view: View, mapping: Any) -> None:
    """Copy from `old` to `new` what lies outside `view`: strips round a box, or everything where it is no box."""
    if mapping is None:
        whole = View(0, (old.nbytes,), (1,))
        _copy(old, whole, new, whole, numpy.dtype("u1"))
        return
    steps = contiguous(base.shape, base.dtype.itemsize)
    inner: list[slice] = []
    for start, terms in mapping:
        stop = start + (view.shape[terms[0][0]] if terms else 1)
        for side in (slice(0, start), slice(stop, None)):
            strip = _box((*inner, side), base.shape, steps)
            if 0 not in strip.shape:
                _copy(old, strip, new, strip, base.dtype)
        inner.append(slice(start, stop))


def _box(slices: tuple[slice, ...], shape: Shape, steps: Shape) -> View:
    """The view of a dense array that slices of its first axes give."""
    ranges = [range(*s.indices(n)) for s, n in zip(slices, shape, strict=False)]
    offset = sum(r.start * step for r, step in zip(ranges, steps, strict=False))
    return View(offset, (*map(len, ranges), *shape[len(ranges) :]), steps)


def idle(nodes: list[Node]) -> list[int]:
    """Positions, last first, of nodes that nothing outside the list refers to, directly or through other idle ones."""
    edges: dict[int, int] = {}
    found = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        key = id(node)
        if getrefcount(node) - edges.get(key, 0) <= _LISTED:
            found.append(position)
            gone = [node]
            for node in gone:  # with reads and casts between, which are on no tape, once nobody else refers to them
                for source in node.src:
                    key = id(source)
                    edges[key] = edges.get(key, 0) + 1
                    if _between(source) and getrefcount(source) - edges[key] < _LISTED:
                        gone.append(source)
                    del source  # it would count as somebody who refers to the node looked at next
            del gone
    return found


def _between(node: Node) -> bool:
    """Whether a pending node was made on the way to another one, and is on no tape."""
    return node.state == PENDING and not node.taped


def referred(nodes: list[Node]) -> list[int]:
    """Positions of nodes that something other than the list, its own nodes, and what lies between them refers to."""
    edges: dict[int, int] = {}
    between: list[Node] = []
    for node in nodes:
        for source in node.src:
            key = id(source)
            edges[key] = edges.get(key, 0) + 1
            if edges[key] == 1 and _between(source):
                between.append(source)
            del source
    for node in between:
        if getrefcount(node) - edges[id(node)] > _LISTED:
            continue  # somebody else has it
        for source in node.src:
            key = id(source)
            edges[key] = edges.get(key, 0) + 1
            if edges[key] == 1 and _between(source):
                between.append(source)
            del source
    found = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        if getrefcount(node) - edges.get(id(node), 0) > _LISTED:
            found.append(position)
    found.reverse()
    return found


def retained(nodes: list[Node]) -> int:
    """Bytes that only pending work keeps alive, or that its results will take."""
    total = sum(nodes[position].nbytes for position in referred(nodes))
    edges: dict[int, int] = {}
    leaves: list[Node] = []
    for node in nodes:
        for source in node.src:
            if source.state == READY:
                if id(source) not in edges:
                    leaves.append(source)
                edges[id(source)] = edges.get(id(source), 0) + 1
    node = source = None  # type: ignore[assignment]
    for found, leaf in zip(_counts(leaves), leaves, strict=True):
        if found - _BASE <= edges[id(leaf)] and leaf.buffer is not None:
            total += leaf.buffer.nbytes
    return total


def _listed() -> int:
    nodes = [Node(LEAF, "", numpy.dtype("b1"), ())]
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        return getrefcount(node)
    return 0


_LISTED = _listed()


def _readers(base: Base) -> int:
    return getrefcount(base.node)


_UNREAD = _readers(Base(Node(LEAF, "", numpy.dtype("b1"), ())))


def unread(base: Base) -> bool:
    """Whether no pending node reads the current version of `base`."""
    return _readers(base) <= _UNREAD


def pending_readers(base: Base, update: Node, taped: Collection[int]) -> bool:
    """Whether pending nodes other than those below `update` read the current version of `base`."""
    inside = sum(_uses(node, base) for node in pending_order([update]))
    return _readers(base) - inside - (id(base.node) in taped) > _UNREAD


def lasting(base: Base, update: Node, taped: Collection[int]) -> list[Node]:
    """Values below `update` that need the current version of `base` and can still be asked for afterwards.

    They have to be kept when they are computed: later the memory that they need is overwritten.
    """
    found: list[Node] = []
    liveness = Liveness([update], pending_order([update]), taped)
    needs: set[int] = set()
    for node in liveness.order:
        if node is not update and any(source is base.node or id(source) in needs for source in node.src):
            needs.add(id(node))
            if id(node) in taped and liveness.live(node):
                found.append(node)
    return found


def _uses(node: Node, base: Base) -> int:
    return sum(source is base.node for source in node.src)
