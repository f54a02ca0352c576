"""Arrays exchanged on a device, here one of host memory: others see what we write, and we what they do."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime import buffer as buffers
from offarray.runtime import cuda, dlpack, supply, trace
from offarray.runtime.config import config

from . import fakedevice
from .fakedevice import moved

N = 5000
SIZE = 8 * N


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[fakedevice.FakeDevice]:
    monkeypatch.setattr(cuda, "ordinal", lambda pointer: 0)
    with fakedevice.installed() as device, config(eager_size=0, faults="deferred"):
        trace.reset()
        yield device
        assert not buffers.unsettled


def at(pointer: int, shape: Any = N, dtype: str = "f8") -> Any:
    """Memory of the fake device as an array of NumPy's."""
    count = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    return numpy.frombuffer((ctypes.c_char * count).from_address(pointer), dtype).reshape(shape)


class Theirs:
    """An array of somebody else's on the device."""

    def __init__(self, fake: fakedevice.FakeDevice, values: Any, writeable: bool = True, version: bool = True) -> None:
        self.values = numpy.array(values)  # what it started with
        self.pointer = fake.allocate(self.values.nbytes)
        self.memory = at(self.pointer, self.values.shape, self.values.dtype.str)
        self.memory[...] = self.values
        self.writeable, self.version = writeable, version

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        about: dict[str, Any] = self.memory.__array_interface__
        return {**about, "data": (self.pointer, not self.writeable), "version": 3, "stream": 1}

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, 0

    def __dlpack__(self, **kwargs: Any) -> Any:
        if kwargs and not self.version:
            raise TypeError("got an unexpected keyword argument")
        m = self.memory
        tensor = dlpack.Tensor(self.pointer, (dlpack.CUDA, 0), m.dtype, m.shape, m.strides, self.writeable)
        return dlpack.capsule(tensor, self, "max_version" in kwargs)


TAKERS: dict[str, Any] = {
    "from_dlpack": lambda x: np.from_dlpack(x), "asarray": lambda x: np.asarray(x), "asanyarray": np.asanyarray,
    "array": lambda x: np.array(x, copy=False), "ascontiguousarray": lambda x: np.ascontiguousarray(x),
}  # fmt: skip


@pytest.mark.parametrize("taker", TAKERS)
def test_foreign_memory_is_used_in_place(fake: fakedevice.FakeDevice, taker: str) -> None:
    theirs = Theirs(fake, numpy.arange(float(N)))
    x = TAKERS[taker](theirs)
    assert type(x) is np.ndarray and x.shape == (N,) and x.dtype == "f8"
    y = np.evaluate(x + 1)
    assert moved() == (0, 0)
    assert float(y[3]) == 4
    theirs.memory[3] = 70  # read anew each time
    assert float(x[3]) == 70 and float(np.evaluate(x + 1)[3]) == 71 and x.sum() == numpy.arange(N).sum() + 67
    assert numpy.asarray(x)[3] == 70
    x += 1  # written at the statement
    assert theirs.memory[3] == 71 and theirs.memory[4] == 5
    x[10:20] = x[0:10] * 2
    assert (theirs.memory[10:20] == 2 * theirs.memory[0:10]).all()
    x[1:] = x[:-1]
    assert theirs.memory[4] == 71 and theirs.memory[1] == 1


WRITES: dict[str, Any] = {
    "sort": lambda np, x: x.sort(), "fill": lambda np, x: x.fill(3), "item": lambda np, x: x.__setitem__(7, 9.0),
    "list": lambda np, x: x.__setitem__([1, 2, 2], [5.0, 6.0, 7.0]), "put": lambda np, x: np.put(x, [3], 8),
    "partition": lambda np, x: x.partition(7), "flat": lambda np, x: x.flat.__setitem__(3, 4.0),
    "set flat": lambda np, x: setattr(x, "flat", 2.0), "copyto": lambda np, x: np.copyto(x, 5),
    "at": lambda np, x: np.add.at(x, [0, 0, 1], 1.0), "out": lambda np, x: np.multiply(x, 2, out=x),
    "out of a step": lambda np, x: np.cumsum(x, out=x), "inplace": lambda np, x: x.__iadd__(1.5),
    "byteswap": lambda np, x: x.byteswap(True), "shuffle": lambda np, x: np.random.default_rng(1).shuffle(x),
    "place": lambda np, x: np.place(x, x > 5, [1.0, 2.0]), "mask": lambda np, x: x.__setitem__(x > 5, 0),
    "a view": lambda np, x: x[5:].sort(), "reversed": lambda np, x: x[::-1].__iadd__(x),
}  # fmt: skip


