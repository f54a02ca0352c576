"""What is wrong with a call is told before that its output is borrowed, and nothing is written either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np

WRONG: list[Callable[[Any, Any, Any], Any]] = [
    lambda np, a, o: np.add(a, a, out=o), lambda np, a, o: np.add(a, a, o),
    lambda np, a, o: np.add(a[:3], a[:2], out=o),
    lambda np, a, o: np.add(o, "x", out=o), lambda np, a, o: np.multiply(a, a, out=(o,)),
    lambda np, a, o: np.divmod(a, a, out=(a.copy(), o)), lambda np, a, o: np.sqrt(o, out=o),
]  # fmt: skip
RIGHT: list[Callable[[Any, Any, Any], Any]] = [
    lambda np, a, o: np.add(o, o, out=o), lambda np, a, o: np.add(o, 1, o),
    lambda np, a, o: np.floor_divide(o, o, out=o),
    lambda np, a, o: np.add(a, a, out=o, casting="unsafe"),
]  # fmt: skip


@pytest.mark.parametrize("count", [4, 20_000])
@pytest.mark.parametrize("call", WRONG + RIGHT)
def test_order_of_refusals(call: Callable[[Any, Any, Any], Any], count: int) -> None:
    out = np.ones(count, dtype=int)
    lent = np.borrow(out)
    with pytest.raises(Exception) as got:
        call(np, np.ones(count), out)
    if call in RIGHT:
        assert type(got.value) is np.BorrowError
    else:
        with pytest.raises(Exception) as want:
            call(numpy, numpy.ones(count), numpy.ones(count, dtype=int))
        assert (type(got.value), str(got.value)) == (type(want.value), str(want.value))
    assert (numpy.asarray(lent) == 1).all()
