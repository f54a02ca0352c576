"""Measures of memory: what the pool hands out, never the clock or the system."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any


def peak(action: Callable[[], Any]) -> tuple[int, int]:
    """Most bytes that were in use during `action()` beyond those before it, and the number of blocks taken."""
    from offarray.runtime import pool

    gc.collect()
    before = pool.stats()["live"]
    pool.mark()
    action()
    most, taken = pool.marked()
    return most - before, taken
