"""Where arrays are, by hand: moving them, choosing a device for a block, guards, limits, and what is alive.

in: handles; out: runtime/residency.py, which is told what it would otherwise find out.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import _evaluate
from ._array import HOST, fresh, ndarray
from ._creation import full
from ._dispatch import NATIVE
from ._memory import adopt
from ._record import current
from ._views import unwritten
from .fusion.node import READY, Node
from .runtime import buffer as buffers
from .runtime import config as _config
from .runtime import placement
from .runtime.buffer import Buffer

_NAMES = ("cpu", "cuda", *(f"cuda:{n}" for n in range(8)))


def checked(name: Any, auto: bool = False) -> str:
    """A device's name, "cuda" standing for "cuda:0".

    Raises
    ------
    ValueError
        For anything that is no device's name.
    """
    if name == "auto" and auto:
        return "auto"
    if name not in _NAMES:
        raise ValueError(f"a device is 'cpu', 'cuda' or 'cuda:N', not {name!r}")
    return "cuda:0" if name == "cuda" else str(name)


def _usual() -> str:
    name = placement.where()
    return name if name.startswith("cuda") else "cuda"


def _buffer(x: Any, name: str) -> Buffer:
    """The memory of a handle, what is pending evaluated on the device named."""
    if type(x) is not ndarray:
        raise TypeError(f"an offarray array is needed, not {type(x).__name__}")
    if x._at is HOST:
        adopt(x)
    node = current(x)
    if node.state != READY:
        with placement.on(name):
            _evaluate.evaluate((node,))
    node = x._base.node
    assert node.buffer is not None
    return node.buffer


def to_device(x: Any, device: str | None = None) -> Any:
    """Bring an array to a device; it stays there until memory is short.

    Parameters
    ----------
    x : ndarray
        Any array.  What is pending is computed on the device.
    device : str, optional
        "cuda" or "cuda:N"; "cpu" is `to_host`.  The device that work goes to if left out.

    Returns
    -------
    ndarray
        The array itself.  A transfer asked for here passes every `transfer_guard`.

    Raises
    ------
    offarray.runtime.errors.DeviceError
        If there is no such device.
    """
    name = _usual() if device is None else checked(device)
    if name == "cpu":
        return to_host(x)
    from .runtime import residency

    with placement.on(name):
        _evaluate.target()  # the device is in use from here on
        buffer = _buffer(x, name)
        with residency.explicit(), residency.lock, residency.keeping(buffer):
            if buffer.nbytes:
                residency.use(buffer, "r")
            else:
                residency.at(buffer)  # no memory, but a place
    return x


def to_host(x: Any) -> Any:
    """Bring an array to the host, and give back its memory on a device.

    Parameters
    ----------
    x : ndarray
        Any array.  What is pending is computed first, wherever it would be.

    Returns
    -------
    ndarray
        The array itself.
    """
    buffer = _buffer(x, placement.where())
    if buffer.device is not None:
        buffer.device.leave(buffer)
        if not buffer.nbytes:
            buffer.device = None
    return x


def prefetch(x: Any, device: str | None = None) -> Any:
    """Start to bring an array to a device; returns when its memory on the host may be written again.

    What of the transfer is left goes on beside the program.  Parameters and result are those of `to_device`.
    """
    return to_device(x, device)


def pin(x: Any) -> Any:
    """Keep an array's memory on the host where it is, so that a device reads and writes it without copies in between.

    Parameters
    ----------
    x : ndarray
        Any array; its value is brought to the host.

    Returns
    -------
    ndarray
        The array itself.

    Raises
    ------
    offarray.runtime.errors.DeviceError
        If there is no device.
    """
    from .runtime import residency

    name = _usual()
    with placement.on(name):
        _evaluate.target()
        buffer = _buffer(x, name)
        with residency.explicit(), residency.lock:
            here = residency.at(buffer)
            here.look(buffer, write=False)
            here.pin(buffer)
    return x


def place(x: ndarray) -> str:
    """The device that holds the value of an array: "cpu", or "cuda:N" where one has it (the host may have it too)."""
    if x._at is HOST:
        return "cpu"
    node: Node = x._base.node
    buffer = node.buffer
    if buffer is None:
        name = placement.where()
        return checked(name) if name.startswith("cuda") else "cpu"
    copy = buffer.device
    return f"cuda:{copy.device.number}" if copy is not None and (copy.valid or not buffer.nbytes) else "cpu"


def _moved(self: ndarray, device: str, /, *, stream: Any = None) -> ndarray:
    """Bring the array to a device: "cpu", "cuda" or "cuda:N"; gives the array itself.

    Raises
    ------
    ValueError
        For any other device, and for a stream: there is one of each device.
    """
    if stream is not None:
        raise ValueError("The stream argument in to_device() is not supported")
    if device not in _NAMES:
        raise ValueError(f"Unsupported device: {device}.")
    if device == "cpu" and (self._at is HOST or place(self) == "cpu"):
        return self
    to_device(self, device)
    return self


class device:
    """Within the block, what this thread records and evaluates runs on one device.

    Parameters
    ----------
    name : str
        "cpu", "cuda" or "cuda:N".  What was recorded before the block is evaluated before it, what is recorded in it
        at its end.

    Examples
    --------
    >>> import offarray as np
    >>> with np.device("cpu"):
    ...     x = np.arange(1e6) + 1
    """

    def __init__(self, name: str) -> None:
        self.name = checked(name)
        self._block: Any = None

    def __enter__(self) -> device:
        _evaluate.flush()
        self._block = placement.on(self.name)
        self._block.__enter__()
        return self

    def __exit__(self, kind: Any, *exception: Any) -> None:
        try:
            if kind is None:
                _evaluate.flush()
        finally:
            self._block.__exit__(None, None, None)


def transfer_guard(level: str) -> Any:
    """Say what becomes of transfers between host and device that nobody asked for by name.

    Parameters
    ----------
    level : {"allow", "log", "disallow"}
        Let them be, tell of each on stderr, or raise `TransferError`.  `to_device`, `to_host`, `prefetch` and what goes
        back to the host for want of memory are always allowed.

    Returns
    -------
    context manager
        The level holds from the call on; at the end of a `with` block the former one comes back.
    """
    return _config.config(transfer_guard=level)


class memory_limit:
    """Limit the memory that arrays may take of a device, or of the host.

    Parameters
    ----------
    limit : int or str
        Bytes, also as "2GiB", or a part of the device's memory as "80%"; 0 for no limit.
    device : str, optional
        "cpu", "cuda" or "cuda:N"; the device that work goes to if left out.

    Notes
    -----
    It holds from the call on, and until the end of the block in a `with` statement.  What a device holds beyond it goes
    to the host at once.
    """

    def __init__(self, limit: int | str, device: str | None = None) -> None:
        name = _usual() if device is None else checked(device)
        self._former: Any = None
        self._number = int(name.partition(":")[2] or 0)
        if name == "cpu":
            if isinstance(limit, str) and limit.endswith("%"):
                from .runtime import pinned

                limit = _share(limit, pinned.host_memory())
            self._former = _config.config(memory_limit=limit)
            return
        from .runtime import cuda, residency, supply

        if isinstance(limit, str) and limit.endswith("%"):
            with placement.on(name):
                limit = _share(limit, cuda.device().memory)
        nbytes = int(_config.parse("device_memory", limit, "limit"))
        self._limits = supply.limits
        self._before = supply.limits.get(self._number)
        supply.limits[self._number] = nbytes
        with residency.lock:
            for found in {b.device.device for b in supply.users()}:
                while found.number == self._number and 0 < nbytes < found.held and supply.evict(found):
                    pass

    def __enter__(self) -> memory_limit:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._former is not None:
            self._former.__exit__(*exception)
        elif self._before is None:
            self._limits.pop(self._number, None)
        else:
            self._limits[self._number] = self._before


def _share(text: str, whole: int) -> int:
    try:
        part = float(text[:-1])
    except ValueError:
        part = -1.0
    if not 0 < part <= 100:
        raise ValueError(f"limit must be bytes or a part such as '80%', not {text!r}")
    return int(whole * part / 100)


def _zeros(shape: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
    """`numpy.zeros` where a device is in use: nothing is sent to it."""
    return full(shape, 0, numpy.float64 if dtype is None else dtype, order, **kwargs)


def _empty(pooled: Any) -> Any:
    def empty(shape: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
        """`numpy.empty` where a device is in use; `pooled` is the form of the host."""
        kind = numpy.float64 if dtype is None else dtype
        if order not in ("C", None) or not kwargs.keys() <= {"device"} or kwargs.get("device") not in (None, "cpu"):
            return NotImplemented
        if buffers.fresh is None:
            return pooled(shape, kind)
        return unwritten(fresh(numpy.empty(shape, kind)))

    return empty


def _zeros_like(form: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        made = form(*args, **kwargs)
        if type(made) is not ndarray or made._np is None or buffers.fresh is None or not made._np.flags.c_contiguous:
            return made
        recorded = full(made._np.shape, 0, made._np.dtype)
        return made if recorded is NotImplemented else recorded

    return call


def install(cls: Any) -> None:
    """Give the handle its device, and new arrays theirs."""
    NATIVE.update(zeros=_zeros, empty=_empty(NATIVE["empty"]), zeros_like=_zeros_like(NATIVE["zeros_like"]))
    cls.device = property(place, doc=place.__doc__)
    _moved.__name__, _moved.__qualname__ = "to_device", "ndarray.to_device"
    cls.to_device = _moved
