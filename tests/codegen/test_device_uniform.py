"""Folds of values that are the same everywhere, in launches whose threads take several points each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config

from . import emulate

PROGRAMS: dict[str, Callable[[Any, str], Any]] = {
    "rows": lambda np, t: np.full((8, 3000), 2, t).sum(axis=1),
    "columns": lambda np, t: np.full((3000, 8), 2, t).sum(axis=0),
    "all but one": lambda np, t: np.full((8, 12, 240), 1, t).sum(axis=(1, 2)) * np.full(8, 3, t),
    "two after each other": lambda np, t:
        (np.full((8, 12, 240), 1, t).sum(axis=2) * np.full((8, 12), 3, t)).sum(axis=1),
    "beside what varies": lambda np, t:
        np.full((8, 3000), 2, t).sum(axis=1) + np.arange(24000).reshape(8, 3000).sum(axis=1),
    "back over the rows": lambda np, t: np.full((8, 3000), 2, t) + np.full((8, 3000), 2, t).sum(axis=1)[:, None],
    "two results": lambda np, t: np.stack([np.full((8, 3000), 2, t).sum(axis=1), np.full(8, 3, t) * 2]),
    "greatest": lambda np, t: np.full((8, 3000), 2, t).max(axis=1) * np.full(8, 3, t),
}  # fmt: skip


@pytest.mark.skipif(not emulate.possible(), reason="no C compiler, or another processor")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_folds_of_uniform_values(program: str, dtype: str) -> None:
    run = PROGRAMS[program]
    with emulate.installed(), config(eager_size=0):
        found = numpy.asarray(run(np, dtype))
    want = numpy.asarray(run(numpy, dtype))
    assert found.dtype == want.dtype and (found == want).all()
