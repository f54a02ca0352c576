"""Recording: operations on handles become nodes; writes become new versions, at once where the old one is needed.

in: handles, dtypes and shapes that a room of the surface has checked; out: nodes on the tape, or writes carried out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy

from . import _errstate, _evaluate
from ._array import HOST, make, ndarray
from ._memory import warns
from ._site import here, number
from ._site import text as site_text
from ._voice import speak
from .fusion import tape
from .fusion.memory import lasting, pending_readers, unread
from .fusion.node import CONST, FAILED, FOLD, GATHER, JOIN, MAP, PENDING, READ, READY, UPDATE, Base, Node, Shape, leaf
from .fusion.order import memory_order, spread
from .fusion.view import View, contiguous
from .runtime import buffer as buffers
from .runtime import trace
from .runtime.buffer import Buffer, allocate
from .runtime.errors import BorrowError
from .runtime.fault import INVALID, OVER
from .runtime.placement import where

DType = numpy.dtype[Any]
Operand = Any  # ndarray | Node (a constant of shape ())

# Operations that never report a floating-point fault.
DIVISIONS = frozenset(("floor_divide", "remainder", "fmod", "reciprocal"))  # what warns on integers too
QUIET = frozenset(
    "negative positive absolute fabs sign signbit isnan isinf isfinite equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert "
    "left_shift right_shift bitwise_count maximum minimum fmax fmin copysign floor ceil trunc rint conjugate real "
    "imag select clip modf_frac modf_int frexp_mantissa frexp_exponent gcd lcm".split()
)

# Whose loops NumPy does not watch, the conversions on the way to and from them included.
UNWATCHED = frozenset(
    "absolute equal fmax fmin greater greater_equal isfinite isinf isnan less less_equal logical_and logical_or "
    "maximum minimum negative not_equal sign signbit tanh".split()
)
BUFFERED = 8192  # elements beyond which NumPy converts operands on the way, and names the operation
LOUD = frozenset("absolute less less_equal greater greater_equal".split())  # of complex numbers these do report


def reports(op: str, kind: DType, dtype: DType) -> bool:
    """Whether an operation on elements of `kind`, with results of `dtype`, may report a floating-point fault."""
    if op in LOUD and kind.kind == "c":
        return True
    return op not in QUIET and (dtype.kind not in "biu" or op in DIVISIONS)


def current(x: ndarray) -> Node:
    """The current version of the base of `x`; raises what a moved or failed base raises."""
    node: Node = x._base.node
    if node.state == FAILED:
        _evaluate.evaluate((node,))
    return node


def on_device() -> bool:
    """Whether what is recorded now is meant for a device, whatever its size."""
    return where().startswith("cuda")


def constant(value: Any, dtype: DType) -> Node:
    """A scalar operand of `dtype`."""
    return Node(CONST, "", dtype, (), (), dtype.type(value))


# ---------------------------------------------------------------------- reading
def broadcast_strides(x: ndarray, shape: Shape) -> Shape:
    """Byte strides of `x` broadcast to `shape`: 0 along new axes and along axes of one element."""
    own = tuple(s if e != 1 else 0 for s, e in zip(x._strides, x._shape, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def in_memory(shape: Shape, order: tuple[int, ...]) -> Shape:
    """A shape with its axes in `order`: the very tuple where that is its own, as in a node that is all of an array."""
    return shape if order == tuple(range(len(shape))) else tuple(shape[a] for a in order)


def order_of(operands: Sequence[Operand], shape: Shape) -> tuple[int, ...]:
    """Order in memory of the result of an operation on `operands`."""
    if len(shape) < 2:
        return tuple(range(len(shape)))
    return arranged(
        len(shape), [broadcast_strides(x, shape) for x in operands if type(x) is ndarray and len(x._shape) > 0]
    )


def arranged(ndim: int, strides: Sequence[Shape]) -> tuple[int, ...]:
    """Order in memory of the result of an operation on operands with these strides."""
    return memory_order(ndim, strides)


def read(x: Operand, shape: Shape, order: tuple[int, ...]) -> Node:
    """The value of an operand, broadcast to `shape` with its axes in `order`; scalars keep the shape ()."""
    if type(x) is not ndarray:
        return x  # type: ignore[no-any-return]
    node = current(x)
    if not x._shape:
        if node.shape == () and x._offset == 0 and node.dtype == x._dtype:
            return node
        return Node(READ, "", x._dtype, (), (node,), View(x._offset, (), ()))
    if node.shape is shape and node.dtype is x._dtype and x._shape is shape and len(shape) == 1:
        return node
    strides = broadcast_strides(x, shape)
    if len(order) > 1:
        shape = tuple(shape[a] for a in order)
        strides = tuple(strides[a] for a in order)
    if x._offset == 0 and shape == node.shape and node.dtype == x._dtype:
        if all(s == c or e == 1 for s, c, e in zip(strides, contiguous(shape, x._dtype.itemsize), shape, strict=True)):
            return node
    return Node(READ, "", x._dtype, shape, (node,), View(x._offset, shape, strides))


def cast(node: Node, dtype: DType, fault: int = 0, site: Any = None, alias: str = "") -> Node:
    """`node` converted to `dtype`, with C's conversions as NumPy's "unsafe" casting; `alias` names it in messages."""
    if node.dtype == dtype:
        return node
    literal = node.kind == CONST and node.state == PENDING and not node.shape
    if alias in UNWATCHED:
        fault = 0
    if literal and not (node.dtype.kind in "fc" and dtype.kind in "iu"):
        with numpy.errstate(all="ignore"):
            return Node(CONST, "", dtype, (), (), numpy.asarray(node.arg).astype(dtype)[()])
    faulty = (node.dtype.kind in "fc" and dtype.kind in "iu") or (
        node.dtype.kind in "fc" and dtype.kind in "fc" and dtype.itemsize < node.dtype.itemsize
    )
    if dtype.char == "e" and node.dtype.kind in "iu":
        faulty = not numpy.can_cast(node.dtype, numpy.int16)  # integers beyond the largest half
    made = Node(MAP, "cast", dtype, node.shape, (node,), None, fault if faulty else 0, site)
    made.alias = alias
    return made


# ---------------------------------------------------------------------- recording
def expression(
    op: str, operands: Sequence[Operand], loop: Sequence[DType], dtype: DType, shape: Shape, order: tuple[int, ...],
    site: Any, mask: ndarray | None = None,
) -> Node:  # fmt: skip
    """The node of one elementwise operation, its operands cast to the loop's dtypes.

    Where `mask` is false nobody looks at the result: the operands are harmless values there, so that nothing faults.
    """
    fault = _errstate.armed()
    nodes = [read(x, shape, order) for x in operands]
    if mask is not None and fault:
        lanes = read(mask, shape, order)
        nodes = [_harmless(op, lanes, node, tuple(shape[a] for a in order)) for node in nodes]
    late = [mask is not None or (type(x) is ndarray and math.prod(x._shape) > BUFFERED) for x in operands]
    sources = tuple(cast(n, d, fault, site, op if b else "") for n, d, b in zip(nodes, loop, late, strict=True))
    if fault and not reports(op, loop[0], dtype):
        fault = 0
    return Node(MAP, op, dtype, in_memory(shape, order), sources, None, fault, site)


def _harmless(op: str, mask: Node, node: Node, shape: Shape) -> Node:
    safe = constant(0 if op == "arctanh" else 1, node.dtype)
    return Node(MAP, "select", node.dtype, shape, (mask, node, safe))


def elementwise(
    op: str, operands: Sequence[Operand], loop: Sequence[DType], dtype: DType, shape: Shape, alias: str = ""
) -> ndarray:
    """Record `op` over operands that broadcast to `shape`; gives a handle on the pending result."""
    order = order_of(operands, shape)
    node = expression(op, operands, loop, dtype, shape, order, here())
    node.alias = alias  # what messages call it
    return deliver(node, shape, order, operands)


def deliver(node: Node, shape: Shape, order: tuple[int, ...], operands: Sequence[Operand]) -> ndarray:
    """A handle on a new node; evaluated at the statement where an operand is shared or a fault must be known."""
    result = make(Base(node), 0, spread(order, shape, node.dtype.itemsize), shape, node.dtype)
    commit(node, operands)
    return result


def commit(node: Node, operands: Sequence[Operand] = (), faulty: bool = False) -> None:
    """Put a recorded node on the tape; evaluate what cannot wait. `faulty`: a node below it may report a fault."""
    trace.count("operations")
    trace.emit("operation", node.site, op=node.op)
    if tape.due(node):
        _evaluate.flush()
    tape.add(node)
    if ((faulty or may_fault(node)) and _errstate.immediate()) or any(
        type(x) is ndarray and is_shared(x) for x in operands
    ):
        _evaluate.evaluate((node,))


def may_fault(node: Node) -> bool:
    """Whether a node just recorded, or the conversion of one of its operands, may report a fault."""
    return node.fault != 0 or any(s.fault and s.kind == MAP and s.op == "cast" for s in node.src)


def is_shared(x: ndarray) -> bool:
    """Whether foreign memory backs the base of `x`, or somebody outside looks at it."""
    buffer = x._base.node.buffer
    return buffer is not None and buffer.shared


def fold(
    x: Operand, monoid: str, axes: tuple[int, ...], loop: DType, dtype: DType, keepdims: bool, site: Any = None
) -> ndarray:
    """Record a reduction of the handle `x` over `axes` (ascending, not negative), its elements cast to `loop` first."""
    shape = x._shape
    if len(axes) == len(shape) and not keepdims and type(x) is ndarray:
        given = current(x)
        if given.shape is shape and given.dtype is loop:  # all of an array that is the whole of its base in C order
            node = fold_node(given, monoid, axes, dtype, site)
            result = make(Base(node), 0, (), (), dtype)
            commit(node, [x])
            return result
    order = tuple(range(len(shape))) if monoid.startswith("arg") else order_of([x], shape)
    given = read(x, shape, order)
    source = cast(given, loop, _errstate.armed(), site)
    if source is not given:
        source.alias = "reduce"  # as NumPy names the operation that converts
    node = fold_node(source, monoid, tuple(p for p, a in enumerate(order) if a in axes), dtype, site)
    kept = tuple(a for a in order if a not in axes)
    rank = {a: n for n, a in enumerate(sorted(kept))}
    out_shape = tuple(shape[a] for a in sorted(kept))
    if out_shape == node.shape and kept == tuple(sorted(kept)):
        out_shape = node.shape  # see `in_memory`
    if keepdims:
        out_shape = tuple(1 if a in axes else e for a, e in enumerate(shape))
        strides = spread(order, out_shape, dtype.itemsize)
    else:
        strides = spread(tuple(rank[a] for a in kept), out_shape, dtype.itemsize)
    result = make(Base(node), 0, strides, out_shape, dtype)
    commit(node, [x])
    return result


def fold_node(source: Node, monoid: str, axes: tuple[int, ...], dtype: DType, site: Any, keep: str = "last") -> Node:
    """The node of a fold of `source`, a dense node, over its own axes."""
    shape = source.shape
    if keep == "last":
        shape = () if len(axes) == len(shape) else tuple(e for d, e in enumerate(shape) if d not in axes)
    fault = _errstate.armed() & (OVER | INVALID) if monoid in ("add", "multiply") and dtype.kind in "fc" else 0
    node = Node(FOLD, monoid, dtype, shape, (source,), (monoid, axes, keep), fault if keep == "last" else 0, site)
    node.alias = "reduce"
    return node


def gather_node(
    x: ndarray, picks: tuple[Node, ...], shape: Shape, lead: int, order: tuple[int, ...], site: Any
) -> Node:
    """Elements of `x` at `picks`, proved to lie in bounds, along its leading axes; `lead` axes come from the picks.

    The result has the axes of `shape` in `order`.
    """
    picked = len(picks)
    strides = (0,) * lead + tuple(x._strides[picked:])
    dense = tuple(shape[a] for a in order)
    sources = (current(x), *(_spread_pick(p, dense, order) for p in picks))
    arg = (x._offset, tuple(strides[a] for a in order), tuple(x._strides[:picked]))
    return Node(GATHER, "gather", x._dtype, dense, sources, arg, 0, site)


def _spread_pick(pick: Node, dense: Shape, order: tuple[int, ...]) -> Node:
    if pick.shape == dense and order == tuple(range(len(order))):
        return pick
    strides = contiguous(pick.shape, pick.dtype.itemsize)
    by_axis = tuple(0 if e == 1 else s for s, e in zip(strides, pick.shape, strict=True))
    return Node(READ, "", pick.dtype, dense, (pick,), View(0, dense, tuple(by_axis[a] for a in order)))


def join(arrays: Sequence[ndarray], axis: int, shape: Shape, order: tuple[int, ...], dtype: DType) -> ndarray:
    """Record the pieces, all of one shape, of an array of `shape` along `axis`; its memory has the axes in `order`."""
    site = here()
    pieces = tuple(cast(read(a, a._shape, order), dtype, _errstate.armed(), site) for a in arrays)
    dense = tuple(shape[a] for a in order)
    node = Node(JOIN, "concatenate", dtype, dense, pieces, order.index(axis), 0, site)
    made = make(Base(node), 0, spread(order, shape, dtype.itemsize), shape, dtype)
    commit(node, arrays, may_fault(node))
    return made


# ---------------------------------------------------------------------- writing
def writable(x: ndarray) -> None:
    """Raise BorrowError if the base of the handle is borrowed, MovedError if it was moved; warn where NumPy does."""
    if warns(x._np):
        speak(operator.setitem, (x._np, (slice(0),) if x._np.ndim else (), 0 if x._np.ndim else x._np[()]), {})
    if x._at is HOST:
        return
    current(x)
    site = borrowers(x._base)
    if site is not None:
        raise BorrowError(f"this array is borrowed at {site_text(site)}; it is written at {site_text(here())}")


def may_write(x: ndarray) -> bool:
    """True; raises what `writable` raises."""
    writable(x)
    return True


def borrowers(base: Base) -> Any:
    """Site of a living borrow of `base`, or None."""
    if base.borrows is None:
        return None
    base.borrows = [(handle, site) for handle, site in base.borrows if handle() is not None] or None
    return base.borrows[0][1] if base.borrows else None


def before_host_write(x: ndarray) -> None:
    """Prepare for a write by NumPy into the memory of `x`: its base in memory, pending readers of it evaluated."""
    writable(x)
    if x._at is HOST:
        return
    current(x)
    with _evaluate.lock:
        if x._base.node.state == PENDING:
            _evaluate.evaluate((x._base.node,))
        release(x._base)
        buffer = x._base.node.buffer
        if buffer is not None and buffer.device is not None:
            buffer.device.look(buffer)


def release(base: Base) -> None:
    """Make the memory of a base, whose value is there, free to be written: nothing pending reads it afterwards."""
    if unread(base):
        return
    _evaluate.flush()
    buffer = base.node.buffer
    if unread(base) or buffer is None or buffer.shared:
        return
    # something still holds the old version, such as work of another thread: the new one gets memory of its own
    new = allocate(buffer.nbytes)
    there = buffer.device is not None and buffer.device.valid and buffers.carry is not None
    if not there or not buffers.carry(buffer, new, 1, (buffer.nbytes,), (0, 0), ((1,), (1,))):  # type: ignore[misc]
        new.raw[: buffer.nbytes] = buffer.raw[: buffer.nbytes]
    base.node = leaf(new, base.node.dtype, base.node.shape)


def assign(x: ndarray, operand: Operand, mask: ndarray | None = None) -> None:
    """Write an operand, which broadcasts to the shape of `x`, into `x`, where `mask` (bool) is true."""
    writable(x)
    if not x._writeable:
        raise ValueError("assignment destination is read-only")
    order = order_of([x], x._shape)
    site = here()
    value = cast(read(operand, x._shape, order), x._dtype, _errstate.armed(), site)
    if type(operand) is ndarray and value is operand._base.node:
        value = copied(value, value.shape)  # no two bases share a node
    write(x, value, order, mask, site, (operand,) if mask is None else (operand, mask))


def write(
    x: ndarray, value: Node, order: tuple[int, ...], mask: ndarray | None, site: Any, operands: Sequence[Operand]
) -> None:
    """Make `value`, of the shape of `x` with its axes in `order`, or of shape (), the new value of `x`."""
    if 0 in x._shape:
        return
    shape = tuple(x._shape[a] for a in order)
    view = View(x._offset, shape, tuple(x._strides[a] for a in order))
    faulty = may_fault(value)
    if mask is not None:
        kept = read(x, x._shape, order)
        value = Node(MAP, "select", x._dtype, shape, (read(mask, x._shape, order), value, kept), None, 0, site)
        del kept
    if not _replaces(x, view):
        if _entangled(x, operands if mask is None else (*operands, mask)):
            _evaluate.evaluate((value,))
        _update(x, value, view, site)
        return
    if value.shape != shape:
        value = copied(value, shape)
    x._base.node = value
    x._np = x._at = None
    commit(value, operands, faulty)


def _entangled(x: ndarray, operands: Sequence[Operand]) -> bool:
    """Whether an operand may look at the memory of `x` by way of another base: both are shared with the outside."""
    buffer = x._base.node.buffer
    if buffer is None or not buffer.shared:
        return False
    for operand in operands:
        if isinstance(operand, Node) or type(operand) is not ndarray or operand._base is x._base:
            continue
        other = operand._base.node.buffer
        if other is not None and other.shared:
            first, second = _public(buffer), _public(other)
            if second < first + buffer.nbytes and first < second + other.nbytes:
                return True
    return False


def _public(buffer: Buffer) -> int:
    """Address of memory where others look at it."""
    copy = buffer.device
    return copy.pointer if copy is not None and copy.outside else buffer.address


def copied(value: Node, shape: Shape) -> Node:
    """A node of its own with the elements of `value`, which has the same shape or is a scalar."""
    strides = contiguous(value.shape, value.dtype.itemsize) if value.shape else (0,) * len(shape)
    return Node(READ, "", value.dtype, shape, (value,), View(0, shape, strides), 0, here())


def _replaces(x: ndarray, view: View) -> bool:
    """Whether `x` covers the whole of a private base, so that writing it is a new version of the base."""
    node = current(x)
    if view.offset or math.prod(view.shape) * x._dtype.itemsize != node.nbytes or (node.buffer and node.buffer.shared):
        return False
    dense = contiguous(view.shape, x._dtype.itemsize)
    return all(e == 1 or s == c for e, s, c in zip(view.shape, view.strides, dense, strict=True))


def _is_read(base: Base, update: Node) -> bool:
    """Whether a value that has nothing to do with the one that `update` writes needs what is overwritten."""
    return pending_readers(base, update, tape.taped())


def _keep(base: Base, update: Node) -> bool:
    """Have values that `update` is made of, and that may be asked for when it has overwritten the base, kept.

    Where they are those of the statement itself, they are most likely dead when it is done, and are not kept: gives
    whether the old memory has to be, for the case that they are not.
    """
    found = lasting(base, update, tape.taped())
    if all(_together(node.site, update.site) for node in found):
        return bool(found)
    for node in found:
        node.demanded += 1
    return False


def _together(site: Any, other: Any) -> bool:
    """Whether two sites are on one line."""
    if site is None or other is None:
        return site is other
    return site[0] is other[0] and number(*site[:2]) == number(*other[:2])


def _update(x: ndarray, value: Node, view: View, site: Any) -> None:
    """Write part of a base at the statement: in place, renamed, or after the pending readers of the old version."""
    base = x._base
    trace.count("operations")
    with _evaluate.lock:
        update = Node(UPDATE, "in place", x._dtype, view.shape, (base.node, value), view, 0, site)
        del value
        passing = False
        if _is_read(base, update) or lasting(base, update, tape.taped()):
            tape.compact(thorough=True)  # values that died since an evaluation are no readers
            passing = _keep(base, update)
        if passing or _is_read(base, update):
            most = 2 * update.nbytes >= base.node.nbytes
            if most and not (base.node.buffer and base.node.buffer.shared):
                update.op = "rename"
            else:
                _evaluate.flush()
        try:
            _evaluate.evaluate((update,))
        except BaseException:
            if update.state == FAILED and update.op == "in place":
                base.node.state, base.node.error = FAILED, update.error
            raise
        finally:
            if update.state == READY:
                old = base.node
                if update.buffer is not old.buffer and update.buffer is not None:
                    base.node = leaf(update.buffer, old.dtype, old.shape)
