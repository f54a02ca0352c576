"""Words of a device's memory through which the blocks of a launch talk to each other.

in: a launch asks for so many; out: an address, and a number that no earlier launch had.
"""

from __future__ import annotations

from typing import Any

LEAST = 1 << 16  # words that are there from the first launch on


class Signals:
    """The words of one device: zero where no launch has written."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.pointer = self.words = self.epoch = 0

    def take(self, words: int) -> tuple[int, int]:
        """(address of at least so many words, number of this launch)."""
        if words > self.words:
            count = max(words, LEAST)
            former, self.pointer = self.pointer, self.device.allocate(4 * count)
            self.words = 0  # until they are clear
            if former:
                self.device.free(former)
            self.device.clear(self.pointer, 4 * count)
            self.words = count
        self.epoch += 1
        return self.pointer, self.epoch


def of(device: Any) -> Signals:
    """The signals of a device; they live as long as it does."""
    found: Signals | None = device.__dict__.get("_signals_of_launches")
    if found is None:
        found = device.__dict__["_signals_of_launches"] = Signals(device)
    return found
