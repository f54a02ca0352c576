"""Ufuncs and the operators of the handle.

in: the namespace and the handle's operators; out: NumPy's ufuncs on ready memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from . import (
    _choosing,
    _creation,
    _direct,
    _dispatch,
    _handle,
    _indexing,
    _lazy,
    _products,
    _rebind,
    _reductions,
)
from ._array import HOST, RealArray, fresh, host, ndarray, plain
from ._dispatch import SCALARS, Handles, before_write, convert, result
from ._errstate import _extobj_contextvar, _state
from ._handle import Called, Handle
from ._hosted import hosted, refused
from ._promotion import of_numpy
from ._reach import product_at_once
from ._scalar import KINDS
from ._voice import MUTE, OBJECT, again, loud, speak
from .runtime.config import settings
from .runtime.errors import BorrowError

_real_ufunc_override = RealArray.__array_ufunc__
_NOBODY = object()
__warningregistry__ = MUTE


class UfuncType(type):
    """Metaclass of `ufunc`: NumPy's own ufuncs (SciPy's, numba's) are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is cls or isinstance(instance, numpy.ufunc)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return subclass is cls or issubclass(subclass, numpy.ufunc)


class ufunc(Called, metaclass=UfuncType):
    """A function that operates element by element on whole arrays; see `numpy.ufunc`."""

    def __init__(self, real: numpy.ufunc) -> None:
        self.real = real
        self.nin = real.nin
        self.once = not of_numpy(real)  # it may run a user's function
        self.__name__ = real.__name__
        self.__doc__ = real.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == self.nin and not self.once:
            room = settings.eager_size
            if len(args) == 1 and type(args[0]) is ndarray:
                x: Handle = args[0]
                at = x._at
                if (at is HOST or at == args[0]._base.node.serial) and x._np.size <= room and x._np.dtype is not OBJECT:
                    try:
                        r = self.real(x._np)
                    except TypeError:
                        r = again(self.real, x._np)
                    if type(r) is RealArray:
                        return fresh(r)
                    return tuple(map(_own, r)) if type(r) is tuple else r
                r = _direct.unary(self.real, x)
                return _method(self, "__call__", args, kwargs) if r is None else r
            real: list[Any] = []
            most = 1
            for v in args:
                t = type(v)
                if t is ndarray:
                    at = v._at
                    if at is not HOST and at != v._base.node.serial:
                        room = -1
                        break
                    a = v._np
                    if a.dtype is OBJECT:
                        room = -1
                        break
                    room -= a.size
                    most *= a.size
                    real.append(a)
                elif t in SCALARS:
                    real.append(v)
                else:
                    return _method(self, "__call__", args, kwargs)
            if room < 0 or (most > settings.eager_size and not _stay(real)):
                r = _direct.binary(self.real, *args) if len(args) == 2 else None
                return _method(self, "__call__", args, kwargs) if r is None else r
            try:
                r = self.real(*real)
            except TypeError:
                r = again(self.real, *real)
            if type(r) is RealArray:
                return fresh(r)
            return tuple(map(_own, r)) if type(r) is tuple else r
        return _method(self, "__call__", args, kwargs)

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Fold along axes; see `numpy.ufunc.reduce`."""
        return _method(self, "reduce", args, kwargs)

    def accumulate(self, *args: Any, **kwargs: Any) -> Any:
        """All partial folds along an axis; see `numpy.ufunc.accumulate`."""
        return _method(self, "accumulate", args, kwargs)

    def reduceat(self, *args: Any, **kwargs: Any) -> Any:
        """Folds of slices; see `numpy.ufunc.reduceat`."""
        return _method(self, "reduceat", args, kwargs)

    def outer(self, *args: Any, **kwargs: Any) -> Any:
        """Every pair of elements; see `numpy.ufunc.outer`."""
        return _method(self, "outer", args, kwargs)

    def at(self, *args: Any, **kwargs: Any) -> Any:
        """Unbuffered operation in place at indices; see `numpy.ufunc.at`."""
        if args:
            if not kwargs and 2 <= len(args) <= 3 and not self.once and _choosing.ufunc_at(self.__name__, *args):
                return None
            before_write(args[0])
        return _method(self, "at", args, kwargs)

    def resolve_dtypes(self, *args: Any, **kwargs: Any) -> Any:
        """Data types of operands and results; see `numpy.ufunc.resolve_dtypes`."""
        return self.real.resolve_dtypes(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __eq__(self, other: object) -> bool:
        return self is other or self.real is other  # tables keyed by NumPy's object know ours, and the other way round

    def __hash__(self) -> int:
        return hash(self.real)

    def __repr__(self) -> str:
        return repr(self.real)

    def __reduce__(self) -> Any:
        return restore, (self.real,)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.real), *object.__dir__(self)} - {"real"})


_handle.quicken(ufunc, ufunc.__call__)


def restore(real: numpy.ufunc) -> ufunc:
    """The ufunc object that stands for NumPy's `real`, one for each."""
    own = _dispatch.COUNTERPART.get(real)
    if own is None:
        own = ufunc(real)
        if not own.once:
            _dispatch.COUNTERPART[real] = own
    return own  # type: ignore[no-any-return]


