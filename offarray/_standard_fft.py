"""What the standard adds to NumPy's frequencies; imported with the module `fft`, which NumPy imports late as well.

in: `_namespace.fill`; out: `_standard.EXTENDED`.
"""

from __future__ import annotations

from typing import Any

import numpy

from ._standard import _extends, _has


def _frequencies(real: Any, n: Any, d: Any, device: Any, dtype: Any) -> Any:
    if dtype is None:
        return real(n, d, device)
    wanted = numpy.dtype(dtype)
    if wanted.kind != "f":
        raise ValueError(f"dtype must be a real-valued floating-point data type, not {wanted}")
    return real(n, wanted.type(d) if wanted.itemsize > 8 else d, device).astype(wanted, copy=False)


_fftfreq, _rfftfreq = numpy.fft.fftfreq, numpy.fft.rfftfreq

if not _has(_fftfreq, "dtype"):

    @_extends(_fftfreq)
    def fftfreq(n: Any, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
        """Sample frequencies as a data type."""
        return _frequencies(_fftfreq, n, d, device, dtype)

    @_extends(_rfftfreq)
    def rfftfreq(n: Any, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
        """Sample frequencies of a real transform as a data type."""
        return _frequencies(_rfftfreq, n, d, device, dtype)
