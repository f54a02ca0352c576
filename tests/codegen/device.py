"""Kernels for a graphics processor: examples of every kind, their entries as text, and assembling without a device."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from offarray.codegen import gpu_numerics
from offarray.codegen.compile import compile
from offarray.codegen.gpu_emit import emit_device
from offarray.codegen.gpu_plan import Choice, Pass
from offarray.codegen.kernel import can_rerun
from offarray.codegen.nvptx import device_target
from offarray.codegen.reporting import with_checks
from offarray.codegen.text import Code
from offarray.runtime import buffer as buffers
from offarray.runtime import residency
from offarray.runtime.program import pack
from offarray.runtime.target import Target

from .kernels import Builder

Array = numpy.ndarray[Any, Any]
KINDS = 11  # divide, over, invalid


@functools.cache
def ptxas() -> str | None:
    """NVIDIA's assembler: on the path, in a CUDA toolkit, or in the package nvidia-cuda-nvcc; None if nowhere."""
    found = shutil.which("ptxas")
    if found is None:
        spec = importlib.util.find_spec("nvidia")
        roots = list(spec.submodule_search_locations or ()) if spec is not None else []
        places = [p for root in roots for p in pathlib.Path(root).glob("*/bin/ptxas")]
        places.append(pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin/ptxas")
        found = next((str(p) for p in places if p.is_file()), None)
    return found


def assemble(ptx: str, arch: str, level: int = 1) -> str:
    """What the assembler says of PTX; raises if it refuses it."""
    tool = ptxas()
    assert tool is not None
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        line = [tool, f"-arch={arch}", f"-O{level}", "-v", str(source), "-o", str(source.with_suffix(".cubin"))]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stderr


def operation(name: str, op: str, srcs: Sequence[str], out: str, lanes: int, arch: str) -> tuple[Code, str]:
    """An entry that does one operation."""
    code = Code(device_target(arch), lanes)
    args = tuple(code.read(dtype, f"%p{n}") for n, dtype in enumerate(srcs))
    result = gpu_numerics.apply(code, op, tuple(srcs), out, args)
    code.lanes = lanes
    code.write(out, result, "%q")
    code.add("ret void")
    parameters = ", ".join([*(f"ptr %p{n}" for n in range(len(srcs))), "ptr %q"])
    return code, code.function(f"define ptx_kernel void @{name}({parameters})")


def passes(builder: Builder, aligned: bool = True, natural: bool = True) -> list[Pass]:
    """The launches of a kernel."""
    kernel = builder.kernel()
    mask = (1 << 64) - 1 if aligned else 0
    return Choice(kernel, builder.extents, mask, mask, natural).passes()


def modules(builder: Builder, arch: str, aligned: bool = True, natural: bool = True) -> list[str]:
    """Text of every entry that a call uses, those that report faults included."""
    kernel = builder.kernel()
    ways = [(kernel, False, True)]
    if kernel.faults:
        again = can_rerun(kernel)
        exact = (with_checks(kernel), True, not again)
        ways = [*ways, exact] if again else [exact]
    found: list[str] = []
    mask = (1 << 64) - 1 if aligned else 0
    for used, is_exact, writes in ways:
        for step in Choice(used, builder.extents, mask, mask, natural).passes():
            name = f"k{len(found)}"
            found.append(emit_device(used, step.variant, device_target(arch), name, is_exact, writes))
    return found


# ---------------------------------------------------------------------- examples
def fill(*shape: int, dtype: str = "f8", seed: int = 0) -> Array:
    """Random numbers."""
    found = numpy.random.default_rng(seed).standard_normal(shape) * 4
    if dtype[0] == "c":
        return (found + 1j * found[..., ::-1]).astype(dtype)
    return (abs(found) if dtype[0] == "u" else found > 0 if dtype == "b1" else found).astype(dtype)


def triad(*shape: int, dtype: str = "f8") -> Builder:
    """a + 0.5 * b."""
    k, axes = Builder(*shape), range(len(shape))
    a, b = (k.load(fill(*shape, dtype=dtype, seed=n), *axes) for n in (0, 1))
    scaled = k.op("multiply", dtype, b, k.arg(0.5, dtype), fault=KINDS)
    k.store(numpy.zeros(shape, dtype), k.op("add", dtype, a, scaled, fault=KINDS), *axes)
    return k


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], monoid: str = "add", dtype: str = "f8") -> Builder:
    """A reduction over some axes."""
    k = Builder(*shape)
    x = k.load(fill(*shape, dtype=dtype), *range(len(shape)))
    value = k.fold(monoid, axes, x, fault=10 if monoid in ("add", "multiply") and dtype[0] in "fc" else 0)
    kept = [a for a in range(len(shape)) if a not in axes]
    out = numpy.zeros([shape[a] for a in kept], k.values[value].dtype)
    k.store(out, value, *kept)
    return k


