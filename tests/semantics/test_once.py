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


def function_of_elements(np: Any) -> Any:
    """NumPy warns of what a user's function does to floating-point numbers, after it was called."""
    calls = []
    call = np.frompyfunc(lambda x: (calls.append(x), numpy.float64(x) / numpy.zeros(1))[0], 1, 1)
    call(np.array([1.0, 2.0]))
    np.vectorize(lambda x: (calls.append(x), x / numpy.zeros(1))[1][0])(np.array([1.0, 2.0]))
    return calls


class Counted:
    """An element that counts what is done to it, beside elements of which NumPy warns."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _note(self, *_: Any) -> Any:
        self.calls.append("called")
        return self

    __add__ = __radd__ = __neg__ = __mul__ = __rmul__ = __array_priority__ = _note

    def __lt__(self, other: Any) -> bool:
        self._note()
        return True


def objects(np: Any, call: Callable[[Any, Any], Any]) -> Any:
    one = Counted()
    huge = numpy.float64(1e308)
    call(np, np.array([one, huge, huge, huge * 1.5], dtype=object))
    return len(one.calls)


OBJECTS: list[Callable[[Any, Any], Any]] = [
    lambda np, a: a + a, lambda np, a: a * 10.0, lambda np, a: 10.0 * a, lambda np, a: np.add(a, a),
    lambda np, a: np.multiply(a, 10.0), lambda np, a: a + np.ones(4) * 1e308, lambda np, a: np.ones(4) * 1e308 + a,
    lambda np, a: np.add(np.ones(4), a, where=np.ones(4, bool), out=np.zeros(4, object)),
    lambda np, a: a.__iadd__(a), lambda np, a: a.__iadd__(1e308), lambda np, a: np.ones(2).sum() + a,
    lambda np, a: a.sum(), lambda np, a: np.sum(a), lambda np, a: np.add.reduce(a), lambda np, a: a.cumsum(),
    lambda np, a: np.add.accumulate(a), lambda np, a: np.add.outer(a, a), lambda np, a: np.dot(a, a),
    lambda np, a: np.sum(a, axis=0), lambda np, a: np.add(list(a), list(a)), lambda np, a: np.sum(list(a)),
    lambda np, a: np.einsum("i,i", a, a), lambda np, a: np.inner(a, a), lambda np, a: np.add.at(a, [0, 1], 1e308),
    lambda np, a: np.trapezoid(a), lambda np, a: a.reshape(2, 2) @ a.reshape(2, 2), lambda np, a: a.mean(),
]  # fmt: skip


def gives_handle(np: Any, old: bool, call: Callable[[Any, Any], Any]) -> Any:
    calls = []

    class New:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            calls.append((dtype, copy))
            return np.arange(3.0)

    class Old:
        def __array__(self, dtype: Any = None) -> Any:
            calls.append((dtype,))
            return np.arange(3.0)

    made = call(np, Old() if old else New())
    return made.tolist(), str(made.dtype), calls


CONVERSIONS: list[Callable[[Any, Any], Any]] = [
    lambda np, x: np.array(x), lambda np, x: np.array(x, copy=True), lambda np, x: np.array(x, copy=None),
    lambda np, x: np.array(x, dtype=int), lambda np, x: np.array(x, dtype=object), lambda np, x: np.array(x, ndmin=2),
    lambda np, x: np.array([x, x]), lambda np, x: np.array((x,), copy=True), lambda np, x: np.asarray(x),
    lambda np, x: np.asarray(x, int), lambda np, x: np.asarray([x, x]), lambda np, x: np.asanyarray(x),
    lambda np, x: np.ascontiguousarray(x), lambda np, x: np.asfortranarray([x, x]),
    lambda np, x: np.asarray(x, copy=True),
]  # fmt: skip


def _cases() -> list[Callable[[Any], Any]]:
    cases: list[Callable[[Any], Any]] = [lambda np, c=c: objects(np, c) for c in OBJECTS]  # type: ignore[misc]
    cases += [lambda np, c=c, o=o: gives_handle(np, o, c) for c in CONVERSIONS for o in (False, True)]  # type: ignore[misc]
    return cases


PROGRAMS: list[Callable[[Any], Any]] = [
    rows_of_a_file, ragged_file, updates_at_places, prefixes_in_place, function_of_places, function_of_rows,
    lambda np: array_of_old_protocol(np, None), lambda np: array_of_old_protocol(np, False), wrapped_by_old_protocol,
    function_of_elements, *_cases(),
]  # fmt: skip


def outcome(np: Any, program: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = program(np)
        except (ValueError, TypeError) as error:
            result = str(error)
    return result, [(w.category, str(w.message)) for w in told]


@pytest.mark.parametrize("program", PROGRAMS)
def test_once(program: Callable[[Any], Any]) -> None:
    assert outcome(offarray, program) == outcome(numpy, program)
