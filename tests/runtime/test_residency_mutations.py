"""Faults put into residency on purpose: the state machine on a device made of host memory finds each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from offarray import _evaluate
from offarray.runtime import buffer as buffers
from offarray.runtime import copies, residency, supply
from offarray.runtime.config import config
from tests.semantics.test_machine import drive

from . import fakedevice, looks

STEPS = 2400
RUN = 120

_look, _bring, _part = copies.Copy.look, copies.Copy.bring, copies.Copy._part


def look_without_writing(self: Any, buffer: Any, write: bool = True, *args: Any) -> None:
    _look(self, buffer, False, *args)


def bring_nothing(self: Any, buffer: Any, low: int, high: int, overwritten: bool) -> None:
    self.first, self.last = self.low, self.high


def bring_less(self: Any, buffer: Any, low: int, high: int, overwritten: bool) -> None:
    _bring(self, buffer, low, high, True)


def leave_without_value(self: Any, buffer: Any) -> None:
    self.host = True
    if self.pointer:
        self.release()


def written_and_unsaid(self: Any) -> None:
    self.peeks = 0


def parts_kept(self: Any) -> None:
    self.host = False


def part_claimed(self: Any, buffer: Any, low: int, high: int) -> bool:
    return True


def columns_claimed(self: Any, *args: Any) -> bool:
    self._room(args[0])
    return not self.host


MUTATIONS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "the host's writes": (copies.Copy, "look", look_without_writing),
    "sending": (copies.Copy, "bring", bring_nothing),
    "sending what is not overwritten": (copies.Copy, "bring", bring_less),
    "fetching before memory is given back": (copies.Copy, "leave", leave_without_value),
    "the device's writes": (copies.Copy, "written", written_and_unsaid),
    "parts that are out of date": (copies.Copy, "written", parts_kept),
    "fetching a part": (copies.Copy, "_part", part_claimed),
    "fetching columns": (copies.Copy, "columns", columns_claimed),
    "what the host has seen": (_evaluate, "renew", lambda node: None),
    "copies within the device": (buffers, "carry", lambda *args: True),
    "memory that others look at": (residency, "settle", lambda *args: None),
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device on which every fourth that needs memory makes somebody give some up."""
    plain, count = supply.take, 0

    def take(device: Any, nbytes: int) -> int:
        nonlocal count
        count += 1
        if count % 4 == 0:
            supply.evict(device)
        return plain(device, nbytes)

    monkeypatch.setattr(supply, "take", take)
    with fakedevice.installed(), config(eager_size=0, faults="deferred"):
        yield


def everything(steps: int) -> None:
    for seed in range(90_000, 90_000 + steps, RUN):
        looks.drive(seed, RUN)
        drive(seed, RUN, Counter())


def test_nothing_is_found_without_a_fault(short: None) -> None:
    everything(RUN * 3)


@pytest.mark.parametrize("name", MUTATIONS)
def test_found(name: str, short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, wrong = MUTATIONS[name]
    with monkeypatch.context() as changed:
        changed.setattr(place, attribute, wrong)
        with pytest.raises(Exception):  # noqa: B017 - whatever shows it first
            everything(STEPS)
