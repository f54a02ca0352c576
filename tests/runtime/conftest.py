"""Fixtures of the tests of the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offarray.runtime import trace
from offarray.runtime.config import config

from . import fakedevice


@pytest.fixture
def fake() -> Iterator[fakedevice.FakeDevice]:
    with fakedevice.installed() as device, config(eager_size=0, faults="deferred"):
        trace.reset()
        yield device
