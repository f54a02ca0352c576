"""Launches on a device: what they touch is brought there first, and what they write is noted.

in: program.py launches, library steps use buffers; out: transfers (copies.py) and the kernel's call.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import buffer as buffers
from . import cuda, late, pinned, placement, supply, trace
from .buffer import Buffer
from .config import REGISTRY, settings
from .copies import Copy, Span, account, explicit, lock
from .errors import DeviceLostError, MemoryLimitError, OffarrayError
from .supply import _busy, keeping, take
from .target import Compiled

__all__ = ["Copy", "account", "carry", "explicit", "keeping", "launch", "lock", "start", "take", "use"]


def fresh(nbytes: int) -> Buffer | None:
    """A buffer that nobody has written yet, on the host or a device; None where the host computes."""
    name = placement.where()
    small = nbytes <= placement.SMALL or placement.absent()
    if name == "auto" and small or name != "auto" and not name.startswith("cuda"):
        return None
    made = Buffer(None, 0, nbytes, False, True)  # type: ignore[arg-type]
    made.device = Copy(cuda.device(), nbytes, False)
    return made


def at(buffer: Buffer) -> Copy:
    """The buffer's copy on the device that work goes to, made where there is none."""
    here = buffer.device
    device = cuda.device()
    if here is None or here.device is not device:
        if here is not None:
            here.leave(buffer)
            here.unpin()
        here = buffer.device = Copy(device, buffer.nbytes, True)
    return here  # type: ignore[no-any-return]


def use(
    buffer: Buffer, access: str, whole: bool = False, low: int = 0, high: int = -1, exact: bool = False
) -> int:  # fmt: skip
    """The device's address of a buffer, brought up to date for "r", "w" or "rw".

    Parameters
    ----------
    whole : bool
        Whether a write covers every byte of those named.
    low, high : int
        The bytes that are touched; all of them if left out.
    exact : bool
        Whether no memory is to be taken but for these.
    """
    if high < 0:
        high = buffer.nbytes
    here = at(buffer)
    if not here.pointer or low < here.low or high > here.high:
        here.acquire(buffer, low, high, exact)
    here.before, here.used = here.used, supply.tick()
    public = buffer.shared
    if (public or here.public) and here.host:
        here.first = here.last = 0
    here.public = public
    if "w" in access and _undo is not None:
        _undo.append((here, here.host, here.first, here.last, here.parts[:]))
    here.bring(buffer, low, high, whole and access == "w")
    if "w" in access:
        here.written()
    return here.pointer


class Undo(list[tuple[Copy, bool, int, int, list[tuple[int, ...]]]]):
    """What copies were before a launch that writes them."""

    kept = True  # whether the host's memory is as it was


_undo: Undo | None = None


@contextmanager
def _undone(device: cuda.Device) -> Iterator[None]:
    """If an error comes before anything has run in the block, everything is where it was, and the error says so.

    A device that is lost has written nothing that counts: what the host had before is the value still.
    """
    global _undo
    former, _undo = _undo, Undo()
    before = device.launches
    try:
        yield
    except (OffarrayError, MemoryError) as error:
        if device.lost and _undo.kept:
            for copy, host, _, _, parts in reversed(_undo):
                if host:
                    copy.host, copy.parts, copy.lost = True, parts, ""
            error.begun = False  # type: ignore[union-attr]
        elif device.launches == before and not device.lost:
            for copy, host, first, last, parts in reversed(_undo):
                if copy.pointer:
                    copy.host, copy.first, copy.last, copy.parts = host, first, last, parts
            error.begun = False  # type: ignore[union-attr]
        raise
    finally:
        _undo = former


def hosted() -> None:
    """A launch under way has written memory of the host: it cannot be undone any more."""
    if _undo is not None:
        _undo.kept = False


def settle(buffer: Buffer, access: str) -> None:
    """After a launch: what others look at is brought to the host if it was written."""
    if "w" in access and buffer.shared:
        buffer.device.settled(buffer)


