"""Plan: cut the pending graph into kernel steps, with the reason of every cut.

in: root nodes to evaluate; out: a `Plan`, steps in execution order, for fusion/lower.py.

Every pending node is computed inside its consumer's kernel unless it is *stored*.  A first pass, producers before
consumers, decides what is stored; a second groups stored nodes of one shape that depend on each other only
element by element (or not at all) into one kernel with several outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..runtime.tuples import NamedTuple
from .node import CONST, FAILED, FOLD, GATHER, IOTA, JOIN, MAP, PENDING, READ, READY, UPDATE, Node, Shape
from .view import Map, decompose, identity

# Limits of one kernel.  ROW: elements of a row that is read again by a second stage (it should stay in cache).
ROW, NODES, OUTPUTS = 1 << 16, 400, 12
# Work that is worth a store and a load instead of being repeated, in units of one addition.
REPEAT = 24
FEW = 4  # elements that a fold takes one after the other, without a loop
PLACED = 16  # operations on indices, which are repeated wherever they are read

_EXPENSIVE = {
    "divide": 4, "sqrt": 4, "floor_divide": 8, "remainder": 8, "fmod": 12, "power": 24, "float_power": 24, "exp":
    12, "exp2": 12, "expm1": 12, "log": 12, "log2": 12, "log10": 12, "log1p": 12, "sin": 14, "cos": 14, "tan": 20,
    "arcsin": 14, "arccos": 14, "arctan": 14, "arctan2": 20, "sinh": 14, "cosh": 14, "tanh": 14, "arcsinh": 20,
    "arccosh": 20, "arctanh": 20, "hypot": 12, "cbrt": 20, "logaddexp": 30, "logaddexp2": 30, "gcd": 30, "lcm": 30,
}  # fmt: skip


WRITTEN = frozenset("add multiply minimum maximum fmin fmax bitwise_and bitwise_or bitwise_xor".split())


class Cut(NamedTuple):
    """Why a node was stored instead of being computed inside its consumer."""

    node: Node
    reason: str


class Step(NamedTuple):
    """One kernel: nodes of one shape stored together, or in pieces of it; an update is a step of its own."""

    shape: Shape
    outputs: tuple[Node, ...]


class Plan(NamedTuple):
    """Steps in execution order, pending nodes in topological order, maps of the reads that stay inside kernels."""

    steps: list[Step]
    order: list[Node]
    stored: set[int]
    maps: dict[int, Map]
    cuts: list[Cut]
    written: set[int]  # folds of a few elements, which are written out one after the other


class _Info:
    """What the first pass knows of a pending node that is not stored."""

    __slots__ = ("members", "folded", "prefix", "views", "placed")

    def __init__(self, position: int) -> None:
        self.members = 1 << position  # bit set of the nodes computed with it, itself included
        self.folded = False  # contains a fold
        self.prefix = 0  # a fold inside is broadcast along the axes from here on (0: none is)
        self.views: set[Map] | None = None  # distinct windows through which it is read
        self.placed = True  # made of indices and numbers alone, all of them integers


def pending_order(roots: Iterable[Node]) -> list[Node]:
    """Pending nodes that the roots need, producers first; no recursion.

    A node that needs a failed one fails with it, and is left out.
    """
    seen: set[int] = set()
    order: list[Node] = []
    stack = [(node, False) for node in roots]
    stack.reverse()
    while stack:
        node, ready = stack.pop()
        if ready:
            for source in node.src:
                if source.state != PENDING and source.state != READY:  # failed, or interrupted before its commit
                    node.state, node.error, node.src = FAILED, source.error, ()
                    break
            else:
                order.append(node)
        elif id(node) not in seen and node.state == PENDING:
            seen.add(id(node))
            stack.append((node, True))
            for source in reversed(node.src):
                if source.state == PENDING and id(source) not in seen:
                    stack.append((source, False))
    return order


def plan(roots: list[Node], order: list[Node], live: Callable[[Node], bool]) -> Plan:
    """Cut the graph below `roots` into steps.

    Parameters
    ----------
    roots
        Pending nodes whose values are wanted.
    order
        Every pending node below them, producers first (`pending_order`).
    live
        Whether a pending node has a handle (or a node outside the graph) that can still ask for it.
    """
    chooser = _Chooser(roots, _lasting(order, {id(node) for node in roots}, live))
    for node in order:
        chooser.visit(node)
    steps = _group(order, chooser)
    return Plan(steps, order, chooser.stored, chooser.maps, chooser.cuts, chooser.written)


def _lasting(order: list[Node], roots: set[int], live: Callable[[Node], bool]) -> set[int]:
    """Nodes that can be needed again: somebody refers to them, or to a pending node that needs them."""
    found: set[int] = set()
    for node in reversed(order):
        if id(node) not in roots and (id(node) in found or live(node)):
            found.add(id(node))
            found.update(id(source) for source in node.src)
    return found


class _Chooser:
    """First pass: which nodes are stored."""

    def __init__(self, roots: list[Node], lasting: set[int]) -> None:
        self.stored = {id(node) for node in roots}
        self.lasting = lasting
        self.maps: dict[int, Map] = {}
        self.infos: dict[int, _Info] = {}
        self.cuts: list[Cut] = []
        self.written: set[int] = set()
        self.weights: list[int] = []  # by position in the order

    def weight(self, info: _Info) -> int:
        """Work of a node with all that is computed inside it, in units of one addition."""
        members, total, position = info.members, 0, 0
        while members:
            skip = (members & -members).bit_length() - 1
            position += skip
            total += self.weights[position]
            members >>= skip + 1
            position += 1
        return total

    def store(self, node: Node, reason: str) -> None:
        if id(node) not in self.stored:
            self.stored.add(id(node))
            self.cuts.append(Cut(node, reason))

    def visit(self, node: Node) -> None:
        position = len(self.weights)
        self.weights.append(_EXPENSIVE.get(node.op, 1) if node.kind == MAP else 1)
        info = self.infos[id(node)] = _Info(position)
        if node.demanded and id(node) in self.lasting:
            self.store(node, "asked for again")
        if node.kind == READ:
            self._read(node)
        elif node.kind == FOLD:
            self._fold(node)
        elif node.kind == GATHER and node.src[0].state == PENDING:
            self.store(node.src[0], "table of a gather")
        elif node.kind == UPDATE and node.src[0].state == PENDING:
            self.store(node.src[0], "partial write")
        elif node.kind == JOIN:
            self.store(node, "pieces joined")
        self._collect(node, info)
        if info.members.bit_count() > NODES:
            inside = [s for s in node.src if self._inside(s)]
            if inside:
                self.store(max(inside, key=lambda s: self.infos[id(s)].members.bit_count()), "kernel size")
                info = self.infos[id(node)] = _Info(position)
                self._collect(node, info)

    def _inside(self, node: Node) -> bool:
        return node.state == PENDING and id(node) not in self.stored

    def _collect(self, node: Node, info: _Info) -> None:
        """Sums over the sources; what is stored counts as a plain load."""
        info.placed = node.kind in (CONST, IOTA, MAP, READ) and node.dtype.kind in "bi"
        for source in node.src:
            if not self._inside(source):
                info.placed = False
                continue
            inner = self.infos[id(source)]
            info.placed = info.placed and inner.placed
            info.members |= inner.members
            info.folded |= inner.folded
            if node.kind != FOLD:
                info.prefix = max(info.prefix, inner.prefix)
        if node.kind == FOLD:
            info.folded = id(node) not in self.written
        elif node.kind == READ and self._inside(node.src[0]) and self.infos[id(node.src[0])].folded:
            mapping = self.maps[id(node)]
            if not _same_elements(mapping, node, node.src[0]):
                info.prefix = max(info.prefix, *(terms[-1][0] + 1 for _, terms in mapping if terms))

    def _read(self, node: Node) -> None:
        source, view = node.src[0], node.arg
        if not self._inside(source):
            return
        mapping = None
        if source.dtype == node.dtype and source.kind not in (UPDATE, JOIN):
            mapping = decompose(view, source.shape, source.dtype.itemsize)
        if mapping is None:
            self.store(source, "memory seen in another shape or type")
            return
        self.maps[id(node)] = mapping
        inner = self.infos[id(source)]
        if _same_elements(mapping, node, source) and (not inner.prefix or mapping == identity(node.shape)):
            return
        if inner.folded:
            reason = _unstageable(mapping, node.shape, inner)
            if reason:
                self.store(source, reason)
            return
        if inner.views is None:
            inner.views = set()
        inner.views.add(mapping)
        if len(inner.views) > 1 and self.weight(inner) * (len(inner.views) - 1) > REPEAT:
            self.store(source, "read through several windows")
        elif node.size > FEW * source.size:
            weight = self.weight(inner)
            if weight > 3 and node.size * weight > 1 << 12 and not self._placed(source):
                self.store(source, "broadcast")

    def _placed(self, node: Node) -> bool:
        """Whether a value is a few operations on the indices alone: such as say where elements come from."""
        info = self.infos[id(node)]
        return info.placed and info.members.bit_count() <= PLACED

    def _fold(self, node: Node) -> None:
        source = node.src[0]
        _, axes, keep = node.arg
        if keep != "last":
            self.store(node, "scan")
        elif _few(node) and not (self._inside(source) and self.infos[id(source)].folded):
            self.written.add(id(node))
        if not self._inside(source) or id(node) in self.written:
            return
        inner = self.infos[id(source)]
        if inner.prefix and min(axes) < inner.prefix and len(axes) < len(source.shape):
            self.store(source, "fold across rows")
        elif inner.prefix and keep != "last":
            self.store(source, "scan of rows")


def _few(node: Node) -> bool:
    """Whether a fold combines a few elements that need no loop, each as an operation would."""
    monoid, axes, _ = node.arg
    source = node.src[0]
    if source.dtype != node.dtype or node.dtype.char == "e" or monoid not in WRITTEN:
        return False
    return 1 < math.prod(source.shape[a] for a in axes) <= FEW


def _same_elements(mapping: Map, node: Node, source: Node) -> bool:
    """Whether a read only adds or drops axes of one element."""
    if node.size != source.size:
        return False
    last = -1
    for constant, terms in mapping:
        if constant or len(terms) > 1 or (terms and (terms[0][1] != 1 or terms[0][0] < last)):
            return False
        if terms:
            last = terms[0][0]
    return True


def _unstageable(mapping: Map, shape: Shape, inner: _Info) -> str:
    """Why a read of a folded value cannot be a later stage of the same kernel; "" if it can."""
    lead = 0
    for constant, terms in mapping:
        if not terms:
            if constant:
                return "window on a folded value"
            continue
        if len(terms) != 1 or terms[0][1] != 1 or constant or terms[0][0] < lead:
            return "window on a folded value"
        if any(shape[a] != 1 for a in range(lead, terms[0][0])):
            return "fold across the outer axis"
        lead = terms[0][0] + 1
    if lead == 0:
        return "fold of the whole array"
    if math.prod(shape[lead:]) > ROW:
        return "row too long to be read twice"
    if inner.prefix:
        return "broadcast of a broadcast fold"
    return ""


def _needs(order: list[Node], stored: set[int]) -> dict[int, dict[int, tuple[Node, bool]]]:
    """For each node the stored nodes that its kernel needs, and whether each is read at the same index only.

    Known only when the first pass is over: a later consumer may have had a node stored.
    """
    found: dict[int, dict[int, tuple[Node, bool]]] = {}
    for node in order:
        needs = found[id(node)] = {}
        for source in node.src:
            if source.state != PENDING:
                continue
            same = node.kind == JOIN or (node.kind == MAP and source.shape == node.shape)
            below = {id(source): (source, True)} if id(source) in stored else found[id(source)]
            for key, (dep, aligned) in below.items():
                old = needs.get(key)
                needs[key] = (dep, aligned and same and (old is None or old[1]))
    return found


def _space(node: Node) -> Shape:
    """The shape that a stored node's kernel runs over."""
    return node.src[0].shape if node.kind == JOIN else node.shape


