"""Checks that a kernel keeps the rules of codegen/kernel.py; used by tests and by the setting `check`."""

from __future__ import annotations

from .kernel import ABSENT, MONOIDS, STRIDED, UNIT, Fold, Kernel, Load, Store, Value
from .schedule import axes_mask, bits
from .text import SIZES


class InvalidKernel(ValueError):
    """A kernel that breaks a rule of the IR."""


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidKernel(message)


def check(kernel: Kernel) -> None:
    """Raise `InvalidKernel` if `kernel` breaks a rule."""
    everything = (1 << kernel.rank) - 1
    for n, operand in enumerate(kernel.operands):
        _demand(operand.dtype in SIZES, f"operand {n} has the dtype {operand.dtype!r}")
        _demand(operand.access in ("r", "w", "rw"), f"operand {n} has the access {operand.access!r}")
    for n, dtype in enumerate(kernel.scalars):
        _demand(dtype in SIZES, f"scalar {n} has the dtype {dtype!r}")
    for n, value in enumerate(kernel.values):
        here = f"value {n} ({value.op})"
        _demand(value.dtype in SIZES, f"{here} has the dtype {value.dtype!r}")
        _demand(all(0 <= s < n for s in value.src), f"{here} has a source that does not come before it")
        _demand(not value.dom & ~everything, f"{here} varies over axes that the kernel lacks")
        if value.op == "load":
            _load(kernel, value, here)
        elif value.op == "fold":
            _fold(kernel, value, here)
        else:
            _plain(kernel, value, here)
    for k, store in enumerate(kernel.stores):
        _store(kernel, store, f"store {k}", everything)


def _sources(kernel: Kernel, value: Value) -> int:
    mask = 0
    for s in value.src:
        mask |= kernel.values[s].dom
    return mask


def _strides(kernel: Kernel, operand: int, strides: tuple[int, ...], here: str) -> int:
    _demand(0 <= operand < len(kernel.operands), f"{here} names an operand that the kernel lacks")
    _demand(len(strides) == kernel.rank, f"{here} has {len(strides)} strides for {kernel.rank} axes")
    _demand(all(c in (ABSENT, UNIT, STRIDED) for c in strides), f"{here} has an unknown class of stride")
    return axes_mask(a for a, c in enumerate(strides) if c != ABSENT)


def _load(kernel: Kernel, value: Value, here: str) -> None:
    _demand(isinstance(value.arg, Load), f"{here} has no Load")
    assert isinstance(value.arg, Load)
    mask = _strides(kernel, value.arg.operand, value.arg.strides, here)
    operand = kernel.operands[value.arg.operand]
    _demand("r" in operand.access, f"{here} reads an operand that is only written")
    _demand(operand.dtype == value.dtype, f"{here} has another dtype than its operand")
    _demand(all(kernel.values[s].dtype == "i8" for s in value.src), f"{here} gathers at indices that are not i8")
    _demand(not (mask | _sources(kernel, value)) & ~value.dom, f"{here} varies over more axes than its domain")


def _fold(kernel: Kernel, value: Value, here: str) -> None:
    _demand(isinstance(value.arg, Fold) and len(value.src) == 1, f"{here} has no Fold, or not one source")
    assert isinstance(value.arg, Fold)
    fold, source = value.arg, kernel.values[value.src[0]]
    _demand(fold.monoid in MONOIDS, f"{here} has the monoid {fold.monoid!r}")
    _demand(fold.keep in ("last", "prefix"), f"{here} keeps {fold.keep!r}")
    _demand(bool(fold.axes) and len(set(fold.axes)) == len(fold.axes), f"{here} folds no axis, or one twice")
    _demand(all(0 <= a < kernel.rank for a in fold.axes), f"{here} folds an axis that the kernel lacks")
    over = axes_mask(fold.axes)
    domain = source.dom | over if fold.keep == "prefix" else source.dom & ~over
    _demand(value.dom == domain, f"{here} has the domain {bits(value.dom)} instead of {bits(domain)}")
    result = MONOIDS[fold.monoid] or source.dtype
    _demand(value.dtype == result, f"{here} has the dtype {value.dtype} instead of {result}")
    _demand(not (fold.keep == "prefix" and fold.monoid.startswith("arg")), f"{here} scans positions")


def _plain(kernel: Kernel, value: Value, here: str) -> None:
    if value.op == "iota":
        _demand(isinstance(value.arg, int) and 0 <= value.arg < kernel.rank, f"{here} runs along no axis")
        _demand(value.dtype == "i8", f"{here} is not i8")
        _demand(value.dom == 1 << int(value.arg), f"{here} has another domain than its axis")  # type: ignore[arg-type]
        return
    if value.op == "arg":
        _demand(isinstance(value.arg, int) and 0 <= value.arg < len(kernel.scalars), f"{here} names no scalar")
        _demand(kernel.scalars[int(value.arg)] == value.dtype, f"{here} has another dtype than its scalar")  # type: ignore[arg-type]
        return
    _demand(bool(value.src), f"{here} has no source")
    _demand(not _sources(kernel, value) & ~value.dom, f"{here} varies over more axes than its domain")


def _store(kernel: Kernel, store: Store, here: str, everything: int) -> None:
    mask = _strides(kernel, store.operand, store.strides, here)
    operand = kernel.operands[store.operand]
    _demand("w" in operand.access, f"{here} writes an operand that is only read")
    _demand(0 <= store.value < len(kernel.values), f"{here} writes a value that the kernel lacks")
    value = kernel.values[store.value]
    _demand(value.dtype == operand.dtype, f"{here} writes {value.dtype} to {operand.dtype}")
    _demand(not store.dom & ~everything, f"{here} runs over axes that the kernel lacks")
    _demand(not value.dom & ~store.dom, f"{here} lacks axes of its value")
    _demand(not (mask ^ store.dom), f"{here} must have a stride along just the axes of its domain")