def launch(
    compiled: Compiled, pointers: list[tuple[Buffer, int]], words: Sequence[int], access: Sequence[str], faults: int,
    spans: Sequence[Span] = (), dense: Sequence[Any] = (),
) -> late.Faults:  # fmt: skip
    """Run a device kernel on buffers, and give its fault bytes.

    Parameters
    ----------
    pointers
        (buffer, byte offset) of each pointer argument.
    words
        What follows the pointers, up to the fault pointer, as 64-bit words.
    access, faults, spans, dense
        As in `program.Launch`.
    """
    report = bytearray(faults + 8)
    with lock:
        device = cuda.device()
        names = {id(b) for b, _ in pointers} - _busy
        _busy.update(names)
        try:
            row = _in_place(pointers, access, spans, device)
            if row is None:
                return _brought(compiled, pointers, words, access, faults, spans, dense)
            before = device.launches
            if late.protected:
                for (b, _), way in zip(pointers, access, strict=True):
                    if way != "r":
                        late.before(b.device)
            try:
                late.opened, late.left = late.allowed and faults > 0, None
                run(compiled, row, words, report)
                _alive(device)
            except (OffarrayError, MemoryError) as error:
                if device.launches == before or device.lost:  # what a lost device has written is gone with it
                    error.begun = False  # type: ignore[union-attr]
                    raise
                _wrote(pointers, access)
                raise
            _wrote(pointers, access)
            if late.left is not None:
                late.keep(late.left, [b for (b, _), way in zip(pointers, access, strict=True) if way == "r"])
                return late.left
        finally:
            late.opened = False
            _busy.difference_update(names)
    return bytes(report[:faults])  # of what may warn later, the `Late` instead


def _in_place(
    pointers: Sequence[tuple[Buffer, int]], access: Sequence[str], spans: Sequence[Span], device: cuda.Device
) -> list[int] | None:
    """The addresses of a launch's pointers where nothing has to move; None where something has."""
    row: list[int] = []
    new: list[tuple[Copy, Buffer]] = []
    tick = supply.tick()
    for number, (buffer, offset) in enumerate(pointers):
        here = buffer.device
        if here is None or here.device is not device or here.public or buffer.shared or here.lost:
            return None
        if here.pointer:
            low, high = spans[number] if spans else (-offset, here.nbytes - offset)
            if offset + low < here.first or offset + high > here.last:
                return None
        elif here.host or access[number] != "w":
            return None
        else:
            new.append((here, buffer))
        here.before, here.used = here.used, tick
        row.append(offset)
    try:
        for here, buffer in new:
            if not here.pointer:
                here.obtain(buffer, 0, here.nbytes)
    except MemoryLimitError:
        return None
    return [buffer.device.pointer + offset for (buffer, _), offset in zip(pointers, row, strict=True)]


def _wrote(pointers: Sequence[tuple[Buffer, int]], access: Sequence[str]) -> None:
    for (buffer, _), way in zip(pointers, access, strict=True):
        if way != "r":
            here = buffer.device
            if not here.last:
                here.last = here.nbytes
            here.written()  # it may have been read through another pointer, and written through this one


def _brought(
    compiled: Compiled, pointers: list[tuple[Buffer, int]], words: Sequence[int], access: Sequence[str], faults: int,
    spans: Sequence[Span], dense: Sequence[Any],
) -> bytes:  # fmt: skip
    """`launch` with transfers, or in pieces."""
    report = bytearray(faults + 8)
    device = cuda.device()
    with _undone(device):
        try:
            reach = _reach(pointers, spans)
            if not any(type(d) is tuple for d in dense):
                supply.refuse(device, sum(high - low for low, high, _, _ in reach))
            row = rows(pointers, access, reach, dense)
        except MemoryLimitError:
            from .pieces import Pieces  # few programs come here

            pieces = Pieces(compiled, pointers, words, access, faults, spans)
            if not pieces.possible():
                raise
            return pieces.run()
        run(compiled, row, words, report)
        _alive(device)
        for (b, _), a in zip(pointers, access, strict=True):
            if "w" in a:
                b.device.written()
                settle(b, a)
    return bytes(report[:faults])


