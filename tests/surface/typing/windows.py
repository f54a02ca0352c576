"""Functions of NumPy's inner modules, text, files and masks."""

import io

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.polynomial import Polynomial
from numpy.polynomial import polynomial as P
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray


def smoothed(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    out: NDArray[np.float64] = sliding_window_view(x, width).mean(axis=-1)
    return out


def corrected(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.nan_to_num(np.clip(x, 0.0, 1.0), nan=0.5)


x = np.arange(10.0)
assert smoothed(x, 3).shape == (8,)
assert as_strided(x, (3, 2), (8, 8)).shape == (3, 2)
assert corrected(np.array([np.nan, 2.0]))[1] == 1
line = Polynomial.fit(x, 3 * x, 1)
assert np.isclose(line(2.0), 6.0)
assert P.polyval(2.0, [1.0, 1.0]) == 3.0
assert chebval(1.0, [1.0, 1.0]) == 2.0
text = io.StringIO()
np.savetxt(text, x.reshape(2, 5), fmt="%g")
text.seek(0)
assert np.loadtxt(text).shape == (2, 5)
masked = np.ma.masked_greater(x, 5)
assert masked.count() == 6
assert np.char.upper(np.array(["a"]))[0] == "A"
values, counts = np.unique(np.array([1, 1, 2]), return_counts=True)
assert counts.tolist() == [2, 1] and values.tolist() == [1, 2]
grid = np.mgrid[0:2, 0:3]
assert grid.shape == (2, 2, 3)
assert np.r_[1:3, 5].tolist() == [1, 2, 5]
np.testing.assert_allclose(x, x)
with np.printoptions(precision=3):
    print(x)
