"""Values that make room go to pinned memory, which is kept, bounded, and done without where there is none."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import pinned, placement, pool, residency, supply
from offarray.runtime.config import config
from offarray.runtime.errors import DeviceError, DeviceLostError, LostValueError

from . import fakedevice

N = 1 << 17  # of float64: a block of 1 MiB
SIZE = 8 * N


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No block is left by, or for, other tests."""
    gc.collect()
    before = pinned.held()
    yield
    gc.collect()
    pinned.trim()
    assert pinned.held() == before
    monkeypatch.setattr(pinned, "_refused", 0)


def made(k: float) -> Any:
    """An array that the device alone has."""
    return np.evaluate(np.arange(float(N)) + k)


def buffer_of(x: Any) -> Any:
    return x._base.node.buffer


def test_what_leaves_goes_to_pinned_memory_and_comes_back(fake: fakedevice.FakeDevice) -> None:
    x, y = made(1), made(2)
    with supply.keeping(buffer_of(y)):
        assert supply.evict(fake)
    assert list(fake.registered.values()) == [SIZE] and buffer_of(x).address in fake.registered
    assert (numpy.asarray(x) == numpy.arange(N) + 1.0).all()
    waits = fake.waits
    x2 = np.evaluate(x * 2)  # it goes back without anybody waiting
    assert fake.waits == waits
    x.sort()  # the host writes it
    assert fake.waits == waits + 1
    x[5] = 100
    assert float(np.evaluate(x + 1)[5]) == 101 and float(x2[5]) == 12 and float(y[5]) == 7


def test_blocks_are_kept_for_one_another(fake: fakedevice.FakeDevice) -> None:
    for k in range(5):
        x = made(k)
        assert supply.evict(fake) and float(x[3]) == 3 + k
        view = numpy.asarray(x)[10:20]
        del x
        gc.collect()
        assert view[0] == 10 + k
        del view
        gc.collect()
    assert list(fake.registered.values()) == [SIZE] and pinned.held() == SIZE
    x = made(7)
    assert (numpy.asarray(x) == numpy.arange(N) + 7.0).all()  # a look takes what is free
    assert buffer_of(x).address in fake.registered
    kept = numpy.asarray(x)
    y = made(8)
    supply.evict(fake)
    assert (kept == numpy.arange(N) + 7.0).all() and (numpy.asarray(y) == numpy.arange(N) + 8.0).all()


def test_looks_pin_nothing(fake: fakedevice.FakeDevice) -> None:
    assert (numpy.asarray(made(1)) == numpy.arange(N) + 1.0).all()
    assert not fake.registered


def test_the_limit(fake: fakedevice.FakeDevice, capsys: pytest.CaptureFixture[str]) -> None:
    with config(pinned_bytes=2 * SIZE, debug=1):
        some = [made(k) for k in range(4)]
        while supply.evict(fake):
            pass
        assert pinned.held() == 2 * SIZE and "go to pageable memory" in capsys.readouterr().err
        assert all(float(x[1]) == 1 + k for k, x in enumerate(some))
        del some
        gc.collect()
        large = np.evaluate(np.arange(1.5 * N) + 1)  # of another class: free blocks make room for it
        supply.evict(fake)
        assert pinned.held() == 3 * SIZE // 2 and float(large[5]) == 6
    with config(pinned_bytes=0):
        y = made(5)
        supply.evict(fake)
        assert buffer_of(y).address not in fake.registered and float(y[1]) == 6


def test_memory_that_cannot_be_pinned(fake: fakedevice.FakeDevice, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(address: int, nbytes: int) -> None:
        raise DeviceError("cuMemHostRegister: CUDA_ERROR_OPERATING_SYSTEM")

    fake.register = refuse  # type: ignore[method-assign]
    with config(debug=1):
        some = [made(k) for k in range(3)]
        while supply.evict(fake):
            pass
        assert all(float(x[1]) == 1 + k for k, x in enumerate(some))
        assert capsys.readouterr().err.count("CUDA_ERROR_OPERATING_SYSTEM") == 1  # it is not tried again
    assert pinned.held() == 0


def test_memory_is_counted(fake: fakedevice.FakeDevice) -> None:
    live = pool.stats()["live"]
    x = made(1)
    supply.evict(fake)
    assert pool.stats()["live"] == live + SIZE
    del x
    gc.collect()
    assert pool.stats()["live"] == live


def test_results_in_place_and_donated(fake: fakedevice.FakeDevice) -> None:
    x = made(1)
    supply.evict(fake)
    x *= 3.0
    x[2:5] = x[3:6] * 2
    y = np.sqrt(x * x)
    want = (numpy.arange(N) + 1.0) * 3
    want[2:5] = want[3:6] * 2
    assert (numpy.asarray(y) == want).all() and (numpy.asarray(x) == want).all()
    np.pin(x)
    np.to_host(x)
    with config(device="cpu"):
        x += 1.0
        assert float(x[9]) == want[9] + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_what_was_pinned(fake: fakedevice.FakeDevice) -> None:
    x, y = made(1), made(2)
    supply.evict(fake)
    child = os.fork()
    if not child:
        fake.blocks.clear()
        right = float(x[3]) == 4 and float(y[3]) == 5 and float(np.evaluate(x * 2)[3]) == 8
        del x, y
        os._exit(0 if right and not pinned._free else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert float(np.evaluate(x + y)[3]) == 9


def test_a_lost_device_leaves_it_behind(fake: fakedevice.FakeDevice) -> None:
    x, y = made(1), made(2)
    with supply.keeping(buffer_of(y)):
        supply.evict(fake)
    free = made(3)
    with supply.keeping(buffer_of(y)):
        supply.evict(fake)
    del free
    gc.collect()
    fake.lost = "CUDA_ERROR_ILLEGAL_ADDRESS"
    residency.mourn(fake, fake.lost)  # type: ignore[arg-type]
    try:
        assert (numpy.asarray(x) == numpy.arange(N) + 1.0).all() and not pinned._free
        with pytest.raises(LostValueError):
            y.tolist()
        assert float(np.evaluate(x * 2)[1]) == 4
        del x
        gc.collect()
        assert not pinned._free
        with pytest.raises(DeviceLostError):
            fake.found()
    finally:
        placement.lost.clear()
        fake.registered.clear()
        pinned._taken = 0
