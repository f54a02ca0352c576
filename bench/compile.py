"""What the first evaluation of an expression costs: planning, code generation, assembling, loading.

    python bench/compile.py [--device cpu,cuda] [--settings NAME=VALUE ...] [--json FILE] [--times N]

Each figure is the median of fresh processes, whose modules Python has compiled before.  The clock starts after the
import, and on a device after its context and the arrays are there; nothing has been evaluated before.  *cold*: nothing
on disk.  *new*: other kernels are on disk, since just before.  *from disk*: by another process with the same cache.
*again*: the same expression in the same process.  *other sizes*: milliseconds and builds (code generated, or loaded) of
the same expression for other extents, alignments and scalars.  *plan*: planning and lowering 500 nodes, and their
replay.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import measure

N = 100_000


def chain(np: Any, a: Any, b: Any, s: float) -> Any:
    """5 operations."""
    return (a * s + b) * a - b * 0.5


def transcendental(np: Any, a: Any, b: Any, s: float) -> Any:
    """5 operations, of which two are functions."""
    return np.exp(a * s) + np.log(b + 2.0)


def normalised(np: Any, a: Any, b: Any, s: float) -> Any:
    """A norm and what needs it."""
    return a * s / np.sqrt((b * b).sum())


def rows(np: Any, a: Any, b: Any, s: float) -> Any:
    """Softmax of rows."""
    m = a[: a.size // 100 * 100].reshape(-1, 100)
    e = np.exp(m * s - m.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def another(np: Any, a: Any, b: Any, s: float) -> Any:
    """An expression that has nothing in common with the others."""
    return np.floor(a) - b


ROWS: dict[str, Callable[..., Any]] = {
    "5 operations": chain, "with exp and log": transcendental, "norm": normalised, "softmax": rows,
}  # fmt: skip
BYTECODE = os.path.join(tempfile.gettempdir(), f"offarray-bench-{os.getpid()}")
SIZES = (100_001, 99_990, 65_536, 120_000, 77_777)


def child(name: str, device: str) -> dict[str, Any]:
    """One fresh process: times of one expression."""
    import numpy

    import offarray as np
    from offarray.runtime import trace

    np.config(device=device, eager_size=0)

    def wait() -> None:
        """Until a device has done everything."""
        if device != "cpu":
            cuda.device().synchronize()

    if device != "cpu":
        from offarray.codegen.compile import device_target
        from offarray.runtime import cuda

        device_target()
    if name == "plan":
        return _planning(np)
    rng = numpy.random.default_rng(0)

    form = ROWS.get(name, another)

    def arrays(n: int) -> tuple[Any, Any]:
        made = np.array(rng.random(n)), np.array(rng.random(n))
        if device != "cpu":
            made = np.to_device(made[0]), np.to_device(made[1])
        wait()
        return made

    def timed(x: tuple[Any, Any], s: float) -> float:
        start = time.perf_counter()
        np.evaluate(form(np, *x, s))
        wait()
        return 1e3 * (time.perf_counter() - start)

    x = arrays(N)
    found: dict[str, Any] = {"first": timed(x, 2.0), "again": min(timed(x, 2.0) for _ in range(5))}
    before = dict(trace.counters)
    sets = [arrays(n) for n in SIZES]
    others = [timed(x, 1.5 + k) for k, x in enumerate(sets)]
    now = trace.counters
    found["others"] = statistics.median(others)
    found["builds"] = sum(now[k] - before.get(k, 0) for k in ("compiles", "cache_hits"))
    return found


def _planning(np: Any) -> dict[str, Any]:
    """Milliseconds of planning and lowering a graph of 500 nodes, without code and execution; then of its replay."""
    from offarray import _evaluate as pipeline

    spent = [0.0]

    def clocked(name: str) -> None:
        plain = getattr(pipeline, name)

        def call(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return plain(*args)
            finally:
                spent[0] += 1e3 * (time.perf_counter() - start)

        setattr(pipeline, name, call)

    def graph(n: int) -> Any:
        a, b = np.ones(n), np.ones(n)
        for k in range(250):
            a = a * 0.5 + b if k % 50 else a.sum() * 0.001 + b
        return a

    def timed(n: int) -> float:
        x = graph(n)
        start = time.perf_counter()
        np.evaluate(x)
        return 1e3 * (time.perf_counter() - start)

    np.config(bound=10_000, bound_bytes=1 << 40)
    timed(1000)
    for name in ("plan", "lower"):
        clocked(name)
    planned = []
    for k in range(7):
        spent[0] = 0.0
        timed(1001 + k)
        planned.append(spent[0])
    return {"first": statistics.median(planned), "again": statistics.median([timed(1007) for _ in range(7)])}


def process(name: str, device: str, cache: str, settings: list[str]) -> dict[str, Any]:
    """What a fresh process found."""
    environment = {**os.environ, "OFFARRAY_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": BYTECODE}
    environment["CUDA_CACHE_DISABLE"] = "1"  # the driver's own memory of what it assembled
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment |= {"OFFARRAY_" + key.upper(): value for key, _, value in (s.partition("=") for s in settings)}
    line = [sys.executable, __file__, "--child", name, device]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, device: str, times: int, settings: list[str]) -> dict[str, Any]:
    """The figures of one expression on one device."""
    kinds: dict[str, list[float]] = {"cold": [], "new": [], "from disk": []}
    for _ in range(times):
        with tempfile.TemporaryDirectory() as cache:
            kinds["cold"].append(process(name, device, cache, settings)["first"])
            last = process(name, device, cache, settings)
            kinds["from disk"].append(last["first"])
        with tempfile.TemporaryDirectory() as cache:
            process("another", device, cache, settings)
            kinds["new"].append(process(name, device, cache, settings)["first"])
    return {"name": name, "device": device, **{kind: statistics.median(v) for kind, v in kinds.items()}, **last}


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help="devices, with commas between")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="settings of offarray")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--times", type=int, default=5, help="processes for each figure")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    told: dict[str, Any] = {
        "benchmark": "compile", "machine": measure.machine([]), "date": datetime.date.today().isoformat(), "rows": [],
    }  # fmt: skip
    devices = [value for key, _, value in (s.partition("=") for s in options.settings) if key == "device"]
    others = [s for s in options.settings if not s.startswith("device=")]
    print("milliseconds          device    cold      new  from disk    again  other sizes  builds")
    for device in devices or options.device.split(","):
        process("another", device, BYTECODE, others)  # Python compiles the modules
        for name in (*ROWS, "plan"):
            found = row(name, device, options.times, others)
            told["rows"].append(found)
            sizes = f"{found['others']:12.2f} {found['builds']:7d}" if "builds" in found else ""
            figures = f"{found['cold']:7.1f} {found['new']:8.1f} {found['from disk']:10.2f} {found['again']:8.2f}"
            print(f"{name:21} {device:6} {figures} {sizes}", flush=True)
    shutil.rmtree(BYTECODE)
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
