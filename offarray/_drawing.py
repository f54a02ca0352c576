"""Random numbers drawn by several threads at once, with NumPy's very bits.

in: `offarray.random.Generator`, for many numbers on the host; out: NumPy's own methods, each thread's on a generator
that starts at another place of the stream.

A distribution takes as many words of the stream for a number as its rejections ask for, so nobody knows where the
numbers of another thread begin.  But two readers of one stream that once begin a number at the same word read the same
from there on, and they soon do.  So each thread reads its share of the words from its first word on; afterwards the
reader before it goes on until both have begun at one word, and what the thread read before that is dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy

from . import _routine
from ._library import SHARED
from ._library_streams import STREAMS
from .runtime import threads

Array = numpy.ndarray[Any, Any]

IN_PLACE = frozenset("random standard_normal standard_exponential standard_gamma".split())  # that take `out`
EVEN = frozenset(("random", "uniform"))  # that read one word for each double
WORTH = 1 << 17, 1 << 18  # numbers that are worth a thread: of one word each, and of as many as they take
CHEAP, MANY = frozenset(("integers",)), 4  # what NumPy draws as fast as a few threads
BLOCK = 1 << 16  # numbers that a method makes at a time: they stay in the processor's cache
FIRST, PIECES = 1 << 13, 8  # numbers that tell how many words one takes, and in how many parts
STRIDE = 60  # words that every share is a multiple of: readers of 2, 3, 4, 5 or 6 words a number meet at once
PATIENCE = 1000  # numbers after which two readers are taken never to meet


class _Apart(Exception):
    """Two readers do not meet."""


class _Asked(NamedTuple):
    """A call of a method for many numbers."""

    name: str
    shape: tuple[int, ...]
    args: tuple[Any, ...]  # in front of `size`
    kwargs: dict[str, Any]

    def draw(self, generator: Any, out: Array) -> None:
        """Draw as many numbers as `out` has elements."""
        method = getattr(generator, self.name)
        if self.name in IN_PLACE:
            method(*self.args, out=out, **self.kwargs)
            return
        if self.name in SCALED and _scales(self.name):
            for start in range(0, out.size, BLOCK):
                SCALED[self.name](generator, out[start : start + BLOCK], *self.args, **self.kwargs)
            return
        for start in range(0, out.size, BLOCK):
            part = out[start : start + BLOCK]
            part[:] = method(*self.args, size=part.size, **self.kwargs)


def _normal(generator: Any, out: Array, loc: Any = 0.0, scale: Any = 1.0) -> None:
    generator.standard_normal(out=out)
    out *= scale
    out += loc


def _exponential(generator: Any, out: Array, scale: Any = 1.0) -> None:
    generator.standard_exponential(out=out)
    out *= scale


SCALED: dict[str, Callable[..., None]] = {"normal": _normal, "exponential": _exponential}


@cache
def _scales(name: str) -> bool:
    """Whether a method gives the bits of its standard form and arithmetic afterwards, as NumPy was compiled."""
    args = (0.1, 3.7)[: SHARED[name]]
    made = numpy.empty(1000)
    SCALED[name](numpy.random.default_rng(0), made, *args)
    return bool((getattr(numpy.random.default_rng(0), name)(*args, size=1000) == made).all())


def _asked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Asked | None:
    """The call; None for one that NumPy should look at."""
    place = SHARED.get(name)
    if place is None or kwargs.get("out") is not None or len(args) > place + 1:
        return None
    size = args[place] if len(args) > place else kwargs.get("size")
    shape = (size,) if type(size) is int else size
    kind = kwargs.get("dtype", args[place + 1] if len(args) > place + 1 else "f8")
    if name == "integers" and numpy.dtype(kind).itemsize < 4:
        return None  # several numbers come from one word, and the rest of it is dropped with each call
    if type(shape) is not tuple or not all(type(e) is int and e >= 0 for e in shape):
        return None
    named = {key: value for key, value in kwargs.items() if key not in ("size", "out")}
    if not all(isinstance(v, _SINGLE) for v in (*args[:place], *named.values())):
        return None
    return _Asked(name, shape, args[:place], named)


_SINGLE = (int, float, bool, type(None), type, str, numpy.dtype, numpy.number)


class Reader:
    """A generator of NumPy's own that starts at a word of a stream, and knows where it is."""

    def __init__(self, stream: Any, word: int, asked: _Asked) -> None:
        self._bits = stream.real(0)
        self._bits.state = {**stream.told, **stream.advance(word)[0]} if word else stream.told
        self._stream, self._asked = stream, asked
        self._generator = numpy.random.Generator(self._bits)
        self._seen, self._words = self._bits.state, word

    def read(self, out: Array) -> None:
        """The next numbers, as many as `out` has elements."""
        self._asked.draw(self._generator, out)

    def made(self, count: int) -> Array:
        """The next numbers, in an array of the data type that NumPy gives."""
        asked = self._asked
        return getattr(self._generator, asked.name)(*asked.args, size=count, **asked.kwargs)  # type: ignore[no-any-return]

    def place(self) -> int:
        """Where the next number begins, counted in halves of words from the stream's first."""
        state = self._bits.state
        self._words += self._stream.between(self._seen, state)
        self._seen = state
        return 2 * self._words - int(state["has_uint32"])

    @property
    def state(self) -> dict[str, Any]:
        """The generator's."""
        return self._bits.state  # type: ignore[no-any-return]


class Pace(NamedTuple):
    """How many halves of words a number takes, by what part that may be wrong, and how much single numbers differ."""

    rate: float
    doubt: float
    spread: float


