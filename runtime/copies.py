"""The device's side of a buffer: which of the two holds the value, and the transfers between them.

in: `Buffer` says that the host looks, residency.py what a launch touches; out: transfers, counted by direction.

A device holds the bytes `first` to `last` of a buffer, within the memory `low` to `high` that it has for it:

    host    device  means
    valid   -       only on the host (or foreign memory, which others may write at any time)
    valid   valid   the same bytes
    -       valid   the host's memory is out of date there: looked at, it is downloaded first
    -       -       memory that nobody has written yet
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy

from . import cuda, late, pinned, pool, supply, trace
from .buffer import Buffer, Memory, address_of
from .config import settings
from .errors import LostValueError, MemoryLimitError, TransferError

Span = tuple[int, int]

WHOLE = 1 << 20  # buffers up to this size get memory for all of them at once
LINE = 256  # windows start at multiples of this
TRANSFER = 2e-5  # seconds that a transfer of few bytes takes
APART = 8  # so many times are parts of one buffer that lie apart sent alone
RATE = 3e10  # bytes a second of a large one
lock = late.lock  # one at a time changes what is where, and looks for faults, which is a launch
_asked = threading.local()  # `asked.for` is set while a transfer is one that the program has asked for


@contextmanager
def explicit() -> Iterator[None]:
    """Transfers in the block are asked for by name: no guard minds them."""
    former = getattr(_asked, "on", False)
    _asked.on = True
    try:
        yield
    finally:
        _asked.on = former


def account(name: str, nbytes: int) -> None:
    """Count a transfer ("h2d_bytes" or "d2h_bytes") before it happens, and ask the guard.

    Raises
    ------
    TransferError
        Where the setting `transfer_guard` forbids it.
    """
    guard = settings.transfer_guard
    if guard != "allow" and not getattr(_asked, "on", False):
        way = "to the device" if name == "h2d_bytes" else "to the host"
        if guard == "disallow":
            raise TransferError(f"{nbytes} bytes would be sent {way}, and transfer_guard is 'disallow'")
        trace.log(0, f"{nbytes} bytes are sent {way}")
    trace.counters[name] += nbytes
    if trace.events is not None:
        trace.emit(name, trace.locate() if trace.locate is not None else None, nbytes=nbytes)


class Copy:
    """The device's side of one buffer.

    Attributes
    ----------
    pointer : int
        Where byte 0 of the buffer would lie on the device.
    low, high : int
        The bytes of the buffer that there is device memory for.
    first, last : int
        The bytes that are valid there.
    host : bool
        Whether the host's memory holds the value everywhere.
    there : list
        Runs of bytes that the device holds besides, by name, as long as the host does not write.
    parts : list
        Where the host's memory holds it although `host` is false: spans, and views by name.
    used, before : int
        When the device used it last, and the time before that.
    pinned : int
        Address at which the host's memory is registered with the driver; 0 if it is not.
    flying : bool
        Whether the device may still be reading the host's memory.
    public : bool
        Whether others could write the host's memory when the device used it last: what it holds may be out of date.
    lost : str
        Why the value is gone; empty if it is not.
    """

    __slots__ = (
        "device", "nbytes", "pointer", "low", "high", "first", "last", "host", "parts", "there", "used", "before",
        "peeks", "pinned", "public", "lost", "flying",
    )  # fmt: skip

    outside = False  # whether others look at the device's memory (outside.py)

    def __init__(self, device: cuda.Device, nbytes: int, host: bool) -> None:
        self.device, self.nbytes = device, nbytes
        self.pointer = self.low = self.high = self.first = self.last = 0
        self.host = host
        self.parts: list[tuple[int, ...]] = []
        self.there: list[tuple[int, int, int, int]] = []
        self.used = self.before = self.peeks = 0
        self.pinned = 0
        self.public = False
        self.lost = ""
        self.flying = False

    def __del__(self) -> None:
        try:
            self.unpin()
            if self.pointer:
                self.release()
        except Exception:  # the driver is gone at the end of a program
            pass

    @property
    def valid(self) -> bool:
        """Whether the device holds some of the value."""
        return self.last > self.first and not (self.public and self.host)

    @property
    def held(self) -> int:
        """Bytes of device memory."""
        return max(self.high - self.low, 1) if self.pointer else 0

    # ------------------------------------------------------------------ memory
    def acquire(self, buffer: Buffer, low: int, high: int, exact: bool = False) -> None:
        """Have device memory for the bytes `low` to `high`, and keep what is valid (unless `exact`)."""
        if exact:
            self.leave(buffer)
        elif self.nbytes <= WHOLE or 2 * (high - low) >= self.nbytes:
            low, high = 0, self.nbytes
        low &= -LINE
        if self.valid:
            wide = min(low, self.low), max(high, self.high)
            if wide[1] - wide[0] > 2 * (high - low + self.high - self.low):
                self.leave(buffer)
            else:
                if 2 * (wide[1] - wide[0]) >= self.nbytes:
                    wide = 0, self.nbytes
                try:
                    self._move(buffer, *wide)
                    return
                except MemoryLimitError:
                    self.leave(buffer)
        elif self.pointer:
            self.release()
        self.obtain(buffer, low, high)

    def obtain(self, buffer: Buffer, low: int, high: int) -> None:
        """Take device memory for the bytes `low` to `high`."""
        self.there.clear()
        self.pointer = supply.take(self.device, max(high - low, 1)) - low
        self.low, self.high = low, high
        supply.note(self, buffer, self.held)

    def _move(self, buffer: Buffer, low: int, high: int) -> None:
        """To other device memory, which covers more."""
        late.before(self)
        device, pointer, first, nbytes, held = self.device, self.pointer, self.first, self.last - self.first, self.held
        begin = pointer + self.low
        with supply.keeping(buffer):
            self.obtain(buffer, low, high)
        supply.forget(self, held)
        supply.note(self, buffer, 0)
        device.move(self.pointer + first, pointer + first, nbytes)
        device.free(begin)

    def release(self) -> None:
        """Give the device's memory back."""
        late.before(self)
        pointer = self.pointer + self.low
        supply.forget(self, self.held)
        self.pointer = self.low = self.high = self.first = self.last = 0
        self.device.free(pointer)

    def leave(self, buffer: Buffer) -> None:
        """Move the value to the host, to pinned memory if it has none there yet, and give the device's memory back."""
        with explicit(), lock:
            if self.valid and not self.host:
                self._room(buffer, True, True)
            self.look(buffer, write=False)
        if self.pointer:
            self.release()

    def abandon(self) -> None:
        """The device is gone, in a forked child."""
        late.forget()
        self.pointer = self.low = self.high = self.first = self.last = self.pinned = 0
        self.flying = False

    # ------------------------------------------------------------------ the host's side
    def mourn(self, reason: str) -> None:
        """The device does not work any more."""
        if self.valid and not self.host:
            self.lost = reason
        supply.forget(self, self.held)
        Copy.abandon(self)

    def look(self, buffer: Buffer, write: bool = True, low: int = 0, high: int = -1, whole: bool = False) -> None:
        """The host is about to read bytes `low` to `high` of the buffer, or, with `write`, to write any of it.

        With `whole` it overwrites everything.
        """
        if self.host and not write:
            return
        with lock:
            if self.lost and not self.host:  # asked here: the device may stop working while somebody waits
                if not whole:
                    raise LostValueError(self.lost)
                self.lost = ""
            if not self.host:
                high = self.nbytes if high < 0 else high
                if not write and self.valid and self._part(buffer, low, high):
                    late.looked()
                    return
                if not whole:
                    self._room(buffer, self.valid)
                    self._fetch(buffer, self.first, self.last)
                self.host = True
                self.parts.clear()
            self._room(buffer)
            if write:
                self.land()
                self.first = self.last = 0
                self.there.clear()
        late.looked()

    def _room(self, buffer: Buffer, fetched: bool = False, leaves: bool = False) -> None:
        """Have memory on the host; for what is fetched as a whole pinned memory, if it is free or the value leaves."""
        if buffer.array is not None:
            return
        block = pinned.take(self.device, buffer.nbytes, leaves) if fetched else None
        if block is not None:
            buffer.array, buffer.address, buffer._pooled = block, address_of(block), False
            pool.account(buffer.nbytes)
            return
        try:
            buffer.array, buffer.address = pool.take(buffer.nbytes, False)
        except MemoryError:
            pinned.trim()
            buffer.array, buffer.address = pool.take(buffer.nbytes, False)

    def _fetch(self, buffer: Buffer, low: int, high: int) -> None:
        if high > low:
            account("d2h_bytes", high - low)
            self.device.download(buffer.address + low, self.pointer + low, high - low)

    def _part(self, buffer: Buffer, low: int, high: int) -> bool:
        """Fetch a part alone; False where that would not be worth it."""
        low, high = max(low, self.first), min(high, self.last)
        if low >= high or any(len(p) == 2 and p[0] <= low and high <= p[1] for p in self.parts):
            self._room(buffer)
            return True
        if 2 * (high - low) >= self.last - self.first or not self._patient():
            return False
        self._room(buffer)
        self._fetch(buffer, low, high)
        self.parts.append((low, high))
        return True

    def _patient(self) -> bool:
        """Whether the small transfers so far took less than one of everything would."""
        self.peeks += 1
        return self.peeks <= 16 + (self.last - self.first) / (RATE * TRANSFER)

    def columns(self, buffer: Buffer, low: int, width: int, step: int, count: int) -> bool:
        """Fetch `count` runs of `width` bytes, `step` apart, for the host to read; False where that is not worth it."""
        if self.host or not self.valid:
            return False
        high = low + (count - 1) * step + width
        name = (low, width, step, count)
        with lock:
            if self.host or low < self.first or high > self.last or 4 * width * count > high - low:
                return False
            self._room(buffer)
            if name in self.parts:
                return True
            if not self._patient():
                return False
            try:
                with supply.keeping(buffer):
                    pointer = supply.take(self.device, width * count)
            except MemoryLimitError:
                return False
            dense = numpy.empty((count, width), numpy.uint8)
            try:
                account("d2h_bytes", width * count)
                self.device.rows(pointer, width, self.pointer + low, step, width, count)
                self.device.download(address_of(dense), pointer, width * count)
            finally:
                self.device.free(pointer)
            place = {"data": (buffer.address + low, False), "shape": (count, width), "strides": (step, 1)}
            numpy.asarray(Memory(None, {**place, "typestr": "|u1", "version": 3}))[...] = dense
            self.parts.append(name)
        late.looked()
        return True

    def peek(self, offset: int, nbytes: int) -> bytes | None:
        """Bytes of the value, which the device has to hold; None where the host had better fetch everything."""
        with lock:
            if not (self.first <= offset and offset + nbytes <= self.last) or not self._patient():
                return None
            account("d2h_bytes", nbytes)
            data = ctypes.create_string_buffer(nbytes)
            self.device.download(ctypes.addressof(data), self.pointer + offset, nbytes)
        late.looked()
        return data.raw

    def written(self) -> None:
        """The device writes: what the host has seen is out of date."""
        late.before(self)
        self.host = False
        self.peeks = 0
        self.parts.clear()
        self.there.clear()

    # ------------------------------------------------------------------ pinned memory
    def pin(self, buffer: Buffer) -> None:
        """Register the host's memory with the driver, so that transfers go straight."""
        self._room(buffer)
        if self.nbytes and not self._reached(buffer):
            self.device.register(buffer.address, self.nbytes)
            self.pinned = buffer.address

    def _reached(self, buffer: Buffer) -> bool:
        """Whether the device reaches the host's memory directly."""
        return bool(self.pinned) or buffer.address in self.device.registered

    def land(self) -> None:
        """Wait until the host's memory may be written."""
        if self.flying:
            self.flying = False
            self.device.synchronize()

    def unpin(self) -> None:
        """Undo `pin`."""
        if self.pinned:
            address, self.pinned = self.pinned, 0
            self.device.unregister(address)

    def settled(self, buffer: Buffer) -> None:
        """A launch has written a buffer that others look at."""
        with explicit():
            self.look(buffer)

    # ------------------------------------------------------------------ the device's side
    def bring(self, buffer: Buffer, low: int, high: int, overwritten: bool) -> None:
        """Make the device's bytes `low` to `high` valid, without sending those that will be overwritten."""
        first, last = self.first, self.last
        if first <= low and high <= last:
            return
        late.before(self)
        if not self.host and last <= first:  # nobody has written it yet
            self.first, self.last = self.low, self.high
            return
        if last > first and (low > last or high < first):  # apart: what lies between is sent too, or it goes back
            if not self.host:
                between = min(abs(low - last), abs(first - high))
                if between > high - low + last - first:
                    self._fetch(buffer, first, last)
                    self.host = True
                    self.parts.clear()
                    first = last = low
            else:
                first = last = low
        if last <= first:
            first = last = low
            if overwritten:
                self.first, self.last = low, high
                return
        ends = (min(low, first), first), (last, max(high, last))
        for begin, end in ends:
            self._send(buffer, begin, end, (low, high) if overwritten else None)
        self.first, self.last = ends[0][0], ends[1][1]

    def sparse(self, buffer: Buffer, low: int, width: int, step: int, count: int) -> bool:
        """Send `count` runs of `width` bytes, `step` apart, alone; False where all between them is sent, or there."""
        high = low + (count - 1) * step + width
        if not self.host or buffer.shared or self.public or (self.first < high and low < self.last):
            return False
        name = (low, width, step, count)
        if name in self.there and self.pointer:
            return True
        if len(self.there) >= APART:
            return False
        if not self.pointer or low < self.low or high > self.high:
            self.acquire(buffer, low, high)
        account("h2d_bytes", width * count)
        place = {"data": (buffer.address + low, True), "shape": (count, width), "strides": (step, 1)}
        dense = numpy.ascontiguousarray(numpy.asarray(Memory(None, {**place, "typestr": "|u1", "version": 3})))
        with supply.keeping(buffer):
            pointer = supply.take(self.device, width * count)
        try:
            self.device.upload(pointer, address_of(dense), width * count)
            self.device.rows(self.pointer + low, step, pointer, width, width, count)
        finally:
            self.device.free(pointer)
        self.there.append(name)
        self.before, self.used = self.used, supply.tick()
        return True

    def _send(self, buffer: Buffer, low: int, high: int, but: Span | None) -> None:
        if buffer.array is None:  # nobody has written the rest
            return
        for begin, end in [(low, high)] if but is None else [(low, min(high, but[0])), (max(low, but[1]), high)]:
            if end > begin:
                account("h2d_bytes", end - begin)
                straight = self._reached(buffer) and not self.public and not buffer.shared
                self.device.upload(self.pointer + begin, buffer.address + begin, end - begin, not straight)
                self.flying = self.flying or straight
