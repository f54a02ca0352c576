"""Buffers and the pool: addresses, views, what counts as shared, reuse and limits."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import numpy
import pytest
from numpy.lib.array_utils import byte_bounds

from offarray.runtime import pool
from offarray.runtime.buffer import adopt, allocate
from offarray.runtime.config import config
from offarray.runtime.errors import MemoryLimitError

F8, I4, OBJECT = numpy.dtype("f8"), numpy.dtype("i4"), numpy.dtype(object)


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    gc.collect()
    pool.trim()
    with config(device="cpu"):  # memory of the host
        yield
    pool.trim()


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65, 1000, 4096, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("zero", [False, True])
def test_allocation(nbytes: int, zero: bool) -> None:
    allocate(nbytes).poison(0xFF)  # gives back a dirty block
    buffer = allocate(nbytes, zero)
    assert buffer.address % 64 == 0
    assert buffer.nbytes == nbytes <= buffer.array.nbytes
    assert not buffer.shared
    if zero:
        assert not buffer.raw.any()


def test_capacities_grow_and_waste_little() -> None:
    sizes = [*range(1, 5000), *(2**k + d for k in range(12, 40) for d in (-1, 0, 1))]
    for n in sizes:
        c = pool.capacity(n)
        assert n <= c
        assert c == pool.capacity(c)
        assert c <= max(n + 64, n * 9 // 8 + 1)
    assert [pool.capacity(n) for n in sorted(sizes)] == sorted(pool.capacity(n) for n in sizes)


def test_views_are_numpys_views() -> None:
    buffer = allocate(96)
    whole = buffer.view(F8, (3, 4))
    whole[...] = numpy.arange(12).reshape(3, 4)
    assert whole.__array_interface__["data"][0] == buffer.address
    numpy.testing.assert_array_equal(buffer.view(F8, (4, 3), 0, (8, 32)), whole.T)
    numpy.testing.assert_array_equal(buffer.view(F8, (3,), 88, (-32,)), whole[::-1, 3])
    assert buffer.view(F8, (0, 3), 96).shape == (0, 3)
    assert buffer.view(F8, (), 8) == 1.0
    assert not buffer.view(F8, (3,), writeable=False).flags.writeable
    assert not buffer.shared
    with pytest.raises(TypeError, match="buffer"):
        buffer.view(F8, (17,))


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(12.0).reshape(3, 4), numpy.arange(12.0).reshape(3, 4).T, numpy.arange(12)[::-2],
        numpy.zeros((0, 3)),
        numpy.array(5, "i2"), numpy.arange(4).astype("M8[s]"), numpy.array(["a", "bcd"]), numpy.arange(3, dtype="g"),
        numpy.array([(1, 2.0), (3, 4.0)], "i4,f8"), numpy.arange(24.0).reshape(2, 3, 4)[:, ::-1, 1::2],
        numpy.array([1, None, "x"], object), numpy.array([1, None, "x", []], object)[::-2],
        numpy.array([(1, "a"), (2, None)], [("n", "i4"), ("o", object)]), numpy.array(["a", "long" * 9], "T"),
        numpy.array(["a", "long" * 9], "T")[::-1], numpy.array("long" * 9, "T"),
        numpy.array([["a", "b"], ["long" * 9, "e"]], "T").T[::-1],
        numpy.array([(1, "a"), (2, None)], numpy.dtype([("n", "i1"), ("o", object)], align=True)),
    ],
    ids=lambda a: f"{a.dtype.char}{a.shape}",
)  # fmt: skip
@pytest.mark.parametrize("foreign", [False, True])
def test_adopted_memory_seen_again(array: numpy.ndarray, foreign: bool) -> None:
    buffer = adopt(array, foreign)
    first = array.__array_interface__["data"][0] - buffer.address
    where = (array.dtype, array.shape, first, array.strides)
    assert buffer.shared is foreign
    for seen in (buffer.view(*where), buffer.export(*where)):
        assert seen.dtype == array.dtype
        assert seen.strides == array.strides
        assert seen.tolist() == array.tolist()
        assert seen.__array_interface__["data"][0] == array.__array_interface__["data"][0]
        assert numpy.shares_memory(seen, array) or not array.size
    seen = None
    assert buffer.shared is foreign


STRINGS = numpy.array([str(i) * (i + 1) for i in range(24)], "T").reshape(2, 3, 4)


@pytest.mark.parametrize(
    "view",
    [
        STRINGS, STRINGS.T, STRINGS[::-1, ::2, 1:3], STRINGS[:, 1], STRINGS[..., None, 0], STRINGS[1, 2, 3:],
        STRINGS.reshape(-1)[::5], STRINGS[0].diagonal(), numpy.broadcast_to(STRINGS[0, 0], (2, 4)), STRINGS[:0],
        STRINGS[:, ::-2, ::-3], STRINGS.transpose(1, 2, 0)[1:, 1:],
    ],
)  # fmt: skip
@pytest.mark.parametrize("foreign", [False, True])
def test_strings_are_seen_through_views_of_their_owner(view: numpy.ndarray, foreign: bool) -> None:
    buffer = adopt(STRINGS, foreign)
    where = (view.dtype, view.shape, view.__array_interface__["data"][0] - buffer.address, view.strides)
    inner, out = buffer.view(*where), buffer.export(*where, writeable=False)
    for seen in (inner, out):
        assert type(seen) is numpy.ndarray
        assert seen.tolist() == view.tolist()
        assert numpy.shares_memory(seen, STRINGS) or not view.size
    assert not out.flags.writeable
    if view.size:
        out = out[..., None].T  # NumPy shortens chains of bases
        assert buffer.shared
    del out, seen
    gc.collect()
    assert buffer.shared is foreign


def test_strings_are_not_seen_through_views_that_overlap_themselves() -> None:
    buffer = adopt(STRINGS, False)
    with pytest.raises(TypeError, match="overlaps itself"):
        buffer.view(STRINGS.dtype, (22, 3), 0, (16, 16))


def test_references_stay_alive_in_an_exported_object_array() -> None:
    buffer = adopt(numpy.array([["a"], {1: 2}], object), False)
    out = buffer.export(OBJECT, (2,))
    assert buffer.shared
    del buffer
    gc.collect()
    out[0] = "new"
    assert out.tolist() == ["new", {1: 2}]


def test_read_only_memory_stays_read_only() -> None:
    array = numpy.arange(4.0)
    array.flags.writeable = False
    buffer = adopt(array, True)
    assert not buffer.writeable
    for seen in (buffer.view(F8, (2,)), buffer.export(F8, (2,))):
        assert not seen.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            seen.flags.writeable = True
    assert allocate(8).writeable


def test_shared_while_an_exported_array_or_anything_made_from_it_lives() -> None:
    buffer = allocate(80)
    array = buffer.export(F8, (10,))
    assert buffer.shared
    part = array[2:4].reshape(1, 2)
    del array
    assert buffer.shared
    look = memoryview(part)
    del part
    assert buffer.shared
    other = buffer.export(F8, (2,), writeable=False)
    assert not other.flags.writeable
    del look
    assert buffer.shared
    del other
    assert not buffer.shared
    copy = buffer.export(F8, (10,)).copy()
    assert not buffer.shared
    del copy


def test_an_exported_array_outlives_its_buffer() -> None:
    buffer = allocate(8000)
    array = buffer.export(F8, (1000,))
    array[:] = 7
    del buffer
    others = [allocate(8000) for _ in range(20)]
    for other in others:
        other.poison(0)
    assert (array == 7).all()


def test_memory_is_used_again_only_when_nothing_refers_to_it() -> None:
    buffer = allocate(8000)
    address = buffer.address
    del buffer
    buffer = allocate(7900)
    assert buffer.address == address
    view = buffer.view(F8, (10,))
    del buffer
    assert allocate(8000).address != address
    del view
    kept = allocate(8000)
    array = kept.array
    address = kept.address
    del kept
    assert allocate(8000).address != address
    assert array.nbytes


def test_the_pool_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    with config(pool_bytes=3 << 20):
        for size in (1, 2, 1, 3, 4):
            allocate(size << 20)
            assert pool.stats()["held"] <= 3 << 20
        assert pool.stats()["held"] == 3 << 20  # 4 MiB is over the bound, 3 MiB pushed the others out
    with config(pool_bytes=0):
        pool.trim()
        allocate(100)
        assert pool.stats()["held"] == 0


def test_memory_limit() -> None:
    live = pool.stats()["live"]
    with config(memory_limit=live + (4 << 20)):
        allocate(3 << 20)  # its freed block counts, but makes room
        first = allocate(2 << 20)
        with pytest.raises(MemoryLimitError, match="memory_limit"):
            allocate(3 << 20)
        with pytest.raises(MemoryError):
            allocate(3 << 20, zero=True)
        second = allocate(1 << 20)
        assert pool.stats()["live"] == live + first.nbytes + second.nbytes
        del first
        assert allocate(3 << 20).nbytes == 3 << 20
    del second
    assert pool.stats()["live"] == live


def test_adopted_memory_counts_unless_foreign() -> None:
    live = pool.stats()["live"]
    mine = adopt(numpy.empty(1000), False)
    other = adopt(numpy.empty(1000), True)
    assert pool.stats()["live"] == live + 8000
    del mine, other
    assert pool.stats()["live"] == live


def test_the_first_large_block_comes_from_the_stock() -> None:
    pool.stock()
    stocked = pool._stock[0]
    start, end = byte_bounds(stocked)
    del stocked
    small, zeroed = allocate(pool.LEAST >> 1), allocate(pool.STOCK, True)
    large = allocate(pool.STOCK + 1)
    assert not any(start <= b.address < end for b in (small, zeroed, large))
    first, second = allocate(800_000), allocate(800_000)
    assert start <= first.address and first.address + first.array.nbytes <= end and first.address % 64 == 0
    assert not start <= second.address < end
    where = first.address
    del first
    assert allocate(800_000).address == where  # given back and taken again as any other block


@pytest.mark.parametrize("limits", [{"memory_limit": 1 << 24}, {"pool_bytes": 1 << 20}])
def test_no_stock_where_memory_is_bounded(limits: dict[str, int]) -> None:
    with config(**limits):
        pool.stock()
        assert not pool._stock
    pool.stock()
    assert pool._stock
    pool.trim()
    assert not pool._stock


def test_threads_share_the_pool() -> None:
    before = pool.stats()["live"]
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(300):
            buffer = allocate(64 * (1 + turn % 5))
            view = buffer.view(I4, (4,))
            view[:] = number
            other = allocate(256)
            other.view(I4, (4,))[:] = -1
            if (view != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.stats()["live"] == before
    held = sum(size * len(blocks) for size, blocks in pool._free.items())
    assert pool.stats()["held"] == held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_allocates_although_the_lock_was_taken() -> None:
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with pool._lock:
            taken.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if allocate(100).nbytes == 100 else 1)
    status = os.waitpid(child, 0)[1]
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
