"""One look at a graph: its nodes by first visit, and the key under which its recipe is kept.

in: the roots of an evaluation; out: a `Graph`, and a key that holds everything planning looks at: topology, operations,
types, shapes, views, who is alive, which memory may be taken over.  Values of scalars and addresses are not in it.
`scan.pyx` is the same in C.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..runtime.config import settings
from .memory import _BASE, _counts
from .node import CONST, PENDING, READY, UPDATE, Node

Key = Hashable

SPAN = 1 << 24  # numbers that one look at a graph may give; the upper half counts the leaves
HALF = SPAN >> 1

_base = SPAN  # the number of the first node found by the next look; what is lower is from earlier ones


class Graph:
    """The pending graph below some roots, by first visit, and what its key is made of.

    Attributes
    ----------
    order, leaves : list of Node
        Pending nodes, and nodes in memory that they read.
    """

    __slots__ = ("order", "leaves", "uses", "reads", "parts")

    def __init__(self) -> None:
        self.order: list[Node] = []
        self.leaves: list[Node] = []
        self.uses: list[int] = []  # references to each pending node from roots and graph
        self.reads: list[int] = []  # the same of each leaf
        self.parts: list[Any] = []

    def kept(self) -> Any:
        """What has to stay alive as long as the key is in use."""
        return None


def scan(roots: list[Node]) -> Graph | None:
    """Look at the pending graph below `roots`; None if something there has failed."""
    global _base
    base = _base
    _base = base + SPAN  # at once: an interrupted look leaves no number that the next could mistake for its own
    graph = Graph()
    order, leaves, uses, reads, parts = graph.order, graph.leaves, graph.uses, graph.reads, graph.parts
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        number = node.number - base
        if number >= 0:
            parts.append(-number)
            if number < HALF:
                uses[number - 1] += 1
            else:
                reads[number - HALF] += 1
            continue
        state = node.state
        if state == PENDING:
            order.append(node)
            uses.append(1)
            node.number = base + len(order)
            kind = node.kind
            if kind == CONST:
                parts.append(node.dtype)
            else:
                sources = node.src
                parts += (
                    kind, node.op, node.dtype, node.fault, node.shape, node.arg, node.demanded > 0, len(sources)
                )  # fmt: skip
                stack += sources
        elif state == READY:
            node.number = base + HALF + len(leaves)
            leaves.append(node)
            reads.append(1)
            parts += (node.shape, node.dtype)
        else:
            return None
    return graph


def key_of(graph: Graph, place: str) -> Key | None:
    """The key of a graph evaluated on the device `place`, or None where memory is seen under two names."""
    parts = graph.parts
    live = bit = 1
    for found, used, node in zip(_counts(graph.order), graph.uses, graph.order, strict=True):
        bit <<= 1
        if found - used - node.taped > _BASE and node.kind != CONST:
            live |= bit
    parts += (place, settings.donate, live)
    buffers = set()
    for found, used, node in zip(_counts(graph.leaves), graph.reads, graph.leaves, strict=True):
        buffer = node.buffer
        if buffer is None or id(buffer) in buffers:
            return None
        buffers.add(id(buffer))
        shared = buffer.shared  # such memory is written where it is
        free = found - used - node.taped <= _BASE and not shared and buffer.writeable and buffer.nbytes == node.nbytes
        parts += (free, (node.kind == UPDATE) + 2 * shared, buffer.nbytes)
    return tuple(parts)


MEMORY = 3  # parts of the key that tell of a leaf's memory


def decided(graph: Graph, key: Any) -> str:
    """What the key says beside the nodes: how memory may be used, and who is alive."""
    return repr(key[-2 - MEMORY * len(graph.leaves) :])
