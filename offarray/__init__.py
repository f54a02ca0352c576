"""NumPy's interface with lazy evaluation: `import offarray as np`.

Operations on large arrays are recorded; when a value is looked at, what is pending is fused into few kernels.
"""

from __future__ import annotations

import sys as _sys

import numpy as _numpy

from . import (  # noqa: F401
    _creation,
    _device,
    _functions,
    _indexing,
    _interchange,
    _library,
    _methods,
    _namespace,
    _ufuncs,
    _unbound,
    _views,
)
from ._array import ndarray as ndarray
from ._device import device as device
from ._device import memory_limit as memory_limit
from ._device import pin as pin
from ._device import prefetch as prefetch
from ._device import to_device as to_device
from ._device import to_host as to_host
from ._device import transfer_guard as transfer_guard
from ._expect import ExpectationError as ExpectationError
from ._expect import expect as expect
from ._explain import explain as explain
from ._namespace import frompyfunc as frompyfunc
from ._namespace import vectorize as vectorize
from ._ownership import borrow as borrow
from ._ownership import evaluate as evaluate
from ._ownership import move as move
from ._ownership import synchronize as synchronize
from ._standard import VERSION as __array_api_version__  # noqa: F401
from ._standard import __array_namespace_info__ as __array_namespace_info__
from ._whos import whos as whos
from .codegen import prepare as _prepare
from .runtime.config import config as config
from .runtime.errors import BorrowError as BorrowError
from .runtime.errors import MovedError as MovedError
from .runtime.errors import TransferError as TransferError
from .runtime.trace import stats as stats

__version__ = _numpy.__version__
__offarray_version__ = "0.1.0"
version_info = (0, 1, 0)

_methods.install(ndarray)
_device.install(ndarray)
_ufuncs.install(ndarray)
_interchange.install(ndarray)
_unbound.install(ndarray)
ndarray.evaluate = lambda self: evaluate(self)  # type: ignore[method-assign]
_sys.meta_path.insert(0, _namespace.Finder())
_namespace.fill(globals(), _numpy, __name__)
_prepare.imported()
