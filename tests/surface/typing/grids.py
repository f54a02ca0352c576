"""Fields on grids: shapes as types, out= arguments, masks, stencils, files in memory."""

from __future__ import annotations

import io
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Field = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Mask = npt.NDArray[np.bool_]
Edge = Literal["fixed", "periodic"]
STEPS: Final = 20


def heat(u: Field, rate: float, edge: Edge = "fixed") -> Field:
    new = np.empty_like(u)
    if edge == "periodic":
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        np.multiply(around - 4.0 * u, rate, out=new)
        new += u
    else:
        new[:] = u
        new[1:-1, 1:-1] += rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return new


def disc(n: int) -> Mask:
    y, x = np.ogrid[:n, :n]
    inside: Mask = (x - n / 2) ** 2 + (y - n / 2) ** 2 < (n / 4) ** 2
    return inside


def spectrum(u: Field) -> npt.NDArray[np.float64]:
    found = np.fft.rfft2(u)
    power: npt.NDArray[np.float64] = found.real**2 + found.imag**2
    return np.asarray(power.sum(axis=0), dtype=np.float64)


def stored(u: Field) -> Field:
    file = io.BytesIO()
    np.savez(file, u=u, steps=np.array(STEPS))
    file.seek(0)
    with np.load(file) as kept:
        back: Field = kept["u"]
    return back


def main() -> None:
    u: Field = np.zeros((32, 32))
    u[disc(32)] = 1.0
    for _ in range(STEPS):
        u = heat(u, 0.2)
    v = heat(stored(u), 0.1, "periodic")
    ranks: npt.NDArray[np.intp] = np.argsort(spectrum(v), kind="stable")[::-1][:3]
    levels = np.digitize(v.ravel(), np.linspace(0.0, 1.0, 5)).astype(np.int8)
    counts = np.bincount(levels, minlength=6)
    row, column = divmod(int(v.argmax()), v.shape[1])
    print(ranks.tolist(), counts.tolist(), (row, column), f"{v.sum():.9f}", v.flags["C_CONTIGUOUS"])


main()
