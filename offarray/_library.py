"""Library steps on a device: which public functions have a form there, and whether a call takes it.

in: `_dispatch.recorded` and the ufuncs, before operands go to the host; out: `_library_*.py`, imported when needed.
A form that returns NotImplemented leaves the call to NumPy on the host.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy

from . import _dispatch, _fallback, _lazy
from ._array import HOST, RealArray, ndarray
from ._memory import native
from .fusion.node import READY
from .runtime import placement, trace
from .runtime.config import settings
from .runtime.errors import CompileError, DeviceError, MemoryLimitError, MissingLibraryError

Form = Callable[..., Any]
_PRODUCTS = frozenset("matmul dot inner einsum tensordot ndarray.dot linalg.matmul linalg.tensordot".split())

# module -> the public functions that have a form of their own there, under the name `on_<name>` ("." as "_")
_FORMS = {
    "_library_products": "dot vdot inner einsum ndarray.dot",
    "_library_sort": "sort argsort partition argpartition lexsort searchsorted ndarray.sort ndarray.argsort "
    "ndarray.partition ndarray.argpartition ndarray.searchsorted",
    "_library_fft": "fft.fftn fft.fft2 fft.ifftn fft.ifft2 fft.rfftn fft.rfft2",
    "_library_select": "nonzero flatnonzero compress extract unique bincount histogram ndarray.nonzero "
    "ndarray.compress",
}
OWN = {name: module for module, names in _FORMS.items() for name in names.split()}

# module -> NumPy's compiled ufuncs of whole arrays that have a form there, under the name `of_<name>`
_UFUNCS = {
    "_library_products": ("numpy", "matmul vecdot matvec vecmat"),
    "_library_fft": ("numpy.fft._pocketfft_umath", "fft ifft rfft_n_even rfft_n_odd irfft"),
    "_library_linalg": (
        "numpy.linalg._umath_linalg",
        "solve solve1 inv det slogdet cholesky_lo cholesky_up qr_r_raw qr_reduced qr_complete svd svd_f svd_s eigh_lo "
        "eigh_up eigvalsh_lo eigvalsh_up lstsq",
    ),
}
UFUNCS = {name: (module, where) for module, (where, names) in _UFUNCS.items() for name in names.split()}
_known: dict[Any, tuple[str, str] | None] = {}


def _ufunc(real: Any) -> tuple[str, str] | None:
    """Module and name of the form of a ufunc that is seen for the first time."""
    module, where = UFUNCS.get(real.__name__, ("", ""))
    mine = bool(module) and getattr(importlib.import_module(where), real.__name__, None) is real
    _known[real] = found = (module, "of_" + real.__name__) if mine else None
    return found


# NumPy's Python code, which runs over these forms where the operands are on a device.
COMPOSED = frozenset(
    """
    tensordot linalg.solve linalg.inv linalg.det linalg.slogdet linalg.cholesky linalg.qr linalg.svd linalg.svdvals
    linalg.eigh linalg.eigvalsh linalg.lstsq linalg.pinv linalg.matrix_rank linalg.cond linalg.multi_dot
    linalg.matrix_power linalg.tensorsolve linalg.tensorinv linalg.matmul linalg.tensordot linalg.vecdot
    fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn
    fft.rfftn fft.irfftn
    union1d intersect1d setdiff1d setxor1d isin argwhere digitize median percentile quantile nanmedian nanpercentile
    nanquantile unique_all unique_counts unique_inverse unique_values
    """.split()
)


def placed(args: Any, kwargs: dict[str, Any], name: str = "") -> bool:
    """Whether a call has native arrays of ours that are pending, large or on a device, and runs there."""
    where = placement.where()
    if where == "auto" and placement.absent() or where != "auto" and not where.startswith("cuda"):
        return False
    total, waiting, found = 0, False, []
    stack = [*args, *kwargs.values()]
    while stack:
        v = stack.pop()
        t = type(v)
        kind = _dispatch._KIND.get(t)
        if kind is None:
            kind = _dispatch.classify(t)
        if kind == _dispatch.HANDLE:
            if not native(v._dtype):
                return False
            total += v.size
            node = None if v._at is HOST else v._base.node
            waiting = waiting or (node is not None and (node.state != READY or _resident(node.buffer)))
            found.append(v)
        elif kind == _dispatch.SEQUENCE:
            if not set(map(type, v)) <= _dispatch._PLAIN:
                stack.extend(v)
        elif kind == _dispatch.FOREIGN or (kind == _dispatch.REAL and t is not RealArray):
            return False
        elif t is RealArray:
            total += v.size
    if not found or not (waiting or total > settings.eager_size):
        return False
    if where != "auto":
        return True
    buffers = [v._base.node.buffer for v in found if v._base.node.state == READY]
    return placement.on_device(buffers, sum(v.nbytes for v in found), arithmetic(name, found), name)


def _resident(buffer: Any) -> bool:
    copy = None if buffer is None else buffer.device
    return copy is not None and bool(copy.valid or not copy.host)


def _there() -> AbstractContextManager[None]:
    """The block of a step that was found to be a device's: all that belongs to it goes there."""
    return placement.on("cuda") if placement.where() == "auto" else nullcontext()


def _form(module: str, name: str) -> Form:
    return getattr(importlib.import_module("." + module, __package__), name)  # type: ignore[no-any-return]


_IN_PLACE = frozenset(("ndarray.sort", "ndarray.partition"))


