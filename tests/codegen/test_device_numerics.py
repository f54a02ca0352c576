"""The devices' numerics on this processor: the same instructions, with the C library in libdevice's place."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import llvmlite.binding as llvm
import numpy
import pytest

from offarray.codegen import gpu_numerics
from offarray.codegen.gpu_library import LIBRARY
from offarray.codegen.rules import kind
from offarray.codegen.text import Code, Reg

from . import lanes
from .values import expected, inputs, operations

Array = numpy.ndarray[Any, Any]


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Functions of libdevice under its names."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in {*LIBRARY.values(), "log1p", "fmod", "ldexp", "frexp"}:
        for suffix in ("", "f"):
            address = ctypes.cast(getattr(libm, name + suffix), ctypes.c_void_p).value
            llvm.add_symbol(f"__nv_{name}{suffix}", address)


def case(op: str, srcs: tuple[str, ...], out: str, width: int = 1) -> lanes.Case:
    """Case of the devices' `apply`."""

    def emit(code: Code, args: tuple[Reg, ...]) -> Reg:
        return gpu_numerics.apply(code, op, srcs, out, args)

    return lanes.Case(srcs, out, width, emit)


def stretched(op: str, arrays: list[Array]) -> Any:
    """Further last places, where the operation enlarges the rounding of what it is composed of on both sides.

    An exponential does so with its argument, a sum with terms that cancel.
    """
    if op.startswith("logaddexp"):
        largest = numpy.maximum(*map(numpy.abs, arrays))
        with numpy.errstate(all="ignore"):
            return numpy.nan_to_num(2 * numpy.spacing(largest) / numpy.spacing(numpy.abs(expected(op, *arrays))))
    if not op.endswith("power") or arrays[0].dtype.kind != "c":
        return 0
    with numpy.errstate(all="ignore"):
        size = numpy.abs(arrays[1]) * numpy.abs(numpy.log(arrays[0]))
    return numpy.where(numpy.isfinite(size), 4 * size, 0)


def far(got: Array, want: Array) -> Array:
    """Distance in units of the last place of the whole number where both are finite, of what is finite otherwise."""
    if got.dtype.kind == "i":
        return numpy.abs(got - want)
    if got.dtype == "f2":  # a last place of f2 counts as one of f4
        found = far(got.astype("f4"), want.astype("f4"))
        return numpy.where(numpy.isfinite(found), found / 2.0**13, found)
    if got.dtype.kind != "c":
        got, want = got.astype(f"c{2 * got.itemsize}"), want.astype(f"c{2 * want.itemsize}")
    with numpy.errstate(all="ignore"):
        scale = numpy.where(numpy.isfinite(numpy.abs(want)), numpy.abs(want), 0)
        parts = []
        for a, b in ((got.real, want.real), (got.imag, want.imag)):
            unit = numpy.spacing(numpy.maximum(scale, numpy.where(numpy.isfinite(b), numpy.abs(b), 0)))
            fine = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
            fine &= (a != 0) | (numpy.signbit(a) == numpy.signbit(b))
            other = (a == b) & ~fine  # zeros of different signs
            parts.append(numpy.where(fine, 0, numpy.nan_to_num(numpy.abs(a - b) / unit, nan=numpy.inf)))
            parts[-1][other] = numpy.inf
        return numpy.maximum(*parts)


OWN = sorted(
    (op, srcs, out) for op, signatures in operations().items() for srcs, out in signatures
    if srcs[0][0] in "fc" and (op, kind(srcs[0])) in gpu_numerics.SINGLE
)  # fmt: skip


@pytest.mark.parametrize(("op", "srcs", "out"), OWN)
def test_as_numpy(op: str, srcs: tuple[str, ...], out: str) -> None:
    arrays = inputs(op, srcs)
    got, want = lanes.build([case(op, srcs, out)])[0](*arrays), expected(op, *arrays)
    distance = far(got, want)
    bad = numpy.flatnonzero(~(distance <= 4 + stretched(op, arrays)))
    lines = [f"{[a[k] for a in arrays]} gives {got[k]}, NumPy {want[k]} {distance[k]}" for k in bad[:8]]
    assert not len(bad), "\n".join([str(len(bad)), *lines])
