"""Methods, attributes and protocols of the handle that NumPy's own array answers.

in: the handle's class; out: `_dispatch.step` on NumPy's method of the same name.
"""

from __future__ import annotations

import importlib
import math
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from . import _bufferslot, _dispatch, _front, _handle, _memory, _views
from ._array import HOST, RealArray, fresh, host, ndarray, plain, view, wrap
from ._dispatch import SCALARS, Handles, before_write, convert, quick, result, step, written
from ._flags import flagsobj, flatiter, setflags
from ._front import front
from ._handle import restart, views
from ._reach import rules
from ._standard import checked_version
from ._voice import MUTE, OBJECT, again, speak
from .runtime.config import settings

__warningregistry__ = MUTE
_reconstruct: Any = importlib.import_module("numpy._core.multiarray")._reconstruct

# Methods that read the array and give an array, a view or a scalar.
READS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj",
    "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "getfield", "max", "mean", "min",
    "nonzero", "prod", "ravel", "repeat", "reshape", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes",
    "take", "trace", "transpose", "var",
)  # fmt: skip
# Methods that write into the array.
WRITES = ("fill", "partition", "put", "setfield", "sort")
# Methods that give Python objects or bytes, or write a file.
LEAVES = ("item", "tobytes", "tolist", "dump", "dumps", "tofile")
# Conversions of a single element.
CASTS: dict[str, Callable[..., Any]] = {
    "__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": operator.index,
}  # fmt: skip
# Texts, which show no more than the edges of what is large.
TEXTS: dict[str, Callable[..., str]] = {"__repr__": repr, "__str__": str}


def _reads(name: str) -> Any:
    real = getattr(RealArray, name)

    key = "ndarray." + name

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and self._at is HOST and self._np.size <= settings.eager_size:
            a = self._np
            try:
                made = real(a) if a.dtype is not OBJECT else speak(real, (a,), {})
            except TypeError:
                made = again(real, a)
            if type(made) is RealArray:
                root = made.base
                if root is None:
                    if sys.getrefcount(made) <= 2 and made is not a:
                        return fresh(made)
                elif root is a or root is a.base:
                    return view(made, self)
            elif type(made) in SCALARS:
                return made
            return self if made is a else result(made, Handles([self]), 3)
        answer = quick(real, (self, *args), kwargs)
        if answer is not NotImplemented:
            return answer
        answer = _dispatch.recorded(key, (self, *args), kwargs)
        if answer is not NotImplemented:
            return answer
        return step(name, real, (self, *args), kwargs)

    return method


def _writes(name: str) -> Any:
    real = getattr(RealArray, name)
    key = "ndarray." + name
    away = name in ("sort", "partition")  # a device has forms of these

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        if away and settings.device != "cpu" and (self._at is not HOST or self._np.size > settings.eager_size):
            if _dispatch.DEVICE[key](key, (self, *args), kwargs) is not NotImplemented:
                return None
        before_write(self)
        return step(name, real, (self, *args), kwargs)

    return method


def _leaves(name: str) -> Any:
    real = getattr(RealArray, name)

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(host(self), *args, **kwargs)
        except TypeError:
            return again(real, host(self), *args, **kwargs)

    return method


def _casts(convert_one: Callable[..., Any]) -> Any:
    def method(self: ndarray) -> Any:
        try:
            return convert_one(host(self))
        except TypeError:
            return again(convert_one, host(self))

    return method


def _prints(write: Callable[..., str]) -> Any:
    def method(self: ndarray) -> str:
        if self._at is HOST:
            return write(self._np)
        a = _views.edges(self)
        return write(host(self) if a is None else a)

    return method


def view_method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
    """The same memory as another type; see `numpy.ndarray.view`."""
    args = tuple(RealArray if a is ndarray else a for a in args)
    kwargs = {k: RealArray if v is ndarray else v for k, v in kwargs.items()}
    kinds = [v for v in (*args, kwargs.get("type"), kwargs.get("dtype")) if isinstance(v, type)]
    if any(issubclass(k, RealArray) and k is not RealArray for k in kinds):
        return plain(self).view(*args, **kwargs)
    a = host(self)
    r = a.view(*args, **kwargs)
    return view(r, self)


