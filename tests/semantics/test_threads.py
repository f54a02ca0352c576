"""Threads, forks and interruptions: a value is right or an error, never wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from tests import twice
from tests.twice import MODULE as np

pytestmark = pytest.mark.skipif(twice.SELF, reason="NumPy has nothing to evaluate late")

N = 20_000


@pytest.fixture(autouse=True)
def lazy() -> Iterator[None]:
    with np.config(eager_size=0, faults="deferred"):
        yield


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Run the actions at the same time; their values or exceptions."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def work(k: int) -> None:
        barrier.wait()
        try:
            results[k] = actions[k]()
        except BaseException as error:
            results[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(actions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results


def test_one_unevaluated_array_in_many_threads() -> None:
    for _ in range(10):
        a = np.arange(N) * 1.0
        y = (a + 1) * 2
        z = y - a
        results = together(
            lambda y=y: numpy.array(y),
            lambda z=z: numpy.array(z),
            lambda y=y: float(y.sum()),
            lambda y=y: (y + 1).tolist(),
        )
        want = (numpy.arange(N) + 1.0) * 2
        assert numpy.array_equal(results[0], want)
        assert numpy.array_equal(results[1], want - numpy.arange(N))
        assert results[2] == want.sum()
        assert results[3] == (want + 1).tolist()


def test_threads_record_and_evaluate_their_own() -> None:
    shared = np.arange(N) * 1.0

    def work(k: int) -> Any:
        x = shared + k
        for _ in range(30):
            x = x * 0.5 + k
            if k % 2:
                np.evaluate(x)
        return numpy.array(x)

    for k, got in enumerate(together(*(lambda k=k: work(k) for k in range(4)))):
        want = numpy.arange(N) + float(k)
        for _ in range(30):
            want = want * 0.5 + k
        assert numpy.array_equal(got, want)


def test_each_thread_has_its_errstate() -> None:
    z = np.zeros(N)

    def strict() -> str:
        with np.errstate(all="raise"):
            for _ in range(20):
                try:
                    np.evaluate(1 / z)
                except FloatingPointError:
                    continue
                return "not raised"
        return "raised"

    def loose() -> str:
        with np.errstate(all="ignore"):
            for _ in range(20):
                np.evaluate(1 / z)
        return "ignored"

    assert together(strict, loose, strict, loose) == ["raised", "ignored", "raised", "ignored"]


def test_a_value_dies_in_another_thread() -> None:
    box = [np.arange(N) * 2.0]
    y = box[0] + 1

    def drop() -> None:
        box.clear()

    together(drop, lambda: np.evaluate(y))
    assert float(y[3]) == 7.0


FORK = """
import os, sys
import numpy
import offarray as np
np.config(eager_size=0)
a = np.arange(200_000) * 1.0
y = a * 2 + 1
z = np.sqrt(y)
np.evaluate(z)
w = y + z
sys.stdout.flush()
pid = os.fork()
want = numpy.arange(200_000) * 2.0 + 1
want = want + numpy.sqrt(want)
ok = numpy.array_equal(numpy.array(w), want) and float((w * 0 + 1).sum()) == 200_000
if pid == 0:
    os._exit(0 if ok else 3)
_, status = os.waitpid(pid, 0)
print(ok, os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_fork(device: str) -> None:
    """The child and the parent both see values that were pending, and can go on."""
    env = {**os.environ, "OFFARRAY_DEVICE": device, "PYTHONWARNINGS": "ignore"}
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, env=env)
    assert run.stdout.split() == ["True", "0"], run.stdout + run.stderr


