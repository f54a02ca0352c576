"""What the handle is to Python: its class, subclasses, copies, pickles, conversions."""

from __future__ import annotations

import copy
import pickle
import warnings
import weakref
from typing import Any

import numpy
import pytest

import offarray as np

from .compare import same


class Info(np.ndarray):  # type: ignore[misc]
    info: Any

    def __new__(cls, data: Any, info: Any = None) -> Any:
        made = np.asarray(data).view(cls)
        made.info = info
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.info = getattr(source, "info", None)


def test_handles_and_real_arrays_are_instances() -> None:
    x = np.arange(3.0)
    assert type(x) is np.ndarray
    assert isinstance(x, np.ndarray)
    assert isinstance(numpy.arange(3), np.ndarray)
    assert isinstance(x, numpy.ndarray)  # for libraries that ask
    assert not isinstance([1], np.ndarray)
    assert issubclass(numpy.ndarray, np.ndarray)
    assert issubclass(np.ma.MaskedArray, np.ndarray)


def test_subclasses_are_real_and_keep_their_attributes() -> None:
    s = Info([1.0, 2, 3], info="meta")
    assert isinstance(s, numpy.ndarray)
    assert isinstance(s, np.ndarray)
    x = np.arange(3.0)
    for made in (s, s + 1, s[1:], np.sqrt(s), s.copy(), s.reshape(3, 1), x + s, s + x, np.add(x, s)):
        assert type(made) is Info
        assert made.info == "meta"
    assert type(s.view(np.ndarray)) is np.ndarray
    assert type(np.asarray(s)) is np.ndarray
    assert type(np.asanyarray(s)) is Info


def test_subclass_shares_memory_with_the_handle() -> None:
    x = np.arange(4.0)
    s = x.view(Info)
    s[0] = 10
    assert x[0] == 10
    x[1] = 20
    assert s[1] == 20
    back = np.asarray(s)
    back[2] = 30
    assert x[2] == 30


def test_subclass_that_overrides_ufuncs_calls_super() -> None:
    class Logged(np.ndarray):  # type: ignore[misc]
        def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            plain = [v.view(np.ndarray) if isinstance(v, Logged) else v for v in inputs]
            made = super().__array_ufunc__(function, method, *plain, **kwargs)
            return np.asarray(made).view(Logged)

    a = np.arange(4.0).view(Logged)
    made = np.sin(a)
    assert type(made) is Logged
    numpy.testing.assert_array_equal(made, numpy.sin(numpy.arange(4.0)))
    assert type(np.arange(4.0) * a) is Logged


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrix_and_masked_operands_keep_their_rules() -> None:
    x, r = np.eye(2) * 2, numpy.eye(2) * 2
    m = np.matrix([[1.0, 2], [3, 4]])
    for made, want in ((x * m, r * m), (m * x, m * r), (x + m, r + m), (x @ m, r @ m)):
        assert type(made) is numpy.matrix
        numpy.testing.assert_array_equal(made, want)
    masked = np.ma.array([1.0, 2], mask=[0, 1])
    made = masked + np.array([1.0, 1.0])
    assert type(made) is np.ma.MaskedArray
    assert made.tolist() == [2.0, None]
    assert (np.array([1.0, 1.0]) + masked).tolist() == [2.0, None]


def test_handles_are_not_hashable_and_may_be_weakly_referenced() -> None:
    x = np.zeros(3)
    with pytest.raises(TypeError, match="unhashable type"):
        hash(x)
    assert weakref.ref(x)() is x


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "make",
    [
        lambda np: np.arange(6.0).reshape(2, 3) * 2,
        lambda np: np.asfortranarray(np.arange(6).reshape(2, 3)),
        lambda np: np.arange(10)[::-3],
        lambda np: np.array(5.0),
        lambda np: np.array(["a", "bc"]),
        lambda np: np.array([None, 3], dtype=object),
        lambda np: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        lambda np: np.array(["2020-01-01"], dtype="M8[D]"),
        lambda np: np.zeros((0, 3)),
    ],
)
def test_pickles_come_back_alike(make: Any, protocol: int) -> None:
    x = make(np)
    back = pickle.loads(pickle.dumps(x, protocol))
    same(back, make(numpy))
    assert back.flags.f_contiguous == pickle.loads(pickle.dumps(make(numpy), protocol)).flags.f_contiguous
    if back.size and back.dtype.kind == "f":
        back[...] = -1
        same(x, make(numpy))


def test_copies_are_independent() -> None:
    x = np.arange(4.0)
    for made in (copy.copy(x), copy.deepcopy(x), x.copy(), np.copy(x), np.array(x)):
        assert type(made) is np.ndarray
        made[0] = 9
    assert x[0] == 0
    nested = copy.deepcopy({"w": [x]})
    nested["w"][0][1] = 7
    assert x[1] == 1