def _own(value: Any) -> Any:
    return fresh(value) if type(value) is RealArray else value


def _method(uf: ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one method of a ufunc in NumPy, after the operands' `__array_ufunc__` had their say."""
    answer = _protocol(uf, method, args, kwargs)
    if answer is not _NOBODY:
        return answer
    if uf.once:
        pass  # whatever its name
    elif method == "__call__" and (len(args) == uf.nin or (len(args) > uf.nin and "out" not in kwargs)):
        options = kwargs if len(args) == uf.nin else {**kwargs, "out": args[uf.nin :]}
        answer = _products.matmul(*args) if uf.real is numpy.matmul and not options else NotImplemented
        if answer is NotImplemented:
            answer = _lazy.call(uf.real, args[: uf.nin], options)
        if answer is not NotImplemented:
            return answer
    elif method == "reduce":
        answer = _reductions.ufunc_reduce(uf.real, args, kwargs)
        if answer is not NotImplemented:
            return answer
    elif method == "accumulate":
        answer = _creation.accumulate(uf.real, args, kwargs)
        if answer is not NotImplemented:
            return answer
    elif method == "outer" and not kwargs:
        answer = _products.outer(uf.real, args)
        if answer is not NotImplemented:
            return answer
    seen = Handles()
    out = kwargs.get("out") if kwargs else None
    twice = out is None and method != "at" and not uf.once
    call = _dispatch.numpy_call if twice else _dispatch.speak
    outs: Any = ()
    if out is not None:
        outs = out if type(out) is tuple else (out,)
    elif method == "__call__" and len(args) > uf.nin:
        outs = args[uf.nin :]
        call = _dispatch.speak
    real = [convert(v, seen) for v in args]
    named = {k: convert(v, seen) for k, v in kwargs.items()}
    target = uf.real if method == "__call__" else getattr(uf.real, method)
    run = partial(call, target)
    try:
        for x in outs:
            before_write(x)
    except BorrowError:
        if refused(uf.real, run, (real, named)):  # what is wrong with the call comes first
            run(real, named)
        raise
    return result(hosted(uf.real, run, seen, (real, named)), seen)


_overrides: dict[type, bool] = {ndarray: False, RealArray: False, list: False, tuple: False, type(None): False}
_overrides.update(dict.fromkeys(SCALARS, False))


def overrides(t: Any) -> bool:
    """Whether operands of this type take part in NEP 13."""
    known = _overrides.get(t)
    if known is None:
        own = getattr(t, "__array_ufunc__", _NOBODY)
        known = own is not _NOBODY and own is not _real_ufunc_override
        if not issubclass(t, type):
            _overrides[t] = known
    return known


def _protocol(uf: ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Offer the call to foreign operands (NEP 13)."""
    operands = list(args)
    if kwargs:
        out = kwargs.get("out")
        if out is not None:
            operands.extend(out if type(out) is tuple else (out,))
        where = kwargs.get("where")
        if where is not None and where is not True:
            operands.append(where)
    if not any(overrides(type(v)) for v in operands):
        return _NOBODY
    inputs, extra = _normalised(uf, method, args, kwargs)
    operands = [*inputs, *extra.get("out", ()), extra.get("where")]
    chosen: list[Any] = []
    for v in operands:
        t = type(v)
        if not overrides(t) or any(type(c) is t for c in chosen):
            continue
        if t.__array_ufunc__ is None:
            raise TypeError(
                f"operand '{t.__name__}' does not support ufuncs (__array_ufunc__=None)"
            )  # fmt: skip
        at = len(chosen)
        for i, c in enumerate(chosen):
            if issubclass(t, type(c)):
                at = i
                break
        chosen.insert(at, v)
    for v in chosen:
        answer = v.__array_ufunc__(uf, method, *inputs, **extra)
        if answer is not NotImplemented:
            return answer
    shown = ", ".join(map(repr, inputs)) + "".join(f", {k}={v!r}" for k, v in extra.items())
    names = ", ".join(repr(type(v).__name__) for v in operands if v is not None)
    raise TypeError(
        f"operand type(s) all returned NotImplemented from __array_ufunc__({uf!r}, {method!r}, {shown}): {names}"
    )


class _Probe:
    """Stands for an operand, and tells how NumPy hands the arguments of a call on."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _Probe((inputs, kwargs))


def _probe(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_probe, value))
    return _Probe(value) if type(value) is ndarray or overrides(type(value)) else value


def _unprobe(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_unprobe, value))
    return value.value if type(value) is _Probe else value


