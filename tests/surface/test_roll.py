"""`roll` in memory order: the result lies in memory as the operand does."""

from __future__ import annotations

import numpy
import pytest

from tests.twice import MODULE, settings

ORDERS = [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("eager", [0, 10**6])
def test_order(order: tuple[int, ...], axis: object, eager: int) -> None:
    base = numpy.arange(3.0 * 4 * 5).reshape(3, 4, 5)
    for step in (slice(None), slice(None, None, -1), slice(None, None, 2)):
        n = base[step].transpose(order)
        want = numpy.roll(n, 2, axis)  # type: ignore[arg-type]
        with settings(eager_size=eager):
            x = MODULE.array(base)[step].transpose(order)
            got = MODULE.roll(x, 2, axis)
            assert got.strides == want.strides
            assert (numpy.asarray(got) == want).all()
