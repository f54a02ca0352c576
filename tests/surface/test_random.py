"""Random numbers: NumPy's streams, as handles."""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest

import offarray as np

from .compare import same

DRAWS = {
    "random": lambda r: r.random((3, 4)),
    "normal": lambda r: r.normal(size=5),
    "integers": lambda r: r.integers(0, 9, 7),
    "choice": lambda r: r.choice(5, 3, replace=False),
    "permutation": lambda r: r.permutation(6),
    "multivariate": lambda r: r.multivariate_normal([0, 1], [[1, 0], [0, 1]], 3),
    "scalar": lambda r: r.random(),
    "dirichlet": lambda r: r.dirichlet([1.0, 2]),
    "large": lambda r: r.standard_normal(5000),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generators_give_numpys_streams(name: str) -> None:
    draw = DRAWS[name]
    ours, theirs = np.random.default_rng(7), numpy.random.default_rng(7)
    for _ in range(2):
        same(draw(ours), draw(theirs))
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("bits", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_bit_generators(bits: str) -> None:
    ours = np.random.Generator(getattr(np.random, bits)(3))
    same(ours.random(4), numpy.random.Generator(getattr(numpy.random, bits)(3)).random(4))
    back = pickle.loads(pickle.dumps(ours))
    assert type(back) is np.random.Generator
    same(back.random(3), numpy.asarray(ours.random(3)))
    assert all(type(child) is np.random.Generator for child in ours.spawn(2))


def test_legacy_functions_and_state() -> None:
    def body(np: Any) -> Any:
        np.random.seed(4)
        r = np.random.RandomState(5)
        state = r.get_state()[1][:3]
        return (
            np.random.rand(2, 2),
            np.random.randn(3),
            np.random.randint(0, 9, 4),
            r.normal(size=3),
            list(map(int, state)),
        )

    numpy_state = numpy.random.get_state()
    try:
        same(body(np), body(numpy))
    finally:
        numpy.random.set_state(numpy_state)


def test_operands_may_be_handles() -> None:
    same(
        np.random.default_rng(1).normal(np.arange(3.0), np.array([1.0, 2, 3])),
        numpy.random.default_rng(1).normal(numpy.arange(3.0), numpy.array([1.0, 2, 3])),
    )
    rng = np.random.default_rng(np.random.SeedSequence(3))
    assert isinstance(rng, numpy.random.Generator)
    assert np.random.default_rng(rng) is rng
