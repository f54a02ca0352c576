"""The protocols by which other code meets the arrays."""

from __future__ import annotations

import gc
import hashlib
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config

from .compare import same


@pytest.fixture(params=["ready", "pending"])
def x(request: pytest.FixtureRequest) -> Any:
    """An array of 3000 elements, ready or not yet."""
    a = np.arange(3000.0)
    return a + 1 if request.param == "pending" else a


def test_array_protocol_follows_copy(x: Any) -> None:
    want = numpy.arange(3000.0) + (x[0] == 1)
    a = numpy.asarray(x)
    numpy.testing.assert_array_equal(a, want)
    a[0] = -5
    assert x[0] == -5
    assert not numpy.shares_memory(numpy.array(x), a)
    assert numpy.asarray(x, dtype="f4").dtype == "f4"
    with pytest.raises(ValueError, match="copy"):
        x.__array__("f4", copy=False)
    assert numpy.shares_memory(x.__array__(copy=False), a)
    assert not numpy.shares_memory(x.__array__(copy=True), a)


def test_memory_is_shared_only_while_somebody_looks(x: Any) -> None:
    a = numpy.asarray(x)
    buffer = x._base.node.buffer
    assert buffer.shared
    x += 1
    numpy.testing.assert_array_equal(a, numpy.asarray(x))
    del a
    gc.collect()
    assert not buffer.shared


def test_buffer_protocol(x: Any) -> None:
    view = memoryview(x)
    assert view.format == "d"
    assert view.shape == (3000,)
    view[7] = 70.0
    assert x[7] == 70
    x[8] = 80
    assert view[8] == 80
    assert hashlib.sha1(x).digest() == hashlib.sha1(numpy.asarray(x)).digest()
    assert bytes(np.arange(3, dtype="u1")) == b"\0\1\2"


@pytest.mark.parametrize("dtype", ["M8[s]", [("a", "i4"), ("b", "O")], "V5", "T", "O", "S3", ">i4", "g", [("x", "f8")]])
def test_types_without_a_plain_buffer_come_back_as_they_were(dtype: Any) -> None:
    dtype = numpy.dtypes.StringDType() if dtype == "T" else numpy.dtype(dtype)
    a = np.zeros(3, dtype)
    assert numpy.asarray(a).dtype == dtype


@pytest.mark.parametrize(
    "see",
    [
        lambda a: a, lambda a: a[::-1], lambda a: a.T[1:], lambda a: a[1, ::2], lambda a: a[:, None, :, 0],
        lambda a: a.diagonal(0, 0, 2), lambda a: a.reshape(-1)[3::5], lambda a: a[..., :0], lambda a: a[1, 1, 1, ...],
    ],
)  # fmt: skip
def test_views_of_strings_are_handed_out_on_their_memory(see: Any) -> None:
    def make(np: Any) -> Any:
        return np.array([str(i) * (i + 1) for i in range(24)], numpy.dtypes.StringDType()).reshape(2, 3, 4)

    a = make(np)
    b, want = see(a), see(make(numpy))
    c = numpy.asarray(b)
    numpy.testing.assert_array_equal(c, want)
    assert c.flags.writeable is want.flags.writeable
    if c.size and c.flags.writeable:
        c[...] = "written by another library"
        assert set(b.ravel().tolist()) == {"written by another library"}
        assert (a == "written by another library").sum() == c.size


def test_interfaces_are_told_to_those_who_ask(x: Any) -> None:
    facts = x.__array_interface__
    assert facts["shape"] == (3000,)
    assert facts["typestr"] == numpy.asarray(x).__array_interface__["typestr"]
    assert facts["data"][0] == numpy.asarray(x).ctypes.data == x.ctypes.data
    assert type(x.__array_struct__).__name__ == "PyCapsule"


def test_dlpack_shares_memory(x: Any) -> None:
    y = np.from_dlpack(x)
    x[0] = 42
    assert y[0] == 42
    assert np.shares_memory(x, y)
    z = numpy.from_dlpack(x)
    z[1] = 43
    assert x[1] == 43
    assert x.__dlpack_device__() == (1, 0)


