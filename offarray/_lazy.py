"""Ufunc calls as nodes: what is large or pending is recorded, the rest is left to NumPy's own loop.

in: `_ufuncs.py` with a call that may be recorded; out: `_record.py`.  Every door returns NotImplemented for a call
that it does not record; the caller then runs it in NumPy, which also raises whatever is wrong with it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import numpy

from . import _direct, _record
from ._array import HOST, RealArray, fresh, host, make, ndarray
from ._memory import foreign, native
from ._promotion import WEAK, Loop, loop_of, scalar
from ._reach import SPAN
from ._record import constant
from ._scalar import KINDS, Scalar, lazy, settled
from ._voice import MUTE, OBJECT, again, speak
from .fusion.node import READY, Base, Node, leaf
from .fusion.order import spread
from .runtime.config import settings

__warningregistry__ = MUTE
LIBRARY: list[Any] = []  # the form of ufuncs of whole arrays on a device: `_library.gufunc`
PRODUCTS: dict[Any, Any] = {}  # forms of ufuncs of whole arrays that are recorded: `_products.py`
DType = numpy.dtype[Any]
Shape = tuple[int, ...]


def is_ready(x: ndarray) -> bool:
    """Whether the value of a handle is in memory."""
    return x._at is HOST or x._base.node.state == READY  # type: ignore[no-any-return]


def elements(x: ndarray) -> int:
    """Number of elements of a handle."""
    if x._at is HOST:
        return x._np.size  # type: ignore[no-any-return]
    n = 1
    for extent in x._shape:
        n *= extent
    return n


def small(operands: Any) -> bool:
    """Whether every handle is in memory and all together are small work, which runs at once."""
    total = 0
    shapes = set()
    for x in operands:
        if type(x) is ndarray:
            if not is_ready(x):
                return False
            total += elements(x)
            shapes.add(x._shape)
        elif type(x) is RealArray:
            total += x.size
            shapes.add(x.shape)
    limit = settings.eager_size
    if not any(shapes):
        return True  # scalars stay scalars
    if total > limit:
        return False
    return len(shapes) == 1 or broadcast_size(shapes) <= limit  # small operands may broadcast to a large result


def _backwards(values: Any) -> bool:
    """Whether one of the operands is reversed, and all are at hand and few enough for NumPy's single pass.

    No short way records such an operand; the operations that follow fuse as ever.
    """
    total, found, shape = 0, False, None
    for x in values:
        if type(x) is not ndarray:
            if type(x) not in WEAK:
                return False
        elif not is_ready(x) or not native(x._dtype) or (shape is not None and x._shape != shape):
            return False
        else:
            shape = x._shape
            total += elements(x)
            found = found or min(x._strides, default=0) < 0
            buffer = None if x._at is HOST else x._base.node.buffer
            if buffer is not None and buffer.device is not None:
                return False
    return found and total <= SPAN * settings.eager_size and not settings.device.startswith("cuda")


def at_once(real: numpy.ufunc, values: Any) -> ndarray:
    """`real(*values)` by NumPy, which tells the user of what is wrong."""
    args = [host(x) if type(x) is ndarray else x for x in values]
    try:
        return fresh(real(*args))  # type: ignore[no-any-return]
    except TypeError:
        return fresh(again(real, *args))  # type: ignore[no-any-return]


def broadcast_size(shapes: Iterable[Shape]) -> int:
    """Elements of what arrays of these shapes broadcast to; axes without elements count as one."""
    return math.prod(max(1, *extents) for extents in zip_longest(*(s[::-1] for s in shapes), fillvalue=1))


def worth(x: Any) -> bool:
    """Whether moving the elements of a handle is recorded: pending, on a device, or too large to be moved twice."""
    if type(x) is not ndarray or not native(x._dtype):
        return False
    if not is_ready(x):
        return True
    reach = settings.eager_size if settings.device.startswith("cuda") else SPAN * settings.eager_size
    if elements(x) > reach:
        return True
    buffer = None if x._at is HOST else x._base.node.buffer
    return buffer is not None and buffer.device is not None


def operand(value: Any) -> tuple[Any, Any] | None:
    """An operand as (handle or scalar, dtype or weak type), or None if it is no number or array of ours."""
    t = type(value)
    if t is ndarray:
        return value, value._dtype
    if t in KINDS:
        return value._handle, value._handle._dtype
    if t in WEAK:
        return value, t
    if isinstance(value, numpy.generic):
        return value, value.dtype
    if t is RealArray:
        return foreign(value), value.dtype
    if t in (list, tuple):
        try:
            made = numpy.asarray(value)
        except (ValueError, TypeError):
            return None
        return foreign(made), made.dtype
    return None


def shape_of(operands: list[Any]) -> Shape | None:
    """Shape that the operands broadcast to, or None where they do not."""
    shapes = [x._shape for x in operands if type(x) is ndarray]
    first = shapes[0] if shapes else ()
    if all(s == first for s in shapes):
        return first
    try:
        return numpy.broadcast_shapes(*shapes)
    except ValueError:
        return None


def resolve(
    real: numpy.ufunc, values: Any, dtype: DType | None = None, refuse: bool = False
) -> tuple[Loop, list[Any], Shape] | None:
    """Loop, operands (handles and constants) and shape of a call that can be recorded."""
    pairs = [operand(v) for v in values]
    if any(p is None for p in pairs):
        return None
    if not all(native(k) for _, k in pairs if isinstance(k, numpy.dtype)):  # type: ignore[misc]
        return None
    loop = loop_of(real, tuple(p[1] for p in pairs), dtype)  # type: ignore[index]
    if loop is None:
        return None
    operands: list[Any] = []
    for (value, kind), d in zip(pairs, loop.inputs, strict=True):  # type: ignore[misc]
        if type(value) is ndarray:
            operands.append(value)
        elif kind in WEAK:
            fitting = scalar(value, d)
            if fitting is None:
                return None
            operands.append(constant(fitting, d))
        else:
            operands.append(constant(value, kind))
    shape = shape_of(operands)
    if shape is None:
        if refuse:
            _refuse(real, values)
        return None
    return None if len(shape) > 32 else (loop, operands, shape)


def _refuse(real: numpy.ufunc, values: Any) -> None:
    """Have NumPy raise for shapes that do not broadcast, without evaluating anything."""
    real(*[numpy.broadcast_to(v._dtype.type(0), v._shape) if type(v) is ndarray else settled(v) for v in values])


_RECORDED = frozenset(("out", "where", "dtype", "casting", "subok"))  # options of the calls that are recorded


def call(real: numpy.ufunc, values: Any, kwargs: dict[str, Any] | None = None) -> Any:
    """Record `real(*values, **kwargs)`; NotImplemented where it is not recorded."""
    if real.signature is not None:
        made = LIBRARY[0](real, values, kwargs) if LIBRARY and settings.device != "cpu" else NotImplemented
        form = PRODUCTS.get(real) if made is NotImplemented and not kwargs else None
        return made if form is None else form(*values)
    out, where, dtype, casting = None, True, None, "same_kind"
    always = False  # an array also for operands without axes
    if kwargs:
        if not kwargs.keys() <= _RECORDED or type(kwargs.get("subok", True)) is not bool:
            return NotImplemented
        if kwargs.get("casting", "same_kind") not in ("same_kind", "unsafe"):
            return NotImplemented
        out, where, casting = kwargs.get("out"), kwargs.get("where", True), kwargs.get("casting", casting)
        if out is Ellipsis:
            out, always = None, True
        if where is numpy._NoValue:  # type: ignore[attr-defined]  # as NumPy's own code passes it on
            where = True
        if type(out) is tuple:
            if len(out) == 2 == real.nout and kwargs.keys() == {"out"}:
                return _two(real, values, out)
            if len(out) != 1:
                return NotImplemented
            out = out[0]
        if kwargs.get("dtype") is not None:
            try:
                dtype = numpy.dtype(kwargs["dtype"])
            except TypeError:
                return NotImplemented
    if out is not None and type(out) is not ndarray or out is None and casting != "same_kind":
        return NotImplemented
    if small((*values, out, where)):
        return NotImplemented
    if not kwargs and real.nout == 1 and _backwards(values):
        return at_once(real, values)
    found = resolve(real, values, dtype, refuse=out is None and where is True)
    if found is None:
        return NotImplemented
    loop, operands, shape = found
    if loop.ops[0] == "power" and loop.outputs[0].kind == "i" and 0 not in shape and _negative(operands[1]):
        if out is not None:
            return NotImplemented  # NumPy looks at the destination first, and stops in the middle
        raise ValueError("Integers to negative integer powers are not allowed.")
    mask = _mask(where)
    if mask is NotImplemented:
        return NotImplemented
    if out is not None:
        return NotImplemented if len(loop.ops) > 1 else into(loop, operands, shape, out, mask, casting)
    if mask is not None:
        return NotImplemented  # without `out` NumPy leaves memory as it was, and newer releases warn of it
    alias = real.__name__ if len(loop.ops) > 1 else ""
    results = tuple(
        _record.elementwise(op, operands, loop.inputs, d, shape, alias)
        for op, d in zip(loop.ops, loop.outputs, strict=True)
    )
    if not shape and not always:
        results = tuple(map(scalar_of, results))
    return results[0] if len(results) == 1 else results


def _negative(exponent: Any) -> bool:
    """Whether some exponent is negative, which NumPy refuses for integers."""
    values = host(exponent) if type(exponent) is ndarray else exponent.arg
    return bool(numpy.any(values < 0))


def scalar_of(x: ndarray) -> Any:
    """The result of shape () as the user sees it: a lazy scalar while it is pending."""
    if is_ready(x) or settings.scalars == "numpy":
        return host(x)[()]
    return lazy(x)


def apply(real: numpy.ufunc, *values: Any) -> Any:
    """`real(*values)`, recorded or at once."""
    answer = call(real, values)
    if answer is not NotImplemented:
        return answer
    operands = [host(v) if type(v) is ndarray else settled(v) for v in values]
    if any(type(v) is RealArray and v.dtype is OBJECT for v in operands):
        made = speak(real, operands, {})
        return fresh(made) if type(made) is RealArray else made
    try:
        made = real(*operands)
    except TypeError:
        made = again(real, *operands)
    return fresh(made) if type(made) is RealArray else made


def _mask(where: Any) -> Any:
    if where is True:
        return None
    found = operand(where)
    if found is None or type(found[0]) is not ndarray or found[0]._dtype.kind != "b":
        return NotImplemented
    return found[0]


def into(
    loop: Loop, operands: list[Any], shape: Shape, out: ndarray, mask: ndarray | None = None, casting: Any = "same_kind"
) -> Any:
    """Record an operation whose result is written into `out`; NotImplemented where NumPy would refuse or warn."""
    target = out._dtype
    wider = shape_of([*operands, out] if mask is None else [*operands, out, mask])
    if wider != out._shape or not native(target) or not numpy.can_cast(loop.outputs[0], target, casting):
        return NotImplemented
    if mask is not None and target != loop.outputs[0]:
        return NotImplemented  # NumPy converts what was in `out` there and back
    if not out._writeable or _folded(out) or (loop.outputs[0].kind == "c" and target.kind != "c"):
        return NotImplemented
    _record.writable(out)
    order = _record.order_of([out], out._shape)
    site = _record.here()
    node = _record.expression(loop.ops[0], operands, loop.inputs, loop.outputs[0], out._shape, order, site, mask)
    node = _record.cast(node, target, _record._errstate.armed(), site, loop.ops[0])
    _record.write(out, node, order, mask, site, operands)
    return out


def _two(real: numpy.ufunc, values: Any, outs: Any) -> Any:
    """Record a ufunc of two results that are written into two arrays; both are recorded before either is written."""
    if any(type(x) is not ndarray for x in outs) or small((*values, *outs)):
        return NotImplemented
    found = resolve(real, values)
    if found is None:
        return NotImplemented
    loop, operands, _ = found
    nodes = []
    site = _record.here()
    for x, op, dtype in zip(outs, loop.ops, loop.outputs, strict=True):
        wider = shape_of([*operands, x])
        if wider != x._shape or not native(x._dtype) or not numpy.can_cast(dtype, x._dtype, "same_kind"):
            return NotImplemented
        if not x._writeable or _folded(x):
            return NotImplemented
        _record.writable(x)
        order = _record.order_of([x], x._shape)
        node = _record.expression(op, operands, loop.inputs, dtype, x._shape, order, site)
        node.alias = real.__name__
        nodes.append((x, _record.cast(node, x._dtype, _record._errstate.armed(), site, real.__name__), order))
    for x, node, order in nodes:
        _record.write(x, node, order, None, site, operands)
    return outs


def _folded(x: ndarray) -> bool:
    """Whether several indices of `x` name one byte: NumPy's order of writes then counts."""
    reach = x._dtype.itemsize - 1
    pairs = sorted((abs(s), e) for s, e in zip(x._strides, x._shape, strict=True) if e > 1)
    for stride, extent in pairs:
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def install_scalar(names: dict[str, str], comparisons: dict[str, str]) -> None:
    """Give lazy scalars their operators."""
    for short, name in names.items():
        real = getattr(numpy, name)
        op = divmod if short == "divmod" else getattr(operator, f"__{short}__")
        setattr(Scalar, f"__{short}__", _scalar_operator(op, real, False))
        setattr(Scalar, f"__r{short}__", _scalar_operator(op, real, True))
    for short, name in comparisons.items():
        setattr(Scalar, f"__{short}__", _scalar_operator(getattr(operator, short), getattr(numpy, name), False))
    for short, name in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
        setattr(Scalar, f"__{short}__", _scalar_unary(getattr(operator, f"__{short}__"), getattr(numpy, name)))


