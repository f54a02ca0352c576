"""Random numbers: NumPy's generators and streams, with results as handles; see `numpy.random`."""

from __future__ import annotations

from typing import Any

import numpy.random as _real
from numpy.random._pickle import __generator_ctor as _named_generator
from numpy.random._pickle import __randomstate_ctor as _named_state

from . import _library, _namespace
from ._dispatch import Handles, before_write, convert, dressed, step
from .runtime.config import settings

__path__: list[str] = []  # a package for its mirrored modules


# Methods of generators that write an operand: its position.
_WRITTEN = {
    "shuffle": 0, "permuted": 2, "random": 2, "standard_normal": 2, "standard_exponential": 3, "standard_gamma": 3
}  # fmt: skip


_SINGLE = frozenset((float, bool, str, type, type(None)))  # of arguments that are no size


def _many(values: Any) -> bool:
    """Whether some argument may ask for more numbers than small work."""
    for v in values:
        if (v > settings.eager_size) if type(v) is int else (type(v) not in _SINGLE):
            return True
    return False


def _drawing(real: Any, name: str, inner: bool = False) -> Any:
    drawn = name in _library.SHARED or name in _library.DRAWN or name in _library.FAST  # not NumPy alone makes these

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if drawn and type(self) is Generator and (_many(args) or (kwargs and _many(kwargs.values()))):
            made = _library.draw(name, self, args, kwargs)
            if made is not NotImplemented:
                return made
        place = _WRITTEN.get(name)
        if place is not None and len(args) > place:
            before_write(args[place])
        if inner:
            self = self.__dict__.get("_plain") or _plain(self)
        return step("random." + name, real, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = real.__doc__
    return method


def _plain(rng: Any) -> Any:
    """NumPy's own generator on the same bit generator: its methods call each other and want arrays of NumPy's then."""
    if isinstance(rng, RandomState):
        made: Any = _real.RandomState(rng._bit_generator)
    else:
        made = _real.Generator(rng.bit_generator)
    rng.__dict__["_plain"] = made
    return made


def _methods(cls: type) -> dict[str, Any]:
    found = {}
    for name in dir(cls):
        real = getattr(cls, name)
        if not name.startswith("_") and callable(real) and name != "spawn":
            found[name] = _drawing(real, name, True)
    return found


class Standing(type):
    """Metaclass of what stands for a class of NumPy's: instances of that are instances too."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new instance; seeds may be handles."""
        seen = Handles()
        given = {key: convert(value, seen) for key, value in kwargs.items()}
        return super().__call__(*(convert(value, seen) for value in args), **given)

    def __instancecheck__(cls, instance: Any) -> bool:
        real = vars(cls).get("_real")
        return type.__instancecheck__(cls if real is None else real, instance)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        real = vars(cls).get("_real")
        return type.__subclasscheck__(cls if real is None else real, subclass)


class Generator(_real.Generator, metaclass=Standing):
    """Draws numbers from a bit generator; see `numpy.random.Generator`."""

    _real = _real.Generator

    def __reduce__(self) -> Any:
        return _generator, (self.bit_generator,), None


def _generator(*args: Any) -> Generator:
    """Rebuild a pickled generator; older pickles name their bit generator."""
    return Generator(_named_generator(*args).bit_generator)


class RandomState(_real.RandomState, metaclass=Standing):
    """The legacy generator; see `numpy.random.RandomState`."""

    _real = _real.RandomState

    def __reduce__(self) -> Any:
        return _random_state, (self._bit_generator,), self.get_state(legacy=False)

    def __setstate__(self, state: Any) -> None:
        self.set_state(state)


def _random_state(*args: Any) -> RandomState:
    """Rebuild a pickled generator; older pickles name their bit generator."""
    return RandomState(_named_state(*args)._bit_generator)


for _name, _method in _methods(_real.Generator).items():
    setattr(Generator, _name, _method)
for _name, _method in _methods(_real.RandomState).items():
    setattr(RandomState, _name, _method)


def _standing(real: Any) -> Any:
    """What stands for a bit generator or SeedSequence."""
    made = {name: _drawing(getattr(real, name), name) for name in ("random_raw",) if hasattr(real, name)}
    return Standing(real.__name__, (real,), {"__doc__": real.__doc__, "__module__": __name__, "_real": real, **made})


for _name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence"):
    globals()[_name] = _standing(getattr(_real, _name))


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
