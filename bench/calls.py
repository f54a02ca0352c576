"""What a small evaluation costs the host on a device, where the call is the cost: offarray, CuPy and PyTorch.

    python bench/calls.py [--json FILE] [--only TEXT] [--settings name=value ...]

Arrays of 64 numbers, every operation on the device.  *host*: microseconds until the call has returned, the work
being under way; *end*: until the device is done, of many in a row.  Rows that end with a look at a number wait each
time.  `launches` counts those of offarray.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import measure

import offarray
from offarray import _direct
from offarray.runtime import cuda, trace

N = 64
TURNS = 400  # repetitions in a row: below what the driver's queue takes
ROUNDS = 9


class Shape:
    """The arrays of one library."""

    def __init__(self, np: Any, array: Callable[[list[float]], Any]) -> None:
        self.np = np
        self.a, self.b = (array([1.0 + k / 64 + n for k in range(N)]) for n in range(2))
        self.m = array([float(k) for k in range(N)]).reshape(8, 8)


# name, what is done; the result is asked for
ROWS: dict[str, Callable[[Shape], Any]] = {
    "a + b": lambda s: s.a + s.b,
    "a * 2 + b": lambda s: s.a * 2.0 + s.b,
    "chain of 8": lambda s: ((s.a + s.b) * s.a - s.b) / 2.0 + s.a * s.b - 1.0 + s.a,
    "exp": lambda s: s.np.exp(s.a),
    "rows": lambda s: (s.m * 2.0).sum(1),
    "window": lambda s: s.m[1:-1, 1:-1] + s.m[:-2, 1:-1],
    "in place": lambda s: s.b.__imul__(1.0),
    "part in place": lambda s: s.m.__setitem__((slice(1, -1), slice(1, -1)), s.m[:-2, 1:-1] * 0.5),
    "float of a sum": lambda s: float(s.a.sum()),
    "float of an element": lambda s: float((s.a + s.b)[3]),
}


def spent(call: Callable[[], Any], wait: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one call, to its return and to the end of the work; medians of some rounds."""
    for _ in range(20):
        call()
    host, end = [], []
    for _ in range(ROUNDS):
        wait()
        start = time.perf_counter()
        for _ in range(TURNS):
            call()
        middle = time.perf_counter()
        wait()
        host.append((middle - start) / TURNS)
        end.append((time.perf_counter() - start) / TURNS)
    return statistics.median(host), statistics.median(end)


def libraries() -> dict[str, tuple[Shape, Callable[[], Any]]]:
    """The arrays of each library that is there, and what waits for its work."""
    ours = Shape(offarray, lambda v: offarray.evaluate(offarray.array(v) * 1.0))
    found: dict[str, tuple[Shape, Callable[[], Any]]] = {"offarray": (ours, cuda.device().synchronize)}
    try:
        import cupy

        found["cupy"] = Shape(cupy, cupy.array), cupy.cuda.Device().synchronize
    except ImportError:
        pass
    try:
        import torch

        made = Shape(torch, lambda v: torch.tensor(v, dtype=torch.float64, device="cuda"))
        found["torch"] = made, torch.cuda.synchronize
    except ImportError:
        pass
    return found


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(__doc__ or "")
    pairs = ["device=cuda", "eager_size=0", *options.settings]
    told: dict[str, Any] = {
        "benchmark": "calls", "machine": measure.machine(["cupy-cuda13x", "torch"]),
        "settings": measure.apply_settings(pairs), "compiled": not (_direct.__file__ or "").endswith(".py"), "rows": [],
    }  # fmt: skip
    measure.header(told)
    there = libraries()
    print(f"front end {'compiled' if told['compiled'] else 'in Python'}; microseconds, host / end")
    print(f"{'row':<20} {'launches':>8} " + " ".join(f"{name:>17}" for name in there), flush=True)
    for name, work in ROWS.items():
        if options.only not in name:
            continue
        row: dict[str, Any] = {"name": name}
        for library, (shape, wait) in there.items():

            def call(work: Any = work, shape: Shape = shape, mine: bool = library == "offarray") -> None:
                made = work(shape)
                if mine and made is not None and not isinstance(made, float):
                    offarray.evaluate(made)

            row[library] = [1e6 * t for t in spent(call, wait)]
            if library == "offarray":
                before = trace.stats()["kernels"]
                call()
                row["launches"] = trace.stats()["kernels"] - before
        told["rows"].append(row)
        cells = " ".join(f"{row[library][0]:>8.1f} {row[library][1]:>8.1f}" for library in there)
        print(f"{name:<20} {row['launches']:>8} {cells}", flush=True)
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