@pytest.mark.parametrize("size", [20, N])
@pytest.mark.parametrize("eager", [0, 1000])
@pytest.mark.parametrize("write", WRITES)
def test_every_way_of_writing_is_there_at_the_end_of_the_statement(
    fake: fakedevice.FakeDevice, write: str, eager: int, size: int
) -> None:
    values = numpy.sin(numpy.arange(float(size))) * 10
    theirs = Theirs(fake, values)
    with config(eager_size=eager):
        x = np.asarray(theirs)
        WRITES[write](np, x)
        WRITES[write](numpy, values)
        numpy.testing.assert_array_equal(theirs.memory, values)
        theirs.memory[0] = 1234.5
        assert float(x[0]) == 1234.5 and float(x[:3].sum()) == 1234.5 + values[1] + values[2]


READS: dict[str, Any] = {
    "list": lambda np, x: x.tolist(), "repr": lambda np, x: repr(x), "item": lambda np, x: x.item(3),
    "sum": lambda np, x: float(x.sum()), "sorted": lambda np, x: np.sort(x).tolist(), "flat": lambda np, x: x.flat[3],
    "bytes": lambda np, x: x.tobytes(), "iteration": lambda np, x: [float(v) for v in x],
    "add": lambda np, x: (x + 1).tolist(),
    "view": lambda np, x: x.view("i8").tolist(), "diagonal": lambda np, x: x.reshape(4, 5).diagonal().tolist(),
    "broadcast": lambda np, x: np.broadcast_to(x, (2, 20)).tolist(), "equal": lambda np, x: np.array_equal(x, x * 1),
    "index": lambda np, x: x[[1, 3]].tolist(), "where": lambda np, x: np.where(x > 3, x, 0).tolist(),
    "unique": lambda np, x: np.unique(x).tolist(), "split": lambda np, x: [v.tolist() for v in np.split(x, 2)],
}  # fmt: skip


@pytest.mark.parametrize("eager", [0, 1000])
@pytest.mark.parametrize("read", READS)
def test_every_way_of_reading_asks_anew(fake: fakedevice.FakeDevice, read: str, eager: int) -> None:
    theirs = Theirs(fake, numpy.arange(20.0))
    with config(eager_size=eager):
        x = np.asarray(theirs)
        views = [
            x.view("i8"),
            x[:],
            x[::-1],
            x.reshape(4, 5),
            *np.split(x, 4),
            np.lib.stride_tricks.as_strided(x, (3,)),
        ]
        for value in (50.0, -3.0):
            for y in views:
                y.tolist()
            READS[read](np, x)
            theirs.memory[3] = value
            assert READS[read](np, x) == READS[read](numpy, theirs.memory)
            seen = [view.tolist() for view in views]
            m = theirs.memory
            parts = [*numpy.split(m, 4), m[:3]]
            assert seen == [v.tolist() for v in (m.view("i8"), m, m[::-1], m.reshape(4, 5), *parts)]


def test_a_write_that_fails_in_the_middle_is_settled(fake: fakedevice.FakeDevice) -> None:
    theirs = Theirs(fake, numpy.zeros(10))
    x = np.asarray(theirs)
    with pytest.raises((ValueError, TypeError)):
        x.flat[0:3] = "no number"
    with pytest.raises(IndexError):
        x[[1, 2, 100]] = 7.0
    assert not buffers.unsettled
    theirs.memory[5] = 3
    assert float(x[5]) == 3


def test_strided_foreign_memory(fake: fakedevice.FakeDevice) -> None:
    whole = Theirs(fake, numpy.arange(60.0).reshape(6, 10))
    part = Theirs.__new__(Theirs)
    part.writeable, part.version = True, True
    part.memory = whole.memory[::-2, 1:9:3]
    part.pointer = part.memory.__array_interface__["data"][0]
    for x in (np.asarray(part), np.from_dlpack(part)):
        assert x.shape == (3, 3) and x.strides == part.memory.strides
        assert (numpy.asarray(x) == part.memory).all() and (numpy.asarray(np.evaluate(x * 2)) == part.memory * 2).all()
    x += 100
    assert whole.memory[5, 1] == 151 and whole.memory[5, 2] == 52


