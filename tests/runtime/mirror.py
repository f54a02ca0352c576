"""Kernels interpreted on the host with their operands in a device's memory: everything but the kernels is real.

A device's own kernels take a tenth of a second to build; thousands of different ones are interpreted in the time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from offarray import _evaluate
from offarray.codegen import compile as front
from offarray.codegen import interpret, split
from offarray.codegen.abi import layout
from offarray.codegen.kernel import Kernel
from offarray.runtime import cuda, residency, supply
from offarray.runtime.config import config
from offarray.runtime.target import Compiled, Target


def _image(pointer: int) -> tuple[int, Any]:
    """First address and content of the memory of the buffer that a pointer points into."""
    device = cuda.device()
    found = [b for b in supply.users() if b.device.device is device]
    found = [b for b in found if b.device.pointer + b.device.low <= pointer <= b.device.pointer + b.device.high]
    assert found, "an operand points to no buffer's memory on the device"
    buffer = max(found, key=lambda b: b.device.pointer + b.device.low)
    copy = buffer.device
    first = copy.pointer + copy.low
    image = ctypes.create_string_buffer(copy.held)
    device.download(ctypes.addressof(image), first, copy.held)
    if copy.host and copy.valid and not buffer.shared and buffer.array is not None:
        mine = ctypes.string_at(buffer.address + copy.first, copy.last - copy.first)
        assert mine == image.raw[copy.first - copy.low : copy.last - copy.low], "the host wrote without a word"
    return first, image


def mirrored(kernel: Kernel, target: Target, key: str = "") -> Compiled:
    """The kernel interpreted on images of its operands' memory, which goes back when it has run."""
    made = interpret.compiled(kernel, target)
    written = {store.operand for store in kernel.stores}
    count = layout(kernel).words

    def body(args: int, low: int, high: int) -> None:
        device: Any = cuda.device()
        device.launches += 1
        row = (ctypes.c_uint64 * count)(*(ctypes.c_uint64 * count).from_address(args))
        images: dict[int, Any] = {}
        back: set[int] = set()
        for number in range(len(kernel.operands)):
            first, image = _image(row[number])
            image = images.setdefault(first, image)
            if number in written:
                back.add(first)
            row[number] = ctypes.addressof(image) + row[number] - first
        made.body(ctypes.addressof(row), low, high)
        for first in back:
            device.upload(first, ctypes.addressof(images[first]), len(images[first]))

    cut = split.outermost(kernel, lambda piece: mirrored(piece, target))
    return made._replace(body=body, split=cut)


@contextmanager
def installed() -> Iterator[Any]:
    """The setting device="cuda" means the device with interpreted kernels, and without libraries."""
    former = front._MAKERS["cuda"], _evaluate._targets.get("cuda")
    front._MAKERS["cuda"] = mirrored
    _evaluate._targets["cuda"] = Target("cuda", "mirror", "", 16)
    steps: Any = sys.modules.get("offarray._library")
    placed = getattr(steps, "placed", None)
    if steps is not None:
        steps.placed = lambda *args, **kwargs: False
    try:
        with config(device="cuda", bound_bytes=config.get("bound_bytes")):
            residency.start()
            yield cuda.device()
    finally:
        front._MAKERS["cuda"] = former[0]
        _evaluate._targets.pop("cuda")
        if former[1] is not None:
            _evaluate._targets["cuda"] = former[1]
        if steps is not None:
            steps.placed = placed
