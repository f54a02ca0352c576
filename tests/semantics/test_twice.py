"""The harness itself: it must see what it claims to compare."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

from tests import twice


def problem(f: Any, g: Any, ulp: int = 0) -> str:
    got, want = twice.outcome(lambda np: f(), numpy), twice.outcome(lambda np: g(), numpy)
    return twice.differ(got.result, want.result, ulp)


A = numpy.arange(6.0).reshape(2, 3)

DIFFERENT = {
    "value": (lambda: A, lambda: A + 1),
    "dtype": (lambda: A, lambda: A.astype("f4")),
    "shape": (lambda: A, lambda: A[None]),
    "order": (lambda: A, lambda: numpy.asfortranarray(A)),
    "direction": (lambda: A[::-1, 1:], lambda: A[::-1, 1:].copy()),
    "zero sign": (lambda: numpy.array([0.0]), lambda: numpy.array([-0.0])),
    "nan": (lambda: numpy.array([numpy.nan]), lambda: numpy.array([1.0])),
    "scalar and 0-d array": (lambda: numpy.float64(1), lambda: numpy.array(1.0)),
    "scalar and float": (lambda: numpy.float64(1), lambda: 1.0),
    "exception class": (lambda: A[7], lambda: A.reshape(7)),
    "exception and value": (lambda: A[7], lambda: A[1]),
    "inner exception": (lambda: [twice.caught(lambda: A[7])], lambda: [1]),
    "length": (lambda: [1, 2], lambda: [1]),
    "bool and int": (lambda: True, lambda: 1),
    "dict": (lambda: {"a": A}, lambda: {"a": A * 2}),
    "tuple and list": (lambda: (1, 2), lambda: [1, 2]),
    "object": (lambda: numpy.array([1, "a"], object), lambda: numpy.array([1, "b"], object)),
    "imaginary part": (lambda: A + 1j, lambda: A + 2j),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_sees_a_difference(name: str) -> None:
    f, g = DIFFERENT[name]
    assert problem(f, g)
    assert not problem(f, f)
    assert not problem(g, g)


def test_ulp() -> None:
    x = numpy.array([1.0, -1.0, 0.0, 5e-324])
    y = numpy.nextafter(x, 2)
    assert problem(lambda: x, lambda: y)
    assert not problem(lambda: x, lambda: y, 1)
    assert problem(lambda: x, lambda: numpy.nextafter(y, 2), 1)
    small = numpy.array([5e-324, -5e-324])
    assert not problem(lambda: small, lambda: -small, 2)
    assert problem(lambda: small, lambda: -small, 1)


def test_warnings_are_recorded() -> None:
    def body(np: Any) -> int:
        warnings.warn("late", RuntimeWarning, stacklevel=1)
        return 1

    assert twice.outcome(body, numpy).warnings == [("RuntimeWarning", "late")]


def test_unknown_results_are_refused() -> None:
    with pytest.raises(TypeError):
        twice.seen(object())
