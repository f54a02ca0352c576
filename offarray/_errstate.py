"""Floating-point errors: which kinds are armed when an operation is recorded, and what a report does.

The modes are NumPy's own (`numpy.errstate` and `numpy.seterr` work for both), read through the identity of the
context's state object.  Modes "raise", "call", "print" and "log", and a warnings filter that is not the one that
stood at import, have the operation evaluated at its statement; a plain "warn" may come with the evaluation, and
names the user's line.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy
from numpy._core.umath import _extobj_contextvar  # type: ignore[attr-defined]

from ._site import line
from .fusion.node import Node
from .runtime import fault, late
from .runtime.config import settings

KINDS = {1: "divide", 2: "over", 4: "under", 8: "invalid"}
_filters = warnings.filters  # the list object that `catch_warnings` replaces

# state object of the context -> (kinds that are not ignored, whether they must be known at the statement)
_known: dict[int, tuple[Any, int, bool]] = {}
_recent: tuple[Any, int, bool] = (_known, 0, False)  # the last one asked for; none yet
_state = _extobj_contextvar.get


def _modes() -> tuple[Any, int, bool]:
    global _recent
    state = _state()
    if state is _recent[0]:
        return _recent
    found = _known.get(id(state))
    if found is None:
        modes: dict[str, Any] = dict(numpy.geterr())
        mask = sum([bit for bit, kind in KINDS.items() if modes[kind] != "ignore"])
        strict = any(modes[kind] not in ("ignore", "warn") for kind in KINDS.values())
        if len(_known) > 1000:
            _known.clear()
        found = _known[id(state)] = (state, mask, strict)
    _recent = found
    return found


def armed() -> int:
    """Fault bits that are not ignored in this context."""
    return _modes()[1]


def immediate() -> bool:
    """Whether a fault of this context must be reported at the statement."""
    if _modes()[2]:
        return True
    return settings.faults != "deferred" and (settings.faults == "statement" or warnings.filters is not _filters)


def report(found: list[tuple[Node, int]]) -> None:
    """Warn, raise or call as NumPy would for the fault bits of each node.

    Raises
    ------
    FloatingPointError
        For a kind whose mode is "raise"; nodes of the failed operation keep their values.
    """
    _each(found, "")


def report_late(found: list[tuple[Node, int]]) -> None:
    """The same for operations whose kernels were not waited for: they were recorded where a fault is a warning."""
    _each(found, "warn")


def _each(found: list[tuple[Node, int]], mode: str) -> None:
    merged: dict[int, tuple[Node, int]] = {}
    for node, bits in found:
        old = merged.get(node.serial, (node, 0))[1]
        merged[node.serial] = (node, old | bits & node.fault)
    for serial in sorted(merged):
        node, bits = merged[serial]
        for bit in KINDS:
            if bits & bit:
                _signal(node, bit, mode, bits)


def _signal(node: Node, bit: int, mode: str, bits: int) -> None:
    message = fault.message(bit, node.alias or NAMES.get(node.op, node.op))
    mode = mode or str(dict(numpy.geterr())[KINDS[bit]])
    if mode == "raise":
        raise FloatingPointError(message)
    if mode == "call":
        call: Any = numpy.geterrcall()
        if call is None:
            raise NameError(f"python callback specified for {message.split(' encountered')[0]} but no function found.")
        call(message.split(" encountered")[0], bits)  # all that the operation met, as in NumPy
    elif mode == "print":
        print(f"Warning: {message}", file=sys.stderr)
    elif mode == "log":
        log: Any = numpy.geterrcall()
        log.write(f"Warning: {message}\n")
    else:
        where = line(node.site)
        warnings.warn_explicit(message, RuntimeWarning, where.filename, where.lineno, where.module, where.registry)


late.report = report_late

# The ufunc that NumPy would name for an operation of ours.
NAMES = {"modf_frac": "modf", "modf_int": "modf", "frexp_mantissa": "frexp", "frexp_exponent": "frexp"}
