"""What `flags` and `flat` of a handle are.

in: _methods.py; out: the handle's own facts, without evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy

from ._array import RealArray, fresh, host, ndarray, plain
from ._dispatch import Handles, before_write, convert, result, written
from ._memory import address, may_write, warns
from ._voice import speak
from .fusion.view import is_contiguous


class flagsobj:
    """Facts about an array's memory; see `numpy.ndarray.flags`."""

    __slots__ = ("_array",)
    __hash__: Any = None

    def __init__(self, array: ndarray) -> None:
        self._array = array

    @property
    def c_contiguous(self) -> bool:
        """Whether the memory is one block in C order."""
        x = self._array
        return is_contiguous(x.shape, x.strides, x.itemsize)

    @property
    def f_contiguous(self) -> bool:
        """Whether the memory is one block in Fortran order."""
        x = self._array
        return is_contiguous(x.shape[::-1], x.strides[::-1], x.itemsize)

    @property
    def owndata(self) -> bool:
        """Whether the array owns its memory."""
        x = self._array
        return x._owner is None and (x._at is not True or bool(x._np.flags.owndata))

    @property
    def writeable(self) -> bool:
        """Whether elements may be assigned to."""
        x = self._array
        if warns(x._np):
            return bool(speak(getattr, (x._np.flags, "writeable"), {}))
        return x._writeable  # type: ignore[no-any-return]

    @writeable.setter
    def writeable(self, value: Any) -> None:
        self._array.setflags(write=bool(value))

    def _warn_on_write(self, value: Any) -> None:
        host(self._array).flags._warn_on_write = value  # type: ignore[attr-defined]

    _warn_on_write = property(None, _warn_on_write)  # type: ignore[assignment]

    @property
    def aligned(self) -> bool:
        """Whether the elements are aligned as the hardware wants them."""
        x = self._array
        if x._at is not True and x._base.node.buffer is None:
            return True
        return bool(host(x).flags.aligned)

    @aligned.setter
    def aligned(self, value: Any) -> None:
        self._array.setflags(align=bool(value))

    @property
    def writebackifcopy(self) -> bool:
        """Always False: no array is a copy to be written back."""
        return False

    @writebackifcopy.setter
    def writebackifcopy(self, value: Any) -> None:
        self._array.setflags(uic=bool(value))

    @property
    def fnc(self) -> bool:
        """Fortran order and not C order."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        """Fortran order or C order."""
        return self.f_contiguous or self.c_contiguous

    @property
    def behaved(self) -> bool:
        """Aligned and writeable."""
        return self.aligned and self.writeable

    @property
    def carray(self) -> bool:
        """Behaved and in C order."""
        return self.behaved and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Behaved and in Fortran order, not C order."""
        return self.behaved and self.fnc

    @property
    def num(self) -> int:
        """The flags as NumPy's number."""
        laid = self.c_contiguous | self.f_contiguous << 1
        return laid | self.owndata << 2 | self.aligned << 8 | self._array._writeable << 10  # type: ignore[no-any-return]

    @property
    def contiguous(self) -> bool:
        """Same as `c_contiguous`."""
        return self.c_contiguous

    @property
    def fortran(self) -> bool:
        """Same as `f_contiguous`."""
        return self.f_contiguous

    def __getitem__(self, key: Any) -> Any:
        name = _NAMES.get(key) if isinstance(key, str) else None
        if name is None:
            raise KeyError("Unknown flag")
        return getattr(self, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        name = _NAMES.get(key) if isinstance(key, str) else None
        if name not in ("writeable", "aligned", "writebackifcopy"):
            raise KeyError("Unknown flag")
        setattr(self, name, value)

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
        return "".join(f"  {n} : {self[n]}\n" for n in names)

    def __eq__(self, other: object) -> bool:
        num = getattr(other, "num", None)
        return self.num == num if num is not None else NotImplemented


_NAMES = {
    "C": "c_contiguous", "CONTIGUOUS": "c_contiguous", "C_CONTIGUOUS": "c_contiguous",
    "F": "f_contiguous", "FORTRAN": "f_contiguous", "F_CONTIGUOUS": "f_contiguous",
    "O": "owndata", "OWNDATA": "owndata", "W": "writeable", "WRITEABLE": "writeable",
    "A": "aligned", "ALIGNED": "aligned", "X": "writebackifcopy", "WRITEBACKIFCOPY": "writebackifcopy",
    "B": "behaved", "BEHAVED": "behaved", "CA": "carray", "CARRAY": "carray", "FA": "farray", "FARRAY": "farray",
    "FNC": "fnc", "FORC": "forc",
}  # fmt: skip


_F = TypeVar("_F")


def _signed(name: str) -> Callable[[_F], _F]:
    def mark(method: Any) -> Any:
        method.__wrapped__ = getattr(numpy.flatiter, name)  # what inspect.signature reads
        return method

    return mark


class FlatType(type):
    """Metaclass of `flatiter`: NumPy's own is an instance too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is cls or isinstance(instance, numpy.flatiter)


class flatiter(metaclass=FlatType):
    """One-dimensional iterator over an array; see `numpy.flatiter`."""

    __slots__ = ("_array", "_real")
    __hash__: Any = None

    def __init__(self, array: ndarray) -> None:
        self._array = array
        exported = plain(array)  # the iterator keeps the address
        if warns(exported):
            exported.flags.writeable = True  # the array warns itself
        self._real = exported.flat

    def _now(self) -> Any:
        """NumPy's iterator over the present value: another one where that is on a device that others look at."""
        a = host(self._array)
        return self._real if address(a) == address(self._real.base) else a.flat

    @property
    def base(self) -> ndarray:
        """The array."""
        return self._array

    @property
    def coords(self) -> Any:
        """Index of the next element, along each axis."""
        return self._real.coords

    @property
    def index(self) -> int:
        """Number of the next element."""
        return self._real.index

    @_signed("copy")
    def copy(self) -> ndarray:
        """The elements as a new array."""
        return fresh(self._now().copy())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._real)

    def __len__(self) -> int:
        return len(self._real)

    def __getitem__(self, key: Any) -> Any:
        r = self._now()[convert(key, Handles())]
        return result(r, Handles([self._array]), 3)

    def __setitem__(self, key: Any, value: Any) -> None:
        before_write(self._array)
        real, seen = self._now(), Handles()
        try:
            real[convert(key, seen)] = convert(value, seen)
        finally:
            written()

    def __delitem__(self, key: Any) -> None:
        raise TypeError("Cannot delete iterator elements")

    @_signed("__array__")
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        host(self._array)
        return self._real.__array__(dtype) if dtype is not None else self._real.__array__()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'numpy.flatiter' object has no attribute '{name}'")