def softmax(rows: int, columns: int, dtype: str = "f4") -> Builder:
    """Along rows."""
    k = Builder(rows, columns)
    x = k.load(fill(rows, columns, dtype=dtype), 0, 1)
    e = k.op("exp", dtype, k.op("subtract", dtype, x, k.fold("maximum", (1,), x), fault=KINDS), fault=KINDS)
    result = k.op("divide", dtype, e, k.fold("add", (1,), e, fault=10), fault=KINDS)
    k.store(numpy.zeros((rows, columns), dtype), result, 0, 1)
    return k


def centred(rows: int, columns: int, axis: int, dtype: str = "f4", inplace: bool = False) -> Builder:
    """x minus its mean, the mean too."""
    k = Builder(rows, columns)
    a = fill(rows, columns, dtype=dtype)
    x = k.load(a, 0, 1)
    count = k.arg(float((rows, columns)[axis]), dtype)
    mean = k.op("divide", dtype, k.fold("add", (axis,), x, fault=10), count, fault=KINDS)
    k.store(a if inplace else numpy.zeros_like(a), k.op("subtract", dtype, x, mean, fault=KINDS), 0, 1)
    k.store(numpy.zeros(a.shape[1 - axis], dtype), mean, 1 - axis)
    return k


def normalised(n: int, dtype: str = "f8") -> Builder:
    """x / x.sum() of a vector."""
    k = Builder(n)
    x = k.load(fill(n, dtype=dtype), 0)
    k.store(numpy.zeros(n, dtype), k.op("divide", dtype, x, k.fold("add", (0,), x, fault=10), fault=KINDS), 0)
    return k


def scanned(shape: tuple[int, ...], axes: tuple[int, ...], monoid: str = "add", dtype: str = "f8") -> Builder:
    """A scan."""
    k = Builder(*shape)
    x = k.load(fill(*shape, dtype=dtype), *range(len(shape)))
    value = k.fold(monoid, axes, x, "prefix")
    k.store(numpy.zeros(shape, dtype), value, *range(len(shape)))
    return k


def pairs(n: int, m: int, dims: int) -> Builder:
    """exp(-|x - y|^2) summed over y."""
    k = Builder(n, m, dims)
    x, y = k.load(fill(n, dims), 0, 2), k.load(fill(m, dims, seed=1), 1, 2)
    d = k.op("subtract", "f8", x, y)
    q = k.fold("add", (2,), k.op("multiply", "f8", d, d))
    k.store(numpy.zeros(n), k.fold("add", (1,), k.op("exp", "f8", k.op("negative", "f8", q))), 0)
    return k


def distances(n: int, m: int, dtype: str = "f8") -> Builder:
    """Sum of the distances between two sets of points."""
    k = Builder(n, m, 3)
    d = k.op("subtract", dtype, k.load(fill(n, 3, dtype=dtype), 0, 2), k.load(fill(m, 3, dtype=dtype, seed=1), 1, 2))
    square = k.fold("add", (2,), k.op("multiply", dtype, d, d, fault=KINDS), fault=10)
    k.store(numpy.zeros((), dtype), k.fold("add", (0, 1), k.op("sqrt", dtype, square, fault=KINDS), fault=10))
    return k


def gathered(n: int, dtype: str = "f4") -> Builder:
    """Rows of a table, and a plain operand."""
    k = Builder(n, 64)
    table, index = fill(100, 64, dtype=dtype), numpy.random.default_rng(1).integers(0, 100, n)
    taken = k.load(table[0], 1, at=[k.load(index, 0)], strides=[table.strides[0]])
    k.store(numpy.zeros((n, 64), dtype), k.op("add", dtype, taken, k.load(fill(n, 64, dtype=dtype), 0, 1)), 0, 1)
    return k