def _normalised(uf: ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Inputs and options of a call as NumPy hands them to `__array_ufunc__`, after its checks."""
    run = uf.real if method == "__call__" else getattr(uf.real, method)
    given = {k: _probe(v) if k in ("out", "where") else v for k, v in kwargs.items()}
    inputs, extra = run(*map(_probe, args), **given).value
    return _unprobe(inputs), {k: _unprobe(v) if k in ("out", "where") else v for k, v in extra.items()}


def array_ufunc(self: ndarray, function: Any, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    """NEP 13: a NumPy ufunc was called on our arrays."""
    out = kwargs.get("out", ())
    for v in (*inputs, *(out if type(out) is tuple else (out,))):
        if type(v) is not ndarray and overrides(type(v)):
            return NotImplemented
    if not isinstance(function, ufunc):
        return _like_ufunc(getattr(function, method), inputs, kwargs)
    own = function if type(function) is ufunc else restore(function)  # type: ignore[arg-type]
    if type(out) is tuple and out and out[0] is ...:
        kwargs["out"] = ...
    elif type(out) is tuple and len(out) == 1 and method != "__call__":
        kwargs["out"] = out[0]
    return own(*inputs, **kwargs) if method == "__call__" else getattr(own, method)(*inputs, **kwargs)


def _like_ufunc(call: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of what behaves as a ufunc but is none of NumPy's, such as numba's."""
    out = kwargs.get("out")
    for x in out if type(out) is tuple else (out,):
        before_write(x)
    seen = Handles()
    real = [convert(v, seen) for v in inputs]
    named = {k: convert(v, seen) for k, v in kwargs.items()}
    try:
        return result(_dispatch.speak(call, real, named), seen)
    finally:
        _dispatch.written()


# --- operators ------------------------------------------------------------------------------------------------------

_BASIC = SCALARS | {list, tuple, str, bytes, type(None), dict, set, slice}


def _defers(other: Any) -> bool:
    """Whether NumPy would leave a binary operation to the right operand."""
    t = type(other)
    if t in _BASIC:
        return False
    own = getattr(t, "__array_ufunc__", _NOBODY)
    if own is not _NOBODY:
        return own is None
    try:
        priority = float(getattr(other, "__array_priority__", -1000000.0))
    except Exception:
        return False
    return priority > 0.0


def _slow(self: ndarray, other: Any, op: Callable[..., Any], uf: Any, reflected: bool) -> Any:
    """A binary operation with an operand that is neither a handle nor a scalar."""
    t = type(other)
    if t is RealArray:
        r = _lazy.call(uf.real, (other, self) if reflected else (self, other))
        if r is not NotImplemented:
            return r
        r = hosted(uf.real, op, (self,), (other, host(self)) if reflected else (host(self), other))
    elif issubclass(t, RealArray):
        a = plain(self)
        operands = (other, a) if reflected else (a, other)
        return result(_dispatch.numpy_call(op, operands, {}), Handles([self]))
    elif not reflected and _defers(other):
        return NotImplemented
    elif getattr(t, "__array_ufunc__", 0) is None:
        return NotImplemented
    elif overrides(t):
        return uf(other, self) if reflected else uf(self, other)
    else:
        r = _lazy.call(uf.real, (other, self) if reflected else (self, other))
        if r is not NotImplemented:
            return r
        seen = Handles()
        b = convert(other, seen)
        run = op if t in _BASIC and not reflected else uf.real
        r = hosted(uf.real, run, (self,), (b, host(self)) if reflected else (host(self), b))
    if type(r) is tuple:
        return tuple(map(_own, r))
    return fresh(r) if type(r) is RealArray else r


def _stay(operands: Sequence[Any]) -> bool:
    """Whether small operands give a small result, which they do unless they broadcast."""
    shapes = {x.shape for x in operands if type(x) is RealArray}
    return len(shapes) < 2 or _lazy.broadcast_size(shapes) <= settings.eager_size


def _binary(op: Callable[..., Any], uf: ufunc) -> tuple[Any, Any]:
    real = uf.real
    product = real is numpy.matmul
    record: Any = _direct.nothing if real is numpy.power else _direct.binary
    late: Any = _lazy.power if real is numpy.power else _lazy.late

    def forward(self: Any, other: Any) -> Any:
        me: Handle = self
        t = type(other)
        pair = False
        if t is ndarray:
            y: Handle = other
            at = y._at
            if at is HOST or at == other._base.node.serial:
                b = y._np
                room = settings.eager_size - b.size if b.dtype is not OBJECT else -1
                pair = True
            else:
                room = -1
        elif t in SCALARS:
            b = other
            room = settings.eager_size
        else:
            return _slow(self, other, op, uf, False)
        at = me._at
        if (
            (at is HOST or at == self._base.node.serial)
            and me._np.dtype is not OBJECT
            and (
                (me._np.size <= room and (t is not ndarray or me._np.size * b.size <= room or _stay((me._np, b))))
                or (product and pair and product_at_once(me._np, b))
            )
        ):
            try:
                r = op(me._np, b)
            except TypeError:
                r = again(op, me._np, b)
        else:
            r = record(real, self, other)
            if r is None:
                r = late(real, self, other)
            if r is not NotImplemented:
                return r
            r = hosted(real, op, (self, other), (host(self), host(other) if t is ndarray else other))
        if type(r) is RealArray:
            return fresh(r)
        return tuple(map(_own, r)) if type(r) is tuple else r

    def reflected(self: Any, other: Any) -> Any:
        if type(other) not in SCALARS:
            return _slow(self, other, op, uf, True)
        me: Handle = self
        at = me._at
        there = at is HOST or at == self._base.node.serial
        if there and me._np.size <= settings.eager_size and me._np.dtype is not OBJECT:
            try:
                r = op(other, me._np)
            except TypeError:
                r = again(op, other, me._np)
        else:
            r = _lazy.binary(real, other, self)
            if r is not NotImplemented:
                return r
            r = hosted(real, op, (self,), (other, host(self)))
        return fresh(r) if type(r) is RealArray else tuple(map(_own, r)) if type(r) is tuple else r

    return forward, reflected


def _inplace(op: Callable[..., Any], uf: ufunc) -> Any:
    real = uf.real
    small = op if _handle.COMPILED else _told(op)

    def method(self: Any, other: Any) -> Any:
        me: Handle = self
        t = type(other)
        if me._at is HOST:  # nothing else looks at its memory
            room = settings.eager_size - me._np.size
            if t in SCALARS and room >= 0:
                small(me._np, other)
                return self
            if t is ndarray:
                y: Handle = other
                at = y._at
                if (at is HOST or at == other._base.node.serial) and y._np.size <= room:
                    small(me._np, y._np)
                    return self
        if t is ndarray or t in SCALARS or t in _BASIC or t in KINDS or issubclass(t, RealArray):
            if _lazy.inplace(real, self, other) is self:
                return self
            b: Any = convert(other, Handles())
        elif overrides(t):
            return uf(self, other, out=(self,))  # which refuses what has none: work in place is left to nobody
        else:
            b = other
        before_write(self)
        hosted(real, op, (self,), (host(self), b))
        return self

    return method


def _told(op: Callable[..., Any]) -> Any:
    """An operation in place, which may not be done twice, with its warnings at the user's line."""
    enter, leave = _extobj_contextvar.set, _extobj_contextvar.reset

    def run(a: Any, b: Any) -> None:
        if a.dtype is OBJECT:
            speak(op, (a, b), {})
            return
        token = enter(loud(_state()))
        try:
            op(a, b)
        except TypeError:
            again(op, a, b)
        finally:
            leave(token)

    return run


def _unary(op: Callable[..., Any], real: numpy.ufunc) -> Any:
    def method(self: Any) -> Any:
        me: Handle = self
        at = me._at
        there = at is HOST or at == self._base.node.serial
        if there and me._np.size <= settings.eager_size and me._np.dtype is not OBJECT:
            try:
                r = op(me._np)
            except TypeError:
                r = again(op, me._np)
        else:
            r = _lazy.unary(real, self)
            if r is not NotImplemented:
                return r
            r = hosted(real, op, (self,), (host(self),))
        return fresh(r) if type(r) is RealArray else r

    return method


_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "lshift": "left_shift", "rshift": "right_shift", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "matmul": "matmul", "divmod": "divmod",
}  # fmt: skip
_COMPARE = {
    "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _pow(forward: Any) -> Any:
    def method(self: ndarray, other: Any, modulo: Any = None) -> Any:
        return NotImplemented if modulo is not None else forward(self, other)

    return method


def install(cls: Any) -> None:
    """Give the handle its operators."""
    made: dict[str, Any] = {}
    for short, name in _ARITHMETIC.items():
        uf = restore(getattr(numpy, name))
        op = divmod if short == "divmod" else getattr(operator, f"__{short}__")
        forward, reflected = _binary(op, uf)
        if short == "pow" and not _handle.COMPILED:
            forward, reflected = _pow(forward), _pow(reflected)
        made |= {f"__{short}__": forward, f"__r{short}__": reflected}
        if short != "divmod":
            made[f"__i{short}__"] = _inplace(getattr(operator, f"__i{short}__"), uf)
    for short, name in _COMPARE.items():
        made[f"__{short}__"] = _binary(getattr(operator, short), restore(getattr(numpy, name)))[0]
    for short, name in _UNARY.items():
        made[f"__{short}__"] = _unary(getattr(operator, f"__{short}__"), getattr(numpy, name))
    _handle.give(cls, made | _indexing.METHODS, SCALARS, KINDS)
    _direct.install(_ARITHMETIC, _COMPARE, _UNARY)
    cls.__array_ufunc__ = array_ufunc
    _lazy.install_scalar(_ARITHMETIC, _COMPARE)


_rebind.connect(_dispatch.COUNTERPART, restore=restore)
