"""Library steps on a device made of host memory: every form agrees with NumPy, and runs on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import trace
from offarray.runtime.config import config

from . import fakelibraries
from .librarycases import CASES, DRAWS, HOSTED, REFUSED, REFUSED_DRAWS, compare, draw_of


@pytest.fixture(scope="module")
def libraries() -> Iterator[Any]:
    with fakelibraries.installed() as found, config(eager_size=0):
        yield found


@pytest.mark.parametrize("name", CASES)
def test_forms_agree_with_numpy(libraries: Any, name: str) -> None:
    case = CASES[name]
    want = case(numpy, lambda x: x)
    trace.reset()
    got = case(np, np.array)
    assert (trace.counters["library_steps"] > 0) == (name not in HOSTED)
    compare(got, want)


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(libraries: Any, name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(Exception) as want:
        case(numpy, lambda x: x)
    with pytest.raises(want.type) as got:
        case(np, np.array)
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("seed", range(4))
def test_random_numbers_and_states_are_numpys(libraries: Any, seed: int) -> None:
    theirs, ours = numpy.random.default_rng(seed), np.random.default_rng(seed)
    trace.reset()
    for k in numpy.random.default_rng(seed + 100).integers(0, len(DRAWS), 30):
        want, got = draw_of(theirs, DRAWS[k]), draw_of(ours, DRAWS[k])
        compare(got, want)
        assert (numpy.asarray(got) == numpy.asarray(want)).all(), DRAWS[k]
        assert ours.bit_generator.state == theirs.bit_generator.state, DRAWS[k]
    assert trace.counters["library_steps"] > 10


@pytest.mark.parametrize("draw", REFUSED_DRAWS, ids=str)
def test_draws_that_numpy_refuses_are_refused(libraries: Any, draw: Any) -> None:
    theirs, ours = numpy.random.default_rng(1), np.random.default_rng(1)
    with pytest.raises(Exception) as want:
        draw_of(theirs, draw)
    with pytest.raises(want.type) as got:
        draw_of(ours, draw)
    assert str(got.value) == str(want.value)
    assert ours.bit_generator.state == theirs.bit_generator.state
