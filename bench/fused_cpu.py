"""Fused expressions on large arrays, against NumPy and the libraries that are installed, in one process.

    python bench/fused_cpu.py [--json FILE] [--peers numpy,numexpr] [--only TEXT] [--settings name=value ...]

The programs stand in bench/rows.py.  Every library gets NumPy's arrays before the clock starts, is called once to
compile, and must give NumPy's result; then calls are timed in turn and the median counts.  NumPy's default errstate
is on.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from typing import Any

import measure
import numpy
from rows import ROWS, Row

import offarray
from offarray.runtime import trace

TOLERANCE = {"f": 1e-5, "d": 1e-10}


def bound(row: Row, library: Any) -> Any:
    """The row's function with `library` for np."""
    namespace: dict[str, Any] = {"np": library}
    exec(compile(row.body, f"<{row.name}>", "exec"), namespace)
    return namespace["f"]


def _offarray(row: Row, args: tuple[Any, ...]) -> Any:
    function, given = bound(row, offarray), [offarray.array(a) for a in args]
    return lambda: offarray.evaluate(function(*given))


def _numexpr(row: Row, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("numexpr")
    if not row.numexpr:
        return None
    names = row.body[row.body.index("(") + 1 : row.body.index(")")].split(", ")
    given = dict(zip(names, args, strict=True))
    return lambda: module.evaluate(row.numexpr, local_dict=given)


def _numba(row: Row, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("numba")
    function = module.njit(parallel=True, error_model="numpy")(bound(row, numpy))
    return lambda: function(*args)


def _jax(row: Row, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("jax")
    module.config.update("jax_enable_x64", True)
    if not row.jax:
        return None
    function, given = module.jit(bound(row, module.numpy)), [module.numpy.asarray(a) for a in args]
    return lambda: function(*given).block_until_ready()


def _torch(row: Row, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("torch")
    if not row.torch:
        return None
    function, given = bound(row, module), [module.from_numpy(a) for a in args]
    return lambda: function(*given)


MAKERS = {"offarray": _offarray, "numexpr": _numexpr, "numba": _numba, "jax": _jax, "torch": _torch}


def wrong(result: Any, expected: Any) -> str:
    """Why `result` is not NumPy's, "" if it is."""
    a, b = numpy.asarray(result), numpy.asarray(expected)
    if a.shape != b.shape:
        return f"shape {a.shape}"
    tolerance = TOLERANCE.get(b.dtype.char, 0.0)
    scale = numpy.abs(b).max(initial=0) if tolerance else 1
    gap = numpy.abs(a.astype(b.dtype) - b).max(initial=0)
    return "" if gap <= tolerance * scale else f"differs by {float(gap):.3g}"


def run_row(row: Row, peers: list[str], budget: float) -> dict[str, Any]:
    """Measure one row."""
    args = row.setup(numpy.random.default_rng(1))
    plain = bound(row, numpy)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # a row that warns is not what it says
        expected = plain(*args)
    calls: dict[str, measure.Call] = {"numpy": lambda: plain(*args)}
    told: dict[str, Any] = {"name": row.name, "notes": {}, "first_call": {}}
    for name in ["offarray", *(p for p in peers if p != "numpy")]:
        try:
            call = MAKERS[name](row, args)
            if call is None:
                continue
            start = time.perf_counter()
            before = trace.stats()
            result = call()
            told["first_call"][name] = time.perf_counter() - start
        except Exception as error:  # a library that cannot run the row as it is written
            if name == "offarray":
                raise
            told["notes"][name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
            continue
        if name == "offarray":
            told["counters"] = {k: v - before[k] for k, v in trace.stats().items()}
        problem = wrong(result, expected)
        if problem:
            told["notes"][name] = problem
        else:
            calls[name] = call
    times = measure.seconds(calls, budget)
    told["median"] = {name: measure.median(t) for name, t in times.items()}
    told["least"] = {name: min(t) for name, t in times.items()}
    told["ratio"] = {name: told["median"]["numpy"] / t for name, t in told["median"].items() if name != "numpy"}
    return told


def installed(wanted: str) -> list[str]:
    """The peers that can be imported."""
    found = []
    for name in wanted.split(","):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        found.append(name)
    return found


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(__doc__ or "")
    peers = installed(options.peers)
    told: dict[str, Any] = {
        "benchmark": "fused_cpu",
        "machine": measure.machine(peers),
        "settings": measure.apply_settings(options.settings),
        "rows": [],
    }
    names = ["offarray", *(p for p in peers if p != "numpy")]
    measure.header(told)
    print(f"{'row':<28} {'numpy':>9} " + " ".join(f"{n:>17}" for n in names) + f" {'kernels':>8} {'cold':>9}")
    for row in ROWS:
        if options.only not in row.name:
            continue
        found = run_row(row, peers, options.seconds)
        told["rows"].append(found)
        cells = [
            f"{measure.duration(found['median'][n])} {found['ratio'][n]:>6.2f}x" if n in found["ratio"] else "-"
            for n in names
        ]
        print(
            f"{row.name:<28} {measure.duration(found['median']['numpy']):>9} " + " ".join(f"{c:>17}" for c in cells)
            + f" {found['counters']['kernels']:>8} {measure.duration(found['first_call']['offarray']):>9}"
        )  # fmt: skip
        for name, note in found["notes"].items():
            print(f"    {name}: {note}")
        sys.stdout.flush()
    for name in names:
        ratios = [r["ratio"][name] for r in told["rows"] if name in r["ratio"]]
        if ratios:
            mean = told.setdefault("geomean", {})[name] = measure.geomean(ratios)
            print(f"{name}: {mean:.2f} times NumPy's speed over {len(ratios)} rows, least {min(ratios):.2f}")
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