def test_foreign_memory_that_is_read_only(fake: fakedevice.FakeDevice) -> None:
    theirs = Theirs(fake, numpy.arange(10.0), writeable=False)
    for x in (np.asarray(theirs), np.from_dlpack(theirs)):
        assert not x.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            x += 1
    old = Theirs(fake, numpy.arange(10.0), version=False)
    assert float(np.from_dlpack(old)[3]) == 3


def test_copies_and_conversions_on_the_way_in(fake: fakedevice.FakeDevice) -> None:
    theirs = Theirs(fake, numpy.arange(float(N)))
    copies = [
        np.array(theirs),
        np.asarray(theirs, copy=True),
        np.asarray(theirs, "f4"),
        np.from_dlpack(theirs, copy=True),
    ]
    host = np.from_dlpack(theirs, device="cpu")
    copies.append(np.asarray(theirs, device="cpu"))
    assert copies[-1].device == host.device == "cpu"
    theirs.memory[3] = 100
    assert [float(c[3]) for c in copies] == [3] * 5 and float(host[3]) == 3
    assert np.array(theirs, ndmin=3).shape == (1, 1, N)
    with pytest.raises(ValueError, match="without a copy"):
        np.from_dlpack(theirs, device="cpu", copy=False)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(theirs, "f4", copy=False)
    with pytest.raises(ValueError, match="cuda:0"):
        np.from_dlpack(theirs, device="cuda:5")


def test_foreign_memory_lives_as_long_as_it_is_used(fake: fakedevice.FakeDevice) -> None:
    gone = []

    class Guarded(Theirs):
        def __del__(self) -> None:
            gone.append(1)

    for taker in (np.asarray, np.from_dlpack):
        gone.clear()
        x = taker(Guarded(fake, numpy.arange(10.0)))
        y = x[2:]
        del x
        gc.collect()
        assert not gone and float(y[0]) == 2
        del y
        gc.collect()
        assert gone
    assert not supply._busy


def exported(x: Any, door: str) -> tuple[Any, Any]:
    """The array's device memory as others see it, and what they hold."""
    if door == "interface":
        about = x.__cuda_array_interface__
        assert about["version"] == 3 and about["strides"] is None
        return at(about["data"][0], about["shape"], about["typestr"]), x
    assert x.__dlpack_device__() == (dlpack.CUDA, 0)
    tensor, owner = dlpack.consume(x.__dlpack__(max_version=(1, 0), stream=1))
    assert tensor.device == (dlpack.CUDA, 0)
    return at(tensor.pointer, tensor.shape, tensor.dtype.str), owner


