"""Kernels on a graphics processor against the memory's speed, CUDA C++ of our own, and other libraries, in one run.

    python bench/gpu.py [--json FILE] [--only TEXT] [--peers cupy,jax,torch] [--seconds S]

Milliseconds on the device, by events; medians.  *floor*: the bytes that must move at the rate of a copy measured in the
same run.  *ours*: the launches of an evaluation by themselves.  *evaluation*: evaluations one after another, recording
and warnings included, as a program sees them.  Peers are what a program sees, too.  Peers whose turn comes after S
seconds are left out.  *meets*: "memory" where ours is at most 1.12 times the floor or 1.05 times the native kernel,
"peers" where the best peer takes 1.3 times as long, or as long as leaves it 0.95 of the floor.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

os.environ["OFFARRAY_DEVICE"] = "cuda"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import numpy
from gpu_native import Natives
from gpu_rows import CUBE, POINTS, ROWS, Arrays, Library, M, N, Torch

import offarray as np
from offarray.codegen import gpu_launch
from offarray.codegen.compile import device_target
from offarray.runtime import cuda, residency

Call = Callable[[], Any]
WORTH = 0.02  # seconds that a group of calls should take


class Clock:
    """Events on the stream that offarray uses."""

    def __init__(self) -> None:
        self.device = cuda.device()
        self.events = [cuda.call("cuEventCreate", 0), cuda.call("cuEventCreate", 0)]

    def start(self) -> None:
        """Begin a group of calls."""
        cuda.call("cuEventRecord", self.events[0], self.device.stream)

    def stop(self) -> float:
        """Milliseconds since."""
        cuda.call("cuEventRecord", self.events[1], self.device.stream)
        cuda.call("cuEventSynchronize", self.events[1])
        return float(cuda.call("cuEventElapsedTime", *self.events))


class CupyClock:
    """Events on CuPy's stream."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.events = cupy, [cupy.cuda.Event(), cupy.cuda.Event()]

    def start(self) -> None:
        """Begin a group of calls."""
        self.events[0].record()

    def stop(self) -> float:
        """Milliseconds since."""
        self.events[1].record()
        self.events[1].synchronize()
        return float(self.cupy.cuda.get_elapsed_time(*self.events))


class TorchClock:
    """Events on PyTorch's stream."""

    def __init__(self, torch: Any) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def start(self) -> None:
        """Begin a group of calls."""
        self.events[0].record()

    def stop(self) -> float:
        """Milliseconds since."""
        self.events[1].record()
        self.events[1].synchronize()
        return float(self.events[0].elapsed_time(self.events[1]))


class WallClock:
    """For JAX, which shows no stream: waits for the result of the last call."""

    last: Any = None

    def start(self) -> None:
        """Begin a group of calls."""
        self.begun = time.perf_counter()

    def stop(self) -> float:
        """Milliseconds since."""
        self.last.block_until_ready()
        return 1e3 * (time.perf_counter() - self.begun)


def measure(clock: Any, call: Call, groups: int = 5) -> float:
    """Milliseconds of one call: median of groups of calls, after one group that is not counted."""
    found: list[float] = []
    times = 2
    for k in range(groups + 1):
        clock.start()
        for _ in range(times):
            clock.last = call()
        took = clock.stop() / times
        if k:
            found.append(took)
        else:
            times = max(1, min(30, int(1e3 * WORTH / max(took, 1e-3))))
    clock.last = None
    return statistics.median(found)


# ---------------------------------------------------------------------- arrays
def arrays(dtype: str, seed: int = 0) -> Arrays:
    """Arrays of all rows, on the device."""
    rng = numpy.random.default_rng(seed)
    a, b = np.asarray(rng.random(N)) + 0, np.asarray(rng.random(N)) + 0.5
    p = np.asarray(rng.random((POINTS, 3)))
    made: Arrays = {"a": a.astype(dtype), "b": b.astype(dtype), "p": p.astype(dtype) + 0}
    made["y"], made["z"] = made["b"] * 2, made["a"] * 3
    made["m"] = ((made["a"] - made["b"]) * 4).reshape(M, M)
    made["q"] = made["m"].reshape(CUBE)
    made["i"] = np.array(rng.permutation(M))
    kind = {"f8": "c16", "f4": "c8"}[dtype]
    made["c"], made["d"] = ((made[u] + 1j * made[v]).astype(kind) for u, v in ("ab", "ba"))
    np.evaluate(*made.values())
    return made


