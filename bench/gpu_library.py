"""Library steps on a device beside CuPy, PyTorch and NumPy on the host: python bench/gpu_library.py [--json FILE].

Each call starts with its operands on the device and ends when the device has finished; medians in milliseconds.  The
time of a first call, which builds or plans, is given apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OFFARRAY_DEVICE", "cuda")
import numpy

import offarray as np
from offarray.runtime import cuda

SECONDS = 0.4  # spent on one row and library
Run = Callable[[Any], Any]
rng = numpy.random.default_rng(0)


def normal(*shape: int, dtype: str = "f8") -> Any:
    return rng.standard_normal(shape, dtype="f4" if dtype in ("f4", "c8") else "f8").astype(dtype)


def spd(n: int) -> Any:
    a = normal(n, n)
    return a + a.T + n * numpy.eye(n)


# name -> (operands, what runs on them given the library's namespace, whether NumPy is fast enough to be asked)
ROWS: dict[str, tuple[Callable[[], tuple[Any, ...]], Callable[..., Any], bool]] = {
    "matmul 8192, f4": (lambda: (normal(8192, 8192, dtype="f4"),) * 2, lambda x, a, b: x.matmul(a, b), False),
    "matmul 8192, f8": (lambda: (normal(8192, 8192),) * 2, lambda x, a, b: x.matmul(a, b), False),
    "matmul 4096, c16": (lambda: (normal(4096, 4096, dtype="c16"),) * 2, lambda x, a, b: x.matmul(a, b), False),
    "matrix and vector 16384, f4": (
        lambda: (normal(16384, 16384, dtype="f4"), normal(16384, dtype="f4")), lambda x, a, b: x.matmul(a, b), True,
    ),
    "4096 products of 64 x 64, f4": (
        lambda: (normal(4096, 64, 64, dtype="f4"),) * 2, lambda x, a, b: x.matmul(a, b), True,
    ),
    "einsum bij,bkj->bik": (
        lambda: (normal(64, 512, 512), normal(64, 512, 512)), lambda x, a, b: x.einsum("bij,bkj->bik", a, b), True,
    ),
    "fft 2^24, c16": (lambda: (normal(1 << 24).astype("c16"),), lambda x, a: x.fft.fft(a), True),
    "rfft 4096 x 4096, f4": (lambda: (normal(4096, 4096, dtype="f4"),), lambda x, a: x.fft.rfft(a), True),
    "fft2 4096 x 4096, c16": (lambda: (normal(4096, 4096).astype("c16"),), lambda x, a: x.fft.fft2(a), True),
    "solve 4096": (lambda: (normal(4096, 4096), normal(4096, 16)), lambda x, a, b: x.linalg.solve(a, b), True),
    "solve 4096 of 32 x 32": (
        lambda: (normal(4096, 32, 32), normal(4096, 32, 1)), lambda x, a, b: x.linalg.solve(a, b), True,
    ),
    "inv 2048": (lambda: (normal(2048, 2048),), lambda x, a: x.linalg.inv(a), True),
    "cholesky 8192": (lambda: (spd(8192),), lambda x, a: x.linalg.cholesky(a), False),
    "qr 4096 x 1024": (lambda: (normal(4096, 1024),), lambda x, a: x.linalg.qr(a), True),
    "svd 1024": (lambda: (normal(1024, 1024),), lambda x, a: x.linalg.svd(a), True),
    "eigh 2048": (lambda: (spd(2048),), lambda x, a: x.linalg.eigh(a), True),
    "sort 10^7, f8": (lambda: (normal(10**7),), lambda x, a: x.sort(a), True),
    "sort 10^7, f4": (lambda: (normal(10**7, dtype="f4"),), lambda x, a: x.sort(a), True),
    "sort rows 4096 x 4096, f4": (lambda: (normal(4096, 4096, dtype="f4"),), lambda x, a: x.sort(a), True),
    "argsort 10^7, f8": (lambda: (normal(10**7),), lambda x, a: x.argsort(a), True),
    "unique of 10^7 integers": (lambda: (rng.integers(0, 10**6, 10**7),), lambda x, a: x.unique(a), True),
    "a[a > 0], 2^26, f4": (lambda: (normal(1 << 26, dtype="f4"),), lambda x, a: a[a > 0], True),
    "searchsorted 10^7 in 10^6": (
        lambda: (numpy.sort(normal(10**6)), normal(10**7)), lambda x, a, b: x.searchsorted(a, b), True,
    ),
    "histogram 10^7, 100 bins": (lambda: (normal(10**7),), lambda x, a: x.histogram(a, 100), True),
    "median 10^7": (lambda: (normal(10**7),), lambda x, a: x.median(a), True),
}  # fmt: skip


def draws(space: Any, n: int) -> Any:
    """Uniform numbers by each library's own usual generator."""
    if hasattr(space, "torch"):
        return space.torch.rand(n, dtype=space.torch.float64, device="cuda")
    return space.random.default_rng(1).random(n)


