"""Launches whose operands do not fit into a device's memory together: one piece of the outermost axis after another.

in: residency.py, out of memory; out: the same launch on parts of its buffers, which go back to the host in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import cuda, residency, supply, trace
from .buffer import Buffer
from .copies import LINE
from .errors import MemoryLimitError
from .target import Compiled

Span = tuple[int, int]


class Pieces:
    """One launch, cut along its outermost axis.

    Parameters
    ----------
    compiled, pointers, words, access, faults, spans
        As in `residency.launch`.
    """

    def __init__(
        self, compiled: Compiled, pointers: list[tuple[Buffer, int]], words: Sequence[int], access: Sequence[str],
        faults: int, spans: Sequence[Span],
    ) -> None:  # fmt: skip
        self.compiled, self.pointers, self.access, self.faults, self.spans = compiled, pointers, access, faults, spans
        self.words = list(words)
        self.cut: Any = compiled.split(self.words) if compiled.split is not None and spans else None
        self.extent = self.words[self.cut.word] if self.cut is not None else 0

    def possible(self) -> bool:
        """Whether the launch may be cut at all: no piece reads what another one writes."""
        if self.extent < 2:
            return False
        written = {id(b) for (b, _), a in zip(self.pointers, self.access, strict=True) if "w" in a}
        names = [id(b) for b, _ in self.pointers]
        return all(names.count(key) == 1 for key in written)

    def span(self, number: int, begin: int, count: int) -> Span:
        """Bytes of its buffer that a pointer touches in a piece."""
        (_, offset), (low, high), step = self.pointers[number], self.spans[number], self.cut.steps[number]
        if not step:
            return offset + low, offset + high
        rest = self.extent - begin - count
        if step > 0:
            return offset + low + begin * step, offset + high - rest * step
        return offset + low - rest * step, offset + high + begin * step

    def dense(self, number: int, count: int) -> bool:
        """Whether a written piece fills its span."""
        step = self.cut.steps[number]
        if not step or "r" in self.access[number]:
            return False
        low, high = self.spans[number]
        return bool(high - low == abs(step) * self.extent)

    def run(self) -> bytes:
        """Launch everything, in pieces as large as fit."""
        for buffer, _ in self.pointers:
            if buffer.device is not None:
                buffer.device.leave(buffer)
        begin, count = 0, self._fitting()
        report = bytearray(self.faults)
        while begin < self.extent:
            count = min(count, self.extent - begin)
            try:
                found = self._piece(begin, count)
            except MemoryLimitError:
                if count == 1:
                    raise
                self._leave()
                count = (count + 1) // 2
                continue
            report = bytearray(a | b for a, b in zip(report, found, strict=True))
            residency.hosted()
            begin += count
        self._leave()
        trace.counters["split_steps"] += 1
        trace.log(1, f"device memory is full: a step ran in pieces of {count} of {self.extent}")
        return bytes(report)

    def _reach(self, begin: int, count: int) -> list[tuple[int, int, int]]:
        """Of each buffer: all that its pointers touch in a piece, and the number of the first of them."""
        reach: dict[int, tuple[int, int, int]] = {}
        for number, (buffer, _) in enumerate(self.pointers):
            low, high = self.span(number, begin, count)
            first = reach.get(id(buffer), (low, high, number))
            reach[id(buffer)] = min(first[0], low), max(first[1], high), first[2]
        return list(reach.values())

    def _fitting(self) -> int:
        """How many indices of the axis a piece may have, by the memory that can be had; pieces are about equal."""
        room = supply.attainable(cuda.device())
        low, high = 1, self.extent - 1  # of what does not fit all at once
        while low < high:
            count = (low + high + 1) // 2
            if sum(-(-last // LINE) * LINE - first // LINE * LINE for first, last, _ in self._reach(0, count)) <= room:
                low = count
            else:
                high = count - 1
        pieces = -(-self.extent // low)
        return -(-self.extent // pieces)

    def _piece(self, begin: int, count: int) -> bytes:
        for low, high, number in self._reach(begin, count):
            residency.use(self.pointers[number][0], self.access[number], self.dense(number, count), low, high, True)
        row = [
            buffer.device.pointer + offset + begin * (step or 0)
            for (buffer, offset), step in zip(self.pointers, self.cut.steps, strict=True)
        ]
        words = list(self.words)
        words[self.cut.word] = count
        compiled = self.compiled
        if self.cut.compiled is not None:
            compiled = self.cut.compiled
            words.append(begin)
        report = bytearray(self.faults + 8)
        residency.run(compiled, row, words, report)
        for (buffer, _), access in zip(self.pointers, self.access, strict=True):
            residency.settle(buffer, access)
        return bytes(report[: self.faults])

    def _leave(self) -> None:
        """Give the windows back; what was written goes to the host."""
        for buffer, _ in self.pointers:
            if buffer.device is not None and buffer.device.pointer:
                buffer.device.leave(buffer)
