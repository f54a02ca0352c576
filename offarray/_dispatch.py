"""How a public function runs: natively, or by NumPy's own routine on the memory of its operands.

in: the namespace modules make their functions with `public`; out: NumPy.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy

from . import _fallback, _rebind
from ._array import HOST, fresh, host, ndarray, plain, view
from ._convert import _KIND as _KIND
from ._convert import _PLAIN as _PLAIN
from ._convert import FOREIGN, HANDLE, REAL, SCALARS, SEQUENCE, Handles, classify, convert, result
from ._front import COMPILED, front
from ._memory import foreign, native
from ._protocol import NOBODY, Shown, converts, function_protocol, shown, unshow
from ._reach import GROWING, JOINS, TEXTS, WIDE, enter, quick, quick_join, rules, span
from ._record import before_host_write
from ._static import static
from ._voice import MUTE, OBJECT, again, speak
from .fusion.node import READY
from .runtime import buffer as buffers
from .runtime.buffer import settle, unsettled
from .runtime.config import REGISTRY, settings

RealArray = numpy.ndarray
__warningregistry__ = MUTE
PACKAGE = __package__ or "offarray"

NATIVE: dict[str, Callable[..., Any]] = {}  # functions that record; one that returns NotImplemented leaves it to NumPy
DEVICE: dict[str, Callable[..., Any]] = {}  # library steps that a device has forms of: `_library.attempt`

# How the other functions run; names outside numpy's own namespace have their module's before them ("linalg.norm").
COMPOSED: set[str] = set()  # NumPy's Python code over recorded arrays
LIBRARY: set[str] = set()  # NumPy's compiled routines
NEUTRAL: set[str] = set()  # conversion, text, files, questions: no work for a kernel
_LIBRARIES = ("linalg.", "fft.", "random.", "polynomial.", "strings.", "char.", "ma.", "rec.", "testing.", "lib.")


_OPERATORS = "iadd isub imul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor imatmul".split()
IN_PLACE = frozenset(getattr(operator, name) for name in _OPERATORS)
# A second time these find something else: what they write to, or a file that was read.
_FILES = "fromiter fromfile loadtxt genfromtxt load fromregex save savez savez_compressed savetxt".split()
_QUIET = _PLAIN | {slice, type(Ellipsis), types.BuiltinFunctionType, numpy.ufunc, type}  # no code of a user's
_COLLECTORS = frozenset("array asarray asanyarray ascontiguousarray asfortranarray".split())
_CONVERTERS = {getattr(numpy, name) for name in _COLLECTORS}
ONCE = {*(getattr(numpy, name) for name in _FILES), operator.setitem, *IN_PLACE}


def numpy_call(impl: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """`impl(*args, **kwargs)`, also where the `__array__` of an operand gives a handle."""
    if impl in _CONVERTERS and args and converts(args[0]):
        return _shown_call(impl, args, kwargs)
    try:
        if impl in ONCE or kwargs.get("out") is not None or any(map(_foreign_code, args)):
            return speak(impl, args, kwargs)
        try:
            return impl(*args, **kwargs)
        except TypeError:
            return again(impl, *args, **kwargs)
    except ValueError as error:
        if "__array__ method not producing an array" not in str(error):
            raise
    finally:
        written()
    return _shown_call(impl, args, kwargs)


def _shown_call(impl: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    visible = [shown(v) for v in args]
    named = {k: shown(v) for k, v in kwargs.items()}
    made = speak(impl, visible, named)
    for v in (made, *visible, *named.values()):
        unshow(v)
    for v in visible:
        if type(v) is Shown and v._given is not None and v._given[1] is made:
            return v._given[0]
    return made


def _foreign_code(v: Any, depth: int = 0) -> bool:
    """Whether NumPy may run code of the user's, which happens once, for an operand."""
    t = type(v)
    if t is RealArray:
        return v.dtype is OBJECT
    if t is list or t is tuple:
        kinds = set(map(type, v))
        return not kinds <= _QUIET and (depth > 3 or any(_foreign_code(item, depth + 1) for item in v))
    return t not in _QUIET and not isinstance(v, (type, numpy.dtype))


