"""Measures of memory: what the pool hands out, and devices; never the clock or the system."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any


def peak(action: Callable[[], Any]) -> tuple[int, int]:
    """Most bytes that were in use during `action()` beyond those before it, and the number of blocks taken."""
    from offarray.runtime import cuda, pool, supply

    gc.collect()
    before = pool.stats()["live"]
    devices = {device: device.held for device in cuda._devices.values()}
    for device, held in devices.items():
        device.peak = held
    blocks, note = 0, supply.note

    def noting(*args: Any) -> None:
        nonlocal blocks
        blocks += 1
        note(*args)

    pool.mark()
    supply.note = noting
    try:
        action()
    finally:
        supply.note = note
    most, taken = pool.marked()
    return most - before + sum(device.peak - held for device, held in devices.items()), taken + blocks
