"""Random numbers by generators that are handed on."""

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, default_rng


def walk(rng: Generator, steps: int) -> npt.NDArray[np.float64]:
    return np.cumsum(rng.standard_normal(steps))


def sample(rng: np.random.Generator, population: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    return rng.choice(population, size=count, replace=False)


def pi(rng: np.random.Generator, count: int) -> float:
    points = rng.random((count, 2))
    inside = (points**2).sum(axis=1) <= 1.0
    return 4.0 * float(np.count_nonzero(inside)) / count


rng = default_rng(seed=7)
assert walk(rng, 100).shape == (100,)
assert len(set(sample(rng, np.arange(50), 10).tolist())) == 10
assert 2.5 < pi(np.random.default_rng(np.random.PCG64(3)), 2000) < 3.8
noise: npt.NDArray[np.float32] = rng.standard_normal(8, dtype=np.float32)
dice: npt.NDArray[np.int64] = rng.integers(1, 7, size=(2, 5))
assert dice.min() >= 1
shuffled = rng.permutation(dice, axis=1)
children = rng.spawn(2)
assert len(children) == 2 and noise.dtype == np.float32 and shuffled.shape == dice.shape
np.random.seed(0)
legacy: npt.NDArray[np.float64] = np.random.rand(3)
assert legacy.shape == (3,)