def strided(n: int, m: int, dtype: str = "f4") -> Builder:
    """A transposed and a reversed operand."""
    k = Builder(n, m)
    a, b = fill(m, n, dtype=dtype), fill(n, m, dtype=dtype)
    total = k.op("add", dtype, k.load(a.T, 0, 1), k.load(b[::-1, ::-1], 0, 1))
    k.store(numpy.zeros((n, m), dtype), total, 0, 1)
    return k


def stencil(*shape: int, dtype: str = "f4", step: int = 1) -> Builder:
    """A weighted sum of neighbours along each axis; with a step all but the last run backwards."""
    k, axes = Builder(*(n - 2 for n in shape)), range(len(shape))
    a = fill(*shape, dtype=dtype)[(slice(None, None, step),) * (len(shape) - 1)]
    middle = tuple(slice(1, -1) for _ in shape)
    total = k.op("multiply", dtype, k.load(a[middle], *axes), k.arg(0.5, dtype))
    for axis in axes:
        for step in (slice(None, -2), slice(2, None)):
            beside = k.load(a[(*middle[:axis], step, *middle[axis + 1 :])], *axes)
            total = k.op("add", dtype, total, beside, fault=KINDS)
    k.store(numpy.zeros([n - 2 for n in shape], dtype), total, *axes)
    return k


def packed(n: int) -> Builder:
    """A field of a packed structure in place: elements at odd addresses."""
    k = Builder(n)
    x = numpy.zeros(n, [("a", "f8"), ("b", "i2"), ("c", "u1"), ("d", "f4")])
    x["a"], x["b"], x["d"] = fill(n), fill(n, dtype="i2", seed=1), fill(n, dtype="f4", seed=2)
    total = k.op("add", "f8", k.load(x["a"], 0), k.op("cast", "f8", k.load(x["b"], 0)))
    k.store(x["a"], total, 0)
    k.store(x["d"], k.op("cast", "f4", total), 0)
    return k


def spread(n: int, m: int) -> Builder:
    """Several outputs, one in place, of several data types, with an index."""
    k = Builder(n, m)
    a, flag = fill(n, m, dtype="f4"), numpy.zeros((n, m), bool)
    x = k.load(a, 0, 1)
    k.store(flag, k.op("greater", "b1", x, k.arg(0.0, "f4")), 0, 1)
    k.store(a, k.op("sqrt", "f4", x, fault=8), 0, 1)
    k.store(numpy.zeros((n, m)), k.op("multiply", "f8", k.op("cast", "f8", x), k.op("cast", "f8", k.iota(1))), 0, 1)
    return k