def address(x: Any) -> int:
    """Where an array lies on the device."""
    return int(residency.use(x._base.node.buffer, "r")) + int(x._offset)


def shared(x: Any, cupy: Any) -> Any:
    """The same memory as CuPy's array."""
    memory = cupy.cuda.UnownedMemory(address(x), x.nbytes, x)
    return cupy.ndarray(x.shape, str(x.dtype), cupy.cuda.MemoryPointer(memory, 0))


# ---------------------------------------------------------------------- ours
def ours(row: Any, x: Arrays, lib: Library, clock: Clock) -> tuple[dict[str, float], Any]:
    """Launches by themselves, and evaluations."""
    launches: list[Any] = []
    plain = gpu_launch.Start.__call__

    def spy(start: Any, words: list[int]) -> None:
        launches.append((start, list(words)))
        plain(start, words)

    with numpy.errstate(all="ignore"):
        np.evaluate(row.program(x, lib))  # builds
        gpu_launch.Start.__call__ = spy  # type: ignore[method-assign]
        result = np.evaluate(row.program(x, lib))
    gpu_launch.Start.__call__ = plain  # type: ignore[method-assign]
    told: dict[str, float] = {"kernels": len(launches)}

    def again() -> None:
        for start, words in launches:
            plain(start, words)

    told["ours"] = measure(clock, again)
    told["evaluation"] = measure(clock, lambda: np.evaluate(row.program(x, lib)))
    return told, result


def difference(mine: Any, theirs: Any, cupy: Any) -> float:
    """Largest difference, against the largest element."""
    scale = float(abs(theirs).max())
    return float(abs(mine - theirs).max()) / max(scale, 1e-300)


# ---------------------------------------------------------------------- peers
class Cupy:
    """CuPy as it stands."""

    def __init__(self) -> None:
        import cupy

        self.module, self.lib, self.clock = cupy, Library(cupy), CupyClock(cupy)

    def take(self, x: Arrays) -> Arrays:
        """The arrays."""
        return {k: shared(v, self.module) for k, v in x.items()}

    def call(self, row: Any, x: Arrays) -> Call:
        """What is measured."""
        return lambda: row.program(x, self.lib)


