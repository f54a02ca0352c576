"""Views of pending arrays: NumPy's own rules, applied to a ghost.

in: the methods, functions and indices that give views; out: handles on the same base, nothing evaluated.

A *ghost* is a NumPy array with the handle's shape and strides at an address that is never touched: NumPy works out
shape, strides, offset and errors of a view, and no element is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from . import _evaluate, _lazy, _memory, _record
from ._array import HOST, RealArray, host, make, ndarray
from ._dispatch import NATIVE
from ._memory import address, native
from .fusion.node import FAILED, READY, Base, leaf
from .fusion.order import copy_order
from .runtime import buffer as buffers
from .runtime.buffer import allocate
from .runtime.config import settings
from .runtime.errors import DeviceError

_ADDRESS = 1 << 44


class _Nowhere:
    __slots__ = ("__array_interface__",)
    __array_interface__: dict[str, Any]


def ghost(x: ndarray) -> Any:
    """A NumPy array that looks like `x` and may only be viewed."""
    nowhere = _Nowhere()
    nowhere.__array_interface__ = {
        "data": (_ADDRESS, not x._writeable),
        "shape": x._shape,
        "strides": x._strides,
        "typestr": x._dtype.str,
        "version": 3,
    }
    return numpy.asarray(nowhere)


def seen_through(x: ndarray, g: Any) -> ndarray:
    """The handle that relates to `x` as the view `g` to the ghost of `x`."""
    owner = x if x._owner is None else x._owner
    offset = x._offset + (address(g) - _ADDRESS) if g.size else x._offset
    return make(
        x._base, offset, g.strides, g.shape, x._dtype if g.dtype == x._dtype else g.dtype, owner, g.flags.writeable
    )


def on_device(x: ndarray) -> bool:
    """Whether a device holds the value of `x`, or nobody has written it yet."""
    if x._at is HOST:
        return False
    node = x._base.node
    if node.state != READY or node.buffer is None or node.buffer.device is None:
        return False
    copy = node.buffer.device
    return bool(copy.valid or not copy.host)


def unwritten(x: ndarray) -> ndarray:
    """An array that nobody has written yet; where a device computes, one without memory of the host's."""
    a = x._np
    if buffers.fresh is None or a.size <= settings.eager_size or not native(a.dtype):
        return x
    if not a.flags.c_contiguous:
        return x
    return make(Base(leaf(allocate(a.nbytes), a.dtype, a.shape)), 0, a.strides, a.shape, a.dtype)


def is_pending(x: Any) -> bool:
    """Whether `x` is a handle of a native type whose value is not in memory, or on a device."""
    if type(x) is not ndarray or x._at is HOST:
        return False
    node: Any = x._base.node
    state = node.state
    if state == READY:
        copy = node.buffer.device
        return copy is not None and not copy.host and native(x._dtype)
    return state != READY and state != FAILED and native(x._dtype)  # type: ignore[no-any-return]


def _plain_arguments(values: Any) -> bool:
    return not any(type(v) is ndarray or type(v) is RealArray for v in values)


def _viewer(view: Callable[..., Any]) -> Callable[..., Any]:
    """A native form of a function that only makes views of its first operand."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_pending(x) or not _plain_arguments(args) or not _plain_arguments(kwargs.values()):
            return NotImplemented
        g = ghost(x)
        answer = view(g, *args, **kwargs)
        if type(answer) is RealArray:
            return x if answer is g else seen_through(x, answer)
        if type(answer) in (list, tuple):
            return type(answer)(seen_through(x, g) for g in answer)
        return NotImplemented

    return call


def _whole(view: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """`view` for arrays of more than `axes` axes: of others it gives elements, and a ghost has none."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return view(x, *args, **kwargs) if type(x) is ndarray and len(x._shape) > axes else NotImplemented

    return call


def _reshape(x: Any, shape: Any, order: str = "C") -> Any:
    if not isinstance(order, str) or order not in "CFA":
        return NotImplemented
    g = ghost(x)
    try:
        return seen_through(x, g.reshape(shape, order=order, copy=False))
    except ValueError:
        pass
    if order != "C":
        return NotImplemented
    dense = dense_copy(x)
    return seen_through(dense, ghost(dense).reshape(shape, copy=False))


def reshape(x: Any, *shape: Any, **kwargs: Any) -> Any:
    """`x.reshape(*shape, order="C")`."""
    if not is_pending(x) or not shape or not kwargs.keys() <= {"order"} or not _plain_arguments(shape):
        return NotImplemented
    return _reshape(x, shape[0] if len(shape) == 1 else shape, **kwargs)


def reshape_function(x: Any, /, shape: Any = None, order: Any = "C", *, copy: Any = None) -> Any:
    """`numpy.reshape(x, shape, order="C")`."""
    if not is_pending(x) or shape is None or copy is not None or type(shape) is ndarray:
        return NotImplemented
    return _reshape(x, shape, order)


def ravel(x: Any, order: Any = "C") -> Any:
    """`x.ravel(order="C")`."""
    if not is_pending(x) or order != "C":
        return NotImplemented
    g = ghost(x)
    # unlike reshape, it copies all that is not C-contiguous, were one stride enough or not
    return seen_through(x, g.reshape(-1)) if g.flags.c_contiguous else flatten(x)


def dense_copy(x: ndarray) -> ndarray:
    """A pending copy of `x` in C order."""
    order = tuple(range(len(x._shape)))
    node = _record.copied(_record.read(x, x._shape, order), x._shape)
    return _record.deliver(node, x._shape, order, [x])


