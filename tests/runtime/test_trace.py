"""Counters, the debug ladder, events, errors and the words of faults."""

from __future__ import annotations

import warnings

import numpy
import pytest

from offarray.runtime import errors, fault, trace
from offarray.runtime.config import config


def test_counters_add_up_and_start_again(counters: dict[str, int]) -> None:
    trace.count("kernels")
    trace.count("kernel_bytes", 80)
    trace.count("kernels")
    seen = trace.stats()
    assert (seen["kernels"], seen["kernel_bytes"], seen["fallbacks"]) == (2, 80, 0)
    assert set(seen) == set(trace.NAMES)
    trace.reset()
    assert seen["kernels"] == 2
    assert not any(trace.stats().values())


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(KeyError):
        trace.count("kernel")


def test_ladder(capfd: pytest.CaptureFixture[str]) -> None:
    with config(debug=2):
        trace.log(1, "one")
        trace.log(2, "two")
        trace.log(3, "three")
    trace.log(1, "none")
    assert capfd.readouterr().err == "offarray 1: one\noffarray 2: two\n"


def test_events_only_while_recorded() -> None:
    trace.emit("lost")
    trace.record()
    trace.emit("kernel", ("code", 3), nbytes=8)
    events = trace.record(False)
    trace.emit("lost")
    assert events is not None
    assert [(e.kind, e.site, e.fields) for e in events] == [("kernel", ("code", 3), {"nbytes": 8})]
    assert trace.events is None


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.MovedError, RuntimeError), (errors.BorrowError, RuntimeError), (errors.FallbackError, RuntimeError),
        (errors.CompileError, RuntimeError), (errors.DeviceError, RuntimeError), (errors.MemoryLimitError, MemoryError),
    ],
)  # fmt: skip
def test_errors_are_of_both_kinds(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, errors.OffarrayError)
    assert issubclass(kind, builtin)


@pytest.mark.parametrize(
    ("bit", "operation", "arguments"),
    [
        (fault.DIVIDE, "true_divide", (1.0, 0.0)), (fault.OVER, "multiply", (1e308, 1e308)),
        (fault.UNDER, "multiply", (1e-308, 1e-308)), (fault.INVALID, "sqrt", (-1.0,)),
        (fault.INVALID, "mod", (1.0, 0.0)), (fault.DIVIDE, "log", (0.0,)),
    ],
)  # fmt: skip
def test_messages_are_numpys(bit: int, operation: str, arguments: tuple[float, ...]) -> None:
    with numpy.errstate(all="warn"), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        getattr(numpy, operation)(*(numpy.array([a]) for a in arguments))
    assert [str(w.message) for w in given] == [fault.message(bit, operation)]


def test_kinds_in_numpys_order() -> None:
    assert fault.kinds(0) == []
    assert fault.kinds(fault.INVALID | fault.DIVIDE | fault.UNDER) == [fault.DIVIDE, fault.UNDER, fault.INVALID]
    assert set(fault.NAMES.values()) == set(numpy.geterr())