def byteswap(self: ndarray, inplace: Any = False) -> ndarray:
    """Swap the bytes of the elements; see `numpy.ndarray.byteswap`."""
    if inplace:
        before_write(self)
        host(self).byteswap(True)
        written()
        return self
    return fresh(host(self).byteswap(False))


def resize(self: ndarray, *new_shape: Any, refcheck: bool = True) -> None:
    """Change shape and size in place; see `numpy.ndarray.resize`."""
    if new_shape in ((), (None,)):
        operator.index(refcheck)
        return
    given: Any = new_shape[0] if len(new_shape) == 1 else new_shape
    shape = (operator.index(given),) if hasattr(type(given), "__index__") else tuple(map(operator.index, given))
    operator.index(refcheck)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of the new shape must be non-negative")
    a = host(self)
    if not (a.flags.c_contiguous or a.flags.f_contiguous):
        raise ValueError("resize only works on single-segment arrays")
    size = math.prod(shape)
    if size * a.itemsize != a.nbytes:
        if self._owner is not None:
            raise ValueError("cannot resize this array: it does not own its data")
        if refcheck and (_seen_elsewhere(self) or sys.getrefcount(self) > _RESIZE_REFERENCES):
            raise ValueError(_REFERENCED)
        before_write(self)
        new = numpy.zeros(shape, a.dtype, "C" if a.flags.c_contiguous else "F")
        keep = min(size, a.size)
        new.ravel("K")[:keep] = a.ravel("K")[:keep]  # elements stay where they are in memory
        new.flags.writeable = _memory.may_write(a)
        _become(self, new)
    elif size != a.size:
        _become(self, numpy.zeros(shape, a.dtype))
    elif a.flags.c_contiguous or not size:
        _memory.put(self, "shape", shape)
    else:  # the elements as they lie in memory: named in C order, then in the order of axes that the array has
        _memory.put(self, "strides", _steps(a.shape, a.itemsize))
        _memory.put(self, "shape", shape)
        _memory.put(self, "strides", _steps(shape[::-1], a.itemsize)[::-1])


_REFERENCED = """cannot resize an array that references or is referenced
by another object in this way.
Use the np.resize function to get a new resized copy or
 set refcheck=False to disable this check"""


