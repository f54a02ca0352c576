"""Sums of products by Einstein's convention, on a device: pairs of operands in the order of a path.

in: `numpy.einsum`'s operands and subscripts; out: diagonals as views, sums as kernels, products of matrices as in
`_library_products`.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy

from . import _lazy
from ._array import ndarray
from ._library_device import array, cast, dense, fits, np, seen, store
from ._library_products import contracted, multiplied
from .runtime.cudalib_blas import TYPES

_parse: Any = importlib.import_module("numpy._core.einsumfunc")._parse_einsum_input


class Term:
    """An operand with a letter for each axis, no letter twice."""

    def __init__(self, x: Any, letters: str) -> None:
        self.x, self.letters = x, letters

    def extents(self) -> dict[str, int]:
        """Extent of each letter."""
        return dict(zip(self.letters, self.x._shape, strict=True))


def _term(x: ndarray, letters: str, sizes: dict[str, int]) -> Term:
    """A term with diagonals taken and letters of one element dropped where others have more."""
    kept, axes = "", []
    repeated: dict[str, list[int]] = {}
    for axis, c in enumerate(letters):
        if x._shape[axis] == 1 and sizes[c] != 1:
            continue
        repeated.setdefault(c, []).append(axis)
    for c, places in repeated.items():
        kept += c
        axes.append(places)
    if len(kept) == len(letters):
        return Term(x, letters)

    def diagonal(g: Any) -> Any:
        steps = [sum(g.strides[a] for a in places) for places in axes]
        return numpy.lib.stride_tricks.as_strided(g, [sizes[c] for c in kept], steps)

    return Term(seen(x, diagonal), kept)


def _summed(t: Term, letters: set[str], dtype: Any) -> Term:
    """A term without some of its letters."""
    axes = tuple(n for n, c in enumerate(t.letters) if c in letters)
    if not axes:
        return t
    kept = "".join(c for c in t.letters if c not in letters)
    if dtype.kind == "b":
        made = np.any(t.x, axes)
    else:
        made = np.sum(cast(t.x, numpy.dtype("f4") if dtype.char == "e" else dtype), axes)
        made = cast(np.asarray(made), dtype)
    return Term(np.asarray(made), kept)


def _arranged(t: Term, *groups: str) -> ndarray:
    """The elements with one axis for each group of letters; the first group keeps its axes apart."""
    order = [t.letters.index(c) for c in "".join(groups)]
    x = seen(t.x, lambda g: g.transpose(order))
    extents = t.extents()
    shape = [extents[c] for c in groups[0]] + [math.prod(extents[c] for c in group) for group in groups[1:]]
    if tuple(shape) == x._shape:
        return x
    try:
        return seen(x, lambda g: g.reshape(shape, copy=False))
    except ValueError:
        x = dense(x)
        return seen(x, lambda g: g.reshape(shape))


def _joined(s: Term, t: Term, wanted: set[str], dtype: Any) -> Term:
    """The product of two terms, summed over what nobody wants any more."""
    mine, theirs = set(s.letters), set(t.letters)
    s = _summed(s, mine - theirs - wanted, dtype)
    t = _summed(t, theirs - mine - wanted, dtype)
    both = [c for c in s.letters if c in t.letters]
    stack = "".join(c for c in both if c in wanted)
    gone = "".join(c for c in both if c not in wanted)
    left = "".join(c for c in s.letters if c not in both)
    right = "".join(c for c in t.letters if c not in both)
    if not gone or (dtype.char not in TYPES and dtype.kind != "b"):
        return _plain(s, t, stack, left, right, gone, dtype)
    a, b = _arranged(s, stack, left, gone), _arranged(t, stack, gone, right)
    made = multiplied(a, b, dtype)
    extents = s.extents() | t.extents()
    shape = [extents[c] for c in stack + left + right]
    return Term(seen(made, lambda g: g.reshape(shape)), stack + left + right)


def _plain(s: Term, t: Term, stack: str, left: str, right: str, gone: str, dtype: Any) -> Term:
    """The same by a kernel: nothing to sum, or numbers that no library multiplies."""
    a = _arranged(s, stack + left, gone)
    b = _arranged(t, stack + right, gone)
    ones_b, ones_a = (None,) * len(left), (None,) * len(right)
    n = len(stack)
    everything = (slice(None),)
    a = seen(a, lambda g: g[everything * (n + len(left)) + ones_a])
    b = seen(b, lambda g: g[everything * n + ones_b])
    with numpy.errstate(all="ignore"):  # NumPy's does not look
        return Term(contracted(a, b, dtype), stack + left + right)


def _compressed(subscripts: str, operands: list[ndarray]) -> tuple[list[str], str, dict[str, int]] | None:
    """Letters of the operands and of the result, and the extent of each; None where they do not fit."""
    inputs, _, output = subscripts.partition("->")
    parts = inputs.split(",")
    sizes: dict[str, int] = {}
    if len(parts) != len(operands) or len(set(output)) != len(output) or not set(output) <= set(inputs):
        return None
    for letters, x in zip(parts, operands, strict=True):
        if len(letters) != len(x._shape):
            return None
        for c, extent in zip(letters, x._shape, strict=True):
            if sizes.setdefault(c, extent) == 1:
                sizes[c] = extent
            elif extent not in (1, sizes[c]):
                return None
    return parts, output, sizes


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """`numpy.einsum`; NotImplemented for what NumPy refuses, and for options of its loops."""
    if options.keys() - {"dtype"} or len(operands) < 2:
        return NotImplemented
    shown = [_stand_in(v) for v in operands]
    try:
        inputs, output, _ = _parse(shown)
    except (ValueError, TypeError, IndexError):
        return NotImplemented
    given = operands[1:] if isinstance(operands[0], str) else operands[: 2 * (len(operands) // 2) : 2]
    arrays = [array(v) for v in given]
    if any(x is None for x in arrays):
        return NotImplemented
    handles: list[Any] = arrays
    dtype = numpy.dtype(options.get("dtype") or numpy.result_type(*[x._dtype for x in handles]))
    found = _compressed(f"{inputs}->{output}", handles)
    if found is None or dtype.char not in "?bBhHiIlLqQefdFD" or any(0 in x._shape for x in handles):
        return NotImplemented
    if not all(numpy.can_cast(x._dtype, dtype, "safe") for x in handles):
        return NotImplemented
    shape = tuple(found[2][c] for c in found[1])
    if not fits(out, shape, dtype):
        return NotImplemented
    return _finished(_contract(*found, handles, dtype, optimize), found[1], dtype, out)


def _stand_in(value: Any) -> Any:
    """An operand of the same shape without elements of its own, for NumPy's parser."""
    if type(value) is ndarray:
        return numpy.broadcast_to(numpy.zeros((), value._dtype), value._shape)
    return value


