"""How calls are checked and handed on, where NumPy's own tests look."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np

from ..twice import caught, same


class Overriding:
    """An operand that tells what its `__array_ufunc__` got."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc.__name__, method, inputs, kwargs


A = Overriding()
CALLS: dict[str, Callable[[Any], Any]] = {
    "out by position": lambda np: np.multiply(A, 1, "out"),
    "out by name": lambda np: np.multiply(A, 1, out="out"),
    "out is none": lambda np: np.sin(A, None),
    "two outs": lambda np: np.modf(A, "x", "y"),
    "nones": lambda np: np.modf(A, out=(None, None)),
    "reduce": lambda np: np.add.reduce(A, 1, "f8", None, True, 3),
    "accumulate": lambda np: np.add.accumulate(A, 1, None, "out"),
    "reduceat": lambda np: np.add.reduceat(A, [0, 1], 0, out=("out",)),
    "outer": lambda np: np.add.outer(A, [1], dtype="f4"),
    "at": lambda np: np.add.at(A, [4, 2], 1),
    "sig": lambda np: np.add(A, 1, sig="dd->d", subok=False, where="w"),
}
WRONG: dict[str, Callable[[Any], Any]] = {
    "few": lambda np: np.multiply(A),
    "many": lambda np: np.multiply(A, A, A, A),
    "out twice": lambda np: np.multiply(A, 1, "one", out="two"),
    "no tuple": lambda np: np.modf(A, out=A),
    "none for two": lambda np: np.modf(A, out=None),
    "outs too many": lambda np: np.multiply(A, 1, out=("one", "two")),
    "outs too few": lambda np: np.modf(A, out=("one",)),
    "unknown": lambda np: np.multiply(A, 1, foo="bar"),
    "both signatures": lambda np: np.multiply(A, A, sig="d", signature="d"),
    "reduce out": lambda np: np.multiply.reduce(A, out=()),
    "reduce axis twice": lambda np: np.multiply.reduce(A, 0, axis=0),
    "outer few": lambda np: np.multiply.outer(A),
    "outer many": lambda np: np.multiply.outer(A, A, A, A),
    "at few": lambda np: np.multiply.at(A),
    "at many": lambda np: np.multiply.at(A, 1, 2, 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_ufunc_calls_are_handed_on_as_numpy_does(name: str) -> None:
    assert CALLS[name](np) == CALLS[name](numpy)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ufunc_calls_of_overriding_operands(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as want:
        WRONG[name](numpy)
    with pytest.raises(want.type) as got:
        WRONG[name](np)
    assert str(got.value) == str(want.value)


def test_two_results_need_a_tuple() -> None:
    same(lambda np: caught(lambda: np.modf(np.arange(3.0), out=np.zeros(3))))


class Duck:
    """Another library's array, which refuses NumPy's functions."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.arange(3)

    def __array_function__(self, *args: Any) -> Any:
        return NotImplemented


ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda np, duck: np.asarray(duck),
    "array": lambda np, duck: np.array(duck, dtype="f4"),
    "asarray of list": lambda np, duck: np.asarray([duck, duck]),
    "isscalar": lambda np, duck: np.isscalar(duck),
    "promote_types": lambda np, duck: np.promote_types(duck, "f8"),
    "sum": lambda np, duck: np.sum(duck),
    "concatenate": lambda np, duck: np.concatenate([duck, duck]),
    "linalg": lambda np, duck: np.linalg.norm(duck),
    "assertion": lambda np, duck: numpy.shape(np.testing.assert_array_equal(numpy.ones(2), numpy.ones(2), duck)),
}


@pytest.mark.parametrize("name", ASKED)
def test_only_functions_that_numpy_dispatches_ask_the_operands(name: str) -> None:
    same(lambda np: ASKED[name](np, Duck()))


def test_functions_have_numpys_introspection() -> None:
    for name in ("sum", "empty_like", "inner", "concatenate", "asarray", "zeros"):
        ours, real = getattr(np, name), getattr(numpy, name)
        assert inspect.signature(ours) == inspect.signature(real), name
        assert getattr(ours, "__text_signature__", None) == getattr(real, "__text_signature__", None), name
    for name in ("sum", "__array_ufunc__", "to_device", "__add__", "resize"):
        assert inspect.signature(getattr(np.ndarray, name)) == inspect.signature(getattr(numpy.ndarray, name)), name


@pytest.mark.parametrize("name", ["size", "ndim", "nbytes", "itemsize", "T", "mT", "base", "device", "flags", "ctypes"])
def test_attributes_that_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError) as want:
        setattr(numpy.zeros(3), name, 1)
    with pytest.raises(AttributeError) as got:
        setattr(np.zeros(3), name, 1)
    assert str(got.value) == str(want.value)


def test_what_numpy_says_about_itself() -> None:
    assert np.__config__ is numpy.__config__
    with pytest.raises(AttributeError, match="__path_of_nothing__"):
        np.__path_of_nothing__  # noqa: B018


@pytest.mark.parametrize("name", ["str", "bytes", "object"])
def test_names_that_warn_and_are_missing(name: str) -> None:
    messages = []
    for module in (numpy, np):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert not hasattr(module, name)
        messages.append([(str(w.message), w.category) for w in said])
    assert messages[0] == messages[1]


def test_names_in_the_text_of_a_matrix_are_the_callers() -> None:
    def body(np: Any) -> Any:
        a = np.arange(4.0).reshape(2, 2)
        b = np.ones((2, 2))
        made = np.bmat("a,b;b,a"), np.r_["a, b; b, a"], np.bmat([[a, b]]), np.bmat("a", {"a": b}, {})
        return [numpy.asarray(m) for m in made]

    same(body)


def test_functions_along_axes_of_a_matrix() -> None:
    def body(np: Any) -> Any:
        made = np.apply_along_axis(np.cumsum, 0, np.matrix([[1, 2], [3, 4]]))
        return isinstance(made, np.matrix), numpy.asarray(made)

    same(body)


class Kit:
    """A class whose attributes are functions of NumPy's, as test classes and back ends have them."""

    def __init__(self, np: Any) -> None:
        self.made = type("Made", (), {"array": np.array, "zeros": np.zeros, "arange": np.arange, "exp": np.exp})()


def test_compiled_functions_do_not_become_methods() -> None:
    def body(np: Any) -> Any:
        kit = Kit(np).made
        return kit.array([1, 2], dtype="f4"), kit.zeros(3), kit.arange(2, 5), kit.exp(kit.zeros(1)), type(kit).arange(2)

    same(body)


@pytest.mark.parametrize("name", ["array", "zeros", "empty", "arange", "asarray", "frombuffer", "fromiter"])
def test_compiled_functions_are_found_again(name: str) -> None:
    ours, real = getattr(np, name), getattr(numpy, name)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.copy(ours) == ours == copy.deepcopy(ours)
    assert {ours: 1}[getattr(np, name)] == 1
    assert inspect.signature(ours) == inspect.signature(real)
    assert (ours.__name__, ours.__doc__) == (real.__name__, real.__doc__)
    assert ours.__module__ == "offarray"
    assert callable(ours)
    with pytest.raises(TypeError) as want:
        real()
    with pytest.raises(TypeError) as got:
        ours()
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("kind", ["i8", "f4", "D"])
@pytest.mark.parametrize("text", ["ijklm,ijn->", "ijn,ijklm->ij", "ijklm,ijn->kn", "ijn,ijklm->nm", "ijklm,ij->i"])
def test_einsum_sums_a_small_operand_first(text: str, kind: str) -> None:
    def body(np: Any) -> Any:
        shapes = {"ijklm": (5, 12, 4, 2, 30), "ijn": (5, 12, 3), "ij": (5, 12)}
        return np.einsum(text, *[np.ones(shapes[term], kind) for term in text.split("->")[0].split(",")])

    for mode in ("default", "lazy"):
        same(body, mode)


def test_broadcast_objects_know_their_arrays() -> None:
    a, b, real = np.empty((5, 1)), np.arange(3.0), numpy.ones((1, 3))
    both = np.broadcast(a, np.broadcast(b, real), 2)
    assert [part.base is v for part, v in zip(both.iters, (a, b, real), strict=False)] == [True] * 3
    assert type(both.iters[3].base) is np.ndarray
    assert isinstance(numpy.broadcast(1), np.broadcast)
    with pytest.raises(ValueError, match="keyword"):
        np.broadcast(1, x=1)

    def body(np: Any) -> Any:
        x, y = np.arange(3), np.arange(2.0).reshape(2, 1)
        made = np.broadcast(x, y)
        first = next(made), made.index
        made.reset()
        facts = made.shape, made.size, made.nd, made.ndim, made.numiter, made.index
        return first, facts, [u + v for u, v in made], list(np.broadcast(x, y).iters[1]), np.broadcast().shape

    same(body)


def test_owners_that_the_user_gave() -> None:
    real = numpy.arange(10)
    x = np.frombuffer(real)
    assert x.base is real
    assert x[1:].base is real
    y = np.frombuffer(np.arange(10))
    assert type(y.base) is np.ndarray
    x[0] = 5.0
    assert real.view("f8")[0] == 5