def _comparison(name: str) -> Any:
    def method(self: flatiter, other: Any) -> Any:
        other = other._real if type(other) is flatiter else convert(other, Handles())
        r = getattr(self._real, name)(other)
        return fresh(r) if type(r) is RealArray else r

    method.__name__ = name
    return method


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(flatiter, _name, _comparison(_name))


def setflags(self: ndarray, write: Any = None, align: Any = None, uic: Any = None) -> None:
    """Set the flags WRITEABLE, ALIGNED and WRITEBACKIFCOPY; see `numpy.ndarray.setflags`."""
    a = host(self)
    if write and not self._writeable and self._at is not True:
        buffer: Any = self._base.node.buffer
        if not _may_write(self._owner):
            raise ValueError("cannot set WRITEABLE flag to True of this array")
        if not buffer.writeable:
            buffer.array.setflags(write=True)
            buffer._raw = None
        a = self._np = buffer.view(self._dtype, self._shape, self._offset, self._strides)
    a.setflags(write=write, align=align, uic=uic)
    self._writeable = may_write(a)


def _may_write(owner: Any) -> bool:
    if owner is None:
        return True
    if type(owner) is ndarray:
        return owner._writeable  # type: ignore[no-any-return]
    if isinstance(owner, RealArray):
        return may_write(owner)
    try:
        return not memoryview(owner).readonly
    except TypeError:
        return False
