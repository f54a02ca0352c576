"""`expect`: an assertion on what a block costs."""

from __future__ import annotations

import pytest

from offarray._expect import ExpectationError, expect
from offarray.runtime import trace
from offarray.runtime.errors import OffarrayError


def test_right_numbers_pass() -> None:
    with expect(kernels=2, fallbacks=0, compiles=1, h2d_bytes=0, d2h_bytes=8):
        trace.count("kernels", 2)
        trace.count("compiles")
        trace.count("d2h_bytes", 8)


def test_nothing_asked_nothing_checked() -> None:
    with expect():
        trace.count("kernels")


@pytest.mark.parametrize("name", ["kernels", "fallbacks", "compiles", "h2d_bytes", "d2h_bytes"])
def test_wrong_number_is_named(name: str) -> None:
    with pytest.raises(ExpectationError, match=f"^{name}: expected 1, found 3$"), expect(**{name: 1}):
        trace.count(name, 3)


def test_it_is_an_assertion_and_an_error_of_offarray() -> None:
    assert issubclass(ExpectationError, AssertionError)
    assert issubclass(ExpectationError, OffarrayError)


def test_cuts_and_fallbacks_are_listed_with_their_lines() -> None:
    def spot() -> None: ...

    site = (spot.__code__, 0, "__main__", {})
    with pytest.raises(ExpectationError) as caught, expect(kernels=1):
        trace.count("kernels", 2)
        trace.emit("step", site, nbytes=8, values=3)
        trace.emit("cut", site, reason="scan", op="add")
        trace.emit("cut", site, reason="scan", op="add")
        trace.emit("fallback", None, name="interp", reason="no native form")
    line = spot.__code__.co_firstlineno
    assert str(caught.value).splitlines() == [
        "kernels: expected 1, found 2",
        f"  kernel at test_expect.py:{line}",
        f"  cut at test_expect.py:{line}: add: scan (2 times)",
        "  fallback at an unknown line: interp: no native form",
    ]


def test_exception_of_the_block_goes_first() -> None:
    with pytest.raises(ZeroDivisionError), expect(kernels=1):
        raise ZeroDivisionError


def test_nested_blocks_count_for_both() -> None:
    with pytest.raises(ExpectationError, match="fallbacks: expected 0, found 2"), expect(fallbacks=0):
        trace.emit("fallback", None, name="one")
        with pytest.raises(ExpectationError) as inner, expect(fallbacks=0):
            trace.count("fallbacks", 2)
            trace.emit("fallback", None, name="two")
        assert "two" in str(inner.value)
        assert "one" not in str(inner.value)


def test_event_list_is_off_again() -> None:
    with expect():
        assert trace.events is not None
    assert trace.events is None


def test_running_event_list_is_kept() -> None:
    trace.record(True)
    try:
        with expect():
            trace.emit("cut", None, reason="x")
        assert trace.events is not None
        assert len(trace.events) == 1
    finally:
        trace.record(False)
