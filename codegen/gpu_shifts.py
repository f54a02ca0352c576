"""Loads that look at one array in several places, as those of a stencil do, told by one pointer: so some are the same.

in: a kernel and the argument row of a call; out: for each such load its distance from another, in steps of the axes.
"""

from __future__ import annotations

from .abi import Layout
from .kernel import ABSENT, UNIT, Kernel, Load
from .text import SIZES

Shift = tuple[int, int, tuple[int, ...]]  # load, the one it is told by, steps along the kernel's axes

FEW = 3  # loads that are worth it
REACH = 8  # steps along an axis, at most


class Alike:
    """The loads of a kernel that may be told by each other: those of one data type and kind of strides."""

    def __init__(self, kernel: Kernel, layout: Layout) -> None:
        groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for n, v in enumerate(kernel.values):
            if isinstance(v.arg, Load) and not v.src and kernel.operands[v.arg.operand].access == "r":
                groups.setdefault((v.dtype, v.arg.strides), []).append(n)
        loads = max(groups.values(), key=len, default=[])
        self.loads = loads if len(loads) >= FEW else []
        self.operands = [kernel.values[n].arg.operand for n in self.loads]  # type: ignore[union-attr]
        self.words = [layout.load_strides[n] for n in self.loads]
        if self.loads:
            value = kernel.values[loads[0]]
            assert isinstance(value.arg, Load)
            self.classes, self.size = value.arg.strides, SIZES[value.dtype]

    def distances(self, row: list[int]) -> tuple[int | None, ...]:
        """Bytes from the first load's pointer to the others', None where they are far: launches are chosen by them."""
        if not self.loads:
            return ()
        first = row[self.operands[0]]
        limit = REACH * max([_signed(row[w]) for w in self.words[0]] + [self.size], key=abs)
        limit = abs(limit)
        return tuple([d if -limit <= (d := row[o] - first) <= limit else None for o in self.operands])

    def shifts(self, row: list[int], extents: tuple[int, ...]) -> tuple[Shift, ...]:
        """The loads that the first one tells."""
        found: list[Shift] = []
        for n, words, distance in zip(self.loads[1:], self.words[1:], self.distances(row)[1:], strict=False):
            if distance is None or [row[w] for w in words] != [row[w] for w in self.words[0]]:
                continue
            steps = self._steps(row, extents, distance)
            if steps is not None:
                found.append((n, self.loads[0], steps))
        return tuple(found)

    def _steps(self, row: list[int], extents: tuple[int, ...], distance: int) -> tuple[int, ...] | None:
        """The distance in steps along the axes, the longest strides first; None if it is none."""
        words = iter(self.words[0])
        strides = {}
        for axis, c in enumerate(self.classes):
            if c != ABSENT:
                stride = self.size if c == UNIT else _signed(row[next(words)])
                if extents[axis] > 1 and stride:
                    strides[axis] = stride
        steps = [0] * len(self.classes)
        for axis in sorted(strides, key=lambda a: -abs(strides[a])):
            stride = strides[axis]
            steps[axis] = (distance + abs(stride) // 2) // abs(stride) * (1 if stride > 0 else -1)
            distance -= steps[axis] * stride
        return tuple(steps) if not distance and max(map(abs, steps)) <= REACH else None


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
