"""The buffer protocol of the handle: `memoryview(x)`, `bytes(x)`, `file.write(x)`.

in: offarray/__init__.py; out: an exported array.  From Python 3.12 on a class does this with `__buffer__`; on
3.11 only C can fill the slot, so the type object's own table is written here through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from typing import Any

import numpy

from ._array import plain

_TP_AS_BUFFER = 160  # offset in CPython 3.11's PyTypeObject on 64-bit machines
_kept: list[Any] = []  # the table refers to the callback


class _Refusal(int):
    """What the callback returns where there is no buffer.

    An exception that it raised would end there; its result is let go after the call, and what it holds then raises.
    """

    capsule: Any


class _Procs(ctypes.Structure):
    _fields_ = (("get", ctypes.c_void_p), ("release", ctypes.c_void_p))


def install(cls: Any) -> None:
    """Give the handle its buffer."""
    if sys.version_info >= (3, 12):
        cls.__buffer__ = _buffer
    elif sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8:
        _install_slot(cls)


@functools.cache
def _faithful(dtype: numpy.dtype[Any]) -> bool:
    """Whether a type comes back from a buffer as it was: NumPy asks for a buffer before `__array__`."""
    try:
        sample: Any = numpy.zeros(1, dtype)
        return numpy.asarray(memoryview(sample)).dtype == dtype
    except Exception:
        return False


def exported(x: Any) -> Any:
    """The array whose buffer stands for the handle's."""
    if x.dtype.num > 16 and not _faithful(x.dtype):
        sample: Any = numpy.zeros(1, x.dtype)
        memoryview(sample)  # NumPy's own refusal, if it refuses
        raise BufferError(f"arrays of type {x.dtype} have no buffer")
    return plain(x)


def _buffer(self: Any, flags: int) -> memoryview:
    return memoryview(exported(self))


def _install_slot(cls: Any) -> None:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = ctypes.pythonapi.PyObject_GetBuffer
    get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get_buffer.restype = ctypes.c_int
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    capsule.restype = ctypes.py_object
    refuse = ctypes.cast(ctypes.pythonapi.PyMemoryView_FromObject, ctypes.c_void_p)  # TypeError: no bytes-like object

    interrupt = ctypes.cast(ctypes.pythonapi.PyErr_SetInterrupt, ctypes.c_void_p)  # as the key does

    def refused(interrupted: bool) -> _Refusal:
        refusal = _Refusal(-1)
        refusal.capsule = capsule(1, None, refuse), capsule(1, None, interrupt) if interrupted else None
        return refusal

    def get(x: Any, view: int, flags: int) -> int:
        try:
            return get_buffer(exported(x), view, flags)  # type: ignore[no-any-return]
        except BaseException as error:
            ctypes.c_void_p.from_address(view + ctypes.sizeof(ctypes.c_void_p)).value = None  # view.obj
            mine = threading.current_thread() is threading.main_thread()  # which alone is interrupted
            return refused(mine and isinstance(error, KeyboardInterrupt))  # in no variable: an error keeps this frame

    callback = prototype(get)
    _kept.append(callback)
    table = ctypes.c_void_p.from_address(id(cls) + _TP_AS_BUFFER).value
    if table is not None:
        _Procs.from_address(table).get = ctypes.cast(callback, ctypes.c_void_p).value