def test_numpy_takes_what_is_on_a_device_on_the_host(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    v = numpy.from_dlpack(x)
    x[3] = 30
    assert v[3] == 30
    v[4] = 40
    assert float(np.evaluate(x + 1)[4]) == 41
    y = np.asarray(Theirs(fake, numpy.arange(10.0)))
    w = numpy.from_dlpack(y)  # memory that others look at there: a copy
    assert w[3] == 3 and not numpy.shares_memory(w, numpy.asarray(y))


@pytest.mark.parametrize("door", ["interface", "dlpack"])
def test_memory_handed_out_shows_what_is_written(fake: fakedevice.FakeDevice, door: str) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    pending = x * 2
    seen, holder = exported(x, door)
    assert (seen == numpy.arange(N)).all()
    x += 1
    assert seen[3] == 4
    seen[3] = 50
    assert float(x[3]) == 50 and float(np.evaluate(x * 2)[3]) == 100
    assert float(pending[3]) == 6
    x.sort()
    assert seen[-1] == N and seen[N - 2] == N - 1
    with config(device_memory=SIZE + 100):  # it never moves
        with pytest.raises(MemoryError):
            np.evaluate(np.arange(2.0 * N) + 1)
        seen[0] = -5
        assert float(x[0]) == -5
    with config(device="cpu"):  # the host computes with an image
        x *= 2
        assert seen[0] == -10
        assert float((x + 1)[0]) == -9
    del holder
    if door == "dlpack":
        gc.collect()
        assert not supply._busy and not dlpack._alive
        y = np.evaluate(x + 1)
        assert float(y[0]) == -9


def test_what_the_host_has_is_exported_on_the_host(fake: fakedevice.FakeDevice) -> None:
    x = np.array(numpy.arange(float(N)))
    assert x.__dlpack_device__() == (1, 0) and not hasattr(x, "__cuda_array_interface__")
    assert numpy.from_dlpack(x)[3] == 3
    y = np.evaluate(x + 1)
    assert y.__dlpack_device__() == (2, 0)
    v = numpy.asarray(y)  # looked at by the host: shared there now
    assert y.__dlpack_device__() == (1, 0) and v[3] == 4 and not hasattr(y, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="without a copy"):
        y.__dlpack__(dl_device=(2, 0), copy=False)
    tensor, owner = dlpack.consume(y.__dlpack__(dl_device=(2, 0), max_version=(1, 1)))
    assert tensor.device == (2, 0) and at(tensor.pointer)[3] == 4
    at(tensor.pointer)[3] = 90
    assert v[3] == 4 and float(y[3]) == 4  # it was a copy
    del owner
    with pytest.raises(BufferError):
        y.__dlpack__(dl_device=(2, 77))
    assert np.zeros(0).__dlpack_device__() == (1, 0)
    with config(device="cpu"):
        assert np.evaluate(np.zeros(N) + 1).__dlpack_device__() == (1, 0)


def test_a_look_by_numpy_at_memory_handed_out_is_a_copy(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    seen, _ = exported(x, "interface")
    v = numpy.asarray(x)
    assert not v.flags.writeable and v[3] == 3
    seen[3] = 9
    assert v[3] == 3 and numpy.asarray(x)[3] == 9 and bytes(x)[24:32] == numpy.float64(9).tobytes()


def test_requests_of_dlpack(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    with pytest.raises(ValueError, match="stream 0"):
        x.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream="1")
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 3), copy=False)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(10, 0))
    with pytest.raises(ValueError, match="copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    host, owner = dlpack.consume(x.__dlpack__(dl_device=(1, 0), copy=True, max_version=(1, 1)))
    assert host.device == (1, 0) and at(host.pointer)[3] == 3
    at(host.pointer)[3] = 30
    copied, other = dlpack.consume(x.__dlpack__(copy=True, stream=-1, max_version=(1, 1)))
    at(copied.pointer)[3] = 77
    assert float(x[3]) == 3
    x.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert not dlpack.consume(x.__dlpack__(max_version=(1, 0)))[0].writeable
    used = x.__dlpack__(max_version=(1, 0))
    dlpack.consume(used)
    with pytest.raises(BufferError, match="used before"):
        dlpack.consume(used)
    del owner, other


@pytest.mark.parametrize("dtype", "b1 i1 u2 i4 u8 f2 f4 f8 c8 c16".split())
def test_round_trip_through_dlpack(fake: fakedevice.FakeDevice, dtype: str) -> None:
    x = np.evaluate(np.ones((6, 7), dtype)[::2, 1:].T.copy() + np.ones((), dtype))
    y = np.from_dlpack(x)
    seen, holder = dlpack.consume(x[1:, ::-1].__dlpack__(max_version=(1, 0)))
    assert seen.dtype == x.dtype and seen.shape == (5, 3) and seen.strides == x[1:, ::-1].strides
    assert (numpy.asarray(y) == numpy.asarray(x)).all()
    del holder


def test_others_may_go_in_the_middle_of_a_write(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    holders = [x.__dlpack__(max_version=(1, 0))]

    class Value:
        def __float__(self) -> float:
            holders.clear()  # the last one who looks at the memory goes
            gc.collect()
            return 7.0

    x.flat[3] = Value()
    assert float(x[3]) == 7 and float(np.evaluate(x + 1)[3]) == 8 and float(x[4]) == 4
    assert not buffers.unsettled and not supply._busy


def test_a_capsule_that_nobody_takes_frees_the_memory(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert dlpack._alive
    del capsule
    gc.collect()
    assert not dlpack._alive and not supply._busy


def test_pickles_and_deep_copies_are_the_hosts(fake: fakedevice.FakeDevice) -> None:
    mine, theirs = np.evaluate(np.arange(float(N)) + 1), np.asarray(Theirs(fake, numpy.arange(float(N)) + 1))
    out = np.evaluate(np.arange(float(N)) + 1)
    seen, _ = exported(out, "interface")
    for x in (mine, theirs, out):
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x, 2))):
            x[3] = 100
            assert float(y[3]) in (4, 100) and (numpy.asarray(y)[4:] == numpy.arange(N)[4:] + 1).all()
            y[5] = 7
            assert float(x[5]) == 6
    assert seen[3] == 100


