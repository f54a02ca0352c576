"""Whole loops on a device and on the processor: time of a step, and the bytes that crossed between them.

OFFARRAY_DEVICE=cuda python bench/gpu_loops.py [side]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

import offarray as np
from offarray.runtime import trace

SIDE = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
SHOWN = ("kernels", "h2d_bytes", "d2h_bytes", "host_bytes", "evaluations", "compiles")


def heat(np: Any, steps: int) -> Any:
    """Explicit diffusion in place."""
    u = np.zeros((SIDE, SIDE)) + np.arange(SIDE) * 1e-3
    u[SIDE // 2, SIDE // 2] = 1.0
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


def laplacian(np: Any, a: Any) -> Any:
    """Periodic."""
    return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a


def reaction(np: Any, steps: int) -> Any:
    """Two reacting substances."""
    u, v = np.ones((SIDE, SIDE)), np.ones((SIDE, SIDE)) * 0.1
    for _ in range(steps):
        r = u * v * v
        u, v = u + 0.16 * laplacian(np, u) - r + 0.035 * (1 - u), v + 0.08 * laplacian(np, v) + r - 0.1 * v
    return u + v


def moments(np: Any, steps: int) -> Any:
    """An optimiser with moments, which looks at a mean in each step."""
    x = np.arange(SIDE * SIDE) / (SIDE * SIDE)
    m, v = np.zeros(SIDE * SIDE), np.zeros(SIDE * SIDE)
    for _ in range(steps):
        g = x - 0.5
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        x = x - 0.01 * m / (np.sqrt(v) + 1e-8)
        if float((g * g).mean()) < 0:
            break
    return x


def report(name: str, loop: Callable[[Any, int], Any], steps: int) -> None:
    """Time of a step, after a few."""
    np.evaluate(loop(np, 4))
    trace.reset()
    start = time.perf_counter()
    result = np.evaluate(loop(np, steps))
    first = float(result.ravel()[7])
    elapsed = time.perf_counter() - start
    error = abs(first - float(loop(numpy, steps).ravel()[7])) if SIDE <= 1024 else 0.0
    counted = {k: v for k, v in np.stats().items() if k in SHOWN}
    print(f"{name:9} {1e3 * elapsed / steps:9.3f} ms a step {counted} error {error:.1e}", flush=True)


if __name__ == "__main__":
    for function in (heat, reaction, moments):
        report(function.__name__, function, 50)