class Interrupted:
    """Stands in for `program.launch`: raises KeyboardInterrupt before or after the n-th launch has run."""

    def __init__(self, launch: Callable[..., Any], at: int, after: bool) -> None:
        self.launch, self.left, self.after = launch, at, after

    def __call__(self, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise KeyboardInterrupt
        result = self.launch(*args)
        if self.left == 0:
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_interrupted_evaluation(monkeypatch: pytest.MonkeyPatch, at: int, after: bool) -> None:
    """Afterwards every array gives its right value or raises; no update is lost silently or applied twice."""
    from offarray.runtime import program

    base = numpy.arange(float(N))
    a = np.array(base)
    np.evaluate(a)
    kept = a * 2
    s = kept.sum(axis=0, keepdims=True)
    x = (a + 1) / s
    y = x * 3
    del x
    a += 5
    a[1:] += a[:-1]
    want_kept, want_a = base * 2, base + 5
    want_y = (base + 1) / want_kept.sum(keepdims=True) * 3
    want_a[1:] += want_a[:-1]
    monkeypatch.setattr(program, "launch", Interrupted(program.launch, at, after))
    interrupted = False
    try:
        np.evaluate(kept, y, a)
    except KeyboardInterrupt:
        interrupted = True
    monkeypatch.undo()
    readable = 0
    for _ in range(2):
        for got, want in ((kept, want_kept), (y, want_y), (a, want_a)):
            try:
                value = numpy.array(got)
            except (KeyboardInterrupt, Exception):
                assert interrupted
                continue
            readable += 1
            numpy.testing.assert_allclose(value, want, rtol=1e-12)
    assert interrupted or readable == 6
    fresh = np.arange(N) * 2.0 + 1
    assert float(fresh[4]) == 9.0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_a_failed_launch_does_not_poison_others(monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]) -> None:
    from offarray.runtime import program

    a, b = np.arange(N) * 1.0, np.arange(N) * 3.0
    np.evaluate(a, b)
    y, z = a + 1, b + 1

    def fail(*args: Any) -> Any:
        raise kind

    with monkeypatch.context() as patch:
        patch.setattr(program, "launch", fail)
        with pytest.raises(kind):
            np.evaluate(y)
    assert float(z[1]) == 4.0
    assert float(a[1]) == 1.0
    try:
        value = float(y[1])
    except BaseException as error:
        assert isinstance(error, (kind, RuntimeError)), error
    else:
        assert value == 2.0


def test_finalizers_may_use_arrays() -> None:
    """A destructor that runs in the middle of planning evaluates arrays of its own."""
    seen: list[float] = []

    class Noisy:
        def __init__(self) -> None:
            self.cycle = self
            self.x = np.arange(N) * 2.0

        def __del__(self) -> None:
            seen.append(float((self.x + 1)[2]))

    import gc

    old = gc.get_threshold()
    gc.set_threshold(20)
    try:
        x = np.arange(N) * 1.0
        for _ in range(30):
            Noisy()
            x = x * 0.5 + 1
            np.evaluate(x)
    finally:
        gc.set_threshold(*old)
        gc.collect()
    assert len(seen) == 30
    assert set(seen) == {5.0}
    want = numpy.arange(float(N))
    for _ in range(30):
        want = want * 0.5 + 1
    assert numpy.array_equal(numpy.array(x), want)


@pytest.mark.parametrize("replayed", [False, True])
def test_interrupt_between_a_launch_and_its_commit(monkeypatch: pytest.MonkeyPatch, replayed: bool) -> None:
    """The value was perhaps computed in memory that it took over: it raises from then on, and so does what needs it."""
    from offarray import _evaluate
    from offarray.fusion import stage

    if replayed and not hasattr(stage, "commit"):
        pytest.skip("in C nothing comes between the two")

    def program() -> tuple[Any, Any]:
        x = np.array(numpy.arange(float(N)))
        y = x * 2 + 1
        return y, y - 1

    with np.config(eager_size=0, faults="deferred"):
        if replayed:
            np.evaluate(program()[0])
        y, z = program()

        def interrupted(*args: Any) -> None:
            raise KeyboardInterrupt

        for module in (_evaluate, stage):
            monkeypatch.setattr(module, "commit", interrupted, raising=module is _evaluate)
        with pytest.raises(KeyboardInterrupt):
            np.evaluate(y)
        monkeypatch.undo()
        for pending in (y, z, y):
            with pytest.raises(RuntimeError):
                np.evaluate(pending)
        w = np.array(numpy.arange(float(N))) * 3
        assert float(w[2]) == 6.0
