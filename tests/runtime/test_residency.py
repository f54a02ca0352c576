"""Residency: transfers follow from what is read and written where, and what a program sees does not change."""

from __future__ import annotations

import os

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config

from . import fakedevice
from .fakedevice import moved

N = 5000
SIZE = 8 * N


def test_values_stay_where_they_are(fake: fakedevice.FakeDevice) -> None:
    a = np.arange(float(N))
    b = np.evaluate(a * 2 + 1)
    moved()
    for _ in range(3):
        b = np.evaluate(b * 0.5)
    assert moved() == (0, 0)
    assert float(b[3]) == 7 / 8 and b[-1] == numpy.float64((2 * N - 1) / 8)  # single elements come alone
    assert moved() == (0, 16)
    with pytest.raises(IndexError):
        b[N]
    moved()
    b = np.evaluate(b * 1)
    assert moved() == (0, 0)  # looked at, not written
    assert (numpy.asarray(b)[:2] == [1 / 8, 3 / 8]).all()
    assert moved() == (0, SIZE)


def test_foreign_memory_is_read_each_time(fake: fakedevice.FakeDevice) -> None:
    theirs = numpy.arange(float(N))
    x = np.asarray(theirs)
    first = np.evaluate(x + 1)
    theirs[:] = 5
    second = np.evaluate(x + 1)
    assert moved() == (2 * SIZE, 0)
    assert float(first[1]) == 2 and float(second[1]) == 6


def test_writes_by_the_host_reach_the_device(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) * 1)
    x[7] = 100
    y = np.evaluate(x + 1)
    assert float(y[7]) == 101
    view = numpy.asarray(x)
    view[8] = 200  # the array is shared now: read anew by each kernel
    assert float(np.evaluate(x + 1)[8]) == 201


def test_arrays_seen_before_a_kernel_may_be_written_after_it(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    assert float(np.evaluate(x + 1)[3]) == 4
    x.sort()
    x[3] = -1
    assert float(np.evaluate(x + 1)[3]) == 0


def test_exported_memory_shows_what_a_kernel_writes(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.zeros(N) + 1)
    seen = numpy.asarray(x)
    x += 1
    assert (seen == 2).all()
    x[::2] = x[1::2] * 3
    assert seen[0] == 6 and seen[1] == 2


def test_views_need_no_transfer(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    moved()
    for _ in range(3):
        y = np.evaluate(x[:-2] + x[1:-1] + x[2:])
    assert moved() == (0, 0)
    assert float(y[4]) == 15


def test_partial_writes_keep_the_rest(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    x[10:-10] *= 2
    x[1:-1] = 0.5 * (x[:-2] + x[2:])
    want = numpy.arange(float(N))
    want[10:-10] *= 2
    want[1:-1] = 0.5 * (want[:-2] + want[2:])
    assert (numpy.asarray(x) == want).all()


def test_memory_is_given_back(fake: fakedevice.FakeDevice) -> None:
    before = len(fake.blocks)
    x = np.evaluate(np.arange(float(N)) + 0)
    y = np.evaluate(x * 2)
    assert len(fake.blocks) > before
    del x, y
    assert len(fake.blocks) <= before + 1
    assert fake.allocated


def test_what_does_not_fit_goes_back_to_the_host(fake: fakedevice.FakeDevice) -> None:
    with config(device_memory=4 * SIZE):
        arrays = [np.evaluate(np.arange(float(N)) + k) for k in range(8)]
        total = np.evaluate(arrays[0] + arrays[1] + arrays[2])
        assert all(float(x[5]) == 5 + k for k, x in enumerate(arrays))
        assert float(total[5]) == 18
        assert len(fake.blocks) <= 5
        total = np.evaluate(sum(arrays[1:], arrays[0]))  # in pieces
        assert float(total[5]) == 68 and len(fake.blocks) <= 5


def test_without_a_device_buffers_know_nothing_of_it() -> None:
    with config(device="cpu", eager_size=0):
        x = np.evaluate(np.arange(float(N)) + 0)
        assert x._base.node.buffer.device is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_the_values_and_computes_on_the_host(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 1)
    child = os.fork()
    if not child:
        fake.blocks.clear()
        right = float(x[3]) == 4 and float(np.evaluate(x * 2)[3]) == 8 and config.get("device") == "cpu"
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert float(np.evaluate(x * 3)[3]) == 12


@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-1, 0), (1, 1), (-1, 1)])
def test_new_arrays_and_small_parts_are_written_on_the_device(
    fake: fakedevice.FakeDevice, shift: int, axis: int
) -> None:  # fmt: skip
    with config(eager_size=1000):
        x = np.evaluate(np.arange(4.0 * N).reshape(4 * N // 100, 100) + 0)
        moved()
        y = np.roll(x, shift, axis)
        y[0, :5] = 7.0
        np.evaluate(y)
        assert moved() == (0, 0)
        want = numpy.roll(numpy.arange(4.0 * N).reshape(4 * N // 100, 100), shift, axis)
        want[0, :5] = 7
        assert (numpy.asarray(y) == want).all()
