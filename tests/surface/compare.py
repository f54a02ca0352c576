"""Comparison of what the two libraries gave, for the tests of the surface."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy

import offarray


def told(call: Callable[[Any, Any], Any], x: Any) -> list[set[str]]:
    """What NumPy, and then we, warn of where `call(module, x)` is made and looked at."""
    said = []
    for module in (numpy, offarray):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            str(call(module, module.array(x)))
        said.append({str(w.message) for w in given})
    return said


def same(got: Any, want: Any, rtol: float = 0.0) -> None:
    """Assert that `got` (offarray's) is what `want` (NumPy's) is: kind, dtype, shape, values."""
    if isinstance(want, (tuple, list)):
        assert type(got).__name__ == type(want).__name__
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    if type(want) is numpy.ndarray:
        assert type(got) is offarray.ndarray, type(got)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        g = numpy.asarray(got)
        if rtol and want.dtype.kind in "fc":
            numpy.testing.assert_allclose(g, want, rtol=rtol, atol=rtol)
        else:
            numpy.testing.assert_array_equal(g, want)
        return
    if isinstance(want, numpy.generic):
        assert isinstance(got, type(want)), (type(got), type(want))
        if rtol and want.dtype.kind in "fc":
            numpy.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        else:
            numpy.testing.assert_array_equal(got, want)
        return
    assert type(got) is type(want)
    assert got == want or got != got


def twice(body: Any, *operands: Any, rtol: float = 0.0) -> None:
    """`body` gives with offarray what it gives with NumPy: values, or an error of the same class and text."""
    answers = []
    for module, make in ((numpy, lambda a: a.copy()), (offarray, offarray.array)):
        given = [make(a) if isinstance(a, numpy.ndarray) else a for a in operands]
        try:
            answers.append(body(module, *given))
        except Exception as error:
            answers.append(error)
    want, got = answers
    if isinstance(want, Exception):
        assert type(got) is type(want), (got, want)
        assert str(got) == str(want)
    else:
        assert not isinstance(got, Exception), got
        same(got, want, rtol)
