"""The front door of codegen: a kernel and a target in, a `Compiled` out.

Compiled kernels are kept in memory, and on disk by a key of everything that they depend on.
"""

from __future__ import annotations

import os
import threading

import llvmlite
import numpy

from ..runtime import cache as disk
from ..runtime import late, trace
from ..runtime.config import settings
from ..runtime.target import Compiled, Target
from . import native, prepare
from .host import host_target
from .kernel import Kernel
from .schedule import supported

_lock = threading.Lock()
_known: dict[tuple[Kernel, Target], Compiled] = {}


def _files(folder: str, name: str = "") -> list[tuple[str, int, int]]:
    """Name, size and time of the files of code in a folder of the package, of those that begin with `name`."""
    try:
        with os.scandir(os.path.join(os.path.dirname(os.path.dirname(__file__)), folder)) as entries:
            found = [(e.name, e.stat()) for e in entries if e.name.startswith(name) and e.name.endswith(_CODE)]
    except OSError:  # in an archive, whose versions are as the packages' numbers say
        return []
    return sorted((n, status.st_size, status.st_mtime_ns) for n, status in found)


_CODE = (".py", ".so", ".pyd")
# Everything but kernel and target that code depends on; files by their times, as Python's own.
_VERSION = disk.digest(llvmlite.__version__, numpy.__version__, repr(_files("codegen")))
# What plans and launches depend on besides.
PACKAGE = disk.digest(_VERSION, *map(repr, (_files("fusion"), _files("runtime", "program"), _files("", "_evaluate"))))


def key_of(kernel: Kernel, target: Target) -> str:
    """Content hash under which a compiled kernel is kept."""
    return disk.digest(repr(kernel), repr(target), _VERSION)


def compile(kernel: Kernel, target: Target, key: str = "") -> Compiled:
    """Make `kernel` ready to launch on `target`.

    Parameters
    ----------
    key : str, optional
        What `key_of` gives, where it is known.

    Raises
    ------
    offarray.codegen.schedule.UnsupportedKernel
        If the kernel must be cut into several launches; `supported` says so beforehand.
    """
    found = _known.get((kernel, target))
    if found is not None:
        return found
    with _lock:
        found = _known.get((kernel, target))
        if found is None:
            if settings.check:
                _check(kernel)
            found = _known[kernel, target] = _MAKERS[target.kind](kernel, target, key or key_of(kernel, target))
    return found


def _check(kernel: Kernel) -> None:
    from .check import check  # few programs use it

    check(kernel)


def _null(kernel: Kernel, target: Target, key: str) -> Compiled:
    nothing = key, lambda args, low, high: None, None, lambda extents: 1, lambda extents: 0, 0.0
    return Compiled(target, *nothing)


def _interpret(kernel: Kernel, target: Target, key: str) -> Compiled:
    from . import interpret  # it is large, and few programs use it

    found: Compiled = interpret.compiled(kernel, target)
    return found


def _host(kernel: Kernel, target: Target, key: str) -> Compiled:
    return native.compiled(kernel, target, key)


def _cuda(kernel: Kernel, target: Target, key: str) -> Compiled:
    """The kernel for the current device; for the host, with transfers round it, where no device runs it."""
    from . import gpu  # its driver is loaded only where a device is used

    reason = gpu.unsupported(kernel)
    if reason is None:
        return gpu.compiled(kernel, target, key)
    trace.log(2, f"no device runs this kernel, the host does: {reason}")
    trace.emit("host_kernel", None, reason=reason)
    return native.compiled(kernel, host_target(), key_of(kernel, host_target()))


_MAKERS = {"cuda": _cuda, "host": _host, "interpret": _interpret, "null": _null}


def device_target() -> Target:
    """The graphics processor that the setting `device` names; buffers keep track of it from now on.

    Raises
    ------
    offarray.runtime.errors.DeviceError
        If it is missing, or the package cuda-bindings is.
    """
    from ..runtime import cuda, residency
    from . import gpu, nvptx

    assert gpu  # loaded with the device, not with the first kernel

    made: list[str] = []
    prepare.background((lambda: made.append(nvptx.small()),))  # the context takes longer
    device = cuda.device()
    if type(device) is cuda.Device:
        late.ready(device)
        prepare.background((lambda: device.assemble(made[0] if made else nvptx.small()),))
    found = nvptx.device_target(device.arch)
    if device.number:  # code is loaded for one device
        found = found._replace(features=f"{found.features},device{device.number}")
    residency.start()
    return found


def module_text(kernel: Kernel, target: Target) -> str:
    """The LLVM IR of a kernel, to be read."""
    from .emit import emit
    from .schedule import schedule

    return emit(kernel, schedule(kernel), target, "kernel").text


__all__ = ["compile", "device_target", "host_target", "key_of", "module_text", "supported"]
