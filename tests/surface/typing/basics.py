"""Arrays of a declared type: making, indexing, reducing, and functions that take and give them."""

import numpy as np
import numpy.typing as npt


def normalised(x: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
    low, high = x.min(axis=axis, keepdims=True), x.max(axis=axis, keepdims=True)
    scaled: npt.NDArray[np.float64] = (x - low) / np.where(high > low, high - low, 1.0)
    return scaled


def moments(x: npt.NDArray[np.float64]) -> tuple[float, float]:
    mean = float(x.mean())
    return mean, float(((x - mean) ** 2).sum() / x.size)


def largest(x: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.intp]:
    order: npt.NDArray[np.intp] = np.argsort(x)
    return order[::-1][:count]


def masked(x: npt.NDArray[np.float64], mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    y = x.copy()
    y[~mask] = np.nan
    return y


def take(values: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=dtype).astype(np.float64)


x: npt.NDArray[np.float64] = np.linspace(0.0, 1.0, 12).reshape(3, 4)
rows, columns = x.shape
assert normalised(x)[0, -1] == 1.0
assert moments(x)[0] > 0.49
assert largest(x.ravel(), 1)[0] == rows * columns - 1
assert int(np.isnan(masked(x, x > 0.5)).sum()) == 6
assert take([1, 2, 3]).dtype == np.float64
single: np.float64 = x[0, 1]
row: npt.NDArray[np.float64] = x[1]
assert isinstance(row, np.ndarray) and row.base is not None
print(np.array2string(x, precision=2), repr(single), row.tolist())
