"""Running routines on the memory of arrays at their statement, counted as kernels.

in: `_sorting.py`, `_choosing.py`, `_counting.py` ... with arrays that they have checked; out: codegen/routine.py and
runtime/threads.py.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy

from . import _lazy
from ._array import HOST, host, ndarray
from ._memory import address, native
from ._reach import SPAN
from ._site import here
from .codegen.host import host_target
from .codegen.routine import routine
from .runtime import threads, trace
from .runtime.buffer import Buffer, allocate
from .runtime.config import settings
from .runtime.tuples import NamedTuple

Array = numpy.ndarray[Any, Any]
DType = numpy.dtype[Any]
Ranges = Sequence[tuple[int, int]]
SHARE = 2 << 20  # bytes that are worth a thread of their own
_KINDS = {"b": 1, "i": 0, "u": 1, "f": 2}
_HOST = ("auto", "cpu")


class Space(NamedTuple):
    """Memory of the pool: fresh pages are dear."""

    buffer: Buffer  # in front: a tuple lets go of its last item first, and the pool takes back what nobody looks at
    array: Array

    def handle(self) -> Any:
        """An array of ours on it."""
        return _lazy.held(self.buffer, self.array.dtype, self.array.shape)


def space(shape: tuple[int, ...] | int, dtype: Any, zero: bool = False) -> Space:
    """Memory for an array in C order."""
    extents = shape if isinstance(shape, tuple) else (int(shape),)
    kind = numpy.dtype(dtype)
    buffer = allocate(math.prod(extents) * kind.itemsize, zero)
    return Space(buffer, buffer.view(kind, extents))


def kind(dtype: DType) -> int:
    """0 for signed integers, 1 for unsigned ones and bool, 2 for floats."""
    return _KINDS[dtype.kind]


def code(dtype: DType) -> str:
    """Name of a dtype in routines; a bool is a byte."""
    return "u1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"


def raw(dtype: DType) -> str | None:
    """Name of an integer type of the same size, for routines that only move elements; None if there is none."""
    return f"u{dtype.itemsize}" if dtype.itemsize in (1, 2, 4, 8) else None


@cache
def packs() -> bool:
    """Whether the processor packs the chosen lanes of a vector by one instruction."""
    return "+avx512vl" in host_target().features.split(",")


def shares(nbytes: int, n: int) -> Ranges:
    """The ranges of `n` elements for as many threads as the work is worth."""
    most = min(threads.count(), nbytes // SHARE) if nbytes >= 2 * SHARE else 1
    return threads.parts(n, most)


def run(
    source: Callable[..., Any], words: Sequence[Any], ranges: Ranges, nbytes: int = 0,
    parts: Sequence[int] | None = None, **bindings: Any,
) -> None:  # fmt: skip
    """Run a routine over ranges, at the same time where they are several.

    Parameters
    ----------
    words : sequence
        Its arguments: arrays and spaces stand for their addresses.
    nbytes : int, optional
        Array bytes read and written, for the counters.
    parts : sequence, optional
        What the last argument is for each range; without it all ranges have the same arguments.
    """
    found = routine(source, **bindings)
    head = list(map(_word, words))
    rows = [array("Q", head) for _ in ranges] if parts is None else [array("Q", [*head, part]) for part in parts]
    start = time.perf_counter()
    threads.run(found.body, [row.buffer_info()[0] for row in rows], ranges)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    trace.counters["kernels"] += 1
    trace.counters["kernel_bytes"] += nbytes
    if trace.events is not None:
        trace.emit("operation", here(), op=source.__name__)
        trace.emit("kernel", here(), key=found.key, nbytes=nbytes, seconds=seconds, threads=len(ranges))


def _word(value: Any) -> int:
    if type(value) is int:
        return value & ((1 << 64) - 1)
    if isinstance(value, numpy.ndarray):
        return address(value)
    if type(value) is Space:
        return value.buffer.address
    return int.from_bytes(array("d", [value]).tobytes(), "little")


def ready(x: Any, room: int = 1) -> Array | None:
    """The memory of an array of ours that is worth a routine, C-contiguous and of a native type; else None.

    Worth it is what has more elements than small work has `room` times; a pending array is evaluated, whatever its
    size.
    """
    if type(x) is not ndarray or settings.device not in _HOST:
        return None
    dtype = x._dtype
    if not native(dtype) or dtype.char == "e":
        return None
    if x._at is HOST or _lazy.is_ready(x):
        if _lazy.elements(x) <= room * settings.eager_size or is_elsewhere(x):
            return None
    elif not math.prod(x._shape):
        return None
    a = host(x)
    return a if a.flags.c_contiguous else numpy.ascontiguousarray(a)


def at_hand(operands: Any) -> bool:
    """Whether operands are ready on the host, and work stays there."""
    return (
        all(map(_lazy.is_ready, operands))
        and not settings.device.startswith("cuda")
        and not any(map(is_elsewhere, operands))
    )


def modest(operands: Any) -> bool:
    """Whether operands are ready, and NumPy's single pass over them costs less than recording."""
    return at_hand(operands) and sum(map(_lazy.elements, operands)) <= SPAN * settings.eager_size


def is_elsewhere(x: Any) -> bool:
    """Whether a device may hold the value of an array."""
    buffer = None if x._at is HOST else x._base.node.buffer
    return buffer is not None and buffer.device is not None
