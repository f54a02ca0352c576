"""The language of routines: what is compiled does what Python does with the same source."""
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821

from __future__ import annotations

from array import array
from typing import Any, TypeAlias

import numpy
import pytest

from offarray.codegen import routines
from offarray.codegen.routine import Writer, routine

i8: TypeAlias = Any
f8: TypeAlias = Any
p_i8: TypeAlias = Any
p_f8: TypeAlias = Any
p_u1: TypeAlias = Any
p_T: TypeAlias = Any
STEP = 3


def run(source: Any, *words: Any, first: int = 0, last: int = 0, **bindings: Any) -> int:
    """Call a routine on arrays and numbers."""
    row = [w.ctypes.data if isinstance(w, numpy.ndarray) else w for w in words]
    bits = [
        int.from_bytes(array("d", [w]).tobytes(), "little") if isinstance(w, float) else w & (1 << 64) - 1 for w in row
    ]
    packed = array("Q", bits)
    return routine(source, **bindings).body(packed.buffer_info()[0], first, last)


def collatz(first: i8, last: i8, x: p_i8, out: p_i8) -> None:
    """Steps to 1 of each x, at most 50; x below 1 is passed over."""
    for i in range(first, last):
        v = x[i]
        if v < 1:
            continue
        n = 0
        while v != 1 and n < 50:
            if v % 2 == 0:
                v = v // 2
            else:
                v = 3 * v + 1
            n += 1
            if n == 40:
                break
        out[i] = n


def sieve(first: i8, last: i8, out: p_u1) -> None:
    """Marks what is no prime."""
    for i in range(2, last):
        for j in range(i * i, last, i):
            out[j] = 1


def insertion(first: i8, last: i8, x: p_f8) -> None:
    """Sorts in place; the second condition must not be looked at when the first is false."""
    for i in range(first + 1, last):
        v = x[i]
        j = i
        while j > first and x[j - 1] > v:
            x[j] = x[j - 1]
            j -= 1
        x[j] = v


def mixed(first: i8, last: i8, x: p_f8, out: p_f8, scale: f8, extra: i8) -> None:
    """Numbers, a parameter of the module, choices and logic."""
    for i in range(first, last, STEP):
        v = x[i] * scale
        big = v > 1.0 or v < -1.0
        w = -v if not big else v + to_f8(extra)
        out[i] = sqrt(fabs(w)) if w != 0.0 else 7.0


def early(first: i8, last: i8, x: p_i8) -> Any:
    """The first negative number's place, and what the call returns."""
    for i in range(first, last):
        if x[i] < 0:
            return to_i4(i)
    return to_i4(-1)


def shaped(first: i8, last: i8, x: p_T, out: p_T) -> None:
    """Decided when it is compiled."""
    for i in range(first, last):
        if KIND == 1:
            out[i] = x[i] >> 1
        else:
            out[i] = x[i] / 2.0


PYTHON = {
    "to_f8": float, "to_i8": int, "to_i4": int, "sqrt": numpy.sqrt, "fabs": abs, "STEP": STEP,
}  # fmt: skip


def python(source: Any, *arguments: Any) -> Any:
    """The same source run by Python."""
    source.__globals__.update(PYTHON)
    return source(*arguments)


def test_loops_conditions_and_jumps() -> None:
    x = numpy.arange(-3, 60)
    got, want = numpy.zeros(63, "i8"), numpy.zeros(63, "i8")
    run(collatz, x, got, last=63)
    python(collatz, 0, 63, x, want)
    numpy.testing.assert_array_equal(got, want)


def test_nested_loops_with_steps() -> None:
    got, want = numpy.zeros(100, "u1"), numpy.zeros(100, "u1")
    run(sieve, got, last=100)
    python(sieve, 0, 100, want)
    numpy.testing.assert_array_equal(got, want)
    assert got.sum() == 73


def test_conditions_stop_early() -> None:
    x = numpy.random.default_rng(1).normal(size=40)
    got = x.copy()
    run(insertion, got[5:], last=30)
    numpy.testing.assert_array_equal(got[5:35], numpy.sort(x[5:35]))
    numpy.testing.assert_array_equal(got[:5], x[:5])


def test_choices_numbers_and_logic() -> None:
    x = numpy.array([0.0, 0.5, -3.0, 0.25, 8.0, -0.5, 2.0])
    got, want = numpy.zeros(7), numpy.zeros(7)
    run(mixed, x, got, 1.5, 4, last=7)
    python(mixed, 0, 7, x, want, 1.5, 4)
    numpy.testing.assert_array_equal(got, want)


def test_what_a_routine_returns() -> None:
    assert run(early, numpy.array([1, 2, -3, -4]), last=4) == 2
    assert run(early, numpy.array([1, 2]), last=2) == -1


@pytest.mark.parametrize(("dtype", "kind"), [("u1", 1), ("i4", 1), ("f4", 2), ("f8", 2)])
def test_parameters_decide(dtype: str, kind: int) -> None:
    x = numpy.array([4, 7, 100]).astype(dtype)
    got = numpy.zeros(3, dtype)
    run(shaped, x, got, last=3, T=dtype, KIND=kind)
    numpy.testing.assert_array_equal(got, x // 2 if kind == 1 else x / 2)


def wrong(first: i8, last: i8, x: p_i8, out: p_f8) -> None:
    """Mixes types without a cast."""
    for i in range(first, last):
        out[i] = x[i]


def test_types_are_never_mixed() -> None:
    with pytest.raises(AssertionError, match="i8 where f8 is needed, in wrong"):
        Writer(wrong, {}).text("wrong")


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_packing_by_element_and_by_vector(dtype: str, wide: int) -> None:
    """Both ways of choosing, also where this processor takes one of them."""
    rng = numpy.random.default_rng(3)
    for share in (0.0, 0.1, 0.5, 0.97, 1.0):
        x, mask = rng.integers(0, 1000, 777).astype(dtype), rng.random(777) < share
        starts = numpy.array([0, mask.sum()])
        out, places = numpy.zeros(starts[1] + 1, dtype), numpy.zeros(starts[1] + 1, "i8")
        out[-1], places[-1] = 99, 99
        run(routines.compress, mask, x, out, starts, 0, last=777, T=dtype, PLACES=0, WIDE=wide)
        run(routines.compress, mask, 0, places, starts, 0, last=777, T="i8", PLACES=1, WIDE=wide)
        numpy.testing.assert_array_equal(out, [*x[mask], 99])
        numpy.testing.assert_array_equal(places, [*numpy.flatnonzero(mask), 99])