def before_write(x: Any) -> None:
    """Tell that the memory of a handle is about to be written at this statement."""
    if type(x) is ndarray:
        before_host_write(x)


def written() -> None:
    """Tell that a write announced by `before_write` is done: whoever looks at the memory on a device sees it."""
    if unsettled:
        settle()


def step(
    name: str, impl: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    door: Callable[[Any], Any] = host, me: Any = None,
) -> Any:  # fmt: skip
    """Run NumPy's `impl` on the memory of the operands."""
    seen = Handles()
    if kwargs:
        if kwargs.get("like") is not None:
            return _like(name, impl, args, dict(kwargs), me)
        out = kwargs.get("out")
        if out is not None:
            for x in out if type(out) is tuple else (out,):
                before_write(x)
    real = []
    for v in args:
        t = type(v)
        if t is ndarray:
            seen.append(v)
            real.append(door(v))
        else:
            real.append(v if t in _PLAIN else convert(v, seen, door))
    named = {k: convert(v, seen, door) for k, v in kwargs.items()} if kwargs else kwargs
    if seen.foreign and me is not None and me._dispatched:
        answer = function_protocol(me, args, kwargs)
        if answer is not NOBODY:
            return answer
    room = settings.eager_size
    for x in seen:
        room -= x._np.size if x._np.ndim else 0  # a scalar is no work
    if room < 0 and name in WIDE and all(native(x._dtype) for x in seen):
        room += span(name) - settings.eager_size
    small = room >= 0 or not seen or name in NEUTRAL
    made = _given(numpy_call(impl, real, named) if small else _large_step(name, impl, real, named, seen), args, kwargs)
    if small and name in _COLLECTORS and seen and made.dtype.char == "O" and type(args[0]) is not ndarray:
        made = numpy_call(impl, args, kwargs)  # an array of objects holds what the user gave
    if door is plain:
        return _exported(made, [*real, *named.values()], (*args, *kwargs.values()), seen)
    return result(made, seen, 3)


def _exported(made: Any, real: list[Any], args: tuple[Any, ...], seen: Handles) -> Any:
    """`result`, where the operands went out as arrays that NumPy may keep."""
    if type(made) is RealArray:
        for given, x in zip(real, args, strict=True):
            if type(x) is ndarray and (made is given or made.base is given):
                return x if made is given else view(made, x)
    return result(made, seen, 4)


def _large_step(name: str, impl: Callable[..., Any], real: Any, named: Any, seen: Handles) -> Any:
    """Run and count a step that is no small work."""
    if name in LIBRARY or name.startswith(_LIBRARIES):
        made = numpy_call(impl, real, named)
        _fallback.library(name, made)
        return made
    _fallback.announce(name, reason(seen))
    made = numpy_call(impl, real, named)
    _fallback.ran(made)
    return made


def reason(operands: Any) -> str:
    """Why NumPy runs a step on these operands."""
    for x in operands:
        if type(x) is ndarray and not native(x._dtype):
            return f"elements of type {x._dtype} are not held by kernels"
    return "this form of the call has no kernels"


