"""Device memory that others look at too: handed out by DLPack or `__cuda_array_interface__`, or taken in through them.

in: offarray/_interchange.py; out: residency.py, which asks an `Outside` in a `Copy`'s place.

Rules, as for the host's foreign memory: the memory keeps its place, and is no buffer for other values; every read asks
the memory anew, after all work that others have begun on the device; a write is there when its statement ends.  What
the host reads is a passing image; what it writes into that image goes back when the statement ends (`settle`).
"""

from __future__ import annotations

import weakref
from typing import Any

from . import buffer as buffers
from . import cuda, late, placement, residency, supply
from .buffer import Buffer, Export
from .errors import DeviceError
from .residency import Copy

_owners: dict[int, Any] = {}  # id of a copy -> what keeps memory alive that is not ours
_tokens: dict[int, Any] = {}  # id of a copy -> weak reference to the token of those whom our memory was handed to


class Outside(Copy):
    """The device's side of a buffer that others look at there."""

    __slots__ = ()
    outside = True

    def look(self, buffer: Buffer, write: bool = True, low: int = 0, high: int = -1, whole: bool = False) -> None:
        """The host is about to read bytes of the memory, or, with `write`, to write any of its image."""
        high = self.nbytes if high < 0 else high
        with residency.lock:
            self._room(buffer)
            if buffer in buffers.unsettled:  # this statement writes it already
                return
            if write:
                buffers.unsettled.append(buffer)
                low, high = 0, self.nbytes
            if not whole:
                self.device.wait()
                self._fetch(buffer, low, high)
        late.looked()

    def put(self, buffer: Buffer) -> None:
        """Send what the host has written in its image."""
        with residency.lock:
            residency.account("h2d_bytes", self.nbytes)
            self.device.upload(self.pointer, buffer.address, self.nbytes)
            self.device.synchronize()

    def settled(self, buffer: Buffer) -> None:
        """A launch has written the memory: others may look at it now."""
        self.device.synchronize()

    def bring(self, buffer: Buffer, low: int, high: int, overwritten: bool) -> None:
        """A launch is about to use the memory, after what others do with it."""
        if buffer in buffers.unsettled:
            buffers.unsettled.remove(buffer)
            self.put(buffer)
        self.device.wait()

    def peek(self, offset: int, nbytes: int) -> bytes | None:
        """Bytes of the memory, after what others do with it."""
        self.device.wait()
        return super().peek(offset, nbytes)

    def columns(self, buffer: Buffer, low: int, width: int, step: int, count: int) -> bool:
        """No: images are not kept."""
        return False

    def leave(self, buffer: Buffer) -> None:
        """Others look at the memory: it stays where it is.

        Raises
        ------
        DeviceError
            Always.
        """
        raise DeviceError(
            f"this array is in memory of cuda:{self.device.number} that others look at: copy it to use it elsewhere"
        )

    def release(self) -> None:
        """Nobody of ours needs the memory any more."""
        if id(self) not in _owners:
            super().release()
            return
        self.device.synchronize()  # it may be used still
        _owners.pop(id(self))
        supply.forget(self, 0)
        self.pointer = self.low = self.high = self.first = self.last = 0

    def abandon(self) -> None:
        """The device is gone, in a forked child, which has the image that was made for it."""
        _owners.pop(id(self), None)
        _tokens.pop(id(self), None)
        super().abandon()
        self.host = True
        self.__class__ = Copy  # type: ignore[assignment]

    def mourn(self, reason: str) -> None:
        """The device does not work any more, and with it whoever looked at the memory."""
        super().mourn(reason)
        self.lost = reason
        _owners.pop(id(self), None)
        _tokens.pop(id(self), None)
        self.__class__ = Copy  # type: ignore[assignment]

    def retire(self, buffer: Buffer) -> None:
        """Those whom the memory was handed to are gone; what they have begun is waited for."""
        self.device.wait()
        _tokens.pop(id(self), None)
        supply._busy.discard(id(buffer))
        self.peeks = 0
        if buffer in buffers.unsettled:  # the host is writing its image, which is the value now
            buffers.unsettled.remove(buffer)
            self.host = True
            self.first = self.last = 0
        self.__class__ = Copy  # type: ignore[assignment]


def export(buffer: Buffer) -> tuple[int, Export]:
    """Hand out the memory that a buffer has on a device, with the whole value: its address, and what to keep as long.

    The buffer must not be shared on the host.
    """
    with residency.lock:
        here = buffer.device
        token = buffer._export() if buffer._export is not None else None
        if token is None:
            token = Export(buffer)
            buffer._export = weakref.ref(token)
        if not here.outside:
            with residency.explicit(), placement.on(f"cuda:{here.device.number}"):
                residency.use(buffer, "rw")
            here = buffer.device
            here.__class__ = Outside
            supply._busy.add(id(buffer))  # never moved to the host
        if id(here) not in _owners:
            where = weakref.ref(buffer)

            def gone(_: Any) -> None:
                found = where()
                if found is not None and found.device.outside:
                    found.device.retire(found)

            _tokens[id(here)] = weakref.ref(token, gone)
        late.before(here)  # what is still to be found out needs the memory as it is
        here.device.synchronize()
        return here.pointer, token


def duplicate(buffer: Buffer) -> Buffer:
    """The value of a buffer in device memory of its own."""
    made = Buffer(None, 0, buffer.nbytes, False, True)  # type: ignore[arg-type]
    with residency.lock:
        device = buffer.device.device
        made.device = Copy(device, buffer.nbytes, False)
        made.device.acquire(made, 0, buffer.nbytes)
        made.device.first, made.device.last = 0, buffer.nbytes
        buffer.device.bring(buffer, 0, buffer.nbytes, False)
        device.move(made.device.pointer, buffer.device.pointer, buffer.nbytes)
    return made


def adopt(device: cuda.Device, pointer: int, nbytes: int, owner: Any) -> Buffer:
    """A buffer on device memory of somebody else, whom `owner` keeps from giving it back."""
    made = Buffer(None, 0, nbytes, True, True)  # type: ignore[arg-type]
    copy = Outside(device, nbytes, False)
    copy.pointer = pointer
    copy.low = copy.first = 0
    copy.high = copy.last = nbytes
    made.device = copy
    _owners[id(copy)] = owner
    supply.note(copy, made, 0)  # a forked child gets an image
    supply._busy.add(id(made))
    weakref.finalize(made, supply._busy.discard, id(made))
    device.wait()
    return made


def device_of(pointer: int, number: int = -1) -> cuda.Device:
    """The device that memory lies on."""
    if number < 0:
        number = cuda.ordinal(pointer)
    with placement.on(f"cuda:{number}"):
        found = cuda.device()
    residency.start()
    return found


__all__ = ["Outside", "adopt", "device_of", "duplicate", "export"]
