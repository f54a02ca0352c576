"""What `np.broadcast` of arrays is.

in: _namespace.py; out: NumPy's object on the arrays' memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy

from ._array import RealArray, plain, wrap
from ._convert import Handles, convert


class BroadcastType(type):
    """Metaclass of `broadcast`: NumPy's own are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is cls or isinstance(instance, numpy.broadcast)

    @property
    def __signature__(cls) -> inspect.Signature:
        try:
            return inspect.signature(numpy.broadcast)  # takes long: only where somebody asks
        except ValueError as error:  # older releases tell nothing
            raise AttributeError("__signature__") from error


class Part:
    """An iterator over one operand, as if it had been stretched; see `numpy.broadcast.iters`."""

    def __init__(self, real: Any, base: Any) -> None:
        self._real = real
        self.base = base

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class broadcast(metaclass=BroadcastType):
    """Arrays stretched to one shape; see `numpy.broadcast`."""

    def __init__(self, *arrays: Any, **kwargs: Any) -> None:
        given: list[Any] = []
        for v in arrays:
            if type(v) is broadcast:
                given.extend(v._arrays)
            elif isinstance(v, numpy.broadcast):
                given.extend(part.base for part in v.iters)
            else:
                given.append(v)
        seen = Handles()
        self._real = numpy.broadcast(*[convert(v, seen, plain) for v in given], **kwargs)
        parts = self._real.iters
        self._arrays: list[Any] = [
            v if isinstance(v, RealArray) else _owned(p) for v, p in zip(given, parts, strict=True)
        ]
        self.iters = tuple(map(Part, parts, self._arrays))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._real)

    def reset(self, /) -> None:
        """Start again."""
        self._real.reset()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._real, name)


def _owned(part: Any) -> Any:
    """The array that NumPy made of an operand."""
    made = part.base
    return wrap(made)


broadcast.__doc__ = numpy.broadcast.__doc__
