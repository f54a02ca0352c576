"""Streams of random bits on a device: each element jumps ahead to its own place, and gets NumPy's very bits.

in: `_library_random`; out: expressions that read nothing but small tables, and the generator's state as if NumPy had
drawn.  PCG64 is a linear recurrence modulo 2^128: k steps are one multiplication and one addition, whose factors are
looked up for parts of k.  Philox turns a counter into four words, each place's own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from . import _lazy, _record
from ._array import ndarray
from ._library_device import as_type, choice, op
from .fusion.node import IOTA, Node

U8, I8, BOOL = (numpy.dtype(t) for t in ("u8", "i8", "?"))
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64
WORD, WIDE = (1 << 64) - 1, (1 << 128) - 1
LOW = 10  # bits of the place that each of two tables resolves
FACTORS, STEPS = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # of Philox
ROUNDS = 10


def places_of(count: int) -> Node:
    """0, 1, 2 ... as unsigned words."""
    return as_type(Node(IOTA, "iota", I8, (count,), (), 0), U8)


def _look(table: ndarray, index: Node) -> Node:
    """Elements of a small table."""
    return _record.gather_node(table, (as_type(index, I8),), index.shape, 1, (0,), None)


def high_word(x: Node, y: Node) -> Node:
    """The upper word of the product of two words."""
    mask = 0xFFFFFFFF
    (a, b), (c, d) = [(op("right_shift", v, 32), op("bitwise_and", v, mask)) for v in (x, y)]
    first = op("multiply", b, d)
    middle = op("add", op("multiply", a, d), op("right_shift", first, 32))
    other = op("add", op("multiply", b, c), op("bitwise_and", middle, mask))
    top = op("add", op("multiply", a, c), op("right_shift", middle, 32))
    return op("add", top, op("right_shift", other, 32))


class Stream:
    """The state of a generator, read and set under its lock."""

    real: Any  # NumPy's class of such generators

    def __init__(self, source: Any) -> None:
        self.source = source
        self.told = source.state
        self.half = self.told["uinteger"] if self.told["has_uint32"] else None

    def at(self, places: Node, count: int) -> Node:
        """The 64-bit numbers at places below `count`."""
        raise NotImplementedError

    def advance(self, words: int) -> tuple[dict[str, Any], int]:
        """The state after so many words, and the last of them (0 for none)."""
        raise NotImplementedError

    def between(self, before: dict[str, Any], after: dict[str, Any]) -> int:
        """How many words were drawn from one state to a later one."""
        raise NotImplementedError

    def words(self, count: int) -> Node:
        """The next numbers of 64 bits."""
        return self.at(places_of(count), count)

    def halves(self, count: int) -> Node:
        """The next numbers of 32 bits (as 64): lower half first, and what is left of the last draw before that."""
        kept = 0 if self.half is None else 1
        places = places_of(count)
        own = op("subtract", op("maximum", places, 1), 1) if kept else places  # counted without what is left
        word = self.at(op("right_shift", own, 1), max(-(-(count - kept) // 2), 1))
        turn = op("multiply", op("bitwise_and", own, 1), 32)
        value = op("bitwise_and", op("right_shift", word, turn), 0xFFFFFFFF)
        if not kept:
            return value
        return choice(op("equal", places, 0, dtype=BOOL), _record.constant(self.half, U8), value)

    def took_words(self, count: int) -> None:
        """Leave the generator as after so many numbers of 64 bits."""
        self.source.state = {**self.told, **self.advance(count)[0]}

    def took_halves(self, count: int) -> None:
        """Leave the generator as after so many numbers of 32 bits."""
        if self.half is not None and count:
            count -= 1
            if not count:
                self.source.state = {**self.told, "has_uint32": 0}
                return
        state, last = self.advance(-(-count // 2))
        self.source.state = {**self.told, **state, "has_uint32": count & 1, "uinteger": last >> 32}


# ---------------------------------------------------------------------- PCG64
def jump(steps: int, increment: int) -> tuple[int, int]:
    """Factor and summand of so many steps of PCG64."""
    factor, summand = 1, 0
    one, more = MULTIPLIER, increment
    while steps:
        if steps & 1:
            factor, summand = factor * one & WIDE, (summand * one + more) & WIDE
        one, more = one * one & WIDE, (one + 1) * more & WIDE
        steps >>= 1
    return factor, summand


def _table(words: list[int]) -> tuple[ndarray, ndarray]:
    """Numbers of 128 bits as upper and lower words."""
    upper = numpy.array([w >> 64 for w in words], U8)
    return _lazy.fresh(upper), _lazy.fresh(numpy.array([w & WORD for w in words], U8))


@lru_cache(8)
def _steps(increment: int) -> tuple[tuple[tuple[ndarray, ndarray], tuple[ndarray, ndarray]], ...]:
    """Factors and summands of 1 to 2^LOW steps, and of 0, 1 ... times 2^LOW steps."""
    found = []
    for one, more, factor, summand in (
        (MULTIPLIER, increment, MULTIPLIER, increment),
        (*jump(1 << LOW, increment), 1, 0),
    ):
        factors, summands = [], []
        for _ in range(1 << LOW):
            factors.append(factor)
            summands.append(summand)
            factor, summand = factor * one & WIDE, (summand * one + more) & WIDE
        found.append((_table(factors), _table(summands)))
    return tuple(found)


def _stepped(factor: list[Node], summand: list[Node], state: list[Node]) -> list[Node]:
    """factor * state + summand modulo 2^128, all as upper and lower words."""
    bottom = op("multiply", factor[1], state[1])
    crossed = op("add", op("multiply", factor[0], state[1]), op("multiply", factor[1], state[0]))
    lower = op("add", bottom, summand[1])
    carry = as_type(op("less", lower, bottom, dtype=BOOL), U8)
    upper = op("add", op("add", op("add", high_word(factor[1], state[1]), crossed), summand[0]), carry)
    return [upper, lower]


class Pcg64(Stream):
    """PCG64, whose output is XSL RR."""

    real = numpy.random.PCG64

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.state, self.increment = self.told["state"]["state"], self.told["state"]["inc"]

    def _starts(self, count: int, index: Node) -> list[Node]:
        """The state at every 2^(2 LOW)-th place."""
        if count <= 1 << 2 * LOW:
            return [_record.constant(v, U8) for v in (self.state >> 64, self.state & WORD)]
        factor, summand = jump(1 << 2 * LOW, self.increment)
        found, state = [], self.state
        for _ in range(-(-count >> 2 * LOW)):
            found.append(state)
            state = (state * factor + summand) & WIDE
        return [_look(t, index) for t in _table(found)]

    def at(self, places: Node, count: int) -> Node:
        """The 64-bit numbers at places below `count`."""
        mask = (1 << LOW) - 1
        low, middle = op("bitwise_and", places, mask), op("bitwise_and", op("right_shift", places, LOW), mask)
        state = self._starts(count, op("right_shift", places, 2 * LOW))
        tables = _steps(self.increment)
        for (factors, summands), index in ((tables[1], middle), (tables[0], low)):
            state = _stepped([_look(t, index) for t in factors], [_look(t, index) for t in summands], state)
        upper, lower = state
        word, turn = op("bitwise_xor", upper, lower), op("right_shift", upper, 58)
        back = op("bitwise_and", op("subtract", _record.constant(64, U8), turn), 63)
        return op("bitwise_or", op("right_shift", word, turn), op("left_shift", word, back))

    def advance(self, words: int) -> tuple[dict[str, Any], int]:
        """The state after so many words, and the last of them."""
        factor, summand = jump(words, self.increment)
        state = (self.state * factor + summand) & WIDE
        word, turn = (state >> 64) ^ (state & WORD), state >> 122
        last = (word >> turn | word << (64 - turn)) & WORD
        return {"state": {"state": state, "inc": self.increment}}, last

    def between(self, before: dict[str, Any], after: dict[str, Any]) -> int:
        """How many words were drawn from one state to a later one, bit by bit: the lowest k recur after 2^k words."""
        state, wanted = before["state"]["state"], after["state"]["state"]
        factor, summand, bit, found = MULTIPLIER, self.increment, 1, 0
        while state != wanted:
            if (state ^ wanted) & bit:
                state, found = (state * factor + summand) & WIDE, found | bit
            factor, summand, bit = factor * factor & WIDE, (factor + 1) * summand & WIDE, bit << 1
        return found


# ---------------------------------------------------------------------- Philox
def block(counter: list[int], key: list[int]) -> list[int]:
    """The four words of Philox 4x64 for a counter."""
    c, keys = list(counter), list(key)
    for _ in range(ROUNDS):
        first, second = c[0] * FACTORS[0], c[2] * FACTORS[1]
        c = [(second >> 64) ^ c[1] ^ keys[0], second & WORD, (first >> 64) ^ c[3] ^ keys[1], first & WORD]
        keys = [(k + step) & WORD for k, step in zip(keys, STEPS, strict=True)]
    return c


class Philox4x64(Stream):
    """Philox, whose words come four at a time, the first ones from a buffer."""

    real = numpy.random.Philox

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.counter = [int(v) for v in self.told["state"]["counter"]]
        self.key = [int(v) for v in self.told["state"]["key"]]
        self.buffer, self.used = [int(v) for v in self.told["buffer"]], int(self.told["buffer_pos"])

    def fits(self, count: int) -> bool:
        """Whether the lowest word of the counter does not overflow."""
        return self.counter[0] + count // 4 + 2 <= WORD

    def at(self, places: Node, count: int) -> Node:
        """The 64-bit numbers at places below `count`."""
        left = 4 - self.used
        own = op("subtract", op("maximum", places, left), left) if left else places
        counter: list[Any] = [
            op("add", op("right_shift", own, 2), self.counter[0] + 1),
            *(op("add", op("multiply", own, 0), v) for v in self.counter[1:]),
        ]
        factors = [_record.constant(f, U8) for f in FACTORS]
        keys = self.key
        for _ in range(ROUNDS):
            lows = [op("multiply", c, f) for c, f in zip(counter[::2], factors, strict=True)]
            highs = [high_word(c, f) for c, f in zip(counter[::2], factors, strict=True)]
            counter = [
                op("bitwise_xor", op("bitwise_xor", highs[1], counter[1]), keys[0]), lows[1],
                op("bitwise_xor", op("bitwise_xor", highs[0], counter[3]), keys[1]), lows[0],
            ]  # fmt: skip
            keys = [(k + step) & WORD for k, step in zip(keys, STEPS, strict=True)]
        lane = op("bitwise_and", own, 3)
        word = counter[3]
        for n in (2, 1, 0):
            word = choice(op("equal", lane, n, dtype=BOOL), counter[n], word)
        for n in range(left):
            kept = _record.constant(self.buffer[self.used + n], U8)
            word = choice(op("equal", places, n, dtype=BOOL), kept, word)
        return word

    def advance(self, words: int) -> tuple[dict[str, Any], int]:
        """The state after so many words, and the last of them."""
        counter, buffer, used = list(self.counter), self.buffer, self.used + words
        if used > 4:
            blocks = -(-(used - 4) // 4)
            counter[0] += blocks
            buffer, used = block(counter, self.key), used - 4 * blocks
        state = {"counter": numpy.array(counter, U8), "key": numpy.array(self.key, U8)}
        return {"state": state, "buffer": numpy.array(buffer, U8), "buffer_pos": used}, buffer[used - 1]

    def between(self, before: dict[str, Any], after: dict[str, Any]) -> int:
        """How many words were drawn from one state to a later one."""
        first, last = (4 * int(s["state"]["counter"][0]) + int(s["buffer_pos"]) for s in (before, after))
        return last - first


STREAMS: dict[Any, Any] = {own.real: own for own in (Pcg64, Philox4x64)}
