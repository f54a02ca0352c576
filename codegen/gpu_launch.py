"""Launches that cost little more than the driver's own call: parameters laid out once, the call made by machine code.

in: an entry with its grid; out: a callable that takes the words of the parameters.  Where no builtin can be made, and
for devices that are not the driver's, the device's own method launches.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

from . import builtin, host


@cache
def _library() -> int:
    """Address of the driver's function."""
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    return ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value or 0


@cache
def _caller() -> Callable[[int, int, int], int]:
    """The builtin that launches what a row describes."""
    methods = host.methods()
    return builtin.through(3, methods[builtin.NAMES[3]], methods[builtin.LAUNCH])


def _launcher(device: Any) -> int:
    """Address of the function that launches: the driver's, but for devices that have one of their own."""
    return getattr(device, "launcher", 0) or _library()


class Start:
    """One entry with its grid.

    Attributes
    ----------
    row : array
        Addresses of the driver's function and of the entry, grid (2), block, stream, address of the parameters' places.
    """

    __slots__ = ("device", "usual", "words", "places", "row", "address", "call")

    def __init__(self, device: Any, function: Any, grid: tuple[int, int], block: int, count: int) -> None:
        self.device, self.usual = device, (function, grid, block)
        self.words = array("Q", bytes(8 * count))
        first = self.words.buffer_info()[0]
        self.places = array("Q", range(first, first + 8 * count, 8))
        self.row = array(
            "Q", [_launcher(device), int(function), *grid, block, int(device.stream), self.places.buffer_info()[0]]
        )  # fmt: skip
        self.address = self.row.buffer_info()[0]
        self.call = _caller()

    def __call__(self, words: list[int]) -> None:
        """Launch; callers hold a lock, as the parameters have one place."""
        self.words[:] = array("Q", words)
        self.device._here()
        if self.call(self.address, 0, 0):
            self.device.launch(*self.usual, words)  # says what is wrong
        else:
            self.device.launches += 1


def starter(
    device: Any, function: Any, grid: tuple[int, int], block: int, count: int
) -> Callable[[list[int]], None]:  # fmt: skip
    """What launches an entry on a grid with so many parameters of 8 bytes."""
    if not builtin.usable() or not hasattr(device, "stream"):
        return lambda words: device.launch(function, grid, block, words)
    return Start(device, function, grid, block, count)
