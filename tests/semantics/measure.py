"""Measures of memory: what the pool hands out, never the clock or the system."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any


def peak(action: Callable[[], Any]) -> tuple[int, int]:
    """Most bytes that were in use during `action()` beyond those before it, and the number of blocks taken."""
    from offarray.runtime import pool

    gc.collect()
    before, most, taken, take = pool.stats()["live"], 0, 0, pool.take

    def counting(nbytes: int, zero: bool) -> Any:
        nonlocal most, taken
        block = take(nbytes, zero)
        taken += 1
        most = max(most, pool.stats()["live"] - before)
        return block

    pool.take = counting
    try:
        action()
    finally:
        pool.take = take
    return most, taken
