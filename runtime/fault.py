"""Floating-point faults: from the bits that a kernel reports to the words of NumPy's warnings.

The bits are those of `codegen.kernel` and of NumPy itself, in the order in which NumPy warns.
"""

from __future__ import annotations

DIVIDE, OVER, UNDER, INVALID = 1, 2, 4, 8

NAMES = {DIVIDE: "divide", OVER: "over", UNDER: "under", INVALID: "invalid"}  # the keys of numpy.errstate

_TEXT = {DIVIDE: "divide by zero", OVER: "overflow", UNDER: "underflow", INVALID: "invalid value"}

# Kernel operations that are half of a two-result ufunc, and ufuncs that NumPy knows by another name.
_UFUNC = {
    "modf_frac": "modf", "modf_int": "modf", "frexp_mantissa": "frexp", "frexp_exponent": "frexp",
    "divmod_quotient": "divmod", "divmod_remainder": "divmod",
    "true_divide": "divide", "mod": "remainder", "abs": "absolute",
}  # fmt: skip


def kinds(byte: int) -> list[int]:
    """The fault bits set in `byte`, in the order in which NumPy reports them."""
    return [bit for bit in NAMES if byte & bit]


def message(bit: int, ufunc: str) -> str:
    """NumPy's warning text for one fault bit in the operation `ufunc`."""
    return f"{_TEXT[bit]} encountered in {_UFUNC.get(ufunc, ufunc)}"
