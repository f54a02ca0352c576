"""`whos`: the arrays that are alive, where they are, and the lines that made them.

in: the collector's list of objects; out: text. Nothing is noted for it while programs run.
"""

from __future__ import annotations

import gc
from typing import Any

from ._array import HOST, ndarray
from ._expect import where
from .fusion.node import READY
from .runtime.tuples import NamedTuple

_SHOWN = 20


class Alive(NamedTuple):
    """Memory that arrays look at, or will when it is computed."""

    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    place: str  # "cpu", "cuda:N", "cpu cuda:N" or "pending"
    line: str  # "file:number" that recorded it; "" where it was made at once
    views: int  # how many arrays look at it

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        more = f", {self.views} arrays" if self.views > 1 else ""
        return f"{shape} {self.dtype}, {self.nbytes} bytes, {self.place}{more}{f', {self.line}' if self.line else ''}"


class Arrays(list[Alive]):
    """The arrays alive, largest first; `str` gives a table."""

    def __str__(self) -> str:
        lines = [f"{len(self)} arrays, {sum(a.nbytes for a in self)} bytes", *map(str, self[:_SHOWN])]
        return "\n".join(lines + ([f"... and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []))

    __repr__ = __str__


def whos() -> Arrays:
    """The arrays that are alive: shape, data type, bytes, where they are, and the line that made them.

    Returns
    -------
    list of Alive
        Largest first; arrays that look at one memory are one entry.  Printed as a table.
    """
    found: dict[int, tuple[Any, int]] = {}
    for x in gc.get_objects():
        if type(x) is ndarray:
            owner = x if type(x._owner) is not ndarray else x._owner
            key = id(owner) if owner._at is HOST else id(owner._base)
            first, count = found.get(key, (owner, 0))
            found[key] = first, count + 1
    return Arrays(sorted((_told(x, n) for x, n in found.values()), key=lambda a: -a.nbytes))


def _told(x: Any, count: int) -> Alive:
    if x._at is HOST:
        a = x._np
        return Alive(a.shape, a.dtype, a.nbytes, "cpu", "", count)
    node = x._base.node
    place = "pending" if node.state != READY else "cpu"
    copy = node.buffer.device if node.buffer is not None else None
    if copy is not None and (copy.valid or not copy.host):
        place = f"cuda:{copy.device.number}" if not copy.host else f"cpu cuda:{copy.device.number}"
    nbytes = node.buffer.nbytes if node.buffer is not None else node.nbytes
    return Alive(x._shape, x._dtype, nbytes, place, where(node.site) if node.site is not None else "", count)


def largest(number: int = 5) -> str:
    """The largest arrays, for the message of an error."""
    lines = whos()[:number]
    return "the largest arrays: " + "; ".join(map(str, lines)) if lines else ""