def attempt(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a device's form of the public function `name`; NotImplemented where the host runs it."""
    if kwargs.get("like") is not None or not placed(args, kwargs, name):
        return NotImplemented
    answer = _answered(name, lambda: _own(name, args, kwargs)) if name in OWN else NotImplemented
    if answer is NotImplemented and name in COMPOSED:
        return _tried(name, lambda: _dispatch.composed(_implementation(name), args, kwargs))
    return answer


def _answered(name: str, work: Callable[[], Any]) -> Any:
    """What `work` answers, counted; NotImplemented where the host has to do it."""
    return counted(name, _tried(name, work))


def _tried(name: str, work: Callable[[], Any]) -> Any:
    """What `work` answers; NotImplemented without the library that it needs, and where the choice to fail is ours."""
    ours = placement.where() == "auto"
    try:
        with _there():
            return work()
    except MissingLibraryError as missing:
        _fallback.announce(name, str(missing))
    except (CompileError, DeviceError, MemoryLimitError) as error:  # its results are in memory of their own
        if not ours:
            raise
        trace.log(1, f"the host goes on: {name}: {error}")
    return NotImplemented


def _own(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    form = _form(OWN[name], "on_" + name.replace(".", "_"))
    try:
        return form(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        return NotImplemented  # arguments that only NumPy's own form takes, or refuses


def counted(name: str, answer: Any) -> Any:
    """Count what a form answered."""
    if answer is not NotImplemented:
        trace.count("library_steps")
        size = _nbytes(answer)
        trace.count("library_bytes", size)
        if trace.events is not None:
            trace.emit("library", _fallback.here(), name=name + " (device)", nbytes=size)
    return answer


def _nbytes(value: Any) -> int:
    if type(value) is ndarray:
        return value.nbytes
    return sum(map(_nbytes, value)) if isinstance(value, tuple) else 0


def arithmetic(name: str, operands: list[ndarray]) -> float:
    """About how many multiplications and additions a step does; 0 where bytes decide."""
    shapes = [x._shape for x in operands if x._shape]
    if not shapes:
        return 0.0
    most = float(max(map(math.prod, shapes)))
    if name in _PRODUCTS:
        return 2 * most * min(s[-1] for s in shapes) if min(map(len, shapes)) > 1 else 0.0
    module = (OWN.get(name) or UFUNCS.get(name, ("",))[0]) or name.partition(".")[0]
    if module in ("linalg", "_library_linalg"):
        return 10 * most * max(max(s[-2:]) for s in shapes)
    return 5 * most * math.log2(most) if module in ("fft", "_library_fft") else 0.0


def _implementation(name: str) -> Any:
    found: Any = numpy
    for part in name.split("."):
        found = getattr(found, part)
    return _dispatch.implementation(found)


def gufunc(real: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
    """The answer of a device's form of one of NumPy's ufuncs of whole arrays, or NotImplemented."""
    where = _known[real] if real in _known else _ufunc(real)
    if where is None:
        return NotImplemented
    options = kwargs or {}
    answer = NotImplemented
    if placed(args, options, real.__name__):
        form = _form(*where)
        answer = _answered(real.__name__, lambda: form(*args, **options))
    if answer is NotImplemented and real.__name__ == "qr_r_raw":
        _dispatch.before_write(args[0])  # NumPy's loop overwrites its operand without a word
    return answer


# Methods of random generators that a device has, those that it has in a stream of its own, and those of which threads
# make NumPy's numbers: names with the place of `size` among the arguments.
DRAWN = frozenset("random uniform integers choice".split())
FAST = frozenset(
    "standard_normal standard_exponential normal lognormal gumbel exponential rayleigh weibull pareto".split()
)


SHARED = {
    "random": 0, "standard_normal": 0, "standard_exponential": 0, "uniform": 2, "normal": 2, "lognormal": 2,
    "laplace": 2, "logistic": 2, "gumbel": 2, "integers": 2, "gamma": 2, "beta": 2, "exponential": 1, "rayleigh": 1,
    "weibull": 1, "pareto": 1, "power": 1, "standard_gamma": 1, "chisquare": 1, "standard_t": 1, "poisson": 1,
    "triangular": 3,
}  # fmt: skip


def draw(name: str, generator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a method of a random generator draws on a device or by several threads, or NotImplemented."""
    answer = NotImplemented
    if name in DRAWN or (name in FAST and settings.random == "fast"):
        module = importlib.import_module("._library_random", __package__)
        if not module.by_host():
            answer = _answered(f"random.{name}", lambda: module.draw(name, generator, args, kwargs))
    if answer is NotImplemented and name in SHARED:
        drawing = importlib.import_module("._drawing", __package__)
        answer = drawing.drawn(name, generator, args, kwargs)
        if answer is not NotImplemented:
            _fallback.library("random." + name, answer)
    return answer


def select(x: ndarray, mask: ndarray) -> Any:
    """`x[mask]` where a device selects, else NotImplemented."""
    if settings.device == "cpu" or not placed((x, mask), {}):
        return NotImplemented
    return _answered("compress", lambda: _form("_library_select", "masked")(x, mask))


NAMES = frozenset(OWN) | COMPOSED
_dispatch.DEVICE.update(dict.fromkeys(NAMES, attempt))
_lazy.LIBRARY.append(gufunc)

__all__ = ["attempt", "counted", "gufunc", "placed"]
