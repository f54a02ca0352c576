"""The names of NumPy's modules, each with offarray's object where there is one.

in: offarray/__init__.py and every `import offarray.<module>`; out: `_dispatch.public`, `_ufuncs.restore`.

A public NumPy module that has no file here is mirrored: `Finder` makes `offarray.x` from `numpy.x` when it is imported.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

import numpy

from . import _rebind, _standard
from ._array import Subclassable, host, ndarray, plain
from ._broadcast import broadcast
from ._dispatch import COUNTERPART, Handles, convert, dressed, maker, public, result
from ._flags import flatiter
from ._ufuncs import restore, ufunc

# Functions that say nothing about arrays: NumPy's own objects.
OWN = frozenset(
    "seterr geterr seterrcall geterrcall getbufsize setbufsize set_printoptions get_printoptions get_include "
    "show_config show_runtime test issubdtype isdtype sctype2char get_handler_name get_handler_version mintypecode "
    "bench add_docstring add_newdoc add_newdoc_ufunc info iterable "
    # what calls functions of the user's hands on arguments as they are
    "assert_raises assert_raises_regex assert_warns assert_no_warnings assert_no_gc_cycles break_cycles run_threaded "
    "rundocs runstring measure decorate_methods tempdir temppath".split()
)
# Functions whose operands NumPy, or a callback, may keep.
KEEPS = frozenset(
    "apply_along_axis apply_over_axes piecewise fromfunction from_dlpack frombuffer as_ctypes as_array nested_iters "
    "fromiter select fromregex run_module_suite asmatrix".split()
)
_MASKED = "numpy.ma."  # modules whose arrays may keep the memory that they were made from
# Functions that make an array from no other.
MAKERS = frozenset(("zeros", "empty"))
# Functions that write one operand: its position.
WRITES = dict.fromkeys(("put", "copyto", "fill_diagonal", "place", "putmask", "put_along_axis"), 0)

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(numpy.sum))
ALIASED = ("typing", "exceptions", "dtypes", "f2py", "version", "core")  # modules without a word about arrays

COUNTERPART.update({numpy.ndarray: ndarray, numpy.flatiter: flatiter, numpy.ufunc: ufunc, Subclassable: ndarray})
COUNTERPART[numpy.finfo] = _standard.finfo


_concatenator = numpy.lib._index_tricks_impl.AxisConcatenator
_INDEXERS = (_concatenator, numpy.lib._index_tricks_impl.nd_grid)
_VALUES = (numpy.generic, numpy.dtype)
_LATE = frozenset(
    "linalg fft dtypes random polynomial ma ctypeslib exceptions testing matlib f2py typing rec char core strings lib "
    "emath".split()
)  # modules of NumPy's that are mirrored when somebody asks for them


class Indexer:
    """An object of NumPy's that makes arrays from an index, as `numpy.r_`."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.__doc__ = real.__doc__

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and type(self._real).__getitem__ is _concatenator.__getitem__:
            frame = sys._getframe(1)  # names in the text are the caller's variables
            return _matrix(key, frame.f_locals, frame.f_globals)
        seen = Handles()
        return result(self._real[convert(key, seen)], seen)

    def __len__(self) -> int:
        return len(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Masking:
    """An object of `numpy.ma` that is called, as `numpy.ma.add`: it knows NumPy's arrays only."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.__doc__ = real.__doc__
        self.__name__ = getattr(real, "__name__", "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _masked(self._real, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return functools.partial(_masked_method, found) if callable(found) else found

    def __repr__(self) -> str:
        return repr(self._real)


def _masked(real: Any, args: Any, kwargs: Any) -> Any:
    seen = Handles()
    given = [convert(v, seen, plain) for v in args]
    return result(real(*given, **{k: convert(v, seen, plain) for k, v in kwargs.items()}), seen, 3)


def _masked_method(real: Any, *args: Any, **kwargs: Any) -> Any:
    return _masked(real, args, kwargs)


class vectorize(numpy.vectorize):
    """A Python function called for each element; see `numpy.vectorize`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        seen = Handles()
        real = [convert(v, seen, plain) for v in args]
        return result(super().__call__(*real, **{k: convert(v, seen, plain) for k, v in kwargs.items()}), seen)


def bmat(obj: Any, ldict: Any = None, gdict: Any = None) -> Any:
    """A matrix from blocks; see `numpy.bmat`."""
    if isinstance(obj, str) and gdict is None:
        frame = sys._getframe(1)
        ldict, gdict = frame.f_locals, frame.f_globals
    return _matrix(obj, ldict, gdict)


def _matrix(obj: Any, ldict: Any, gdict: Any) -> Any:
    seen = Handles()
    given = [{k: plain(v) for k, v in names.items()} if isinstance(names, dict) else names for names in (ldict, gdict)]
    return numpy.bmat(convert(obj, seen, plain), *given)


def frompyfunc(*args: Any, **kwargs: Any) -> ufunc:
    """A ufunc from a Python function; see `numpy.frompyfunc`."""
    return ufunc(numpy.frompyfunc(*args, **kwargs))


COUNTERPART.update({numpy.broadcast: broadcast, numpy.vectorize: vectorize, numpy.frompyfunc: frompyfunc})
dressed(bmat, numpy.bmat)


def counterpart(value: Any, name: str) -> Any:
    """What stands for NumPy's object `value`, found under `name`."""
    if isinstance(value, numpy.ufunc):
        return restore(value)
    if isinstance(value, types.ModuleType):
        inner = value.__name__.partition("numpy.")[2]
        if "_core" in inner or not value.__name__.startswith("numpy"):
            return value
        return Later(inner) if inner and "._" not in "." + inner else _rebind.module(value)
    if isinstance(value, _INDEXERS):
        return Indexer(value)
    if isinstance(value, _VALUES):
        return value
    if type(value).__module__ == "numpy.ma.core" and callable(value) and not isinstance(value, numpy.ndarray):
        return Masking(value)
    try:
        known = COUNTERPART.get(value)
    except TypeError:
        return value
    if known is not None:
        return known
    if not isinstance(value, _FUNCTIONS) or name in OWN or not str(value.__module__).startswith("numpy"):
        return value
    function: Any = _standard.EXTENDED.get(value, value)
    name = function.__name__  # one for all its aliases
    if name in MAKERS and getattr(numpy, name, None) is value:
        return maker(function)
    if getattr(numpy, name, None) is not value:
        inner = (value.__module__ or "").removeprefix("numpy").strip(".")
        name = f"{inner}.{name}"
    kept = name in KEEPS or str(value.__module__).startswith(_MASKED)
    made = public(function, name, plain if kept else host, WRITES.get(name))
    COUNTERPART[value] = made  # also where `function` is an extended one
    return made


class Later:
    """A module of ours that is imported when somebody asks for it."""

    def __init__(self, name: str) -> None:
        self.name = name


def fill(target: dict[str, Any], real: types.ModuleType, package: str) -> None:
    """Give the module namespace `target` every public name of the NumPy module `real`, and import modules late.

    A name that NumPy gives with a warning is asked for, as there, each time that somebody uses it.
    """
    if real.__name__ == "numpy.fft":
        from . import _standard_fft  # noqa: F401
    later: dict[str, str] = {}
    warned: set[str] = set()
    late = _LATE if real is numpy else ()
    for name in dir(real):
        if name.startswith("_") or name in target:
            continue
        if name in late:
            later[name] = f"{package}.{name}"
            continue
        found, said = _look(real, name)
        if said:
            warned.add(name)
            continue
        value = counterpart(found, name)
        if type(value) is Later:
            later[name] = f"{ROOT}.{value.name}"
        else:
            target[name] = value
    if hasattr(real, "__all__"):
        target["__all__"] = list(real.__all__)
    target.setdefault("__doc__", real.__doc__)

    def module_getattr(name: str) -> Any:
        where = later.get(name)
        if where is not None:
            value = target[name] = importlib.import_module(where)
            return value
        if name in _ABOUT and hasattr(real, name):
            return getattr(real, name)
        if name.startswith("__"):
            getattr(real, name)
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found, said = _look(real, name)  # with NumPy's own message for names that are gone
        for w in said:
            _rebind.WARNINGS.warn(w.message, w.category)
        value = counterpart(found, name)
        return importlib.import_module(f"{ROOT}.{value.name}") if type(value) is Later else value

    target["__getattr__"] = module_getattr
    target["__dir__"] = lambda: sorted({*target, *later, *warned})


def _look(real: types.ModuleType, name: str) -> tuple[Any, list[warnings.WarningMessage]]:
    """A name of a NumPy module, and the warnings with which its `__getattr__` gave it: they would name our line."""
    known = vars(real)
    if name in known or "__getattr__" not in known:
        return getattr(real, name), []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return getattr(real, name), said
        except AttributeError as error:
            missing = error
    for w in said:
        _rebind.WARNINGS.warn(w.message, w.category)
    raise missing


_ABOUT = ("__config__", "__numpy_submodules__")  # what NumPy says about itself


ROOT = __package__ or "offarray"


class Finder:
    """Mirrors NumPy's public modules as modules of this package; finds and loads, without the costly base classes.

    It is asked before the folders are searched: some hold what type checkers read, and are no packages.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """A specification for `offarray.x` where NumPy has a public `numpy.x`."""
        head, _, rest = fullname.partition(".")
        if head != ROOT or not rest or any(p.startswith("_") for p in rest.split(".")):
            return None
        if rest == "random" or rest.split(".")[0] in ("distutils", "fusion", "codegen", "runtime"):
            return None
        try:
            real = _real_module(rest)
        except ImportError:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=hasattr(real, "__path__"))  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> Any:
        """NumPy's own module where there is nothing to mirror."""
        rest = spec.name.partition(".")[2]
        return None if rest not in ALIASED else types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill the mirror."""
        rest = module.__name__.partition(".")[2]
        real = _real_module(rest)
        if rest in ALIASED:
            sys.modules[module.__name__] = real
            return
        fill(vars(module), real, module.__name__)


def _real_module(rest: str) -> types.ModuleType:
    if rest == "emath":
        return numpy.emath
    return importlib.import_module("numpy." + rest)
