"""Sizes of the surface's tests: 500 elements and less are small work here, whatever the default."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offarray.runtime.config import config


@pytest.fixture(autouse=True)
def _small_work() -> Iterator[None]:
    with config(eager_size=500):
        yield