def test_namespace_and_device(x: Any) -> None:
    assert x.__array_namespace__() is np
    assert x.device == "cpu" or x.device == "cuda:0" and config.get("device").startswith("cuda")
    assert x.to_device("cpu") is x
    assert x.device == "cpu"
    with pytest.raises(ValueError, match="device"):
        x.to_device("gpu")


def test_numpys_own_functions_give_handles() -> None:
    x = np.arange(4.0)
    same(numpy.sum(x), numpy.sum(numpy.arange(4.0)))
    for made in (numpy.add(x, 1), numpy.concatenate([x, x]), numpy.sort(x), numpy.linalg.norm(x.reshape(2, 2), axis=0)):
        assert type(made) is np.ndarray
    real = numpy.arange(4.0)
    assert type(real + x) is np.ndarray
    assert type(x + real) is np.ndarray
    real += x
    numpy.testing.assert_array_equal(real, [0, 2, 4, 6])


class Answers:
    """Takes part in both dispatch protocols."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func, args, kwargs

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc, method, inputs, kwargs


def test_function_protocol_hands_over_our_function() -> None:
    a, x = Answers(), np.arange(3)
    func, args, kwargs = np.sum(a, axis=0)
    assert func is np.sum
    assert args == (a,)
    assert kwargs == {"axis": 0}
    func, args, _ = np.concatenate([x, a])
    assert func is np.concatenate
    assert args[0][0] is x
    assert np.zeros(3, like=a)[0] is np.zeros
    assert type(np.zeros(3, like=x)) is np.ndarray


def test_ufunc_protocol_hands_over_our_ufunc() -> None:
    a, x = Answers(), np.arange(3)
    ufunc, method, inputs, kwargs = np.add(x, a)
    assert ufunc is np.add
    assert method == "__call__"
    assert inputs[0] is x
    assert kwargs == {}
    assert (x * a)[0] is np.multiply
    assert np.add.reduce(a, 1)[1:] == ("reduce", (a,), {"axis": 1})
    assert np.add(x, x, out=a)[3] == {"out": (a,)}
    assert np.add(x, x, a)[3] == {"out": (a,)}


def test_operands_without_ufuncs_and_with_priority_are_left_the_operation() -> None:
    class Refuses:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> str:
            return "radd"

    class Prior:
        __array_priority__ = 1000

        def __rsub__(self, other: Any) -> str:
            return "rsub"

    x = np.arange(3.0)
    assert x + Refuses() == "radd"
    assert x - Prior() == "rsub"
    with pytest.raises(TypeError):
        np.add(x, Refuses())


def test_operands_with_array_protocol_that_gives_a_handle() -> None:
    class Boxed:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.asarray([1.0, 2, 3], dtype=dtype)

    x, b = np.arange(3.0), Boxed()
    same(np.asarray(b), numpy.array([1.0, 2, 3]))
    same(np.add(x, b), numpy.array([1.0, 3, 5]))
    same(np.concatenate([x, b]), numpy.array([0.0, 1, 2, 1, 2, 3]))
    x[:] = b
    same(x, numpy.array([1.0, 2, 3]))
    same(np.arange(9)[np.asarray(b).astype(int)], numpy.array([1, 2, 3]))


def test_lists_of_arrays_become_arrays() -> None:
    x = np.arange(2.0)
    same(np.array([x, x + 1]), numpy.array([[0.0, 1], [1, 2]]))
    same(np.array([[x[0], x.sum()], [3, np.array(4.0)]]), numpy.array([[0.0, 1], [3, 4]]))
    same(np.array([np.array("ab"), "c"]), numpy.array(["ab", "c"]))
    element = np.array(0.0)
    assert np.array([element], dtype=object)[0] is element


def test_frombuffer_writes_reach_the_buffer() -> None:
    raw = bytearray(4)
    with config(eager_size=0):
        x = np.frombuffer(raw, "u1")
        x += 1
    assert raw == b"\1\1\1\1"
