"""CUDA C++ of our own (bench/native), compiled by nvcc and launched beside everything else.

in: a row's name, a data type and addresses; out: calls that launch one variant each.
"""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpu_rows import CUBE, POINTS, M, N

from offarray.runtime import cuda

FOLDER = pathlib.Path(__file__).parent / "native"
BLOCK = 256
GRID = 132 * 8  # blocks of the whole-array folds
Call = Callable[[], Any]


def build(arch: str) -> dict[str, bytes]:
    """Machine code of every file, by its stem."""
    with tempfile.TemporaryDirectory() as folder:

        def one(source: pathlib.Path) -> tuple[str, bytes]:
            target = pathlib.Path(folder) / f"{source.stem}.cubin"
            line = ["nvcc", f"-arch={arch}", "-O3", "-std=c++17", "-cubin", str(source), "-o", str(target)]
            subprocess.run(line, check=True, capture_output=True)
            return source.stem, target.read_bytes()

        with ThreadPoolExecutor(8) as pool:
            return dict(pool.map(one, sorted(FOLDER.glob("*.cu"))))


class Natives:
    """All kernels, with the memory that they write."""

    def __init__(self) -> None:
        self.device = cuda.device()
        self.code = build(self.device.arch)
        self.loaded: dict[str, Any] = {}
        self.out = self.device.allocate(16 * N)
        self.states = self.device.allocate(1 << 24)
        self.more = self.device.allocate(1 << 24)
        self.flags = self.device.allocate(1 << 20)
        self.counters = self.device.allocate(1 << 12)
        self.device.clear(self.counters, 1 << 12)

    def _call(self, file: str, name: str, grid: tuple[int, ...], block: int, *words: int) -> Call:
        if name not in self.loaded:
            self.loaded[name] = self.device.load(self.code[file], name)
        function = self.loaded[name]
        return lambda: launch(self.device, function, grid, block, words)

    def variants(self, name: str, dtype: str, at: dict[str, int]) -> dict[str, Call]:
        """Calls of every variant of a row's kernel; `at` has the addresses of its arrays."""
        size = int(dtype[1])
        w, out, folds = 16 // size, self.out, (self.states, self.counters)
        found: dict[str, Call] = {}
        if name in ("copy", "triad", "daxpy", "polynomial", "black_scholes", "complex_multiply"):
            n = N * (2 if name == "complex_multiply" else 1)
            words = {"daxpy": [at.get("a", 0), at.get("y", 0)]}.get(name) or [*at.values(), out]
            for u in (1, 2, 4):
                grid = (-(-n // (BLOCK * w * u)),)
                found[str(u)] = self._call("maps", f"{name}_{dtype}_{u}", grid, BLOCK, *words, N)
        elif name == "eos":
            for u in (1, 2, 4):
                grid = (-(-N // (BLOCK * w * u)),)
                words = [at["a"], at["b"], at["z"], out, N - 6]
                found[str(u)] = self._call("maps", f"eos_{dtype}_{u}", grid, BLOCK, *words)
        elif name in ("dot", "sum", "variance", "argmax"):
            extra = [self.more] if name == "argmax" else []
            words = [*at.values(), out, self.states, *extra, self.counters, N]
            for u in (2, 4, 8):
                found[str(u)] = self._call("folds", f"{name}_{dtype}_{u}", (GRID,), BLOCK, *words)
        elif name == "column_sum":
            for u in (2, 4, 8):
                for shares in (64, 128):
                    grid = (M // (BLOCK * w), shares)
                    call = self._call("folds", f"column_sum_{dtype}_{u}", grid, BLOCK, at["m"], out, *folds, M, M)
                    found[f"{u} {shares}"] = call
        elif name in ("softmax", "layer_norm"):
            for threads in (512, 1024) if dtype == "f8" else (256, 512):
                found[str(threads)] = self._call("rows", f"{name}_{dtype}_{threads}", (M,), threads, at["m"], out)
        elif name == "stencil5":
            for r in (4, 8, 16):
                grid = (-(-(M - 2) // (2 * BLOCK)), -(-(M - 2) // r))
                found[str(r)] = self._call("stencils", f"stencil5_{dtype}_{r}", grid, BLOCK, at["m"], out, M, M)
        elif name == "stencil7":
            planes, rows, width = CUBE
            for r in (4, 8, 16):
                for bx in (32, 64, 128):
                    grid = (-(-(width - 2) // (2 * bx)), -(-(rows - 2) // (BLOCK // bx)), -(-(planes - 2) // r))
                    call = f"stencil7_{dtype}_{r}_{bx}"
                    found[f"{r} {bx}"] = self._call("stencils", call, grid, BLOCK, at["q"], out, *CUBE)
        elif name == "transposed":
            for r in (2, 4, 8):
                grid, call = (M // 32, M // 32), f"transposed_{dtype}_{r}"
                found[str(r)] = self._call("lying", call, grid, 1024 // r, at["m"], out, M)
        elif name == "short_rows":
            for r in (2, 4, 8):
                grid = (N // (w * BLOCK * r),)
                found[str(r)] = self._call("lying", f"short_rows_{dtype}_{r}", grid, BLOCK, at["m"], out, N)
        elif name == "cumsum":
            for k in (4, 8):
                found[str(k)] = self._scan(dtype, k, N // (BLOCK * w * k), at["a"])
        elif name == "pairs":
            for p in (1, 2) if dtype == "f8" else (1, 2, 4):
                for shares in (16, 32):
                    grid = (POINTS // (BLOCK * p), shares)
                    found[f"{p} {shares}"] = self._call(
                        "pairs", f"pairs_{dtype}_{p}", grid, BLOCK, at["p"], out, *folds, POINTS
                    )
        return found

    def _scan(self, dtype: str, k: int, tiles: int, a: int) -> Call:
        words = [a, self.out, self.states, self.more, self.flags + 256, self.flags, N]
        call = self._call("scan", f"cumsum_{dtype}_{k}", (tiles,), BLOCK, *words)

        def both() -> None:
            self.device.clear(self.flags, 256 + 4 * tiles)
            call()

        return both


def launch(device: Any, function: Any, grid: tuple[int, ...], block: int, words: tuple[int, ...]) -> None:
    """Run a kernel whose parameters are all 8 bytes wide, on a grid of up to three dimensions."""
    from array import array

    row = array("Q", words)
    first = row.buffer_info()[0]
    pointers = array("Q", range(first, first + 8 * len(row), 8))
    x, y, z = (*grid, 1, 1)[:3]
    cuda.call("cuLaunchKernel", function, x, y, z, block, 1, 1, 0, device.stream, pointers.buffer_info()[0], 0)
