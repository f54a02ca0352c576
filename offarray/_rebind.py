"""Compositions: NumPy's own Python functions run over offarray's arrays.

in: `_dispatch.public` for the functions named in `_functions.COMPOSED`; out: the same code objects with globals in
which every object of NumPy's that has a counterpart here is replaced.  Functions of the same modules that they call are
rebound too, when their module is first needed.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from ._site import _HERE, _NUMPY

# Filled by `connect`: the tables of the surface, which stand above this module.
COUNTERPART: dict[Any, Any] = {}
_doors: dict[str, Any] = {}
_REPLACED: dict[Any, Any] = {}  # private parts of NumPy that only know its own arrays

_globals: dict[str, dict[str, Any]] = {}
_functions: dict[int, Any] = {}
_modules: dict[str, Any] = {}


def connect(counterpart: dict[Any, Any], **doors: Any) -> None:
    """Learn the counterparts and `restore`, `public` and `implementation` of the surface."""
    global COUNTERPART
    COUNTERPART = counterpart
    _doors.update(doors)


class Mirror:
    """A module of NumPy's as rebound code sees it."""

    def __init__(self, real: types.ModuleType) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = bound(getattr(self._real, name))
        return value


class Converter:
    """What NumPy's functions use to take array-likes and give back the same kind."""

    def __init__(self, *operands: Any) -> None:
        self._given = operands
        take = COUNTERPART[numpy.asanyarray]
        self._arrays = tuple(take(v) for v in operands)
        pairs = zip(operands, self._arrays, strict=True)
        self.scalar_input = tuple(not hasattr(v, "__array__") and a.ndim == 0 for v, a in pairs)

    def __getitem__(self, index: int) -> Any:
        return self._arrays[index]

    def __len__(self) -> int:
        return len(self._arrays)

    def as_arrays(self, subok: bool = True, pyscalars: str = "convert_if_no_array") -> tuple[Any, ...]:
        """The operands as arrays, Python's scalars left alone where asked for."""
        keep = pyscalars == "preserve" or (pyscalars == "convert_if_no_array" and not all(self.scalar_input))
        plain = (bool, int, float, complex)
        return tuple(v if keep and type(v) in plain else a for v, a in zip(self._given, self._arrays, strict=True))

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> Any:
        """The common data type."""
        kinds = [
            v if type(v) in (int, float, complex) else a.dtype for v, a in zip(self._given, self._arrays, strict=True)
        ]
        if extra_dtype is not None:
            kinds.append(extra_dtype)
        found = numpy.result_type(*kinds)
        return numpy.result_type(found, 0.0) if ensure_inexact and found.kind in "biu" else found

    def wrap(self, made: Any, /, to_scalar: Any = None) -> Any:
        """A result; a scalar if every operand was one."""
        scalar = all(self.scalar_input) if to_scalar is None else to_scalar
        return made[()] if scalar and made.ndim == 0 else made


class _Warnings:
    """The module `warnings`, with warnings attributed to the user's line."""

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)

    def warn(self, message: Any, category: Any = UserWarning, stacklevel: int = 1, **kwargs: Any) -> None:
        """`warnings.warn` for the innermost frame that is neither offarray's nor NumPy's."""
        level = 2
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith((_HERE, _NUMPY)):
            level += 1
            frame = frame.f_back  # type: ignore[assignment]
        warnings.warn(message, category, stacklevel=level if frame is not None else stacklevel + 1, **kwargs)


WARNINGS = _Warnings()
_REPLACED[numpy._core._multiarray_umath._array_converter] = Converter  # type: ignore[attr-defined]


def bound(value: Any) -> Any:
    """What rebound code sees in place of NumPy's object `value`."""
    if isinstance(value, types.ModuleType):
        return module(value)
    if isinstance(value, numpy.ufunc):
        return _doors["restore"](value)
    try:
        known = COUNTERPART.get(value) or _REPLACED.get(value)
    except TypeError:
        return value
    if known is not None:
        return known
    if type(value) is _DISPATCHED:
        return _dispatched(value)
    if isinstance(value, types.FunctionType) and _rebindable(value):
        return function(value)
    return value


_DISPATCHED = type(numpy.sum)


def _dispatched(value: Any) -> Any:
    """A public function whose module has no mirror yet."""
    importlib.import_module(_PACKAGE + value.__module__.removeprefix("numpy"))
    known = COUNTERPART.get(value)
    if known is not None:
        return known
    impl = _doors["implementation"](value)
    return function(impl) if isinstance(impl, types.FunctionType) else _doors["public"](value)


_PACKAGE = __package__ or "offarray"


def module(real: types.ModuleType) -> Any:
    """A module as rebound code sees it."""
    name = real.__name__
    if name == "warnings":
        return WARNINGS
    if name != "numpy" and not name.startswith("numpy."):
        return real
    found = _modules.get(name)
    if found is None:
        found = _modules[name] = Mirror(real)
    return found


def _rebindable(value: Any) -> bool:
    """Whether a function is NumPy's own Python code on arrays."""
    name = value.__module__ or ""
    if not name.startswith(("numpy.lib.", "numpy._core.", "numpy.linalg.", "numpy.fft.", "numpy.polynomial.")):
        return False
    return not name.endswith(("arrayprint", "_dtype", "overrides", "_ufunc_config", "_type_aliases", "_utils"))


def function(real: Callable[..., Any]) -> Any:
    """The Python function `real` over offarray's names."""
    found = _functions.get(id(real))
    if found is None:
        assert isinstance(real, types.FunctionType)
        found = types.FunctionType(
            real.__code__, namespace(real), real.__name__, real.__defaults__, _cells(real.__closure__)
        )
        found.__kwdefaults__ = real.__kwdefaults__
        found.__doc__ = real.__doc__
        found.__module__ = real.__module__
        _functions[id(real)] = found
    return found


def _cells(closure: Any) -> Any:
    return tuple(types.CellType(bound(cell.cell_contents)) for cell in closure) if closure else None


_told: dict[str, dict[str, Any]] = {}


def told(real: Any) -> Any:
    """NumPy's function itself, but its own warnings name the user's line and not this package's."""
    if not isinstance(real, types.FunctionType) or "warnings" not in real.__code__.co_names:
        return real
    name = real.__globals__["__name__"]
    if name not in _told:
        _told[name] = {**real.__globals__, "warnings": WARNINGS}
    found = types.FunctionType(real.__code__, _told[name], real.__name__, real.__defaults__, real.__closure__)
    found.__kwdefaults__ = real.__kwdefaults__
    return found


def namespace(real: Any) -> dict[str, Any]:
    """The globals of NumPy's module that defines `real`, bound to offarray's objects."""
    own = real.__globals__
    name = own["__name__"]
    found = _globals.get(name)
    if found is None:
        found = _globals[name] = {}  # entered first: functions of one module refer to each other
        for key, value in own.items():
            found[key] = value if key.startswith("__") else bound(value)
    return found
