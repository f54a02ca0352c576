"""Parts of launches that threads hand each other as machine code."""

from __future__ import annotations

import ctypes
import threading
import time
import warnings
from array import array
from collections.abc import Iterator

import numpy
import pytest

import offarray as np
from offarray import config
from offarray.codegen import crew
from offarray.codegen.crew import made
from offarray.runtime import program, threads

pytestmark = pytest.mark.skipif(made() is None, reason="no machine code for handing over on this system")
N = 1 << 18


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every launch is worth any number of threads."""
    monkeypatch.setattr(program, "SHARE", 1e-15)
    monkeypatch.setattr(program, "QUICK", 1e-15)
    monkeypatch.setattr(program, "_pace", {})
    with config(device="cpu", eager_size=0):
        yield


def numbers() -> numpy.ndarray:
    return numpy.random.default_rng(5).uniform(0.5, 1.5, N)


def code_of(function: object) -> int:
    """Address of a C callback, as the object behind one of codegen/builtin.py has it."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_any_number_of_threads_gives_the_same_bits(dtype: str) -> None:
    x = numbers().astype(dtype)
    found = []
    for count in (1, 2, 3, 7, 16):
        with config(threads=count):
            a = np.array(x)
            b = a.reshape(512, -1)
            results = [
                np.exp(a) / (1.0 + a), (a * a).sum(), a.prod(), np.cumsum(a * a), b.sum(axis=0), b.mean(axis=1),
                b - b.mean(axis=1, keepdims=True), (a * a).reshape(64, 64, -1).sum(axis=1),
            ]  # fmt: skip
            found.append([numpy.asarray(r).tobytes() for r in results])
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_extremes_and_places_do_not_depend_on_threads(dtype: str) -> None:
    x = (1000 * numbers()).astype(dtype)
    x[[7, N - 9]] = 5000
    for count in (1, 2, 5):
        with config(threads=count):
            a = np.array(x) * 1
            assert (int(a.argmax()), float(a.max())) == (7, 5000)
            assert int((a * 2).argmin()) == int(x.argmin())


def test_workers_that_come_late_lose_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    with config(threads=4):
        for wake in (lambda worker: None, threads._Worker.wake, lambda worker: None, threads._Worker.wake):
            monkeypatch.setattr(threads._Worker, "wake", wake)
            for _ in range(20):
                time.sleep(0.002)  # the workers go to sleep
                assert numpy.array_equal(np.array(x) * 2.0 + 1.0, x * 2.0 + 1.0)


def test_workers_that_are_done_early_get_their_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = threads._Worker.wake

    def wake(worker: threads._Worker) -> None:
        usual(worker)
        done = ctypes.c_int64.from_address(worker.slot + 8 * threads.DONE)
        late = time.monotonic() + 1
        while not done.value and time.monotonic() < late:
            time.sleep(1e-4)

    with config(threads=4):
        a = np.array(numbers())
        expected = numbers()
        np.evaluate(a * 2)  # there are workers
        monkeypatch.setattr(threads._Worker, "wake", wake)
        for name in ("BRIEF", "LONG"):
            monkeypatch.setattr(threads, name, 1 << 19)  # so that they still look when all parts are offered
        for _ in range(6):
            time.sleep(0.1)  # the workers go to sleep
            a += 1.0
            np.evaluate(a)
            expected += 1.0
        assert numpy.array_equal(a, expected)


@pytest.mark.parametrize("state", [threads.ASLEEP, threads.POSTED, threads.AWAKE])
def test_workers_look_again_where_their_state_changed_before_they_sleep(state: int) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    ran: list[tuple[int, int]] = []

    @kind
    def part(row: int | None, first: int, last: int) -> int:
        ran.append((first, last))
        return 0

    found = made()
    assert found is not None
    board = array("q", (threads.RUNNING, code_of(part), 1, 3, 5, 0, 0, 0))  # somebody else's part; no patience left
    worker = threading.Thread(target=found[1], args=(board.buffer_info()[0],), daemon=True)
    worker.start()
    time.sleep(0.05)
    board[0] = state
    worker.join(10)
    stuck = worker.is_alive()
    board[0] = threads.AWAKE  # lets one go that looks at nothing else
    assert not stuck
    assert ran == ([(3, 5)] if state == threads.POSTED else [])


def test_an_interrupt_comes_out_when_every_part_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    wake = threads._Worker.wake

    def interrupted(worker: threads._Worker) -> None:
        wake(worker)
        raise KeyboardInterrupt

    with config(threads=3):
        a = np.array(x)
        monkeypatch.setattr(threads._Worker, "wake", interrupted)
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            np.evaluate(a * 3.0)
        monkeypatch.setattr(threads._Worker, "wake", wake)
        for _ in range(10):
            assert numpy.array_equal(a * 3.0, x * 3.0)


@pytest.mark.parametrize("place", [0, N // 2, N - 1])
def test_faults_of_every_part_are_reported(place: int) -> None:
    x = numbers()
    x[place] = 0.0
    with config(threads=3, faults="deferred"):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            np.evaluate(1.0 / np.array(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.evaluate(1.0 / np.array(numbers()))


def test_answers_of_all_parts_are_joined_and_reported_by_range() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    ran: list[tuple[int, int, int]] = []
    told: list[tuple[int, int, int]] = []

    @kind
    def part(row: int | None, first: int, last: int) -> int:
        ran.append((row or 0, first, last))
        return int(first >= 4)

    ranges = threads.parts(8, 4)
    for _ in range(5):
        ran.clear()
        told.clear()
        with threads._busy:
            assert threads._prepared()
            threads._share(code_of(part), lambda *a: told.append(a), [1, 2, 3, 4], ranges)
        assert sorted(ran) == [(k + 1, *r) for k, r in enumerate(ranges)]
        assert told == [(3, 4, 6), (4, 6, 8)]


def test_launches_of_many_threads_share_one_crew() -> None:
    x = numbers()
    wrong: list[int] = []

    def work(number: int) -> None:
        a = np.array(x + number)
        for _ in range(30):
            if not numpy.array_equal(a * 2.0, (x + number) * 2.0):
                wrong.append(number)

    with config(threads=3):
        several = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for each in several:
            each.start()
        for each in several:
            each.join()
    assert not wrong


def test_without_machine_code_the_interpreter_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    monkeypatch.setattr(threads, "_crew", None)
    monkeypatch.setattr(threads, "_asked", True)
    with config(threads=3):
        for _ in range(5):
            assert numpy.array_equal(np.array(x) * 2.0 + 1.0, x * 2.0 + 1.0)


def test_a_processor_without_a_known_pause_has_no_crew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert crew.text() is None
    assert crew.made.__wrapped__() is None
