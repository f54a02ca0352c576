"""Linear algebra and transforms."""

from typing import Any, NamedTuple

import numpy as np
import numpy.linalg as la
from numpy.fft import fft, fftfreq, ifft
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]
Spectrum = NDArray[np.complexfloating[Any, Any]]


class Fit(NamedTuple):
    """Coefficients of a straight line and the residual."""

    coefficients: Matrix
    residual: float


def line(x: Matrix, y: Matrix) -> Fit:
    design = np.column_stack([np.ones_like(x), x])
    found, *_ = np.linalg.lstsq(design, y, rcond=None)
    return Fit(found, float(la.norm(y - design @ found)))


def inverse(a: Matrix) -> Matrix:
    out: Matrix = la.inv(a)
    return out


def low_pass(signal: Matrix, limit: float) -> Matrix:
    spectrum: Spectrum = fft(signal)
    frequencies = fftfreq(signal.size)
    spectrum[np.abs(frequencies) > limit] = 0
    return ifft(spectrum).real


x = np.linspace(0, 1, 20)
fit = line(x, 2 * x + 1)
assert np.allclose(fit.coefficients, [1, 2]) and fit.residual < 1e-9
a = np.array([[2.0, 1.0], [1.0, 3.0]])
assert np.allclose(inverse(a) @ a, np.eye(2))
q, r = np.linalg.qr(a)
assert np.allclose(q @ r, a)
decomposition = np.linalg.svd(a)
assert decomposition.S.shape == (2,)
values, vectors = np.linalg.eigh(a)
assert np.allclose(a @ vectors, vectors * values)
assert np.einsum("ij,jk->ik", a, a).shape == (2, 2)
assert low_pass(np.sin(x), 0.1).shape == x.shape
try:
    la.inv(np.zeros((2, 2)))
except np.linalg.LinAlgError as error:
    print(error)
else:
    raise AssertionError
