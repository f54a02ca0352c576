"""Devices that fail, at each call in turn: the error is told with its line, values stay, and work goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import cuda, errors, placement, residency, supply
from offarray.runtime.config import config
from offarray.runtime.errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    LostValueError,
    MemoryLimitError,
    NoDeviceError,
)

from . import fakedevice

N = 5000
CALLS = ("allocate", "free", "upload", "download", "move", "rows", "run", "synchronize", "trim")


class Failing:
    """Makes the device's calls fail: the one of number `at`, or all from there on."""

    def __init__(self, fake: fakedevice.FakeDevice) -> None:
        self.fake = fake
        self.count = 0
        self.at = self.last = -1
        self.error: Callable[[], Exception] = lambda: DeviceError("cuCall: CUDA_ERROR_MADE_UP")
        self.failed = ""
        self.made = 0  # failures so far
        for name in CALLS:
            if hasattr(fake, name):
                setattr(fake, name, self._wrapped(name, getattr(fake, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.count += 1
            if self.at <= self.count - 1 <= self.last and name != "free":  # memory of a device that works can be freed
                self.failed = name
                self.made += 1
                error = self.error()
                if isinstance(error, DeviceLostError) and not self.fake.lost:
                    self.fake.lost = str(error)
                    residency.mourn(self.fake, str(error))  # type: ignore[arg-type]
                raise error
            return real(*args)

        return call

    def arm(self, at: int, forever: bool = False) -> None:
        """The call `at` from now on fails."""
        self.count, self.at, self.last = 0, at, 10**9 if forever else at
        self.failed = ""

    def disarm(self) -> None:
        """Everything works."""
        self.at = self.last = -1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Failing]:
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred"):
        yield Failing(fake)
    placement.lost.clear()


def start(np: Any) -> list[Any]:
    """Values on the device, on the host, and on both."""
    a = np.arange(float(N)) + 0
    b = np.sin(np.arange(float(N)))
    c = np.array(numpy.linspace(0, 1, N))
    return [a * 1, b * 2, c]


# Each changes the arrays, or makes new ones: what NumPy does.
PROGRAMS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "sum of two": lambda np, v: v[0] + v[1] * v[2],
    "fold": lambda np, v: (v[0] * v[1]).sum(),
    "softmax": lambda np, v: np.exp(v[1] - v[1].max()) / np.exp(v[1] - v[1].max()).sum(),
    "in place": lambda np, v: v[0].__iadd__(v[1]),
    "in place from the host": lambda np, v: v[2].__imul__(3.0),
    "part": lambda np, v: v[0].__setitem__(slice(10, -10), v[1][20:]),
    "stencil": lambda np, v: v[0].__setitem__(slice(1, -1), 0.5 * (v[0][:-2] + v[0][2:])),
    "small part": lambda np, v: v[1].__setitem__(slice(0, 10), 7.0),
    "mask": lambda np, v: v[0].__setitem__(v[1] > 0, 0.0),
    "scan": lambda np, v: np.cumsum(v[0]),
    "gather": lambda np, v: v[0][np.arange(N)[::-1] // 2],
    "chain": lambda np, v: (((v[0] + 1) * 2).cumsum() - v[1]).max(),
    "temporary": lambda np, v: np.sqrt(np.abs((v[0] - 5) * 2) + 1) * v[0],
    "element": lambda np, v: v[0][7],
    "print": lambda np, v: repr(v[0][:5]),
    "roll": lambda np, v: np.roll(v[0], 3),
    "list": lambda np, v: v[1].tolist()[3],
    "sort": lambda np, v: v[1].sort(),
}


def plain(value: Any) -> Any:
    return numpy.asarray(value) if not isinstance(value, (str, list)) and value is not None else value


def same(found: Any, want: Any) -> bool:
    found, want = plain(found), plain(want)
    if found is want or isinstance(want, str):
        return bool(found == want)
    return found.shape == want.shape and bool(numpy.allclose(found, want, rtol=1e-12, atol=0))


def attempts(failing: Failing, program: Callable[[Any, list[Any]], Any]) -> int:
    """Calls of the driver that the program makes."""
    values = [np.evaluate(v) for v in start(np)]
    failing.arm(10**8)
    plain(program(np, values))
    failing.disarm()
    return failing.count


ERRORS: dict[str, Callable[[], Exception]] = {
    "device": lambda: DeviceError("cuCall: CUDA_ERROR_MADE_UP"),
    "memory": lambda: MemoryLimitError("cuMemAllocAsync: the device has not enough memory"),
    "build": lambda: CompileError("libdevice is missing: CUDA_ERROR_MADE_UP"),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ERRORS)
def test_each_call_fails_in_turn(failing: Failing, program: str, kind: str) -> None:
    run = PROGRAMS[program]
    failing.error = ERRORS[kind]
    before = [numpy.asarray(v) for v in start(numpy)]
    after = [v.copy() for v in before]
    want = run(numpy, after)
    count = attempts(failing, run)
    for at in range(count):
        values = [np.evaluate(v) for v in start(np)]
        failing.arm(at)
        result, raised = None, None
        try:
            result = plain(run(np, values))
        except (CompileError, DeviceError, MemoryError) as error:
            raised = error
        failing.disarm()
        if raised is None:  # the host went on, or the memory of others sufficed
            assert same(result, want) or want is None, (at, failing.failed)
        else:
            assert failing.failed, at
            assert re.search(r"CUDA_ERROR_MADE_UP|not enough memory", str(raised))
        for value, old, new in zip(values, before, after, strict=True):  # readable, with the old value or the new
            try:
                found = numpy.asarray(value)
            except RuntimeError as gone:
                assert raised is not None and "failed earlier" in str(gone), (at, failing.failed)
                assert failing.failed not in ("allocate", "upload", "trim"), (at, failing.failed)
                continue
            assert same(found, old) or same(found, new), (at, failing.failed)
            if raised is None:
                assert same(found, new), (at, failing.failed)
        x = np.evaluate(np.arange(float(N)) * 2 + 1)  # the next operation works
        assert float(x[3]) == 7 and float(x.sum()) == N * N
        again = [np.evaluate(v) for v in start(np)]
        assert same(run(np, again), want) and all(map(same, again, after))


def test_the_error_names_the_line(failing: Failing) -> None:
    values = [np.evaluate(v) for v in start(np)]
    y = values[0] + values[1]  # this line
    failing.arm(0, forever=True)
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_MADE_UP.*test_failures\.py:\d+") as found:
        numpy.asarray(y)
    failing.disarm()
    line = int(re.search(r"test_failures\.py:(\d+)", str(found.value))[1])  # type: ignore[index]
    with open(__file__) as file:
        assert "# this line" in file.read().splitlines()[line - 1]
    assert float(y[3]) == 3 + 2 * numpy.sin(3)  # nothing is lost: it is tried anew


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_lost_device(failing: Failing, program: str) -> None:
    """Values that the host has stay, those of the device alone say that they are gone, and work goes on."""
    run = PROGRAMS[program]
    failing.error = lambda: DeviceLostError("cuda:0: cuCall: CUDA_ERROR_ILLEGAL_ADDRESS: code used wrong memory")
    count = attempts(failing, run)
    before = [numpy.asarray(v) for v in start(numpy)]
    after = [v.copy() for v in before]
    run(numpy, after)
    for at in range(count):
        values = [np.evaluate(v) for v in start(np)]  # line of values
        host = np.evaluate(np.arange(float(N)) + 5)
        host.tolist()
        failing.arm(at, forever=True)
        try:
            plain(run(np, values))
        except DeviceError as error:
            assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error)
            assert isinstance(error, (DeviceLostError, LostValueError)), (at, error)
        if failing.failed:
            assert placement.where() == "cpu"
            assert numpy.array_equal(host, numpy.arange(N) + 5.0)
            for value, old, new in zip(values, before, after, strict=True):
                try:
                    found = numpy.asarray(value)
                except LostValueError as gone:
                    assert "cuda:0" in str(gone) and re.search(r"test_failures\.py:\d+", str(gone)), gone
                else:
                    assert same(found, old) or same(found, new), (at, failing.failed)
            x = np.evaluate(np.arange(float(N)) * 2 + host)  # on the host now
            assert float(x[3]) == 14 and x._base.node.buffer.device is None
            fresh = start(np)
            run(np, fresh)
            assert all(map(same, fresh, after))
        failing.disarm()
        failing.fake.lost = ""
        placement.lost.clear()
        assert not supply._busy


@pytest.mark.parametrize("kind", [*ERRORS, "lost"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_under_auto_the_host_goes_on(program: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is raised where the host has what is needed; a line of the log says so."""
    quick = placement.Rates(h2d=1e15, d2h=1e15, host=1e3, device=1e15, launch=0, transfer=0)
    run = PROGRAMS[program]
    with fakedevice.installed(quick) as fake, config(eager_size=0, faults="deferred", debug=1):
        failing = Failing(fake)
        failing.error = ERRORS.get(kind, lambda: DeviceLostError("cuCall: CUDA_ERROR_ILLEGAL_ADDRESS"))
        values = [np.array(numpy.asarray(v)) for v in start(numpy)]
        large = np.zeros(1 << 18)  # beyond small work: the device is chosen
        failing.arm(0, forever=True)
        big = np.evaluate(large + 1)
        assert failing.failed and float(big[5]) == 1
        assert "the host goes on" in capsys.readouterr().err
        after = [numpy.asarray(v).copy() for v in start(numpy)]
        want = run(numpy, after)
        assert same(run(np, values), want) and all(map(same, values, after))
    placement.lost.clear()


NO_DEVICE = {
    "no bindings": (None, "cuda-bindings"),
    "no library": (RuntimeError("libcuda.so.1 not found"), "install NVIDIA's driver"),
    "no device": ("CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
    "mismatch": ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"),
    "too old": (11040, "update NVIDIA's driver"),
    "taken": ("CUDA_ERROR_DEVICE_UNAVAILABLE", "nvidia-smi"),
}  # fmt: skip


class Answer(int):
    """What a driver's function answers."""

    name: str


def answering(what: Any) -> Any:
    """A driver that answers the first question with `what`."""

    class Driver:
        def cuInit(self, flags: int) -> Any:
            if isinstance(what, Exception):
                raise what
            code = Answer(1 if isinstance(what, str) else 0)
            code.name = what if isinstance(what, str) else "CUDA_SUCCESS"
            return (code,)

        def cuDriverGetVersion(self) -> Any:
            return (0, what)

        def cuGetErrorString(self, error: Any) -> Any:
            return 0, b"words"

    return Driver()


@pytest.mark.parametrize("cause", NO_DEVICE)
def test_without_a_device_the_error_says_what_to_do(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, words = NO_DEVICE[cause]
    cuda.devices.cache_clear()
    monkeypatch.setattr(cuda, "_devices", {})
    if what is None:
        real = cuda.driver.__wrapped__  # type: ignore[attr-defined]
        monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
        monkeypatch.setattr(cuda, "driver", real)
    else:
        monkeypatch.setattr(cuda, "driver", lambda: answering(what))
    x = np.array(numpy.arange(float(N)))
    with config(device="cuda", eager_size=0):
        with config(faults="deferred"):
            y = x + 1
        with pytest.raises(NoDeviceError, match=words):
            np.evaluate(y)
    with config(device="cpu"):
        assert float(y[3]) == 4
    monkeypatch.setattr(placement, "_absent", False)
    monkeypatch.setattr(placement, "rates", None)
    monkeypatch.setattr(placement, "plausible", lambda: True)
    assert not placement.start()
    with config(device="auto", eager_size=0):
        assert float(np.evaluate(x + 1)[3]) == 4


def test_architectures_that_nothing_is_made_for() -> None:
    from offarray.codegen import nvptx

    with pytest.raises(DeviceError, match="older than sm_70"):
        nvptx.device_target("sm_52")
    assert nvptx.device_target("sm_190").arch != "sm_190"


def test_the_table_of_answers() -> None:
    for code, (kind, meaning, remedy) in errors.ANSWERS.items():
        error = errors.answered("cuCall", code, "words")
        assert type(error) is kind and meaning in str(error) and remedy in str(error) and code in str(error)
    assert type(errors.answered("f", "CUDA_ERROR_OUT_OF_MEMORY", "")) is MemoryLimitError
    other = errors.answered("f", "CUDA_ERROR_OTHER", "some words")
    assert type(other) is DeviceError and str(other) == "f: CUDA_ERROR_OTHER: some words"


def test_memory_that_others_have(failing: Failing) -> None:
    """Where arrays of this process have little, the message says who has the rest."""
    failing.fake.capacity = failing.fake.memory = 10 * 8 * N
    x = np.evaluate(np.arange(float(N)) + 1)
    failing.fake.capacity = 0  # another process takes all of it
    with pytest.raises(MemoryLimitError, match=r"of 400000 free.*taken by others.*nvidia-smi.*test_failures\.py"):
        np.evaluate(x * 2 + np.arange(float(N)))
    failing.fake.capacity = failing.fake.memory
    assert float(x[3]) == 4 and float(np.evaluate(x * 2)[3]) == 8


def test_a_device_is_lost_while_warnings_wait(failing: Failing) -> None:
    failing.error = lambda: DeviceLostError("cuda:0: cuCall: CUDA_ERROR_ILLEGAL_ADDRESS")
    x = np.evaluate(np.arange(float(N)) + 1)
    with numpy.errstate(all="warn"):
        y = np.log(x)
        np.evaluate(y)
        failing.arm(0, forever=True)
        with pytest.raises((DeviceLostError, LostValueError)):
            y.tolist()
    z = np.evaluate(np.arange(float(N)) * 2)  # nothing waits for the device any more
    assert float(z[3]) == 6 and placement.where() == "cpu"
    np.synchronize()


def test_memory_for_code_that_others_have(failing: Failing) -> None:
    """A call that takes memory by itself, such as one that loads code, fails: who has it is said too."""
    failing.fake.memory = failing.fake.capacity = 80 * 8 * N
    x = np.evaluate(np.arange(float(N)) + 1)
    failing.fake.capacity = failing.fake.used
    failing.error = lambda: MemoryLimitError("cuModuleLoadData: the device has not enough memory")
    failing.arm(1, forever=True)
    with pytest.raises(
        MemoryLimitError, match=r"cuModuleLoadData.* 0 of 3200000 free.*taken by others.*largest arrays"
    ):
        np.evaluate(x + x[::-1])
    failing.disarm()
    assert float(x[3]) == 4


def test_a_device_in_which_no_program_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver has no memory for a context: the error says who has it and what to do, and `auto` is the host."""

    class Driver(type(answering(13000))):  # type: ignore[misc]
        def cuDeviceGetCount(self) -> Any:
            return Answer(0), 1

        def cuDeviceGet(self, number: int) -> Any:
            return Answer(0), number

        def cuDevicePrimaryCtxRetain(self, handle: int) -> Any:
            code = Answer(2)
            code.name = "CUDA_ERROR_OUT_OF_MEMORY"
            return (code,)

    cuda.devices.cache_clear()
    monkeypatch.setattr(cuda, "_devices", {})
    monkeypatch.setattr(cuda, "driver", Driver)
    x = np.array(numpy.arange(float(N)))
    with config(device="cuda", eager_size=0), pytest.raises(NoDeviceError, match=r"no memory left.*nvidia-smi.*cpu"):
        np.evaluate(x + 1)
    monkeypatch.setattr(placement, "_absent", False)
    monkeypatch.setattr(placement, "rates", None)
    monkeypatch.setattr(placement, "plausible", lambda: True)
    assert not placement.start()
    with config(device="auto", eager_size=0):
        assert float(np.evaluate(x + 1)[3]) == 4
    cuda.devices.cache_clear()


@pytest.mark.parametrize("program", ["taken", "in place", "part"])
def test_what_a_lost_device_was_about_to_overwrite(failing: Failing, program: str) -> None:
    """The host had the operand: the launch that failed has written nothing, and the host does it."""
    failing.error = lambda: DeviceLostError("cuda:0: cuCall: CUDA_ERROR_ILLEGAL_ADDRESS")
    n = numpy.arange(float(N)) + 1
    for at in range(3):
        x: Any = np.to_device(np.array(n))
        want = n.copy()
        if program == "taken":
            want = numpy.log(want)
            x = np.log(x)  # the operand is nobody's: its memory is written over
        failing.arm(at, forever=True)
        try:
            if program == "in place":
                x *= 3.0
            elif program == "part":
                x[1:-1] = x[:-2] + 1.0
            np.evaluate(x)
        except DeviceLostError:
            assert failing.failed
        if failing.failed:
            assert placement.where() == "cpu"
        try:
            found = numpy.asarray(x)
        except (DeviceLostError, LostValueError):  # the call that finds the loss, and all after it
            assert failing.failed in ("download", "synchronize")  # it had been computed, there alone
            with pytest.raises(LostValueError):
                numpy.asarray(x)
            found = n
            x = None
        if program == "in place":
            want = n * 3.0
        elif program == "part":
            want[1:-1] = n[:-2] + 1.0
        assert x is None or same(found, want) or (same(found, n) and program != "taken")
        failing.disarm()
        failing.fake.lost = ""
        placement.lost.clear()
