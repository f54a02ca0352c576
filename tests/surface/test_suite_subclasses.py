"""Classes that users derive from `ndarray`, where NumPy's own tests look."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np

from ..twice import same


class Kept(np.ndarray):
    """At module level, for pickle."""


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: np.ndarray.sum(x, axis=0, keepdims=True),
    "sum of all": lambda np, x: np.ndarray.sum(x),
    "sum into": lambda np, x: np.ndarray.sum(x, 0, None, np.zeros(4)),
    "reshape": lambda np, x: np.ndarray.reshape(x, (4, 3)),
    "add": lambda np, x: np.ndarray.__add__(x, np.ones(4)),
    "radd": lambda np, x: np.ndarray.__radd__(x, 1),
    "iadd": lambda np, x: np.ndarray.__iadd__(x, np.ones(4)),
    "neg": lambda np, x: np.ndarray.__neg__(x),
    "eq": lambda np, x: np.ndarray.__eq__(x, 3.0),
    "item": lambda np, x: np.ndarray.__getitem__(x, (slice(None), 1)),
    "one": lambda np, x: np.ndarray.__getitem__(x, (1, 2)),
    "set": lambda np, x: (np.ndarray.__setitem__(x, 0, 7), x)[1],
    "view": lambda np, x: np.ndarray.view(x, "i8"),
    "repr": lambda np, x: np.ndarray.__repr__(x),
    "str": lambda np, x: np.ndarray.__str__(x),
    "len": lambda np, x: np.ndarray.__len__(x),
    "tolist": lambda np, x: np.ndarray.tolist(x),
    "copy": lambda np, x: np.ndarray.copy(x),
    "array": lambda np, x: np.ndarray.__array__(x),
    "sort": lambda np, x: (np.ndarray.sort(x, axis=0), x)[1],
    "fill": lambda np, x: (np.ndarray.fill(x, 3), x)[1],
    "reduce": lambda np, x: np.ndarray.__reduce__(x)[2][1],
    "bool": lambda np, x: np.ndarray.__bool__(x[0, :1]),
    "nonzero": lambda np, x: np.ndarray.nonzero(x > 3)[0],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_called_through_the_class(name: str) -> None:
    def body(np: Any) -> Any:
        class Sub(np.ndarray):  # type: ignore[misc]
            pass

        made = METHODS[name](np, np.arange(12.0).reshape(3, 4).view(Sub))
        return isinstance(made, Sub), numpy.asarray(made) if isinstance(made, np.ndarray) else made

    same(body)


def test_own_protocols_may_call_the_class() -> None:
    def body(np: Any) -> Any:
        class Sub(np.ndarray):  # type: ignore[misc]
            def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
                plain = [x.view(np.ndarray) if isinstance(x, Sub) else x for x in inputs]
                return np.ndarray.__array_ufunc__(self, ufunc, method, *plain, **kwargs)

            def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return np.ndarray.__array_function__(self, func, types, args, kwargs)

        x = np.arange(3.0).view(Sub)
        out = np.zeros(3)
        np.add(x, np.ones(3), out=out)
        return x + 1, np.add(np.ones(3), x), out, np.concatenate([x, np.ones(2)]).view(np.ndarray), np.add.reduce(x)

    same(body)


def test_methods_that_tests_and_libraries_compare() -> None:
    class Sub(np.ndarray):
        pass

    assert Sub.sum is not np.ndarray.sum  # an inherited method is NumPy's own, which takes no handles
    assert np.ndarray.sum is np.ndarray.sum
    assert np.ndarray.sum(np.arange(4)) == 6
    assert np.ndarray.sum(numpy.arange(4)) == 6
    with pytest.raises(TypeError):
        np.ndarray.sum()


@pytest.mark.parametrize("make", ["new", "class", "keyword"])
def test_a_subclass_on_the_memory_of_an_array(make: str) -> None:
    def body(np: Any) -> Any:
        class Sub(np.ndarray):  # type: ignore[misc]
            pass

        a = np.arange(6.0)
        if make == "new":
            x = np.ndarray.__new__(Sub, (2, 2), "f8", a, 8)
        else:
            x = Sub((2, 2), "f8", a, 8) if make == "class" else Sub(shape=(2, 2), dtype="f8", buffer=a, offset=8)
        x[0, 0] = -1
        return type(x) is Sub, x.view(np.ndarray), a

    same(body)


def test_pickled_and_copied() -> None:
    x = np.arange(3.0).view(Kept)
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert type(y) is Kept
        assert operator.eq(y, x).all()


def test_wrapping_in_a_subclass_takes_arrays() -> None:
    def body(np: Any) -> Any:
        class Sub(np.ndarray):  # type: ignore[misc]
            def __array_wrap__(self, arr: Any, context: Any = None, return_scalar: bool = False) -> Any:
                return super().__array_wrap__(arr, context, return_scalar)

        x = np.arange(3.0).view(Sub)
        made = x.__array_wrap__(np.ones(3)), np.sqrt(x), x + np.ones(3)
        return [isinstance(m, Sub) for m in made], [numpy.asarray(m) for m in made]

    same(body)


def test_indices_of_a_subclass_are_arrays() -> None:
    class Sub(np.ndarray):
        pass

    x = np.array([[0, 1], [2, 0]]).view(Sub)
    for found in (x.nonzero(), np.nonzero(x)):
        assert [type(a) is np.ndarray for a in found] == [True, True]
        assert [a.tolist() for a in found] == [[0, 1], [1, 0]]


MASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sqrt": lambda np, x, m: np.ma.sqrt(x),
    "log": lambda np, x, m: np.ma.log(m),
    "add": lambda np, x, m: np.ma.add(x, m),
    "both": lambda np, x, m: x + m,
    "reduce": lambda np, x, m: np.ma.add.reduce(m),
    "outer": lambda np, x, m: np.ma.multiply.outer(x, m),
    "where": lambda np, x, m: np.ma.where(x > 1, m, 0),
    "masked": lambda np, x, m: np.ma.masked_less(x, 1.5),
    "sum": lambda np, x, m: np.ma.sum(m, axis=0),
    "of array": lambda np, x, m: np.ma.array(x, mask=x > 1),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_arrays_beside_arrays(name: str) -> None:
    def body(np: Any) -> Any:
        made = MASKED[name](np, np.arange(3.0), np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]))
        made = np.ma.asarray(made)
        return numpy.asarray(made.filled(-1)), numpy.asarray(np.ma.getmaskarray(made))

    same(body)


def test_masked_builders_refuse_text() -> None:
    with pytest.raises(numpy.ma.MAError):
        np.ma.mr_["1, 2; 3, 4"]


@pytest.mark.parametrize("size", [12, 60_000])
@pytest.mark.parametrize("call", [
    lambda np, x, out: np.ma.core.min(x, axis=0, out=out), lambda np, x, out: np.ma.core.max(x, axis=0, out=out),
    lambda np, x, out: np.max(x, axis=0, out=out), lambda np, x, out: np.ma.sum(x, axis=0, out=out),
    lambda np, x, out: np.ma.apply_over_axes(np.sum, x, 0),
])  # fmt: skip
def test_masked_functions_give_the_output_that_they_were_given(call: Any, size: int) -> None:
    values = numpy.arange(float(size)).reshape(3, -1)
    found = []
    for module in (numpy, np):
        x = module.ma.array(module.array(values), mask=values % 4 == 0)
        out = module.empty(size // 3)
        made = call(module, x, out)
        found.append((made is out, type(made).__name__, numpy.asarray(out if made is out else made).tobytes()))
    assert found[0] == found[1]
