"""Random expression graphs: NumPy's values, and the same bits however the graph is cut into kernels."""

from __future__ import annotations

import os
from typing import Any

import numpy
import pytest

from tests import twice
from tests.semantics.graphs import program
from tests.twice import MODULE as np

SEEDS = int(os.environ.get("OFFARRAY_GRAPHS", "40"))


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("way", ["interpret", "lazy", "bound3"])
def test_values_are_numpys(seed: int, way: str) -> None:
    twice.same(program(seed), way)


@pytest.mark.parametrize("seed", range(100, 100 + SEEDS // 4))
@pytest.mark.parametrize("way", ["lazy", "default"])
def test_larger_arrays(seed: int, way: str) -> None:
    twice.same(program(seed, side=700, length=14), way)


def run(body: twice.Body, **values: Any) -> Any:
    if not twice.SELF:
        twice.MODULE.synchronize()  # what is pending from before would have the graph cut elsewhere
    with twice.settings(**values):
        return twice.seen(body(twice.MODULE))


def close(got: Any, want: Any) -> bool:
    """Whether every array agrees within rounding."""
    if isinstance(want, twice.Seen):
        scale = float(numpy.max(numpy.abs(want.value), initial=1.0))
        return numpy.allclose(got.value, want.value, rtol=1e-9, atol=1e-11 * scale)
    return all(close(g, w) for g, w in zip(got, want, strict=True) if not isinstance(w, str))


LAZY: dict[str, Any] = {"eager_size": 0, "faults": "deferred"}


@pytest.mark.parametrize("seed", range(200, 200 + SEEDS // 2))
def test_fused_is_unfused(seed: int) -> None:
    """Transcendental functions too: how the graph is cut changes no bit."""
    body = program(seed, exact=False, side=60, sums=False)
    fused = run(body, **LAZY)
    for values in ({"bound": 1}, {"bound": 5, "donate": False}):
        problem = twice.differ(run(body, **LAZY, **values), fused)
        assert not problem, f"{values}: {problem}"
    assert close(fused, twice.seen(body(numpy)))


@pytest.mark.parametrize("seed", range(300, 300 + SEEDS // 2))
def test_sums(seed: int) -> None:
    """The same kernels give the same bits on any number of threads; other kernels and NumPy agree within rounding."""
    body = program(seed, exact=False, side=60)
    fused = run(body, **LAZY)
    for values in ({"threads": 1}, {"donate": False}):
        problem = twice.differ(run(body, **LAZY, **values), fused)
        assert not problem, f"{values}: {problem}"
    assert close(run(body, **LAZY, bound=1), fused)
    assert close(fused, twice.seen(body(numpy)))


GENERATORS: dict[str, Any] = {
    "eye": lambda np: np.eye(60),
    "eye beside the diagonal": lambda np: (np.eye(40, 60, 2), np.eye(60, 30, -2, dtype="i4"), np.eye(50, dtype=bool)),
    "eye without columns": lambda np: np.eye(3, 0),
    "identity": lambda np: np.identity(70, dtype="c8") * 2,
    "indices": lambda np: np.indices((40, 50)),
    "full": lambda np: np.full((40, 50), 7, dtype="u1") + np.ones((40, 50), "i8"),
    "arange": lambda np: (np.arange(3000), np.arange(0.5, 900.0, 0.3), np.arange(5000, 10, -2)),
    "linspace": lambda np: np.linspace(-1, 2, 3001),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name: str) -> None:
    before = np.stats()["fallbacks"]
    with np.config(eager_size=0):
        got = GENERATORS[name](np)
        want = GENERATORS[name](numpy)
        for x, y in zip(*[(v if isinstance(v, tuple) else (v,)) for v in (got, want)], strict=True):
            assert numpy.asarray(x).dtype == y.dtype
            numpy.testing.assert_array_equal(numpy.asarray(x), y)
    assert np.stats()["fallbacks"] == before
