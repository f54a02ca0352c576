"""Public functions and methods on small arrays, which start in C where the front end is compiled."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray

Call = Callable[[Any, Any], Any]
CALLS: dict[str, Call] = {
    "axis": lambda np, b: np.sum(b, axis=1),
    "method with options": lambda np, b: b.sum(axis=0, keepdims=True),
    "no such axis": lambda np, b: np.sum(b, axis=7),
    "no such option": lambda np, b: np.sum(b, axes=0),
    "text in front": lambda np, b: np.einsum("ij,ij->i", b, b),
    "text of a product": lambda np, b: np.einsum("ij,kj->ik", b, b),
    "text that is wrong": lambda np, b: np.einsum("ij,ijk->i", b, b),
    "rows by number": lambda np, b: b[np.array([2, 0])],
    "number beyond": lambda np, b: b[np.array([5])],
    "mask": lambda np, b: b[b > 3],
    "mask of rows": lambda np, b: b[np.array([True, False, True])],
    "list": lambda np, b: np.concatenate([b, b], axis=1),
    "empty list": lambda np, b: np.concatenate([]),
    "list of other shapes": lambda np, b: np.concatenate([b, b[0]]),
    "scalar": lambda np, b: np.trace(b),
    "two arrays": lambda np, b: np.dot(b, b.T),
    "other shapes": lambda np, b: np.dot(b, b),
    "list of numbers": lambda np, b: b.tolist(),
    "type by name": lambda np, b: np.mean(b, dtype="f4"),
    "tuple of arrays": lambda np, b: np.nonzero(b),
    "view": lambda np, b: (np.reshape(b, (4, 3)).base is b, b.T.base is b, np.squeeze(b[None]).base is b),
    "itself": lambda np, b: b.astype(float, copy=False) is b,
    "list of views": lambda np, b: np.split(b, 3),
    "named results": lambda np, b: np.unique(b, return_counts=True),
    "results of one call": lambda np, b: np.linalg.slogdet(b[:, :3] + np.eye(3)),
    "written rows": lambda np, b: _written(b, np.array([0, 1]), np.arange(4.0)),
    "written mask": lambda np, b: _written(b, b > 9, -1),
    "objects": lambda np, b: np.array([1, "a"], object)[np.array([1, 0])],
}


def _written(b: Any, key: Any, value: Any) -> Any:
    b[key] = value
    return b


def answer(np: Any, call: Call) -> str:
    """What a call gives, or how it fails."""
    try:
        return repr(call(np, np.arange(12.0).reshape(3, 4).copy()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", CALLS)
def test_small_work_is_numpys(name: str) -> None:
    assert answer(offarray, CALLS[name]) == answer(numpy, CALLS[name])


def test_functions_are_found_by_their_names() -> None:
    for function in (offarray.mean, offarray.linalg.norm, offarray.concatenate):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert callable(function)
    assert offarray.mean.__name__ == "mean" and offarray.mean.__doc__ == numpy.mean.__doc__
    assert inspect.signature(offarray.mean) == inspect.signature(numpy.mean)


def test_a_function_kept_by_a_class_becomes_a_method() -> None:
    class Kept:
        total = offarray.sum

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return numpy.arange(4.0)

    assert Kept().total() == 6.0


def test_results_do_not_share_memory_unless_numpys_do() -> None:
    b = offarray.arange(12.0).reshape(3, 4)
    made, seen = b[offarray.array([0, 1])], offarray.reshape(b, (4, 3))
    b[:] = 0
    assert made.sum() == 28.0 and seen.sum() == 0.0
