"""Calls that once told apart: what a method, a fold or a cast gives for unusual layouts and types."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy
import pytest

from tests.twice import caught, same

MODES = ("default", "statement", "check")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("large", [False, True])
def test_resize_keeps_the_order_in_memory(mode: str, order: str, large: bool) -> None:
    n = 200 if large else 1
    for shape in [(3, 2 * n), (6 * n,), (1, 6 * n), (2, 1, 3 * n), (4, 4 * n), (2,), (0,), (2, 3 * n)]:

        def body(np: Any, shape: tuple[int, ...] = shape) -> Any:
            x = np.array(numpy.arange(6.0 * n).reshape(2, 3 * n), order=order)
            x = x * 2
            x.resize(shape, refcheck=False)
            return x, x.flags.owndata

        same(body, mode)


def test_resize_leaves_a_read_only_array_read_only() -> None:
    def body(np: Any) -> Any:
        x = np.arange(6.0)
        x.flags.writeable = False
        x.resize((2, 2), refcheck=False)
        return x, x.flags.writeable

    same(body)


@pytest.mark.parametrize("mode", MODES)
def test_one_question_gives_a_scalar(mode: str) -> None:
    def body(np: Any) -> Any:
        x, v, z = np.array([1.0, 2.0, 3.0, 4.0]), np.array(2.5), np.array(1)
        made = [np.searchsorted(x, v), x.searchsorted(v), np.digitize(v, x), np.take(x, z), x.take(z), x[z]]
        return made, [not isinstance(m, np.ndarray) for m in made], np.take(np.array([[1, 2], [3, 4]]), z, axis=0)

    same(body, mode)


@pytest.mark.parametrize("mode", MODES)
def test_rounding_keeps_byte_order_and_layout(mode: str) -> None:
    def body(np: Any) -> Any:
        swapped = [np.round(np.array([1.25, 15.0], t), d) for t in (">f8", ">f4", ">f2") for d in (-1, 0, 1)]
        grid = np.array(numpy.arange(6).reshape(2, 3), order="F")
        return [(x, x.dtype.str) for x in swapped], [np.round(grid, d) for d in (-1, 0, 1)]

    same(body, mode)


FOLDS = ("sum", "prod", "cumsum", "cumprod", "mean", "var", "std")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOLDS)
def test_folds_of_complex_numbers_in_other_types(mode: str, name: str) -> None:
    for given in "FD":
        for wanted in "efdFD":

            def body(np: Any, given: str = given, wanted: str = wanted) -> Any:
                x = np.array(numpy.array([1 + 2j, 3, -4j], given))
                return getattr(np, name)(x, dtype=wanted), getattr(np, name)(x.reshape(3, 1), axis=0, dtype=wanted)

            same(body, mode, ulp=4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("given", "Hiqfd")
def test_folds_in_halves_round_their_elements_first(mode: str, name: str, given: str) -> None:
    def body(np: Any) -> Any:
        large = np.array(numpy.array([70000, 60000] if given != "H" else [65535, 1], given))
        fine = np.array(numpy.array([1.0003, 2.0006, 0.3333] if given in "fd" else [2049, 1, 2], given))
        call = getattr(np, name)
        return call(fine, dtype="e"), call(large, dtype="e")

    same(body, mode, ulp=1)


@pytest.mark.parametrize("mode", MODES)
def test_casts_to_halves_tell_of_overflow(mode: str) -> None:
    for given in "HiIqQfd":

        def body(np: Any, given: str = given) -> Any:
            return np.array(numpy.array([3, 65535], given)).astype("e")

        same(body, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "reciprocal"])
def test_division_of_integers_by_zero_warns(mode: str, name: str) -> None:
    for given in "bBhiqQ":

        def body(np: Any, given: str = given) -> Any:
            x = np.array(numpy.array([3, 0, 1], given))
            call = getattr(np, name)
            return call(x) if name == "reciprocal" else (call(x, x), call(x, x.dtype.type(0)))

        same(body, mode)


@pytest.mark.parametrize("mode", MODES)
def test_product_of_one_infinite_complex_number(mode: str) -> None:
    def body(np: Any) -> Any:
        x = np.array([[complex(numpy.inf, 0.0), complex(0.0, -numpy.inf)]])
        return np.prod(x, axis=0), np.multiply.reduce(x, axis=0, keepdims=True), np.prod(x[:, 0])

    same(body, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", "?bBiqQefd")
def test_folds_into_an_array_of_another_type(mode: str, given: str) -> None:
    for wanted in "?bhiqQefdD":

        def body(np: Any, wanted: str = wanted) -> Any:
            x = np.array(numpy.array([1.625, 1.75, 2.5, 0.25, 3.0]).astype(given))
            made: list[Any] = []
            for call in (np.sum, np.prod, np.max, np.min, np.add.reduce, np.bitwise_or.reduce, np.any):
                made.append(caught(functools.partial(call, x, out=np.zeros((), wanted))))
            made.append(caught(lambda: np.multiply.reduce(x, out=(np.zeros((), wanted),))))
            for call in (np.cumsum, np.cumprod, np.add.accumulate, np.maximum.accumulate):
                made.append(caught(functools.partial(call, x, out=np.zeros(5, wanted))))
            return made

        same(body, mode, ulp=2)


@pytest.mark.parametrize("mode", ["default", "statement", "check"])
@pytest.mark.parametrize("size", [12, 50_000])
def test_a_handler_is_told_all_that_an_operation_met(mode: str, size: int) -> None:
    def body(np: Any) -> Any:
        met: list[tuple[str, int]] = []
        with np.errstate(all="call", call=lambda text, bits: met.append((text, bits))):
            x = np.arange(float(size))
            np.log(x - 1.0).sum()
            _ = x / 0.0
            _ = 1.0 / x
            _ = np.exp(x * 1000.0)
        return met

    same(body, mode)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joined_arrays_lie_in_memory_as_those_of_numpy(axis: int) -> None:
    for turn in itertools.permutations(range(3)):
        for shape in [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 4)]:

            def body(np: Any, turn: tuple[int, ...] = turn, shape: tuple[int, ...] = shape) -> Any:
                x = np.array(numpy.arange(24.0)[: numpy.prod(shape)].reshape(shape)).transpose(turn) * 2
                made = np.concatenate([x, x + 1], axis=axis), np.stack([x, x - 1], axis=axis)
                return made, [[s for s, n in zip(m.strides, m.shape, strict=True) if n > 1] for m in made]

            same(body, "statement")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", "bhiqBQfd")
def test_messages_name_divmod(mode: str, given: str) -> None:
    def body(np: Any) -> Any:
        x, y = np.array(numpy.array([3, 7, 0], given)), np.array(numpy.array([0, 2, 0], given))
        made = divmod(x, y), np.divmod(x, x.dtype.type(0))
        with np.errstate(all="raise"):
            refused = caught(lambda: np.divmod(x, y))
        out = (np.zeros_like(x), np.zeros_like(x))
        np.divmod(x, y, out=out)
        return made, refused, out

    same(body, mode)


@pytest.mark.parametrize("mode", MODES)
def test_negative_powers_of_integers_into_a_destination(mode: str) -> None:
    def body(np: Any) -> Any:
        x, fixed = np.array([1, 4, -5, 0]), np.array([2, 3, 4, 5])
        fixed.flags.writeable = False
        refused = [str(_text(functools.partial(np.power, x, x, out=out))) for out in (fixed, x)]
        return refused, x, fixed, _text(lambda: x ** np.array([1, 1, -1, 1]))

    same(body, mode)


def _text(action: Any) -> str:
    with pytest.raises(ValueError) as error:
        action()
    return str(error.value)
