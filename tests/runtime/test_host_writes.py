"""Everything by which the host writes into an array says so: the device never keeps what is out of date."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray
from offarray.runtime.config import config

from . import fakedevice

N = 60


def _ctypes(np: Any, x: Any) -> None:
    x.ctypes.data_as(__import__("ctypes").POINTER(__import__("ctypes").c_double))[3] = 5.0


def _into(np: Any, x: Any) -> None:
    io.BytesIO(numpy.arange(float(N)).tobytes()).readinto(x)


def _nditer(np: Any, x: Any) -> None:
    with np.nditer(x, op_flags=[["readwrite"]]) as found:
        for v in found:
            v[...] = 2 * v


def _flat(np: Any, x: Any) -> None:
    x.flat[3:9] = 4.0
    x.flat = x.flat[::-1]


def _view(np: Any, x: Any) -> None:
    x.view("i8")[::7] = 3


def _strided(np: Any, x: Any) -> None:
    np.lib.stride_tricks.as_strided(x, (10,), (16,))[:] = -1.0


def _state(np: Any, x: Any) -> None:
    x.__setstate__(pickle.loads(pickle.dumps(numpy.arange(3.0))).__reduce__()[2])


def _random(method: str, *args: Any, **kwargs: Any) -> Callable[[Any, Any], None]:
    def write(np: Any, x: Any) -> None:
        getattr(np.random.default_rng(5), method)(*args, x, **kwargs)

    write.__name__ = f"random_{method}"
    return write


def _out(name: str, *args: Any) -> Callable[[Any, Any], None]:
    def write(np: Any, x: Any) -> None:
        getattr(np, name)(x * 1.0, *args, out=x)

    write.__name__ = f"out_{name}"
    return write


def _does(name: str, text: str) -> Callable[[Any, Any], None]:
    code = compile(text, name, "exec")

    def write(np: Any, x: Any) -> None:
        exec(code, {"np": np, "x": x, "numpy": numpy})

    write.__name__ = name
    return write


WRITES: list[Callable[[Any, Any], None]] = [
    _ctypes,
    _into,
    _nditer,
    _flat,
    _view,
    _strided,
    _state,
    _random("shuffle"),
    _random("random", None, "d"),
    _random("standard_normal", None, "d"),
    _random("standard_exponential", None, "d", "zig"),
    _random("standard_gamma", 2.0, None, "d"),
    _out("cumsum"),
    _out("sin"),
    _out("clip", 1, 5),
    _out("round"),
    _does("element", "x[3] = 7"),
    _does("slice", "x[3:5] = [1, 2]"),
    _does("fancy", "x[[1, 4, 1]] = [1, 2, 3]"),
    _does("mask", "x[x > 30] = 0"),
    _does("masked values", "x[x > 30] = numpy.arange(29.0)"),
    _does("fill", "x.fill(3)"),
    _does("sort", "x[::-1].sort()"),
    _does("partition", "x.partition(30)"),
    _does("put", "x.put([3, 4], [8, 9])"),
    _does("setfield", "x.setfield(3, 'i4', 4)"),
    _does("byteswap", "x.byteswap(True)"),
    _does("itemset", "x[...] = x[::-1]"),
    _does("copyto", "np.copyto(x, 2.0, where=numpy.arange(60) % 3 == 0)"),
    _does("place", "np.place(x, x > 9, [1, 2])"),
    _does("putmask", "np.putmask(x, x > 9, [1.0, 2.0])"),
    _does("fill_diagonal", "np.fill_diagonal(x.reshape(6, 10), 9)"),
    _does("put_along_axis", "np.put_along_axis(x, numpy.array([3, 5]), 9.0, 0)"),
    _does("at", "np.add.at(x, [3, 3, 4], 1)"),
    _does("nan_to_num", "np.nan_to_num(x, copy=False, nan=1)"),
    _does("memoryview", "memoryview(x)[5] = 9.0"),
    _does("exported", "numpy.asarray(x)[7] = 11"),
    _does("in place", "x += numpy.arange(60.0)"),
    _does("power", "x **= 2"),
    _does("resize", "x.resize(60, refcheck=False); x[0] = 5"),
    _does("interface", "numpy.asarray(memoryview(x).cast('B'))[0] = 1"),
    _does("reduce", "np.add.reduce(x.reshape(6, 10), axis=0, out=x[:10])"),
    _does("dot", "np.dot(np.eye(60), x * 1, out=x)"),
    _does("real", "x.real = 3"),
    _does("imag", "x.real[...] = x.real[::-1] * 1"),
    _does("ndarray", "np.ndarray(5, 'f8', x)[2] = 9"),
    _does("frombuffer", "np.frombuffer(x)[2] = 9"),
    _does("ufunc", "np.add(x, 1, x)"),
    _does("modf", "np.modf(x / 7, x, x * 1)"),
    _does("fromiter", "x[:3] = np.fromiter(range(3), float)"),
    _does("vectorize", "x[:] = np.vectorize(lambda v: v + 1)(x)"),
    _does("einsum", "np.einsum('i,i->i', x, x * 1, out=x)"),
    _does("take", "np.take(x * 1, numpy.arange(60)[::-1], out=x)"),
    _does("choose", "np.choose(numpy.zeros(60, int), [x * 2], out=x)"),
    _does("compress", "np.compress([True] * 60, x * 2, out=x)"),
    _does("concatenate", "np.concatenate([x[30:] * 1, x[:30] * 1], out=x)"),
    _does("flags", "x.flags.writeable = True; x[1] = 9"),
]


@pytest.mark.parametrize("eager", [0, 1000])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_what_the_host_writes_reaches_the_device(write: Callable[[Any, Any], None], eager: int) -> None:
    want = numpy.arange(float(N))
    write(numpy, want)
    with fakedevice.installed(), config(eager_size=eager, faults="deferred"):
        x = offarray.to_device(offarray.evaluate(offarray.array(numpy.arange(float(N))) * 1))  # type: ignore[attr-defined]
        assert x[5] == 5 and x.tolist()[6] == 6 and x.device == "cuda:0"  # host and device hold it
        write(offarray, x)
        with offarray.device("cuda"), config(eager_size=0):
            y = offarray.evaluate(x * 1)
        assert numpy.array_equal(numpy.asarray(y), want, equal_nan=True)
        assert numpy.array_equal(numpy.asarray(x), want, equal_nan=True)
