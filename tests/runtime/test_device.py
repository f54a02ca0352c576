"""Moving arrays by hand, devices for a block, guards and limits, on a device made of host memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy
import pytest

import offarray as np
from offarray import _evaluate, _report
from offarray.runtime import cuda, placement, trace
from offarray.runtime.config import config

from . import fakedevice
from .fakedevice import moved

N = 5000
SIZE = 8 * N


def test_there_and_back(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    assert x.device == "cpu"
    assert np.to_device(x) is x and x.device == "cuda:0"
    assert moved() == (SIZE, 0)
    assert np.to_device(x, "cuda") is x and np.prefetch(x) is x
    y = np.evaluate(x + 1)
    assert y.device == "cuda:0" and moved() == (0, 0)
    assert np.to_host(y) is y and y.device == "cpu" and moved() == (0, SIZE)
    assert x.to_device("cpu") is x and x.device == "cpu" and moved() == (0, 0)
    assert x.to_device("cuda:0") is x and x.device == "cuda:0" and moved() == (SIZE, 0)
    assert (numpy.asarray(y) == numpy.arange(N) + 1.0).all()


def test_reading_leaves_the_device_up_to_date(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    moved()
    assert "4.999e+03" in repr(x) and moved() == (0, 48)  # the edges, which are all that it shows
    assert float(x[3]) == 3 and bool((x == x).all()) and x.tolist()[7] == 7
    np.evaluate(x + 1)
    assert moved() == (0, 8 + 1 + SIZE)  # one byte tells that all are equal
    assert x.device == "cuda:0"
    view = memoryview(x)  # somebody may write it
    np.evaluate(x + 1)
    np.evaluate(x + 1)
    assert moved() == (2 * SIZE, 0)
    del view
    np.evaluate(x + 1)
    np.evaluate(x + 1)
    assert moved() == (SIZE, 0)


def test_what_an_export_writes_last_is_sent_once_more(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.zeros(N) + 1)
    seen = numpy.asarray(x)
    assert float(np.evaluate(x + 1)[0]) == 2
    seen[0] = 7
    del seen
    assert float(np.evaluate(x + 1)[0]) == 8


def test_parts_alone_are_fetched(fake: fakedevice.FakeDevice) -> None:
    m = np.evaluate(np.arange(float(N)).reshape(50, 100) + 0)
    moved()
    assert m[3, 4] == 304 and moved() == (0, 8)
    assert (numpy.array(m[2, :10].tolist()) == numpy.arange(200, 210)).all() and moved() == (0, 80)
    assert m[:, 7].tolist() == [7.0 + 100 * k for k in range(50)] and moved() == (0, 400)
    assert m[::-1, 5:7].tolist() == [[100.0 * k + 5, 100.0 * k + 6] for k in range(49, -1, -1)]
    assert moved() == (0, 800)
    m[0, 0] = -1
    assert m[0, :3].tolist() == [-1, 1, 2] and moved() == (0, 24)
    assert float(m.sum()) == numpy.arange(float(N)).sum() - 1 and moved() == (0, 8)


def test_arrays_without_axes(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.array(numpy.arange(float(N))) * 2)
    views = [x[7:8].reshape(()), x[..., 9], x[3:4].reshape(1, 1)[0, ..., 0]]
    assert [float(v[()]) for v in views] == [14.0, 18.0, 6.0]
    assert [v[...].item() for v in views] == [14.0, 18.0, 6.0]
    total = np.evaluate(x + x)[..., 5]
    assert total[()] == 20.0 and str(total) == "20.0" and total.item() == 20.0 and total[None].tolist() == [20.0]
    seen = np.evaluate(total + np.array(numpy.zeros(())))
    assert seen[()] == 20.0 and float(seen) == 20.0


def test_small_parts_of_large_arrays_are_sent_alone(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    assert (numpy.asarray(x[10:20] * 2) == numpy.arange(10, 20) * 2.0).all()
    assert moved() == (80, 80)
    assert (numpy.asarray(x[15:25] * 2) == numpy.arange(15, 25) * 2.0).all()
    assert moved() == (40, 80)
    y = np.evaluate(x[:-1] + x[1:])
    assert moved() == (SIZE - 120, 0)
    assert float(y[N - 2]) == 2 * N - 3


def test_columns_are_sent_alone(fake: fakedevice.FakeDevice) -> None:
    n = numpy.arange(float(N)).reshape(50, 100)
    m = np.array(n)
    column = 8 * 50
    assert (numpy.asarray(m[:, 7] * 2) == n[:, 7] * 2).all() and moved() == (column, column)
    assert (numpy.asarray(m[::-1, 7] + 1) == n[::-1, 7] + 1).all() and moved() == (0, column)
    assert (numpy.asarray(m[:, 3:5] + 1) == n[:, 3:5] + 1).all() and moved() == (2 * column, 2 * column)
    m[5, 7] = n[5, 7] = -1
    assert (numpy.asarray(m[:, 7] * 2) == n[:, 7] * 2).all()
    n[6, 7] = -2
    with np.device("cpu"):
        m[6, 7] = -2
    assert (numpy.asarray(m[:, 7] * 2) == n[:, 7] * 2).all()
    moved()
    assert (numpy.asarray(m * 2) == n * 2).all() and moved()[0] <= SIZE
    for k in range(20):
        assert float((m[:, k] * 2).sum()) == n[:, k].sum() * 2
    assert moved()[0] == 0


def test_what_is_overwritten_is_not_sent(fake: fakedevice.FakeDevice) -> None:
    x, y = np.array(numpy.arange(float(N))), np.array(numpy.arange(float(N)))
    np.to_device(y)
    moved()
    x[100:300] = y[100:300] * 2
    x[:] = y + 1
    np.evaluate(x)
    assert moved() == (0, 0)
    assert (numpy.asarray(x) == numpy.arange(N) + 1.0).all()


def test_guards(fake: fakedevice.FakeDevice, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array(numpy.arange(float(N)))
    with np.transfer_guard("disallow"):
        with pytest.raises(np.TransferError, match=f"{SIZE} bytes would be sent to the device"):
            np.evaluate(x + 1)
        y = np.evaluate(np.to_device(x) + 1)
        used = fake.used
        for key in (5, slice(3), slice(None, None, 50), slice(None)):
            with pytest.raises(np.TransferError, match="to the host"):
                y[key].tolist()
        assert fake.used == used
        assert np.to_host(y).tolist()[2] == 3
    with np.transfer_guard("log"):
        np.evaluate(np.array(numpy.ones(N)) + 1)
    assert f"{SIZE} bytes are sent to the device" in capsys.readouterr().err
    with pytest.raises(ValueError, match="transfer_guard"):
        np.transfer_guard("never")


def test_expectations_of_transfers(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    with np.expect(h2d_bytes=SIZE, d2h_bytes=8):
        y = np.evaluate(x + 1)
        float(y[3])
    with pytest.raises(np.ExpectationError, match=r"d2h_bytes: expected 0, found 8\n  8 bytes fetched at test_device"):
        with np.expect(d2h_bytes=0):
            float(y[4])


def test_a_device_for_a_block(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    with np.device("cpu"):
        y = x + 1
        other: list[str] = []
        thread = threading.Thread(target=lambda: other.append(placement.where()))
        thread.start()
        thread.join()
    assert other == ["cuda"] and placement.where() == "cuda"
    assert y.device == "cpu" and moved() == (0, 0)
    with config(device="cpu"), np.device("cuda:0"):
        z = x + 2
    assert z.device == "cuda:0" and moved() == (SIZE, 0)
    for name in ("gpu", "cuda:x", None, "auto"):
        with pytest.raises(ValueError, match="a device is"):
            np.device(name)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unsupported device"):
        x.to_device("gpu")
    with pytest.raises(TypeError, match="an offarray array is needed"):
        np.to_device(numpy.ones(3))


def test_pinned_memory(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    assert np.pin(x) is x and np.pin(x) is x and list(fake.registered.values()) == [SIZE]
    assert float(np.evaluate(x * 2)[4]) == 8
    waits = fake.waits
    assert np.prefetch(np.to_host(x)) is x and fake.waits == waits  # on its way
    x.sort()
    assert fake.waits == waits + 1  # the host writes
    x[4] = 5
    assert float(np.evaluate(x * 2)[4]) == 10
    del x
    assert not fake.registered


def test_limits(fake: fakedevice.FakeDevice) -> None:
    some = [np.evaluate(np.arange(float(N)) + k) for k in range(6)]
    with np.memory_limit(3 * SIZE):
        assert fake.held <= 3 * SIZE
        assert all(float(x[5]) == 5 + k for k, x in enumerate(some))
        some.append(np.evaluate(some[0] + some[1]))
        assert fake.held <= 3 * SIZE
    some.append(np.evaluate(some[0] + some[1] + some[2] + some[3]))
    assert fake.held > 3 * SIZE
    fake.memory = 100 * SIZE
    with np.memory_limit("2%"):
        assert fake.held <= 2 * SIZE
    for bad in ("0%", "x%", "101%", -1, "many"):
        with pytest.raises(ValueError, match="limit"):
            np.memory_limit(bad)
    with np.memory_limit("64M", "cpu"):
        assert config.get("memory_limit") == 64 << 20
    assert config.get("memory_limit") == 0


def test_who_takes_the_memory(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(2.0 * N) + 1)
    first = x[:10]
    y = np.array(numpy.ones(3 * N))
    z = y + 1
    found = {a.nbytes: a for a in np.whos() if a.nbytes in (2 * SIZE, 3 * SIZE)}
    assert found[2 * SIZE].place == "cuda:0" and found[2 * SIZE].views == 2 and found[2 * SIZE].shape == (2 * N,)
    assert found[2 * SIZE].line.startswith("test_device.py:")
    assert {a.place for a in np.whos() if a.nbytes == 3 * SIZE} == {"cpu", "pending"}
    assert f"{3 * N} float64, {3 * SIZE} bytes, cpu" in str(np.whos())
    with np.memory_limit(SIZE):
        with pytest.raises(MemoryError, match=r"device_memory is 40000; the largest arrays: .*test_device.py:"):
            float(z.sum())
    assert first[0] == 1


def test_device_of_host_arrays_is_the_processor() -> None:
    x = np.arange(10)
    assert x.device == "cpu" and x.to_device("cpu") is x
    with pytest.raises(ValueError, match="Unsupported device"):
        x.to_device("gpu")
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_automatic_placement_loads_no_driver_for_small_work() -> None:
    code = (
        "import sys, offarray as np\n"
        "x = np.arange(200_000.0)\n"
        "assert float((x * 2 + 1).sum()) > 0\n"
        "assert not [m for m in sys.modules if m.startswith('cuda')], 'bindings'\n"
        "assert 'offarray.runtime.residency' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "OFFARRAY_DEVICE": "auto"})


def test_transfers_are_told_by_line(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    trace.record(True)
    y = np.evaluate(x + 1)
    float(y[3])
    events = trace.record(False)
    lines = _report.lines_of(events or [], {}, {})
    assert [line.h2d_bytes for line in lines if line.h2d_bytes] == [SIZE]  # the fake device's own line is innermost
    assert [(line.text, line.d2h_bytes) for line in lines if line.d2h_bytes] == [("float(y[3])", 8)]


def test_texts_show_what_the_device_has(fake: fakedevice.FakeDevice) -> None:
    for shape in ((5000,), (2, 2500), (50, 100), (10, 20, 25), (5000, 1)):
        n = numpy.arange(5000.0).reshape(shape)
        x = np.evaluate(np.array(n) * 1)
        moved()
        assert repr(x) == repr(n) and (moved()[1] <= SIZE // 10 or len(shape) > 2)
        assert str(x[::-1]) == str(n[::-1]) and f"{x.T}" == f"{n.T}"
        with numpy.printoptions(threshold=10**6):
            assert repr(x) == repr(n)


def test_arrays_are_made_where_they_are_wanted(fake: fakedevice.FakeDevice) -> None:
    x = np.arange(N, device="cuda")
    assert x.device == "cuda:0"
    for made, want in (
        (np.zeros(N, device=x.device), numpy.zeros(N)),
        (np.ones(N, "f4", device="cuda:0"), numpy.ones(N, "f4")),
        (np.full((3, 4), 7, device="cuda"), numpy.full((3, 4), 7)),
        (np.linspace(0, 1, 9, device=x.device), numpy.linspace(0, 1, 9)),
        (np.eye(5, device=x.device), numpy.eye(5)),
        (np.asarray([1, 2, 3], device=x.device), numpy.asarray([1, 2, 3])),
        (np.zeros_like(x, device=x.device), numpy.zeros(N, int)),
        (np.full_like(x, 3, device=x.device), numpy.full(N, 3)),
        (np.astype(x, "f4", device=x.device), numpy.arange(N, dtype="f4")),
        (np.fft.fftfreq(8, device=x.device), numpy.fft.fftfreq(8)),
    ):
        assert made.device == "cuda:0"
        assert made.dtype == want.dtype and (numpy.asarray(made) == want).all()
    assert np.empty((3, 4), device="cuda").device == "cuda:0" and np.empty_like(x, device="cuda").shape == (N,)
    assert np.zeros(3, device="cpu").device == "cpu"
    for wrong in ("gpu", "cuda:", 3):
        with pytest.raises((ValueError, TypeError)) as mine:
            np.ones(N, device=wrong)
        with pytest.raises(mine.type, match=str(mine.value).split(",")[0][:20]):
            numpy.ones(N, device=wrong)  # type: ignore[call-overload]


def test_two_devices(fake: fakedevice.FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    other = fakedevice.FakeDevice()
    other.number = 1
    monkeypatch.setattr(cuda, "device", lambda: other if placement.where() == "cuda:1" else fake)
    monkeypatch.setitem(_evaluate._targets, "cuda:1", _evaluate._targets["cuda"]._replace(features="device1"))
    x = np.array(numpy.arange(float(N)))
    assert np.to_device(x, "cuda:1").device == "cuda:1" and other.held == SIZE and not fake.held
    y = np.evaluate(x + 1)  # work goes to the first one: over the host
    assert y.device == "cuda:0" and x.device == "cuda:0" and not other.held
    with np.device("cuda:1"):
        z = y * 2 + x
        with np.device("cuda:0"):
            w = y * 3
        assert w.device == "cuda:0"
    assert z.device == "cuda:1"
    n = numpy.arange(float(N))
    assert (numpy.asarray(z) == (n + 1) * 2 + n).all() and (numpy.asarray(w) == (n + 1) * 3).all()
    with np.memory_limit(SIZE, "cuda:1"):
        assert other.held <= SIZE and fake.held >= SIZE
    z[5:9] = 0.0
    assert z[4:10].tolist() == [14.0, 0.0, 0.0, 0.0, 0.0, 29.0]
    del x, y, z, w
    assert not other.held and not fake.held
