"""Numbers that operations are tried on, and comparison with what NumPy makes of them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy

from offarray.codegen import mathlib, numerics

from . import lanes

Array = numpy.ndarray[Any, Any]

DTYPES = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
INTS = (0, 1, 2, 3, 5, 7, 8, 15, 31, 32, 33, 63, 64, 100, -1, -2, -3, -5, -7, -8, -64, -100)
FLOATS = (
    0.0, 1, 2, 3, 0.5, 0.25, 1.5, 2.5, 0.7, 3.3, 7, 10, 100.3, 27, 1e3, numpy.inf, numpy.pi, numpy.pi / 2, 2**-0.5,
)  # fmt: skip
WIDE = (1e10, 1e-10, 1e22, 88.8, 709.9, 1e15 + 0.5, 2.0**31, 2.0**63, 2.0**64)
PARTS = (0.0, -0.0, 1, -1, 2.5, -0.3, numpy.inf, -numpy.inf, numpy.nan, 1e-30, 700)


@functools.cache
def specials(dtype: str) -> Array:
    """Numbers where operations differ from the ordinary."""
    kind = dtype[0]
    if kind == "b":
        return numpy.array([0, 1], dtype)
    if kind in "iu":
        info = numpy.iinfo(dtype)
        edges = (info.max, info.max - 1, info.max // 2, info.min, info.min + 1)
        return numpy.array([n for n in (*INTS, *edges) if info.min <= n <= info.max], dtype)
    if kind == "f":
        limits = numpy.finfo(dtype)
        edge = [limits.max, limits.max / 2, limits.tiny, limits.smallest_subnormal, limits.eps]
        some = [float(x) for x in (*FLOATS, *edge, *(WIDE if dtype != "f2" else ()))]
        return numpy.array([*some, *(-x for x in some), numpy.nan]).astype(dtype)
    largest = numpy.finfo(dtype).max
    return numpy.array([complex(a, b) for a in (*PARTS, largest) for b in (*PARTS, largest)], dtype)


def randoms(dtype: str, size: int, seed: int = 1) -> Array:
    """Numbers of all sizes."""
    random = numpy.random.default_rng(seed)
    kind = dtype[0]
    if kind == "b":
        return random.integers(0, 2, size).astype(dtype)
    if kind in "iu":
        info = numpy.iinfo(dtype)
        wide = random.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
        return numpy.where(random.random(size) < 0.5, wide, random.integers(max(info.min, -20), 20, size).astype(dtype))
    if kind == "f":
        near = random.normal(size=size) * 10
        far = random.normal(size=size) * 10.0 ** random.integers(-8, 8, size)
        with numpy.errstate(over="ignore"):
            return numpy.where(random.random(size) < 0.5, near, far).astype(dtype)
    part = "f4" if dtype == "c8" else "f8"
    return (randoms(part, size, seed) + 1j * randoms(part, size, seed + 100)).astype(dtype)


def inputs(op: str, srcs: Sequence[str], size: int = 500, step: int = 1) -> list[Array]:
    """Every combination of special numbers, then random ones; of three sources, and of pairs of complex, some."""
    step *= {1: 1, 2: 5 if srcs[0][0] == "c" else 1, 3: 5}[len(srcs)]
    grid = numpy.meshgrid(*(specials(s)[::step] for s in srcs), indexing="ij")
    some = [
        numpy.concatenate([g.ravel(), randoms(s, size, k)]) for k, (g, s) in enumerate(zip(grid, srcs, strict=True))
    ]
    if op == "power" and srcs[0][0] == "i":  # a negative power of an integer is refused before any kernel runs
        keep = some[1] >= 0
        some = [a[keep] for a in some]
    return some


def expected(op: str, *arrays: Array) -> Array:
    """What NumPy's ufunc gives; the parts of two-result ufuncs by their names."""
    name, which = numerics.SPLIT.get(op, (op, 0))
    ufunc = mathlib.ufunc(name)
    assert ufunc is not None
    with numpy.errstate(all="ignore"):
        result = ufunc(*arrays)
    return result[which] if op in numerics.SPLIT else result


def same(got: Array, want: Array) -> Array:
    """Equal, NaN and the sign of zero included (not NaN's sign)."""
    if got.dtype.kind == "c":
        return same(got.real, want.real) & same(got.imag, want.imag)
    if got.dtype.kind == "f":
        signs = numpy.signbit(got) == numpy.signbit(want)
        return ((got == want) & signs) | (numpy.isnan(got) & numpy.isnan(want))
    return got == want


def operations() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Every operation of the table with its signatures."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for name in (*dir(numpy._core.umath), *numerics.SPLIT):  # type: ignore[attr-defined]
        base, which = numerics.SPLIT.get(name, (name, 0))
        ufunc = mathlib.ufunc(base)
        if ufunc is None:
            continue
        for types in mathlib.signatures(base):
            srcs, out = types[: ufunc.nin], types[ufunc.nin + which]
            if numerics.supports(name, srcs, out):
                found.setdefault(name, []).append((srcs, out))
    return found


def mismatch(op: str, srcs: tuple[str, ...], out: str, width: int = 8) -> str:
    """The first differences from NumPy, or nothing."""
    arrays = inputs(op, srcs)
    got = lanes.build([lanes.operation(op, srcs, out, width)])[0](*arrays)
    return describe(f"{op} {srcs}", arrays, got, expected(op, *arrays))


def describe(name: str, arrays: Sequence[Array], got: Array, want: Array) -> str:
    """The first differences, or nothing."""
    bad = numpy.flatnonzero(~same(got, want))
    lines = [f"{name}: {[a[k] for a in arrays]} gives {got[k]}, NumPy {want[k]}" for k in bad[:3]]
    return "\n".join(lines)


def recorded(function: Any, *arrays: Array) -> Array:
    """Fault bits that NumPy reports for each element."""
    seen = 0

    def call(message: str, flags: int) -> None:
        nonlocal seen
        seen |= flags

    found = numpy.zeros(len(arrays[0]), "u1")
    with numpy.errstate(all="call", call=call), warnings.catch_warnings():
        warnings.simplefilter("ignore", numpy.exceptions.ComplexWarning)
        for k in range(len(found)):
            seen = 0
            function(*(a[k : k + 1] for a in arrays))
            found[k] = seen
    return found