def _stores(nodes: list[Node]) -> int:
    return sum(len(node.src) if node.kind == JOIN else 1 for node in nodes)


def _group(order: list[Node], chooser: _Chooser) -> list[Step]:
    """Second pass: stored nodes of one shape and level share a kernel."""
    needs = _needs(order, chooser.stored)
    placed: dict[int, tuple[int, int]] = {}
    groups: dict[tuple[int, Shape, int], list[Node]] = {}
    members: dict[tuple[int, Shape, int], int] = {}
    for node in order:
        if id(node) not in chooser.stored:
            continue
        info, shape = chooser.infos[id(node)], _space(node)
        depth = number = 0
        for dep, same in needs[id(node)].values():
            deep, nth = placed[id(dep)]
            if not (same and dep.shape == shape and node.kind != UPDATE and dep.kind not in (UPDATE, JOIN)):
                deep, nth = deep + 1, 0
            depth, number = max((depth, number), (deep, nth))
        if node.kind == UPDATE:
            number = -1 - len(groups)
        key = (depth, shape, number)
        while key in groups and (
            _stores([*groups[key], node]) > OUTPUTS or (members[key] | info.members).bit_count() > NODES + NODES // 2
        ):
            number += 1
            key = (depth, shape, number)
        placed[id(node)] = (depth, number)
        groups.setdefault(key, []).append(node)
        members[key] = members.get(key, 0) | info.members
    ordered = sorted(groups, key=lambda key: (key[0], key[2] < 0, key[2]))
    return [Step(key[1], tuple(groups[key])) for key in ordered]
