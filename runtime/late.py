"""Warnings that come later: a launch that may have to warn is not waited for.

in: codegen/gpu.py leaves a `Late` for such a launch; out: fault bits of nodes, once somebody has to know.

A kernel notes in a byte of host memory that something is suspicious.  What it was is found out by a second kernel,
which needs what the first one has read: so a `Late` keeps those buffers, and is settled before one of them is written
or moved.  It is settled too when a value comes to the host, when many are waiting, and at the end of the program.
Kernels that overwrite what they read report exactly by themselves, into bytes that are looked at in the same way.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Any

from .tuples import NamedTuple

ROOM = 1 << 14  # bytes of host memory in which launches leave word
MOST = 64  # launches that wait at a time
SHARE = 32  # part of a device's memory that they may keep, as a divisor

lock = threading.RLock()  # copies.py has the same: whoever settles launches, and who launches settles
waiting: list[Late] = []
protected: set[int] = set()  # ids of the copies that they need
found: list[tuple[Any, int]] = []  # (node, fault bits) not reported yet
report: Callable[[list[tuple[Any, int]]], None] | None = None  # set by the front end
used = False  # whether a device is in use at all
allowed = False  # whether the evaluation under way may warn later
opened = False  # whether the launch under way may
left: Late | None = None  # by the launch under way
_rooms: dict[int, Room] = {}  # by id of the device
_held = 0


_NOTHING = bytes(ROOM)


class Room:
    """Host memory that the kernels of a device can write."""

    def __init__(self, device: Any) -> None:
        self.device = device  # kept: its id names the room
        if hasattr(device, "mapped"):
            self.host, self.pointer = device.mapped(ROOM)
        else:
            from . import cuda  # not before a device is used

            self.host = device.pinned(ROOM, mapped=True)
            self.pointer = int(cuda.call("cuMemHostGetDevicePointer", self.host, 0))
        self.bytes = memoryview((ctypes.c_uint8 * ROOM).from_address(self.host)).cast("B")
        self.bytes[:] = bytes(ROOM)
        self.used = 0

    def told(self) -> bool:
        """Whether launches have left anything: all is well where they have not."""
        used = self.used
        return used > 0 and self.bytes[:used].tobytes() != _NOTHING[:used]

    def take(self, nbytes: int) -> tuple[int, int] | None:
        """(address, the device's address) of bytes that are 0; None where all are taken."""
        first, last = self.used, self.used + (nbytes + 7 & -8)
        if last > ROOM:
            return None
        self.used = last
        return self.host + first, self.pointer + first

    def clear(self) -> None:
        """Begin anew: no launch that was given a place is under way."""
        self.bytes[: self.used] = bytes(self.used)
        self.used = 0


class Said(NamedTuple):
    """What a report needs of a node: the node itself would count as somebody who refers to it."""

    serial: int
    fault: int
    alias: str
    op: str
    site: Any


class Late:
    """What is still to be said about one launch."""

    __slots__ = ("device", "address", "count", "look", "buffers", "nodes")

    def __init__(self, device: Any, address: int, count: int, look: Callable[[], bytes] | None) -> None:
        self.device, self.address, self.count = device, address, count
        self.look = look  # finds the fault bytes; None where the launch has left them itself
        self.buffers: list[Any] = []
        self.nodes: list[tuple[int, int, str, str, Any]] = []

    def about(self, nodes: Iterable[Any]) -> None:
        """The nodes that the fault bytes belong to."""
        self.nodes = [(n.serial, n.fault, n.alias, n.op, n.site) for n in nodes]

    @property
    def noted(self) -> bytes:
        """What the launch has left so far."""
        return ctypes.string_at(self.address, self.count)

    def bits(self) -> list[tuple[Any, int]]:
        """The nodes with faults; the launch has run."""
        noted = self.noted
        if not any(noted):
            return []
        said = self.look() if self.look else noted
        return [(Said(*node), b) for node, b in zip(self.nodes, said, strict=False) if b]


Faults = bytes | Late  # what a launch says of its faults


def room(device: Any, nbytes: int) -> tuple[int, int] | None:
    """Where a launch leaves word of faults; None where it has to be waited for."""
    if not opened or nbytes > ROOM // 4:
        return None
    here = _rooms.get(id(device))
    if here is None:
        here = _rooms[id(device)] = Room(device)
    taken = here.take(nbytes)
    if taken is None:
        settle()
        taken = here.take(nbytes)
    return taken


def ready(device: Any) -> None:
    """Make the room of a device, which takes as long as a small kernel from disk."""
    if id(device) not in _rooms:
        _rooms[id(device)] = Room(device)


def place(device: Any, nbytes: int) -> tuple[int, int] | None:
    """The same for a launch that has begun to look at what it touches: nothing is settled on its account."""
    here = _rooms.get(id(device))
    return None if here is None else here.take(nbytes)


def leave(device: Any, address: int, count: int, look: Callable[[], bytes] | None) -> None:
    """The launch under way has been started, and its faults are to be looked at later."""
    global left
    left = Late(device, address, count, look)


def keep(late: Late, buffers: list[Any]) -> None:
    """Wait, with the buffers that the launch has read."""
    global _held
    if late.look is not None:
        late.buffers = buffers
        nbytes = 0
        for buffer in buffers:
            protected.add(id(buffer.device))
            nbytes += buffer.nbytes
        _held += nbytes
    waiting.append(late)


def before(copy: Any) -> None:
    """A copy is about to be written, moved or given up."""
    if id(copy) in protected:
        settle()


def settle() -> None:
    """Wait for what is running, and find out what was wrong; `tell` reports it."""
    global _held, opened
    with lock:
        mine = waiting[:]
        waiting.clear()
        protected.clear()
        _held = 0
        for device in {id(late.device): late.device for late in mine}.values():
            if getattr(device, "done", -1) != device.launches:
                device.synchronize()
        former, opened = opened, False
        try:
            if any(here.told() for here in list(_rooms.values())):
                for late in mine:
                    found.extend(late.bits())
        finally:
            opened = former
        if not waiting and not opened:  # else one that is under way has a place already
            for here in list(_rooms.values()):
                here.clear()


def tell() -> None:
    """Report what was found."""
    if found and report is not None:
        mine = found[:]
        found.clear()
        report(mine)


def check(now: bool) -> None:
    """After an evaluation: settle if something is known to be wrong, if many wait, or `now`; and report it."""
    if waiting:
        if now or len(waiting) >= MOST or _held > getattr(waiting[0].device, "memory", 1 << 30) // SHARE:
            settle()
        else:
            for here in list(_rooms.values()):
                if here.told():
                    settle()
                    break
    if found:
        tell()


def looked() -> None:
    """A value has come to the host."""
    if waiting:
        settle()
    if found:
        tell()


def forget() -> None:
    """The devices are gone."""
    waiting.clear()
    protected.clear()
    _rooms.clear()


def _finish() -> None:
    try:
        settle()
    except Exception:  # the device does not answer any more
        forget()
    tell()


atexit.register(_finish)
