"""What the benchmarks share: fair timing of several callables, facts about the machine, tables and JSON."""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Call = Callable[[], Any]
PEERS = ("numpy", "numexpr", "numba", "jax", "torch")


def arguments(description: str, *more: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """The command line that every benchmark takes, and `more` options of one of them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--only", metavar="TEXT", default="", help="only rows whose name holds TEXT, or one of several")
    parser.add_argument("--peers", default=",".join(PEERS), help="libraries to measure, of those installed")
    parser.add_argument("--seconds", type=float, default=1.0, help="least time spent on one row and library")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="settings of offarray")
    for name, options in more:
        parser.add_argument(name, **options)
    return parser.parse_args()


def apply_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Set offarray's settings; gives all of them, for the record."""
    from offarray.runtime.config import config

    config(**dict(pair.split("=", 1) for pair in pairs))
    found: dict[str, Any] = config.get()
    return found


def machine(libraries: Sequence[str]) -> dict[str, Any]:
    """Facts that a figure needs beside it."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    versions = {}
    for name in ("numpy", "llvmlite", *libraries):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "python": platform.python_version(), "versions": versions}


SAMPLE = 6e-3  # seconds that a sample takes at least, of as many calls as that needs
PAUSE = 3e-3  # threads of other libraries look for work that long before they sleep
LEAST = 5  # samples of each call


def seconds(calls: Mapping[str, Call], budget: float, most: int = 1000) -> dict[str, list[float]]:
    """Times of each call, taken in turn, so that a disturbance meets all of them; at least five of each.

    Every call must have been made once before: what is measured is the warm state.  Before each sample the others'
    threads come to rest, and calls that are not counted bring back what has left the caches meanwhile.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    repeats: dict[str, int] = {}
    gc.collect()
    gc.disable()
    try:
        while any(_wanted(found[name], repeats.get(name, 1), budget, most) for name in calls):
            for name, call in calls.items():
                times = found[name]
                if name in repeats and not _wanted(times, repeats[name], budget, most):
                    continue
                if name not in repeats:
                    repeats[name] = max(1, int(SAMPLE / _time(call, 2)))
                elif len(calls) > 1:
                    time.sleep(PAUSE)
                if repeats[name] > 1:
                    _time(call, (repeats[name] + 1) // 2)
                times.append(_time(call, repeats[name]))
    finally:
        gc.enable()
    return found


def _wanted(times: Sequence[float], repeats: int, budget: float, most: int) -> bool:
    return len(times) < LEAST or (sum(times) * repeats < budget and len(times) < most)


def _time(call: Call, repeats: int) -> float:
    """Seconds of one call, over `repeats` of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def median(times: Sequence[float]) -> float:
    """The middle of the times."""
    return statistics.median(times)


def geomean(values: Sequence[float]) -> float:
    """Geometric mean; NaN of nothing."""
    return statistics.geometric_mean(values) if values else float("nan")


def duration(value: float) -> str:
    """Seconds for people."""
    for unit, scale in (("s ", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.0f} ns"


def kept(path: str | None, rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """These rows, and those of the file that have another key."""
    if not path or not os.path.exists(path):
        return rows
    with open(path) as file:
        before = json.load(file)["rows"]
    fresh = {key(row) for row in rows}
    return [row for row in before if key(row) not in fresh] + rows


def write(path: str | None, told: dict[str, Any]) -> None:
    """Write the results as JSON, if a file was named."""
    if path:
        with open(path, "w") as file:
            json.dump(told, file, indent=1)
            file.write("\n")


def header(told: dict[str, Any], out: Any = sys.stdout) -> None:
    """Machine and settings, above every table."""
    facts = told["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    out.write(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {versions}\n")
    out.write("settings: " + ", ".join(f"{k}={v}" for k, v in told["settings"].items()) + "\n\n")
