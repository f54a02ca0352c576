"""Launches on a device that were done before: what is left are addresses and scalars.

in: the launch of a recipe; out: the driver's call, as long as nothing has to move first.  `shot.pyx` is the same in C.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from . import late, supply, trace
from .buffer import Buffer
from .config import settings
from .copies import Copy, lock
from .errors import MemoryLimitError, OffarrayError
from .late import Faults
from .signals import of as signals_of
from .target import Fixed

FAR = 1 << 40  # bytes between buffers for which a call is worked out: none is told by another's address


@lru_cache(1 << 12)
def narrowed(word: int) -> int:
    """The bits of a double as those of a 32-bit float."""
    number = ctypes.c_float(struct.unpack("d", struct.pack("Q", word))[0])
    return ctypes.c_uint32.from_buffer(number).value


def ready(device: Any, prepared: Any) -> Shot | None:
    """The launch of `prepared` made ready for a device; None where its kernel cannot be."""
    step = prepared.step
    if step.compiled.fixed is None or not step.spans:
        return None
    row = [FAR * (slot + 1) + offset for slot, offset in step.pointers]
    return Shot(device, prepared, step.compiled.fixed([*row, *prepared.row[len(row) : prepared.fault + 2]]))


class Shot:
    """One launch made ready for a device."""

    __slots__ = ("device", "step", "fixed", "words", "written")

    def __init__(self, device: Any, prepared: Any, fixed: Fixed) -> None:
        self.device, self.step, self.fixed = device, prepared.step, fixed
        self.words = list(prepared.row[: prepared.fault])
        self.written = [n for n, way in enumerate(self.step.access) if way != "r"]

    def blank(self, nbytes: int) -> Buffer:
        """A buffer for a value that the launch makes; without memory where there is none yet."""
        made = Buffer(None, 0, nbytes, False, True)  # type: ignore[arg-type]
        made.device = copy = Copy(self.device, nbytes, False)
        try:
            copy.obtain(made, 0, nbytes)
        except MemoryLimitError:
            return made
        copy.last = nbytes
        return made

    def fire(self, slots: Sequence[Buffer], scalars: Sequence[tuple[int, int]] = ()) -> Faults | None:
        """Launch on these buffers; None where it has to be done the long way, and nothing has happened.

        Parameters
        ----------
        slots, scalars
            As in `program.launch`.
        """
        device, fixed, step = self.device, self.fixed, self.step
        if device.lost or settings.check or settings.debug >= 2 or trace.events is not None:
            return None
        if fixed.reports and not late.allowed:
            return None
        with lock:
            place, scratch = (0, 0), 0
            if fixed.scratch:  # before the operands are looked at: others may have to make room for it
                scratch = supply.take(device, fixed.scratch)
            try:
                if late.protected:
                    for n in self.written:
                        late.before(slots[step.pointers[n][0]].device)
                row = self._row(slots)
                if row is None:
                    return None
                if fixed.reports:
                    found = late.place(device, fixed.reports)
                    if found is None:
                        return None
                    place = found
                for number, bits in scalars:
                    row[len(step.pointers) + number] = bits
                self._launch(slots, row, place[1], scratch)
            finally:
                if scratch and not device.lost:
                    device.free(scratch)
            trace.counters["kernels"] += 1
            trace.counters["kernel_bytes"] += step.nbytes
            if not fixed.reports:
                return b""
            look = None if fixed.again is None else partial(fixed.again, [*row, 0, 0])
            left = late.Late(device, place[0], fixed.reports, look)
            read = [n for n, way in enumerate(step.access) if way == "r"]
            late.keep(left, [slots[step.pointers[n][0]] for n in read])
            return left

    def duplicate(self, source: Buffer, target: Buffer) -> bool:
        """Copy all of a buffer within the device; False where something has to move first."""
        device = self.device
        if device.lost:
            return False
        with lock:
            late.before(target.device)
            for buffer in (source, target):
                here = buffer.device
                if here is None or here.device is not device or here.public or here.outside or buffer.shared:
                    return False
                if not here.pointer or here.first or here.last < buffer.nbytes:
                    return False
            device.move(target.device.pointer, source.device.pointer, source.nbytes)
            target.device.written()
        return True

    def _row(self, slots: Sequence[Buffer]) -> list[int] | None:
        """Addresses and words; None where something has to move first."""
        row, step, tick = self.words[:], self.step, supply.tick()
        for number, ((slot, offset), (low, high)) in enumerate(zip(step.pointers, step.spans, strict=True)):
            buffer = slots[slot]
            here = buffer.device
            if here is None or here.device is not self.device or here.public or here.outside or buffer.shared:
                return None
            if not here.pointer or here.pointer & 15 or offset + low < here.first or offset + high > here.last:
                return None
            here.before, here.used = here.used, tick
            row[number] = here.pointer + offset
        return row

    def _launch(self, slots: Sequence[Buffer], row: list[int], fault: int, scratch: int) -> None:
        device, fixed = self.device, self.fixed
        head = [*row, fault, scratch]
        for word in fixed.narrow:
            head[word] = narrowed(head[word])
        signals, epoch = signals_of(device).take(fixed.signals) if fixed.signals else (0, 0)
        before = device.launches
        try:
            for part in fixed.parts:
                words = [*head, *part.words, scratch + fixed.states, signals, epoch]
                part.start([*words, *[scratch + n for n in part.values]])
        except (OffarrayError, MemoryError) as error:
            if device.launches == before and not device.lost:
                error.begun = False  # type: ignore[union-attr]
                raise
            self._wrote(slots)
            raise
        self._wrote(slots)

    def _wrote(self, slots: Sequence[Buffer]) -> None:
        for n in self.written:
            slots[self.step.pointers[n][0]].device.written()
