"""The short way to a node: operations on arrays in C order of one shape, and on such an array and a number.

in: the operators, for operands that are no small work; out: the same nodes as `_lazy.call` records, with fewer
questions. A call that is anything else gets None and goes the long way.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import _errstate, _evaluate
from ._array import make, ndarray
from ._promotion import WEAK, loop_of, scalar
from ._record import reports
from ._site import here
from .fusion import tape
from .fusion.node import CONST, MAP, READY, Base, Node
from .fusion.view import contiguous
from .runtime import trace
from .runtime.config import settings

# (ufunc, number of each operand's dtype or weak type) -> dtypes of the loop, operation, dtype of the result, may fault
_known: dict[Any, Any] = {}


def dense(x: ndarray) -> Node | None:
    """The node of an array that is the whole of its base in C order; its shape is then the node's very tuple."""
    node: Node = x._base.node
    return node if node.shape is x._shape and node.dtype is x._dtype and node.state <= READY else None


def _entry(real: numpy.ufunc, *kinds: Any) -> Any:
    loop = loop_of(real, kinds)
    if loop is None or len(loop.ops) != 1 or loop.ops[0] == "power":
        return None
    op, dtype = loop.ops[0], loop.outputs[0]
    return loop.inputs, op, dtype, reports(op, loop.inputs[0], dtype)


def _pair(real: numpy.ufunc, x: Any, y: Any) -> Any:
    kinds = [v._dtype if type(v) is ndarray else type(v) for v in (x, y)]
    return _entry(real, *kinds) if all(isinstance(k, numpy.dtype) or k in WEAK for k in kinds) else None


def nothing(real: numpy.ufunc, x: Any, y: Any) -> None:
    """For an operation that has no short way."""


def binary(real: numpy.ufunc, x: Any, y: Any) -> Any:
    """Record `real(x, y)`, or give None."""
    key: Any
    if type(x) is ndarray:
        a = dense(x)
        if a is None or not a.shape:
            return None
        shape = a.shape
        if type(y) is ndarray:
            b = dense(y)
            if b is None or b.shape != shape:
                return None
            key = (real, a.dtype.num, b.dtype.num)
        else:
            b = None
            key = (real, a.dtype.num, type(y))
    elif type(y) is ndarray:
        a, b = None, dense(y)
        if b is None or not b.shape:
            return None
        shape = b.shape
        key = (real, type(x), b.dtype.num)
    else:
        return None
    if (a is None or a.state == READY) and (b is None or b.state == READY):
        size = 1
        for extent in shape:
            size *= extent
        if size * ((a is not None) + (b is not None)) <= settings.eager_size:
            return None
    try:
        entry = _known[key]
    except KeyError:
        entry = _known[key] = _pair(real, x, y)
    if entry is None:
        return None
    (first, second), op, dtype, faults = entry
    fault = _errstate.armed() if faults else 0
    site = here()
    left = _source(a, x, first)
    right = _source(b, y, second)
    if left is None or right is None:
        return None
    return record(op, (left, right), dtype, shape, fault, site, x if a is not None else y)


def unary(real: numpy.ufunc, x: Any) -> Any:
    """Record `real(x)`, or give None."""
    a = dense(x)
    if a is None or not a.shape:
        return None
    shape = a.shape
    if a.state == READY:
        size = 1
        for extent in shape:
            size *= extent
        if size <= settings.eager_size:
            return None
    key = (real, a.dtype.num)
    try:
        entry = _known[key]
    except KeyError:
        entry = _known[key] = _entry(real, a.dtype)
    if entry is None:
        return None
    (kind,), op, dtype, faults = entry
    fault = _errstate.armed() if faults else 0
    site = here()
    source = _source(a, x, kind)
    if source is None:
        return None
    return record(op, (source,), dtype, shape, fault, site, x)


def _source(node: Node | None, value: Any, dtype: Any) -> Node | None:
    """An operand of the loop's dtype: the node itself, a number as a constant; None for what needs the long way."""
    if node is None:
        fitting = scalar(value, dtype)
        return None if fitting is None else Node(CONST, "", dtype, (), (), fitting)
    buffer = node.buffer
    if buffer is not None and buffer.shared:
        return None
    return node if node.dtype is dtype else None


def record(op: str, sources: tuple[Node, ...], dtype: Any, shape: Any, fault: int, site: Any, like: ndarray) -> ndarray:
    """Put the node on the tape; gives its handle."""
    node = Node(MAP, op, dtype, shape, sources, None, fault, site)
    strides = like._strides if dtype is like._dtype else contiguous(shape, dtype.itemsize)
    result = make(Base(node), 0, strides, shape, dtype)
    trace.counters["operations"] += 1
    if trace.events is not None:
        trace.emit("operation", site, op=op)
    if tape.due(node):
        _evaluate.flush()
    tape.add(node)
    if fault and _errstate.immediate():
        _evaluate.evaluate((node,))
    return result


def install(arithmetic: dict[str, str], compare: dict[str, str], single: dict[str, str]) -> None:
    """Learn the ufuncs of the operators: the form in C records them itself."""
