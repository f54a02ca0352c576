"""Many random numbers are drawn by several threads: NumPy's very bits, and its generator's state afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray as np
from offarray import _drawing, _library, _library_streams, _reach
from offarray.runtime import threads, trace
from offarray.runtime.config import config

CALLS: dict[str, tuple[Any, ...]] = {
    "random": (), "uniform": (-1, 3), "standard_normal": (), "normal": (1.0, 2.0), "standard_exponential": (),
    "exponential": (2.0,), "lognormal": (0, 1), "laplace": (0, 1), "logistic": (0, 1), "gumbel": (0, 1),
    "integers": (0, 1000), "gamma": (2.5, 1.0), "beta": (0.5, 0.7), "rayleigh": (1,), "weibull": (1.5,), "pareto": (2,),
    "power": (2,), "standard_gamma": (0.3,), "chisquare": (3,), "standard_t": (5,), "poisson": (3,),
    "triangular": (0, 1, 2),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_drawing, "WORTH", (1 << 13, 1 << 13))
    with config(threads=4, device="cpu"):
        yield


def pair(bits: str, seed: int) -> tuple[Any, Any]:
    theirs, ours = (m.random.Generator(getattr(m.random, bits)(seed)) for m in (numpy, np))
    assert (theirs.random(3) == numpy.asarray(ours.random(3))).all()
    return theirs, ours


def same(name: str, bits: str, seed: int, size: Any, *args: Any, **options: Any) -> bool:
    """Whether both draw the same, several threads having shared the work."""
    theirs, ours = pair(bits, seed)
    assert _library.SHARED[name] >= len(args)
    want = getattr(theirs, name)(*args, size=size, **options)
    trace.reset()
    got = getattr(ours, name)(*args, size=size, **options)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert (numpy.asarray(got) == want).all(), (name, bits, seed)
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state), (name, bits, seed)
    assert ours.random() == theirs.random()
    return trace.counters["library_bytes"] == want.nbytes


def test_every_method_is_tried() -> None:
    assert CALLS.keys() == _library.SHARED.keys()


@pytest.mark.parametrize("bits", ["PCG64", "Philox"])
@pytest.mark.parametrize("name", CALLS)
def test_threads_draw_what_one_reader_draws(name: str, bits: str) -> None:
    for seed in range(3):
        assert same(name, bits, seed, (7, 12_000 + seed), *CALLS[name])


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("random", (), {"dtype": "f4"}), ("standard_normal", (), {"dtype": "f4"}),
        ("standard_exponential", (), {"method": "inv"}), ("standard_gamma", (2.0,), {"dtype": "f4"}),
        ("integers", (0, 3_000_000_000), {}), ("integers", (0, 1 << 62), {}), ("integers", (-5, 9), {"dtype": "i4"}),
        ("integers", (0, (1 << 33) - 1), {"endpoint": True}), ("integers", (0, 9), {"dtype": "u1"}),
        ("poisson", (300.0,), {}), ("normal", (), {"loc": 2.0, "scale": 0.0}), ("normal", (), {"scale": 3}),
        ("exponential", (), {"scale": 0.5}), ("uniform", (), {"low": 1, "high": 1}),
    ],
)  # fmt: skip
def test_options(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    for seed in range(2):
        same(name, "PCG64", seed, 90_001, *args, **options)


@pytest.mark.parametrize("count", [2, 3, 16])
def test_any_number_of_threads(count: int) -> None:
    with config(threads=count):
        for seed in range(4):
            assert same("standard_normal", "PCG64", seed, 200_000 + seed)


def test_half_a_word_that_is_left_is_read_first() -> None:
    theirs, ours = pair("PCG64", 4)
    assert theirs.integers(0, 9) == ours.integers(0, 9)  # half a word
    assert (theirs.integers(0, 99, 90_000) == numpy.asarray(ours.integers(0, 99, 90_000))).all()
    assert (theirs.normal(size=90_000) == numpy.asarray(ours.normal(size=90_000))).all()
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)


def test_readers_that_never_meet_leave_it_to_one() -> None:
    """A number of the Cauchy distribution is a quotient of two numbers of one chain, whose pairs never fit."""
    apart = 0
    for seed in range(12):
        source = numpy.random.PCG64(seed)
        before = str(source.state)
        asked = _drawing._Asked("standard_cauchy", (60_000,), (), {})
        made = _drawing._parted(_library_streams.Pcg64(source), asked, 60_000, 2)
        assert str(source.state) == before
        if made is None:
            apart += 1
        else:
            want = numpy.random.Generator(source).standard_cauchy(60_000)
            assert (made[0].array == want).all()
    assert apart


@pytest.mark.parametrize("bad", [("normal", (0, -1)), ("gamma", (-1, 1)), ("integers", (5, 5)), ("poisson", (-1,))])
def test_errors_are_numpys_and_change_nothing(bad: tuple[str, tuple[Any, ...]]) -> None:
    name, args = bad
    theirs, ours = pair("PCG64", 1)
    before = str(ours.bit_generator.state)
    with pytest.raises(ValueError) as want:
        getattr(theirs, name)(*args, size=90_000)
    with pytest.raises(ValueError, match=str(want.value).replace("(", ".").replace(")", ".")):
        getattr(ours, name)(*args, size=90_000)
    assert str(ours.bit_generator.state) == before


def test_what_numpy_must_look_at_is_left_to_it() -> None:
    ours = np.random.default_rng(1)
    out = np.zeros(90_000)
    ours.standard_normal(out=out)
    assert (numpy.asarray(out) == numpy.random.default_rng(1).standard_normal(90_000)).all()
    made = np.random.default_rng(1).normal(np.zeros(90_000), 1.0)
    assert (numpy.asarray(made) == numpy.random.default_rng(1).normal(numpy.zeros(90_000), 1.0)).all()
    theirs, mine = numpy.random.Generator(numpy.random.MT19937(3)), np.random.Generator(np.random.MT19937(3))
    assert (theirs.normal(size=90_000) == numpy.asarray(mine.normal(size=90_000))).all()


@pytest.mark.parametrize("bits", [numpy.random.PCG64, numpy.random.Philox])
@pytest.mark.parametrize("words", [0, 1, 2, 3, 5, 64, 1000, 123_457])
def test_words_between_two_states(bits: Any, words: int) -> None:
    source = bits(7)
    source.random_raw(2)
    stream = _library_streams.STREAMS[bits](source)
    before = source.state
    if words:
        source.random_raw(words)
    assert stream.between(before, source.state) == words


def test_few_threads_leave_cheap_numbers_to_numpy() -> None:
    with config(threads=2):
        assert _drawing.drawn("integers", np.random.default_rng(1), (0, 9, 90_000), {}) is NotImplemented
    assert threads.count() == 4


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ij,ij->i", True), ("ij,j->i", True), ("i,i->", True), ("ij->ji", True), ("ij,jk->ik", False),
        ("i,j->ij", False), ("ii->i", False), ("ij,ij", False), ("...i->i", False), ("ij, ij -> j", True),
    ],
)  # fmt: skip
def test_texts_that_cost_no_more_than_an_operand(text: str, answer: bool) -> None:
    assert _reach.bounded(text) is answer
