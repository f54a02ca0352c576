"""Who asks for a buffer, or converts to NumPy, is told what NumPy would tell: refusals, warnings turned into errors."""

from __future__ import annotations

import gc
import hashlib
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np

READERS: list[Callable[[Any], Any]] = [
    memoryview, bytes, bytearray, hashlib.sha256, io.BytesIO, lambda x: io.BytesIO().write(x),
    lambda x: int.from_bytes(x, "little"),
]  # fmt: skip
DATES = "M8[D]"


def outcome(call: Callable[[Any], Any], x: Any) -> Any:
    try:
        call(x)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("make", [lambda np: np.zeros(2, DATES), lambda np: np.zeros((2, 3))[:, 1]])
def test_refusals(read: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
    assert outcome(read, make(np)) == outcome(read, make(numpy))


def test_a_refusal_is_raised_while_another_is_handled() -> None:
    x: Any = np.zeros(2, DATES)
    try:
        raise KeyError("first")
    except KeyError as first:
        with pytest.raises(ValueError) as second:
            memoryview(x)
        assert second.value.__context__ is first


def test_refusals_leave_nothing_behind() -> None:
    x: Any = np.zeros(2, DATES)
    for _ in range(3):
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(200):
            assert outcome(memoryview, x) is not None
            numpy.asarray(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_refusals_of_threads_are_their_own() -> None:
    wrong: list[Any] = []

    def run(x: Any, want: Any) -> None:
        for _ in range(300):
            got = outcome(memoryview, x)
            if got != want:
                wrong.append(got)

    cases = [(np.zeros(2, kind), outcome(memoryview, numpy.zeros(2, kind))) for kind in (DATES, "T", "m8[s]", "f8")]
    threads = [threading.Thread(target=run, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


CONVERSIONS: list[Callable[[Any], Any]] = [
    numpy.asarray, numpy.array, lambda x: numpy.array([x, x]), lambda x: numpy.asarray(x, "f4"), memoryview, bytes,
    lambda x: x.__array__(), numpy.ma.array, numpy.frombuffer, numpy.ascontiguousarray,
    lambda x: numpy.concatenate([numpy.ones(2), numpy.asarray(x)]),
]  # fmt: skip


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_warnings_turned_into_errors(convert: Callable[[Any], Any]) -> None:
    """The operation warns when its value is asked for, whoever asks."""
    with np.config(faults="deferred"), warnings.catch_warnings():
        x = np.full(20_000, 1e308) * 10.0
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in multiply"):
            convert(x)
        assert numpy.isinf(numpy.asarray(x)).all()  # told once
