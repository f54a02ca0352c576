"""Copies of buffers on a device: which of the two holds the value, and the transfers that follow from each access.

in: a launch says read, write or overwrite, and `Buffer` says that the host looks; out: copies, counted by direction.

    host    device  means
    valid   -       only on the host (or foreign memory, which others may write at any time)
    valid   valid   the same bytes
    -       valid   the host's memory is out of date: looked at, it is downloaded first
    -       -       memory that nobody has written yet
"""

from __future__ import annotations

import ctypes
import os
import weakref
from array import array
from collections.abc import Sequence

from . import buffer as buffers
from . import cuda, pool, trace
from .buffer import Buffer
from .config import REGISTRY, settings
from .errors import MemoryLimitError
from .target import Compiled

_users: dict[int, weakref.ref[Buffer]] = {}  # id of a copy -> its buffer; the one used last stands last
_busy: set[int] = set()  # ids of the buffers of a launch
held = 0  # bytes of buffers on devices


def take(device: cuda.Device, nbytes: int) -> int:
    """Device memory; where there is not enough, buffers not used for long go back to the host.

    Raises
    ------
    MemoryLimitError
        If what one launch needs is too much.
    """
    limit = settings.device_memory
    while limit and held + nbytes > limit:
        if not _evict():
            raise MemoryLimitError(f"{nbytes} bytes asked for, {held} in use, and device_memory is {limit}")
    try:
        return device.allocate(nbytes)
    except MemoryLimitError:
        device.trim()
    while True:
        try:
            return device.allocate(nbytes)
        except MemoryLimitError:
            if not _evict():
                raise
            device.trim()


def _evict() -> bool:
    """Move the buffer used longest ago to the host; False if all are in use now."""
    for ref in list(_users.values()):
        buffer = ref()
        if buffer is not None and id(buffer) not in _busy and buffer.device is not None and buffer.device.pointer:
            buffer.device.look(buffer, write=False)
            buffer.device.release()
            trace.log(1, f"device memory is full: {buffer.nbytes} bytes moved to the host")
            return True
    return False


class Copy:
    """The device's side of one buffer.

    Attributes
    ----------
    host, valid : bool
        Whether the host's memory, and the device's, holds the value.
    """

    __slots__ = ("device", "nbytes", "pointer", "host", "valid")

    def __init__(self, device: cuda.Device, nbytes: int, host: bool) -> None:
        self.device, self.nbytes = device, nbytes
        self.pointer = 0
        self.host = host
        self.valid = False

    def __del__(self) -> None:
        if self.pointer:
            try:
                self.release()
            except Exception:  # the driver is gone at the end of a program
                pass

    def release(self) -> None:
        """Give the device's memory back."""
        global held
        _users.pop(id(self), None)
        held -= self.nbytes
        self.device.free(self.pointer)
        self.pointer, self.valid = 0, False

    def look(self, buffer: Buffer, write: bool = True) -> None:
        """The host is about to read the buffer, and perhaps to write it."""
        if buffer.array is None:
            buffer.array, buffer.address = pool.take(buffer.nbytes, False)
        if not self.host:
            if self.valid:
                self.device.download(buffer.address, self.pointer, buffer.nbytes)
                trace.counters["d2h_bytes"] += buffer.nbytes
            self.host = True
        if write:
            self.valid = False

    def peek(self, offset: int, nbytes: int) -> bytes:
        """Bytes of the value, which the device has to hold."""
        data = ctypes.create_string_buffer(nbytes)
        self.device.download(ctypes.addressof(data), self.pointer + offset, nbytes)
        trace.counters["d2h_bytes"] += nbytes
        return data.raw

    def copy(self, source: Buffer, target: Buffer) -> bool:
        """Copy a whole buffer within the device; False if its value is not there."""
        if not self.valid or self.device is not cuda.device() or source.shared or target.shared:
            return False
        to = use(target, "w", whole=True)
        self.device.move(to, self.pointer, source.nbytes)
        return True


def fresh(nbytes: int) -> Buffer | None:
    """A buffer that nobody has written yet; None where the host computes."""
    if not settings.device.startswith("cuda"):
        return None
    made = Buffer(None, 0, nbytes, False, True)  # type: ignore[arg-type]
    made.device = Copy(cuda.device(), nbytes, False)
    return made


def use(buffer: Buffer, access: str, whole: bool = False) -> int:
    """The device's address of a buffer, brought up to date for "r", "w" or "rw".

    Parameters
    ----------
    whole : bool
        Whether a write covers every byte.
    """
    global held
    here = buffer.device
    device = cuda.device()
    if here is None or here.device is not device:
        if here is not None:
            here.look(buffer)
        here = buffer.device = Copy(device, buffer.nbytes, True)
    if not here.pointer:
        here.pointer = take(device, buffer.nbytes)
        held += buffer.nbytes
    _users.pop(id(here), None)
    _users[id(here)] = weakref.ref(buffer)
    public = buffer.shared
    if (public or not here.valid) and here.host and not (whole and access == "w"):
        device.upload(here.pointer, buffer.address, buffer.nbytes)
        trace.counters["h2d_bytes"] += buffer.nbytes
    here.valid = True
    if "w" in access:
        here.host = False
    return here.pointer  # type: ignore[no-any-return]


def launch(
    compiled: Compiled, pointers: list[tuple[Buffer, int]], words: Sequence[int], access: Sequence[str], faults: int
) -> bytes:  # fmt: skip
    """Run a device kernel on buffers, and give its fault bytes.

    Parameters
    ----------
    pointers
        (buffer, byte offset) of each pointer argument.
    words
        What follows the pointers, up to the fault pointer, as 64-bit words.
    access, faults
        As in `program.Launch`.
    """
    written = [b for (b, _), a in zip(pointers, access, strict=True) if "w" in a]
    report = bytearray(faults + 8)
    _busy.update(id(b) for b, _ in pointers)
    try:
        row = [use(b, a) + offset for (b, offset), a in zip(pointers, access, strict=True)]
        _run(compiled, row, words, report)
    finally:
        _busy.clear()
    for b in written:
        b.device.host = False  # it may have been read through another pointer, and written through this one
        if b.shared:  # who looks at it shall see it
            b.device.look(b)
    return bytes(report[:faults])


def _run(compiled: Compiled, row: list[int], words: Sequence[int], report: bytearray) -> None:
    packed = array("Q", [*row, *words, 0, 0])
    packed[-2] = ctypes.addressof(ctypes.c_char.from_buffer(report))
    compiled.body(packed.buffer_info()[0], 0, 1)


def _before_fork() -> None:
    """Bring what only a device holds to the host: the child has no devices."""
    for ref in list(_users.values()):
        buffer = ref()
        if buffer is not None and buffer.device is not None and buffer.device.pointer and not buffer.device.host:
            buffer.device.look(buffer, write=False)


def _in_child() -> None:
    """A forked child computes on the host: a driver cannot be used on both sides."""
    global held
    for ref in list(_users.values()):
        buffer = ref()
        if buffer is not None and buffer.device is not None:
            buffer.device.pointer = 0
            buffer.device.valid = False
    _users.clear()
    held = 0
    cuda.lost()
    if settings.device.startswith("cuda"):
        settings.device = "cpu"


_registered = False


def start() -> None:
    """From now on new buffers note what the device holds."""
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(before=_before_fork, after_in_child=_in_child)
    buffers.fresh = fresh
    usual = REGISTRY["bound_bytes"].default
    if settings.bound_bytes == usual:  # devices are quick, and hold much
        settings.bound_bytes = max(int(usual), cuda.device().memory // 8)
