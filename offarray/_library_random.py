"""Random numbers made on a device, with NumPy's very bits.

in: `offarray.random.Generator`; out: one kernel for each draw from the streams of `_library_streams`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy

from . import _lazy, _record
from ._array import ndarray
from ._library_device import as_type, evaluated, np, op, seen
from ._library_streams import BOOL, STREAMS, U8, WORD, high_word
from .fusion.node import READ, Node
from .fusion.view import View, contiguous
from .runtime import placement
from .runtime.config import settings

DType = numpy.dtype[Any]
F8, F4 = numpy.dtype("f8"), numpy.dtype("f4")


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


def _unit(stream: Any, count: int, dtype: DType) -> Node:
    """Numbers in [0, 1) as NumPy makes them, and the state after them."""
    if dtype == F8:
        whole = as_type(op("right_shift", stream.words(count), 11), F8)
        stream.took_words(count)
        return op("multiply", whole, 1.0 / 9007199254740992.0)
    whole = as_type(op("right_shift", stream.halves(count), 8), F4)
    stream.took_halves(count)
    return op("multiply", whole, 1.0 / 16777216.0)


def draw_random(stream: Any, asked: Any, size: Any = None, dtype: Any = numpy.float64, out: Any = None) -> Any:
    """`Generator.random`."""
    kind = numpy.dtype(dtype)
    if out is not None or kind not in (F8, F4):
        return NotImplemented
    count, shape = asked(size, kind.itemsize)
    return _delivered(_unit(stream, count, kind), shape) if count else NotImplemented


def draw_uniform(stream: Any, asked: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
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
    stream: Any, asked: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = numpy.int64,
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


def _bounded(stream: Any, count: int, reach: int, kind: DType) -> Node:
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
        value, rest = high_word(word, _record.constant(limit, U8)), op("multiply", word, limit)
    else:
        product = op("multiply", word, limit)
        value, rest = op("right_shift", product, 32), op("bitwise_and", product, every)
    if not threshold:
        took(count)
        return value
    kept = op("greater_equal", rest, threshold, dtype=BOOL)
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
    stream: Any, asked: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: Any = 0,
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


class _Late:
    """A stream whose state is read when it is first needed."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        stream = self._make()
        self.__dict__.update(words=stream.words, halves=stream.halves)
        self.__dict__.update(took_words=stream.took_words, took_halves=stream.took_halves)
        return getattr(stream, name)


class _Small(Exception):
    pass


def _asked(size: Any, itemsize: int) -> tuple[int, tuple[int, ...]]:
    """Number and shape of what a call wants; raises where it is small work, or another place's."""
    found = None if size is None else _count(size)
    if found is None or found[0] <= settings.eager_size:
        raise _Small
    if placement.where() == "auto" and not placement.on_device((), found[0] * itemsize):
        raise _Small
    return found


def by_host() -> bool:
    """Whether no device makes the numbers."""
    where = placement.where()
    return not where.startswith("cuda") and (where != "auto" or placement.absent())


def _form(name: str, source: Any) -> tuple[Any, Any]:
    """The form of a method, and what it is given before the method's own arguments."""
    if name in FORMS:
        stream: Any = next((own for real, own in STREAMS.items() if isinstance(source, real)), None)
        return (FORMS[name] if stream else None), lambda: (_Late(lambda: stream(source)), _asked)
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