def _composable(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call has pending or large arrays of ours, and no operand that goes by its own rules."""
    total, pending, found, product = 0, False, False, 1
    stack = [*args, *kwargs.values()] if kwargs else list(args)
    while stack:
        v = stack.pop()
        t = type(v)
        kind = _KIND.get(t)
        if kind is None:
            kind = classify(t)
        if kind == HANDLE:
            if not native(v._dtype):
                return False
            found = True
            total += v.size
            product *= v.size or 1
            pending = pending or (v._at is not HOST and _waits(v._base.node))
        elif kind == SEQUENCE:
            if not set(map(type, v)) <= _PLAIN:
                stack.extend(v)
        elif kind == FOREIGN or (kind == REAL and t is not RealArray):
            return False
    return found and (pending or (product if name in GROWING else total) > span(name))


def _waits(node: Any) -> bool:
    """Whether a value is pending, or a device may hold it."""
    return node.state != READY or (node.buffer is not None and node.buffer.device is not None)


def _given(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`value`; as a handle on foreign memory where it is one of NumPy's own arrays that the user passed."""
    if type(value) is RealArray and value.base is None:
        for v in args:
            if value is v:
                return foreign(value)
        for v in kwargs.values():
            if value is v:
                return foreign(value)
    return value


def _like(name: str, impl: Callable[..., Any], args: Any, kwargs: dict[str, Any], me: Any) -> Any:
    like = kwargs.pop("like")
    if type(like) is ndarray or type(like) is RealArray:
        return step(name, impl, args, kwargs, me=me)
    kwargs["like"] = like
    own = getattr(type(like), "__array_function__", None)
    if own is None or own is RealArray.__array_function__:
        seen = Handles()
        real = [convert(v, seen) for v in args]
        return result(getattr(numpy, name)(*real, **kwargs), seen)
    kwargs.pop("like")
    answer = own(like, me, (type(like),), args, kwargs)
    if answer is NotImplemented:
        raise TypeError(
            f"no implementation found for 'numpy.{name}' on types that implement __array_function__: {[type(like)]}"
        )
    return answer


COUNTERPART: dict[Any, Any] = {}  # NumPy's object -> ours; hashable ones only


def implementation(real: Any) -> Callable[..., Any]:
    """The function behind NumPy's dispatch by protocol."""
    return getattr(real, "_implementation", real)  # type: ignore[no-any-return]


def recorded(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of the form that records, if there is one; NotImplemented leaves the call to NumPy."""
    if name in DEVICE and settings.device != "cpu":
        answer = DEVICE[name](name, args, kwargs)
        if answer is not NotImplemented:
            return answer
    record = NATIVE.get(name)
    if record is None:
        return NotImplemented
    try:
        return record(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        return NotImplemented  # arguments that only NumPy's own form takes, or refuses


def public(
    real: Callable[..., Any],
    name: str = "",
    door: Callable[[Any], Any] = host,
    writes: int | None = None,
) -> Callable[..., Any]:
    """The public function that stands for NumPy's `real`.

    Parameters
    ----------
    name : str, optional
        Key in `NATIVE`; the function's own name if left out.
    door : callable, optional
        `plain` where NumPy or a callback may keep the operands.
    writes : int, optional
        Position of the operand that is written.
    """
    name = name or real.__name__
    impl = implementation(real)
    spoken = _rebind.told(impl)
    run = real if spoken is impl else spoken  # by NumPy's dispatch, which checks sequences
    always = name in CALLBACKS
    enter(name, run)
    joins = name in JOINS
    direct = door is host and not writes and not always and name not in GROWING
    asks = direct and writes is None and not COMPILED  # else the front has asked
    if isinstance(real, types.BuiltinFunctionType):
        return _converter(real, name, run, door)  # type: ignore[no-any-return]

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and elsewhere(kwargs.get("device")) and name != "from_dlpack":
            return placed(made, args, kwargs)
        if asks and args:
            if type(args[0]) is ndarray:
                answer = quick(run, args, kwargs)
            else:
                answer = quick_join(run, args, kwargs) if joins and type(args[0]) in (list, tuple) else NotImplemented
            if answer is not NotImplemented:
                return answer
        answer = recorded(name, args, kwargs)
        if answer is not NotImplemented:
            return answer
        if (name in COMPOSED and _composable(name, args, kwargs)) or (always and not any(map(_derived, args))):
            return composed(impl, args, kwargs)
        if writes is not None and len(args) > writes:
            before_write(args[writes])
        return step(name, run, args, kwargs, door, made)

    made = dressed(call, real)
    if direct:
        made = COUNTERPART[real] = front(
            made, run, name=name, joins=joins, told=name in TEXTS, writes=writes == 0, **rules(run)
        )
    # what a subclass's super().__array_function__ calls
    made._implementation = lambda *args, **kwargs: step(name, impl, args, kwargs, door)
    return made  # type: ignore[no-any-return]


def elsewhere(device: Any) -> bool:
    """Whether the `device` of a maker of arrays names another than work goes to."""
    if device is None or type(device) is not str:
        return False
    if device == "cpu":
        return buffers.fresh is not None
    return device.startswith("cuda") and device in REGISTRY["device"].choices


def placed(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An array made on the device named."""
    from . import _device, _interchange  # they stand on this module

    with _device.device(kwargs.pop("device")) as block:
        made = call(*args, **kwargs)
        if block.name == "cpu" and _interchange.is_outside(made):  # it stays where others look at it
            return _interchange.brought(made)
        return _device.to_device(made, block.name)


def _derived(value: Any) -> bool:
    """Whether a value is an instance of a class that somebody derived from NumPy's, and goes by its rules."""
    return isinstance(value, RealArray) and type(value) not in (RealArray, ndarray)


CALLBACKS = frozenset({"apply_along_axis", "apply_over_axes", "piecewise", "fromfunction"})  # callbacks see handles


def composed(impl: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run NumPy's Python function `impl` over offarray's arrays."""
    made = _rebind.function(impl)(*args, **kwargs)
    return result(made, Handles()) if type(made) is RealArray else made


def _many(shape: Any) -> bool:
    """Whether a shape has so many elements that fresh pages cost more than asking."""
    if type(shape) is not tuple:
        return type(shape) is int and shape >= _FRESH
    count = 1
    for extent in shape:
        count *= extent if type(extent) is int else 0
    return count >= _FRESH


_FRESH = 1 << 14


def maker(real: Callable[..., Any]) -> Callable[..., Any]:
    """The public function that stands for NumPy's `real`, which makes an array from numbers and types."""
    pooled = real is numpy.empty

    def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        if kwargs and elsewhere(kwargs.get("device")):
            return placed(made, args, kwargs)
        if "like" in kwargs:
            return step(real.__name__, real, args, kwargs, host, made)
        if buffers.fresh is not None or (pooled and args and _many(args[0])):  # a device is in use, or pages are dear
            answer = recorded(real.__name__, args, kwargs)
            if answer is not NotImplemented:
                return answer
        try:
            return fresh(real(*args, **kwargs))
        except TypeError:
            return fresh(again(real, *args, **kwargs))

    made = dressed(call, real, True)
    return made  # type: ignore[no-any-return]


def _converter(real: Callable[..., Any], name: str, run: Callable[..., Any], door: Callable[[Any], Any]) -> Any:
    """`public` for NumPy's compiled functions, which make arrays of other things: none is a composition."""

    listed = real is numpy.array

    def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        if listed and len(args) == 1 and type(args[0]) is list and not kwargs:
            for v in args[0]:
                if type(v) not in SCALARS:
                    break
            else:
                try:
                    return fresh(real(args[0]))
                except TypeError:
                    return fresh(again(real, args[0]))
        if kwargs and elsewhere(kwargs.get("device")) and name != "from_dlpack":
            return placed(made, args, kwargs)
        if args and type(args[0]) is ndarray and door is host:
            answer = quick(run, args, kwargs)
            if answer is not NotImplemented:
                return answer
        answer = recorded(name, args, kwargs)
        if answer is not NotImplemented:
            return answer
        return step(name, run, args, kwargs, door, made)

    call._implementation = lambda *args, **kwargs: step(name, real, args, kwargs, door)  # type: ignore[attr-defined]
    made = dressed(call, real, True)
    return made


def dressed(call: Any, real: Any, still: bool = False) -> Any:
    """`call` with the name, documentation and signature of `real`, entered as its counterpart.

    With `still`, the first argument of `call` is not used, and what is given never becomes a method.
    """
    functools.update_wrapper(call, real, updated=())
    call.__wrapped__ = getattr(real, "__wrapped__", real)
    for name in ("__signature__", "__text_signature__"):
        if hasattr(real, name):
            setattr(call, name, getattr(real, name))
    call._dispatched = type(real) is type(numpy.sum)  # whether operands are asked for their `__array_function__`
    call.__module__ = PACKAGE + (real.__module__ or "numpy").removeprefix("numpy")  # where pickle finds it
    made = COUNTERPART[real] = static(call, real) if still else call
    return made


_rebind.connect(COUNTERPART, public=public, implementation=implementation)

__all__ = [
    "COUNTERPART", "NATIVE", "SCALARS", "before_write", "classify", "convert", "dressed", "function_protocol",
    "implementation", "plain", "public", "result", "step",
    "written",
]  # fmt: skip