def flatten(x: Any, order: Any = "C") -> Any:
    """`x.flatten(order="C")`."""
    if not is_pending(x) or order != "C":
        return NotImplemented
    dense = dense_copy(x)
    flat = seen_through(dense, ghost(dense).reshape(-1))
    flat._owner = None
    return flat


def copy(x: Any, order: Any = "C") -> Any:
    """`x.copy(order="C")` of an array that is pending, on a device or large."""
    if not _lazy.worth(x) or order not in ("C", "K") or 0 in x._shape:
        return NotImplemented
    if order == "C":
        return dense_copy(x)
    arrangement = copy_order(x._strides)
    shape = tuple(x._shape[a] for a in arrangement)
    node = _record.copied(_record.read(x, x._shape, arrangement), shape)
    return _record.deliver(node, x._shape, arrangement, [x])


def _copy_function(x: Any, order: Any = "K", subok: Any = False) -> Any:
    return copy(x, order)


def _complex_part(name: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        if not is_pending(x):
            return NotImplemented
        if x._dtype.kind == "c":
            return seen_through(x, getattr(ghost(x), name))
        return x if name == "real" else NotImplemented

    return call


def _element(x: ndarray, keys: tuple[Any, ...]) -> Any:
    """One element of an array on a device, without the others; NotImplemented for any other array."""
    buffer = x._base.node.buffer if x._base.node.state == READY else None
    if buffer is None or buffer.device is None or buffer.shared > buffer.device.outside or len(keys) != len(x._shape):
        return NotImplemented
    if buffer.device.host:
        return NotImplemented
    g = ghost(x)
    if keys:  # without an index NumPy would read the ghost
        g = g[tuple(slice(k, k + 1 or None) for k in keys)]
    if g.size != 1:
        return NotImplemented  # which raises
    try:
        data = buffer.device.peek(x._offset + address(g) - _ADDRESS, x._dtype.itemsize)
    except DeviceError as error:
        raise _evaluate.located(error, x._base.node.site) from error.__cause__
    if data is None:
        return NotImplemented
    return numpy.frombuffer(data, x._dtype)[0]


def edges(x: ndarray) -> Any:
    """A NumPy array that may be printed in short, of which only the edges are brought from the device; None for others.

    NumPy looks no further where an array has more elements than its `threshold`.
    """
    options = numpy.get_printoptions()
    if x.size <= options["threshold"] or not native(x._dtype):
        return None
    _record.current(x)
    _memory.ready(x)
    node = x._base.node
    buffer = node.buffer
    if node.state != READY or buffer is None or buffer.device is None or buffer.device.host or buffer.shared:
        return None
    edge = options["edgeitems"]
    ends = [
        (slice(None),) if n <= 2 * edge else (slice(edge), slice(n - edge, None)) for n in x._shape
    ]  # fmt: skip
    for corner in itertools.product(*ends):
        if edge:
            host(seen_through(x, ghost(x)[corner]))
    if buffer.array is None:
        return None
    return RealArray(x._shape, x._dtype, buffer.memory(), x._offset, x._strides)


def getitem(x: ndarray, key: Any) -> Any:
    """`x[key]` of a pending array for a basic index that leaves an array; NotImplemented for any other."""
    keys = key if type(key) is tuple else (key,)
    integers = 0
    for k in keys:
        t = type(k)
        if t is int or isinstance(k, numpy.integer):
            integers += 1
        elif t is slice:
            if not all(v is None or type(v) is int or isinstance(v, numpy.integer) for v in (k.start, k.stop, k.step)):
                return NotImplemented
        elif k is not None and k is not Ellipsis:
            return NotImplemented
    if integers >= len(x._shape) and Ellipsis not in keys:
        return _element(x, keys)
    return seen_through(x, ghost(x)[key])


for _name in (
    "transpose", "swapaxes", "squeeze", "diagonal", "moveaxis", "rollaxis", "expand_dims", "broadcast_to", "flip",
    "fliplr", "flipud", "rot90", "atleast_1d", "atleast_2d", "atleast_3d", "split", "array_split", "vsplit",
    "hsplit", "dsplit", "matrix_transpose", "permute_dims", "unstack",
):  # fmt: skip
    _real = getattr(numpy, _name, None)
    if _real is not None:
        NATIVE[_name] = _viewer(getattr(_real, "_implementation", _real))
for _name in ("transpose", "swapaxes", "squeeze", "diagonal"):
    NATIVE["ndarray." + _name] = _viewer(getattr(RealArray, _name))
NATIVE["flip"] = _whole(NATIVE["flip"], 0)
NATIVE["unstack"] = _whole(NATIVE["unstack"], 1)
NATIVE["ndarray.T"] = _viewer(lambda g: g.T)
NATIVE["ndarray.mT"] = _viewer(lambda g: g.mT)
NATIVE["ndarray.real"] = NATIVE["real"] = _complex_part("real")
NATIVE["ndarray.imag"] = NATIVE["imag"] = _complex_part("imag")
NATIVE["ndarray.reshape"] = reshape
NATIVE["reshape"] = reshape_function
NATIVE["ndarray.ravel"] = NATIVE["ravel"] = ravel
NATIVE["ndarray.flatten"] = flatten
NATIVE["ndarray.copy"] = copy
NATIVE["copy"] = _copy_function

__all__ = ["copy", "getitem", "ghost", "is_pending", "seen_through"]
