"""Devices that fail, are lost or are interrupted under threads: no value is wrong, no lock stays, work goes on."""

from __future__ import annotations

import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import copies, late, placement, residency, supply
from offarray.runtime.config import config
from offarray.runtime.errors import CompileError, DeviceError, DeviceLostError, LostValueError, MemoryLimitError

from . import fakedevice
from .test_failures import ERRORS, PROGRAMS, Failing, N, attempts, plain, same, start

KINDS: dict[str, Callable[[], BaseException]] = {
    **ERRORS, "lost": lambda: DeviceLostError("cuda:0: cuCall: CUDA_ERROR_ILLEGAL_ADDRESS"),
    "interrupt": KeyboardInterrupt,
}  # fmt: skip
RAISED = (CompileError, DeviceError, MemoryError, KeyboardInterrupt)
WORDS = ("MADE_UP", "not enough memory", "ILLEGAL_ADDRESS", "interrupted", "failed earlier", "lost")


@pytest.fixture
def failing() -> Iterator[Failing]:
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred"):
        yield Failing(fake)
    placement.lost.clear()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has memory for the parts that it needs alone."""
    monkeypatch.setattr(copies, "WHOLE", 0)
    monkeypatch.setattr(copies, "LINE", 8)


def in_order(fake: fakedevice.FakeDevice) -> None:
    """Nothing is left of what failed."""
    assert not supply._busy and residency._undo is None
    free = []

    def ask() -> None:
        free.append(residency.lock.acquire(timeout=5))
        if free[0]:
            residency.lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert free == [True]
    if not fake.lost:
        assert fake.held == sum(b.device.held for b in supply.users() if b.device.device is fake)


def readable(value: Any, old: Any, new: Any) -> None:
    """A value is the old one or the new one, or says why it is neither."""
    try:
        found = numpy.asarray(value)
    except RuntimeError as gone:
        assert any(word in str(gone) for word in WORDS), gone
        return
    assert same(found, old) or same(found, new)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_call_is_interrupted_in_turn(failing: Failing, program: str) -> None:
    in_turn(failing, program, KINDS["interrupt"])


@pytest.mark.parametrize("program", ["part", "stencil", "small part", "in place", "element", "print", "roll", "mask"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_buffers(failing: Failing, parts: None, program: str, kind: str) -> None:
    in_turn(failing, program, KINDS[kind])


def in_turn(failing: Failing, program: str, error: Callable[[], BaseException]) -> None:
    """Each call of the driver fails, in a program of its own."""
    run = PROGRAMS[program]
    failing.error = error  # type: ignore[assignment]
    before = [numpy.asarray(v) for v in start(numpy)]
    after = [v.copy() for v in before]
    want = run(numpy, after)
    for at in range(attempts(failing, run)):
        values = [np.evaluate(v) for v in start(np)]
        failing.arm(at, forever=error is KINDS["lost"])
        try:
            assert same(run(np, values), want) or want is None
        except RAISED as raised:
            assert failing.failed, raised
        failing.disarm()
        in_order(failing.fake)
        for value, old, new in zip(values, before, after, strict=True):
            readable(value, old, new)
        x = np.evaluate(np.arange(float(N)) * 2 + 1)
        assert float(x[3]) == 7 and float(x.sum()) == N * N
        again = [np.evaluate(v) for v in start(np)]
        assert same(run(np, again), want) and all(map(same, again, after))
        failing.fake.lost = ""
        placement.lost.clear()


class Thread:
    """Random programs on arrays of its own, and looks at one that all share."""

    def __init__(self, seed: int, shared: Any, seconds: float) -> None:
        self.rng = random.Random(seed)
        self.shared, self.seconds = shared, seconds
        self.rounds = self.failures = 0
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        """Until the time is over, or something is wrong."""
        end = time.monotonic() + self.seconds
        try:
            while time.monotonic() < end:
                self.step()
                self.rounds += 1
        except BaseException as problem:
            self.problem = problem

    def step(self) -> None:
        """One program; its values are NumPy's, or it raised."""
        run = PROGRAMS[self.rng.choice(list(PROGRAMS))]
        before = [numpy.asarray(v) for v in start(numpy)]
        after = [v.copy() for v in before]
        want = run(numpy, after)
        values: list[Any] = []
        try:
            values = [np.evaluate(v) for v in start(np)]
            found = plain(run(np, values))
            assert same(found, want) or want is None
            assert float(self.shared[self.rng.randrange(N)]) >= 0 and float((self.shared * 2).sum()) == N * (N - 1)
        except RAISED as raised:
            self.failures += 1
            assert any(word in str(raised) for word in WORDS) or type(raised) is KeyboardInterrupt, raised
        except RuntimeError as raised:
            self.failures += 1
            assert any(word in str(raised) for word in WORDS), raised
        for value, old, new in zip(values, before, after, strict=False):
            for _ in range(20):  # the look itself may fail, and is repeated
                try:
                    readable(value, old, new)
                    break
                except RAISED:
                    continue
            else:
                raise AssertionError("a value that cannot be looked at")


