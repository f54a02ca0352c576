"""Which loads are known to look at one array, and how far apart."""

from __future__ import annotations

import numpy

from offarray.codegen.abi import layout
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
