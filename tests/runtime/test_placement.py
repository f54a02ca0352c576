"""The cost model and its decisions as pure functions; what `auto` does with a device made of host memory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import cache, placement, trace
from offarray.runtime.buffer import Buffer, adopt
from offarray.runtime.config import config
from offarray.runtime.errors import DeviceError
from offarray.runtime.placement import Ledger, Rates, Work, costs

from . import fakedevice

RATES = Rates(
    h2d=1e10, d2h=1e10, host=1e10, device=1e12, host_flops=1e10, device_flops=1e12, launch=1e-4, transfer=1e-5
)
GB = 10**9


def sides(work: Work) -> tuple[float, float]:
    """Seconds on host and device, with all transfers."""
    cost = costs(work, RATES)
    return cost.host + cost.to_host, cost.device + cost.to_device


def test_costs() -> None:
    assert costs(Work(GB), RATES) == pytest.approx((0.1, 1e-4 + 1e-3, 0, 0))
    assert costs(Work(GB, flops=5e9), RATES)[:2] == pytest.approx((0.5, 1e-4 + 5e-3))
    assert costs(Work(GB, up=GB, each=GB // 2), RATES) == pytest.approx((0.1, 1.1e-3 + 1e-5 + 0.05, 0, 1e-5 + 0.05))
    assert costs(Work(GB, down=GB), RATES).to_host == pytest.approx(1e-5 + 0.1)
    assert costs(Work(GB, looked=GB), RATES).device == pytest.approx(1.1e-3 + 1e-5 + 0.1)
    host, device = sides(Work(8000))
    assert host < device


def test_cheaper_side_at_once() -> None:
    ledger = Ledger()
    assert not ledger.choose("small", costs(Work(8000, up=8000), RATES))
    assert not ledger.choose("once", costs(Work(2 * GB, up=2 * GB), RATES))
    assert ledger.choose("dear", costs(Work(2 * GB, up=2 * GB, flops=1e11), RATES))
    assert ledger.choose("there", costs(Work(2 * GB, down=GB), RATES))
    assert ledger.choose("made there", costs(Work(2 * GB), RATES))
    assert not ledger.choose("small there", costs(Work(800), RATES))
    assert not ledger.choose("foreign", costs(Work(2 * GB, up=2 * GB, each=2 * GB), RATES))


def test_what_comes_again_moves_when_that_pays() -> None:
    """Never more than twice the cost of the best choice in hindsight."""
    for steps in (1, 2, 3, 5, 10, 100):
        ledger, spent, there = Ledger(), 0.0, False
        for _ in range(steps):
            cost = costs(Work(2 * GB, down=GB) if there else Work(2 * GB, up=GB), RATES)
            chosen = ledger.choose("loop", cost)
            spent += (cost.device + cost.to_device) if chosen else (cost.host + cost.to_host)
            there = chosen
        once = costs(Work(2 * GB, up=GB), RATES)
        best = min(steps * once.host, once.to_device + steps * once.device)
        assert spent <= 2 * best * 1.1, steps
        assert there or steps < 3


def test_data_that_keeps_coming_back_moves_ever_less() -> None:
    """The host needs everything after each step: the waste is bounded by a logarithm."""
    ledger, moves, steps = Ledger(), 0, 2000
    for _ in range(steps):
        moves += ledger.choose("loop", costs(Work(2 * GB, up=2 * GB), RATES))
    assert 3 <= moves <= 12


def test_lines_are_forgotten_before_they_are_too_many() -> None:
    ledger = Ledger()
    for k in range(3 * placement.KEPT):
        ledger.choose(k, costs(Work(2 * GB, up=2 * GB), RATES))
    assert len(ledger.credit) <= placement.KEPT


@pytest.fixture
def fake() -> Iterator[fakedevice.FakeDevice]:
    with fakedevice.installed(RATES._replace(h2d=2e9)) as device, config(eager_size=0, faults="deferred"):
        trace.reset()
        yield device


N = 1 << 19  # 4 MiB


def test_independent_results_are_placed_apart(fake: fakedevice.FakeDevice) -> None:
    there = np.to_device(np.array(numpy.linspace(0.0, 1.0, N)))
    here = np.array(numpy.linspace(0.0, 1.0, N))
    trace.reset()
    a, b, c, d = there * 2.0 + 1.0, here * 2.0 + 1.0, there.sum(), here + 3.0
    np.evaluate(a, b, c, d)
    assert [x.device for x in (a, b, d)] == ["cuda:0", "cpu", "cpu"]
    assert trace.counters["h2d_bytes"] == trace.counters["d2h_bytes"] == 0
    assert float(c) == pytest.approx(N / 2) and float(a[-1]) == float(b[-1]) == 3.0 and float(d[0]) == 3.0
    x = here * 0.5
    y, z = x + 1.0, there + x  # what they have in common keeps them together
    np.evaluate(y, z)
    assert y.device == z.device
    assert float(y[0]) == 1.0 and float(z[-1]) == 1.5


def test_loops_end_up_on_the_device(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.linspace(0.0, 1.0, N))
    places: list[str] = []
    for _ in range(40):
        x = x * 0.5 + 1.0
        np.evaluate(x)
        places.append(x.device)
    assert places[0] == "cpu" and places[-1] == "cuda:0"
    assert trace.counters["h2d_bytes"] == 8 * N and trace.counters["d2h_bytes"] == 0
    assert sorted(places) == places  # what is there stays there
    assert float(x[0]) == pytest.approx(2.0) and trace.counters["d2h_bytes"] == 8


def test_single_steps_stay_on_the_host(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.linspace(0.0, 1.0, N))
    y = np.evaluate(x * 2.0 + 1.0)
    assert str(y.device) == "cpu" and not trace.counters["h2d_bytes"]


def test_small_work_is_not_even_weighed(fake: fakedevice.FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "decide", lambda *args: pytest.fail("weighed"))
    x = np.array(numpy.linspace(0.0, 1.0, 1000))
    for _ in range(50):
        x = np.evaluate(x * 0.5)


def buffer_of(nbytes: int) -> Buffer:
    return adopt(numpy.empty(nbytes, numpy.uint8), False)


def test_library_steps(fake: fakedevice.FakeDevice) -> None:
    small, large = buffer_of(1000), buffer_of(1 << 25)
    with config(device="cuda"):
        assert placement.on_device([small], 8)
    with config(device="cpu"):
        assert not placement.on_device([large], 1 << 25, 1e12)
    with placement.on("cuda:0"):
        assert placement.on_device([], 0)
    assert not placement.on_device([small], 1000)
    assert not placement.on_device([large], 8)
    assert placement.on_device([large], 1 << 25, 1e12)
    assert any(placement.on_device([large], 1 << 25, 1e8, key="line") for _ in range(200))


def test_without_a_device_auto_is_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "plausible", lambda: False)
    monkeypatch.setattr(placement, "_absent", False)
    monkeypatch.setattr(placement, "rates", None)
    with config(device="auto"):
        assert not placement.on_device([buffer_of(1 << 25)], 1 << 25, 1e15)
    assert placement.absent()


@pytest.mark.parametrize("error", [DeviceError("no driver"), MemoryError("full")])
def test_a_device_that_does_not_work_is_asked_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    from offarray.runtime import cuda

    asked = []

    def available() -> int:
        asked.append(1)
        raise error

    monkeypatch.setattr(placement, "plausible", lambda: True)
    monkeypatch.setattr(placement, "_absent", False)
    monkeypatch.setattr(placement, "rates", None)
    monkeypatch.setattr(placement, "_seen", 0.0)
    monkeypatch.setattr(cuda, "available", available)
    work = Work(100 * GB)
    assert [placement.decide("x", work) for _ in range(3)] == [False] * 3
    assert asked == [1]


def test_a_driver_is_loaded_only_for_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(placement, "plausible", lambda: True)
    monkeypatch.setattr(placement, "_absent", False)
    monkeypatch.setattr(placement, "rates", None)
    monkeypatch.setattr(placement, "_seen", 0.0)
    monkeypatch.setattr(placement, "start", lambda: bool(started.append(1)))  # type: ignore[func-returns-value]
    nbytes = 10 * placement.SMALL
    for _ in range(10):
        placement.decide("x", Work(nbytes))
    assert not started
    for _ in range(int(placement.STARTUP * Rates().host / nbytes) + 1):
        placement.decide("x", Work(nbytes))
    assert started


def test_rates_are_measured_once_for_each_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    class Device:
        name = "a device"
        version = 1

        def driver_version(self) -> int:
            return self.version

    measured = []

    def measure(device: Any) -> Rates:
        measured.append(1)
        return RATES._replace(h2d=1e9 * len(measured))

    monkeypatch.setattr(placement, "measure", measure)
    device: Any = Device()
    with config(cache_dir=str(tmp_path)):
        assert placement.known(device) == placement.known(device) == RATES._replace(h2d=1e9)
        device.version = 2
        assert placement.known(device).h2d == 2e9
        for path in tmp_path.rglob("*.o"):
            path.write_bytes(b"broken")
        assert placement.known(device).h2d == 3e9
        cache.store(placement.key_of(device), json.dumps({"h2d": 1}).encode()[:-1])
        assert placement.known(device).h2d == 4e9


def test_measuring(fake: fakedevice.FakeDevice) -> None:
    found = placement.measure(fake)
    assert all(value > 0 for value in found)
    assert not fake.used


def test_a_block_changes_its_own_thread_alone() -> None:
    seen: list[str] = []
    with config(device="cpu"), placement.on("cuda:1"):
        thread = threading.Thread(target=lambda: seen.append(placement.where()))
        thread.start()
        thread.join()
        assert placement.where() == "cuda:1"
        with placement.on("cpu"):
            assert placement.where() == "cpu"
        assert placement.where() == "cuda:1"
    assert seen == ["cpu"]


def test_importing_loads_nothing_of_a_device() -> None:
    code = (
        "import sys, offarray\n"
        "late = ['offarray.runtime.cuda', 'offarray.runtime.residency', 'offarray.runtime.supply', 'cuda', 'json']\n"
        "print([m for m in late if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "cuda" not in done.stdout and "residency" not in done.stdout
