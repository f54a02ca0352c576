"""The state machine of tests/semantics with its memory on a real device (or, without one, on the fake one)."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from offarray.runtime import copies, cuda, supply, trace
from offarray.runtime.config import config
from tests.semantics.test_machine import drive

from . import fakedevice, looks, mirror

STEPS = int(os.environ.get("OFFARRAY_MACHINE_STEPS", "240"))
FIRST = int(os.environ.get("OFFARRAY_MACHINE_FIRST", "80000"))
RUN = 120


@contextlib.contextmanager
def device() -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        if not cuda.available():
            stack.enter_context(fakedevice.installed())
        yield stack.enter_context(mirror.installed())


@pytest.mark.parametrize("way", ["plain", "evictions", "parts"])
def test_random_steps(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    plain = supply.take

    def take(where: Any, nbytes: int) -> int:
        nonlocal count
        count += 1
        if count % 3 == 0:
            supply.evict(where)
        return plain(where, nbytes)

    if way == "evictions":
        monkeypatch.setattr(supply, "take", take)
    if way == "parts":
        monkeypatch.setattr(copies, "WHOLE", 0)
        monkeypatch.setattr(copies, "LINE", 8)
    with device() as found, config(eager_size=0, faults="deferred"):
        before = dict(trace.counters)
        for seed in range(FIRST, FIRST + STEPS, RUN):
            drive(seed, min(RUN, FIRST + STEPS - seed), Counter())
            looks.drive(seed, RUN)
        moved = {
            name: trace.counters[name] - before[name] for name in ("kernels", "h2d_bytes", "d2h_bytes", "evictions")
        }
    print(f"{found.name}: {STEPS} steps, {moved}")
    assert moved["kernels"] and moved["h2d_bytes"] and moved["d2h_bytes"]
    assert way != "evictions" or moved["evictions"]
