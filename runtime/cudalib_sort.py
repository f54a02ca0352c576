"""CUB through cuda.compute: stable radix sorts of unsigned keys, and binary searches in sorted keys.

in: addresses of dense arrays; out: launches on the stream.  Each pair of types is built once in a process.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from types import SimpleNamespace
from typing import Any

import numpy

from . import cache, cudalib, trace
from .config import settings
from .cudalib import Step
from .errors import DeviceError, MemoryLimitError, MissingLibraryError


def compute() -> Any:
    """The package `cuda.compute`."""
    found = cudalib.needed(cudalib.package("cuda.compute", "cuda-cccl (of offarray[cuda])"))
    if not hasattr(found, "make_radix_sort"):
        raise MissingLibraryError("cuda-cccl (of offarray[cuda]) has no bindings for this Python and CUDA")
    return found


class Array:
    """Dense device memory, as the package takes it."""

    def __init__(self, pointer: int, dtype: Any, size: int) -> None:
        self.dtype = numpy.dtype(dtype)
        self.size, self.nbytes = size, size * self.dtype.itemsize
        self.shape = (size,)
        self.data = SimpleNamespace(ptr=pointer)
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (size,), "strides": None, "typestr": self.dtype.str, "version": 3,
        }  # fmt: skip


class _Stream:
    def __init__(self, stream: int) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream


def _twice(step: Step, run: Any, name: Any, **arguments: Any) -> None:
    """Ask for the scratch memory of an algorithm, once for each `name` and size, and run it."""
    stream = _Stream(step.stream)
    sizes: dict[Any, int] = cudalib.handle(step.device, "scratch of cuda.compute", lambda _: {})
    size = sizes.get(name)
    if size is None:
        if len(sizes) >= 1000:
            sizes.clear()
        size = sizes[name] = max(int(run(temp_storage=None, stream=stream, **arguments)), 16)
    run(temp_storage=Array(step.scratch(size), numpy.uint8, size), stream=stream, **arguments)


def _built(step: Step, name: str, make: Any) -> Any:
    """An algorithm for some types, which takes seconds to build: once in a process, and kept on disk."""

    def found(device: Any) -> Any:
        package = compute()
        keep = getattr(package, "serialize", None)
        if keep is None or not settings.cache:
            return make()
        release = importlib.metadata.version("cuda-cccl")
        key = hashlib.sha256(f"cuda-cccl {release} {device.arch} {name}".encode()).hexdigest()
        data = cache.load(key)
        if data is not None:
            return package.deserialize(data)
        made = make()
        trace.count("compiles")
        cache.store(key, keep(made))
        return made

    return cudalib.handle(step.device, name, found)


def _translated(step: Step, work: Any) -> None:
    try:
        work()
    except (TypeError, DeviceError, MemoryLimitError):
        raise
    except Exception as error:
        raise DeviceError(f"cuda.compute: {error}") from error


def sort(
    step: Step, count: int, keys: tuple[int, int], key: Any, values: tuple[int, int] = (0, 0), value: Any = None,
    bits: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Sort unsigned keys of dtype `key`, ascending and stable, together with values of dtype `value`.

    Parameters
    ----------
    keys, values
        (address that is read, address that is written) of each.
    bits
        The part of the key that counts, first and last (exclusive); all of it if left out.
    """
    package = compute()
    arguments: dict[str, Any] = {
        "d_in_keys": Array(keys[0], key, count), "d_out_keys": Array(keys[1], key, count),
        "d_in_values": None, "d_out_values": None,
    }  # fmt: skip
    if value is not None:
        arguments["d_in_values"] = Array(values[0], value, count)
        arguments["d_out_values"] = Array(values[1], value, count)

    def work() -> None:
        name = ("sort", numpy.dtype(key).str, value and numpy.dtype(value).str)
        order = package.SortOrder.ASCENDING
        run = _built(step, repr(name), lambda: package.make_radix_sort(**arguments, order=order))
        low, high = bits or (0, 8 * numpy.dtype(key).itemsize)
        _twice(step, run, (name, count, low, high), **arguments, num_items=count, begin_bit=low, end_bit=high)

    _translated(step, work)


def search(step: Step, key: Any, sorted_: tuple[int, int], wanted: tuple[int, int], out: int) -> None:
    """For each wanted key its place (uint64) in the sorted keys, before equal ones.

    `sorted_` and `wanted` are (address, count).
    """
    package = compute()
    arguments: dict[str, Any] = {
        "d_data": Array(sorted_[0], key, sorted_[1]), "d_values": Array(wanted[0], key, wanted[1]),
        "d_out": Array(out, numpy.uint64, wanted[1]),
    }  # fmt: skip

    def work() -> None:
        name = ("search", numpy.dtype(key).str)
        run = _built(step, repr(name), lambda: package.make_lower_bound(**arguments))
        run(**arguments, comp=None, num_items=sorted_[1], num_values=wanted[1], stream=_Stream(step.stream))

    _translated(step, work)


def sums(step: Step, values: tuple[int, int], starts: int, ends: int, out: int, many: int) -> None:
    """Sums of float64 `values` (address, count) in segments that begin and end at these places (int64)."""
    package = compute()
    initial = numpy.zeros(1, numpy.float64)
    arguments: dict[str, Any] = {
        "d_in": Array(values[0], numpy.float64, values[1]), "d_out": Array(out, numpy.float64, many),
        "start_offsets_in": Array(starts, numpy.int64, many), "end_offsets_in": Array(ends, numpy.int64, many),
        "op": package.OpKind.PLUS, "h_init": initial,
    }  # fmt: skip

    def work() -> None:
        run = _built(step, "sums of float64", lambda: package.make_segmented_reduce(**arguments))
        _twice(step, run, ("sums", values[1], many), **arguments, num_segments=many)

    _translated(step, work)