class Share:
    """The numbers that begin before the place `end`, as far as there is room for them."""

    def __init__(self, reader: Reader, end: int, out: Array) -> None:
        self.reader, self.end, self.out = reader, end, out
        self.count = 0

    def fill(self, pace: Pace) -> None:
        """Read them."""
        while self.count < self.out.size:
            left = (self.end - self.reader.place()) / pace.rate
            if left <= 0:
                return
            surely = left * (1 - pace.doubt) - 4 * pace.spread * math.sqrt(left)
            many = min(max(int(surely), 1), self.out.size - self.count)
            self.reader.read(self.out[self.count : self.count + many])
            self.count += many


def drawn(name: str, generator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a method of a generator draws, by several threads; NotImplemented where NumPy should draw by itself."""
    asked = _asked(name, args, kwargs)
    count = 0 if asked is None else math.prod(asked.shape)
    most = threads.count()
    if asked is not None:
        most = 1 if name in CHEAP and most < MANY else min(most, count // WORTH[not _even(asked)])
    source = generator.bit_generator
    found = next((own for real, own in STREAMS.items() if isinstance(source, real)), None)
    if asked is None or found is None or most < 2:
        return NotImplemented
    with source.lock:
        stream = found(source)
        if stream.half is not None:  # half a word is left of a draw before
            return NotImplemented
        made = _evenly(stream, asked, count, most) if _even(asked) else _parted(stream, asked, count, most)
        if made is None:
            return NotImplemented
        room, source.state = made
    return room.handle()


def _even(asked: _Asked) -> bool:
    return asked.name in EVEN and numpy.dtype(asked.kwargs.get("dtype", "f8")) == numpy.float64


Made = tuple[_routine.Space, dict[str, Any]]


def _evenly(stream: Any, asked: _Asked, count: int, most: int) -> Made:
    """The numbers, each of one word, and the state behind them."""
    asked.draw(numpy.random.Generator(stream.real(0)), numpy.empty(1))  # with NumPy's errors
    room = _routine.space(asked.shape, "f8")
    flat = room.array.reshape(-1)

    def body(row: int, first: int, last: int) -> None:
        Reader(stream, first, asked).read(flat[first:last])

    ranges = threads.parts(count, most)
    threads.run(body, [0] * len(ranges), ranges)
    return room, {**stream.told, **stream.advance(count)[0]}


def _parted(stream: Any, asked: _Asked, count: int, most: int) -> Made | None:
    """The numbers, and the state behind them; None where readers do not meet."""
    reader = Reader(stream, 0, asked)
    sample, pace = _sampled(reader)
    rate, doubt = pace.rate, pace.doubt
    if not rate:
        return None
    room = _routine.space(asked.shape, sample.dtype)
    flat = room.array.reshape(-1)
    flat[:FIRST] = sample
    step = int(rate / 2 * count * (1 - doubt)) // most // STRIDE * STRIDE
    wide = int(2 * step / rate * (1 + doubt)) + 64
    rooms = [_routine.space(wide, sample.dtype) for _ in range(1, most)]
    shares = [Share(reader, 2 * step, flat[FIRST : FIRST + wide])]
    shares += [Share(Reader(stream, step * k, asked), 2 * step * (k + 1), r.array) for k, r in enumerate(rooms, 1)]
    _together(lambda k: shares[k].fill(pace), most)
    try:
        parts = _joined(stream, asked, shares)
    except _Apart:
        return None
    starts = [FIRST, *(FIRST + sum(map(len, parts[:k])) for k in range(1, len(parts) + 1))]
    if starts[-1] > count:
        return None

    def place(k: int) -> None:
        flat[starts[k] : starts[k + 1]] = parts[k]

    _together(place, len(parts), 1)  # the first lies where it belongs
    last = shares[-1].reader
    last.read(flat[starts[-1] :])
    return room, last.state


def _sampled(reader: Reader) -> tuple[Array, Pace]:
    """The first numbers, and their pace."""
    pieces, places = [], [reader.place()]
    for _ in range(PIECES):
        pieces.append(reader.made(FIRST // PIECES))
        places.append(reader.place())
    taken = numpy.diff(places) / (FIRST // PIECES)
    rate, spread = float(taken.mean()), float(taken.std()) * math.sqrt(FIRST // PIECES)
    spread /= max(rate, 0.1)
    return numpy.concatenate(pieces), Pace(rate, 6 * spread / math.sqrt(FIRST), spread)


def _together(work: Callable[[int], None], count: int, first: int = 0) -> None:
    """`work` for each number below `count`, at the same time."""

    def body(row: int, low: int, high: int) -> None:
        for k in range(low, high):
            work(k)

    ranges = [(first + low, first + high) for low, high in threads.parts(count - first, threads.count())]
    threads.run(body, [0] * len(ranges), ranges)


def _joined(stream: Any, asked: _Asked, shares: list[Share]) -> list[Array]:
    """The numbers of the shares, one after the other as one reader would have read them.

    Raises
    ------
    _Apart
        Where two readers do not meet.
    """
    parts = [shares[0].out[: shares[0].count]]
    for before, share in itertools.pairwise(shares):
        begin = before.end // 2
        again = Reader(stream, begin, asked)
        one = numpy.empty(1, share.out.dtype)
        more: list[Array] = []
        dropped = 0
        while (here := before.reader.place()) != (there := again.place()):
            if len(more) + dropped > PATIENCE:
                raise _Apart
            if here < there:
                before.reader.read(one)
                more.append(one.copy())
            else:
                again.read(one)
                dropped += 1
        if dropped > share.count:
            raise _Apart
        parts += [*more, share.out[dropped : share.count]]
    return parts


__all__ = ["drawn"]
