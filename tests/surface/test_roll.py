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


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "c8", "?"])
@pytest.mark.parametrize("extent", [1, 7, 15, 16, 17, 33, 64, 100])
def test_places_round_the_ends_of_vectors(dtype: str, extent: int) -> None:
    base = (numpy.arange(5 * extent).reshape(5, extent) % 7).astype(dtype)
    with settings(eager_size=0):
        x = MODULE.array(base)
        for shift in (-extent, -17, -8, -1, 0, 1, 3, 8, 16, extent // 2, extent - 1):
            want = numpy.roll(base, shift, 1) + numpy.roll(base, (1, shift), (0, 1)) + base
            got = MODULE.roll(x, shift, 1) + MODULE.roll(x, (1, shift), (0, 1)) + x
            assert (numpy.asarray(got) == want).all()


def test_strided_places() -> None:
    base = numpy.arange(3 * 200.0).reshape(3, 200)
    with settings(eager_size=0):
        for step in (slice(None, None, 2), slice(None, None, -1), slice(5, 190, 3)):
            got = MODULE.roll(MODULE.array(base)[:, step], 3, 1) * 2
            assert (numpy.asarray(got) == numpy.roll(base[:, step], 3, 1) * 2).all()