def test_conversions_of_one_element() -> None:
    assert float(np.array(2.5)) == 2.5
    assert int(np.array(3)) == 3
    assert complex(np.array(1j)) == 1j
    assert bool(np.array([True]))
    assert [10, 20][np.array(1)] == 20
    assert f"{np.array(2.5):.2f}" == "2.50"
    for wrong in (lambda: bool(np.zeros(2)), lambda: float(np.zeros(2)), lambda: [1][np.zeros(1)]):
        with pytest.raises((TypeError, ValueError)):
            wrong()


@pytest.mark.parametrize(
    "expression", ["a.nope", "len(np.array(1))", "iter(np.array(1))", "f'{a:.2f}'", "a[5]", "a['x']"]
)
def test_errors_say_what_numpy_says(expression: str) -> None:
    messages = []
    for module in (numpy, np):
        with pytest.raises(Exception) as caught:
            eval(expression, {"np": module, "a": module.arange(3)})
        messages.append((caught.type, str(caught.value)))
    assert messages[0][0] is messages[1][0]
    if "f'" not in expression:
        assert messages[0][1] == messages[1][1]


def test_text_is_numpys() -> None:
    for make in (lambda np: np.arange(3.0), lambda np: np.zeros((2, 0)), lambda np: np.arange(2000) / 7):
        assert repr(make(np)) == repr(make(numpy))
        assert str(make(np)) == str(make(numpy))
    assert np.array2string(np.arange(3)) == "[0 1 2]"
    assert np.arange(3).tolist() == [0, 1, 2]


def test_attributes_can_be_set() -> None:
    def body(np: Any) -> Any:
        a = np.arange(6)
        a.shape = (2, 3)
        b = a.copy()
        b.dtype = np.uint64
        c = np.zeros(3, complex)
        c.real = [1, 2, 3]
        c.imag[1] = 5
        d = np.zeros((2, 2))
        d.flat = [1, 2]
        d.flat[3] = 9
        e = np.arange(4)
        e.flags.writeable = False
        f = np.arange(4000) + 1
        f.shape = (2, 2000)
        f.strides = f.strides
        f.dtype = np.uint64
        return a, b, c, d, e.flags.writeable, a.T.flags.f_contiguous, a[::2].flags["C"], a.flags.num, f

    heard = []
    for module in (np, numpy):
        with warnings.catch_warnings(record=True) as caught:  # newer releases of NumPy deprecate some
            warnings.simplefilter("always")
            made = body(module)
        heard.append((made, [(w.category, str(w.message), w.filename, w.lineno) for w in caught]))
    same(heard[0][0], heard[1][0])
    assert heard[0][1] == heard[1][1]
    assert all(w[0] is DeprecationWarning for w in heard[0][1])


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")
@pytest.mark.parametrize("size", [6, 6000])
@pytest.mark.parametrize(
    ("name", "value"), [("shape", (7,)), ("shape", "x"), ("strides", (99,)), ("dtype", "zz"), ("dtype", "V7")]
)
def test_attributes_refuse_what_numpy_refuses(name: str, value: Any, size: int) -> None:
    messages = []
    for module in (numpy, np):
        a = module.arange(size) + 1
        with pytest.raises((TypeError, ValueError)) as caught:
            setattr(a, name, value)
        numpy.testing.assert_array_equal(numpy.asarray(a), numpy.arange(size) + 1)
        messages.append((caught.type, str(caught.value)))
    assert messages[0] == messages[1]


def test_readonly_arrays_refuse_writes() -> None:
    x = np.arange(3)
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    view = x[1:]
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    x.flags.writeable = True
    x[0] = 5
    assert x[0] == 5


def test_resize_in_place() -> None:
    x = np.arange(4)
    x.resize(6)
    same(x, numpy.array([0, 1, 2, 3, 0, 0]))
    x.resize((2, 3))
    assert x.shape == (2, 3)
    view = x[0]
    with pytest.raises(ValueError, match="own its data"):
        view.resize(7)
    with pytest.raises(ValueError, match="references"):
        x.resize(10)


def test_constructor_makes_arrays_on_given_memory() -> None:
    raw = bytearray(16)
    x = np.ndarray((2,), np.int64, raw)
    x[:] = 3
    assert raw == bytes([3, 0, 0, 0, 0, 0, 0, 0] * 2)
    y = np.arange(10)
    part = np.ndarray((3,), np.int64, y, offset=8, strides=(16,))
    part[:] = -1
    same(y, numpy.array([0, -1, 2, -1, 4, -1, 6, 7, 8, 9]))
    assert np.ndarray((2, 2), order="F").flags.f_contiguous


def test_subclass_that_overrides_functions_calls_super() -> None:
    seen = []

    class Watched(np.ndarray):  # type: ignore[misc]
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append(func)
            return super().__array_function__(func, types, args, kwargs)

    w = np.arange(4.0).view(Watched)
    assert np.sum(w) == 6
    assert np.concatenate([w, np.arange(2.0)]).tolist() == [0, 1, 2, 3, 0, 1]
    assert seen == [np.sum, np.concatenate]