@pytest.mark.parametrize("kind", KINDS)
def test_threads(failing: Failing, kind: str) -> None:
    """Calls fail now and then while four threads work; a device that is lost stays lost, and all go on on the host."""
    failing.error = KINDS[kind]  # type: ignore[assignment]
    shared = np.evaluate(np.array(numpy.arange(float(N))) * 1)
    numpy.asarray(shared)  # the host has it too
    workers = [Thread(seed, shared, 2.0) for seed in range(4)]
    rng = random.Random(1)
    while any(w.thread.is_alive() for w in workers):
        time.sleep(0.02)
        if not failing.fake.lost:
            failing.arm(rng.randrange(30), forever=kind == "lost")
    for worker in workers:
        worker.thread.join(30)
        assert not worker.thread.is_alive(), "a thread waits for ever"
        if worker.problem is not None:
            raise worker.problem
    failing.disarm()
    assert failing.made and all(w.rounds for w in workers)  # of what failed, not all is part of a value
    in_order(failing.fake)
    assert (numpy.asarray(shared) == numpy.arange(N)).all()
    assert kind != "lost" or placement.where() == "cpu"
    assert float(np.evaluate(shared * 3)[2]) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_warnings_that_wait(failing: Failing, kind: str) -> None:
    """One thread's warnings wait while another's look fails: they come once, or not at all with a lost device."""
    failing.error = KINDS[kind]  # type: ignore[assignment]
    told: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held: list[Any] = []

        def record() -> None:
            with numpy.errstate(all="warn"), config(faults="deferred"):
                x = np.evaluate(np.arange(float(N)))
                held.append(np.evaluate(np.log(x)))
                held.append(np.evaluate(np.sqrt(x - 5)))

        thread = threading.Thread(target=record)
        thread.start()
        thread.join()
        waited = len(late.waiting)
        other = np.evaluate(np.arange(float(N)) * 2)
        failing.arm(0, forever=kind == "lost")
        try:
            other.tolist()
        except RAISED as raised:
            told.append(raised)
        failing.disarm()
        for x in held:
            try:
                x.tolist()
            except LostValueError:
                assert kind == "lost"
        np.synchronize()
        in_order(failing.fake)
        assert not late.waiting and not late.found
    messages = [str(w.message) for w in caught]
    wanted = ["divide by zero encountered in log", "invalid value encountered in sqrt"]
    assert told
    if kind == "lost" and waited:
        assert set(messages) <= set(wanted)
    else:
        assert sorted(m for m in messages if "encountered" in m) == wanted, messages


def test_memory_is_short_for_all(failing: Failing) -> None:
    """Four threads in a device that holds two of their arrays, whose memory fails now and then besides."""
    failing.error = lambda: MemoryLimitError("cuMemAllocAsync: the device has not enough memory")
    shared = np.evaluate(np.array(numpy.arange(float(N))) * 1)
    with config(device_memory=12 * 8 * N):
        workers = [Thread(seed, shared, 2.0) for seed in range(10, 14)]
        rng = random.Random(2)
        while any(w.thread.is_alive() for w in workers):
            time.sleep(0.05)
            failing.arm(rng.randrange(50))
        for worker in workers:
            worker.thread.join()
            if worker.problem is not None:
                raise worker.problem
        failing.disarm()
        in_order(failing.fake)
    assert (numpy.asarray(shared) == numpy.arange(N)).all()


def test_a_value_lost_while_a_thread_waits_to_look_is_told(failing: Failing) -> None:
    x = np.evaluate(np.arange(float(N)) * 2)
    got: list[Any] = []

    def look() -> None:
        try:
            got.append(float(x[3]))
        except LostValueError as error:
            got.append(error)

    thread = threading.Thread(target=look)
    with residency.lock:  # as a launch has it
        thread.start()
        time.sleep(0.1)
        failing.fake.lost = "CUDA_ERROR_MADE_UP"
        residency.mourn(failing.fake, "CUDA_ERROR_MADE_UP")  # type: ignore[arg-type]
    thread.join(10)
    assert len(got) == 1 and isinstance(got[0], LostValueError), got


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loss_that_another_thread_finds_while_a_kernel_runs(failing: Failing, program: str) -> None:
    run, fake = PROGRAMS[program], failing.fake
    before = [numpy.asarray(v) for v in start(numpy)]
    after = [v.copy() for v in before]
    want = run(numpy, after)
    real = fake.run

    def found() -> None:
        real()
        fake.lost = "CUDA_ERROR_MADE_UP"
        residency.mourn(fake, "CUDA_ERROR_MADE_UP")  # type: ignore[arg-type]

    for kept in (True, False):  # whether the host has the values too
        values = [np.evaluate(v) for v in start(np)]
        if kept:
            for v in values:
                numpy.asarray(v)
        fake.run = found  # type: ignore[method-assign]
        try:
            assert same(run(np, values), want) or want is None
        except RAISED as raised:
            assert not kept or fake.lost, raised
        except RuntimeError as raised:
            assert any(word in str(raised) for word in WORDS), raised
        fake.run = real  # type: ignore[method-assign]
        for value, old, new in zip(values, before, after, strict=True):
            readable(value, old, new)
        fake.lost = ""
        placement.lost.clear()


def test_who_looks_for_faults_and_who_launches_hold_one_lock() -> None:
    assert late.lock is residency.lock
