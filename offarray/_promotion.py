"""Type resolution: the loop that NumPy would run for a ufunc and its operands' types.

in: ufunc, operand dtypes or Python scalar types (NEP 50: weak); out: loop dtypes, or None where no kernel holds it.
NumPy itself is asked once for each combination.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NamedTuple

import numpy

from ._memory import native
from ._voice import speak
from .codegen.numerics import supports
from .fusion.lower import code

DType = numpy.dtype[Any]
WEAK: dict[type, type] = {bool: bool, int: int, float: float, complex: complex}

# Ufuncs with several results, and the operations that give each of them.
PARTS = {
    "divmod": ("floor_divide", "remainder"),
    "modf": ("modf_frac", "modf_int"),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
}


class Loop(NamedTuple):
    """A ufunc's loop: dtypes that the operands are cast to, and the operation and dtype of each result."""

    inputs: tuple[DType, ...]
    ops: tuple[str, ...]
    outputs: tuple[DType, ...]


_MODULES = ("numpy._core._multiarray_umath", "numpy.linalg._umath_linalg", "numpy.fft._pocketfft_umath")
_loops: dict[tuple[Any, ...], Loop | None] = {}


def of_numpy(real: numpy.ufunc) -> bool:
    """Whether a ufunc is NumPy's own: another's may have any name, and go at any time."""
    return any(getattr(sys.modules.get(m), real.__name__, None) is real for m in _MODULES)


def loop_of(real: numpy.ufunc, kinds: tuple[Any, ...], dtype: DType | None = None) -> Loop | None:
    """The loop for operands of `kinds`, each a dtype or, for a weak Python scalar, its type.

    Returns None where NumPy finds no loop, or where kernels do not hold it: the caller leaves the call to NumPy.
    """
    key = (real, dtype, *kinds)
    try:
        return _loops[key]
    except KeyError:
        if not of_numpy(real):
            return None
        found = _loops[key] = _resolve(real, kinds, dtype)
        return found


def _resolve(real: numpy.ufunc, kinds: tuple[Any, ...], dtype: DType | None) -> Loop | None:
    if real.signature is not None or any(isinstance(k, numpy.dtype) and not native(k) for k in kinds):
        return None
    # NumPy treats a Python bool as a bool scalar of its own type
    asked = tuple(numpy.dtype(bool) if k is bool else k for k in kinds) + (None,) * real.nout
    try:
        if dtype is not None:
            signature = (None,) * real.nin + (dtype,) * real.nout
            resolved = real.resolve_dtypes(asked, signature=signature)
        else:
            resolved = real.resolve_dtypes(asked)
    except TypeError:
        return None
    if not all(native(d) for d in resolved):
        return None
    inputs, outputs = resolved[: real.nin], resolved[real.nin :]
    ops = PARTS.get(real.__name__, (real.__name__,))
    codes = tuple(map(code, inputs))
    if len(ops) != len(outputs):
        return None
    if not all(supports(op, codes, code(out)) for op, out in zip(ops, outputs, strict=True)):
        return None
    return Loop(inputs, ops, outputs)


_EXACT = 1 << 53  # integers below it are doubles
_SINGLE = float(numpy.finfo("f4").max)
_limits = functools.cache(numpy.iinfo)


def scalar(value: Any, dtype: DType) -> Any:
    """A Python scalar as a NumPy scalar of `dtype`, or None where it does not fit."""
    if dtype.char in "dD" and (type(value) is float or (type(value) is int and -_EXACT < value < _EXACT)):
        return dtype.type(value)
    if dtype.char in "fF" and type(value) is float and not _SINGLE < abs(value) < numpy.inf:
        return dtype.type(value)
    if dtype.kind in "iu":
        info = _limits(dtype)
        if not isinstance(value, int) or not info.min <= value <= info.max:
            return None
        return dtype.type(value)
    if dtype.kind == "b":  # NumPy's own way there is by a C long
        return None if type(value) is int and not -(1 << 63) <= value < 1 << 63 else dtype.type(value)
    try:
        with numpy.errstate(over="ignore"):
            made = dtype.type(value)
    except (OverflowError, TypeError):
        return None
    if not numpy.isfinite(made) and numpy.isfinite(complex(value)):
        speak(dtype.type, (value,), {})  # beyond the largest number: NumPy reports it at the statement
    return made
