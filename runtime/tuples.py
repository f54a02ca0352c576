"""`NamedTuple` as `typing` has it, made in a tenth of the time.

`typing` compiles every annotation, although they are text that nobody evaluates, and `collections` compiles a
constructor for every class; with fifty classes that is a tenth of what importing the package takes.  Here classes of
as many fields share a constructor's code, in which only the names of the arguments differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter
    from functools import cache
    from operator import itemgetter
    from types import FunctionType

    @cache
    def _constructor(count: int) -> Any:
        names = "".join(f"a{n}, " for n in range(count))
        return eval(f"lambda cls, {names}: new(cls, ({names}))", {}).__code__

    @cache
    def _getter(position: int) -> Any:
        return _tuplegetter(position, None) if _tuplegetter else property(itemgetter(position))

    def _make(cls: Any, fields: Any) -> Any:
        made = tuple.__new__(cls, fields)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **given: Any) -> Any:
        made = self._make(map(given.pop, self._fields, self))
        if given:
            raise TypeError(f"Got unexpected field names: {list(given)!r}")
        return made

    def _shown(self: Any) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({parts})"

    _SHARED = {
        "__slots__": (),
        "_make": classmethod(_make),
        "_replace": _replace,
        "__replace__": _replace,
        "__repr__": _shown,
        "_asdict": lambda self: dict(zip(self._fields, self, strict=True)),
        "__getnewargs__": lambda self: tuple(self),
    }

    class _Maker(type):
        """Makes tuple classes of the classes that derive from `NamedTuple`."""

        def __new__(maker, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(maker, name, bases, space)
            annotations = space.get("__annotations__", {})
            fields = tuple(annotations)
            known = {field: space[field] for field in fields if field in space}
            code = _constructor(len(fields)).replace(co_varnames=("cls", *fields))
            new = FunctionType(code, {"new": tuple.__new__, "__builtins__": {}}, "__new__", tuple(known.values()))
            new.__qualname__, new.__annotations__ = f"{name}.__new__", annotations
            rest = {key: value for key, value in space.items() if key not in known}
            about = {"_fields": fields, "_field_defaults": known, "__match_args__": fields, "__new__": new}
            return type(
                name,
                (tuple,),
                {**_SHARED, **about, **dict(zip(fields, map(_getter, range(len(fields))), strict=True)), **rest},
            )

    class NamedTuple(metaclass=_Maker):
        """Base of classes whose annotated fields are a tuple's elements."""


__all__ = ["NamedTuple"]
