"""Functions that stay functions: NumPy's compiled ones do not become methods when they are attributes of a class.

in: `_dispatch.public` and `maker`; out: a bound method, which Python binds no second time and calls as fast.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any


class Home:
    """Where such a function is found again by its name, as pickle does; the `__self__` of the bound method."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(sys.modules[self._module], name)

    def __reduce__(self) -> Any:
        return Home, (self._module,)

    def __deepcopy__(self, memo: Any) -> Home:
        return self

    def __repr__(self) -> str:
        return self._module


class Signature(inspect.Signature):
    """What `inspect` sees of the function beneath: NumPy's parameters after the one that is bound, read when needed."""

    __slots__ = ("_real",)

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The first is `self`."""
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        return types.MappingProxyType({"self": first, **inspect.signature(self._real).parameters})

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """NumPy's own signature: only the binding of the method asks."""
        return inspect.signature(self._real)


def static(call: Callable[..., Any], real: Callable[..., Any]) -> Any:
    """`call`, whose first argument is not used, as the function that stands for NumPy's compiled `real`."""
    call.__signature__ = Signature(real)  # type: ignore[attr-defined]
    return types.MethodType(call, Home(call.__module__))
