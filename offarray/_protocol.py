"""What operands of other libraries say: NumPy's protocols for functions, and `__array__` that gives a handle.

in: `_dispatch.py` and `_indexing.py`; out: the operands' own methods.
"""

from __future__ import annotations

from typing import Any

import numpy

from ._array import ndarray, plain

RealArray = numpy.ndarray
PACKAGE = __package__ or "offarray"


class Shown:
    """An operand whose `__array__` gives a handle, as NumPy can take it."""

    def __init__(self, operand: Any) -> None:
        self._operand = operand
        self._given: Any = None  # the last handle, and the array that NumPy got for it

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._operand.__array__(*args, **kwargs)
        self._given = made, plain(made)
        return self._given[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operand, name)


def _converts(t: type) -> bool:
    return hasattr(t, "__array__") and not issubclass(t, RealArray | numpy.generic)


def converts(value: Any) -> bool:
    """Whether NumPy makes an array of a value by `__array__`, which may give a handle and is called once."""
    if type(value) in (list, tuple):
        return any(map(_converts, set(map(type, value))))
    if not _converts(type(value)):
        return False
    try:
        memoryview(value)  # which NumPy asks for first
    except Exception:
        return True
    return False


def shown(value: Any) -> Any:
    """An operand as NumPy can take it, where its `__array__` may give a handle."""
    if type(value) in (list, tuple):
        return type(value)(map(shown, value))
    if _converts(type(value)):
        return Shown(value)
    return value


def unshow(value: Any) -> None:
    """Put the operands themselves where NumPy has stored what showed them."""
    if type(value) is RealArray and value.dtype.char == "O":
        for index in numpy.ndindex(value.shape):
            item: Any = value[index]
            if type(item) is Shown:
                value[index] = item._operand


NOBODY = object()


def _relevant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Operands with `__array_function__`, one of each type, subclasses before their bases, in order."""
    found: list[Any] = []
    types_seen: list[type] = []
    queue = [*args, *kwargs.values()]
    flat: list[Any] = []
    for v in queue:
        flat.extend(v if isinstance(v, (list, tuple)) else (v,))
    for v in flat:
        t = type(v)
        if t in types_seen or getattr(t, "__array_function__", None) is None or isinstance(v, type):
            continue
        at = len(found)
        for i, other in enumerate(types_seen):
            if issubclass(t, other) and t is not other and other is not ndarray:
                at = i
                break
        types_seen.insert(at, t)
        found.insert(at, v)
    return found


def function_protocol(me: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Offer the call to the operands' `__array_function__` (NEP 18)."""
    operands = _relevant(args, kwargs)
    kinds = tuple(type(v) for v in operands)
    for v in operands:
        if type(v) is ndarray or type(v).__array_function__ is RealArray.__array_function__:
            if all(t is ndarray or issubclass(t, RealArray) for t in kinds):
                return NOBODY
            continue
        answer = v.__array_function__(me, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    if not operands:
        return NOBODY
    name = f"numpy{me.__module__.removeprefix(PACKAGE)}.{me.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __array_function__: "
        f"{list(kinds)}"
    )  # fmt: skip
