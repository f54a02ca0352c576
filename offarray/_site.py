"""The user's line: where an operation was asked for, kept as (code object, instruction offset), decoded on demand.

Line numbers are worked out only when somebody reads them: `f_lineno` takes time in proportion to the function.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

from .runtime.tuples import NamedTuple

_HERE = os.path.dirname(os.path.abspath(__file__))
_NUMPY = os.path.dirname(os.path.abspath(sys.modules["numpy"].__file__ or "")) if "numpy" in sys.modules else "\0"

Site = tuple[CodeType, int, str, dict]  # type: ignore[type-arg]


class Line(NamedTuple):
    """A line of the user's program."""

    filename: str
    lineno: int
    module: str
    registry: dict  # type: ignore[type-arg]  # its warnings registry


# Code of offarray's and NumPy's own that frames were seen to run, by its id (the hash of code objects takes long).
_inside: dict[int, CodeType] = {}


def here() -> Site | None:
    """The innermost frame that is neither offarray's nor NumPy's."""
    frame = sys._getframe(0)
    while frame is not None:
        code = frame.f_code
        if id(code) not in _inside:
            name = code.co_filename
            if not name.startswith(_HERE) and not name.startswith(_NUMPY):
                names = frame.f_globals
                return code, frame.f_lasti, names.get("__name__", "<unknown>"), names
            _inside[id(code)] = code
        frame = frame.f_back  # type: ignore[assignment]
    return None


def line(site: Site | None) -> Line:
    """The line that a site stands for."""
    if site is None:
        return Line("<unknown>", 0, "<unknown>", {})
    code, offset, module, namespace = site
    return Line(code.co_filename, number(code, offset), module, namespace.setdefault("__warningregistry__", {}))


def number(code: CodeType, offset: int) -> int:
    """The number of the line that an instruction belongs to."""
    for start, end, found in code.co_lines():
        if start <= offset < end:
            return found or code.co_firstlineno
    return code.co_firstlineno


def text(site: Site | None) -> str:
    """The line as "file:number"."""
    where = line(site)
    return f"{where.filename}:{where.lineno}"
