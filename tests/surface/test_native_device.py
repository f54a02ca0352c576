"""Forms that are recorded where a device runs: the same values, without a step on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import trace
from offarray.runtime.config import config

from ..runtime import fakelibraries
from .compare import same


@pytest.fixture
def device(_small_work: None) -> Iterator[Any]:
    """A device made of host memory; everything is large work."""
    with fakelibraries.installed() as found, config(eager_size=0):
        yield found


CASES: dict[str, Any] = {
    "convolve": lambda np, x, y: [np.convolve(x, y[:k], mode) for k in (4, 5) for mode in ("full", "same", "valid")],
    "correlate": lambda np, x, y: [np.correlate(x, y[:k], mode) for k in (4, 5) for mode in ("full", "same", "valid")],
    "interp": lambda np, x, y: (
        np.interp(x, np.linspace(-1, 1, 9), np.cos(np.linspace(-1, 1, 9))),
        np.interp(x, [0.0, 1.0], [2.0, 3.0], left=-1.0),
    ),
    "copies": lambda np, x, y: (x.copy(), np.repeat(x, 3), np.tile(x, 2), np.array(x), np.zeros_like(x) + 1),
    "joins": lambda np, x, y: (np.concatenate([x, y]), np.stack([x, y], 1), np.hstack([x, y]), np.append(x, y)),
    "outer": lambda np, x, y: (np.outer(x, y), *np.meshgrid(x, y), np.kron(x[:9], y[:9])),
    "holes": lambda np, x, y: (
        np.nansum(x), np.nanmean(x), np.polyval([1.0, 2.0, 3.0], x), np.roll(x, 5), np.rot90([x, y]),
    ),
    "moments": lambda np, x, y: (np.cov(x, y), np.corrcoef(x, y)),
}  # fmt: skip


def _written(np: Any, x: Any, y: Any) -> Any:
    index = np.argsort(y) // 2
    made = [x + 1 for _ in range(6)]
    made[0][index] = y
    made[1][index - 40] = 3.0
    np.put(made[2], index, y)
    made[3][index[:7]] = y[:7] * 2
    made[4][::2][index // 2] = y
    later = made[5] * 2
    made[5][np.array([3, 3, 5])] = np.array([1.0, 2.0, 3.0])
    return *made, later


CASES["writes"] = _written


@pytest.mark.parametrize("name", CASES)
def test_values_on_a_device(device: Any, name: str) -> None:
    rng = numpy.random.default_rng(8)
    x, y = rng.normal(size=60), rng.normal(size=60)
    want = CASES[name](numpy, x.copy(), y.copy())
    given = np.array(x), np.array(y)
    np.evaluate(given[0] + given[1])  # both are on the device now
    before, steps = trace.counters["fallbacks"], trace.counters["library_steps"]
    got = CASES[name](np, *given)
    same(got, want, 1e-12)
    assert trace.counters["fallbacks"] == before
    assert name != "writes" or trace.counters["library_steps"] >= steps + 9  # two sorts or searches for each write
