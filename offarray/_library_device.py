"""What the device forms of library steps share: operands made ready, dense copies, results as handles.

in: `_library_*.py`; out: `_record`, `_evaluate` and runtime/cudalib.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from . import _evaluate, _lazy, _record, _views
from ._array import make, ndarray
from ._memory import native
from .fusion.node import MAP, PENDING, READY, Base, Node, leaf
from .fusion.view import View, contiguous
from .runtime.buffer import Buffer, allocate
from .runtime.cudalib import Step

DType = numpy.dtype[Any]
Shape = tuple[int, ...]


class _Names:
    """The public names of this package, looked up when they are used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[__package__ or "offarray"], name)


np = _Names()


def array(value: Any) -> ndarray | None:
    """An operand as a handle of a native data type, or None."""
    if type(value) is ndarray:
        return value if native(value._dtype) else None
    if type(value) in (bool, int, float, complex):
        value = numpy.asarray(value)
    found = _lazy.operand(value)
    if found is None:
        return None
    x, dtype = found
    if not isinstance(dtype, numpy.dtype) or not native(dtype):
        return None
    return x if type(x) is ndarray else _lazy.fresh(numpy.asarray(x))


def cast(x: ndarray, dtype: Any) -> ndarray:
    """`x` with elements of `dtype`."""
    dtype = numpy.dtype(dtype)
    if x._dtype == dtype:
        return x
    order = tuple(range(len(x._shape)))
    node = _record.cast(_record.read(x, x._shape, order), dtype)
    if node.shape != x._shape:
        node = _record.copied(node, x._shape)
    return _record.deliver(node, x._shape, order, [x])


def is_dense(x: ndarray) -> bool:
    """Whether the elements lie in C order without gaps."""
    steps = contiguous(x._shape, x._dtype.itemsize)
    return all(e <= 1 or s == c for e, s, c in zip(x._shape, x._strides, steps, strict=True)) or 0 in x._shape


def dense(x: ndarray) -> ndarray:
    """`x` in C order: itself, or a copy that is recorded."""
    return x if is_dense(x) else _views.dense_copy(x)


def spread(x: ndarray, shape: Shape) -> ndarray:
    """`x` broadcast to `shape`."""
    if x._shape == shape:
        return x
    return _views.seen_through(x, numpy.broadcast_to(_views.ghost(x), shape))


def seen(x: ndarray, view: Any) -> ndarray:
    """The view that the function `view` makes of an array like `x`."""
    return _views.seen_through(x, view(_views.ghost(x)))


def owned(x: ndarray) -> ndarray:
    """The same elements as an array of its own, as users get results."""
    x._owner = None
    return x


def columns(x: ndarray) -> ndarray:
    """A new copy of the matrices of `x`, each stored by columns: shape (..., n, m), nobody else's."""
    return _views.dense_copy(seen(x, lambda g: g.swapaxes(-1, -2)))


def by_rows(x: ndarray) -> ndarray:
    """What a library stored by columns, as NumPy's results lie in memory."""
    return owned(_views.dense_copy(seen(x, lambda g: g.swapaxes(-1, -2))))


def evaluated(*operands: ndarray) -> None:
    """Bring operands into memory."""
    _evaluate.target()  # the device is in use from here on
    pending = [_record.current(x) for x in operands]
    waiting = [node for node in pending if node.state == PENDING]
    del pending
    if waiting:
        _evaluate.evaluate(waiting)


# ---------------------------------------------------------------------- expressions that no tape holds
def op(name: str, *sources: Any, dtype: DType | None = None) -> Node:
    """An operation on nodes and numbers of one type."""
    kind = next(s.dtype for s in sources if isinstance(s, Node))
    nodes = tuple(s if isinstance(s, Node) else _record.constant(s, kind) for s in sources)
    shape = max((s.shape for s in nodes), key=len)
    return Node(MAP, name, dtype or kind, shape, nodes)


