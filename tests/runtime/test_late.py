"""Warnings of launches that are not waited for: each comes once, names its line, and needs what the kernel has read."""

from __future__ import annotations

import ctypes
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import late, trace
from offarray.runtime.config import config

from ..codegen import emulate

pytestmark = pytest.mark.skipif(not emulate.possible(), reason="needs a C compiler and an x86-64 processor")
N = 3000


@pytest.fixture
def fake() -> Iterator[emulate.EmulatedDevice]:
    with emulate.installed() as device, config(eager_size=0, faults="deferred"):
        late.forget()
        device.lazy = True
        yield device
        device.synchronize()
        late.forget()


def line() -> int:
    """The caller's line."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def array() -> Any:
    return np.evaluate(np.arange(float(N)) - 1.0)


def test_at_the_look(fake: emulate.EmulatedDevice) -> None:
    a = array()
    b, where = np.evaluate(1.0 / (a - 5.0)), line()
    assert late.waiting
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as told:
        numpy.asarray(b)
    assert [(w.filename, w.lineno) for w in told] == [(__file__, where)]
    assert not late.waiting
    numpy.asarray(b)  # once


def test_nothing_wrong_nothing_said(fake: emulate.EmulatedDevice) -> None:
    a = array()
    for _ in range(late.MOST + 3):
        b = np.evaluate(a + 1.0)
    assert len(late.waiting) <= late.MOST
    assert float(b[1]) == 1.0 and not late.waiting


def test_at_the_next_evaluation(fake: emulate.EmulatedDevice) -> None:
    a = array()
    b = np.evaluate(numpy.float64(1.0) / (a - 5.0))
    fake.synchronize()
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.evaluate(b * 0.5)


def test_sources_are_kept_until_then(fake: emulate.EmulatedDevice) -> None:
    """Written in place, overwritten by the host, or dropped: the second look still has what the first one had."""
    a = array()
    b = np.evaluate(np.sqrt(a))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        a[...] = 4.0
        np.evaluate(a)
        numpy.asarray(a)
    a = array()
    b = np.evaluate(np.sqrt(a))
    del a
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        numpy.asarray(b)
    a = array()
    b = np.evaluate(np.sqrt(a))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        a += 1.0
        numpy.asarray(a)
    assert float(a[0]) == 0.0


def test_memory_comes_first(fake: emulate.EmulatedDevice) -> None:
    """What is kept for a warning alone is let go before anything is moved to the host."""
    with config(device_memory=4 * 8 * N):
        a = array()
        before = trace.counters["d2h_bytes"]
        for _ in range(8):
            a = np.evaluate(np.sqrt(a + 2.0))
        assert late.waiting and trace.counters["d2h_bytes"] == before
        assert float(a[1]) > 1


def test_in_place(fake: emulate.EmulatedDevice) -> None:
    """A kernel that overwrites what it reads reports by itself."""
    a = array()
    a = np.evaluate(a / (a - 5.0))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        numpy.asarray(a)


def test_now_where_warnings_are_caught(fake: emulate.EmulatedDevice) -> None:
    """Other modes than "warn", and caught warnings, want to know at the statement."""
    a = array()
    with config(faults="auto"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            np.evaluate(1.0 / (a - 5.0))
    with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        np.evaluate(1.0 / (a - 5.0))
    assert not late.waiting and not late.found


WRONG = ["overflow", "overflow", "divide by zero", "invalid value"]


def test_several_say_what_was_wrong_in_order(fake: emulate.EmulatedDevice) -> None:
    a = array()
    b = np.evaluate(a * 1e308 * 10.0)
    c = np.evaluate(np.log(a - 1.0))
    with pytest.warns(RuntimeWarning) as told:
        numpy.asarray(c)
    del b
    assert [str(w.message).split(" encountered")[0] for w in told] == WRONG


def test_a_room_is_made_while_others_are_looked_at(
    fake: emulate.EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may bring a device into use while this one settles, or looks whether it has to."""
    a = array()
    told = late.Room.told

    class Device:
        """Another one, whose memory is the host's."""

        def mapped(self, nbytes: int) -> tuple[int, int]:
            self.memory = (ctypes.c_uint8 * nbytes)()
            return ctypes.addressof(self.memory), ctypes.addressof(self.memory)

    others: list[Device] = []

    def telling(room: late.Room) -> bool:
        if room.device is fake:
            others.append(Device())
            late.ready(others[-1])
        return told(room)

    monkeypatch.setattr(late.Room, "told", telling)
    b = np.evaluate(np.sqrt(a - 5.0))
    late.check(False)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        numpy.asarray(b)
    assert others