def _scalar_unary(op: Any, real: numpy.ufunc) -> Any:
    def method(self: Scalar) -> Any:
        if self._known is None and not is_ready(self._handle):
            answer = call(real, (self._handle,))
            if answer is not NotImplemented:
                return answer
        try:
            return op(settled(self))
        except TypeError:
            return again(op, settled(self))

    return method


def _scalar_operator(op: Any, real: numpy.ufunc, reflected: bool) -> Any:
    def method(self: Scalar, other: Any) -> Any:
        if type(other) is ndarray:
            answer = binary(real, other, self) if reflected else binary(real, self, other)
            if answer is not NotImplemented:
                return answer
        elif self._known is None and not is_ready(self._handle) and (type(other) in WEAK or type(other) in KINDS):
            pair = (other, self) if reflected else (self, other)
            answer = power(real, *pair) if real is numpy.power and not reflected else call(real, pair)
            if answer is not NotImplemented:
                return answer
        pair = (settled(other), settled(self)) if reflected else (settled(self), settled(other))
        if type(other) not in WEAK and type(other) not in KINDS and type(other) is not Scalar:
            return speak(op, pair, {})  # it may run a user's code
        try:
            return op(*pair)
        except TypeError:
            return again(op, *pair)

    return method


def binary(real: numpy.ufunc, x: Any, y: Any) -> Any:
    """Record `real(x, y)`."""
    answer = _direct.binary(real, x, y)
    return call(real, (x, y)) if answer is None else answer


