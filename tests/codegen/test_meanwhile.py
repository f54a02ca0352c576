"""First launches in NumPy: the bits and faults of the code, once, and the code is there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.codegen import compile as front
from offarray.codegen import native, prepare
from offarray.codegen.compile import host_target
from offarray.codegen.kernel import UNIT, Kernel, Load, Operand, Store, Value
from offarray.codegen.meanwhile import BLOCK, WORK, suits
from offarray.fusion import replay
from offarray.runtime import threads, trace
from offarray.runtime.config import config

N = 2 * BLOCK + 1003
SPECIAL = numpy.array(
    [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 5e-324, -1e-310, 1.7e308, -1e308, 1e-200, 3.0, -2.5]
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing on disk or in memory; as if there were two cores."""
    host_target()
    prepare.wait()
    monkeypatch.setattr(front, "_known", {})
    monkeypatch.setattr(front, "_begun", set())
    monkeypatch.setattr(threads, "cores", lambda: 2)
    replay.recipes.clear()
    config(device="cpu", eager_size=0, meanwhile=True, cache_dir=tmp_path / "code")
    yield tmp_path / "code"
    prepare.wait()
    replay.recipes.clear()


def operands(dtype: str) -> tuple[Any, Any]:
    """Two arrays in which all pairs of special numbers meet."""
    rng = numpy.random.default_rng(7)
    a, b = rng.standard_normal(N), rng.standard_normal(N) * 1e3
    count = len(SPECIAL)
    a[: count * count], b[: count * count] = numpy.repeat(SPECIAL, count), numpy.tile(SPECIAL, count)
    a[-count:] = SPECIAL
    with numpy.errstate(all="ignore"):
        return a.astype(dtype), b.astype(dtype)


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda a, b: (a * 2.0 + b) * a - b * 0.5,
    "quotient": lambda a, b: a / b - (b / 3.0),
    "root": lambda a, b: np.sqrt(a) + np.square(b),
    "signs": lambda a, b: -(+a) * np.absolute(b),
    "comparisons": lambda a, b: (a < b) | ((a == b) & (a >= 0.5)) | ~(b != 1.0),
    "choice": lambda a, b: np.where(a > b, a / b, b - a),
    "narrower": lambda a, b: (a * 1.5).astype("f4") + b.astype("f4"),
    "wider": lambda a, b: a.astype("f8") * b + (a > b).astype("f8"),
    "windows": lambda a, b: a[1:] - a[:-1] * b[1:],
}  # fmt: skip


