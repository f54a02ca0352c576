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
from .librarycases import CASES, HOSTED, REFUSED, compare


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
