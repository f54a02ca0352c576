"""Nodes: immutable values of the expression graph, one for each version of a base.

in: offarray/_record.py makes them; out: fusion/plan.py cuts the pending ones into steps.

A node's value is a dense array of `shape`, C-contiguous when in memory.  Nodes refer to nodes and, once ready,
to their buffer; nothing refers back.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from ..runtime.buffer import Buffer

Shape = tuple[int, ...]

# Kinds of node.  MAP: `op` names a NumPy ufunc, "cast" or "select", sources broadcast-free (shape equal or ()).
# READ: src[0] seen through a View.  FOLD: arg = (monoid, axes, keep).  CONST: arg = numpy scalar.
# IOTA: arg = axis; the index along it, as int64.  GATHER: src = (table, index...), arg = Gather.
# UPDATE: src = (old version, value[, mask]); arg = View of the old version's memory that `value` overwrites.
# JOIN: src = pieces of one shape; arg = the axis along which they follow each other.
# LEAF: born ready (adopted or host-made memory).
LEAF, CONST, IOTA, MAP, READ, FOLD, GATHER, UPDATE, JOIN = range(9)
KINDS = ("leaf", "const", "iota", "map", "read", "fold", "gather", "update", "join")

PENDING, RUNNING, READY, FAILED, CONSUMED = range(5)

# Numbers, not the nodes themselves, tell a handle whether its cached view is current: a cache must keep no node alive.
_serial = itertools.count(1000)


def renew(node: Node) -> None:
    """Make every array that was seen of the node's memory out of date."""
    node.serial = next(_serial)


class Node:
    """One value.

    Attributes
    ----------
    kind, op, dtype, shape, src, arg
        What it is; `dtype` is a `numpy.dtype`, `src` a tuple of nodes.
    fault : int
        Fault bits that NumPy would warn of (captured errstate), 0 for none.
    site : tuple or None
        (code object, instruction offset) of the user's line that recorded it.
    buffer : Buffer or None
        Memory, once ready.
    state : int
        PENDING, RUNNING, READY, FAILED or CONSUMED (its buffer was given to a later version).
    demanded : int
        How often the node was computed inside another node's kernel without being stored.
    error : BaseException or None
        Why it failed.
    alias : str
        The operation as NumPy's messages name it, where that is not `op`.
    taped : bool
        Whether the tape holds it.
    number : int
        Where the last look at a graph found it (`replay.scan`).
    """

    __slots__ = (
        "kind", "op", "dtype", "shape", "src", "arg", "fault", "site", "buffer", "state", "demanded", "error", "serial",
        "alias", "taped", "number",
    )  # fmt: skip

    def __init__(
        self, kind: int, op: str, dtype: numpy.dtype[Any], shape: Shape, src: tuple[Node, ...] = (), arg: Any = None,
        fault: int = 0, site: Any = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.op = op
        self.dtype = dtype
        self.shape = shape
        self.src = src
        self.arg = arg
        self.fault = fault
        self.site = site
        self.buffer: Buffer | None = None
        self.state = PENDING
        self.demanded = 0
        self.error: BaseException | None = None
        self.serial = next(_serial)
        self.alias = ""
        self.taped = False
        self.number = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of the value in memory."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        name = self.op or KINDS[self.kind]
        return f"<{name} {self.dtype} {self.shape} {('pending', 'running', 'ready', 'failed', 'consumed')[self.state]}>"


def leaf(buffer: Buffer, dtype: numpy.dtype[Any], shape: Shape) -> Node:
    """A node born ready, on `buffer`."""
    node = Node(LEAF, "", dtype, shape)
    node.buffer = buffer
    node.state = READY
    return node


def commit(node: Node, buffer: Buffer | None) -> None:
    """The node is in memory: let go of what it was made from."""
    node.buffer = buffer
    node.state = READY
    node.src = ()
    node.arg = None


class Base:
    """Owner of memory that handles look at: names the current version.

    Attributes
    ----------
    node : Node
        The current version.
    borrows : list or None
        (weak reference, site) of the read-only borrows; while any lives, writing raises BorrowError.
    """

    __slots__ = ("node", "borrows", "__weakref__")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.borrows: list[Any] | None = None
