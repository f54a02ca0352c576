"""Calls in the user's name, so that warnings of work that NumPy does at once name the user's line.

Python attributes a warning to the innermost Python frame, which is this package's where its front end is not compiled.
In modules that hold `__warningregistry__ = MUTE`, Python refuses to warn in their name, and the call is made `again`
from a frame with the file, line and globals of the user's.  What may not be done twice is done by `speak` at once, or
`told`, where only floating-point errors can be reported.  This module stays Python: frames of a compiled one have no
code that another could take the place of.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy

from ._errstate import KINDS, _state
from ._site import here, line

MUTE = ()  # no dictionary: a warning that would be entered in it is refused
OBJECT: Any = numpy.dtype(object)  # elements whose own code an operation runs: such calls are made once, by `speak`
_REFUSED = "'registry' must be a dict or None"
_template = (lambda run, args, kwargs: run(*args, **kwargs)).__code__
_lines: dict[tuple[int, int], tuple[CodeType, CodeType]] = {}  # (id of the user's code, offset) -> that code, ours


def speak(run: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """`run(*args, **kwargs)`, called from the user's line as far as warnings can tell."""
    site = here()
    if site is None:
        return run(*args, **kwargs)
    code, offset, _, names = site
    found = _lines.get((id(code), offset))
    if found is None or found[0] is not code:
        where = line(site)
        made = _template.replace(co_filename=where.filename, co_firstlineno=where.lineno, co_name=code.co_name)
        if len(_lines) > 1000:
            _lines.clear()
        found = _lines[id(code), offset] = (code, made)
    return FunctionType(found[1], names)(run, args, kwargs)


def again(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Called where a TypeError was caught: `run` again, if it was refused a warning; any other error is raised."""
    error = sys.exc_info()[1]
    if error is None or error.args != (_REFUSED,):
        raise  # noqa: PLE0704
    try:
        return speak(run, args, kwargs)
    except Exception as fault:
        fault.__context__ = None  # the refusal is nobody's business
        raise


class _Log:
    """Where NumPy writes floating-point errors whose mode is "log"."""

    def write(self, text: str) -> None:
        """Warn as NumPy would, at the user's line."""
        where = line(here())
        message = text.removeprefix("Warning: ").rstrip("\n")
        warnings.warn_explicit(message, RuntimeWarning, where.filename, where.lineno, where.module, where.registry)


_LOG = _Log()
_loud: dict[int, tuple[Any, Any]] = {}  # id of a state of errors -> that state, and the one with logs


def loud(state: Any) -> Any:
    """The state of errors in which NumPy tells `_Log` what it would warn of in `state`, the context's own."""
    found = _loud.get(id(state))
    if found is None or found[0] is not state:
        modes: dict[str, Any] = dict(numpy.geterr())
        warned: dict[str, Any] = {kind: "log" for kind in KINDS.values() if modes[kind] == "warn"}
        other = state
        if warned and not {"call", "log"} & set(modes.values()):  # these have an object of the user's
            with numpy.errstate(call=_LOG, **warned):
                other = _state()
        if len(_loud) > 1000:
            _loud.clear()
        found = _loud[id(state)] = (state, other)
    return found[1]
