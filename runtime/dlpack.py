"""DLPack: capsules that describe memory of any device, made and read.  Version 1.1, and the one before 1.

in: offarray/_interchange.py; out: capsules, or the description (`Tensor`) in one.  NumPy knows the host's memory only.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy

from .tuples import NamedTuple

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY, COPIED = 1, 2
VERSION = (1, 1)

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


class _Version(ctypes.Structure):
    _fields_ = (("major", c_uint32), ("minor", c_uint32))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("version", _Version), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_LAYOUTS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
_valid = _api.PyCapsule_IsValid
_valid.restype, _valid.argtypes = ctypes.c_int, [ctypes.py_object, c_char_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, c_char_p]
# the destructor gets a capsule that is about to go: it must not be counted as an object
_raw_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_raw_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))

_alive: dict[int, tuple[Any, ...]] = {}  # address of a description handed out -> what keeps it and the memory alive


class Tensor(NamedTuple):
    """Memory of a device as an array; strides in bytes."""

    pointer: int
    device: tuple[int, int]  # type and number, as in DLPack
    dtype: numpy.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool = True


def _forget(address: int) -> None:
    """The consumer has done with the memory."""
    _alive.pop(address, None)


def _unused(capsule: int) -> None:
    """A capsule goes that nobody has consumed."""
    for name in _LAYOUTS:
        if _raw_valid(capsule, name):
            _alive.pop(_raw_pointer(capsule, name), None)


_delete = _Deleter(_forget)
_destroy = ctypes.PYFUNCTYPE(None, c_void_p)(_unused)


def capsule(tensor: Tensor, keep: Any, versioned: bool, copied: bool = False) -> Any:
    """A capsule of the memory; `keep` lives as long as its consumer uses the memory.

    Raises
    ------
    BufferError
        If the memory is read-only, and the consumer's version of DLPack cannot be told so.
    """
    if not versioned and not tensor.writeable:
        raise BufferError("a read-only array needs a consumer of DLPack 1.0 or later (max_version)")
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _LAYOUTS[name]()
    shape = (c_int64 * len(tensor.shape))(*tensor.shape)
    size = tensor.dtype.itemsize
    strides = (c_int64 * len(tensor.shape))(*[s // size for s in tensor.strides])
    managed.tensor = _Tensor(
        tensor.pointer, *tensor.device, len(tensor.shape), _CODES[tensor.dtype.kind], 8 * size, 1, shape, strides, 0
    )
    managed.deleter = ctypes.cast(_delete, c_void_p)
    if versioned:
        managed.version = _Version(*VERSION)
        managed.flags = (0 if tensor.writeable else READ_ONLY) | (COPIED if copied else 0)
    address = ctypes.addressof(managed)
    _alive[address] = managed, shape, strides, keep
    return _new(address, name, ctypes.cast(_destroy, c_void_p))


class Owner:
    """Keeps memory that a capsule described alive, and gives it back to its maker."""

    def __init__(self, managed: Any, address: int) -> None:
        self._deleter = managed.deleter
        self._address = address

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def consume(found: Any) -> tuple[Tensor, Owner]:
    """What a capsule describes, taken over from it.

    Raises
    ------
    BufferError
        If it is used up, of a version to come, or of elements that no array of ours holds.
    """
    for name in _LAYOUTS:
        if _valid(found, name):
            break
    else:
        raise BufferError("this is no DLPack capsule, or one that has been used before")
    address = _pointer(found, name)
    managed = _LAYOUTS[name].from_address(address)
    if name == b"dltensor_versioned" and managed.version.major != VERSION[0]:
        raise BufferError(f"DLPack {managed.version.major}.{managed.version.minor} is not understood")
    t = managed.tensor
    kind = _KINDS.get(t.code)
    if kind is None or t.lanes != 1 or t.bits % 8:
        raise BufferError(f"no array holds DLPack's type of code {t.code} with {t.bits} bits and {t.lanes} lanes")
    try:
        dtype = numpy.dtype(f"{kind}{t.bits // 8}")
    except TypeError:
        raise BufferError(f"no array holds {kind}{t.bits // 8}") from None
    shape = tuple(t.shape[: t.ndim])
    strides, step = [], dtype.itemsize
    for n in range(t.ndim - 1, -1, -1):
        strides.append(t.strides[n] * dtype.itemsize if t.strides else step)
        step *= shape[n]
    writeable = name == b"dltensor" or not managed.flags & READ_ONLY
    tensor = Tensor(
        (t.data or 0) + t.byte_offset, (t.device_type, t.device_id), dtype, shape, tuple(strides[::-1]), writeable
    )
    _rename(found, _USED[name])
    return tensor, Owner(managed, address)


_USED = {name: b"used_" + name for name in _LAYOUTS}  # kept: a capsule does not copy its name

__all__ = ["COPIED", "CPU", "CUDA", "CUDA_HOST", "CUDA_MANAGED", "READ_ONLY", "Owner", "Tensor", "capsule", "consume"]