class Jax:
    """jax.jit; a result in place of an argument is a donated one."""

    def __init__(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax, self.lib, self.clock = jax, Library(jax.numpy), WallClock()

    def take(self, x: Arrays) -> Arrays:
        """The arrays."""
        import cupy

        return {k: self.jax.dlpack.from_dlpack(shared(v, cupy)) for k, v in x.items()}

    def call(self, row: Any, x: Arrays) -> Call:
        """What is measured."""
        x = {k: x[k] for k in row.needs}
        if "y" not in x:
            compiled = self.jax.jit(lambda x: row.program(x, self.lib))
            return lambda: compiled(x)
        step = self.jax.jit(lambda y, a: row.program({"y": y, "a": a}, self.lib), donate_argnums=0)
        held = {"y": x["y"] + 0}

        def call() -> Any:
            held["y"] = step(held["y"], x["a"])
            return held["y"]

        return call


class TorchPeer:
    """torch.compile, or PyTorch as it stands."""

    def __init__(self, compiled: bool) -> None:
        import torch

        self.torch, self.lib, self.clock = torch, Torch(torch), TorchClock(torch)
        self.compiled = compiled

    def take(self, x: Arrays) -> Arrays:
        """The arrays."""
        import cupy

        return {k: self.torch.from_dlpack(shared(v, cupy)) for k, v in x.items()}

    def call(self, row: Any, x: Arrays) -> Call:
        """What is measured."""
        if not self.compiled:
            return lambda: row.program(x, self.lib)
        self.torch._dynamo.reset()
        names = list(row.needs)
        step = self.torch.compile(lambda *args: row.program(dict(zip(names, args, strict=True)), self.lib))
        args = [x[k] for k in names]
        return lambda: step(*args)


PEERS: dict[str, Callable[[], Any]] = {
    "cupy": Cupy, "jax": Jax, "torch": lambda: TorchPeer(False), "compile": lambda: TorchPeer(True),
}  # fmt: skip


def native(natives: Natives, row: Any, dtype: str, x: Arrays, clock: Clock) -> dict[str, Any]:
    """The best variant of our own CUDA C++."""
    at = {k: address(x[k]) for k in row.needs}
    times = {label: measure(clock, call) for label, call in natives.variants(row.native, dtype, at).items()}
    best = min(times, key=times.__getitem__)
    natives.variants(row.native, dtype, at)[best]()
    return {"native": times[best], "variant": best, "variants": {k: float(f"{v:.4g}") for k, v in times.items()}}


def rates(natives: Natives, x: Arrays, clock: Clock) -> dict[str, float]:
    """Bytes a second of copies, by the driver and by kernels."""
    a = address(x["a"])
    size = x["a"].nbytes
    found = {"driver": 2 * size / measure(clock, lambda: clock.device.move(natives.out, a, size)) / 1e9}
    kind = "f8" if x["a"].itemsize == 8 else "f4"
    for label, call in natives.variants("copy", kind, {"a": a}).items():
        found[f"kernel {label}"] = 2 * size / measure(clock, call) / 1e9
    return {k: round(v, 4) for k, v in found.items()}


# ---------------------------------------------------------------------- all of it
def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure; a part that fails is told and left out."""
    begun = time.perf_counter()
    device_target()
    clock, natives, lib = Clock(), Natives(), Library(np)
    told: dict[str, Any] = {"machine": machine(clock.device), "rows": {}}
    names = [n for n in ROWS if any(part in n for part in options.only.split(","))]
    print(f"built after {time.perf_counter() - begun:.1f} s", flush=True)
    for dtype in ("f8", "f4"):
        x = arrays(dtype)
        if dtype == "f8":
            told["copy TB/s"] = rates(natives, x, clock)
            print("copy TB/s", told["copy TB/s"], f"{time.perf_counter() - begun:.1f} s", flush=True)
        rate = max(told["copy TB/s"].values())
        for name in names:
            _row(told, name, dtype, rate, x, lib, clock, natives)
        print(f"{dtype}: ours and native after {time.perf_counter() - begun:.1f} s", flush=True)
        for peer in [p for p in options.peers.split(",") if p in PEERS]:
            _peer(told, peer, names, dtype, x, begun, options.seconds * (0.6 if dtype == "f8" else 1.0))
            print(f"{dtype}: {peer} after {time.perf_counter() - begun:.1f} s", flush=True)
        del x
    for entry in told["rows"].values():
        _ratios(entry)
    return told


def _row(
    told: dict[str, Any], name: str, dtype: str, rate: float, x: Arrays, lib: Library, clock: Clock, natives: Natives
) -> None:  # fmt: skip
    row = ROWS[name]
    entry: dict[str, Any] = {"floor": row.elements * int(dtype[1]) / rate / 1e9}
    told["rows"][f"{name} {dtype}"] = entry
    try:
        entry |= native(natives, row, dtype, x, clock) if row.native else {}
    except Exception:
        entry["native failed"] = traceback.format_exc()[-700:]
        print(name, entry["native failed"], file=sys.stderr)
    try:
        found, result = ours(row, x, lib, clock)
        entry |= found
        entry["error"] = _check(natives, result) if row.native and "y" not in row.needs else "-"
    except Exception:
        entry["failed"] = traceback.format_exc()[-700:]
        print(name, entry["failed"], file=sys.stderr)


def _check(natives: Natives, result: Any) -> float | str:
    """Our result against the native kernel's, on the device."""
    try:
        import cupy
    except ImportError:
        return "no CuPy to compare with"
    cuda.device().synchronize()
    out = numpy.asarray(result) if not result.ndim else result
    memory = cupy.cuda.UnownedMemory(natives.out, out.nbytes, natives)
    theirs = cupy.ndarray(out.shape, str(out.dtype), cupy.cuda.MemoryPointer(memory, 0))
    mine = shared(out, cupy) if out.ndim else cupy.asarray(out)
    return float(f"{difference(mine, theirs, cupy):.3g}")


def _peer(
    told: dict[str, Any], label: str, names: list[str], dtype: str, x: Arrays, begun: float, until: float
) -> None:
    try:
        peer = PEERS[label]()
        theirs = peer.take(x)
    except Exception as error:
        print(label, repr(error)[:200], file=sys.stderr)
        return
    for name in names:
        if time.perf_counter() - begun > until:
            return
        try:
            start = time.perf_counter()
            call = peer.call(ROWS[name], theirs)
            call()
            first = time.perf_counter() - start
            entry = told["rows"][f"{name} {dtype}"]
            entry[label] = measure(peer.clock, call)
            entry[f"{label} first"] = round(first, 3)
            del call
        except Exception as error:
            told["rows"][f"{name} {dtype}"][f"{label} failed"] = repr(error)[:300]
        if label == "cupy":
            peer.module.get_default_memory_pool().free_all_blocks()
        elif label in ("torch", "compile"):
            peer.torch.cuda.empty_cache()


def _ratios(entry: dict[str, Any]) -> None:
    if "ours" not in entry:
        return
    peers = {p: entry[p] for p in PEERS if p in entry}
    entry["of floor"] = entry["ours"] / entry["floor"]
    if "native" in entry:
        entry["of native"] = entry["ours"] / entry["native"]
        entry["native of floor"] = entry["native"] / entry["floor"]
    if peers:
        entry["peer"] = min(peers, key=peers.__getitem__)
        best = peers[entry["peer"]]
        entry["peer of ours"] = best / entry["ours"]
        entry["target"] = min(1.3, 0.95 * best / entry["floor"])
    near = entry["of floor"] <= 1.12 or entry.get("of native", 9.0) <= 1.05
    ahead = bool(peers) and entry["peer of ours"] >= entry["target"]
    entry["meets"] = " ".join(["memory"] * near + ["peers"] * ahead)
    for key, value in entry.items():
        if isinstance(value, float):
            entry[key] = float(f"{value:.4g}")


def machine(device: Any) -> dict[str, Any]:
    """What was measured, with which versions, and when."""
    import importlib.metadata

    versions = {}
    for name in ("numpy", "llvmlite", "cuda-bindings", "cupy-cuda13x", "jax", "torch", "triton"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": device.name, "arch": device.arch, "driver": int(cuda.call("cuDriverGetVersion")),
        "python": sys.version.split()[0], "versions": versions, "date": datetime.date.today().isoformat(),
    }  # fmt: skip


COLUMNS = ("kernels", "floor", "ours", "of floor", "native", "of native", "peer", "peer of ours", "evaluation", "meets")


def table(told: dict[str, Any]) -> str:
    """Markdown."""
    lines = ["| row | " + " | ".join(COLUMNS) + " |", "| --- " * (1 + len(COLUMNS)) + "|"]
    for name, entry in told["rows"].items():
        cells = []
        for column in COLUMNS:
            value = entry.get(column, "-")
            if column == "peer" and value != "-":
                value = f"{value} {entry[value]:.3f}"
            elif isinstance(value, float):
                value = f"{value:.2f}" if "of" in column else f"{value:.3f}"
            cells.append(str(value))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--only", metavar="TEXT", default="", help="only rows whose name holds TEXT, or one of several")
    parser.add_argument("--peers", default=",".join(PEERS), help="libraries to measure, of those installed")
    parser.add_argument("--seconds", type=float, default=600.0, help="no peer begins after so many seconds")
    options = parser.parse_args()
    told = run(options)
    print(table(told))
    for name, entry in told["rows"].items():
        odd = {k: v for k, v in entry.items() if k in ("error", "variants") or "failed" in k}
        print(name, json.dumps(odd)[:400])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(told, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
