"""More operations of the state machine: NumPy's functions, lazy scalars, loops over rows, threads, copies."""

from __future__ import annotations

import copy as copies
import gc
import operator
import pickle
import threading
from typing import Any

import numpy

from tests import twice
from tests.semantics.machine import Machine, Pair, Step
from tests.semantics.operations import bounded, mask_like, operation, void


@operation
def roll(m: Machine, p: Pair) -> Step | None:
    k, axis = m.choose(5) - 2, m.pick((None, *range(p.n.ndim)))
    return Step(lambda np, x: np.roll(x, k, axis), [p])


@operation
def clip(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: np.clip(x, 1, 3), [p]) if p.n.dtype.kind in "iuf" else None


@operation
def diff(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim == 0 or p.n.dtype.kind == "b":
        return None
    return Step(lambda np, x: x[1:] - x[:-1], [p])


@operation
def stack(m: Machine, p: Pair) -> Step | None:
    if p.n.size > 700 or p.n.ndim > 3:
        return None
    q, axis = m.pick([q for q in m.pairs if q.n.shape == p.n.shape and not q.moved] or [p]), m.choose(2)
    return Step(lambda np, x, y: np.stack([x, y, x], axis=-1 if axis else 0), [p, q])


@operation
def order(m: Machine, p: Pair) -> Step | None:
    if p.n.dtype.kind not in "iu" or not p.n.ndim:
        return None
    if m.choose(2):
        return Step(lambda np, x: np.argsort(x, kind="stable"), [p])
    return Step(lambda np, x: np.sort(x), [p])


@operation
def nonzero(m: Machine, p: Pair) -> Step | None:
    return Step(lambda np, x: np.flatnonzero(x), [p]) if m.choose(2) else Step(lambda np, x: np.count_nonzero(x), [p])


@operation
def take(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim:
        return None
    indices = [m.choose(5) for _ in range(3)]
    return Step(lambda np, x: np.take(x, np.array(indices), axis=0), [p])


@operation
def put(m: Machine, p: Pair) -> Step | None:
    k, value = m.choose(6), m.choose(4)
    if m.choose(2):
        return Step(lambda np, x: void(np.put(x, [0, k], value)), [p], True)
    return Step(lambda np, x: x.flat.__setitem__(k, value), [p], True)


@operation
def copyto(m: Machine, p: Pair) -> Step | None:
    q, k = m.partner(p, into=True), m.choose(3) + 2
    if not numpy.can_cast(q.n.dtype, p.n.dtype, "same_kind"):
        return None
    return Step(lambda np, x, y: np.copyto(x, y, where=mask_like(np, x.shape, k, 0)), [p, q], True)


@operation
def repeated(m: Machine, p: Pair) -> Step | None:
    """`ufunc.at`: an index that comes twice counts twice."""
    if not p.n.ndim or p.n.dtype.kind == "b":
        return None
    k = m.choose(p.n.shape[0] + 1)
    return Step(lambda np, x: void(np.add.at(x, np.array([0, k, 0]), 1)), [p], True)


@operation
def rows(m: Machine, p: Pair) -> Step | None:
    """A loop over the first axis that writes through each row."""
    if p.n.ndim < 2 or p.n.dtype.kind == "b" or p.n.shape[0] > 6 or not p.n.size:
        return None

    def apply(np: Any, x: Any) -> None:
        before = x[:1] * 1
        for row in x:
            row += before[0]

    return Step(apply, [p], True)


@operation
def swap(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim or p.n.shape[0] < 2:
        return None
    k = 1 + m.choose(p.n.shape[0] // 2)

    def apply(np: Any, x: Any) -> None:
        x[:k], x[-k:] = x[-k:], x[:k]

    return Step(apply, [p], True)


@operation
def swap_copies(m: Machine, p: Pair) -> Step | None:
    if not p.n.ndim or p.n.shape[0] < 2:
        return None

    def apply(np: Any, x: Any) -> None:
        x[0], x[-1] = x[-1] + 0, x[0] + 0

    return Step(apply, [p], True) if p.n.dtype.kind != "b" else None


@operation
def lazy_scalar(m: Machine, p: Pair) -> Step | None:
    """A reduction used as an operand, without being looked at."""
    name = m.pick(("sum", "max")) if p.n.dtype.kind not in "cb" and p.n.size else "sum"

    def apply(np: Any, x: Any) -> Any:
        s = getattr(np, name)(bounded(np, x))
        return x - s if x.dtype.kind != "b" else x * s

    return Step(apply, [p])


@operation
def lazy_scalar_update(m: Machine, p: Pair) -> Step | None:
    if p.n.dtype.kind not in "if" or p.n.dtype.itemsize < 8:
        return None
    op = m.pick((operator.iadd, operator.isub))
    return Step(lambda np, x: void(op(x, bounded(np, x).sum())), [p], True)


@operation
def reduce_into(m: Machine, p: Pair) -> Step | None:
    """A reduction written over a part of what it reads."""
    if p.n.ndim != 2 or p.n.dtype.kind not in "if" or p.n.dtype.itemsize < 8 or 0 in p.n.shape:
        return None
    row = m.choose(p.n.shape[0])
    return Step(lambda np, x: void(np.sum(bounded(np, x), axis=0, out=x[row])), [p], True)


@operation
def diagonal(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim != 2:
        return None
    if m.choose(2):
        return Step(lambda np, x: np.diagonal(x), [p])
    return Step(lambda np, x: np.fill_diagonal(x, 1), [p], True)


@operation
def windows(m: Machine, p: Pair) -> Step | None:
    if p.n.ndim != 1 or p.n.shape[0] < 3 or p.n.shape[0] > 300:
        return None
    return Step(lambda np, x: np.lib.stride_tricks.sliding_window_view(x, 3), [p])


@operation
def folded(m: Machine, p: Pair) -> Step | None:
    """A write through a view in which an element has several indices: NumPy's order counts."""
    if p.n.ndim != 1 or p.n.shape[0] < 3 or p.n.dtype.kind not in "if":
        return None
    n, whole = p.n.shape[0] - 1, m.choose(2)

    def apply(np: Any, x: Any) -> None:
        w = np.lib.stride_tricks.as_strided(x, (n, 2), (x.strides[0], x.strides[0]))
        if whole:
            w[...] = np.arange(2 * n).reshape(n, 2)
        else:
            w += 1

    return Step(apply, [p], True)


@operation
def freeze(m: Machine, p: Pair) -> Step | None:
    """This array alone becomes read-only; views of it made before do not."""
    if p.borrows or m.choose(3):
        return None
    return Step(lambda np, x: x.setflags(write=False), [p])


@operation
def duplicate(m: Machine, p: Pair) -> Step | None:
    how = m.choose(3)
    if how == 0:
        return Step(lambda np, x: copies.deepcopy(x), [p])
    if how == 1:
        return Step(lambda np, x: copies.copy(x), [p])
    return Step(lambda np, x: pickle.loads(pickle.dumps(x)), [p])


@operation
def elsewhere(m: Machine, p: Pair) -> Step | None:
    """The value asked for by another thread."""

    def apply(np: Any, x: Any) -> Any:
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append(twice.caught(lambda: (x * 1).tolist())))
        thread.start()
        thread.join()
        if isinstance(box[0], twice.Raised):
            raise box[0].kind("in the other thread")
        return box[0]

    return Step(apply, [p])


@operation
def collect(m: Machine, p: Pair) -> Step | None:
    if m.choose(4):
        return None
    return Step(lambda np, x: void(gc.collect(0)), [p]) if not p.moved else None
