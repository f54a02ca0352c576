"""What the array API standard (2025.12) has and NumPy has not, added to NumPy's own functions and classes.

in: `_namespace.counterpart`, which looks a function up in `EXTENDED`; out: NumPy.  Everything that NumPy accepts means
what it means there.  Where NumPy and the standard contradict each other, NumPy is right here.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy

from .runtime import placement

VERSION = "2025.12"
_UNSET: Any = numpy._NoValue

EXTENDED: dict[Any, Callable[..., Any]] = {}  # NumPy's function -> the same with what the standard adds


def _extends(real: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as NumPy's `real` with more arguments; it takes NumPy's arrays."""

    def enter(own: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(own, real, updated=())
        del own.__wrapped__  # type: ignore[attr-defined]  # its signature is its own
        own.__annotations__ = {}
        EXTENDED[real] = own
        return own

    return enter


# --- sorting ----------------------------------------------------------------------------------------------------------


def _has(real: Any, name: str) -> bool:
    return name in inspect.signature(real).parameters


def _opposite(a: Any) -> Any:
    """An array whose ascending order is the descending one of `a`, what is no number still last; None without one."""
    kind = a.dtype.kind
    if kind in "iu":
        return ~a
    if kind in "fc":
        return -a
    if kind == "b":
        return numpy.logical_not(a)
    if kind in "mM":  # the smallest integer is no time, and its own opposite
        return (-a.view(a.dtype.str.replace(kind, "i").partition("[")[0])).view(a.dtype)
    return None


def _checked(a: Any, kind: Any, order: Any, stable: Any) -> Any:
    """`a` as an array that can be sorted in descending order."""
    a = numpy.asanyarray(a)
    if isinstance(a, numpy.ma.MaskedArray):
        raise ValueError("`descending` parameter is not supported for masked arrays.")
    if kind is not None:
        numpy.sort(a.ravel()[:0], kind=kind)
        raise ValueError("`kind` and keyword parameters can't be provided at the same time. Use only one of them.")
    if order is not None and a.dtype.names is None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if a.dtype.kind in "OV":
        raise TypeError("no current sort function meets the requirements")
    if a.dtype.kind == "T":
        raise RuntimeError("unsupported sort kind")
    if stable is not None:
        bool(stable)
    return a


def _backwards(a: Any, axis: int) -> Any:
    """The stable descending order of an array of text."""
    if a.ndim == 0:
        return numpy.argsort(a, axis)
    order = numpy.argsort(numpy.flip(a, axis), axis, kind="stable")
    return a.shape[axis] - 1 - numpy.flip(order, axis)


def _flat(a: Any, axis: Any, copy: bool = False) -> tuple[Any, Any]:
    if axis is None:
        return a.flatten(), -1
    return (a.copy(order="K") if copy else a), axis


_DESCENDING = _has(numpy.sort, "descending")  # NumPy 2.5
_argsort = numpy.argsort._implementation  # type: ignore[attr-defined]

if not _DESCENDING:

    @_extends(numpy.sort)
    def sort(
        a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = _UNSET
    ) -> Any:
        """Sorted copy, also in descending order."""
        if descending is _UNSET or not descending:
            a, axis = _flat(numpy.asanyarray(a), axis, copy=True)
            a.sort(axis=axis, kind=kind, order=order, stable=stable)
            return a
        a, axis = _flat(_checked(a, kind, order, stable), axis)
        turned = _opposite(a)
        if turned is None:
            return numpy.take_along_axis(a, _backwards(a, axis), axis)
        turned.sort(axis=axis, kind="stable")
        return _opposite(turned).astype(a.dtype, copy=False)  # in its byte order


@_extends(numpy.argsort)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = _UNSET
) -> Any:
    """The indices that sort an array, stable unless told otherwise, also in descending order."""
    if kind is None and stable is None and type(a) in (numpy.ndarray, list, tuple):
        a = numpy.asarray(a)
        stable = True
        if descending is _UNSET or not descending:
            return _stable(a, axis, order)
    if descending is _UNSET:
        return _argsort(a, axis, kind, order, stable=stable)
    if _DESCENDING:
        return _argsort(a, axis, kind, order, stable=stable, descending=descending)
    if not descending:
        return _argsort(a, axis, kind, order, stable=stable)
    a, axis = _flat(_checked(a, kind, order, stable), axis)
    turned = _opposite(a)
    return _argsort(turned, axis, "stable") if turned is not None else _backwards(a, axis)


_FEW = 10_000  # elements of which the stable sort is the fastest


def _stable(a: Any, axis: Any, order: Any) -> Any:
    """The stable order, by way of NumPy's fastest sort where there is much to do."""
    if a.dtype.kind not in "biufc":  # comparisons of Python objects are in NumPy's order
        return _argsort(a, axis, None, order)
    if a.size < _FEW or a.dtype.char not in "ilqILQfd" or a.ndim != 1 or not a.dtype.isnative:
        return _argsort(a, axis, "stable", order)
    found = _argsort(a, axis, None, order)
    values = a[found]
    tied = values[1:] == values[:-1]
    if a.dtype.kind == "f":
        tied[numpy.searchsorted(values, numpy.nan) :] = True  # what is no number is last
    if tied.any():
        # equal elements stand together: their indices are sorted within each run, all of them at once
        either = numpy.zeros(a.size, bool)
        either[1:] = tied
        either[:-1] |= tied
        where = numpy.flatnonzero(either)
        starts = numpy.ones(a.size, bool)
        numpy.logical_not(tied, out=starts[1:])
        run = numpy.cumsum(starts[where]) * a.size
        keys = run + found[where]
        keys.sort()
        found[where] = keys - run
    return found


