"""A device made of host memory: kernels run in the interpreter, transfers are copies that can be counted.

What a program sees must not depend on where buffers are; this shows it without a device.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from offarray import _evaluate
from offarray.codegen import compile as front
from offarray.codegen import interpret, split
from offarray.codegen.kernel import Kernel
from offarray.fusion import replay
from offarray.runtime import buffer as buffers
from offarray.runtime import cuda, placement, residency, trace
from offarray.runtime.config import config
from offarray.runtime.errors import DeviceLostError, MemoryLimitError
from offarray.runtime.target import Compiled, Target

_numbers = itertools.count()


class FakeDevice:
    """What residency asks of a device."""

    number = 0
    name = "made of host memory"
    waits = 0
    arch = "fake"
    lost = ""
    launches = 0

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.capacity = 1 << 36
        self.used = self.held = self.peak = 0
        self.registered: dict[int, int] = {}
        self.memory = 1 << 36
        self.blocks: dict[int, Any] = {}
        self.allocated = 0

    def found(self) -> Any:
        """The device, as `cuda.device` gives it."""
        if self.lost:
            raise DeviceLostError(f"cuda:0 does not work any more: {self.lost}")
        return self

    def allocate(self, nbytes: int) -> int:
        if self.used + nbytes > self.capacity:
            raise MemoryLimitError("cuMemAllocAsync: the device has not enough memory")
        self.used += nbytes
        block = ctypes.create_string_buffer(b"\xfd" * nbytes, nbytes + 8)
        self.blocks[ctypes.addressof(block)] = block
        self.allocated += 1
        return ctypes.addressof(block)

    def room(self) -> tuple[int, int]:
        return self.capacity - self.used, self.memory

    def trim(self) -> None:
        pass

    def free(self, pointer: int) -> None:
        self.used -= len(self.blocks.pop(pointer)) - 8

    def inside(self, pointer: int, nbytes: int) -> bool:
        """Whether the bytes lie within one block."""
        return any(first <= pointer and pointer + nbytes <= first + len(b) - 8 for first, b in self.blocks.items())

    def upload(self, pointer: int, host: int, nbytes: int, wait: bool = True) -> None:
        assert host and self.inside(pointer, nbytes)
        ctypes.memmove(pointer, host, nbytes)

    def download(self, host: int, pointer: int, nbytes: int) -> None:
        assert host and self.inside(pointer, nbytes)
        ctypes.memmove(host, pointer, nbytes)

    def move(self, target: int, source: int, nbytes: int) -> None:
        assert self.inside(target, nbytes) and self.inside(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def rows(self, target: int, room: int, source: int, step: int, width: int, count: int) -> None:
        assert self.inside(target, room * (count - 1) + width) and self.inside(source, step * (count - 1) + width)
        for n in range(count):
            ctypes.memmove(target + n * room, source + n * step, width)

    def register(self, address: int, nbytes: int) -> None:
        assert address and address not in self.registered
        self.registered[address] = nbytes

    def unregister(self, address: int) -> None:
        del self.registered[address]

    def run(self) -> None:
        """A kernel is about to run."""
        self.launches += 1

    def synchronize(self) -> None:
        self.waits += 1

    def clear(self, pointer: int, nbytes: int) -> None:
        assert self.inside(pointer, nbytes)
        ctypes.memset(pointer, 0, nbytes)

    def flops(self) -> float:
        return 1e12

    def wait(self) -> None:
        pass


def _compiled(kernel: Kernel, target: Target, key: str = "") -> Compiled:
    cut = split.outermost(kernel, lambda piece: _compiled(piece, target))
    made = interpret.compiled(kernel, target)

    def body(*args: int) -> None:
        device: Any = cuda.device()
        device.run()
        made.body(*args)

    return made._replace(body=body, split=cut)


def _verified(plain: Any) -> Any:
    """`residency.use` that finds bytes written by the host without the device's knowledge."""

    def use(buffer: Any, *args: Any, **kwargs: Any) -> int:
        here = buffer.device
        if here is not None and here.host and here.valid and not buffer.shared and buffer.array is not None:
            mine = ctypes.string_at(here.pointer + here.first, here.last - here.first)
            assert mine == ctypes.string_at(buffer.address + here.first, len(mine)), "the host wrote without a word"
        pointer: int = plain(buffer, *args, **kwargs)
        return pointer

    return use


@contextmanager
def installed(rates: placement.Rates | None = None) -> Iterator[FakeDevice]:
    """The setting device="cuda" means the fake device; with `rates`, the setting is "auto"."""
    fake = FakeDevice()
    target = Target("cuda", f"fake{next(_numbers)}", "", 16)
    former = cuda.device, front._MAKERS["cuda"], buffers.fresh, _evaluate._targets.get("cuda")
    use, known, absent = residency.use, placement.rates, placement._absent
    steps: Any = sys.modules.get("offarray._library")
    libraries = getattr(steps, "placed", None)
    if steps is not None:
        steps.placed = lambda *args, **kwargs: False  # it has none
    cuda.device = fake.found  # type: ignore[assignment]
    residency.use = _verified(use)
    placement.rates, placement._absent = rates, rates is None
    placement.ledger.__init__()  # type: ignore[misc]
    front._MAKERS["cuda"] = _compiled
    _evaluate._targets["cuda"] = target
    replay.recipes.clear()  # of a real device, which has the same name
    try:
        with config(device="cuda" if rates is None else "auto", bound_bytes=config.get("bound_bytes")):
            residency.start()
            yield fake
    finally:
        residency.use, placement.rates, placement._absent = use, known, absent
        if steps is not None:
            steps.placed = libraries
        cuda.device, front._MAKERS["cuda"], buffers.fresh = former[:3]
        _evaluate._targets.pop("cuda")
        replay.recipes.clear()
        if former[3] is not None:
            _evaluate._targets["cuda"] = former[3]


def moved() -> tuple[int, int]:
    """Bytes moved to the device and back since the last question."""
    found = trace.counters["h2d_bytes"], trace.counters["d2h_bytes"]
    trace.reset()
    return found
