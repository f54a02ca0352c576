"""How far small work reaches: which calls on ready arrays are NumPy's at once, with nothing in between.

in: `_dispatch.public` and the methods, before anything else is asked; out: NumPy's function on the arrays themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from ._array import HOST, fresh, ndarray, view
from ._convert import _PLAIN, SCALARS, Handles, result
from ._memory import native
from ._voice import MUTE, OBJECT, again
from .runtime.config import settings

RealArray = numpy.ndarray
__warningregistry__ = MUTE

# Functions of which a single call costs more to record than NumPy takes, up to `SPAN` times the size of small work:
# reductions and compositions of ready arrays.  What is pending is recorded whatever its size.
WIDE: set[str] = set()
SPAN = 8
_wide: set[Any] = set()  # their implementations
# Functions that give views or look at few elements: NumPy's at once on ready arrays of any size.
LIGHT = frozenset(
    """
    trace diagonal flip fliplr flipud rot90 moveaxis rollaxis swapaxes transpose squeeze expand_dims atleast_1d
    atleast_2d atleast_3d array_split split hsplit vsplit dsplit unstack broadcast_to permute_dims matrix_transpose
    linalg.trace linalg.diagonal linalg.matrix_transpose lib.stride_tricks.sliding_window_view
    """.split()
)
# Functions whose results never have more elements than their operands have together, and those that join a list.
FREE = frozenset(
    """
    searchsorted isin interp convolve correlate digitize bincount histogram histogram2d take compress extract percentile
    quantile median nanmedian nanpercentile nanquantile partition argpartition unique dot inner vdot lexsort trapezoid
    average cov corrcoef insert delete union1d intersect1d setdiff1d setxor1d take_along_axis append cross array_equal
    put_along_axis linalg.solve linalg.lstsq
    """.split()
)
GROWING = frozenset("outer kron meshgrid linalg.outer".split())  # results as large as their operands' product
JOINS = frozenset("concatenate concat stack vstack hstack dstack column_stack row_stack".split())
TEXTS = frozenset(("einsum",))  # functions that are told what to do by a text in front
_free: set[Any] = {getattr(RealArray, n) for n in FREE if hasattr(RealArray, n)}
_light: set[Any] = {getattr(RealArray, n) for n in LIGHT if hasattr(RealArray, n)}


def span(name: str) -> int:
    """Elements up to which a call on ready arrays is NumPy's at once."""
    if name in WIDE and not settings.device.startswith("cuda"):
        return SPAN * settings.eager_size
    return settings.eager_size


@cache
def bounded(text: str) -> bool:
    """Whether what `einsum` is told costs and gives no more than one of its operands has elements."""
    left, arrow, wanted = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or not all(t.isalpha() and len(set(t)) == len(t) for t in terms):
        return False
    return any(set(left) - {","} | set(wanted) <= set(t) for t in terms)


def widen(name: str, *implementations: Any) -> None:
    """Enter a function among those whose small work reaches further."""
    WIDE.add(name)
    _wide.update(implementations)


def enter(name: str, implementation: Any) -> None:
    """Note what runs a public function, for the tables that have its name."""
    for names, known in ((WIDE, _wide), (LIGHT, _light), (FREE, _free)):
        if name in names:
            known.add(implementation)


def rules(implementation: Any) -> dict[str, bool]:
    """What the tables say of what runs a public function or method."""
    known = {"wide": _wide, "light": _light, "free": _free}
    return {name: implementation in found for name, found in known.items()}


# Types of arguments that are no arrays and hold none.
OPTIONS = _PLAIN | {type, slice, type(Ellipsis), type(numpy._NoValue), *map(type, map(numpy.dtype, "?bhilqfdFD"))}


def quick(impl: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`impl` at once on small ready arrays and options that are no arrays; NotImplemented for any other call."""
    x = args[0]
    at = x._at
    if at is not HOST and at != x._base.node.serial:
        return NotImplemented
    a = x._np
    if a.dtype is OBJECT:
        return NotImplemented
    room = settings.eager_size - a.size
    rest = []
    for v in args[1:]:
        t = type(v)
        if t is ndarray:
            at = v._at
            if at is not HOST and at != v._base.node.serial:
                return NotImplemented
            b = v._np
            if (b.shape != a.shape and impl not in _free) or b.dtype is OBJECT:
                return NotImplemented
            room -= b.size
            rest.append(b)
        elif t in OPTIONS or ((t is tuple or t is list) and set(map(type, v)) <= OPTIONS):
            rest.append(v)
        else:
            return NotImplemented
    if room < 0 and impl not in _light and (
        impl not in _wide or room + (SPAN - 1) * settings.eager_size < 0 or not native(a.dtype) or _away()
    ):  # fmt: skip
        return NotImplemented
    for v in kwargs.values():
        if type(v) not in OPTIONS and not (type(v) is tuple and set(map(type, v)) <= OPTIONS):
            return NotImplemented
    try:
        made = impl(a, *rest, **kwargs)
    except TypeError:
        made = again(impl, a, *rest, **kwargs)
    if type(made) is RealArray:
        if made is a:
            return x
        root = made.base
        if root is None:
            if sys.getrefcount(made) <= 2:
                return fresh(made)
        elif root is a or root is a.base:
            return view(made, x)
        elif type(root) is RealArray and root.base is None and sys.getrefcount(root) <= 3:
            return view(made, fresh(root))  # a new array in another shape
    elif type(made) in SCALARS:
        return made
    return result(made, Handles(v for v in args if type(v) is ndarray), 3)


def quick_join(impl: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`impl` at once on a list of small ready arrays; NotImplemented for any other call."""
    room = settings.eager_size if _away() else SPAN * settings.eager_size
    real = []
    for v in args[0]:
        if type(v) is not ndarray:
            return NotImplemented
        at = v._at
        if at is not HOST and at != v._base.node.serial:
            return NotImplemented
        a = v._np
        room -= a.size
        real.append(a)
        if a.dtype is OBJECT:
            return NotImplemented
        if not native(a.dtype):
            room -= (SPAN - 1) * settings.eager_size
    if room < 0 or not set(map(type, args[1:])) <= OPTIONS or not set(map(type, kwargs.values())) <= OPTIONS:
        return NotImplemented
    try:
        made = impl(real, *args[1:], **kwargs)
    except TypeError:
        made = again(impl, real, *args[1:], **kwargs)
    return fresh(made) if made.base is None else result(made, Handles(args[0]), 3)


def product_at_once(x: Any, y: Any) -> bool:
    """Whether a product of matrices at hand is NumPy's at once, with no more elements than `SPAN` allows."""
    reach = SPAN * settings.eager_size
    if x.size + y.size > reach or not 0 < x.ndim <= 2 or not 0 < y.ndim <= 2 or _away():
        return False
    rows, columns = (x.shape[0] if x.ndim == 2 else 1), (y.shape[1] if y.ndim == 2 else 1)
    return bool(rows * columns <= reach and x.dtype.char in "fdFD" and x.dtype.isnative and y.dtype == x.dtype)


def _away() -> bool:
    return settings.device.startswith("cuda")
