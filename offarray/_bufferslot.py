"""The buffer protocol of the handle: `memoryview(x)`, `bytes(x)`, `file.write(x)`.

in: offarray/__init__.py; out: an exported array.  From Python 3.12 on a class does this with `__buffer__`; on
3.11 only C can fill the slot, so the type object's own table is written here through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref
from typing import Any

import numpy

from ._array import plain

_TP_AS_BUFFER = 160  # offset in CPython 3.11's PyTypeObject on 64-bit machines
_WRITABLE, _FORMAT = 1, 4  # asked for by who wants to write, or to know the type of elements
_kept: list[Any] = []  # the table refers to the callback


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


class _Lost(threading.local):
    """What last went wrong where this thread asked for a buffer, with the handle: NumPy goes on without a word."""

    error: tuple[weakref.ref[Any], BaseException, int] | None = None
    refusal: BaseException | None = None


_lost = _Lost()


def found(x: Any) -> Any:
    """The memory of a handle, exported; raises what NumPy passed over when it asked for the buffer first."""
    lost, _lost.error = _lost.error, None
    if lost is not None and lost[0]() is x:
        raise lost[1]
    return plain(x)


def exported(x: Any, flags: int = _FORMAT) -> Any:
    """The array whose buffer stands for the handle's."""
    if flags & _FORMAT and x.dtype.num > 16 and not _faithful(x.dtype):
        sample: Any = numpy.zeros(1, x.dtype)
        memoryview(sample)  # NumPy's own refusal, if it refuses
        raise BufferError(f"arrays of type {x.dtype} have no buffer")
    lost, _lost.error = _lost.error, None
    if lost is not None and lost[0]() is x and lost[2] & _WRITABLE and not flags & _WRITABLE:
        raise lost[1]  # asked for again, to be read
    try:
        return plain(x)
    except BaseException as error:
        _lost.error = weakref.ref(x), error.with_traceback(None), flags
        raise


def _buffer(self: Any, flags: int) -> memoryview:
    return memoryview(exported(self))


class _Procs(ctypes.Structure):
    _fields_ = (("get", ctypes.c_void_p), ("release", ctypes.c_void_p))


def _table(cls: Any) -> _Procs:
    """The functions of a class for buffers."""
    return _Procs.from_address(ctypes.c_void_p.from_address(id(cls) + _TP_AS_BUFFER).value or 0)


class _Refusal(int):
    """What the callback returns where there is no buffer.

    An exception that it raised would end there; its result is let go after the call, and what it holds then raises.
    """

    view: memoryview


class _Raised(type):
    """The class of exceptions of one kind, each instance of which is the last that a thread was refused with.

    Its classes have a buffer, and whoever lets it go has the class raised.
    """

    def __call__(cls, *given: Any) -> Any:
        return given[0] if given and isinstance(given[0], BaseException) else _lost.refusal


def _install_slot(cls: Any) -> None:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = ctypes.pythonapi.PyObject_GetBuffer
    get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get_buffer.restype = ctypes.c_int
    fill = ctypes.pythonapi.PyBuffer_FillInfo
    fill.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_int]
    kinds: dict[type, Any] = {}

    def refused(error: BaseException) -> _Refusal:
        kind = type(error)
        raised: Any = kinds.get(kind)
        if raised is None:
            raised = kinds[kind] = _Raised(kind.__name__, (kind,), {})
        _lost.refusal = error.with_traceback(None)  # which keeps the frames
        refusal = _Refusal(-1)
        refusal.view = memoryview(raised)
        return refusal

    def get(x: Any, view: int, flags: int) -> int:
        try:
            return get_buffer(exported(x, flags), view, flags)  # type: ignore[no-any-return]
        except BaseException as error:
            ctypes.c_void_p.from_address(view + ctypes.sizeof(ctypes.c_void_p)).value = None  # view.obj
            return refused(error)  # in no variable: an error keeps this frame

    def get_nothing(raised: Any, view: int, flags: int) -> int:
        return fill(view, raised, None, 0, 1, flags)  # type: ignore[no-any-return]

    for owner, run in ((cls, get), (_Raised, get_nothing)):
        callback = prototype(run)
        _kept.append(callback)
        _table(owner).get = ctypes.cast(callback, ctypes.c_void_p).value
    _table(_Raised).release = ctypes.cast(ctypes.pythonapi.PyErr_SetNone, ctypes.c_void_p).value