def late(real: numpy.ufunc, x: Any, y: Any) -> Any:
    """Record `real(x, y)` the long way."""
    return call(real, (x, y))


def unary(real: numpy.ufunc, x: ndarray) -> Any:
    """Record `real(x)`."""
    answer = _direct.unary(real, x)
    return call(real, (x,)) if answer is None else answer


def power(real: numpy.ufunc, x: ndarray, exponent: Any) -> Any:
    """Record `x ** exponent` as the operator sees it: 2, 1, 0.5, -1 are operations of their own."""
    if type(x) in KINDS:
        x = x._handle
    special = _special_power(x._dtype.kind, exponent)
    if special is None:
        return call(real, (x, exponent))
    answer = _direct.unary(special, x)
    return call(special, (x,)) if answer is None else answer


_POWERS = {2: numpy.square, 1: numpy.positive}
_FLOAT_POWERS = _POWERS | {0.5: numpy.sqrt, -1: numpy.reciprocal}


def _special_power(kind: str, exponent: Any) -> numpy.ufunc | None:
    """The ufunc that NumPy's operator runs for some exponents of Python's own types."""
    if type(exponent) not in (int, float):
        return None
    if kind in "fc":
        return _FLOAT_POWERS.get(exponent)
    if type(exponent) is not int or (kind == "b" and exponent == 1):
        return None
    return _POWERS.get(exponent)


def inplace(real: numpy.ufunc, x: ndarray, other: Any) -> Any:
    """Record `x op= other`."""
    if small((x, other)):
        return NotImplemented
    special = _special_power(x._dtype.kind, other) if real is numpy.power else None
    if special is not None and x._dtype.kind != "b":
        return call(special, (x,), {"out": x})
    return call(real, (x, other), {"out": x})


def pending(node: Node, shape: Shape, order: tuple[int, ...]) -> ndarray:
    """A handle on a new node without operands of its own."""
    x = make(Base(node), 0, spread(order, shape, node.dtype.itemsize), shape, node.dtype)
    _record.commit(node)
    return x


def single(node: Node, operands: list[Any], faulty: bool) -> Any:
    """The value of a new node without axes, recorded from operands."""
    x = make(Base(node), 0, (), (), node.dtype)
    _record.commit(node, operands, faulty)
    return scalar_of(x)


def held(buffer: Any, dtype: DType, shape: Shape) -> ndarray:
    """A handle on memory of our own, whose elements lie in C order."""
    strides = spread(tuple(range(len(shape))), shape, dtype.itemsize)
    return make(Base(leaf(buffer, dtype, shape)), 0, strides, shape, dtype)
