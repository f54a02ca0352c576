"""NVIDIA's libraries on a device: one step's operands, results and scratch memory, handles, and errors as exceptions.

in: offarray/_library*.py through `cudalib_blas`, `cudalib_fft`, `cudalib_solver`, `cudalib_sort`; out: the packages
nvmath-python and cuda-cccl, imported when first needed.  All work goes to the device's stream, in order.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from . import cuda, residency
from .buffer import Buffer
from .errors import DeviceError, MemoryLimitError, MissingLibraryError

Array = numpy.ndarray[Any, Any]


@cache
def package(name: str, distribution: str) -> Any:
    """A module of an optional package, or the exception that tells that it is missing: looked for once."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as missing:  # the last two: of libraries that are not there
        return MissingLibraryError(f"{distribution} is not installed as it has to be: {missing}")


def needed(found: Any) -> Any:
    """A module; raises where it is missing."""
    if isinstance(found, MissingLibraryError):
        raise MissingLibraryError(*found.args)
    return found


def module(name: str) -> Any:
    """The bindings of a library: "cublas", "cufft" or "cusolverDn"."""
    return needed(package("nvmath.bindings." + name, "nvmath-python (of offarray[cuda])"))


def call(library: str, name: str, *args: Any) -> Any:
    """Call a function of a library; its failures are `DeviceError`s that name the call.

    Raises
    ------
    MemoryLimitError
        Where the library could not allocate.
    """
    found = module(library)
    try:
        return getattr(found, name)(*args)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("nvmath", "cuda", "builtins"):
            raise
        if isinstance(error, (TypeError, AttributeError, OverflowError)):
            raise
        if type(error).__name__ in ("NotSupportedError", "DynamicLibNotFoundError", "FunctionNotFoundError"):
            raise MissingLibraryError(f"{library}.{name}: {error}") from error
        if "ALLOC" in str(error):
            raise MemoryLimitError(f"{name}: the device has not enough memory") from error
        cuda.device().synchronize()  # says so if the device is lost
        raise DeviceError(f"{library}.{name}: {error}") from error


def handle(device: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """What `make(device)` gives, once for each device."""
    kept = vars(device).setdefault("libraries", {})
    found = kept.get(name)
    if found is None:
        found = kept[name] = make(device)
    return found


class Step:
    """The device memory of one library step: nothing of it is moved to the host before the step ends."""

    def __init__(self) -> None:
        self.device = cuda.device()
        self.stream = int(self.device.stream)
        self._scratch: list[int] = []
        self._busy: list[int] = []
        self._public: list[Buffer] = []  # written, and looked at by others
        self._rooms: list[Array] = []  # host memory that the library uses until the stream has come past

    def __enter__(self) -> Step:
        residency.lock.acquire()
        self.device.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        residency._busy.difference_update(self._busy)
        try:
            if self._rooms:
                self.device.synchronize()
            for buffer in self._public:
                residency.settle(buffer, "w")
            for pointer in self._scratch:
                self.device.free(pointer)
        finally:
            residency.lock.release()

    def read(self, buffer: Buffer, offset: int = 0) -> int:
        """Address of a value that the step reads."""
        return self._use(buffer, "r") + offset

    def change(self, buffer: Buffer, offset: int = 0) -> int:
        """Address of a value that the step reads and overwrites."""
        return self._use(buffer, "rw") + offset

    def write(self, buffer: Buffer) -> int:
        """Address of a new buffer that the step writes as a whole."""
        return self._use(buffer, "w")

    def _use(self, buffer: Buffer, access: str) -> int:
        key = id(buffer)
        if key not in residency._busy:
            residency._busy.add(key)
            self._busy.append(key)
        if access != "r" and buffer.shared:
            self._public.append(buffer)
        return residency.use(buffer, access, whole=access == "w")

    def scratch(self, nbytes: int) -> int:
        """Memory that is given back when the step has run; 0 for none."""
        if nbytes <= 0:
            return 0
        pointer = residency.take(self.device, nbytes)
        self._scratch.append(pointer)
        return pointer

    def room(self, nbytes: int) -> int:
        """Address of host memory for the library to work in, kept until it has done so."""
        if nbytes <= 0:
            return 0
        made = numpy.empty(nbytes, numpy.uint8)
        self._rooms.append(made)
        return int(made.ctypes.data)

    def send(self, values: Array) -> int:
        """Scratch memory with these values."""
        values = numpy.ascontiguousarray(values)
        pointer = self.scratch(values.nbytes)
        if pointer:
            self.device.upload(pointer, values.ctypes.data, values.nbytes)
        return pointer

    def fetch(self, pointer: int, dtype: Any, count: int) -> Array:
        """Values in scratch memory, after everything launched before."""
        found = numpy.empty(count, dtype)
        if found.nbytes:
            self.device.download(found.ctypes.data, pointer, found.nbytes)
        return found
