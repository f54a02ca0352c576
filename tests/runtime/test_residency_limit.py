"""Working sets beyond a device's memory: the same results, with the rest on the host and steps in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from offarray import _evaluate
from offarray.runtime import trace
from offarray.runtime.config import config
from offarray.runtime.errors import MemoryLimitError

from . import fakedevice

LIMIT = 1 << 20
SET = 3 * LIMIT  # bytes of each working set


def chain(xp: Any, nbytes: int) -> Any:
    """An elementwise step whose operands alone are more than fits."""
    n = nbytes // 8 // 4
    a, b, c = (xp.array(numpy.arange(n) * (k + 1.0)) for k in range(3))
    return (a * b + c) / (a + 1.0)


def rows(xp: Any, nbytes: int) -> Any:
    """Steps over the rows of a matrix: each row's largest element, its softmax, its norm."""
    n = nbytes // 8 // 3
    m = xp.sin(xp.arange(n, dtype=float)).reshape(-1, 128)
    e = xp.exp(m - m.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), (m * m).sum(axis=1)


def cycle(xp: Any, nbytes: int) -> Any:
    """Many arrays, used one after another again and again."""
    blocks = [xp.full(nbytes // 8 // 12, float(k)) for k in range(12)]
    for _ in range(3):
        for k, block in enumerate(blocks):
            blocks[k] = block * 0.5 + blocks[k - 1][0]
    return [b.sum() for b in blocks]


PROGRAMS: tuple[Callable[[Any, int], Any], ...] = (chain, rows, cycle)


def equal(got: Any, want: Any) -> bool:
    if isinstance(want, (tuple, list)):
        return all(map(equal, got, want))
    return bool(numpy.allclose(numpy.asarray(got), want, rtol=1e-13, atol=0))


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_larger_than_the_device(program: Callable[[Any, int], Any]) -> None:
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred", device_memory=LIMIT):
        trace.reset()
        got = program(np, SET)
        assert equal(got, program(numpy, SET))
        assert trace.counters["evictions"] + trace.counters["split_steps"] > 0
        assert fake.peak <= LIMIT


@pytest.mark.parametrize("limit", [LIMIT, LIMIT // 7, 10_000])
def test_pieces_move_each_byte_once(limit: int) -> None:
    """Three operands go there, one result comes back, whatever the number of pieces."""
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred", device_memory=limit):
        trace.reset()
        got = numpy.asarray(chain(np, SET))
        assert (trace.counters["h2d_bytes"], trace.counters["d2h_bytes"]) == (3 * got.nbytes, got.nbytes)
        assert fake.peak <= limit and trace.counters["split_steps"] == 1
        assert equal(got, chain(numpy, SET))
        wide, other = (np.array(numpy.arange(SET / 8).reshape(-1, 64) * k) for k in (1.0, 2.0))
        trace.reset()
        sums = numpy.asarray((wide * other).sum(axis=1))
        assert (trace.counters["h2d_bytes"], trace.counters["d2h_bytes"]) == (2 * SET, sums.nbytes)


@pytest.mark.parametrize("program", PROGRAMS)
def test_devices_without_room(program: Callable[[Any, int], Any]) -> None:
    """The device itself refuses, and no limit is set."""
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred"):
        fake.capacity = LIMIT
        assert equal(program(np, SET), program(numpy, SET))


def test_pieces_of_transposed_reversed_and_shifted_operands() -> None:
    n = 400
    m = numpy.arange(1.0 * n * n).reshape(n, n)
    with fakedevice.installed(), config(eager_size=0, faults="deferred", device_memory=m.nbytes * 3 // 2):
        trace.reset()
        x = np.array(m)
        got = numpy.asarray(x[::-1, :] * 2 + x.T + x[:, :1])
        assert (got == m[::-1, :] * 2 + m.T + m[:, :1]).all()
        x[1:] += 3 * m[:-1]
        m[1:] += 3 * m[:-1].copy()
        assert trace.counters["split_steps"] > 0


def test_what_cannot_be_cut_says_what_takes_the_memory() -> None:
    with fakedevice.installed(), config(eager_size=0, faults="deferred", device_memory=LIMIT):
        x = np.evaluate(np.arange(LIMIT / 4) * 1)  # in pieces
        with pytest.raises(MemoryLimitError, match="device_memory"):
            float(x.sum())


def test_what_is_needed_last_goes_first() -> None:
    """A cycle through half more than fits: what was used last, and not what comes next, makes room."""
    size = 1 << 17
    with fakedevice.installed(), config(eager_size=0, faults="deferred", device_memory=8 * size):
        blocks = [np.to_device(np.array(numpy.full(size // 8, float(k)))) for k in range(6)]
        for _ in range(3):
            for block in blocks:
                float(block.sum())
        more = [np.array(numpy.full(size // 8, float(k))) for k in range(6, 12)]
        trace.reset()
        for _ in range(10):
            for k, block in enumerate(blocks + more):
                assert float(block.sum()) == k * (size // 8)
        # the best that can be done sends 12 - 8 + 1 of 12 in each round, the worst all
        assert trace.counters["h2d_bytes"] <= 10 * 8 * size


def test_what_pending_work_reads_stays() -> None:
    size = 1 << 17
    with fakedevice.installed(), config(eager_size=0, faults="deferred", device_memory=4 * size):
        a, b, c = (np.to_device(np.array(numpy.full(size // 8, float(k)))) for k in range(3))
        later = a + 1  # `a` was used longest ago, and is read by what is pending
        _evaluate._tell_needs()
        d = np.to_device(np.array(numpy.full(size // 8, 3.0)))
        e = np.to_device(np.array(numpy.full(size // 8, 4.0)))
        assert a.device == d.device == e.device == "cuda:0" and b.device == "cpu"
        assert float(later[0]) == 1 and c[0] == 2


def test_looks_at_columns_of_what_fills_the_device() -> None:
    with fakedevice.installed() as fake, config(eager_size=0, faults="deferred"):
        n = numpy.arange(40_000.0).reshape(200, 200)
        x = np.evaluate(np.array(n) * 1)
        fake.capacity = fake.used
        assert x[:, 7].tolist() == n[:, 7].tolist()
        assert (numpy.asarray(x * 2) == n * 2).all()
