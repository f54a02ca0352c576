"""What NumPy runs on the host is counted, with reason and line, and refused or warned of when asked."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from offarray._fallback import FallbackWarning
from offarray.runtime import trace
from offarray.runtime.config import config
from offarray.runtime.errors import FallbackError

from .compare import same


def _objects() -> object:
    return np.array([1, 2] * 2000, dtype=object)


def test_raise_refuses_with_reason_and_line() -> None:
    x = _objects()
    with config(fallback="raise"), pytest.raises(FallbackError, match="object") as caught:
        np.sum(x)
    assert __file__ in str(caught.value)


def test_warn_points_at_the_users_line() -> None:
    x = _objects()
    with config(fallback="warn"), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        total = np.sum(x)
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert total == 6000
    assert [w.category for w in found] == [FallbackWarning]
    assert (found[0].filename, found[0].lineno) == (__file__, line)
    assert "sum" in str(found[0].message)


def test_allow_counts() -> None:
    x = _objects()
    before = trace.counters["fallbacks"]
    trace.record(True)
    np.sum(x)
    events = [e for e in trace.record(False) or [] if e.kind == "fallback"]
    assert trace.counters["fallbacks"] == before + 1
    assert events[0].fields["name"] == "sum"
    assert "object" in events[0].fields["reason"]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + x, lambda x: 1 + x, lambda x: -x, lambda x: np.add(x, 1), lambda x: np.add.accumulate(x),
        lambda x: x + [1] * 4000, lambda x: x + numpy.ones(4000), lambda x: x.__iadd__(1), lambda x: x == 1,
    ],
)  # fmt: skip
def test_operators_are_counted(use: Callable[[Any], Any]) -> None:
    x = _objects()
    before = dict(trace.counters)
    use(x)
    assert trace.counters["fallbacks"] == before["fallbacks"] + 1
    assert trace.counters["host_bytes"] > before["host_bytes"]
    with config(fallback="raise"), pytest.raises(FallbackError, match="object"):
        use(x)


def test_products_of_matrices_are_library_steps() -> None:
    x = np.arange(2500.0).reshape(50, 50)
    before = dict(trace.counters)
    with config(fallback="raise"):
        x @ x
        np.matmul(x, x)
    assert trace.counters["library_bytes"] == before["library_bytes"] + 2 * x.nbytes


def test_library_steps_conversion_and_small_work_are_no_fallbacks(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(5000.0) * 2
    with config(fallback="raise"):
        ordered = np.sort(x)[::-1]
        np.linalg.norm(x)
        np.fft.fft(x)
        np.random.default_rng(0).shuffle(ordered)
        print(x)
        repr(x)
        x.tolist()
        np.array([1, 2, 3])
        np.sum(np.array([1, 2], dtype=object))
    before = trace.counters["library_bytes"]
    parted = np.partition(x, 7)  # in no order that NumPy promises
    assert trace.counters["library_bytes"] == before + x.nbytes
    assert parted[7] == 14 and (numpy.sort(parted[:7]) == numpy.arange(7) * 2).all()
    same(np.sort(parted), numpy.arange(5000.0) * 2)
    assert capsys.readouterr().out


@pytest.mark.parametrize("use", [lambda x: x.__iadd__(1), lambda x: np.add(x, 1, out=x), lambda x: np.add(x, 1, x)])
def test_read_only_results_are_refused_and_no_fallback(use: Callable[[Any], Any]) -> None:
    x = np.evaluate(np.arange(5000.0))
    x.flags.writeable = False
    before = trace.counters["fallbacks"]
    with config(fallback="raise"), pytest.raises(ValueError, match="read-only"):
        use(x)
    assert trace.counters["fallbacks"] == before
