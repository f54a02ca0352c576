"""Fourier transforms on a device: NumPy's Python code over cuFFT.

in: the compiled loops of numpy.fft, which its Python code asks for one axis at a time; out: runtime/cudalib_fft.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _record
from ._array import ndarray
from ._library_device import address, array, cast, dense, fits, new, owned, place, seen, step, store
from ._views import dense_copy
from .runtime import cudalib_fft as fft
from .runtime.cudalib_fft import BACKWARD, FORWARD, Layout

_PAIRS = {"F": "f", "D": "d"}
_COMPLEX = {"f": "F", "d": "D"}


def of_fft(a: Any, factor: Any = None, **options: Any) -> Any:
    """Forward, of complex numbers."""
    return _transform(a, factor, options, FORWARD, None)


def of_ifft(a: Any, factor: Any = None, **options: Any) -> Any:
    """Backward, of complex numbers."""
    return _transform(a, factor, options, BACKWARD, None)


def of_rfft_n_even(a: Any, factor: Any = None, **options: Any) -> Any:
    """Forward, of an even number of real numbers."""
    return _transform(a, factor, options, FORWARD, lambda n: 2 * (n - 1))


def of_rfft_n_odd(a: Any, factor: Any = None, **options: Any) -> Any:
    """Forward, of an odd number of real numbers."""
    return _transform(a, factor, options, FORWARD, lambda n: 2 * n - 1)


def of_irfft(a: Any, factor: Any = None, **options: Any) -> Any:
    """Backward, to real numbers."""
    return _transform(a, factor, options, BACKWARD, None)


def _transform(a: Any, factor: Any, options: dict[str, Any], direction: int, extent: Any) -> Any:
    out, axes = options.pop("out", None), options.pop("axes", None)
    out = out[0] if type(out) is tuple and len(out) == 1 else out
    x = array(a)
    if options or x is None or type(out) is not ndarray or not axes or out._dtype.char not in "fdFD":
        return NotImplemented
    axis = axes[0][0]
    target = out._dtype.char
    kind = _PAIRS[target] if extent else _COMPLEX.get(target, target)
    n = extent(out._shape[axis]) if extent else out._shape[axis]
    if axis != axes[2][0] or out._shape[:axis] != x._shape[:axis] or out._shape[axis + 1 :] != x._shape[axis + 1 :]:
        return NotImplemented
    if not fits(out, out._shape, out._dtype) or 0 in x._shape or 0 in out._shape:
        return NotImplemented
    if x._dtype.kind == "c" and kind in "fd":
        return NotImplemented  # NumPy refuses complex numbers here
    need = n // 2 + 1 if target in "fd" else n
    x = _fitted(cast(x, kind), axis, need)
    made = _run(x, axis, n, kind, target, direction)
    return store(out, _scaled(made, factor))


def _scaled(x: ndarray, factor: Any) -> ndarray:
    if type(factor) is int and factor == 1:
        return x
    real = numpy.dtype(x._dtype.char.lower())
    return x * real.type(factor)  # type: ignore[no-any-return, operator]


def _fitted(x: ndarray, axis: int, need: int) -> ndarray:
    """`x` cut, or continued with zeros, to `need` elements along an axis."""
    have = x._shape[axis]
    if have == need:
        return x
    if have > need:
        return seen(x, lambda g: g[(slice(None),) * axis + (slice(need),)])
    shape = (*x._shape[:axis], need, *x._shape[axis + 1 :])
    _, made = new(x._dtype, shape)
    key = (slice(None),) * axis
    _record.assign(seen(made, lambda g: g[(*key, slice(have, None))]), _record.constant(0, x._dtype))
    _record.assign(seen(made, lambda g: g[(*key, slice(have))]), x)
    return made


def _run(x: ndarray, axis: int, n: int, kind: str, target: str, direction: int) -> ndarray:
    """Transform one axis: the last and the first where they are, another one moved to the end."""
    rank = len(x._shape)
    outer = math.prod(x._shape[:axis])
    if axis != rank - 1 and outer != 1:
        moved = seen(x, lambda g: numpy.moveaxis(g, axis, -1))
        made = _run(moved, rank - 1, n, kind, target, direction)
        return owned(dense_copy(seen(made, lambda g: numpy.moveaxis(g, -1, axis))))
    inner = math.prod(x._shape[axis + 1 :])
    private = target in "fd"  # the library may overwrite what it makes real numbers of
    x = _hermitian(dense_copy(x), axis, n) if private else dense(x)
    extent = x._shape[axis]
    size = n // 2 + 1 if kind in "fd" else n
    with step(x) as found:
        buffer, made = new(target, (*x._shape[:axis], size, *x._shape[axis + 1 :]))
        source = place(found, x) if private else address(found, x)
        batch = outer if inner == 1 else inner
        lay = [Layout((e,), inner, e if inner == 1 else 1) for e in (extent, size)]
        fft.transform(found, (kind, target), (n,), (source, lay[0]), (found.write(buffer), lay[1]), batch, direction)
    return made


def _hermitian(x: ndarray, axis: int, n: int) -> ndarray:
    """The copy `x` without the imaginary parts that NumPy ignores: of the first, and for even n of the last element."""
    zero = _record.constant(0, numpy.dtype(x._dtype.char.lower()))
    for k in (0, n // 2)[: 2 if n % 2 == 0 else 1]:
        key = (*(slice(None),) * axis, slice(k, k + 1))
        _record.assign(seen(x, lambda g, key=key: g.imag[key]), zero)  # type: ignore[misc]
    return x


# ---------------------------------------------------------------------- several axes at once
_NORMS = {None: 0, "backward": 0, "forward": 1, "ortho": 2}


def _several(a: Any, s: Any, axes: Any, norm: Any, out: Any, forward: bool, real: bool) -> Any:
    """A transform of the last two or three axes in one call; NotImplemented leaves it to one axis at a time."""
    x = array(a)
    if x is None or s is not None or out is not None or norm not in _NORMS or x._dtype.char not in "fdFD":
        return NotImplemented
    rank = len(x._shape)
    many = rank if axes is None else len(axes)
    if not 2 <= many <= 3 or many > rank or 0 in x._shape or (real and x._dtype.kind == "c"):
        return NotImplemented
    if axes is not None and [v + rank if v < 0 else v for v in axes] != list(range(rank - many, rank)):
        return NotImplemented
    target = _COMPLEX.get(x._dtype.char, x._dtype.char)
    x = dense(x if real else cast(x, target))
    n = x._shape[-many:]
    last = n[-1] // 2 + 1 if real else n[-1]
    with step(x) as found:
        buffer, made = new(target, (*x._shape[:-1], last))
        lay = [Layout(shape[-many:], 1, math.prod(shape[-many:])) for shape in (x._shape, made._shape)]
        kinds = x._dtype.char, target
        source, aim = (address(found, x), lay[0]), (found.write(buffer), lay[1])
        fft.transform(found, kinds, n, source, aim, math.prod(x._shape[:-many]), FORWARD if forward else BACKWARD)
    size, how = math.prod(n), _NORMS[norm]
    if how == 2:
        return _scaled(made, 1.0 / math.sqrt(size))
    return _scaled(made, 1 if forward == (how == 0) else 1.0 / size)


def on_fft_fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.fftn`."""
    return _several(a, s, axes, norm, out, True, False)


def on_fft_fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.fft2`."""
    return _several(a, s, axes, norm, out, True, False)


def on_fft_ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.ifftn`."""
    return _several(a, s, axes, norm, out, False, False)


def on_fft_ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.ifft2`."""
    return _several(a, s, axes, norm, out, False, False)


def on_fft_rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.rfftn`."""
    return _several(a, s, axes, norm, out, True, True)


def on_fft_rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """`numpy.fft.rfft2`."""
    return _several(a, s, axes, norm, out, True, True)
