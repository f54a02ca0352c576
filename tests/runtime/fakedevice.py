"""A device made of host memory: kernels run in the interpreter, transfers are copies that can be counted.

What a program sees must not depend on where buffers are; this shows it without a device.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from offarray import _evaluate
from offarray.codegen import compile as front
from offarray.codegen import interpret
from offarray.codegen.kernel import Kernel
from offarray.runtime import buffer as buffers
from offarray.runtime import cuda, residency
from offarray.runtime.config import config
from offarray.runtime.target import Compiled, Target

_numbers = itertools.count()


class FakeDevice:
    """What residency asks of a device."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.memory = 1 << 36
        self.blocks: dict[int, Any] = {}
        self.allocated = 0

    def allocate(self, nbytes: int) -> int:
        block = ctypes.create_string_buffer(b"\xfd" * nbytes, nbytes + 8)
        self.blocks[ctypes.addressof(block)] = block
        self.allocated += 1
        return ctypes.addressof(block)

    def trim(self) -> None:
        pass

    def free(self, pointer: int) -> None:
        del self.blocks[pointer]

    def upload(self, pointer: int, host: int, nbytes: int) -> None:
        assert pointer in self.blocks
        ctypes.memmove(pointer, host, nbytes)

    def download(self, host: int, pointer: int, nbytes: int) -> None:
        inside = [first <= pointer and pointer + nbytes <= first + len(b) for first, b in self.blocks.items()]
        assert any(inside)
        ctypes.memmove(host, pointer, nbytes)

    def move(self, target: int, source: int, nbytes: int) -> None:
        assert target in self.blocks and source in self.blocks
        ctypes.memmove(target, source, nbytes)


def _compiled(kernel: Kernel, target: Target) -> Compiled:
    return interpret.compiled(kernel, target)


@contextmanager
def installed() -> Iterator[FakeDevice]:
    """The setting device="cuda" means the fake device."""
    fake = FakeDevice()
    target = Target("cuda", f"fake{next(_numbers)}", "", 16)
    former = cuda.device, front._MAKERS["cuda"], buffers.fresh, _evaluate._targets.get("cuda")
    cuda.device = lambda: fake  # type: ignore[assignment,return-value]
    front._MAKERS["cuda"] = _compiled
    _evaluate._targets["cuda"] = target
    try:
        with config(device="cuda", bound_bytes=config.get("bound_bytes")):
            residency.start()
            yield fake
    finally:
        cuda.device, front._MAKERS["cuda"], buffers.fresh = former[:3]
        _evaluate._targets.pop("cuda")
        if former[3] is not None:
            _evaluate._targets["cuda"] = former[3]
