"""cuBLAS: products of matrices, and factorisations of many small ones.

in: addresses of matrices stored by columns (Fortran's order), strides in elements; out: launches on the stream.
No reduced precision: float32 is never rounded to TF32 or bfloat16, whatever the library's default.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import cudalib
from .cudalib import Step

WORKSPACE = 1 << 25  # bytes that the library may use for one product; NVIDIA's advice for these devices

# character of the data type -> (type of the elements, type of the arithmetic, dtype of the factors)
TYPES: dict[str, tuple[int, int, str]] = {
    "e": (2, 68, "f4"), "f": (0, 68, "f4"), "d": (1, 70, "f8"), "F": (4, 68, "c8"), "D": (5, 70, "c16"),
}  # fmt: skip
_ONE = {d: numpy.ones(1, d) for d in ("f4", "f8", "c8", "c16")}
_ZERO = {d: numpy.zeros(1, d) for d in ("f4", "f8", "c8", "c16")}
PLAIN, TRANSPOSED, ADJOINT = 0, 1, 2
_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


def _make(device: Any) -> int:
    handle: int = cudalib.call("cublas", "create")
    cudalib.call("cublas", "set_stream", handle, int(device.stream))
    cudalib.call("cublas", "set_workspace", handle, device.allocate(WORKSPACE), WORKSPACE)
    cudalib.call("cublas", "set_math_mode", handle, 0)  # arithmetic of the type itself
    cudalib.call("cublas", "set_pointer_mode", handle, 0)  # factors are read from the host
    return handle


def handle(step: Step) -> int:
    """The library's handle for the step's device."""
    return cudalib.handle(step.device, "cublas", _make)  # type: ignore[no-any-return]


def gemm(
    step: Step, char: str, ops: tuple[int, int], size: tuple[int, int, int], a: tuple[int, int, int],
    b: tuple[int, int, int], c: tuple[int, int, int], batch: int,
) -> None:  # fmt: skip
    """C = op(A) op(B) for each member of a batch.

    Parameters
    ----------
    size
        Rows of C, columns of C, and the extent that is summed over.
    a, b, c
        (address, leading dimension, stride between members) of each.
    """
    kind, arithmetic, scale = TYPES[char]
    one, zero = _ONE[scale].ctypes.data, _ZERO[scale].ctypes.data
    cudalib.call(
        "cublas", "gemm_strided_batched_ex_64", handle(step), *ops, *size, one, a[0], kind, a[1], a[2],
        b[0], kind, b[1], b[2], zero, c[0], kind, c[1], c[2], batch, arithmetic, -1,
    )  # fmt: skip


def gemv(
    step: Step, char: str, op: int, size: tuple[int, int], a: tuple[int, int, int], x: tuple[int, int, int],
    y: tuple[int, int, int], batch: int,
) -> None:  # fmt: skip
    """y = op(A) x for each member of a batch; (address, increment, stride between members) of the vectors."""
    scale = TYPES[char][2]
    one, zero = _ONE[scale].ctypes.data, _ZERO[scale].ctypes.data
    cudalib.call(
        "cublas", _PREFIX[char] + "gemv_strided_batched_64", handle(step), op, *size, one, *a, *x, zero, *y, batch
    )  # fmt: skip


def pointers(step: Step, first: int, stride: int, count: int) -> int:
    """Scratch memory with the addresses of `count` matrices that lie `stride` bytes apart."""
    return step.send(numpy.uint64(first) + numpy.uint64(stride) * numpy.arange(count, dtype=numpy.uint64))


def factor(step: Step, char: str, n: int, matrices: int, pivots: int, count: int) -> int:
    """LU factorisation in place of `count` n x n matrices whose addresses lie at `matrices`; address of their info."""
    info = step.scratch(4 * count)
    cudalib.call(
        "cublas", _PREFIX[char] + "getrf_batched", handle(step), n, matrices, n, pivots, info, count
    )  # fmt: skip
    return info


def solve(step: Step, char: str, n: int, columns: int, matrices: int, pivots: int, sides: int, count: int) -> None:
    """Solve with LU factors, overwriting the right-hand sides."""
    info = numpy.zeros(1, numpy.int32)  # of the host: arguments that were refused
    cudalib.call(
        "cublas", _PREFIX[char] + "getrs_batched", handle(step), PLAIN, n, columns, matrices, n, pivots, sides, n,
        info.ctypes.data, count,
    )  # fmt: skip