def told(action: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What `action` gives, and its warnings."""
    with warnings.catch_warnings(record=True) as seen, config(faults="deferred"):
        warnings.simplefilter("always")
        found = action()
        np.evaluate(found)
    return numpy.asarray(found), sorted(str(w.message) for w in seen)


def same(x: Any, y: Any) -> bool:
    """Whether all bits are equal, but for those of what is no number."""
    number = x == x
    return bool((number == (y == y)).all() and x[number].tobytes() == y[number].tobytes())


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_bits_and_faults_are_those_of_the_code(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, arrays = EXPRESSIONS[name], operands(dtype)
    runs = []
    with config(cache=False):
        for meanwhile in (True, False):
            front._known.clear()
            replay.recipes.clear()
            made = _watched(monkeypatch)
            with config(meanwhile=meanwhile):
                runs.append(told(lambda: form(*(np.array(x) for x in arrays))))
            assert [brief for _, brief in made] == [meanwhile] * len(made)
            assert made
            prepare.wait()
    (first, said), (second, also) = runs
    assert first.dtype == second.dtype
    assert same(first, second)
    assert said == also


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Kernel, bool]]:
    """Kernels that are launched without a recipe, and whether NumPy does it."""
    from offarray import _evaluate as pipeline

    made: list[tuple[Kernel, bool]] = []

    def compile(*args: Any) -> Any:
        found = front.compile(*args)
        made.append((args[0], found.brief))
        return found

    monkeypatch.setattr(pipeline, "compile", compile)
    return made


def test_what_overwrites_its_operand() -> None:
    data = numpy.arange(float(N))
    x = np.array(data)
    x += np.array(data) * 2.0
    x *= x
    assert numpy.array_equal(numpy.asarray(x), (data + data * 2.0) ** 2)


def test_numpy_does_one_launch_and_the_code_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _watched(monkeypatch)
    data, before = numpy.linspace(0.0, 1.0, N), trace.counters["compiles"]
    for k in range(5):
        x = np.array(data) * float(k) - 0.25
        assert numpy.array_equal(numpy.asarray(x), data * float(k) - 0.25)
    for kernel in {kernel for kernel, _ in made}:
        assert [brief for other, brief in made if other == kernel] == [
            True,
            False,
        ]  # from the third on there are recipes
    assert trace.counters["compiles"] == before + len(made) // 2


def test_the_second_launch_waits_for_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    go, plain = threading.Event(), native.compiled

    def slow(*args: Any, **named: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            assert go.wait(30)
        return plain(*args, **named)

    monkeypatch.setattr(native, "compiled", slow)
    data = numpy.linspace(0.0, 1.0, N)

    def run() -> Any:
        return numpy.asarray(np.array(data) * 3.0 + 0.5)

    first = run()
    timer = threading.Timer(0.1, go.set)
    timer.start()
    second = run()
    timer.join()
    assert first.tobytes() == second.tobytes() == (data * 3.0 + 0.5).tobytes()


def test_a_thread_that_fails_leaves_it_to_the_next_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = native.compiled

    def failing(*args: Any, **named: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise OSError("no")
        return plain(*args, **named)

    monkeypatch.setattr(native, "compiled", failing)
    data = numpy.linspace(0.0, 1.0, N)
    for _ in range(3):
        assert numpy.array_equal(numpy.asarray(np.array(data) * 5.0 + 0.5), data * 5.0 + 0.5)
        prepare.wait()
    assert front._known
    assert {known for known, _ in front._known} == {known for known, _ in front._begun}


SCRIPT = """
import os, sys, numpy, offarray as np
from offarray.runtime import threads
threads.cores = lambda: 2
np.config(device='cpu', eager_size=0)
x = numpy.linspace(0.0, 1.0, 40_000)
y = np.array(x) * 2.0 + 1.5
np.evaluate(y)
if "fork" in sys.argv:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
assert numpy.array_equal(numpy.asarray(y * y - 0.5), (x * 2.0 + 1.5) ** 2 - 0.5)
print(np.stats()['compiles'])
"""


def script(place: Path, *args: str) -> list[str]:
    """What a process that ends right after its first evaluations prints."""
    environment = {**os.environ, "OFFARRAY_CACHE_DIR": str(place)}
    line = [sys.executable, "-c", SCRIPT, *args]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def test_the_code_is_on_disk_when_the_process_has_ended(place: Path) -> None:
    assert script(place) == ["2"]
    assert script(place) == ["0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_right_after_the_first_launch(place: Path) -> None:
    assert script(place, "fork") == ["2", "1"]  # the parent finds on disk what the child has made


def kernel(op: str, dtype: str = "f8", noalias: bool = True) -> Kernel:
    """A kernel of one operation on an operand and itself."""
    load = Value("load", dtype, (), Load(0, (UNIT,)), 1)
    value = Value(op, dtype, (0, 0), None, 1)
    operands = Operand(dtype, "r", noalias), Operand(dtype, "w", noalias)
    return Kernel(1, (load, value), (Store(1, (UNIT,), 1, 1),), operands)


def test_what_numpy_does_and_what_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suits(kernel("add"), (N,))
    assert not suits(kernel("add"), (WORK,))  # NumPy would take longer
    for other in (kernel("power"), kernel("add", "f2"), kernel("add", noalias=False), kernel("maximum")):
        assert not suits(other, (N,))
    for setting in ({"meanwhile": False}, {"debug": 2}, {"check": 1}):
        with config(**setting):
            assert not suits(kernel("add"), (N,))
    with monkeypatch.context() as patch:
        patch.setattr(threads, "cores", lambda: 1)
        assert not suits(kernel("add"), (N,))
    go = threading.Event()
    for _ in range(prepare.CROWD):  # who makes kernels faster than they are compiled waits for them
        prepare.background((go.wait,))
    assert not suits(kernel("add"), (N,))
    go.set()
    prepare.wait()
    assert suits(kernel("add"), (N,))
