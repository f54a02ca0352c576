# What type checkers see.  An array of offarray's counts as NumPy's, so that programs and annotations written for NumPy
# stay right; the functions have NumPy's own signatures, apart from what stands here.

from builtins import bool as _bool
from collections.abc import Iterable
from typing import Any, Literal, SupportsIndex, TypeVar, overload

from numpy import __array_api_version__ as __array_api_version__
from numpy import __array_namespace_info__ as __array_namespace_info__
from numpy import __version__ as __version__
from numpy import intp as _intp
from numpy import ndarray as _ndarray
from numpy.typing import ArrayLike, NDArray

from . import char as char
from . import ctypeslib as ctypeslib
from . import dtypes as dtypes
from . import exceptions as exceptions
from . import fft as fft
from . import lib as lib
from . import linalg as linalg
from . import ma as ma
from . import polynomial as polynomial
from . import random as random
from . import rec as rec
from . import strings as strings
from . import testing as testing
from . import typing as typing
from ._device import device as device
from ._device import memory_limit as memory_limit
from ._device import transfer_guard as transfer_guard
from ._expect import ExpectationError as ExpectationError
from ._expect import expect as expect
from ._explain import explain as explain
from ._numpy import *
from ._whos import whos as whos
from .runtime.config import config as config
from .runtime.errors import BorrowError as BorrowError
from .runtime.errors import MovedError as MovedError
from .runtime.errors import TransferError as TransferError
from .runtime.trace import stats as stats

__offarray_version__: str
version_info: tuple[int, int, int]

_Array = TypeVar("_Array", bound=_ndarray[Any, Any])
_Value = TypeVar("_Value")
_Kind = Literal["Q", "quick", "quicksort", "M", "merge", "mergesort", "H", "heap", "heapsort", "S", "stable"]

# --- offarray's own ---------------------------------------------------------------------------------------------------

def move(x: _Array) -> _Array: ...
def borrow(x: _Array) -> _Array: ...
@overload
def evaluate() -> tuple[()]: ...
@overload
def evaluate(array: _Value, /) -> _Value: ...
@overload
def evaluate(first: Any, second: Any, /, *more: Any) -> tuple[Any, ...]: ...
def synchronize() -> None: ...
def to_device(x: _Array, device: str | None = None) -> _Array: ...
def to_host(x: _Array) -> _Array: ...
def prefetch(x: _Array, device: str | None = None) -> _Array: ...
def pin(x: _Array) -> _Array: ...

# --- what the array API standard adds ---------------------------------------------------------------------------------

@overload
def sort(
    a: _Array,
    axis: SupportsIndex | None = ...,
    kind: _Kind | None = ...,
    order: str | Iterable[str] | None = ...,
    *,
    stable: _bool | None = ...,
    descending: _bool | None = ...,
) -> _Array: ...
@overload
def sort(
    a: ArrayLike,
    axis: SupportsIndex | None = ...,
    kind: _Kind | None = ...,
    order: str | Iterable[str] | None = ...,
    *,
    stable: _bool | None = ...,
    descending: _bool | None = ...,
) -> NDArray[Any]: ...
def argsort(
    a: ArrayLike,
    axis: SupportsIndex | None = ...,
    kind: _Kind | None = ...,
    order: str | Iterable[str] | None = ...,
    *,
    stable: _bool | None = ...,
    descending: _bool | None = ...,
) -> NDArray[_intp]: ...
