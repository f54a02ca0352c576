"""Arrays handed to other libraries and taken from them on the device: DLPack and CUDA's array interface.

in: the handle's `__dlpack__`, `__dlpack_device__`, `__cuda_array_interface__`; `from_dlpack`, `asarray`, `array` ...;
out: runtime/outside.py.  What is on the host goes NumPy's way.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy

from . import _functions, _memory, _record
from ._array import HOST, host, make, ndarray, plain
from ._dispatch import NATIVE
from .fusion.node import READY, Base, leaf
from .fusion.view import contiguous
from .runtime import buffer as buffers
from .runtime import dlpack
from .runtime.config import REGISTRY
from .runtime.errors import DeviceError

_CUDA = (dlpack.CUDA, dlpack.CUDA_MANAGED)
_UNSET: Any = object()
_HOST = (dlpack.CPU, dlpack.CUDA_HOST)


# ---------------------------------------------------------------------- out
def resident(x: ndarray) -> Any:
    """The device's side of the buffer of an array that lives on a device, evaluated first; None for any other."""
    if buffers.fresh is None or x._at is HOST or not _memory.native(x._dtype) or 0 in x._shape:
        return None
    if x._base.node.state != READY:
        _memory.ready(x)
    buffer = x._base.node.buffer
    copy = None if buffer is None else buffer.device
    if buffer is None or copy is None or not copy.valid or (buffer.shared and not copy.outside):
        return None
    return copy


def _exported(x: ndarray) -> tuple[dlpack.Tensor, Any]:
    """The device memory of an array that lives there, and what keeps it alive."""
    from .runtime import outside

    _record.release(x._base)  # what is pending reads the memory before anybody else writes it
    buffer = x._base.node.buffer
    assert buffer is not None
    pointer, token = outside.export(buffer)
    number = buffer.device.device.number
    tensor = dlpack.Tensor(
        pointer + x._offset, (dlpack.CUDA, number), x._dtype, x._shape, x._strides, bool(x._writeable)
    )
    return tensor, token


def duplicate(x: ndarray) -> ndarray:
    """A copy of an array on a device, there, in the same order in memory."""
    from .runtime import outside

    node = x._base.node
    assert node.buffer is not None
    made = Base(leaf(outside.duplicate(node.buffer), node.dtype, node.shape))
    return make(made, x._offset, x._strides, x._shape, x._dtype)


def dlpack_device(x: ndarray) -> tuple[int, int]:
    """(type, number) of the device that the array lives on."""
    copy = resident(x)
    if copy is None:
        return plain(x).__dlpack_device__()
    return dlpack.CUDA, copy.device.number


def to_dlpack(
    x: ndarray, *, stream: Any = _UNSET, max_version: Any = None, dl_device: Any = _UNSET, copy: Any = None
) -> Any:
    """A capsule of the array's memory; see `numpy.ndarray.__dlpack__`.

    An array on a device is exported there, after all that was launched for it: the consumer's `stream` needs no wait.
    Who leaves `dl_device` open by name, and says nothing of a stream, is NumPy, which takes the host's memory alone.
    """
    if stream is _UNSET and dl_device is None:
        dl_device = (dlpack.CPU, 0)
    stream = None if stream is _UNSET else stream
    dl_device = None if dl_device is _UNSET else dl_device
    here = resident(x)
    given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    wanted = None if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if here is None and (wanted is None or wanted[0] not in _CUDA):
        return plain(x).__dlpack__(**{name: value for name, value in given.items() if value is not None})
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool)):
        raise TypeError(f"stream must be None or an integer, not {type(stream).__name__}")
    if stream == 0 or (stream is not None and stream < -1):
        raise ValueError(f"stream {stream} says nothing: 1 is CUDA's legacy default stream, 2 the one of each thread")
    if here is not None and wanted is not None and wanted[0] == dlpack.CPU:
        return _brought(x, max_version, copy)
    if here is None or (wanted is not None and wanted != (dlpack.CUDA, here.device.number)):
        if copy is False or wanted is None or wanted[0] != dlpack.CUDA:
            raise BufferError(f"the array is not on device {dl_device}: it cannot be exported there without a copy")
        x, copy = _sent(x, wanted[1]), True
    elif copy:
        x = duplicate(x)
    versioned = max_version is not None and max_version[0] >= 1
    tensor, token = _exported(x)
    return dlpack.capsule(tensor, token, versioned, bool(copy))


