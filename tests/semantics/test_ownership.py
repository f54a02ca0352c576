"""Ownership: moved values are dead, borrowed ones cannot be written, and dead buffers are written over.

Bytes are counted where memory is handed out (the pool), never by the clock or the system.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from tests import twice
from tests.semantics.measure import peak
from tests.twice import MODULE as np

pytestmark = pytest.mark.skipif(twice.SELF, reason="ownership is offarray's own")

N = 50_000
TWO = 2.2 * N * 8  # two buffers; blocks are up to an eighth larger than asked for
LAZY: dict[str, Any] = {"eager_size": 0, "faults": "deferred"}


@pytest.fixture(autouse=True)
def lazy() -> Iterator[None]:
    with np.config(**LAZY):
        yield


def line() -> int:
    """Number of the line that calls."""
    return sys._getframe(1).f_lineno


def raises(kind: type[Exception], *lines: int) -> Any:
    """As pytest.raises; the message names this file and the given lines."""
    parts = "".join(rf"(?=.*\b{n}\b)" for n in lines)
    return pytest.raises(kind, match=f"(?s){parts}(?=.*{re.escape('test_ownership.py')})")


# -- move --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pending", [False, True])
def test_move_gives_the_value(pending: bool) -> None:
    a = np.arange(N) * 1.0
    if not pending:
        np.evaluate(a)
    b = np.move(a)
    assert numpy.array_equal(numpy.asarray(b), numpy.arange(N) * 1.0)
    b += 1
    assert float(b[3]) == 4.0


USES: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda a: a + 1,
    "in place": lambda a: a.__iadd__(1),
    "function": lambda a: np.exp(a),
    "reduction": lambda a: a.sum(),
    "element": lambda a: a[0],
    "slice": lambda a: a[1:],
    "write": lambda a: a.__setitem__(0, 1),
    "asarray": lambda a: numpy.asarray(a),
    "print": lambda a: str(a),
    "list": lambda a: a.tolist(),
    "copy": lambda a: a.copy(),
    "transpose": lambda a: a.T,
    "reshape": lambda a: a.reshape(-1),
    "iteration": lambda a: list(a),
    "sort": lambda a: np.sort(a),
    "out": lambda a: np.add(1, 2, out=a),
    "second move": lambda a: np.move(a),
    "borrow": lambda a: np.borrow(a),
    "evaluate": lambda a: np.evaluate(a),
    "comparison": lambda a: a == 1,
    "join": lambda a: np.concatenate([a, a]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("pending", [False, True])
def test_moved_is_dead(use: str, pending: bool) -> None:
    a = np.arange(N) * 1.0
    if not pending:
        np.evaluate(a)
    b = np.move(a)
    with pytest.raises(np.MovedError):
        USES[use](a)
    assert float(b[2]) == 2.0


def test_moved_error_names_both_lines() -> None:
    a = np.arange(N) * 1.0
    moved, b = line(), np.move(a)
    used = line() + 2
    with raises(np.MovedError, moved, used):
        a + 1
    assert float(b[1]) == 1.0


def test_moving_what_others_view() -> None:
    a = np.arange(N) * 1.0
    v = a[10:]
    with raises(np.BorrowError, line() + 1):
        np.move(a)
    v += 1
    assert float(a[10]) == 11.0
    del v
    b = np.move(a)
    assert float(b[10]) == 11.0


def test_moving_what_is_borrowed() -> None:
    a = np.arange(N) * 1.0
    borrowed, h = line(), np.borrow(a)
    with raises(np.BorrowError, borrowed, line() + 1):
        np.move(a)
    assert float(h[1]) == 1.0
    del h
    assert float(np.move(a)[1]) == 1.0


def test_a_second_name_is_moved_too() -> None:
    a = np.arange(N) * 1.0
    other = a
    b = np.move(a)
    with pytest.raises(np.MovedError):
        other + 1
    assert float(b[1]) == 1.0


def test_pending_readers_of_a_moved_value() -> None:
    a = np.arange(N) * 1.0
    np.evaluate(a)
    y = a * 2
    b = np.move(a)
    b += 100
    assert float(y[5]) == 10.0
    assert float(b[5]) == 105.0


def test_moved_memory_is_written_over() -> None:
    a = np.arange(N) * 1.0
    np.evaluate(a)

    def consume(x: Any) -> Any:
        y = np.move(x)
        y = y * 2 + 1
        np.evaluate(y)
        return y

    result: list[Any] = []
    most, _ = peak(lambda: result.append(consume(a)))
    assert float(result[0][3]) == 7.0
    assert most < N  # no new buffer of N elements of eight bytes


# -- borrow ------------------------------------------------------------------------------------------------------------


WRITES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda a: a.__iadd__(1),
    "element": lambda a: a.__setitem__(0, 1),
    "slice": lambda a: a.__setitem__(slice(1, 5), 1),
    "through a view": lambda a: a[5:].__imul__(2),
    "mask": lambda a: a.__setitem__(a > 5, 0),
    "indices": lambda a: a.__setitem__(np.arange(4), 0),
    "out": lambda a: np.add(a, 1, out=a),
    "copyto": lambda a: np.copyto(a, 0),
    "fill": lambda a: a.fill(0),
    "sort": lambda a: a.sort(),
    "at": lambda a: np.add.at(a, np.arange(3), 1),
    "put": lambda a: np.put(a, [1], 0),
    "flat": lambda a: a.flat.__setitem__(0, 1),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("pending", [False, True])
def test_borrowed_cannot_be_written(write: str, pending: bool) -> None:
    a = np.arange(N) * 1.0
    if not pending:
        np.evaluate(a)
    h = np.borrow(a)
    with pytest.raises(np.BorrowError):
        WRITES[write](a)
    assert numpy.array_equal(numpy.array(h), numpy.arange(N) * 1.0)
    assert numpy.array_equal(numpy.array(a), numpy.arange(N) * 1.0)
    del h
    WRITES[write](a)
    want = numpy.arange(N) * 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "np", numpy)
        WRITES[write](want)
    assert numpy.array_equal(numpy.array(a), want)


def test_borrow_error_names_both_lines() -> None:
    a = np.arange(N) * 1.0
    borrowed, h = line(), np.borrow(a)
    with raises(np.BorrowError, borrowed, line() + 1):
        a[0] = 1
    assert float(h[0]) == 0.0


def test_borrow_is_read_only() -> None:
    a = np.arange(N) * 1.0
    h = np.borrow(a)
    assert not h.flags.writeable
    with pytest.raises((ValueError, np.BorrowError)):
        h[0] = 1
    with pytest.raises((ValueError, np.BorrowError)):
        h += 1
    assert np.shares_memory(h, a)
    assert float((h * 2)[4]) == 8.0


def test_two_borrows() -> None:
    a = np.arange(N) * 1.0
    g, h = np.borrow(a), np.borrow(a)
    del g
    with pytest.raises(np.BorrowError):
        a += 1
    del h
    a += 1
    assert float(a[0]) == 1.0


def test_a_view_of_a_borrow_holds_it() -> None:
    a = np.arange(N) * 1.0
    v = np.borrow(a)[5:]
    with pytest.raises(np.BorrowError):
        a += 1
    assert float(v[0]) == 5.0
    del v
    a += 1
    assert float(a[5]) == 6.0


def test_results_of_a_borrow_are_free() -> None:
    a = np.arange(N) * 1.0
    h = np.borrow(a)
    y = h + 1
    y += 1
    del h
    a += 5
    assert float(y[0]) == 2.0
    assert float(a[0]) == 5.0


# -- donation ----------------------------------------------------------------------------------------------------------


def loop(steps: int) -> Any:
    x = np.full(N, 0.25)
    for _ in range(steps):
        x = np.tanh(x) * 0.5 + 0.1
        np.evaluate(x)
    return x


def test_a_rebound_loop_keeps_one_buffer() -> None:
    most, taken = peak(lambda: loop(10))
    assert most <= TWO
    assert taken <= 6
    with np.config(donate=False):
        _, more = peak(lambda: loop(10))
    assert more >= 10  # what donation saves


def test_lazy_loop_keeps_two_buffers() -> None:
    def body() -> None:
        x = np.full(N, 0.25)
        for _ in range(40):
            x = np.tanh(x) * 0.5 + 0.1
        np.evaluate(x)

    with np.config(bound=12):
        most, _ = peak(body)
    assert most <= TWO


def test_donation_spares_what_is_alive() -> None:
    a = np.arange(N) * 1.0
    np.evaluate(a)
    b = a * 2
    np.evaluate(b)
    c = b + 1
    alias = c
    np.evaluate(c)
    d = c * 3
    del c
    np.evaluate(d)
    for got, want in ((a, 5.0), (b, 10.0), (alias, 11.0), (d, 33.0)):
        assert float(got[5]) == want


def test_donation_spares_pending_readers() -> None:
    x = np.arange(N) * 1.0
    np.evaluate(x)
    late = x + 100  # pending, needs x
    y = x * 2
    del x
    np.evaluate(y)
    assert float(y[5]) == 10.0
    assert float(late[5]) == 105.0


def test_donation_spares_exported_memory() -> None:
    x = np.arange(N) * 1.0
    v = numpy.asarray(x)
    y = x * 2
    del x
    np.evaluate(y)
    assert v[5] == 5.0
    assert float(y[5]) == 10.0


def test_rebinding_ten_thousand_times() -> None:
    def body() -> None:
        x = np.full(2000, 1.0)
        for _ in range(10_000):
            x = x * 0.5 + 1
        assert float(x[7]) == 2.0

    most, _ = peak(body)
    assert most <= 600 * 16_000  # what the bound of pending work may keep, not ten thousand arrays


@pytest.mark.parametrize("device", ["interpret", "cpu"])
def test_a_chain_of_ten_thousand_operations(device: str) -> None:
    """Planned as one graph, without recursion, cut into kernels of bounded size."""
    with np.config(bound=100_000, bound_bytes=1 << 40, device=device):
        x = np.zeros(64)
        for _ in range(10_000):
            x = x + 1
        assert float(x[5]) == 10_000.0


def test_a_dropped_chain_is_never_run() -> None:
    with np.config(bound=100_000, bound_bytes=1 << 40):
        x = np.zeros(64)
        for _ in range(10_000):
            x = x + 1
        before = np.stats()["kernels"]
        del x
        gc.collect()
        np.evaluate()
        assert np.stats()["kernels"] == before


def test_check_finds_a_wrong_donation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that gives living memory away is caught, not believed."""
    from offarray import _evaluate
    from offarray.fusion import memory
    from offarray.runtime.errors import CheckError

    class Careless(memory.Lifetimes):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.free = set(self.last)

    monkeypatch.setattr(_evaluate, "Lifetimes", Careless)
    with np.config(check=1):
        a = np.arange(N) * 1.0
        np.evaluate(a)
        b = a * 2
        with pytest.raises(CheckError):
            np.evaluate(b)
