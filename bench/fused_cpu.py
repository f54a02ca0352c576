"""Fused expressions against NumPy and the libraries that are installed, in one process.

    python bench/fused_cpu.py [--json FILE] [--peers numpy,numexpr] [--only TEXT] [--sizes 1e5] [--dtypes f8]
                              [--settings name=value ...]

The programs stand in bench/rows.py.  Every library gets arrays of its own before the clock starts, is called once to
compile, and must give NumPy's result; then calls are timed in turn and the median counts.  NumPy's default errstate
is on.  With --json over an existing file only the rows measured now are replaced.  What PyTorch compiles is kept in a
folder under the temporary one, as it is not timed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import pathlib
import sys
import tempfile
import time
import warnings
from functools import cache
from typing import Any

import measure
import numpy
from rows import ROWS, Row

import offarray
from offarray.runtime import trace

SIZES = "1e3,1e5,1e7"
EXACT = {"f4": 1e-5, "f8": 1e-10}  # of the largest element
SUMS = {"f4": 5e-3, "f8": 1e-9}  # of sums one after the other, as some libraries associate them
KEPT = pathlib.Path(tempfile.gettempdir()) / "offarray-bench"


def source(row: Row, library: str, dtype: str) -> str:
    """The row's function for a library; for numba single precision's numbers are single."""
    text = row.forms.get(library, row.body)
    return text if library != "numba" or dtype != "f4" else ast.unparse(_Single().visit(ast.parse(text)))


class _Single(ast.NodeTransformer):
    """Numbers as float32: numba takes a literal as a double, and all that it meets with it."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(f"single({node.value!r})", mode="eval").body if type(node.value) is float else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return node if getattr(node.targets[0], "id", "").isupper() else self.generic_visit(node)


def bound(text: str, library: Any, **more: Any) -> Any:
    """The function with `library` for np, in a file, so that it can be kept when compiled."""
    path = KEPT / f"row_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    namespace: dict[str, Any] = {"np": library, "__name__": path.stem, "__file__": str(path), **more}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace["f"]