def _sent(x: ndarray, number: int) -> ndarray:
    """A copy of an array on a device where it is not."""
    from . import _device  # stands on this module

    made = _memory.fresh(numpy.array(host(x)))
    try:
        _device.to_device(made, f"cuda:{number}")
    except (DeviceError, ValueError, MemoryError) as error:
        raise BufferError(f"the array cannot be brought to device {number}: {error}") from error
    return made  # type: ignore[no-any-return]


def _brought(x: ndarray, max_version: Any, copy: Any) -> Any:
    """A capsule of the value on the host: of the array's own memory there, if nobody looks at it on the device."""
    if copy is False:
        raise ValueError("the array is on a device: it cannot be exported to the host without a copy")
    if copy is None and not is_outside(x):
        return plain(x).__dlpack__(max_version=max_version, dl_device=(dlpack.CPU, 0))
    return numpy.array(host(x)).__dlpack__(max_version=max_version, dl_device=(dlpack.CPU, 0))


def is_outside(x: Any) -> bool:
    """Whether an array is in memory of a device that others look at."""
    copy = resident(x) if type(x) is ndarray else None
    return copy is not None and bool(copy.outside)


def brought(x: ndarray) -> ndarray:
    """A copy of an array on the host."""
    return _memory.fresh(numpy.array(host(x)))  # type: ignore[no-any-return]


_kept: dict[int, Any] = {}  # id of a handle whose interface was asked for -> token


def interface(x: ndarray) -> dict[str, Any]:
    """CUDA's array interface, version 3, of an array that lives on a device; others have no such attribute."""
    copy = resident(x)
    if copy is None:
        raise AttributeError("this array is not on a device: it has no __cuda_array_interface__")
    tensor, token = _exported(x)
    if _kept.get(id(x)) is not token:  # the memory is public as long as the handle lives
        _kept[id(x)] = token
        weakref.finalize(x, _kept.pop, id(x), None)
    dense = tensor.strides == contiguous(tensor.shape, tensor.dtype.itemsize)
    return {
        "shape": tensor.shape, "typestr": tensor.dtype.str, "data": (tensor.pointer, not tensor.writeable),
        "strides": None if dense else tensor.strides, "version": 3, "stream": _stream(copy.device),
    }  # fmt: skip


def _stream(device: Any) -> int | None:
    """Where our work on the device goes."""
    stream = getattr(device, "stream", None)
    return None if stream is None else int(stream)