def normals(space: Any, n: int) -> Any:
    if hasattr(space, "torch"):
        return space.torch.randn(n, dtype=space.torch.float64, device="cuda")
    return space.random.default_rng(1).standard_normal(n)


ROWS["random 10^8"] = lambda: (), lambda x: draws(x, 10**8), False
ROWS["random 10^7"] = lambda: (), lambda x: draws(x, 10**7), True
ROWS["standard_normal 10^7 (fast)"] = lambda: (), lambda x: normals(x, 10**7), True


class Torch:
    """PyTorch under NumPy's names."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.linalg, self.fft = torch, torch.linalg, torch.fft

    def sort(self, a: Any) -> Any:
        return self.torch.sort(a).values

    def unique(self, a: Any) -> Any:
        return self.torch.unique(a)

    def histogram(self, a: Any, bins: int) -> Any:
        return self.torch.histc(a, bins)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)


def libraries(names: str) -> dict[str, tuple[Any, Run, Callable[[], None], Run]]:
    """Namespace, door to the device, wait, and what brings a result about, of each library that is installed."""
    found: dict[str, tuple[Any, Run, Callable[[], None], Run]] = {}
    if "offarray" in names:
        found["offarray"] = np, lambda a: np.evaluate(np.array(a) + a.dtype.type(0)), _wait, _finish
    if "cupy" in names:
        cupy = importlib.import_module("cupy")
        found["cupy"] = cupy, cupy.asarray, cupy.cuda.Device().synchronize, lambda r: r
    if "torch" in names:
        torch = importlib.import_module("torch")
        found["torch"] = Torch(torch), lambda a: torch.from_numpy(a.copy()).cuda(), torch.cuda.synchronize, lambda r: r
    if "numpy" in names:
        found["numpy"] = numpy, lambda a: a, lambda: None, lambda r: r
    return found


def _wait() -> None:
    cuda.device().synchronize()


def _finish(made: Any) -> Any:
    parts = made if isinstance(made, tuple) else (made,)
    return np.evaluate(*[p for p in parts if type(p) is np.ndarray])


def measure(space: Any, operands: Any, run: Any, wait: Any, finish: Any) -> dict[str, float]:
    """Milliseconds of the first call, and the median of the others."""
    times = []
    begun = time.perf_counter()
    while len(times) < 2 or (time.perf_counter() - begun < SECONDS and len(times) < 50):
        start = time.perf_counter()
        finish(run(space, *operands))
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return {"first": round(times[0], 3), "ms": round(statistics.median(times[1:]), 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--only", default="", help="rows whose name matches this pattern")
    parser.add_argument("--peers", default="offarray,cupy,torch,numpy")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop to start rows after so many")
    options = parser.parse_args()
    np.config(random="fast")
    rows: dict[str, Any] = {}
    spaces = libraries(options.peers)
    begun = time.perf_counter()
    for name, (make, run, by_numpy) in ROWS.items():
        if not re.search(options.only, name) or time.perf_counter() - begun > options.seconds:
            continue
        given = make()
        rows[name] = {}
        for library, (space, door, wait, finish) in spaces.items():
            if library == "numpy" and not by_numpy:
                continue
            try:
                operands = tuple(map(door, given))
                rows[name][library] = measure(space, operands, run, wait, finish)
                del operands
            except Exception as error:
                rows[name][library] = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(f"{name:32}", {k: v.get("ms", v.get("error")) for k, v in rows[name].items()}, flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"device": cuda.device().name, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
