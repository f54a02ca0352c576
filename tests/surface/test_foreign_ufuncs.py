"""Ufuncs of other libraries: whatever their names, it is they that run; and nothing holds them afterwards."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config

LOOP = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ssize_t), ctypes.POINTER(ctypes.c_ssize_t),
    ctypes.c_void_p,
)  # fmt: skip
_kept: list[Any] = []


def compiled(name: str, run: Callable[..., float], operands: int) -> Any:
    """A ufunc on doubles, made as extensions make theirs."""

    def loop(args: Any, dimensions: Any, steps: Any, data: Any) -> None:
        at = [args[n] for n in range(operands + 1)]
        for _ in range(dimensions[0]):
            values = [ctypes.c_double.from_address(p).value for p in at]
            ctypes.c_double.from_address(at[-1]).value = run(*values[:-1])
            at = [p + steps[n] for n, p in enumerate(at)]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    table = pointer(numpy._core._multiarray_umath._UFUNC_API, None)  # type: ignore[attr-defined]
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_int] * 4, ctypes.c_char_p,
        ctypes.c_char_p, ctypes.c_int,
    )(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[1] or 0)  # fmt: skip
    callback = LOOP(loop)
    functions = (ctypes.c_void_p * 1)(ctypes.cast(callback, ctypes.c_void_p).value)
    data, types, title = (ctypes.c_void_p * 1)(None), bytes([12] * (operands + 1)), name.encode()
    _kept.extend((callback, functions, data, types, title))
    return make(
        ctypes.addressof(functions), ctypes.addressof(data), types, 1, operands, 1, 0, title, b"", 0
    )  # fmt: skip


PAIRS = {n: compiled(n, lambda a, b: a - 2 * b, 2) for n in ("add", "maximum", "multiply", "matmul", "arctan2")}
SINGLES = {n: compiled(n, lambda a: a + 100, 1) for n in ("sqrt", "absolute", "isnan")}
CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "call": lambda np, f, x, y: f(x, y),
    "weak": lambda np, f, x, y: f(x, 2.0),
    "reduce": lambda np, f, x, y: f.reduce(x[:50]),
    "reduce axis": lambda np, f, x, y: f.reduce(x[:60].reshape(6, 10), axis=1),
    "accumulate": lambda np, f, x, y: f.accumulate(x[:50]),
    "outer": lambda np, f, x, y: f.outer(x[:30], y[:20]),
    "reduceat": lambda np, f, x, y: f.reduceat(x[:50], [0, 10, 20]),
    "out": lambda np, f, x, y: f(x, y, out=np.zeros(len(x))),
    "positional out": lambda np, f, x, y: f(x, y, np.zeros(len(x))),
    "where": lambda np, f, x, y: f(x, y, where=x > 5, out=np.zeros(len(x))),
    "broadcast": lambda np, f, x, y: f(x[:30, None], y[:20]),
}


def at(np: Any, f: Any, x: Any, y: Any) -> Any:
    x = x.copy()
    f.at(x, [0, 0, 3], 4.0)
    return x


@pytest.mark.parametrize("eager_size", [0, 8192])
@pytest.mark.parametrize("how", [*CALLS, "at"])
def test_pairs_run_whatever_their_name(how: str, eager_size: int) -> None:
    x, y = numpy.arange(200.0), numpy.arange(200.0)[::-1].copy()
    call = CALLS.get(how, at)
    for f in PAIRS.values():
        want = call(numpy, f, x, y)
        with config(eager_size=eager_size):
            got = call(np, f, np.array(x), np.array(y))
            numpy.testing.assert_array_equal(numpy.asarray(got), want)


@pytest.mark.parametrize("eager_size", [0, 8192])
def test_singles_run_whatever_their_name(eager_size: int) -> None:
    with config(eager_size=eager_size):
        for f in SINGLES.values():
            numpy.testing.assert_array_equal(numpy.asarray(f(np.arange(50.0))), numpy.arange(50.0) + 100)


class Compiling:
    """Behaves as numba's ufuncs do: no ufunc of NumPy's, but it asks the operands first."""

    def __init__(self) -> None:
        self.seen: list[type] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("__call__", args, kwargs)

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("reduce", args, kwargs)

    def _run(self, method: str, args: Any, kwargs: Any) -> Any:
        for x in (*args, *kwargs.get("out", ())):
            own = getattr(type(x), "__array_ufunc__", None)
            if own not in (None, numpy.ndarray.__array_ufunc__):
                return x.__array_ufunc__(self, method, *args, **kwargs)
        self.seen += map(type, args)
        return getattr(PAIRS["add"], method)(*args, **kwargs)


def test_what_behaves_as_a_ufunc() -> None:
    f, x, y = Compiling(), np.arange(20_000.0)[:300] * 1, np.ones(300)
    want = numpy.arange(300.0) - 2
    got = f(x, y)
    assert type(got) is np.ndarray
    numpy.testing.assert_array_equal(got, want)
    out = np.zeros(300)
    assert f(x, y, out=(out,)) is out
    numpy.testing.assert_array_equal(out, want)
    assert f.reduce(x[:3]) == numpy.float64(-6)
    assert set(f.seen) == {numpy.ndarray}
    with pytest.raises(AttributeError):
        x.__array_ufunc__("no ufunc", "reduce", x)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        f(x, np.ones(299))


class Function:
    """A function that can be looked for."""

    def __call__(self, *values: Any) -> Any:
        return values[0]


def _outer(f: Any, x: Any) -> Any:
    return np.frompyfunc(f, 2, 1).outer(x[:5], x[:5])


USES: dict[str, Callable[[Any, Any], Any]] = {
    "frompyfunc": lambda f, x: np.frompyfunc(f, 1, 1)(x),
    "numpy's frompyfunc": lambda f, x: numpy.frompyfunc(f, 1, 1)(x),
    "two": lambda f, x: np.frompyfunc(f, 2, 1)(x, x),
    "out": lambda f, x: np.frompyfunc(f, 1, 1)(x, out=np.empty(len(x), object)),
    "outer": _outer,
    "reduce": lambda f, x: np.frompyfunc(f, 2, 1).reduce(x),
    "accumulate": lambda f, x: np.frompyfunc(f, 2, 1).accumulate(x, dtype=object),
    "vectorize": lambda f, x: np.vectorize(f)(x),
    "vectorize with types": lambda f, x: np.vectorize(f, otypes=[float])(x),
    "apply_along_axis": lambda f, x: np.apply_along_axis(f, 0, x),
    "piecewise": lambda f, x: np.piecewise(x, [x > 1], [f, f]),
    "fromfunction": lambda f, x: np.fromfunction(f, (len(x),)),
}


@pytest.mark.parametrize("count", [5, 9000])
@pytest.mark.parametrize("eager_size", [0, 8192])
@pytest.mark.parametrize("how", USES)
def test_functions_are_let_go(how: str, eager_size: int, count: int) -> None:
    f = Function()
    gone = weakref.ref(f)
    with config(eager_size=eager_size):
        USES[how](f, np.arange(float(count)))
    del f
    gc.collect()
    assert gone() is None
