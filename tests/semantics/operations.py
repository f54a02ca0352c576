"""The operations of the state machine: each makes a `Step` for one pair, or None where it does not apply.

Values stay comparable bit for bit: only correctly rounded arithmetic, and sums of small integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy

from tests.semantics.machine import SELF, Borrow, Machine, Pair, Step
from tests.twice import MODULE

Operation = Callable[[Machine, Pair], Step | None]

DTYPES = ("f8", "f4", "i8", "i4", "u1", "?", "c16", "i2", "f2")
SHAPES = ((24,), (4, 6), (6, 4), (2, 3, 4), (1,), (6, 1), (0, 3), (), (300,), (12, 25), (4, 1, 6))
UNARY = {
    "b": ("logical_not", "invert", "isfinite"),
    "i": ("negative", "absolute", "square", "sign", "invert", "logical_not"),
    "u": ("negative", "square", "invert", "sign"),
    "f": ("negative", "absolute", "square", "floor", "rint", "sign", "isnan", "signbit", "logical_not", "invert"),
    "c": ("negative", "conjugate", "isnan", "logical_not", "floor"),
}
BINARY = ("add", "subtract", "multiply", "less", "equal", "not_equal", "logical_and", "bitwise_xor")
IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.iand)

OPERATIONS: dict[str, Operation] = {}


def operation(f: Operation) -> Operation:
    """Put an operation into the table under its name."""
    OPERATIONS[f.__name__.strip("_")] = f
    return f


def bounded(np: Any, x: Any) -> Any:
    """`x` as small whole numbers, so that sums are exact in any order."""
    if x.dtype.kind == "c":
        x = x.real
    return np.minimum(np.maximum(np.rint(x), -8), 8) if x.dtype.kind == "f" else x


def mask_like(np: Any, shape: tuple[int, ...], k: int, r: int) -> Any:
    """A recorded mask of the given shape."""
    return np.arange(int(numpy.prod(shape))).reshape(shape) % k == r


def window(m: Machine, extent: int, length: int) -> slice:
    """A slice of `length` elements of an axis, forwards or backwards."""
    start = m.choose(extent - length + 1)
    if m.choose(4):
        return slice(start, start + length)
    return slice(start + length - 1, start - 1 if start else None, -1)


def create(m: Machine) -> None:
    """A new pair: made of a range, zeros, foreign memory or a list, in C or Fortran order."""
    dtype, shape, how = m.pick(DTYPES), m.pick(SHAPES), m.choose(6)
    size, start = int(numpy.prod(shape)), m.choose(9)

    def make(np: Any) -> Any:
        a = ((np.arange(size) * 7 + start) % 13 - (0 if dtype in ("u1", "?") else 6)).reshape(shape).astype(dtype)
        if how == 1:
            return np.full(shape, start, dtype)
        if how == 2 and len(shape) > 1:
            return np.asfortranarray(a)
        if how == 3:
            return np.array(a.tolist(), dtype=dtype).reshape(shape)
        if how == 4:
            return np.asarray(numpy.asarray(a).copy())
        return np.asarray(a * np.ones(shape, dtype)) if how == 5 else a

    m.log.append(f"create {dtype} {shape} {how} {start}")
    m.add(Pair(make(numpy), make(MODULE)))


@operation
def unary(m: Machine, p: Pair) -> Step | None:
    name = m.pick(UNARY[p.n.dtype.kind])
    return Step(lambda np, x: getattr(np, name)(x), [p])


@operation
def binary(m: Machine, p: Pair) -> Step | None:
    q, name, flip = m.partner(p), m.pick(BINARY), m.choose(2)
    if name == "less" and "c" in (p.n.dtype.kind, q.n.dtype.kind):
        name = "add"
    if flip:
        return Step(lambda np, x, y: getattr(np, name)(y, x), [p, q])
    return Step(lambda np, x, y: getattr(np, name)(x, y), [p, q])


@operation
def scalar(m: Machine, p: Pair) -> Step | None:
    value = m.pick((2, 0.5, True, -1, numpy.float32(3), numpy.int64(5), 0.0))
    op = m.pick((operator.add, operator.mul, operator.sub))
    return Step(lambda np, x: op(value, x) if value is True else op(x, value), [p])


@operation
def divide(m: Machine, p: Pair) -> Step | None:
    if p.n.dtype.kind == "c":
        return None
    name, d = m.pick(("divide", "floor_divide", "remainder")), m.pick((2, 3, -4, 0, 0.25))
    return Step(lambda np, x: getattr(np, name)(x, d), [p])


@operation
def select(m: Machine, p: Pair) -> Step | None:
    q, k = m.partner(p), m.choose(3) + 2
    return Step(lambda np, x, y: np.where(mask_like(np, x.shape, k, 1), x, y), [p, q])


@operation
def cast(m: Machine, p: Pair) -> Step | None:
    wide = [d for d in DTYPES if numpy.can_cast(p.n.dtype, d, "same_kind") or d == "?"]
    dtype = m.pick(wide)
    return Step(lambda np, x: x.astype(dtype), [p])


@operation
def extreme(m: Machine, p: Pair) -> Step | None:
    if p.n.dtype.kind == "c":
        return None
    q, name = m.partner(p), m.pick(("minimum", "maximum"))
    if q.n.dtype.kind == "c":
        q = p
    return Step(lambda np, x, y: getattr(np, name)(x, y) + 0, [p, q])  # + 0: either zero may win


@operation
def reduce(m: Machine, p: Pair) -> Step | None:
    name, keep = m.pick(("sum", "max", "min", "any", "all", "argmax")), bool(m.choose(2))
    axis = m.pick((None, *range(p.n.ndim)))
    if p.n.dtype.kind == "c" and name in ("max", "min", "argmax"):
        name = "sum"
    return Step(lambda np, x: getattr(np, name)(bounded(np, x), axis=axis, keepdims=keep) + 0, [p])


@operation
def scan(m: Machine, p: Pair) -> Step | None:
    axis = m.pick((None, *range(p.n.ndim)))
    return Step(lambda np, x: np.cumsum(bounded(np, x), axis=axis), [p])


@operation
def product(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim != 2:
        return None
    return Step(lambda np, x: bounded(np, x).astype("f8") @ bounded(np, x).astype("f8").T, [p])


@operation
def join(m: Machine, p: Pair) -> Step | None:
    same = [q for q in m.pairs if q.n.shape == p.n.shape and not q.moved] or [p]
    q = m.pick(same)
    if not p.n.ndim or p.n.size > 700:
        return None
    return Step(lambda np, x, y: np.concatenate([x, y]), [p, q])


@operation
def copy(m: Machine, p: Pair) -> Step | None:
    order = m.pick(("C", "K", "F"))
    return Step(lambda np, x: x.copy(order), [p])


# -- views -------------------------------------------------------------------------------------------------------------


@operation
def slice_(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim:
        return Step(lambda np, x: x[...], [p])
    index = tuple(slice(m.choose(3), None, m.pick((1, 1, 2, -1, -2))) for _ in p.n.shape)
    index = tuple(slice(None, None, s.step) if s.step < 0 else s for s in index)
    return Step(lambda np, x: x[index], [p])


@operation
def transpose(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: x.T, [p]) if p.n.ndim != 3 else Step(lambda np, x: x.transpose(1, 2, 0), [p])


@operation
def reshape(m: Machine, p: Pair) -> Step | None:
    shapes = [s for s in SHAPES if numpy.prod(s) == p.n.size] + [(p.n.size,), (7, 5)]
    shape = m.pick(shapes)
    return Step(lambda np, x: x.reshape(shape), [p])


@operation
def newaxis(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim > 3:
        return None
    return Step(lambda np, x: x[None], [p]) if m.choose(2) else Step(lambda np, x: x[..., None], [p])


@operation
def broadcast(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim > 3 or p.n.size > 700:
        return None
    return Step(lambda np, x: np.broadcast_to(x, (2, *x.shape)), [p])


@operation
def part(m: Machine, p: Pair) -> Step | None:
    name = m.pick(("real", "imag")) if p.n.dtype.kind == "c" else "real"
    return Step(lambda np, x: getattr(x, name), [p])


@operation
def retype(m: Machine, p: Pair) -> Step | None:
    dtype = {"f8": "i8", "f4": "i4", "c16": "f8", "i8": "u4", "i4": "u1", "f2": "i2", "?": "u1"}.get(p.n.dtype.str[1:])
    dtype = "u1" if p.n.dtype == bool else dtype
    return Step(lambda np, x: x.view(dtype), [p]) if dtype else None


@operation
def item(m: Machine, p: Pair) -> Step | None:
    index = m.choose(5)
    return Step(lambda np, x: x[index], [p]) if p.n.ndim else Step(lambda np, x: x[()], [p])


# -- writes ------------------------------------------------------------------------------------------------------------


@operation
def update(m: Machine, p: Pair) -> Step | None:
    q, op = m.partner(p, into=True), m.pick(IN_PLACE)
    return Step(lambda np, x, y: void(op(x, y)), [p, q], True)


@operation
def update_scalar(m: Machine, p: Pair) -> Step | None:
    op, value = m.pick(IN_PLACE), m.pick((2, True, 0.5, 3))
    return Step(lambda np, x: void(op(x, value)), [p], True)


@operation
def out(m: Machine, p: Pair) -> Step | None:
    q, name, k = m.partner(p, into=True), m.pick(("add", "multiply", "subtract")), m.choose(3)
    if k:
        return Step(lambda np, x, y: void(getattr(np, name)(y, x, out=x)), [p, q], True)
    return Step(lambda np, x, y: void(getattr(np, name)(x, y, out=x, where=mask_like(np, x.shape, 3, 1))), [p, q], True)


@operation
def overlap(m: Machine, p: Pair) -> Step | None:
    """One window of an array written from another, forwards or backwards."""
    if not p.n.ndim or p.n.shape[0] < 2:
        return None
    extent = p.n.shape[0]
    length = extent - m.choose(min(3, extent - 1))
    to, source, kind = window(m, extent, length), window(m, extent, length), m.choose(3)

    def apply(np: Any, x: Any) -> None:
        if kind == 0:
            x[to] = x[source]
        elif kind == 1:
            x[to] += x[source]
        else:
            x[to] = x[source] * 2 + x[to]

    if kind == 2 and p.n.dtype.kind == "b":
        return None
    return Step(apply, [p], True)


@operation
def overlap_transposed(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim != 2:
        return None
    k = min(p.n.shape)
    return Step(lambda np, x: x.__setitem__((slice(k), slice(k)), x[:k, :k].T), [p], True)


@operation
def assign(m: Machine, p: Pair) -> Step | None:
    q = m.partner(p, into=True)
    if not numpy.can_cast(q.n.dtype, p.n.dtype, "same_kind"):
        return None  # the value of a float too large for an integer is nobody's promise
    return Step(lambda np, x, y: x.__setitem__(..., y), [p, q], True)


@operation
def assign_part(m: Machine, p: Pair) -> Step | None:
    index: Any = tuple(slice(m.choose(2), None, m.choose(2) + 1) for _ in p.n.shape)
    value = m.pick((0, 1, True, 7))
    return Step(lambda np, x: x.__setitem__(index, value), [p], True)


@operation
def assign_item(m: Machine, p: Pair) -> Step | None:
    index = tuple(m.choose(3) for _ in p.n.shape)
    return Step(lambda np, x: x.__setitem__(index, 3), [p], True)


@operation
def fill(m: Machine, p: Pair) -> Step | None:
    value = m.choose(5)
    return Step(lambda np, x: x.fill(value), [p], True)


@operation
def masked_write(m: Machine, p: Pair) -> Step | None:
    k = m.choose(3) + 2
    if m.choose(2):
        return Step(lambda np, x: x.__setitem__(mask_like(np, x.shape, k, 0), 1), [p], True)
    return Step(lambda np, x: x.__setitem__(x == 0, 2), [p], True)


@operation
def masked_read(m: Machine, p: Pair) -> Step | None:
    k = m.choose(3) + 2
    return Step(lambda np, x: x[mask_like(np, x.shape, k, 1)], [p])


@operation
def fancy_write(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim:
        return None
    n, k = p.n.shape[0], m.choose(5) + 1  # too many rows: an IndexError that changes nothing
    value = m.choose(9)
    return Step(lambda np, x: x.__setitem__(np.arange(k) * 2 % (n + 1), value), [p], True)


@operation
def fancy_read(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim:
        return None
    n, a = p.n.shape[0], m.choose(7)
    return Step(lambda np, x: x[(np.arange(n) * 5 + a) % max(n, 1)], [p])


@operation
def sort(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: void(x.sort()), [p], True) if p.n.dtype.kind in "iu" and p.n.ndim else None


# -- evaluation, memory, ownership -------------------------------------------------------------------------------------


@operation
def evaluate(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: void(np.evaluate(x)) if np is MODULE and not SELF else None, [p])


@operation
def read(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: x.tolist(), [p])


@operation
def errstate(m: Machine, p: Pair) -> Step | None:
    """A block whose faults are exceptions."""
    if p.n.dtype.kind not in "fiu" or p.n.dtype == "f2":
        return None
    d = m.pick((0, 2))

    def apply(np: Any, x: Any) -> Any:
        with np.errstate(all="raise"):
            return np.divide(x, d)

    return Step(apply, [p])


@operation
def error(m: Machine, p: Pair) -> Step | None:
    """Statements that fail and must leave everything as it was."""
    kind = m.choose(4)

    def apply(np: Any, x: Any) -> Any:
        if kind == 0:
            return operator.iadd(x, np.ones((7, *x.shape, 5)))
        if kind == 1:
            return x.reshape(x.size + 1)
        if kind == 2:
            return np.add(x, 1j, out=np.zeros(x.shape, "i4"))
        return np.sum(x, axis=x.ndim)

    return Step(apply, [p], kind == 0)


@operation
def export(m: Machine, p: Pair) -> Step | None:
    if p.moved:
        return Step(lambda np, x: numpy.asarray(x).shape, [p])
    m.note("export", p)
    m.exports.append((p.n.view(), numpy.asarray(p.o)))
    if len(m.exports) > 3:
        m.exports.pop(0)
    return None


@operation
def export_write(m: Machine, p: Pair) -> Step | None:
    """A write through an exported array, which the arrays must see."""
    mine = [e for e in m.exports if numpy.shares_memory(e[0], p.n) and e[0].flags.writeable]
    if not mine or p.moved:
        return None
    n, o = m.pick(mine)
    value = m.choose(6)
    for side in (n, o):
        side[(slice(None, None, 2),) * (side.ndim > 0) or ...] = value
    return Step(lambda np, x: None, [p])


@operation
def export_end(m: Machine, p: Pair) -> Step | None:
    mine = [k for k, e in enumerate(m.exports) if numpy.may_share_memory(e[0], p.n)]
    if not mine:
        return None
    m.note("export_end", p)
    m.exports.pop(m.pick(mine))
    return None


@operation
def borrow(m: Machine, p: Pair) -> Step | None:
    if SELF:
        return None
    if p.moved:
        return Step(lambda np, x: np.borrow(x), [p])
    n = p.n.view()
    n.flags.writeable = False
    m.note("borrow", p)
    m.add(Pair(n, MODULE.borrow(p.o), (*p.borrows, Borrow())))
    return None


@operation
def move(m: Machine, p: Pair) -> Step | None:
    if SELF or (p.n.base is not None and not p.moved):
        return None
    if p.moved:
        return Step(lambda np, x: np.move(x), [p])
    state, alone = m.note("move", p), len(m.family(p)) == 1
    try:
        o = MODULE.move(p.o)
    except MODULE.BorrowError:
        assert not alone or state == "shared", f"a {state} array that nothing else looks at was not moved"
        return None
    assert alone, "an array that others look at was moved"
    p.moved = True
    m.add(Pair(p.n, o))
    return None


@operation
def delete(m: Machine, p: Pair) -> Step | None:
    m.note("delete", p)
    m.drop(p)
    return None


def void(_: Any) -> None:
    """For statements: their value is nobody's business."""
