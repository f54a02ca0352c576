"""Ufuncs and operators that run in NumPy: which of these calls count, and which are no work at all.

in: `_ufuncs.py`, with operands in memory; out: NumPy, and `_fallback.py`'s counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from . import _fallback
from ._array import RealArray, ndarray
from ._dispatch import IN_PLACE, numpy_call, reason, written
from ._memory import may_write
from .runtime.config import settings


def hosted(real: numpy.ufunc, run: Callable[..., Any], operands: Any, args: Any) -> Any:
    """`run(*args)` in NumPy, counted if the operands are no small work."""
    try:
        return _counted(real, run, operands, args)
    finally:
        written()


def _counted(real: numpy.ufunc, run: Callable[..., Any], operands: Any, args: Any) -> Any:
    if _slight(operands):
        return _do(run, args)
    if real.signature is None and refused(real, run, args):
        return _do(run, args)
    if real.signature is not None:
        made = _do(run, args)
        _fallback.library(real.__name__, made)
        return made
    _fallback.announce(real.__name__, reason(operands))
    made = _do(run, args)
    _fallback.ran(made)
    return made


def _do(run: Callable[..., Any], args: Any) -> Any:
    return run(*args) if isinstance(run, partial) else numpy_call(run, args, {})


def _slight(operands: Any) -> bool:
    """Whether the operands are scalars or small work."""
    shapes = [x._shape for x in operands if type(x) is ndarray]
    return not any(shapes) or sum(map(math.prod, shapes)) <= settings.eager_size


def refused(real: numpy.ufunc, run: Any, args: Any) -> bool:
    """Whether NumPy will raise for the types or shapes of a call: that is no work, and its error is the answer."""
    values, named = args if len(args) == 2 and type(args[1]) is dict else (args, {})
    if isinstance(run, partial) and run.args[0] is not real:
        return False  # another method than the call
    if run in IN_PLACE:
        named = {"out": values[0]}
    try:
        shape = numpy.broadcast_shapes(*[v.shape for v in values if type(v) is RealArray])
        out = named.get("out")
        for x in (*(out if type(out) is tuple else (out,)), *values[real.nin :]):
            if type(x) is RealArray and (not may_write(x) or numpy.broadcast_shapes(shape, x.shape) != x.shape):
                return True
        with numpy.errstate(all="ignore"):
            real(*map(_emptied, values), **{k: _emptied(v) for k, v in named.items()})
    except Exception:
        return True
    return False


def _emptied(value: Any) -> Any:
    """An array (or list) of the same type without elements; anything else as it is."""
    if type(value) is tuple:
        return tuple(map(_emptied, value))
    if type(value) is list:
        value = numpy.asarray(value)
    return numpy.empty(0, value.dtype) if type(value) is RealArray and value.ndim else value
