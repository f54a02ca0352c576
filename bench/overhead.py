"""What one operation costs on small and middling arrays, where the call is the cost: offarray against NumPy.

    python bench/overhead.py [--json FILE] [--only TEXT] [--settings name=value ...]

Both are timed in turn, in processor time of the thread, and the best of the runs counts: other programs disturb that
least.  The table shows the time of one repetition with both and the ratio offarray / NumPy (above 1 is slower).
`kernels` counts launches of one repetition: 0 means that NumPy's own loop ran, or that nothing was computed.  The rows
`record` compute nothing; `replay` records and evaluates at every size.
"""

from __future__ import annotations

import time
import timeit
from typing import Any

import measure
import numpy

import offarray
from offarray import _direct
from offarray.runtime import trace

SIZES = (10, 1_000, 10_000, 100_000)
CHAIN = "x = ((a + b) * a - b) / 2.0 + a * b - 1.0 + a"
# name, statement, whether the value that it leaves in `x` is asked for
ROWS = (
    ("a + b", "x = a + b", True),
    ("a * 2 + b", "x = a * 2 + b", True),
    ("chain of 8", CHAIN, True),
    ("np.exp(a)", "x = np.exp(a)", True),
    ("np.where", "x = np.where(a > 1.5, a, b)", True),
    ("a += b", "c += b", True),
    ("a.sum()", "x = float(a.sum())", False),
    ("a[3]", "x = a[3]", False),
    ("a[1:-1]", "x = a[1:-1]", False),
    ("a[3] = 1.0", "c[3] = 1.0", False),
    ("a[1:-1] = b[2:]", "c[1:-1] = b[2:]", False),
    ("a[1:-1] + b[2:]", "x = a[1:-1] + b[2:]", True),
    ("np.zeros", "x = np.zeros(n)", False),
)
ROUNDS = 25


def timer(statement: str, asked: bool, library: Any, n: int) -> timeit.Timer:
    """A timer of one row, warm."""
    rng = numpy.random.default_rng(1)
    names = {name: library.array(rng.random(n) + 1) for name in "abd"}
    if asked and library is offarray:
        statement += "; evaluate(c)" if statement.startswith("c") else "; evaluate(x)"
    if asked and library is offarray and n < min(offarray.config.get("wait_size"), offarray.config.get("eager_size")):
        statement = statement.rsplit(";", 1)[0]  # it has run at once
    made = timeit.Timer(
        statement, "c = d", time.thread_time,
        {**names, "np": library, "n": n, "evaluate": offarray.evaluate},
    )  # fmt: skip
    made.timeit(5)
    return made


def best(timers: list[timeit.Timer]) -> list[float]:
    """The least seconds of one repetition of each, run in turn."""
    number = max(1, int(2e-3 / max(timers[0].timeit(3) / 3, 1e-9)))
    found = [float("inf")] * len(timers)
    for _ in range(ROUNDS):
        for position, each in enumerate(timers):
            found[position] = min(found[position], each.timeit(number) / number)
    return found


def kernels(each: timeit.Timer) -> int:
    """Launches of one repetition."""
    before = trace.stats()["kernels"]
    each.timeit(1)
    return trace.stats()["kernels"] - before


def replayed(statement: str, n: int) -> tuple[list[float], int]:
    """Seconds of NumPy's work, and of recording and evaluating the same, however small; launches."""
    with offarray.config(eager_size=0):
        timers = [timer(statement, False, numpy, n), timer(f"{statement}; evaluate(x)", False, offarray, n)]
        return best(timers), kernels(timers[1])


def recorded(statement: str, n: int) -> list[float]:
    """Seconds of NumPy's work, and of recording the same without computing it, however small."""
    former = offarray.config.get()
    times = best([timer(statement, False, numpy, n)])
    offarray.config(eager_size=0, bound=1_000_000, bound_bytes=1 << 60)
    found = float("inf")
    each = timer(statement, False, offarray, n)
    for _ in range(ROUNDS):
        found = min(found, each.timeit(50) / 50)
        offarray.synchronize()  # what nobody refers to is forgotten, outside the time
    offarray.config(**{name: former[name] for name in ("eager_size", "bound", "bound_bytes")})
    return [*times, found]


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(__doc__ or "")
    compiled = not (_direct.__file__ or "").endswith(".py")
    told: dict[str, Any] = {
        "benchmark": "overhead", "machine": measure.machine([]), "settings": measure.apply_settings(options.settings),
        "compiled": compiled, "rows": [],
    }  # fmt: skip
    measure.header(told)
    print(f"front end {'compiled' if compiled else 'in Python'}\n")
    print(f"{'row':<22} {'n':>7} {'numpy':>9} {'offarray':>9} {'ratio':>6} {'kernels':>8}")
    more = (("record a * 2 + b", ROWS[1][1], None), ("record chain", CHAIN, None), ("replay chain", CHAIN, None))
    for name, statement, asked in (*ROWS, *more):
        for n in SIZES:
            if options.only not in name:
                continue
            if name.startswith("replay"):
                (theirs, mine), launches = replayed(statement, n)
            elif asked is None:
                (theirs, mine), launches = recorded(statement, n), 0
            else:
                timers = [timer(statement, asked, numpy, n), timer(statement, asked, offarray, n)]
                (theirs, mine), launches = best(timers), kernels(timers[1])
            told["rows"].append(
                {"name": name, "n": n, "numpy": theirs, "offarray": mine, "ratio": mine / theirs, "kernels": launches}
            )
            print(
                f"{name:<22} {n:>7} {measure.duration(theirs):>9} {measure.duration(mine):>9} {mine / theirs:>6.2f} "
                f"{launches:>8}", flush=True
            )  # fmt: skip
    told["geomean"] = {str(n): measure.geomean([r["ratio"] for r in told["rows"] if r["n"] == n]) for n in SIZES}
    print("geometric mean of the ratios: " + ", ".join(f"n={n} {told['geomean'][str(n)]:.2f}" for n in SIZES))
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
