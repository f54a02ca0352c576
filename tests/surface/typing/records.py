"""Tables of records, dates and texts: structured types, unions of scalars, generics over element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
ROW = np.dtype([("day", "M8[D]"), ("city", "U8"), ("high", "f8"), ("count", "i4")])


class Column(Generic[Scalar]):
    """Values of one type with a name."""

    def __init__(self, name: str, values: NDArray[Scalar]) -> None:
        self.name = name
        self.values = values

    def take(self, where: NDArray[np.bool_] | Sequence[int]) -> Column[Scalar]:
        return Column(self.name, self.values[np.asarray(where)])

    def __len__(self) -> int:
        return len(self.values)


def table(rows: Sequence[tuple[str, str, float, int]]) -> NDArray[np.void]:
    return np.array([(np.datetime64(d), c, h, n) for d, c, h, n in rows], dtype=ROW)


def means(keys: NDArray[np.str_], values: NDArray[np.float64]) -> Mapping[str, float]:
    names, places = np.unique(keys, return_inverse=True)
    total = np.bincount(places, weights=values)
    number = np.bincount(places)
    return {str(n): float(t / k) for n, t, k in zip(names, total, number, strict=True)}


def empty(dtype: DTypeLike, *shape: int) -> NDArray[Any]:
    return np.empty(shape, dtype=dtype)


def main() -> None:
    rows = table([("2024-02-28", "Oslo", 1.5, 3), ("2024-03-01", "Rome", 16.0, 4), ("2024-03-02", "Oslo", 3.0, 5)])
    days: NDArray[np.datetime64] = rows["day"]
    gaps: NDArray[np.timedelta64] = np.diff(days)
    high = Column("high", rows["high"])
    warm = high.take(high.values > 2.0)
    print(means(rows["city"], rows["high"]), gaps.astype(np.int64).tolist(), len(warm), warm.values.tolist())
    rows["count"] += 1
    print(
        rows["count"].sum(),
        np.char.upper(rows["city"]).tolist(),
        empty("f4", 2, 0).shape,
        rows[rows["high"].argmax()]["city"],
    )


main()
