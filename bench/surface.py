"""The functions that scripts use, one by one, against NumPy in the same process.

    python bench/surface.py [--quick] [--device cuda] [--sizes 1e3,1e5] [--only TEXT] [--json FILE] [name=value ...]

The rows stand in bench/surface_rows.py.  Both libraries get their arrays before the clock starts; results are
evaluated, and a device has finished them, before it stops.  Each row is called once before, checked against NumPy, and
then timed in turn with NumPy; medians count.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
import warnings
from typing import Any

import measure
import numpy
from surface_rows import QUICK, ROWS, Row

import offarray
from offarray import _handle
from offarray.runtime import cuda, trace
from offarray.runtime.config import settings

SIZES = (1_000, 100_000, 10_000_000)


def finished(value: Any) -> Any:
    """`value` with every array in it evaluated, together, and the device idle."""
    offarray.evaluate(*(value if type(value) in (tuple, list) else (value,)))
    if settings.device.startswith("cuda"):
        cuda.device().synchronize()
    return value


def wrong(got: Any, want: Any, close: float) -> str:
    """Why `got` is not `want`, "" if it is."""
    if type(want) in (tuple, list):
        return next(filter(None, (wrong(g, w, close) for g, w in zip(got, want, strict=True))), "")
    a, b = numpy.asarray(got), numpy.asarray(want)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    if b.dtype.kind not in "fc":
        return "" if numpy.array_equal(a, b) else "other values"
    scale = float(numpy.nanmax(numpy.abs(b), initial=0))
    return "" if numpy.allclose(a, b, rtol=close, atol=close * max(scale, 1e-30), equal_nan=True) else "other values"


def times_of(calls: dict[str, measure.Call], budget: float) -> dict[str, list[float]]:
    """Times of each call, taken in turn; dear ones are measured twice only."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    try:
        while any(len(t) < 2 or (sum(t) < budget and len(t) < 200) for t in found.values()):
            for name, call in calls.items():
                start = time.perf_counter()
                result = call()
                found[name].append(time.perf_counter() - start)
                del result
    finally:
        gc.enable()
    return found


def run_row(row: Row, n: int, budget: float, once: bool = False) -> dict[str, Any]:
    """Measure one row at one size; `once`: NumPy's call that gives the values to compare with is its time too."""
    args = row.setup(numpy.random.default_rng(1), n)
    mine = [offarray.array(a) if isinstance(a, numpy.ndarray) else a for a in args]
    theirs = [a.copy() if isinstance(a, numpy.ndarray) else a for a in args]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        start = time.perf_counter()
        want = row.call(numpy, *theirs)
        only = time.perf_counter() - start
        if once and only < 0.2:  # the first call may have met fresh pages
            start = time.perf_counter()
            row.call(numpy, *theirs)
            only = min(only, time.perf_counter() - start)
        start = time.perf_counter()
        got = finished(row.call(offarray, *mine))
        first = time.perf_counter() - start
    told: dict[str, Any] = {"name": row.name, "n": n, "first": first, "wrong": wrong(got, want, row.close)}
    del got, want
    if first < 1.0:
        finished(row.call(offarray, *mine))  # what a first call learned
    before = trace.stats()
    finished(row.call(offarray, *mine))
    told["counters"] = {k: v - before[k] for k, v in trace.stats().items() if v != before[k]}
    calls: dict[str, measure.Call] = {
        "numpy": lambda: row.call(numpy, *theirs),
        "offarray": lambda: finished(row.call(offarray, *mine)),
    }
    if once:
        del calls["numpy"]
    times = times_of(calls, budget)
    times.setdefault("numpy", [only])
    told["median"] = {name: measure.median(t) for name, t in times.items()}
    told["least"] = {name: min(t) for name, t in times.items()}
    told["ratio"] = told["median"]["numpy"] / told["median"]["offarray"]
    told["ratio_least"] = told["least"]["numpy"] / told["least"]["offarray"]
    return told


def sizes(row: Row, wanted: list[int]) -> list[int]:
    """Sizes of a row, its greatest in place of those beyond it."""
    return sorted({min(n, row.most) for n in wanted})