def test_what_cannot_be_taken(fake: fakedevice.FakeDevice) -> None:
    class Masked(Theirs):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, "mask": self}

    with pytest.raises(BufferError, match="mask"):
        np.asarray(Masked(fake, numpy.zeros(3)))

    class Odd(Theirs):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, "typestr": ">f8"}

    with pytest.raises(BufferError, match="type"):
        np.asarray(Odd(fake, numpy.zeros(3)))


def test_overlapping_foreign_arrays_keep_the_order_of_writes(fake: fakedevice.FakeDevice) -> None:
    theirs = Theirs(fake, numpy.arange(float(N)))
    x, y = np.asarray(theirs), np.asarray(theirs)
    assert float(x[3]) + float(y[3]) == 6  # both have an image on the host now
    x[1:] = y[:-1] + 0
    x[1:] = y[:-1]
    x[2:] += y[:-2]
    want = numpy.arange(float(N))
    want[1:] = want[:-1].copy()
    want[1:] = want[:-1].copy()
    want[2:] += want[:-2].copy()
    assert (theirs.memory == want).all()


def test_threads_share_arrays_on_a_device(fake: fakedevice.FakeDevice) -> None:
    x = np.evaluate(np.arange(float(N)) + 0)
    wrong: list[Any] = []

    def work(k: int) -> None:
        try:
            for _ in range(20):
                y = np.evaluate(x * k + 1)
                if float(y[3]) != 3 * k + 1 or float(y.sum()) != k * N * (N - 1) / 2 + N:
                    wrong.append(k)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_order_in_memory_on_the_way_in(fake: fakedevice.FakeDevice) -> None:
    whole = Theirs(fake, numpy.arange(60.0).reshape(6, 10))
    turned = Theirs.__new__(Theirs)
    turned.writeable, turned.version, turned.pointer = True, True, whole.pointer
    turned.memory = whole.memory.T
    assert np.ascontiguousarray(turned).flags.c_contiguous and not np.asarray(turned).flags.c_contiguous
    assert np.asfortranarray(turned).strides == turned.memory.strides
    assert np.array(turned, order="C").flags.c_contiguous and np.array(turned).flags.f_contiguous
    for x in (np.ascontiguousarray(turned), np.array(turned, order="F"), np.asarray(turned, dtype="i8")):
        assert (numpy.asarray(x) == turned.memory).all()


@pytest.mark.parametrize("values", [numpy.zeros(0, bool), numpy.zeros((2, 0)), numpy.arange(N) > 5, numpy.array(3.0)])
@pytest.mark.parametrize("theirs", [False, True])
def test_what_the_host_has_comes_to_a_device_by_name(fake: fakedevice.FakeDevice, values: Any, theirs: bool) -> None:
    """Arrays without elements too: they have a place, and no memory there."""
    x = values if theirs else np.array(values)
    for name in ("cuda", "cuda:0"):
        for copied in (None, True):
            y = np.from_dlpack(x, device=name, copy=copied)
            assert y.device == "cuda:0" and (numpy.asarray(y) == values).all() and y.dtype == values.dtype
            if values.size and values.ndim:
                y[...] = 0
                assert (numpy.asarray(x) == values).all() and numpy.count_nonzero(y) == 0
        with pytest.raises(ValueError, match="without a copy"):
            np.from_dlpack(x, device=name, copy=False)
    with pytest.raises(ValueError, match="Device not understood"):
        np.from_dlpack(x, device="somewhere")
    y = np.from_dlpack(x, device="cuda:0")
    again = np.from_dlpack(y, device="cuda:0", copy=False)
    assert again.device == "cuda:0" and np.from_dlpack(y, device="cpu").device == "cpu"
    assert y.to_device("cpu").device == "cpu" and y.to_device("cuda:0").device == "cuda:0"


def test_arrays_without_elements_have_a_place(fake: fakedevice.FakeDevice) -> None:
    for make in (np.zeros, np.ones, np.empty):
        x = make((2, 0), device="cuda:0")
        assert x.device == "cuda:0" and x.shape == (2, 0)
        assert np.to_host(x).device == "cpu"
    assert np.asarray([], device="cuda").device == "cuda:0" and np.asarray([], device="cpu").device == "cpu"
    assert moved() == (0, 0)
