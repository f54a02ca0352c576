"""Launches that were done before: the same values, warnings and errors as the first time, by one call of the driver."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import late, residency, trace
from offarray.runtime.config import config
from offarray.runtime.errors import DeviceError

from ..codegen import emulate

pytestmark = pytest.mark.skipif(not emulate.possible(), reason="needs a C compiler and an x86-64 processor")
N = 300


@pytest.fixture
def fake() -> Iterator[emulate.EmulatedDevice]:
    with emulate.installed() as device, config(eager_size=0, faults="deferred"):
        late.forget()
        yield device
        late.forget()


def arrays(dtype: str = "f8", count: int = 2) -> list[Any]:
    return [numpy.linspace(k + 1, k + 2, N).astype(dtype) for k in range(count)]


def on_device(values: list[Any]) -> list[Any]:
    """Copies that the device alone has."""
    return [np.evaluate(np.array(v) * v.dtype.type(1)) for v in values]


def repeated(fake: emulate.EmulatedDevice, program: Any, values: list[Any], times: int = 5) -> None:
    """Compare some repetitions with NumPy; the last ones are one call of the function that launches for each kernel."""
    mine = on_device(values)
    for turn in range(times):
        calls, kernels = fake.calls, trace.counters["kernels"]
        got = program(np, turn, *mine)
        np.evaluate(got)
        assert fake.calls - calls == trace.counters["kernels"] - kernels > 0
        want = program(numpy, turn, *values)
        assert got.dtype == want.dtype
        numpy.testing.assert_allclose(numpy.asarray(got), want, rtol=1e-6)


PROGRAMS = {
    "sum of two": lambda np, k, a, b: a + b,
    "scalars that change": lambda np, k, a, b: (a + float(k)) * b - k,
    "a chain": lambda np, k, a, b: ((a + b) * a - b) / 2 + a * b - 1 + a,
    "rows": lambda np, k, a, b: (a.reshape(30, 10) * b.reshape(30, 10)).sum(1),
    "two kernels": lambda np, k, a, b: np.exp(a - a.max()) / b.sum(),
    "scan": lambda np, k, a, b: np.cumsum(a * b),
    "shifted": lambda np, k, a, b: a[2:] + a[1:-1] + a[:-2] + b[0],
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_again(fake: emulate.EmulatedDevice, name: str, dtype: str) -> None:
    values = arrays(dtype)
    repeated(fake, PROGRAMS[name], values)


def test_written_parts(fake: emulate.EmulatedDevice) -> None:
    """Parts of an array from its own neighbours: what they leave as it is comes along."""
    before = trace.counters["fallbacks"]
    u, v = numpy.linspace(0, 1, 81).reshape(9, 9), np.evaluate(np.array(numpy.linspace(0, 1, 81).reshape(9, 9)) * 1.0)
    for turn in range(6):
        for x in (u, v):
            x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
            x[:, -1] = x[:, -2] + turn
        if turn % 2:
            numpy.testing.assert_allclose(numpy.asarray(v), u, rtol=1e-14)
    assert trace.counters["fallbacks"] == before


def test_the_host_writes_in_between(fake: emulate.EmulatedDevice) -> None:
    values = arrays()
    mine = on_device(values)
    for turn in range(6):
        got = np.evaluate(mine[0] * 2.0 + mine[1])
        numpy.testing.assert_array_equal(numpy.asarray(got), values[0] * 2.0 + values[1])
        for x in (mine[0], values[0]):
            numpy.asarray(x)[turn] = -1.0  # through memory that is handed out


def test_an_operand_is_elsewhere(fake: emulate.EmulatedDevice) -> None:
    """A recipe of values on the device, and then of some that the host has."""
    values = arrays()
    for turn in range(4):
        mine = on_device(values)
        if turn == 2:
            mine[0] = np.array(values[0])
        if turn == 3:
            np.to_host(mine[1])
        got = np.evaluate(mine[0] * mine[1] + 3.0)
        numpy.testing.assert_array_equal(numpy.asarray(got), values[0] * values[1] + 3.0)


def test_refused(fake: emulate.EmulatedDevice) -> None:
    """A driver that refuses: the error names the line, operands stay, and the same is computed afterwards."""
    values = arrays()
    mine = on_device(values)
    plain = fake.launch

    def refusing(*args: Any) -> None:
        raise DeviceError("cuLaunchKernel: CUDA_ERROR_MADE_UP")

    for turn in range(5):
        fake.launch, fake.refuses = (refusing, True) if turn > 2 else (plain, False)  # type: ignore[method-assign]
        frame = inspect.currentframe()
        y = mine[0] + mine[1]
        line = frame.f_lineno - 1  # type: ignore[union-attr]
        if turn > 2:
            with pytest.raises(DeviceError, match=rf"CUDA_ERROR_MADE_UP.*test_shot\.py:{line}\b"):
                np.evaluate(y)
            fake.launch, fake.refuses = plain, False  # type: ignore[method-assign]
        numpy.testing.assert_array_equal(numpy.asarray(y), values[0] + values[1])


def test_refused_over_what_it_reads(fake: emulate.EmulatedDevice) -> None:
    """Memory that was to be taken over is as it was where nothing has run."""
    values = arrays()
    mine, plain = on_device(values), fake.launch

    def refusing(*args: Any) -> None:
        raise DeviceError("cuLaunchKernel: CUDA_ERROR_MADE_UP")

    for turn in range(5):
        if turn == 3:
            fake.launch, fake.refuses = refusing, True  # type: ignore[method-assign]
            with pytest.raises(DeviceError, match="CUDA_ERROR_MADE_UP"):
                mine[0] += mine[1]
                np.evaluate(mine[0])
            fake.launch, fake.refuses = plain, False  # type: ignore[method-assign]
        else:
            mine[0] += mine[1]
        np.evaluate(mine[0])
        values[0] += values[1]
        numpy.testing.assert_array_equal(numpy.asarray(mine[0]), values[0])
        mine[0] = on_device([values[0]])[0]


@pytest.mark.parametrize("place", [0, 7, N - 1])
def test_warnings(fake: emulate.EmulatedDevice, place: int) -> None:
    """Each repetition warns for itself, at its line, and says nothing where nothing is wrong."""
    fake.lazy = True
    for turn in range(5):
        values = arrays()
        if turn % 2:
            values[1][place] = 0.0
        a, b = on_device(values)
        y = np.evaluate(a / b)
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            numpy.asarray(y)
        found = [(str(w.message), w.lineno) for w in told]
        assert found == ([("divide by zero encountered in divide", line)] if turn % 2 else []), turn
    fake.synchronize()


def test_memory_is_made_room_for(fake: emulate.EmulatedDevice) -> None:
    """Where arrays may not take more, others go to the host, and nothing is lost."""
    with config(device_memory=6 * 8 * N):
        values = arrays(count=3)
        mine = on_device(values)
        kept = [np.evaluate(mine[0] * float(k) + mine[1] * mine[2]) for k in range(9)]
        for k, got in enumerate(kept):
            numpy.testing.assert_allclose(numpy.asarray(got), values[0] * k + values[1] * values[2], rtol=1e-14)
    assert trace.counters["evictions"] > 0


def test_the_way_is_short(fake: emulate.EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third time on, nothing is asked but what the operands' copies say."""
    asked = []
    real = residency.launch
    monkeypatch.setattr(residency, "launch", lambda *args: asked.append(args) or real(*args))
    a, b = on_device(arrays())
    for turn in range(4):
        asked.clear()
        np.evaluate(a * b)
        assert len(asked) == (turn == 0)
    np.to_host(a)
    np.evaluate(a * b)
    assert len(asked) == 1  # it has to be brought
