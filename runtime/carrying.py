"""Copies from buffer to buffer within a device: boxes of elements, as rows that lie apart.

in: fusion/memory.py, for what a write leaves as it is; out: the device's own copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from . import cuda, placement, residency
from .buffer import Buffer
from .errors import MemoryLimitError

COPIES = 64  # calls of the driver that one copy may take


def carry(
    source: Buffer, target: Buffer, itemsize: int, shape: Sequence[int], begin: tuple[int, int],
    strides: tuple[Sequence[int], Sequence[int]],
) -> bool:  # fmt: skip
    """Copy elements from one buffer to another; False where work is not on a device, or the form is not a device's.

    Parameters
    ----------
    shape
        Extents of the elements.
    begin, strides
        Of source and target: the offset of the first element, and the strides in bytes.
    """
    if not placement.aim.startswith("cuda") or source.shared or target.shared or source is target or 0 in shape:
        return False
    axes = [(n, a, b) for n, a, b in zip(shape, *strides, strict=True) if n > 1]
    if any(a < itemsize or b < itemsize for _, a, b in axes):
        return False
    width = itemsize
    while axes and axes[-1][1] == width == axes[-1][2]:
        width *= axes.pop()[0]
    count, step, room = axes.pop() if axes else (1, width, width)
    places = [(0, 0)]
    for n, a, b in axes:
        places = [(p + k * a, q + k * b) for (p, q), k in itertools.product(places, range(n))]
        if len(places) > COPIES:
            return False
    if step < width or room < width:
        return False
    reach = [p + q for p, q in zip(places[-1], ((count - 1) * step + width, (count - 1) * room + width), strict=True)]
    dense = reach[1] == width * count * len(places)
    device = cuda.device()
    with residency.lock, residency.keeping(source, target):
        try:
            first = residency.use(source, "r", False, begin[0], begin[0] + reach[0]) + begin[0]
            here = residency.at(target)
            if not here.host and not here.valid:  # new: memory for all of it at once
                residency.use(target, "w")
            second = residency.use(target, "w", dense, begin[1], begin[1] + reach[1]) + begin[1]
        except MemoryLimitError:
            return False
        for a, b in places:
            if count == 1:
                device.move(second + b, first + a, width)
            else:
                device.rows(second + b, room, first + a, step, width, count)
    return True
