"""The handle: what the user holds as `ndarray`, and its four doors `make`, `host`, `plain` and `wrap`.

in: every room of the surface; out: fusion.node.Base through `_memory.adopt` and `_memory.view`.

A handle on memory that NumPy has just made is in *host mode*: `_at` is True, `_np` is the truth, and base, offset,
strides, shape, dtype are worked out when somebody asks.  Small work never asks.  The views of such a handle are in host
mode too; the owner knows them, and they get its base together with it.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy

from . import _handle, _memory
from ._handle import HOST, Handle, fresh, view, views
from ._handle import make as make
from .fusion.node import Base

RealArray = numpy.ndarray
Array = numpy.ndarray[Any, Any]


class Subclassable(numpy.ndarray):
    """Base that stands for `offarray.ndarray` in the classes that users derive: a real NumPy array."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new array, which may be on the memory of a handle."""
        options: Any = {k: plain(v) for k, v in kwargs.items()}
        return super().__new__(cls, *map(plain, args), **options)  # type: ignore[arg-type]

    def __array_wrap__(self, arr: Any, *args: Any, **kwargs: Any) -> Any:
        """NumPy's own, for handles too."""
        return super().__array_wrap__(plain(arr), *args, **kwargs)

    def nonzero(self) -> Any:
        """Indices of the elements that are not zero, as handles."""
        found = list(super().nonzero())
        made = []
        while found:
            a = found.pop()
            made.append(wrap(a))
        return tuple(made[::-1])

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """NumPy's `view`, where offarray's class asks for a handle."""
        if ndarray in args or kwargs.get("type") is ndarray:
            args = tuple(RealArray if a is ndarray else a for a in args)
            kwargs = {k: RealArray if v is ndarray else v for k, v in kwargs.items()}
            return wrap(super().view(*args, **kwargs))
        return super().view(*args, **kwargs)


class Overriding(Subclassable):
    """The base for classes that define `__array_ufunc__`: `super()` takes handles too."""

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's own, with handles among the operands."""
        return plainly(super().__array_ufunc__, ufunc, method, inputs, kwargs)