def _steps(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides of a dense array in C order."""
    return tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _references(x: Any, *shape: Any, refcheck: bool = True) -> int:
    return sys.getrefcount(x)


_RESIZE_REFERENCES = _memory.counted(_references)  # of an array that one variable of the caller holds


def _seen_elsewhere(x: ndarray) -> bool:
    """Whether another handle or exported array looks at the memory of `x`."""
    if weakref.getweakrefcount(x):
        return True
    if x._at is True:
        return bool(views(x))
    buffer = x._base.node.buffer
    return buffer is not None and (buffer.shared or sys.getrefcount(x._base) > 2)


def _become(x: ndarray, a: Any) -> None:
    """Let a handle start afresh on `a`."""
    if x._at is True and views(x):
        _memory.adopt(x)  # they stay on the memory that they have
    restart(x, a if a.base is None else a.copy())


# --- attributes -----------------------------------------------------------------------------------------------------


def _part(name: str) -> Any:
    def get(self: ndarray) -> Any:
        if self._at is True:
            a = self._np
            r = getattr(a, name)
            if type(r) is RealArray and (r.base is a or (r.base is not None and r.base is a.base)):
                return view(r, self)
        native = _dispatch.NATIVE.get("ndarray." + name)
        if native is not None:
            answer = native(self)
            if answer is not NotImplemented:
                return answer
        r = getattr(host(self), name)
        return result(r, Handles([self]), 3)

    def put(self: ndarray, value: Any) -> None:
        before_write(self)
        try:
            speak(setattr, (host(self), name, convert(value, Handles())), {})
        finally:
            written()

    return property(get, put, doc=getattr(RealArray, name).__doc__)


def _sets(name: str) -> Any:
    def put(self: ndarray, value: Any, /) -> None:
        _memory.put(self, name, value)

    put.__doc__ = getattr(RealArray, "_set_" + name).__doc__
    return put


def _set_flat(self: ndarray, value: Any) -> None:
    before_write(self)
    try:
        speak(setattr, (host(self), "flat", convert(value, Handles())), {})
    finally:
        written()


def _explicit(frame: Any) -> bool:
    """Whether the calling Python code reads an attribute by name (and no C code asks behind its back)."""
    import dis

    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("LOAD_ATTR", "LOAD_METHOD"))


def _interface(name: str) -> Any:
    def get(self: ndarray) -> Any:
        # NumPy would keep the handle instead of the exported array: it is sent to __array__, whose export is counted
        if not _explicit(sys._getframe(1)):
            raise AttributeError(name)
        a = plain(self)
        weakref.finalize(self, lambda kept: None, a)
        return getattr(a, name)

    return property(get, doc=getattr(RealArray, name).__doc__)


def array(self: ndarray, dtype: Any = None, *, copy: Any = None) -> Any:
    """The value as a NumPy array."""
    a = _bufferslot.found(self)
    if copy is None or copy is False:
        if dtype is None:
            return a
        want = numpy.dtype(dtype)
        if want == a.dtype:
            return a
        return speak(a.astype, (want,), {}) if copy is None else a.__array__(want, copy=False)
    return a.__array__(copy=True) if dtype is None else speak(a.__array__, (dtype,), {"copy": True})


def array_function(self: ndarray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NEP 18: a NumPy function was called on our arrays."""
    if not isinstance(args, tuple):
        raise TypeError("args must be a tuple")
    if not isinstance(kwargs, dict):
        raise TypeError("kwargs must be a dict")
    for t in types:
        if t is not ndarray and not issubclass(t, RealArray):
            return NotImplemented
    own = _dispatch.COUNTERPART.get(func)
    if own is not None and own is not func:
        return own(*args, **kwargs)
    return step(func.__name__, _dispatch.implementation(func), args, kwargs, plain)


def array_wrap(self: ndarray, arr: Any, context: Any = None, return_scalar: Any = False) -> Any:
    """A result of a function that knows arrays only through protocols."""
    if return_scalar and arr.ndim == 0:
        return arr[()]
    if type(arr) is ndarray:
        return arr
    r = numpy.asarray(arr)
    return wrap(r)


def iterate(self: ndarray) -> Iterator[Any]:
    """Iterate over the first axis."""
    if not self._shape:
        raise TypeError("iteration over a 0-d array")
    return _items(self)


def _items(self: ndarray) -> Iterator[Any]:
    for i in range(self._shape[0]):
        yield self[i]


def contains(self: ndarray, value: Any) -> bool:
    """Whether any element equals `value`."""
    return convert(value, Handles()) in host(self)


def restore(shape: Any, dtype: Any, fortran: Any, data: Any) -> ndarray:
    """Rebuild a pickled array; `fortran` is also the order of axes in memory, slowest first."""
    if isinstance(data, (bytes, list)):
        a = _reconstruct(RealArray, (0,), b"b")
        a.__setstate__((1, shape, dtype, fortran, data))
        return fresh(a)
    if type(fortran) is tuple:
        a = numpy.frombuffer(data, dtype).reshape([shape[axis] for axis in fortran]).transpose(numpy.argsort(fortran))
    else:
        a = numpy.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return wrap(a)  # type: ignore[no-any-return]


def reduce_ex(self: ndarray, protocol: Any) -> Any:
    """Pickle through NumPy's bytes."""
    a = host(self)
    fortran: Any = a.flags.f_contiguous and not a.flags.c_contiguous
    dense = fortran or a.flags.c_contiguous
    if protocol >= 5 and not dense:
        fortran = tuple(sorted(range(a.ndim), key=lambda axis: -a.strides[axis]))
        dense = a.transpose(fortran).flags.c_contiguous
    if protocol >= 5 and not a.dtype.hasobject and dense and a.size and a.dtype.itemsize:
        import pickle

        # the export is counted only as long as the pickler lives; the bytes are read at once or held by the caller
        real: Any = plain(self)
        try:
            block = real.transpose(fortran) if type(fortran) is tuple else real.T if fortran else real
            return restore, (a.shape, a.dtype, fortran, pickle.PickleBuffer(block))
        except (BufferError, ValueError):
            pass
    state = a.__reduce__()[2]
    return restore, (state[1], state[2], state[3], state[4])


def _format(self: ndarray, spec: str) -> str:
    if self._shape:
        return object.__format__(self, spec)
    return format(self.item(), spec)


def class_getitem(cls: Any, item: Any) -> Any:
    """`ndarray[shape, dtype]` for annotations."""
    RealArray[item]  # NumPy's own checks
    return types.GenericAlias(ndarray, item)


def install(cls: Any) -> None:
    """Give the handle its methods and attributes."""
    made: dict[str, Any] = {name: _reads(name) for name in READS}
    made.update((name, _writes(name)) for name in WRITES)
    made.update((name, _leaves(name)) for name in LEAVES)
    made.update((name, _casts(one)) for name, one in CASTS.items())
    made.update((name, _prints(one)) for name, one in TEXTS.items())
    made.update(
        view=view_method, byteswap=byteswap, resize=resize, setflags=setflags, __array__=array, __iter__=iterate,
        __contains__=contains, __reduce_ex__=reduce_ex, __format__=_format, __array_function__=array_function,
        __array_wrap__=array_wrap, __reduce__=_reduce, __setstate__=_setstate, __copy__=_copy, __deepcopy__=_deepcopy,
        __array_finalize__=_finalize, __array_namespace__=_namespace, __dlpack__=_dlpack,
        __dlpack_device__=_dlpack_device,
    )  # fmt: skip
    for name, method in made.items():
        method.__name__ = name
        method.__qualname__ = f"ndarray.{name}"
        method.__doc__ = getattr(RealArray, name).__doc__
        method.__wrapped__ = real = getattr(RealArray, name)  # what inspect.signature reads
        often = name in READS or name in LEAVES or name in WRITES
        told = {"name": "ndarray." + name, "bare": name in LEAVES, "writes": name in WRITES}
        setattr(cls, name, front(method, real, **told, **rules(real)) if often else method)
    # a value is held here, by its caller in C and by `result`
    _front.learn(lambda value, handles: result(value, Handles(handles), 4))
    for name in ("shape", "dtype"):
        if hasattr(RealArray, "_set_" + name):
            setattr(cls, "_set_" + name, _sets(name))
    for name in ("T", "mT", "real", "imag"):
        _handle.part(cls, name, _part(name))
    for name in ("__array_interface__", "__array_struct__"):
        setattr(cls, name, _interface(name))
    cls.__module__ = __package__
    cls.flat = property(flatiter, _set_flat, doc=RealArray.flat.__doc__)
    cls.flags = property(flagsobj, doc=RealArray.flags.__doc__)
    cls.ctypes = property(Ctypes, doc=RealArray.ctypes.__doc__)
    cls.data = property(lambda self: plain(self).data, doc=RealArray.data.__doc__)
    cls.__class_getitem__ = classmethod(class_getitem)
    cls.__sizeof__ = _sizeof
    _bufferslot.install(cls)


def _sizeof(self: ndarray) -> int:
    axes = 2 * len(self._shape) * tuple.__itemsize__  # shape and strides
    return object.__sizeof__(self) + axes + (self.nbytes if self._owner is None else 0)


_Real: Any = importlib.import_module("numpy._core._internal")._ctypes


class Ctypes(_Real):  # type: ignore[misc]
    """What `ctypes` of a handle is; its pointers hold the handle, and count as exports of its memory."""

    def __init__(self, array: ndarray) -> None:
        self._exported = plain(array)
        super().__init__(array, self._exported.ctypes.data)

    def data_as(self, obj: Any) -> Any:
        """The address as another type of ctypes; see `numpy.ndarray.ctypes`."""
        pointer = super().data_as(obj)
        pointer._exported = self._exported
        return pointer


def _reduce(self: ndarray) -> Any:
    return reduce_ex(self, 2)


def _copy(self: ndarray) -> ndarray:
    return fresh(host(self).__copy__())


def _deepcopy(self: ndarray, memo: Any = None) -> ndarray:
    return fresh(host(self).__deepcopy__({} if memo is None else memo))


def _finalize(self: ndarray, obj: Any = None) -> None:
    return None


def _dlpack(self: ndarray, **kwargs: Any) -> Any:
    return plain(self).__dlpack__(**kwargs)


def _dlpack_device(self: ndarray) -> tuple[int, int]:
    return host(self).__dlpack_device__()


def _setstate(self: ndarray, state: Any) -> None:
    a = _reconstruct(RealArray, (0,), b"b")
    a.__setstate__(state)
    _become(self, a)


def _namespace(self: ndarray, *, api_version: Any = None) -> Any:
    checked_version(api_version)
    return sys.modules[__package__ or "offarray"]
