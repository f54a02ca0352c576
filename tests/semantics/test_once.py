"""What a call does besides its value happens once, also where it warns: files are read on, functions are called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy
import pytest

import offarray


def rows_of_a_file(np: Any) -> Any:
    file = StringIO("1\n\n2\n\n3\n")
    return np.loadtxt(file, max_rows=2).tolist(), file.read()


def ragged_file(np: Any) -> Any:
    return np.genfromtxt(StringIO("1 2\n3\n4 5\n"), invalid_raise=False).tolist()


def updates_at_places(np: Any) -> Any:
    a = np.array([1e308, 1.0])
    np.add.at(a, [0, 1], [1e308, 1.0])
    return a.tolist()


def prefixes_in_place(np: Any) -> Any:
    a = np.array([1e308, 1e308, 1.0])
    return a.cumsum(out=a).tolist()


def function_of_places(np: Any) -> Any:
    calls = []
    return np.fromfunction(lambda i: (calls.append(1), 1 / i)[1], (3,)).tolist(), len(calls)


def function_of_rows(np: Any) -> Any:
    calls = []
    a = np.array([[1.0, 2.0]])
    return np.apply_along_axis(lambda x: (calls.append(1), x / 0)[1], 0, a).tolist(), len(calls)


def array_of_old_protocol(np: Any, copy: bool | None) -> Any:
    class Old:
        def __array__(self, dtype: Any = None) -> Any:
            return np.arange(3)

    return np.array(Old(), copy=copy).tolist()


def wrapped_by_old_protocol(np: Any) -> Any:
    calls = []

    class Old:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3)

        def __array_wrap__(self, array: Any) -> Any:
            calls.append(1)
            return "wrapped"

    return np.negative(Old()), len(calls)


PROGRAMS: list[Callable[[Any], Any]] = [
    rows_of_a_file, ragged_file, updates_at_places, prefixes_in_place, function_of_places, function_of_rows,
    lambda np: array_of_old_protocol(np, None), lambda np: array_of_old_protocol(np, False), wrapped_by_old_protocol,
]  # fmt: skip


def outcome(np: Any, program: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = program(np)
        except ValueError as error:
            result = str(error)
    return result, [(w.category, str(w.message)) for w in told]


@pytest.mark.parametrize("program", PROGRAMS)
def test_once(program: Callable[[Any], Any]) -> None:
    assert outcome(offarray, program) == outcome(numpy, program)
