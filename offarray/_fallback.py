"""Steps that NumPy runs on the host: counted as eager, library or fallback work, with reason and line.

in: `_dispatch.step` and the ufuncs, after the fact (`raise`: before it); out: runtime.trace.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from ._site import here, line
from .runtime import trace
from .runtime.config import settings
from .runtime.errors import FallbackError

RealArray = numpy.ndarray


class FallbackWarning(UserWarning):
    """A large operation had no form of offarray's own and ran in NumPy on the host."""


def nbytes(value: Any) -> int:
    """Bytes of the arrays in a result of NumPy's."""
    if isinstance(value, RealArray):
        return value.nbytes
    if isinstance(value, (list, tuple)):
        return sum(map(nbytes, value))
    return 0


def library(name: str, made: Any) -> None:
    """Count a step of NumPy's compiled routines, which are the processor's library."""
    size = made.nbytes if isinstance(made, numpy.generic) else nbytes(made)
    trace.count("library_bytes", size)
    if trace.events is not None:
        trace.emit("library", here(), name=name, nbytes=size)


def announce(name: str, reason: str) -> None:
    """Tell that `name` is about to run on the host for `reason`.

    Raises
    ------
    FallbackError
        Under `fallback="raise"`; nothing has been computed then.
    """
    mode = settings.fallback
    site = here()
    if mode != "allow":
        where = line(site)
        text = f"{name} runs in NumPy on the host: {reason}"
        if mode == "raise":
            raise FallbackError(f"{text} ({where.filename}:{where.lineno})")
        warnings.warn_explicit(text, FallbackWarning, where.filename, where.lineno, where.module, where.registry)
    trace.count("fallbacks")
    trace.emit("fallback", site, name=name, reason=reason)


def ran(made: Any) -> None:
    """Count the bytes that a fallback made."""
    trace.count("host_bytes", nbytes(made))


def eager(made: Any) -> None:
    """Count the bytes of small work."""
    trace.count("eager_bytes", nbytes(made))
