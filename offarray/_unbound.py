"""Methods that are called through the class, as `np.ndarray.sum(x)`, where `x` may be an instance of a subclass.

in: the handle's class, complete; out: NumPy's method for its own arrays and their subclasses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._array import EITHER, RealArray, ndarray, plain, plainly, real_types
from ._dispatch import step
from ._handle import Handle

_ATTRIBUTE = type(RealArray.ndim)
_METHODS = (type(RealArray.sum), type(RealArray.__add__))  # NumPy's methods in C, and its slots


def install(cls: Any) -> None:
    """Let every method that the class shares with NumPy's take the arrays of both."""
    for name, method in ({**vars(Handle), **vars(cls)}).items():
        real = getattr(RealArray, name, None)
        if type(method) is property and method.fset is None and type(real) is _ATTRIBUTE:
            setattr(cls, name, method.setter(_fixed(name)))
        if isinstance(real, _METHODS) and callable(method):
            EITHER[name] = _either(name, method, real)


def _fixed(name: str) -> Callable[..., None]:
    """The setter of an attribute that is not to be set."""

    def refuse(self: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'numpy.ndarray' objects is not writable")

    return refuse


def _either(name: str, method: Callable[..., Any], real: Any) -> Callable[..., Any]:
    special = _SPECIAL.get(name)

    @functools.wraps(real)  # whose signature is the method's
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args or type(args[0]) is ndarray or not isinstance(args[0], RealArray):
            return method(*args, **kwargs)
        if special is not None:
            return special(*args, **kwargs)
        return step(name, real, args, kwargs, plain)

    return call


def _array_ufunc(self: Any, ufunc: Any, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    return plainly(functools.partial(RealArray.__array_ufunc__, self), ufunc, method, inputs, kwargs)


def _array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return RealArray.__array_function__(self, func, real_types(types), args, kwargs)


_SPECIAL: dict[str, Callable[..., Any]] = {"__array_ufunc__": _array_ufunc, "__array_function__": _array_function}
