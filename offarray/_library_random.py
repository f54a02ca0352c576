"""Random numbers made on a device, with NumPy's very bits: each element jumps ahead to its own place in the stream.

in: `offarray.random.Generator`; out: one kernel that reads nothing but two small tables, and the generator's state as
if NumPy had drawn.  PCG64 is a linear recurrence modulo 2^128: k steps are one multiplication and one addition, whose
factors are looked up for the low and the high part of k.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy

from . import _lazy, _record
from ._array import ndarray
from ._library_device import as_type, evaluated, np, op, seen
from .fusion.node import IOTA, MAP, READ, Node
from .fusion.view import View, contiguous
from .runtime import placement
from .runtime.config import settings

DType = numpy.dtype[Any]
U8, U4, I8, F8, F4, BOOL = (numpy.dtype(t) for t in ("u8", "u4", "i8", "f8", "f4", "?"))
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64
WORD, WIDE = (1 << 64) - 1, (1 << 128) - 1
LOW = 12  # bits of the place that the first table resolves


# ---------------------------------------------------------------------- expressions
def _places(count: int) -> Node:
    return as_type(Node(IOTA, "iota", I8, (count,), (), 0), U8)


def _look(table: ndarray, index: Node) -> Node:
    """Elements of a small table."""
    return _record.gather_node(table, (as_type(index, I8),), index.shape, 1, (0,), None)


def _high(x: Node, y: Node) -> Node:
    """The upper word of the product of two words."""
    mask = 0xFFFFFFFF
    (a, b), (c, d) = [(op("right_shift", v, 32), op("bitwise_and", v, mask)) for v in (x, y)]
    first = op("multiply", b, d)
    middle = op("add", op("multiply", a, d), op("right_shift", first, 32))
    other = op("add", op("multiply", b, c), op("bitwise_and", middle, mask))
    top = op("add", op("multiply", a, c), op("right_shift", middle, 32))
    return op("add", top, op("right_shift", other, 32))


def _rotated(x: Node, by: Node) -> Node:
    back = op("bitwise_and", op("subtract", _record.constant(64, U8), by), 63)
    return op("bitwise_or", op("right_shift", x, by), op("left_shift", x, back))


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
def _steps(increment: int) -> tuple[tuple[ndarray, ndarray], tuple[ndarray, ndarray]]:
    """Factors and summands of 1 to 2^LOW steps."""
    factors, summands = [], []
    factor, summand = 1, 0
    for _ in range(1 << LOW):
        factor, summand = factor * MULTIPLIER & WIDE, (summand * MULTIPLIER + increment) & WIDE
        factors.append(factor)
        summands.append(summand)
    return _table(factors), _table(summands)


def _starts(state: int, increment: int, count: int) -> tuple[ndarray, ndarray]:
    """The state at every 2^LOW-th place."""
    factor, summand = jump(1 << LOW, increment)
    found = []
    for _ in range(-(-count >> LOW)):
        found.append(state)
        state = (state * factor + summand) & WIDE
    return _table(found)


def words_of(state: int, increment: int, count: int) -> Node:
    """The next 64-bit numbers of PCG64."""
    places = _places(count)
    low, high = op("bitwise_and", places, (1 << LOW) - 1), op("right_shift", places, LOW)
    factors, summands = _steps(increment)
    a, b, s = (
        [_look(t, index) for t in pair]
        for pair, index in ((factors, low), (summands, low), (_starts(state, increment, count), high))
    )
    bottom = op("multiply", a[1], s[1])
    top = op("add", _high(a[1], s[1]), op("add", op("multiply", a[0], s[1]), op("multiply", a[1], s[0])))
    lower = op("add", bottom, b[1])
    carry = as_type(Node(MAP, "less", BOOL, lower.shape, (lower, bottom)), U8)
    upper = op("add", op("add", top, b[0]), carry)
    return _rotated(op("bitwise_xor", upper, lower), op("right_shift", upper, 58))


class Stream:
    """The state of a PCG64 generator, read and set under its lock."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.told = source.state
        self.state, self.increment = self.told["state"]["state"], self.told["state"]["inc"]
        self.half = self.told["uinteger"] if self.told["has_uint32"] else None

    def words(self, count: int) -> Node:
        """The next numbers of 64 bits."""
        return words_of(self.state, self.increment, count)

    def halves(self, count: int) -> Node:
        """The next numbers of 32 bits (as 64): lower half first, and what is left of the last draw before that."""
        kept = 0 if self.half is None else 1
        places = _places(count)
        own = op("subtract", op("maximum", places, 1), 1) if kept else places  # counted without what is left
        word = _at(self.words(max(-(-(count - kept) // 2), 1)), op("right_shift", own, 1))
        turn = op("multiply", op("bitwise_and", own, 1), 32)
        value = op("bitwise_and", op("right_shift", word, turn), 0xFFFFFFFF)
        if not kept:
            return value
        first = Node(MAP, "equal", BOOL, places.shape, (places, _record.constant(0, U8)))
        return Node(MAP, "select", U8, places.shape, (first, _record.constant(self.half, U8), value))

    def took_words(self, count: int) -> None:
        """Leave the generator as after so many numbers of 64 bits."""
        self._set(count, self.told["has_uint32"], self.told["uinteger"])

    def took_halves(self, count: int) -> None:
        """Leave the generator as after so many numbers of 32 bits."""
        if self.half is not None and count:
            count -= 1
            if not count:
                self._set(0, 0, self.told["uinteger"])
                return
        whole = -(-count // 2)
        self._set(whole, count & 1, None)

    def _set(self, words: int, left: int, upper: int | None) -> None:
        factor, summand = jump(words, self.increment)
        state = (self.state * factor + summand) & WIDE
        if upper is None:
            upper = output(state) >> 32
        self.source.state = {
            **self.told, "state": {"state": state, "inc": self.increment}, "has_uint32": left, "uinteger": upper,
        }  # fmt: skip


def output(state: int) -> int:
    """The 64-bit number that PCG64 gives at a state."""
    word, turn = (state >> 64) ^ (state & WORD), state >> 122
    return (word >> turn | word << (64 - turn)) & WORD


def _at(node: Node, source: Node) -> Node:
    """A pure expression of places, at other places: its iota replaced."""
    known: dict[int, Node] = {}

    def visit(n: Node) -> Node:
        found = known.get(id(n))
        if found is None:
            if n.kind == IOTA:
                found = as_type(source, I8)
            elif n.kind == MAP:
                found = Node(MAP, n.op, n.dtype, source.shape if n.shape else (), tuple(map(visit, n.src)))
            elif n.shape and n.kind != READ and len(n.src) > 1:  # a look into a table
                found = Node(n.kind, n.op, n.dtype, source.shape, (n.src[0], *map(visit, n.src[1:])), n.arg)
            else:
                found = n
            known[id(n)] = found
        return found

    return visit(node)


# ---------------------------------------------------------------------- draws
def _count(size: Any) -> tuple[int, tuple[int, ...]] | None:
    """Number and shape of the elements that are asked for."""
    try:
        shape = (operator.index(size),) if hasattr(type(size), "__index__") else tuple(map(operator.index, size))
    except TypeError:
        return None
    if any(e < 0 for e in shape):
        return None
    return math.prod(shape), shape


def _delivered(node: Node, shape: tuple[int, ...]) -> ndarray:
    """A pending array of random numbers in C order."""
    if shape != node.shape:
        node = Node(READ, "", node.dtype, shape, (node,), View(0, shape, contiguous(shape, node.dtype.itemsize)))
    node.site = _record.here()
    return _lazy.pending(node, shape, tuple(range(len(shape))))


def _unit(stream: Stream, count: int, dtype: DType) -> Node:
    """Numbers in [0, 1) as NumPy makes them, and the state after them."""
    if dtype == F8:
        whole = as_type(op("right_shift", stream.words(count), 11), F8)
        stream.took_words(count)
        return op("multiply", whole, 1.0 / 9007199254740992.0)
    whole = as_type(op("right_shift", stream.halves(count), 8), F4)
    stream.took_halves(count)
    return op("multiply", whole, 1.0 / 16777216.0)


def draw_random(stream: Stream, asked: Any, size: Any = None, dtype: Any = numpy.float64, out: Any = None) -> Any:
    """`Generator.random`."""
    kind = numpy.dtype(dtype)
    if out is not None or kind not in (F8, F4):
        return NotImplemented
    count, shape = asked(size, kind.itemsize)
    return _delivered(_unit(stream, count, kind), shape) if count else NotImplemented


def draw_uniform(stream: Stream, asked: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """`Generator.uniform` with numbers as limits."""
    if not all(type(v) in (int, float) or isinstance(v, numpy.floating | numpy.integer) for v in (low, high)):
        return NotImplemented
    low, width = float(low), float(high) - float(low)
    if not math.isfinite(width) or width < 0:
        return NotImplemented  # which NumPy raises
    count, shape = asked(size, 8)
    if not count:
        return NotImplemented
    return _delivered(op("add", op("multiply", _unit(stream, count, F8), width), low), shape)


def draw_integers(
    stream: Stream, asked: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = numpy.int64,
    endpoint: Any = False,
) -> Any:  # fmt: skip
    """`Generator.integers` with numbers as limits, in 32 or 64 bits."""
    kind = numpy.dtype(dtype)
    if high is None:
        low, high = 0, low
    if kind.char not in "iIlLqQ" or not all(hasattr(type(v), "__index__") and numpy.ndim(v) == 0 for v in (low, high)):
        return NotImplemented
    low, last = operator.index(low), operator.index(high) - (not endpoint)
    info = numpy.iinfo(kind)
    if not info.min <= low <= last <= info.max:
        return NotImplemented  # which NumPy raises
    count, shape = asked(size, kind.itemsize)
    if not count or low == last:
        return NotImplemented
    made = _bounded(stream, count, last - low, kind)
    shifted = op("add", made, low & WORD if made.dtype == U8 else low & 0xFFFFFFFF)
    return _delivered(as_type(shifted, kind), shape)


def _bounded(stream: Stream, count: int, reach: int, kind: DType) -> Node:
    """Numbers from 0 to `reach` by Lemire's multiplication: draws that it rejects are left out."""
    wide = reach > 0xFFFFFFFF
    every = WORD if wide else 0xFFFFFFFF
    draw, took = (stream.words, stream.took_words) if wide else (stream.halves, stream.took_halves)
    if reach == every:
        took_node = draw(count)
        took(count)
        return took_node
    limit = reach + 1
    threshold = (every - reach) % limit
    rate = threshold / (every + 1)
    more = count if not threshold else count + int(count * rate / (1 - rate) + 8 * math.sqrt(count * rate + 1) + 16)
    word = draw(more)
    if wide:
        value, rest = _high(word, _record.constant(limit, U8)), op("multiply", word, limit)
    else:
        product = op("multiply", word, limit)
        value, rest = op("right_shift", product, 32), op("bitwise_and", product, every)
    if not threshold:
        took(count)
        return value
    kept = Node(MAP, "greater_equal", BOOL, rest.shape, (rest, _record.constant(threshold, U8)))
    return _selected(kept, value, count, took)


def _selected(kept: Node, value: Node, count: int, took: Callable[[int], None]) -> Node:
    """The first `count` values that are kept; the generator is left behind the last of them."""
    from ._library_select import chosen
    from ._library_sort import gather

    mask = _lazy.pending(kept, kept.shape, (0,))
    everything = _lazy.pending(value, value.shape, (0,))
    evaluated(mask, everything)
    places: Any = chosen(mask)
    if places._shape[0] < count:
        raise RuntimeError("too few random numbers were drawn")  # eight standard deviations and more
    took(int(places[count - 1]) + 1)
    made = gather(everything, seen(places, lambda g: g[:count]))
    return _record.current(made)


def draw_choice(
    stream: Stream, asked: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: Any = 0,
    shuffle: Any = True,
) -> Any:  # fmt: skip
    """`Generator.choice` with replacement and without weights."""
    if replace is not True or p is not None:
        return NotImplemented
    if hasattr(type(a), "__index__") and numpy.ndim(a) == 0:
        many = operator.index(a)
        return draw_integers(stream, asked, many, size=size) if many > 1 else NotImplemented
    if type(a) is not ndarray or len(a._shape) != 1 or axis != 0 or a._shape[0] < 2:
        return NotImplemented
    picks = draw_integers(stream, asked, a._shape[0], size=size)
    return picks if picks is NotImplemented else np.take(a, picks)


FORMS: dict[str, Callable[..., Any]] = {
    "random": draw_random, "uniform": draw_uniform, "integers": draw_integers, "choice": draw_choice,
}  # fmt: skip


class _Small(Exception):
    pass


def _asked(size: Any, itemsize: int) -> tuple[int, tuple[int, ...]]:
    """Number and shape of what a call wants; raises where it is small work, or another place's."""
    found = None if size is None else _count(size)
    if found is None or found[0] <= settings.eager_size:
        raise _Small
    where = placement.where()
    if where != "auto" or placement.absent():
        if not where.startswith("cuda"):
            raise _Small
    elif not placement.on_device((), found[0] * itemsize):
        raise _Small
    return found


def _form(name: str, source: Any) -> tuple[Any, Any]:
    """The form of a method, and what it is given before the method's own arguments."""
    if name in FORMS:
        usual = type(source) is numpy.random.PCG64
        return (FORMS[name] if usual else None), lambda: (Stream(source), _asked)
    if settings.random != "fast":
        return None, None
    from . import _library_philox as philox

    def numbers(size: Any) -> Any:
        count, shape = _asked(size, 8)
        return philox.Numbers(int(source.random_raw()), count, shape) if count else NotImplemented

    return philox.FORMS.get(name), lambda: (numbers,)


def draw(name: str, generator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a method of a generator draws on a device, or NotImplemented."""
    source = generator.bit_generator
    form, given = _form(name, source)
    if form is None:
        return NotImplemented
    with source.lock:
        try:
            return form(*given(), *args, **kwargs)
        except _Small:
            return NotImplemented
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            return NotImplemented
