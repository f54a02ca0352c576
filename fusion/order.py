"""Order in memory: NumPy's "K" order of the result of an operation.

in: the strides of the operands; out: the permutation of axes, slowest first, that a result is laid out in.
"""

from __future__ import annotations

from collections.abc import Sequence

from .view import Shape, contiguous

Strides = tuple[int, ...]


def memory_order(ndim: int, operands: Sequence[Strides]) -> tuple[int, ...]:
    """Axes from the slowest to the fastest in memory, as far as the operands agree; C order where they do not care.

    `operands` are byte strides broadcast to `ndim` axes (0 where an axis is broadcast or has one element).
    An insertion sort in which the first operand that has a stride along both axes decides, as in NumPy's iterator.
    """
    axes = list(range(ndim))
    for position in range(ndim - 2, -1, -1):
        axis = axes[position]
        target = position
        for other in range(position + 1, ndim):
            verdict = _slower(axis, axes[other], operands)
            if verdict is None:
                continue
            if verdict:
                break
            target = other
        if target != position:
            axes.insert(target, axes.pop(position))
    return tuple(axes)


def copy_order(strides: Strides) -> tuple[int, ...]:
    """Axes from the slowest to the fastest for a copy that keeps the order: a broadcast axis becomes the fastest."""
    return tuple(sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])))


def join_order(arrays: Sequence[tuple[Shape, Strides]]) -> tuple[int, ...]:
    """Axes from the slowest to the fastest of arrays joined into one: here a broadcast axis is a fast one."""
    operands = [
        tuple(0 if extent == 1 else 2 * abs(stride) + 1 for extent, stride in zip(shape, strides, strict=True))
        for shape, strides in arrays
    ]
    order = list(range(len(operands[0])))
    for here in range(1, len(order)):  # from the left, unlike NumPy's iterator: axes of one element stay behind others
        place = here
        for before in range(here - 1, -1, -1):
            slower = _slower(order[before], order[here], operands)
            if slower:
                break
            place = place if slower is None else before
        order.insert(place, order.pop(here))
    return tuple(order)


def _slower(a: int, b: int, operands: Sequence[Strides]) -> bool | None:
    """Whether axis `a` is at least as slow as `b`; None where no operand has a stride along both."""
    verdict = None
    for strides in operands:
        x, y = abs(strides[a]), abs(strides[b])
        if x and y:
            if y <= x:
                return True
            verdict = False
    return verdict


def spread(order: tuple[int, ...], shape: Shape, itemsize: int) -> Strides:
    """Byte strides, by axis, of an array of `shape` that lies densely in `order`."""
    strides = [0] * len(shape)
    for axis, stride in zip(order, contiguous(tuple(shape[a] for a in order), itemsize), strict=True):
        strides[axis] = stride
    return tuple(strides)