def _reach(pointers: Sequence[tuple[Buffer, int]], spans: Sequence[Span]) -> list[tuple[int, int, int, int]]:
    """Of each buffer: the bytes that a launch touches, the first of its pointers, and how many it has."""
    reach: dict[int, tuple[int, int, int, int]] = {}
    for n, (buffer, offset) in enumerate(pointers):
        low, high = (offset + spans[n][0], offset + spans[n][1]) if spans else (0, buffer.nbytes)
        found = reach.get(id(buffer), (low, high, n, 0))
        reach[id(buffer)] = min(found[0], low), max(found[1], high), found[2], found[3] + 1
    return list(reach.values())


def rows(
    pointers: Sequence[tuple[Buffer, int]], access: Sequence[str], reach: Sequence[tuple[int, int, int, int]],
    dense: Sequence[Any],
) -> list[int]:  # fmt: skip
    """The addresses of a launch's pointers, everything brought up to date: first what is read, then what is written."""
    for low, high, n, count in reach:
        buffer = pointers[n][0]
        if count == 1:
            whole = dense[n] if dense else False
            if type(whole) is tuple and at(buffer).sparse(buffer, low, *whole):
                continue
            use(buffer, access[n], whole is True, low, high)
        else:
            use(buffer, "r", False, low, high)
    return [b.device.pointer + offset for b, offset in pointers]


def run(compiled: Compiled, row: list[int], words: Sequence[int], report: bytearray) -> None:
    """Call a device kernel; its fault bytes go to the report."""
    packed = array("Q", [*row, *words, 0, 0])
    packed[-2] = ctypes.addressof(ctypes.c_char.from_buffer(report))
    compiled.body(packed.buffer_info()[0], 0, 1)


def _alive(device: cuda.Device) -> None:
    """Another thread may have found out, while a kernel ran, that the device does not work any more."""
    if device.lost:
        raise DeviceLostError(f"cuda:{device.number} does not work any more: {device.lost}")


def mourn(device: cuda.Device, reason: str) -> None:
    """A device is lost: so are the values that it alone had; work goes on on the host."""
    placement.lost[device.number] = f"the value was on cuda:{device.number} alone, which stopped working: {reason}"
    for buffer in supply.users():
        if buffer.device.device is device:
            buffer.device.mourn(placement.lost[device.number])
    late.forget()
    pinned.forget(device)
    placement.forget()
    trace.log(1, f"{placement.lost[device.number]}; the host goes on")


cuda.mourn = mourn


def _before_fork() -> None:
    """Bring what only a device holds to the host: the child has no devices."""
    for buffer in supply.users():
        if not buffer.device.host:
            with explicit():
                buffer.device.look(buffer, write=False)


def _in_child() -> None:
    """A forked child computes on the host: a driver cannot be used on both sides."""
    lock._at_fork_reinit()  # type: ignore[attr-defined]
    late.forget()
    pinned.forget()
    supply.lost()
    cuda.lost()
    placement.forget()
    if settings.device.startswith("cuda"):
        settings.device = "cpu"


def carry(*args: Any) -> bool:
    """Copy elements within the device; see carrying.py."""
    from . import carrying  # stands on this module

    return carrying.carry(*args)


_registered = False


def guard_forks() -> None:
    """From now on a forked child has all values, and does without devices."""
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def start() -> None:
    """From now on new buffers note what the device holds."""
    late.used = True
    guard_forks()
    buffers.fresh, buffers.carry = fresh, carry
    usual = REGISTRY["bound_bytes"].default
    if settings.bound_bytes == usual:  # devices are quick, and hold much
        most = (
            cuda.device().memory
            if settings.device.startswith("cuda")
            else min(cuda.device().memory, pinned.host_memory())
        )
        settings.bound_bytes = max(int(usual), most // 8)
