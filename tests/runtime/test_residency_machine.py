"""The state machine of tests/semantics on a device made of host memory: views, writes, exports, evictions, moves."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import copies, placement, supply, trace
from offarray.runtime.config import config
from offarray.runtime.placement import Rates
from tests.semantics.test_machine import drive

from . import fakedevice, looks

STEPS = int(os.environ.get("OFFARRAY_MACHINE_STEPS", "400"))
RUN = 120


def through(first: int) -> None:
    for seed in range(first, first + STEPS, RUN):
        drive(seed, min(RUN, first + STEPS - seed), Counter())


@pytest.mark.parametrize("memory", [0, 17_000])
def test_small_looks(memory: int) -> None:
    with fakedevice.installed(), config(eager_size=0, faults="deferred", device_memory=memory):
        for seed in range(10, 10 + STEPS // 40):
            looks.drive(seed, RUN)


def test_everything_on_the_device() -> None:
    with fakedevice.installed(), config(eager_size=0, faults="deferred"):
        through(20_000)


def test_evictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second time that memory is needed, somebody has to give some up."""
    count = 0
    plain = supply.take

    def take(device: object, nbytes: int) -> int:
        nonlocal count
        count += 1
        if count % 2:
            supply.evict(device)  # type: ignore[arg-type]
        return plain(device, nbytes)  # type: ignore[arg-type]

    monkeypatch.setattr(supply, "take", take)
    with fakedevice.installed(), config(eager_size=0, faults="deferred"):
        before = trace.counters["evictions"]
        through(30_000)
        assert trace.counters["evictions"] > before + 50


@pytest.mark.parametrize("seed", [40_000, 50_000])
def test_work_that_moves_to_and_fro(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second evaluation or so is placed on the other side."""
    count = 0

    def decide(key: object, work: object) -> bool:
        nonlocal count
        count += 1
        return count * 7 % 5 < 2

    monkeypatch.setattr(placement, "decide", decide)
    monkeypatch.setattr(placement, "SMALL", 0)
    monkeypatch.setattr("offarray._place.SMALL", 0)
    with fakedevice.installed(Rates()), config(eager_size=0, faults="deferred"):
        through(seed)
    assert count > 50


def test_parts_of_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has memory for the parts that it needs alone."""
    monkeypatch.setattr(copies, "WHOLE", 0)
    monkeypatch.setattr(copies, "LINE", 8)
    with fakedevice.installed(), config(eager_size=0, faults="deferred"):
        through(60_000)


def test_a_device_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps run in pieces, and on the host where that is not enough."""
    monkeypatch.setattr(placement, "decide", lambda key, work: True)
    monkeypatch.setattr(placement, "SMALL", 0)
    monkeypatch.setattr("offarray._place.SMALL", 0)
    with fakedevice.installed(Rates()) as fake, config(eager_size=0, faults="deferred"):
        fake.capacity = 3000
        before = dict(trace.counters)
        through(70_000)
        assert trace.counters["split_steps"] > before["split_steps"]
        assert trace.counters["evictions"] > before["evictions"]


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has arrays of its own, and all read one; memory is short for all of them."""
    plain = supply.take
    turns = itertools.count()

    def take(device: Any, nbytes: int) -> int:
        if next(turns) % 3 == 0:
            supply.evict(device)
        return plain(device, nbytes)

    monkeypatch.setattr(supply, "take", take)
    with fakedevice.installed(), config(eager_size=0, faults="deferred"):
        common = np.evaluate(np.array(numpy.arange(3000.0)) * 1)
        problems: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                for k in range(STEPS // 100):
                    looks.drive(seed + k, 60)
                    assert float((common * 2).sum()) == 2 * 2999 * 1500
                    assert common[k * 7 : k * 7 + 5].tolist() == [k * 7.0 + i for i in range(5)]
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(500 + 10 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for problem in problems:
            raise problem
