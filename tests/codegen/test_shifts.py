"""Which loads are known to look at one array, and how far apart."""

from __future__ import annotations

import numpy

from offarray.codegen.abi import layout
from offarray.codegen.gpu_plan import Choice, alignment, offsets
from offarray.codegen.gpu_shifts import REACH, Alike
from offarray.runtime.program import pack

from . import device
from .kernels import Array, Builder


def found(*views: Array) -> list[tuple[int, ...]]:
    """The steps of all views but the first; () for those that it does not tell."""
    k = Builder(*views[0].shape)
    axes = range(views[0].ndim)
    loads = [k.load(v, *axes) for v in views]
    total = loads[0]
    for n in loads[1:]:
        total = k.op("add", "f8", total, n)
    k.store(numpy.zeros(views[0].shape), total, *axes)
    kernel = k.kernel()
    row = list(pack([*[a.ctypes.data for a in k.arrays], *k.words()[len(k.arrays) :]]))
    told = {n: steps for n, _, steps in Alike(kernel, layout(kernel)).shifts(row, k.extents)}
    return [told.get(n, ()) for n in loads[1:]]


def test_neighbours() -> None:
    a = device.fill(20, 30)
    around = a[:-2, 1:-1], a[2:, 1:-1], a[1:-1, :-2], a[1:-1, 2:]
    assert found(a[1:-1, 1:-1], *around) == [(-1, 0), (1, 0), (0, -1), (0, 1)]
    assert found(a[:-2, :-2], a[2:, 2:], a[1:-1, :-2]) == [(2, 2), (1, 0)]
    b = a[::-1]
    assert found(b[1:-1, 1:-1], b[:-2, 1:-1], b[2:, 1:-1]) == [(-1, 0), (1, 0)]
    c = device.fill(6, 20, 30)[:, ::2]
    assert found(c[1:-1, 1:-1, :28], c[2:, 1:-1, :28], c[:-2, :-2, 2:]) == [(1, 0, 0), (-1, -1, 2)]


def test_others() -> None:
    """Another array, other strides, distances that are no whole steps, and far ones."""
    a, b = device.fill(40, 64), device.fill(40, 64)
    assert found(a[1:], a[:-1], b[1:]) == [(-1, 0), ()]
    assert found(a[:20], a[20 : 20 + 20], a[REACH : REACH + 20]) == [(), (REACH, 0)]
    assert found(a[:20, :32], a[1:21, :32], a[::2, :32]) == [(1, 0), ()]
    pairs = numpy.zeros((40, 64), [("x", "f8"), ("y", "f8")])
    assert found(pairs["x"][1:], pairs["x"][:-1], pairs["y"][1:]) == [(-1, 0), ()]


def wide(a: Array, extents: tuple[int, ...]) -> tuple[int, list[int]]:
    """Lanes of a stencil over an array, and where its loads begin past a place for a wide access."""
    inside = [a[i : i + extents[0], j : j + extents[1]] for i, j in ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))]
    k = Builder(*extents)
    loads = [k.load(v, 0, 1) for v in inside]
    total = loads[0]
    for n in loads[1:]:
        total = k.op("add", "f4", total, n)
    k.store(numpy.zeros(extents, "f4"), total, 0, 1)
    kernel, places = k.kernel(), layout(k.kernel())
    row = list(pack([*[a.ctypes.data for a in k.arrays], *k.words()[len(k.arrays) :]]))
    lies = alignment(kernel, extents, row, places.load_strides, places.store_strides)
    found = Choice(
        kernel, extents, *lies, Alike(kernel, places).shifts(row, extents), offsets(kernel, row, places.load_strides)
    )  # fmt: skip
    variant = found.passes()[0].variant
    return variant.lanes, [size for _, size in variant.skews]


def test_wide_reads_wherever_the_elements_begin() -> None:
    a = numpy.zeros((42, 260), "f4")
    a = a.reshape(-1)[-a.ctypes.data % 16 // 4 :][: 40 * 256].reshape(40, 256)
    assert wide(a, (38, 252)) == (4, [4, 4, 4, 0, 8])
    assert wide(a, (38, 254)) == (2, [4, 4, 4, 0, 8])  # rows of the result lie at multiples of 8
    assert wide(a[:, 1:], (38, 252)) == (4, [8, 8, 8, 4, 12])
    assert wide(a[:, 1:], (38, 253))[0] == 1  # rows of the result lie anywhere
    b = numpy.zeros((40, 254), "f4")
    assert wide(b, (38, 252))[1] == []  # those of the array lie at multiples of 8