# --- bounds -----------------------------------------------------------------------------------------------------------

_clip = numpy.clip._implementation  # type: ignore[attr-defined]


@_extends(numpy.clip)
def clip(
    a: Any, a_min: Any = _UNSET, a_max: Any = _UNSET, out: Any = None, *,
    min: Any = _UNSET, max: Any = _UNSET, **kwargs: Any,
) -> Any:  # fmt: skip
    """Limit the values; `min` may be given by position and `max` by name."""
    if type(a) is numpy.ndarray and a_min is not _UNSET is not a_max and min is _UNSET is max:
        return a.clip(a_min, a_max, out=out, **kwargs)
    if a_max is _UNSET and a_min is not _UNSET and min is _UNSET and max is not _UNSET:
        return _clip(a, a_min, max, out, **kwargs)
    return _clip(a, a_min, a_max, out, min=min, max=max, **kwargs)


_P = inspect.Parameter
# The second and third argument have the standard's names; NumPy's are understood as well.
clip.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *(_P(n, _P.POSITIONAL_OR_KEYWORD, default=d) for n, d in (("a", _P.empty), ("min", _UNSET), ("max", _UNSET))),
        _P("out", _P.POSITIONAL_OR_KEYWORD, default=None),
        *(_P(n, _P.KEYWORD_ONLY, default=_UNSET) for n in ("a_min", "a_max")),
        _P("kwargs", _P.VAR_KEYWORD),
    ]
)


# --- limits of floats -------------------------------------------------------------------------------------------------


class _Single(numpy.float32):
    """A float32 that `isinstance` takes for Python's float too, as the standard says of `finfo`'s attributes."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return _Named


_Named = type("float32", (float,), {"__module__": "numpy"})
_Single.__name__ = _Single.__qualname__ = "float32"
_Single.__module__ = "numpy"
_FLOATS = ("eps", "epsneg", "max", "min", "resolution", "smallest_normal", "smallest_subnormal", "tiny")


class finfo(numpy.finfo[Any]):
    """Limits of a floating-point type; see `numpy.finfo`."""

    _made: ClassVar[dict[Any, Any]] = {}  # by NumPy's object, and by what was asked for where that is a type or a name

    def __new__(cls, dtype: Any) -> Any:
        """The one object for a type, as in NumPy."""
        plain = type(dtype) in (str, type) or isinstance(dtype, numpy.dtype)
        found = cls._made.get(dtype) if plain else None
        if found is None:
            real = numpy.finfo(dtype)
            found = cls._made.get(real)
            if found is None:
                found = cls._made[real] = object.__new__(cls)
                found.__dict__.update({k: v for k, v in vars(real).items() if k not in _FLOATS})
                for name in _FLOATS:
                    value = getattr(real, name)
                    found.__dict__["_" + name] = _Single(value) if type(value) is numpy.float32 else value
            if plain:
                cls._made[dtype] = found
        return found

    def __reduce__(self) -> Any:
        """Made anew from the data type."""
        return type(self), (self.dtype,)


for _name in _FLOATS:
    setattr(finfo, _name, property(operator.attrgetter("_" + _name)))
finfo.__doc__ = numpy.finfo.__doc__
finfo.__module__ = __package__ or "offarray"


# --- the namespace ----------------------------------------------------------------------------------------------------


class Devices(tuple[Any, ...]):
    """The devices: a tuple, as the standard says, and equal to the list of them, which NumPy gave before 2.5."""

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class __array_namespace_info__(numpy.__array_namespace_info__):  # type: ignore[misc,name-defined]
    """What the library can do, in the words of the standard; see `numpy.__array_namespace_info__`."""

    def devices(self) -> Devices:  # type: ignore[override]
        """The devices that arrays can be made on."""
        from .runtime import cuda  # the driver is asked for when somebody wants to know

        return Devices((*super().devices(), *(f"cuda:{n}" for n in range(cuda.available()))))

    def default_device(self) -> str:  # type: ignore[override]
        """The device that new arrays are on."""
        name = placement.where()
        return "cpu" if not name.startswith("cuda") else "cuda:0" if name == "cuda" else name

    def default_dtypes(self, *, device: Any = None) -> Any:
        """The data types that arrays get where none is named, the same on every device."""
        return super().default_dtypes(device=self._known(device))

    def dtypes(self, *, device: Any = None, kind: Any = None) -> Any:
        """The data types, the same on every device."""
        return super().dtypes(device=self._known(device), kind=kind)

    def _known(self, device: Any) -> Any:
        """The name that NumPy knows for any device that there is; it refuses others."""
        return "cpu" if type(device) is str and (device == "cuda" or device in self.devices()) else device


__array_namespace_info__.__module__ = __package__ or "offarray"


_SAMPLE = numpy.empty(0)


def checked_version(api_version: Any) -> None:
    """Refuse a version of the standard as NumPy's arrays do."""
    if type(api_version) is not str or api_version != VERSION:
        _SAMPLE.__array_namespace__(api_version=api_version)