def plainly(call: Any, ufunc: Any, method: Any, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """NumPy's `__array_ufunc__` of an array, with handles among the operands."""
    out = kwargs.get("out")
    if out is not None:
        out = out if type(out) is tuple else (out,)
        kwargs["out"] = tuple(map(plain, out))
    if type(kwargs.get("where")) is ndarray:
        kwargs["where"] = plain(kwargs["where"])
    answer = call(getattr(ufunc, "real", ufunc), method, *map(plain, inputs), **kwargs)
    for given, real in zip(out or (), kwargs.get("out") or (), strict=True):
        if answer is real:
            return given
    return wrap(answer) if any(type(v) is ndarray for v in inputs) else answer


class Dispatching(Subclassable):
    """The base for classes that define `__array_function__`."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's own, with handles among the operands."""
        return super().__array_function__(func, real_types(types), args, kwargs)


def real_types(types: Iterable[type]) -> tuple[type, ...]:
    """The types of the operands as NumPy knows them."""
    return tuple(RealArray if t is ndarray else t for t in types)


class OverridingDispatching(Overriding, Dispatching):
    """The base for classes that define both."""


_STAND_INS = {
    (False, False): Subclassable, (True, False): Overriding, (False, True): Dispatching,
    (True, True): OverridingDispatching,
}  # fmt: skip


EITHER: dict[str, Any] = {}  # methods that somebody asks the class for: they take NumPy's arrays too


class ArrayType(ABCMeta):
    """Metaclass of the handle: real NumPy arrays are instances, and subclasses derive from NumPy's class."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        if not any(type(b) is ArrayType for b in bases):
            return super().__new__(mcs, name, bases, namespace, **kwargs)
        stand_in = _STAND_INS["__array_ufunc__" in namespace, "__array_function__" in namespace]
        bases = tuple(stand_in if type(b) is ArrayType else b for b in bases)
        metaclass: type = type
        for b in bases:
            if issubclass(type(b), metaclass):
                metaclass = type(b)
        return metaclass(name, bases, namespace, **kwargs)

    def __getattribute__(cls, name: str) -> Any:
        return EITHER[name] if name in EITHER else type.__getattribute__(cls, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is cls or isinstance(instance, RealArray)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, RealArray)


def host(x: Any) -> Array:
    """The memory of a handle as a NumPy array, evaluated first.  Internal: never handed to a user."""
    at = x._at
    if at is HOST or at == x._base.node.serial:
        return x._np
    return _memory.refresh(x)


def plain(x: Any) -> Array:
    """The memory of a handle as a NumPy array that may be handed out: the base is shared while it lives."""
    if type(x) is not ndarray:
        return x
    return _memory.export(x)


def _references(a: Any) -> int:
    return getrefcount(a)


def _passed(a: Any) -> int:
    return _references(a)


_ALONE = _memory.counted(_passed)  # of an array that only the caller of a function like `wrap` holds


def wrap(a: Any, parents: Iterable[Any] = ()) -> Any:
    """What NumPy gave, as a handle: on a parent's base where it looks at a parent's memory, else on its own.

    Scalars and instances of subclasses are returned as they are.  The caller holds `a` in one variable: more
    references mean that somebody else may look at its memory.
    """
    if type(a) is not RealArray:
        return a
    root = a.base
    if root is None:
        if _references(a) > _ALONE:
            return _memory.foreign(a)
        return fresh(a)
    for p in parents:
        if type(p) is ndarray:
            b = p._np
            if root is b or (b is not None and root is b.base):
                return view(a, p)
    return _memory.wrap_view(a, root, parents)


class ndarray(Handle, metaclass=ArrayType):
    """An array as NumPy's `numpy.ndarray`, whose value may still be pending.

    See `numpy.ndarray` for the attributes and methods.
    """

    __slots__ = ()
    __abc_tpflags__ = RealArray.__flags__ & 1 << 5  # whether `match` takes arrays for sequences, as with NumPy 2.5
    __array_priority__ = 0.0
    __hash__: Any = None

    _base: Base
    _offset: int
    _strides: tuple[int, ...]
    _shape: tuple[int, ...]
    _dtype: numpy.dtype[Any]
    _writeable: bool
    if TYPE_CHECKING:  # installed by _ufuncs.py, _indexing.py and _methods.py

        def __getitem__(self, key: Any) -> Any: ...

        def __setitem__(self, key: Any, value: Any) -> None: ...

        def __mul__(self, other: Any) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not ndarray:
            return Subclassable.__new__(cls, *args, **kwargs)  # type: ignore[arg-type]
        return _memory.construct(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """NumPy's class, for libraries that ask with `isinstance`; `type` tells the handle."""
        return RealArray

    def evaluate(self) -> ndarray:
        """Compute the value now, and return the array itself."""
        host(self)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._shape

    @shape.setter
    def shape(self, value: Any) -> None:
        _memory.relabel(self, "shape", value)

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Data type."""
        return self._dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        _memory.relabel(self, "dtype", value)

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between neighbours along each axis, in bytes."""
        return self._strides

    @strides.setter
    def strides(self, value: Any) -> None:
        _memory.relabel(self, "strides", value)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self._shape:
            n *= extent
        return n

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def base(self) -> Any:
        """The array whose memory this one looks at, or None."""
        return self._owner

    @property
    def device(self) -> str:
        """Where NumPy's memory is: "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> ndarray:
        """The array itself: "cpu" is the only device that NumPy knows."""
        host(self).to_device(device, stream=stream)  # type: ignore[arg-type]
        return self

    def __len__(self) -> int:
        shape = self._shape
        if shape:
            return shape[0]
        raise TypeError("len() of unsized object")


_handle.connect(ndarray)
_memory.connect(ndarray, host, fresh, view, wrap, views)