def _flat(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _numpy(text: str, args: tuple[Any, ...]) -> Any:
    function = bound(text, numpy)
    return lambda: function(*args)


def _offarray(text: str, args: tuple[Any, ...]) -> Any:
    function, given = bound(text, offarray), [offarray.array(a) for a in args]

    def call() -> Any:
        result = function(*given)
        offarray.evaluate(*result) if type(result) is tuple else offarray.evaluate(result)
        return result

    return call


def _numexpr(text: str, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("numexpr")
    if "def f" in text:
        return None
    given = dict(zip("abcd" if "x" not in text.replace("exp", "") else "x", args, strict=False))
    return lambda: module.evaluate(text, local_dict=given)


def _numba(text: str, args: tuple[Any, ...]) -> Any:
    function = _compiled(text)
    return lambda: function(*args)


@cache
def _compiled(text: str) -> Any:
    """numba's function, for arrays of any size."""
    module = importlib.import_module("numba")
    function = bound(text, numpy, prange=module.prange, single=numpy.float32)
    return module.njit(parallel=True, error_model="numpy")(function)


def _jax(text: str, args: tuple[Any, ...]) -> Any:
    module = importlib.import_module("jax")
    module.config.update("jax_enable_x64", True)
    module.config.update("jax_platforms", "cpu")
    function, given = module.jit(bound(text, module.numpy)), [module.numpy.asarray(a) for a in args]
    return lambda: module.block_until_ready(function(*given))


TORCH = {"form": "compile"}


def _torch(text: str, args: tuple[Any, ...]) -> Any:
    """Compiled, unless that fails or --torch eager was given."""
    module = importlib.import_module("torch")
    eager, given = bound(text, module), [module.from_numpy(a) for a in args]
    if TORCH["form"] == "compile":
        module._dynamo.reset()
        compiled = module.compile(eager, dynamic=False)
        try:
            with module.no_grad():
                compiled(*[a.clone() for a in given])
            return lambda: compiled(*given)
        except Exception as error:
            print(f"    torch.compile: {type(error).__name__}", file=sys.stderr)
    return lambda: eager(*given)


MAKERS = {"numpy": _numpy, "offarray": _offarray, "numexpr": _numexpr, "numba": _numba, "jax": _jax, "torch": _torch}


def wrong(result: Any, expected: Any, tolerance: float) -> str:
    """Why `result` is not NumPy's, "" if it is."""
    for given, wanted in zip(_flat(result), _flat(expected), strict=False):
        a, b = numpy.asarray(given), numpy.asarray(wanted)
        if a.shape != b.shape:
            return f"shape {a.shape}"
        floats = b.dtype.kind == "f"
        scale = float(numpy.abs(b).max(initial=0)) if floats else 1.0
        gap = float(numpy.abs(a.astype("f8" if floats else b.dtype) - b).max(initial=0))
        if not gap <= (tolerance * scale if floats else 0.0):
            return f"differs by {gap / scale:.3g}"
    return ""


def run_row(row: Row, dtype: str, n: int, peers: list[str], budget: float) -> dict[str, Any]:
    """Measure one row at one size."""
    args = row.setup(numpy.random.default_rng(1), n, dtype)
    told: dict[str, Any] = {
        "name": row.name,
        "dtype": dtype,
        "n": n,
        "torch": TORCH["form"],
        "notes": {},
        "first_call": {},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # a row that warns is not what it says
        expected = bound(row.body, numpy)(*[a.copy() for a in args])
    calls: dict[str, measure.Call] = {}
    for name in ["numpy", "offarray", *(p for p in peers if p != "numpy")]:
        try:
            call = MAKERS[name](source(row, name, dtype), tuple(a.copy() for a in args))
            if call is None:
                continue
            start = time.perf_counter()
            result = call()
            told["first_call"][name] = time.perf_counter() - start
        except Exception as error:  # a library that cannot run the row as it is written
            if name == "offarray":
                raise
            told["notes"][name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:100]}"
            continue
        problem = wrong(result, expected, (SUMS if row.sums else EXACT)[dtype])
        if problem:
            told["notes"][name] = problem
        else:
            calls[name] = call
        del result
    before = trace.stats()
    calls["offarray"]()
    told["counters"] = {k: v - before[k] for k, v in trace.stats().items() if v != before[k]}
    times = measure.seconds(calls, budget)
    told["median"] = {name: measure.median(t) for name, t in times.items()}
    told["least"] = {name: min(t) for name, t in times.items()}
    told["ratio"] = {name: told["median"]["numpy"] / t for name, t in told["median"].items() if name != "numpy"}
    told["peer"] = min((name for name in times if name != "offarray"), key=lambda name: told["median"][name])
    told["against"] = told["median"][told["peer"]] / told["median"]["offarray"]
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


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of the ratios to NumPy by size, and how many rows keep up with the best peer."""
    found: dict[str, Any] = {}
    for n in sorted({row["n"] for row in rows}):
        mine = [row for row in rows if row["n"] == n]
        names = sorted({name for row in mine for name in row["ratio"]})
        means = {k: measure.geomean([row["ratio"][k] for row in mine if k in row["ratio"]]) for k in names}
        kept = sum(row["against"] >= 0.95 for row in mine)
        found[f"{n:g}"] = {"geomean": means, "rows": len(mine), "level with the best": kept}
    return found


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(
        __doc__ or "",
        ("--sizes", {"default": SIZES, "help": "numbers of elements"}),
        ("--dtypes", {"default": "f8,f4", "help": "data types"}),
        ("--torch", {"default": "compile", "choices": ("compile", "eager"), "help": "how PyTorch runs"}),
    )
    peers = installed(options.peers)
    TORCH["form"] = options.torch
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(KEPT / "torch"))
    told: dict[str, Any] = {
        "benchmark": "fused_cpu",
        "machine": measure.machine(peers),
        "settings": measure.apply_settings(options.settings),
        "rows": [],
    }
    names = ["offarray", *(p for p in peers if p != "numpy")]
    measure.header(told)
    print(f"{'row':<38} {'numpy':>9} " + " ".join(f"{n:>17}" for n in names) + f" {'kernels':>8} {'/ best':>9}")
    for row in ROWS:
        if not any(text in row.name for text in options.only.split(",")):
            continue
        for dtype in options.dtypes.split(","):
            for n in (int(float(size)) for size in options.sizes.split(",")):
                found = run_row(row, dtype, n, peers, options.seconds)
                told["rows"].append(found)
                _tell(found, names)
    for size, facts in summary(told["rows"]).items():
        means = ", ".join(f"{name} {mean:.2f}" for name, mean in facts["geomean"].items())
        print(f"{size}: times NumPy's speed: {means}; {facts['level with the best']} of {facts['rows']} rows level")
    told["rows"] = measure.kept(options.json, told["rows"], lambda row: (row["name"], row["dtype"], row["n"]))
    told["summary"] = summary(told["rows"])
    measure.write(options.json, told)


def _tell(found: dict[str, Any], names: list[str]) -> None:
    cells = [
        f"{measure.duration(found['median'][n])} {found['ratio'][n]:>6.2f}x" if n in found["ratio"] else "-"
        for n in names
    ]
    label = f"{found['name']} {found['dtype']} {found['n']:.0e}".replace("+0", "")
    print(
        f"{label:<38} {measure.duration(found['median']['numpy']):>9} " + " ".join(f"{c:>17}" for c in cells)
        + f" {found['counters'].get('kernels', 0):>8} {found['against']:>6.2f} {found['peer']}"
    )  # fmt: skip
    for name, note in found["notes"].items():
        print(f"    {name}: {note}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
