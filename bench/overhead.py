"""What one operation costs on small and middling arrays, where the call is the cost: offarray against NumPy.

    python bench/overhead.py [--json FILE] [--only TEXT] [--settings name=value ...]

Each row is timed over enough repetitions in one loop; the table shows the time of one repetition with both, and the
ratio offarray / NumPy (above 1 is slower).  `kernels` counts launches of one repetition: 0 means NumPy's own loop ran.
"""

from __future__ import annotations

import timeit
from typing import Any

import measure
import numpy

import offarray
from offarray.runtime import trace

SIZES = (10, 1_000, 10_000, 100_000)
ROWS = (
    ("a + b", "x = a + b"),
    ("a * 2 + b", "x = a * 2 + b"),
    ("chain of 8", "x = ((a + b) * a - b) / 2.0 + a * b - 1.0 + a"),
    ("sqrt(a)", "x = np.sqrt(a)"),
    ("a += b", "x += b"),
    ("a.sum()", "x = float(a.sum())"),
    ("a[3]", "x = a[3]"),
    ("a[1:-1]", "x = a[1:-1]"),
    ("a[3] = 1.0", "a[3] = 1.0"),
    ("a[1:-1] = b[2:]", "a[1:-1] = b[2:]"),
    ("zeros", "x = np.zeros(n)"),
    ("where", "x = np.where(a > 1.0, a, b)"),
    ("record only", "x = a * 2 + b"),
)


def timed(statement: str, library: Any, n: int) -> tuple[list[float], int]:
    """Seconds of one repetition, several times, and the kernels of one repetition."""
    rng = numpy.random.default_rng(1)
    lazy = library is offarray and n > offarray.config.get("eager_size") and not statement.startswith("a[")
    names = {"np": library, "n": n, "A": library.array(rng.random(n) + 1), "B": library.array(rng.random(n) + 1)}
    text = f"{statement}; np.evaluate(x)" if lazy else statement
    timer = timeit.Timer(text, setup="x = a = A; b = B", globals=names)
    timer.timeit(3)
    before = trace.stats()["kernels"]
    timer.timeit(1)
    kernels = trace.stats()["kernels"] - before
    number = max(1, int(2e-3 / max(timer.timeit(3) / 3, 1e-9)))
    return [t / number for t in timer.repeat(15, number)], kernels


def recorded(n: int) -> list[float]:
    """Seconds of recording `a * 2 + b` without evaluating it."""
    rng = numpy.random.default_rng(1)
    names = {"a": offarray.array(rng.random(n)), "b": offarray.array(rng.random(n))}
    return [t / 50 for t in timeit.Timer("x = a * 2 + b", globals=names).repeat(15, 50)]


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(__doc__ or "")
    told: dict[str, Any] = {
        "benchmark": "overhead", "machine": measure.machine([]), "settings": measure.apply_settings(options.settings),
        "rows": [],
    }  # fmt: skip
    measure.header(told)
    print(f"{'row':<18} {'n':>7} {'numpy':>9} {'offarray':>9} {'ratio':>6} {'kernels':>8}")
    for name, statement in ROWS:
        for n in SIZES:
            if options.only not in name:
                continue
            theirs, _ = timed(statement, numpy, n)
            mine, kernels = (recorded(n), 0) if name == "record only" else timed(statement, offarray, n)
            row = {"name": name, "n": n, "numpy": measure.median(theirs), "offarray": measure.median(mine)}
            row |= {"ratio": row["offarray"] / row["numpy"], "kernels": kernels}
            told["rows"].append(row)
            print(
                f"{name:<18} {n:>7} {measure.duration(row['numpy']):>9} {measure.duration(row['offarray']):>9} "
                f"{row['ratio']:>6.2f} {kernels:>8}", flush=True
            )  # fmt: skip
    told["geomean"] = {str(n): measure.geomean([r["ratio"] for r in told["rows"] if r["n"] == n]) for n in SIZES}
    print("geometric mean of the ratios: " + ", ".join(f"n={n} {told['geomean'][str(n)]:.2f}" for n in SIZES))
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
