"""Ownership by hand, and evaluation on demand: move, borrow, evaluate, synchronize.

in: handles; out: bases with a new owner, read-only handles, values in memory.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from . import _evaluate
from ._array import make, ndarray
from ._memory import adopt
from ._record import borrowers, current
from ._scalar import KINDS
from ._site import here, text
from .fusion.node import FAILED, LEAF, Base, Node
from .runtime import late
from .runtime.errors import BorrowError


def _base_of(x: Any) -> Base:
    if type(x) is not ndarray:
        raise TypeError(f"an offarray array is needed, not {type(x).__name__}")
    return adopt(x) if x._at is True else x._base  # type: ignore[no-any-return]


def _holders(base: Base) -> int:
    return sys.getrefcount(base)


class _Slot:
    __slots__ = ("base",)
    base: Base


def _alone() -> int:
    holder = _Slot()
    holder.base = Base(Node(LEAF, "", None, ()))  # type: ignore[arg-type]
    base = holder.base
    return _holders(base)


_ALONE = _alone()


def move(x: ndarray) -> ndarray:
    """Transfer the ownership of an array.

    Parameters
    ----------
    x : ndarray
        An array that owns its memory and that no other array views.

    Returns
    -------
    ndarray
        The new owner; its memory may be consumed by the operation that uses it last.

    Raises
    ------
    BorrowError
        If other arrays view the memory, or it is exported or borrowed.
    MovedError
        On every later use of `x`, naming the line of the move and that of the use.
    """
    base = _base_of(x)
    node = current(x)
    live = borrowers(base)
    if live is not None:
        raise BorrowError(f"this array is borrowed at {text(live)}; it is moved at {text(here())}")
    shared = node.buffer is not None and node.buffer.shared
    if shared or x._owner is not None or _holders(base) > _ALONE:
        raise BorrowError(f"this array cannot be moved at {text(here())}: others look at its memory")
    del base
    moved = make(Base(node), x._offset, x._strides, x._shape, x._dtype, None, x._writeable)
    gone = Node(LEAF, "moved", node.dtype, node.shape, (), here())
    gone.state = FAILED
    x._base.node = gone
    x._np = x._at = None
    return moved


def borrow(x: ndarray) -> ndarray:
    """A read-only array on the memory of `x`.

    While it lives, writing the memory of `x`, through any array of offarray's, raises BorrowError.

    Parameters
    ----------
    x : ndarray
        Any array.

    Returns
    -------
    ndarray
        A view whose `flags.writeable` is false.
    """
    base = _base_of(x)
    current(x)
    # without an owner: views of it name it as theirs, and keep the borrow alive
    seen = make(base, x._offset, x._strides, x._shape, x._dtype, None, False)
    if base.borrows is None:
        base.borrows = []
    base.borrows.append((weakref.ref(seen), here()))
    return seen


def evaluate(*arrays: Any) -> Any:
    """Bring arrays into memory, together: results of one shape come out of one kernel.

    Parameters
    ----------
    *arrays : ndarray or scalar
        Lazy scalars count too; anything else is left alone.

    Returns
    -------
    ndarray or tuple
        The argument, or all of them.
    """
    if len(arrays) == 1 and type(arrays[0]) is ndarray:
        x = arrays[0]
        if x._at is not True:
            _evaluate.evaluate((x._base.node,))
        return x
    nodes = []
    for x in arrays:
        handle = x._handle if type(x) in KINDS else x
        if type(handle) is ndarray and handle._at is not True:
            nodes.append(current(handle))
    if nodes or late.used:
        _evaluate.evaluate(nodes)
    return arrays[0] if len(arrays) == 1 else arrays


def synchronize() -> None:
    """Evaluate everything that is pending and still referred to."""
    _evaluate.flush()