def choice(condition: Node, x: Node, y: Node) -> Node:
    """Elements of `x` where the condition holds, else of `y`."""
    return Node(MAP, "select", y.dtype, condition.shape, (condition, x, y))


def as_type(x: Node, dtype: DType) -> Node:
    """The elements in another type."""
    return x if x.dtype == dtype else Node(MAP, "cast", dtype, x.shape, (x,))


def value_of(x: ndarray) -> Node:
    """The elements of an array in C order, as a node."""
    return _record.read(x, x._shape, tuple(range(len(x._shape))))


def pending(node: Node, operands: Sequence[ndarray] = ()) -> ndarray:
    """A handle on an expression, which is put on the tape."""
    if node.kind != MAP:
        node = _record.copied(node, node.shape)
    node.site = _record.here()
    return _record.deliver(node, node.shape, tuple(range(len(node.shape))), operands)


# ---------------------------------------------------------------------- steps
@contextmanager
def step(*operands: ndarray) -> Iterator[Step]:
    """One step of a library on evaluated operands."""
    with _evaluate.lock:
        evaluated(*operands)
        with Step() as found:
            yield found


def address(found: Step, x: ndarray) -> int:
    """The device's address of the first element of an evaluated operand."""
    buffer = x._base.node.buffer
    assert buffer is not None
    return found.read(buffer, x._offset)


def place(found: Step, x: ndarray) -> int:
    """The same for an operand that the step reads and overwrites."""
    buffer = x._base.node.buffer
    assert buffer is not None
    return found.change(buffer, x._offset)


def new(dtype: Any, shape: Shape) -> tuple[Buffer, ndarray]:
    """Memory for a result, and the handle on it."""
    dtype = numpy.dtype(dtype)
    shape = tuple(map(int, shape))
    buffer = allocate(math.prod(shape) * dtype.itemsize)
    return buffer, on(buffer, dtype, shape)


def on(buffer: Buffer, dtype: DType, shape: Shape) -> ndarray:
    """A handle on the whole of a buffer whose value is there."""
    node = leaf(buffer, dtype, shape)
    return make(Base(node), 0, contiguous(shape, dtype.itemsize), node.shape, dtype)


def bits(x: ndarray, dtype: Any) -> ndarray:
    """The memory of a dense, evaluated array, as elements of another type of the same size."""
    evaluated(x)
    return make(x._base, x._offset, x._strides, x._shape, numpy.dtype(dtype))


def store(out: Any, made: ndarray) -> Any:
    """`made` itself, or `out` with its value."""
    if out is None:
        return made
    node = made._base.node
    view = View(out._offset, out._shape, out._strides)
    itself = is_dense(made) and not made._offset  # and no other order of the node's elements
    whole = itself and node.state == READY and node.shape == made._shape and node.dtype == made._dtype == out._dtype
    if whole and is_dense(out) and _record._replaces(out, view):
        if not out._writeable:
            raise ValueError("output array is read-only")
        _record.writable(out)
        assert node.buffer is not None
        if _record.current(out).shape != made._shape:
            node = leaf(node.buffer, node.dtype, _record.current(out).shape)
        out._base.node = node
        out._np = out._at = None
        return out
    _record.assign(out, made)
    return out


def fits(out: Any, shape: Sequence[int], dtype: DType) -> bool:
    """Whether a result may be written into `out`: None, or a handle of the same shape that NumPy would cast to."""
    if out is None:
        return True
    if type(out) is not ndarray or out._shape != tuple(shape) or not native(out._dtype):
        return False
    return numpy.can_cast(dtype, out._dtype, "same_kind") and out._writeable


def alone(out: Any) -> Any:
    """The `out` of a call as an array or None; NotImplemented for anything else."""
    if type(out) is tuple:
        out = out[0] if len(out) == 1 else NotImplemented
    return out if out is None or type(out) is ndarray else NotImplemented