def summary(rows: list[dict[str, Any]], wanted: list[int]) -> dict[str, Any]:
    """Geometric means by size (a row's greatest size counts for those beyond it), and the rows below 0.8."""
    told: dict[str, Any] = {"all": measure.geomean([r["ratio"] for r in rows])}
    for n, below in zip(wanted, [0, *wanted], strict=False):
        told[f"{n:g}"] = measure.geomean([r["ratio"] for r in rows if below < r["n"] <= n])
    slow = [r for r in rows if r["n"] >= 100_000 and r["ratio"] < 0.8]
    told["slow"] = {f"{r['name']} {r['n']:g}": round(r["ratio"], 2) for r in slow}
    told["wrong"] = {f"{r['name']} {r['n']:g}": r["wrong"] for r in rows if r["wrong"]}
    return told


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the rows whose name holds TEXT")
    parser.add_argument("--quick", action="store_true", help="ten rows, at 1e5 elements at most")
    parser.add_argument("--sizes", default=",".join(f"{n:g}" for n in SIZES), help="numbers of elements")
    parser.add_argument("--device", default="", help="where offarray's kernels run; NumPy stays on the processor")
    parser.add_argument("--seconds", type=float, default=0.25, help="least time spent on one row and library")
    parser.add_argument("--limit", type=float, default=0.0, help="seconds after which no further row is begun")
    parser.add_argument("--once", action="store_true", help="NumPy is called once only")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="only every Nth row, from the Kth on")
    parser.add_argument("settings", nargs="*", metavar="name=value", help="settings of offarray")
    return parser.parse_args()


def main() -> int:
    """Measure every row and tell; fails if a value is wrong."""
    options = _options()
    pairs = [*options.settings, *([f"device={options.device}"] if options.device else [])]
    wanted = sorted(int(float(n)) for n in options.sizes.split(","))
    if options.quick:
        wanted = [n for n in wanted if n <= 100_000]
    told: dict[str, Any] = {
        "benchmark": "surface",
        "machine": measure.machine([]),
        "front_end": "compiled" if _handle.COMPILED else "Python",
        "settings": measure.apply_settings(pairs),
        "rows": [],
    }
    measure.header(told)
    heads = zip(
        ("numpy", "offarray", "ratio", "least", "kernels", "library", "first"), (9, 9, 7, 7, 7, 9, 9), strict=True
    )
    print(f"{'row':<20} {'n':>6} " + " ".join(f"{name:>{width}}" for name, width in heads))
    start = time.perf_counter()
    first, every = map(int, options.part.split("/"))
    for row in ROWS[first::every]:
        if options.only not in row.name or (options.quick and row.name not in QUICK):
            continue
        for n in sizes(row, wanted):
            if options.limit and time.perf_counter() - start > options.limit:
                told.setdefault("left", []).append(f"{row.name} {n:g}")
                continue
            _tell(row, n, options, told)
    told["summary"] = summary(told["rows"], wanted)
    for name, value in told["summary"].items():
        print(f"{name}: {value if isinstance(value, dict) else round(value, 3)}")
    measure.write(options.json, told)
    return 1 if told["summary"]["wrong"] or told.get("failed") else 0


def _tell(row: Row, n: int, options: argparse.Namespace, told: dict[str, Any]) -> None:
    try:
        found = run_row(row, n, options.seconds, options.once)
    except Exception as error:
        told.setdefault("failed", {})[f"{row.name} {n:g}"] = f"{type(error).__name__}: {error}"
        print(f"{row.name:<20} {n:>6.0e} failed: {traceback.format_exc()}")
        return
    told["rows"].append(found)
    times, counters = found["median"], found["counters"]
    cells = [
        f"{row.name:<20} {n:>6.0e} {measure.duration(times['numpy']):>9} {measure.duration(times['offarray']):>9}",
        f"{found['ratio']:>6.2f}x {found['ratio_least']:>6.2f}x {counters.get('kernels', 0):>7}",
        f"{counters.get('library_bytes', 0):>9.2g} {measure.duration(found['first']):>9}",
        f" WRONG: {found['wrong']}" if found["wrong"] else "",
        f" fallbacks: {counters['fallbacks']}" if counters.get("fallbacks") else "",
    ]
    print(" ".join(cells).rstrip())
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
