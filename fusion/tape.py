"""Tape: the pending nodes in the order in which they were recorded, and the bounds on them.

in: every recorded node; out: the nodes to evaluate when a bound is passed.

The bound is on bytes kept alive by pending work and on the number of pending nodes.  Once a soft bound is passed the
tape is flushed where it started recurring (the site of its first node comes round again: a loop's boundary; or the
first site that does, where what came before the loop is on the tape too), at four times the bound anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..runtime.config import watch
from .memory import idle, referred, retained
from .node import FOLD, PENDING, Node

HARD = 4  # times the soft bound
_ROOM = 1 << 40  # bytes beyond which a stretched array may have got too large for any memory
_MOST = 1 << 60  # sums of more would not fit a machine's integers
SWEPT = 8  # nodes up to which those that nobody can ask for stay where they are

nodes: list[Node] = []
pending_bytes = 0
first_site: Any = None
_heads: set[tuple[int, int]] | None = None  # where a loop may begin; not known before a soft bound is passed
_bound = _bound_bytes = 0
_sweep = SWEPT  # number of nodes at which they are looked for


def _bounds(count: int | None = None, nbytes: int | None = None) -> None:
    global _bound, _bound_bytes
    if count is not None:
        _bound = count
    if nbytes is not None:
        _bound_bytes = nbytes


watch("bound", lambda value: _bounds(count=value))
watch("bound_bytes", lambda value: _bounds(nbytes=value))


def due(node: Node) -> bool:
    """Whether the tape should be flushed before `node` is recorded."""
    global pending_bytes, _heads
    count = len(nodes)
    if count < _bound and pending_bytes < _bound_bytes:
        return False
    if pending_bytes >= _bound_bytes:
        pending_bytes = retained(nodes)  # what is recorded takes memory only where somebody holds it
    if count >= HARD * _bound or pending_bytes >= HARD * _bound_bytes:
        return True
    if count < _bound and pending_bytes < _bound_bytes:
        return False
    # a single call may record many nodes at one site: the boundary is where the tape comes back to its first
    if _same(node.site, first_site):
        return count == 1 or not _same(nodes[-1].site, first_site)
    if _heads is None:
        _heads = _beginnings()
    return _place(node) in _heads and not _same(nodes[-1].site, node.site)


def _place(node: Node) -> tuple[int, int]:
    return (id(node.site[0]), node.site[1]) if node.site is not None else (0, 0)


def _beginnings() -> set[tuple[int, int]]:
    """The first place on the tape that has come round; all places, of which the next one will be, if none has."""
    found: dict[tuple[int, int], tuple[int, int]] = {}  # first and last position
    begins: list[tuple[int, tuple[int, int]]] = []
    for position, node in enumerate(nodes):
        place = _place(node)
        first, last = found.get(place, (position, position))
        if last < position - 1:
            begins.append((first, place))
        found[place] = first, position
    return {min(begins)[1]} if begins else set(found)


def _same(site: Any, other: Any) -> bool:
    """Whether two sites are one place of one code object; what else they hold is not compared."""
    if site is None or other is None:
        return site is other
    return site[0] is other[0] and site[1] == other[1]


def add(node: Node, nbytes: int = -1) -> None:
    """Put a node on the tape that keeps so many bytes alive, or will take them."""
    global pending_bytes, first_site, _heads
    if nbytes < 0:
        nbytes = _kept(node)
        if nbytes > _ROOM and (node.kind != FOLD or node.arg[2] != "last"):
            numpy.empty(node.shape, node.dtype)  # raises what NumPy does for an array that cannot be
    if not nodes:
        first_site, _heads = node.site, None
        pending_bytes = 0
    nodes.append(node)
    node.taped = True
    pending_bytes += nbytes


def _kept(node: Node) -> int:
    """Bytes that the node keeps alive, or will take."""
    if node.kind == FOLD:
        return min(node.src[0].nbytes, _MOST) if node.src else 0
    shape = node.shape
    if not shape:
        return 0
    size = node.dtype.itemsize
    for extent in shape:
        size *= extent
    return min(size, _MOST)


def passed(order: list[Node]) -> None:
    """Forget what an evaluation has computed, and what it computed on the way and nobody needs any more."""
    for node in order:
        if not node.demanded:
            node.taped = False
    order.clear()
    node = None  # type: ignore[assignment]
    compact()


def compact(thorough: bool = False) -> None:
    """Forget nodes that are no longer pending, or no longer marked as `taped`.

    Nodes that only the tape refers to are looked for when what is there keeps much memory, when it has doubled, or
    when asked.
    """
    global pending_bytes, _sweep
    if not nodes:
        return
    keep = []
    for node in nodes:
        if node.state == PENDING and node.taped:
            keep.append(node)
        else:
            node.taped = False
    nodes[:] = keep
    if nodes:
        del keep, node  # they would count as somebody who refers to them
        if thorough or len(nodes) >= _sweep or 8 * pending_bytes >= _bound_bytes:
            for position in idle(nodes):
                nodes[position].taped = False
                del nodes[position]
            _sweep = max(SWEPT, 2 * len(nodes))
    pending_bytes = sum(map(_kept, nodes))


def taped() -> set[int]:
    """Ids of the nodes on the tape."""
    return {id(node) for node in nodes}


def wanted() -> list[Node]:
    """Pending nodes that no other node on the tape refers to, or that a handle can still ask for."""
    return [nodes[position] for position in referred(nodes)]
