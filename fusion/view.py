"""Views: strided windows on a node's memory, and their algebra.

A view is (offset, shape, strides) in bytes over C-contiguous memory.  An *index map* gives, for each axis of a node,
an affine function of the axes of a kernel: (constant, ((axis, coefficient), ...)).
"""

from __future__ import annotations

import math

from ..runtime.tuples import NamedTuple

Shape = tuple[int, ...]
Affine = tuple[int, tuple[tuple[int, int], ...]]  # constant, ((axis, coefficient), ...) with axes ascending
Map = tuple[Affine, ...]


class View(NamedTuple):
    """A strided window: byte offset, extents, byte strides."""

    offset: int
    shape: Shape
    strides: Shape


def contiguous(shape: Shape, itemsize: int) -> Shape:
    """C-order byte strides of `shape`."""
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent if extent > 1 else 1
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether the strides are C-order, extents of one ignored; what has no elements is."""
    if 0 in shape:
        return True
    step = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def span(view: View, itemsize: int) -> tuple[int, int]:
    """First byte and one past the last byte that the view touches; equal when it is empty."""
    low = high = view.offset
    for extent, stride in zip(view.shape, view.strides, strict=True):
        if extent == 0:
            return view.offset, view.offset
        reach = stride * (extent - 1)
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high + itemsize


def decompose(view: View, shape: Shape, itemsize: int) -> Map | None:
    """The view as a map from its own axes onto the axes of a dense array of `shape`, if it is one.

    Returns None where a stride is no combination of whole steps along the array's axes, or where a step would
    wrap from one row into the next (a reshape), or where the offset splits an element.
    """
    if view.offset % itemsize:
        return None
    live = [d for d, extent in enumerate(shape) if extent != 1]
    steps = dict(zip(live, contiguous(tuple(shape[d] for d in live), 1), strict=True))
    rest = view.offset // itemsize
    start = dict.fromkeys(range(len(shape)), 0)
    for d in live:
        start[d], rest = divmod(rest, steps[d])
    low, high = dict(start), dict(start)
    parts: dict[int, list[tuple[int, int]]] = {d: [] for d in range(len(shape))}
    for axis, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if extent == 1 or stride == 0:
            continue
        if stride % itemsize:
            return None
        steps_of_axis = _steps(stride // itemsize, extent, live, steps, shape)
        if steps_of_axis is None:
            return None
        for d, c in steps_of_axis:
            parts[d].append((axis, c))
            reach = c * (extent - 1)
            low[d] += min(reach, 0)
            high[d] += max(reach, 0)
    if any(low[d] < 0 or high[d] >= shape[d] for d in live):
        return None
    return tuple((start[d], tuple(parts[d])) for d in range(len(shape)))


def _steps(
    stride: int, extent: int, live: list[int], steps: dict[int, int], shape: Shape
) -> list[tuple[int, int]] | None:
    """`stride` elements as whole steps along axes, none longer than its axis; outermost axis first."""
    found = []
    for d in live:
        if not stride:
            break
        step = steps[d]
        coefficient = int(stride / step) if abs(stride) < 1 << 52 else stride // step
        rest = stride - coefficient * step
        # a remainder that no inner step can cover within its extent belongs to a step the other way round
        if rest and 2 * abs(rest) > step:
            up = 1 if rest > 0 else -1
            coefficient, rest = coefficient + up, rest - up * step
        if coefficient:
            if abs(coefficient) * (extent - 1) >= shape[d]:
                return None
            found.append((d, coefficient))
        stride = rest
    return found if not stride else None


def compose(outer: Map, inner: Map) -> Map:
    """`outer` maps node axes to view axes, `inner` view axes to kernel axes: node axes to kernel axes."""
    result = []
    for constant, terms in outer:
        sums: dict[int, int] = {}
        for axis, coefficient in terms:
            shift, parts = inner[axis]
            constant += coefficient * shift
            for kernel_axis, c in parts:
                sums[kernel_axis] = sums.get(kernel_axis, 0) + coefficient * c
        result.append((constant, tuple(sorted((a, c) for a, c in sums.items() if c))))
    return tuple(result)


def place(offset: int, strides: Shape, indices: Map) -> tuple[int, dict[int, int]]:
    """Byte offset and byte stride by kernel axis of memory seen through `strides` at the mapped `indices`."""
    by_axis: dict[int, int] = {}
    for stride, (constant, terms) in zip(strides, indices, strict=True):
        offset += stride * constant
        for axis, coefficient in terms:
            by_axis[axis] = by_axis.get(axis, 0) + stride * coefficient
    return offset, {a: s for a, s in by_axis.items() if s}


def identity(shape: Shape, axes: tuple[int, ...] | None = None) -> Map:
    """The map of a node of `shape` whose axes are the kernel's axes in order; extents of one are constant."""
    return tuple((0, ((axes[d] if axes else d, 1),) if e != 1 else ()) for d, e in enumerate(shape))


def disjoint(a: View, b: View, itemsize_a: int, itemsize_b: int) -> bool:
    """Whether two views of one memory certainly share no byte (interval and phase test)."""
    low_a, high_a = span(a, itemsize_a)
    low_b, high_b = span(b, itemsize_b)
    if high_a <= low_b or high_b <= low_a:
        return True
    return _phase_disjoint(a, b, itemsize_a, itemsize_b)


def _phase_disjoint(a: View, b: View, itemsize_a: int, itemsize_b: int) -> bool:
    # interleaved slices such as x[::2] and x[1::2]: all strides multiples of one period, phases apart
    strides = [abs(s) for v in (a, b) for s, e in zip(v.strides, v.shape, strict=True) if e > 1 and s]
    if not strides:
        return False
    period = math.gcd(*strides)
    if period < itemsize_a + itemsize_b:
        return False
    shift = (b.offset - a.offset) % period
    return itemsize_a <= shift and shift + itemsize_b <= period
