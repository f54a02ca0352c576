"""Bytes between host and device: fourteen programs, each with the fewest that any way of running it must move.

    python bench/transfers.py            on the device
    python bench/transfers.py --fake     on a device made of host memory (needs the tests)

Each docstring says what is the least and why; the counters have to show just that.  A value that the host has made and
the device needs is sent once; a value that the host looks at is fetched once; nothing else moves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

Numbers = tuple[int, int]  # bytes to the device, bytes back


class Program(NamedTuple):
    """A program and its least transfers."""

    run: Callable[[Any, int], Any]  # (module, elements) -> what the host has seen
    least: Callable[[int], Numbers]


def given(np: Any, n: int, start: float = 0.0) -> Any:
    """An array that the host has made."""
    return np.array(numpy.linspace(start, 1.0, n))


def one_pass(np: Any, n: int) -> Any:
    """x goes there, y comes back: neither is known on the other side."""
    x = given(np, n)
    y = np.sin(x) * 2.0 + x
    return y.tolist()


def simulation(np: Any, n: int) -> Any:
    """100 steps: the initial state goes there once, the final state comes back once."""
    u = given(np, n)
    for _ in range(100):
        u[1:-1] = u[1:-1] + 0.1 * (u[:-2] - 2.0 * u[1:-1] + u[2:])
    return u.tolist()


def functional(np: Any, n: int) -> Any:
    """The same with a new array in each step, and two inputs."""
    u, speed = given(np, n), given(np, n, 0.5)
    for _ in range(100):
        u = u + 0.1 * speed * (np.roll(u, 1) - u)
    return u.tolist()


def views(np: Any, n: int) -> Any:
    """Views of one base in five kernels: the base goes there once; three numbers come back."""
    a = given(np, n)
    m = a.reshape(-1, 10)
    first = (a[:-2] + a[1:-1] + a[2:]).sum()
    second = (m.T * 2.0).sum()
    third = (a[::-1] * a).max()
    return float(first), float(second), float(third)


def small_view(np: Any, n: int) -> Any:
    """Ten elements of a large array: 80 bytes there, 80 back."""
    return (given(np, n)[10:20] * 2.0).tolist()


def host_column(np: Any, n: int) -> Any:
    """A column of a matrix, twice: the column goes there once, and comes back twice."""
    m = given(np, n).reshape(-1, 10)
    return (m[:, 3] * 2.0).tolist(), (m[:, 3] + 1.0).tolist()


def chunks(np: Any, n: int) -> Any:
    """An array, eighth by eighth: each byte goes there once, each sum comes back."""
    x, size = given(np, n), n // 8
    return [float((x[k * size : (k + 1) * size] * 2.0).sum()) for k in range(8)]


def looks(np: Any, n: int) -> Any:
    """Looking does not write: x goes there once; an element, a sum and a comparison come back each time."""
    x = given(np, n)
    seen = []
    for k in range(5):
        y = np.evaluate(x * float(k)) if hasattr(np, "evaluate") else x * float(k)
        seen.append((float(y[n // 2]), float(y.sum()), bool((y == x).all())))
    return seen


def overwritten(np: Any, n: int) -> Any:
    """What is overwritten need not go there: of x and out, x alone."""
    x, out = given(np, n), given(np, n, 0.25)
    np.multiply(x, 3.0, out=out)
    return out.tolist()


def in_place(np: Any, n: int) -> Any:
    """Ten updates in place, each on its own line: there once and back once."""
    x = given(np, n)
    for k in range(10):
        x *= 0.5
        x += float(k)
        x[k] = -1.0
    return x.tolist()


def rows(np: Any, n: int) -> Any:
    """Means of the rows of a matrix: the matrix goes there, one number for each row comes back."""
    return (given(np, n).reshape(-1, 10) * 2.0).mean(axis=1).tolist()


def born_there(np: Any, n: int) -> Any:
    """Nothing is given: one number comes back."""
    x = np.arange(n) * 0.5 + np.zeros(n)
    return float((x * np.ones(n)).sum())


def column(np: Any, n: int) -> Any:
    """A column and a row of a result: the matrix goes there; the column and the row alone come back."""
    m = given(np, n).reshape(-1, 10) * 2.0
    m = np.evaluate(m) if hasattr(np, "evaluate") else m
    return m[:, 7].tolist(), m[3].tolist()


def both_sides(np: Any, n: int) -> Any:
    """Somebody else changes a result on the host: it comes back and goes there again, and the end comes back."""
    y = np.sin(given(np, n))
    theirs = numpy.asarray(y)
    theirs += 1.0
    del theirs
    return (y * 2.0).tolist()


PROGRAMS: dict[str, Program] = {
    "one_pass": Program(one_pass, lambda n: (8 * n, 8 * n)),
    "simulation": Program(simulation, lambda n: (8 * n, 8 * n)),
    "functional": Program(functional, lambda n: (16 * n, 8 * n)),
    "views": Program(views, lambda n: (8 * n, 24)),
    "small_view": Program(small_view, lambda n: (80, 80)),
    "host_column": Program(host_column, lambda n: (8 * n // 10, 2 * 8 * n // 10)),
    "chunks": Program(chunks, lambda n: (8 * n, 64)),
    "looks": Program(looks, lambda n: (8 * n, 5 * 17)),
    "overwritten": Program(overwritten, lambda n: (8 * n, 8 * n)),
    "in_place": Program(in_place, lambda n: (8 * n, 8 * n)),
    "rows": Program(rows, lambda n: (8 * n, 8 * n // 10)),
    "born_there": Program(born_there, lambda n: (0, 8)),
    "column": Program(column, lambda n: (8 * n, 8 * n // 10 + 80)),
    "both_sides": Program(both_sides, lambda n: (16 * n, 16 * n)),
}


def close(got: Any, want: Any) -> bool:
    """Whether two results are equal but for rounding."""
    if isinstance(want, (list, tuple)) and want and isinstance(want[0], (list, tuple)):
        return len(got) == len(want) and all(map(close, got, want))
    return bool(numpy.allclose(got, want, rtol=1e-12, atol=1e-12))


def measured(name: str, n: int) -> tuple[bool, Numbers, Numbers]:
    """Whether a program gives NumPy's result, the bytes that it moved, and the fewest."""
    import offarray
    from offarray.runtime import trace
    from offarray.runtime.config import config

    program = PROGRAMS[name]
    before = trace.stats()
    with config(eager_size=0):  # the host does nothing by itself
        got = program.run(offarray, n)
    now = trace.stats()
    moved = now["h2d_bytes"] - before["h2d_bytes"], now["d2h_bytes"] - before["d2h_bytes"]
    return close(got, program.run(numpy, n)), moved, program.least(n)


def main() -> int:
    """Run all programs, tell of each, and fail if one moves more than it must."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--fake", action="store_true", help="on a device made of host memory")
    parser.add_argument("--elements", type=int, default=0)
    options = parser.parse_args()
    n = options.elements or (20_000 if options.fake else 1_000_000)
    if options.fake:
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir))
        from tests.runtime import fakedevice

        with fakedevice.installed():
            return told(n)
    os.environ.setdefault("OFFARRAY_DEVICE", "cuda")
    return told(n)


def told(n: int) -> int:
    """Run and print; the number of programs that fail."""
    failed = 0
    print(f"{'program':<14} {'to the device':>15} {'least':>12} {'back':>12} {'least':>12}")
    for name in PROGRAMS:
        right, moved, least = measured(name, n)
        bad = not right or moved != least
        failed += bad
        mark = "" if not bad else "  wrong result" if not right else "  more than it must"
        print(f"{name:<14} {moved[0]:>15} {least[0]:>12} {moved[1]:>12} {least[1]:>12}{mark}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
