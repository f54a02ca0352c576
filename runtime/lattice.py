"""Views by slicing alone, for element types that NumPy neither builds from bytes nor re-strides (StringDType).

in: runtime/buffer.py with an array that holds the memory; out: numpy.  The type object of such elements belongs to
their memory (it knows where long strings lie), so a view must come from the array itself and keep that very object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

Array = numpy.ndarray[Any, Any]


class Held(numpy.ndarray):
    """A link in the chain of bases that keeps `token` alive."""

    token: Any


def hold(array: Array, token: Any) -> Array:
    """A plain view of `array`: while it, or anything made from it without a copy, lives, `token` does."""
    link = array.view(Held).view()  # two of them: NumPy shortens the chain where the types of neighbours are the same
    link.token = token  # type: ignore[attr-defined]
    return link.view(numpy.ndarray)


def line(array: Array) -> Array:
    """The memory of `array` from its lowest address on as one axis without gaps.

    Raises
    ------
    TypeError
        When neither it nor an array that it looks at fills its memory.
    """
    each: Any = array
    while isinstance(each, numpy.ndarray) and each.dtype == array.dtype:
        steps = each.strides
        up = _turned(each.view(numpy.ndarray), steps)
        up = up.transpose(sorted(range(up.ndim), key=lambda i: -abs(steps[i])))
        if up.flags.c_contiguous:
            return up.reshape(-1)
        each = each.base
    raise TypeError(f"memory of {array.dtype} with gaps cannot be viewed in another way")


def strided(flat: Array, start: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """The view of `flat` with element `start` first and `steps` in elements.

    Raises
    ------
    TypeError
        When the view overlaps itself other than by repeating elements.
    """
    long = [i for i, n in enumerate(shape) if n > 1 and steps[i]]
    start += sum((shape[i] - 1) * steps[i] for i in long if steps[i] < 0)
    long.sort(key=lambda i: -abs(steps[i]))
    view = flat
    for position, i in enumerate(long[:-1]):
        extent = 1 + sum((shape[j] - 1) * abs(steps[j]) for j in long[position + 1 :])
        view, start = _rows(view, start, shape[i], abs(steps[i]), extent)
    if long:
        n, step = shape[long[-1]], abs(steps[long[-1]])
        view = view[..., start : start + (n - 1) * step + 1 : step]
    else:
        view = view[..., start : start + 1].reshape(())
    view = _turned(view, [steps[i] for i in long])
    view = view.transpose(sorted(range(len(long)), key=long.__getitem__))
    key: Any = (..., *(slice(None) if i in long else None for i in range(len(shape))))
    view = view[key]
    if view.shape != shape:
        writeable = view.flags.writeable
        view = numpy.broadcast_to(view, shape)
        view.flags.writeable = writeable
    return view


def _turned(view: Array, steps: Sequence[int]) -> Array:
    """`view` with those axes reversed whose step is negative."""
    key: Any = (..., *(slice(None, None, -1 if s < 0 else 1) for s in steps))
    return view[key]


def _rows(view: Array, start: int, count: int, step: int, extent: int) -> tuple[Array, int]:
    """The last axis as two: `count` rows `step` apart, with the `extent` elements from `start` on, and their start.

    Rows are cut as short as will do: the last one must not pass the end of the memory.
    """
    size = view.shape[-1]
    for width in (w for w in range(extent, step + 1) if step % w == 0):
        low = max(0, start + extent - width)
        length = (count - 1) * step + width
        if low + length > size:
            continue
        part = view[..., low : low + length]
        rows = part.reshape(*view.shape[:-1], length // width, width)[..., :: step // width, :]
        return rows, start - low
    raise TypeError(f"a view of {view.dtype} that overlaps itself cannot be made")