# ---------------------------------------------------------------------- in
def foreign(tensor: dlpack.Tensor, owner: Any) -> ndarray:
    """A handle on device memory of somebody else; `owner` keeps it alive."""
    from .runtime import outside

    dtype, shape, strides = tensor.dtype, tensor.shape, tensor.strides
    if not _memory.native(dtype) or len(shape) > 64:
        raise BufferError(f"arrays of type {dtype} cannot be used on a device")
    if 0 in shape:
        return _memory.fresh(numpy.empty(shape, dtype))  # type: ignore[no-any-return]
    low = sum(min((e - 1) * s, 0) for e, s in zip(shape, strides, strict=True))
    high = sum(max((e - 1) * s, 0) for e, s in zip(shape, strides, strict=True)) + dtype.itemsize
    number = tensor.device[1] if tensor.device[0] == dlpack.CUDA else -1
    device = outside.device_of(tensor.pointer, number)
    buffer = outside.adopt(device, tensor.pointer + low, high - low, owner)
    dense = strides == contiguous(shape, dtype.itemsize) and high - low == math.prod(shape) * dtype.itemsize
    whole = shape if dense else (-(-(high - low) // dtype.itemsize),)
    base = Base(leaf(buffer, dtype, whole))
    return make(base, -low, strides, shape, dtype, None, tensor.writeable)


def from_interface(x: Any) -> ndarray:
    """A handle on the memory that an object describes by `__cuda_array_interface__`."""
    said = x.__cuda_array_interface__
    if said.get("mask") is not None:
        raise BufferError("an array with a mask (__cuda_array_interface__) cannot be taken over")
    dtype = numpy.dtype(said["typestr"])
    shape = tuple(said["shape"])
    strides = said.get("strides")
    pointer, read_only = said["data"]
    steps = contiguous(shape, dtype.itemsize) if strides is None else tuple(strides)
    return foreign(dlpack.Tensor(pointer, (-1, -1), dtype, shape, steps, not read_only), x)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array on the memory of `x`, where that is on a device; see `numpy.from_dlpack`."""
    if type(x) is ndarray:
        here = resident(x)
        if device not in _devices() and (here is None or device is not None):
            return NotImplemented
        if here is None or device not in (None, "cuda", f"cuda:{here.device.number}"):
            return _brought_there(x, device, copy)
        return duplicate(x) if copy else x[...]
    about = getattr(x, "__dlpack_device__", None)
    if about is None or about()[0] in _HOST or about()[0] not in _CUDA:
        if about is not None and device in _devices():
            return _brought_there(x, device, copy)
        return NotImplemented  # NumPy's way, with its errors
    if device == "cpu" and copy is False:
        raise ValueError("the array is on a device: it cannot come to the host without a copy")
    if device not in (None, "cpu", "cuda", f"cuda:{about()[1]}"):
        raise ValueError(f"the array is on cuda:{about()[1]}: it cannot be taken over on {device!r}")
    made = foreign(*dlpack.consume(_capsule(x, about())))
    if device == "cpu":
        return brought(made)
    return made.copy() if copy else made


def _devices() -> list[str]:
    """The names of devices other than the host."""
    return [name for name in REGISTRY["device"].choices if name.startswith("cuda")]


def _brought_there(x: Any, device: str, copy: Any) -> ndarray:
    """What the host holds, or another device, on the device named."""
    from . import _device  # stands on this module

    name = _device.checked(device)
    if copy is False and not (type(x) is ndarray and _device.place(x) == name):
        raise ValueError(f"the array is not on {name}: it cannot come there without a copy")
    if copy is False:
        return x[...]  # type: ignore[no-any-return]
    made = _memory.fresh(numpy.array(host(x) if type(x) is ndarray else numpy.from_dlpack(x)))
    return _device.to_device(made, name)  # type: ignore[no-any-return]


def _capsule(x: Any, place: tuple[int, int]) -> Any:
    """A capsule from its maker, who waits for nothing of ours: nothing of ours uses the memory yet."""
    try:
        return x.__dlpack__(max_version=dlpack.VERSION)
    except TypeError:  # a maker from before DLPack 1.0
        return x.__dlpack__()


def taken(x: Any, *args: Any, **kwargs: Any) -> Any:
    """`asarray` and `array` of an array on a device; NotImplemented for anything else."""
    if not hasattr(type(x), "__cuda_array_interface__") or not hasattr(x, "__cuda_array_interface__"):
        return NotImplemented  # objects that answer to any name have no such class
    return _converted(from_interface(x), *args, **kwargs)


def _converted(x: ndarray, dtype: Any = None, order: Any = None, *, copy: Any = None, **kwargs: Any) -> Any:
    """An array as `asarray` gives it."""
    ndmin = kwargs.pop("ndmin", 0)
    unknown = kwargs.keys() - {"device", "like", "subok"}
    if unknown:
        raise TypeError(f"asarray() got an unexpected keyword argument {min(unknown)!r}")
    x = x.reshape((1,) * (ndmin - x.ndim) + x.shape) if ndmin > x.ndim else x
    wanted = x._dtype if dtype is None else numpy.dtype(dtype)
    if order == "F" and not x.flags.f_contiguous or order == "C" and not x.flags.c_contiguous or wanted != x._dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return x.astype(wanted, order=order or "K")
    return x.copy(order or "K") if copy else x


def install(cls: Any) -> None:
    """Give the handle the protocols' methods."""
    methods: dict[str, Any] = {"__dlpack__": to_dlpack, "__dlpack_device__": dlpack_device}
    for name, method in methods.items():
        method.__name__ = name
        method.__qualname__ = f"ndarray.{name}"
        method.__wrapped__ = getattr(numpy.ndarray, name)  # what inspect reads
        setattr(cls, name, method)
    cls.__cuda_array_interface__ = property(interface)


_functions.taken = taken
NATIVE["from_dlpack"] = from_dlpack

__all__ = ["dlpack_device", "foreign", "from_dlpack", "from_interface", "install", "interface", "resident", "to_dlpack"]
