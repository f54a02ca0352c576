"""Random numbers: NumPy's generators and streams, with results as handles; see `numpy.random`."""

from __future__ import annotations

from typing import Any

import numpy.random as _real

from . import _library, _namespace
from ._dispatch import before_write, dressed, step
from .runtime.config import settings

__path__: list[str] = []  # a package for its mirrored modules


def _drawing(real: Any, name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if settings.device != "cpu" and type(self) is Generator:
            made = _library.draw(name, self, args, kwargs)
            if made is not NotImplemented:
                return made
        if name == "shuffle" and args:
            before_write(args[0])
        return step("random." + name, real, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = real.__doc__
    return method


def _methods(cls: type) -> dict[str, Any]:
    found = {}
    for name in dir(cls):
        real = getattr(cls, name)
        if not name.startswith("_") and callable(real) and name not in ("spawn", "get_state", "set_state", "seed"):
            found[name] = _drawing(real, name)
    return found


class Generator(_real.Generator):
    """Draws numbers from a bit generator; see `numpy.random.Generator`."""

    def __reduce__(self) -> Any:
        return Generator, (self.bit_generator,)


class RandomState(_real.RandomState):
    """The legacy generator; see `numpy.random.RandomState`."""

    def __reduce__(self) -> Any:
        return _restore, (self.get_state(legacy=False),)


def _restore(state: Any) -> RandomState:
    rng = RandomState()
    rng.set_state(state)
    return rng


for _name, _method in _methods(_real.Generator).items():
    setattr(Generator, _name, _method)
for _name, _method in _methods(_real.RandomState).items():
    setattr(RandomState, _name, _method)


def default_rng(seed: Any = None) -> Any:
    """A new Generator; see `numpy.random.default_rng`."""
    if isinstance(seed, Generator):
        return seed
    rng = step("random.default_rng", _real.default_rng, (seed,), {})
    return Generator(rng.bit_generator) if type(rng) is _real.Generator else rng


def _legacy(real: Any) -> Any:
    name = real.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "shuffle" and args:
            before_write(args[0])
        return step("random." + name, real, args, kwargs)

    made = dressed(call, real)
    made.__module__, made.__qualname__ = __name__, name
    return made


for _name in dir(_real):
    _value = getattr(_real, _name)
    if not _name.startswith("_") and type(getattr(_value, "__self__", None)) is _real.RandomState:
        globals()[_name] = _legacy(_value)

_namespace.fill(globals(), _real, __name__)