EXAMPLES: dict[str, Callable[[], Builder]] = {
    "triad": lambda: triad(100_000),
    "triad tail": lambda: triad(100_003),
    "triad f4": lambda: triad(50, 1000, dtype="f4"),
    "triad c16": lambda: triad(5000, dtype="c16"),
    "triad c8": lambda: triad(5000, dtype="c8"),
    "triad f2": lambda: triad(5001, dtype="f2"),
    "triad u1": lambda: triad(5001, dtype="u1"),
    "dot": lambda: reduced((3_000_000,), (0,)),
    "sum small": lambda: reduced((300,), (0,)),
    "sum of 3 axes": lambda: reduced((30, 40, 500), (0, 1, 2)),
    "sum c8": lambda: reduced((300_000,), (0,), dtype="c8"),
    "rows short": lambda: reduced((5000, 3), (1,)),
    "rows warp": lambda: reduced((5000, 100), (1,), dtype="f4"),
    "rows block": lambda: reduced((3000, 5000), (1,), dtype="f4"),
    "rows long": lambda: reduced((3, 400_000), (1,)),
    "columns": lambda: reduced((3000, 1000), (0,), dtype="f4"),
    "columns few": lambda: reduced((400_000, 3), (0,)),
    "columns many": lambda: reduced((20, 300_000), (0,), dtype="f4"),
    "middle axis": lambda: reduced((30, 400, 64), (1,), dtype="f4"),
    "outer axes": lambda: reduced((30, 400, 64), (0, 1)),
    "ends": lambda: reduced((30, 40, 64), (0, 2),
    "maximum"),
    "argmax": lambda: reduced((400_000,), (0,),
    "argmax"),
    "argmin rows": lambda: reduced((50, 4000), (1,),
    "argmin", "f4"),
    "argmin columns": lambda: reduced((4000, 50), (0,),
    "argmin", "i4"),
    "argmax c16": lambda: reduced((70, 300), (1,),
    "argmax", "c16"),
    "all": lambda: reduced((1000, 300), (1,),
    "logical_and", "f4"),
    "xor": lambda: reduced((100_000,), (0,),
    "bitwise_xor", "u1"),
    "min f2": lambda: reduced((1000, 300), (1,),
    "minimum", "f2"),
    "product i8": lambda: reduced((1000, 300), (0,),
    "multiply", "i8"),
    "softmax": lambda: softmax(64, 8192),
    "softmax short": lambda: softmax(1000, 100),
    "softmax long": lambda: softmax(4, 300_000),
    "softmax f8 odd": lambda: softmax(100, 1001, "f8"),
    "softmax wide": lambda: softmax(300, 100_000),
    "centred rows": lambda: centred(500, 1024, 1),
    "centred columns": lambda: centred(1024, 500, 0),
    "centred in place": lambda: centred(500, 1024, 1, inplace=True),
    "centred long": lambda: centred(300_000, 12, 0),
    "normalised": lambda: normalised(1_000_000),
    "pairs": lambda: pairs(300, 500, 3),
    "pairs deep": lambda: pairs(300, 50, 128),
    "pairs many": lambda: pairs(700, 1100, 2),
    "distances": lambda: distances(600, 1100),
    "scan": lambda: scanned((100_000,), (0,)),
    "scan short": lambda: scanned((3000,), (0,)),
    "scan long rows": lambda: scanned((3, 100_001), (1,), "multiply", "i4"),
    "scan rows": lambda: scanned((300, 100), (1,),
    "maximum"),
    "scan columns": lambda: scanned((100, 3000), (0,)),
    "scan all": lambda: scanned((100, 300), (0, 1), dtype="f4"),
    "gathered": lambda: gathered(1000),
    "strided": lambda: strided(300, 200),
    "rows of 16": lambda: reduced((1003, 16), (1,), "maximum", "f4"),
    "rows of 7": lambda: reduced((1003, 7), (1,), "add", "f8"),
    "rows of 40": lambda: softmax(1003, 40),
    "tiles": lambda: strided(133, 301, "f8"),
    "transposed": lambda: strided(70, 3000, "c8"),
    "stencil": lambda: stencil(131, 514),
    "stencil of 3 axes": lambda: stencil(7, 10, 258, dtype="f8"),
    "stencil in boxes": lambda: stencil(11, 15, 66),
    "stencil backwards": lambda: stencil(9, 11, 258, step=-1),
    "stencil of 4 axes": lambda: stencil(4, 7, 9, 130),
    "stencil of a vector": lambda: stencil(5001, dtype="f8"),
    "stencil of wide rows": lambda: stencil(131, 512),
    "stencil in wide boxes": lambda: stencil(7, 10, 256, dtype="f8"),
    "stencil of bytes": lambda: stencil(20, 256, dtype="u1"),
    "tiles of a square": lambda: strided(133, 133, "f8"),
    "packed": lambda: packed(1000),
    "spread": lambda: spread(300, 200),
}  # fmt: skip


def owner(array: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def run(k: Builder, target: Target) -> list[int]:
    """Launch on the device; arrays are brought back."""
    compiled = compile(k.kernel(), target)
    held: dict[int, Any] = {}
    pointers = []
    for array in k.arrays:
        base = owner(array)
        if id(base) not in held:
            held[id(base)] = buffers.adopt(base, False)
        buffer = held[id(base)]
        pointers.append((buffer, array.ctypes.data - buffer.address))
    words = pack(k.words()[len(k.arrays) :])
    found = residency.launch(compiled, pointers, words, k.access, len(k.kernel().faults))
    for buffer in held.values():
        buffer.device.look(buffer)
    return list(found)
