"""How calls are checked and handed on, where NumPy's own tests look."""

from __future__ import annotations

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