def _contract(
    parts: list[str], output: str, sizes: dict[str, int], handles: list[Any], dtype: Any, optimize: Any
) -> Term:
    terms: list[Any] = [_term(x, letters, sizes) for letters, x in zip(parts, handles, strict=True)]
    if len(terms) > 2:
        shapes = [numpy.broadcast_to(0.0, [sizes[c] for c in t.letters]) for t in terms]
        text = ",".join(t.letters for t in terms) + "->" + output
        how = optimize if optimize not in (False, True) else "greedy"
        path = numpy.einsum_path(text, *shapes, optimize=how)[0][1:]
    else:
        path = [tuple(range(len(terms)))]
    for places in path:
        chosen = [terms.pop(n) for n in sorted(places, reverse=True)][::-1]
        while len(chosen) > 1:
            s, t = chosen.pop(0), chosen.pop(0)
            later = [v.letters for v in (*chosen, *terms)]
            chosen.insert(0, _joined(s, t, set(output).union(*later), dtype))
        terms.append(chosen[0])
    return _summed(terms[0], set(terms[0].letters) - set(output), dtype)


def _finished(t: Term, output: str, dtype: Any, out: Any) -> Any:
    """The result with its axes in order; a scalar for none."""
    order = [t.letters.index(c) for c in output]
    made = seen(cast(t.x, dtype), lambda g: g.transpose(order))
    if out is not None:
        return store(out, made)
    return made if made._shape else _lazy.scalar_of(made)


__all__ = ["einsum"]
