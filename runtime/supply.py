"""The memory of devices: who has some, how much there may be, and who gives it up when there is not enough.

in: residency.py asks for memory; out: addresses.  What is needed last goes first: next uses are foreseen from the
intervals between the last ones, so that a cycle through more than fits keeps most of it where it is.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import cuda, late, trace
from .buffer import Buffer
from .config import settings
from .errors import MemoryLimitError

if TYPE_CHECKING:
    from .copies import Copy

_users: dict[int, weakref.ref[Buffer]] = {}  # id of a copy with memory -> its buffer
_busy: set[int] = set()  # ids of the buffers of a launch
awaited: Callable[[], set[int]] | None = None  # gives the ids of buffers that pending work reads
tick = itertools.count(1).__next__  # the time, as numbers of uses


def limit(device: cuda.Device) -> int:
    """Most bytes that arrays may take of a device; 0 for all."""
    return limits.get(getattr(device, "number", 0), settings.device_memory)


limits: dict[int, int] = {}  # of single devices: `memory_limit`


def take(device: cuda.Device, nbytes: int) -> int:
    """Device memory; where there is not enough, what is needed last goes back to the host.

    Raises
    ------
    MemoryLimitError
        If what one launch needs is too much.
    """
    most = limit(device)
    if most and device.held + nbytes > most:
        late.settle()  # lets go of what was kept for warnings to come
    while most and device.held + nbytes > most:
        if not evict(device):
            raise MemoryLimitError(f"{nbytes} bytes asked for, {device.held} in use, and device_memory is {most}")
    try:
        return device.allocate(nbytes)
    except MemoryLimitError:
        late.settle()
        device.trim()
    while True:
        try:
            return device.allocate(nbytes)
        except MemoryLimitError:
            if not evict(device):
                raise MemoryLimitError(
                    f"the device has not enough memory: {nbytes} bytes asked for, {crowd(device)}"
                ) from None
            device.trim()


def refuse(device: cuda.Device, nbytes: int) -> None:
    """Say at once that a launch needs more than there can be: nothing is moved for it in vain.

    Raises
    ------
    MemoryLimitError
        If it does.
    """
    most = limit(device)
    if nbytes > (most or device.memory):
        what = f"device_memory is {most}" if most else f"the device has {device.memory}"
        raise MemoryLimitError(f"{nbytes} bytes asked for at once, {device.held} in use, and {what}")


def attainable(device: cuda.Device) -> int:
    """Bytes that a launch could have of a device, if all that is not in use went to the host."""
    mine = [(b.device.held, id(b) in _busy) for b in users() if b.device.device is device]
    free = device.room()[0] + sum(held for held, _ in mine)
    most = limit(device)
    return max((min(free, most) if most else free) - sum(held for held, busy in mine if busy), 0)


def crowd(device: cuda.Device) -> str:
    """Who has the memory of a device."""
    free, total = device.room()
    others = max(total - free - device.held, 0)
    text = f"{free} of {total} free, {device.held} ours"
    if others > device.held:
        text += f"; {others} are taken by others, such as other processes (nvidia-smi lists them)"
    return text


def note(copy: Copy, buffer: Buffer, nbytes: int) -> None:
    """The copy of `buffer` has taken memory."""
    device = copy.device
    device.held += nbytes
    device.peak = max(device.peak, device.held)
    _users[id(copy)] = weakref.ref(buffer)


def forget(copy: Copy, nbytes: int) -> None:
    """The copy has given its memory back."""
    _users.pop(id(copy), None)
    copy.device.held -= nbytes


def users() -> list[Buffer]:
    """The buffers that hold device memory."""
    found = (reference() for reference in list(_users.values()))
    return [b for b in found if b is not None and b.device is not None and b.device.held]


def evict(device: cuda.Device) -> bool:
    """Move the buffer that is needed last to the host; False if all are in use now."""
    victims = [b for b in users() if id(b) not in _busy and b.device.device is device]
    if not victims:
        return False
    now = tick()
    soon = awaited() if awaited is not None else set()
    buffer = max(victims, key=lambda b: (id(b) not in soon, distance(b.device, now)))
    trace.log(1, f"device memory is full: {buffer.device.held} bytes moved to the host")
    trace.counters["evictions"] += 1
    buffer.device.leave(buffer)
    return True


def distance(copy: Copy, now: int) -> int:
    """How far off the next use of a copy is, going by the interval between its last two; what is clean counts twice."""
    if copy.before:
        far = max(2 * copy.used - copy.before - now, now - copy.used - (copy.used - copy.before))
    else:
        far = now - copy.used
    return 2 * far if copy.host else far


def lost() -> None:
    """Forget everything, in a forked child."""
    for buffer in users():
        buffer.device.abandon()
    _users.clear()


@contextmanager
def keeping(*some: Buffer) -> Iterator[None]:
    """Buffers that stay on the device within the block."""
    mine = {id(b) for b in some} - _busy
    _busy.update(mine)
    try:
        yield
    finally:
        _busy.difference_update(mine)
