"""Loops of many small operations, the worst case of an array library that plans: offarray against NumPy.

    python bench/small_loops.py [--json FILE] [--only TEXT] [--settings name=value ...]
    python bench/small_loops.py --settings device=cuda [...]

Each program runs as it stands with both; the best processor time of several runs in turn counts.  The ratio is
offarray / NumPy (above 1 is slower).  Results are compared before anything is timed.

With a device, wall time counts, and CuPy runs beside: as it stands, and with every operation on the device
(`eager_size=0`).  There the ratio is offarray / CuPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import measure
import numpy

import offarray
from offarray.runtime import trace


def jacobi(np: Any) -> Any:
    """64 x 64 points, 1000 sweeps."""
    u = np.zeros((64, 64))
    u[0] = 1.0
    for _ in range(1000):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def pressure(np: Any) -> Any:
    """The pressure iteration of a cavity flow, 41 x 41 points, 200 sweeps."""
    p, b = np.zeros((41, 41)), np.ones((41, 41))
    for _ in range(200):
        q = p.copy()
        p[1:-1, 1:-1] = (q[1:-1, 2:] + q[1:-1, :-2] + q[2:, 1:-1] + q[:-2, 1:-1]) * 0.25 - 0.01 * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return p


def bodies(np: Any) -> Any:
    """100 bodies, 20 steps."""
    i = np.arange(100.0)
    x = np.stack([np.sin(i), np.cos(1.7 * i), np.sin(0.3 * i)], axis=1)
    v = np.zeros((100, 3))
    for _ in range(20):
        d = x[None, :, :] - x[:, None, :]
        r = (d * d).sum(axis=2) + 0.01
        v += 0.001 * (d / (r * np.sqrt(r))[:, :, None]).sum(axis=1)
        x += 0.001 * v
    return x


def runge_kutta(np: Any) -> Any:
    """Lorenz's three equations, 500 steps."""

    def slope(y: Any) -> Any:
        return np.array([10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]])

    y, h = np.array([1.0, 1.0, 1.0]), 0.01
    for _ in range(500):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def kalman(np: Any) -> Any:
    """A filter with 3 states, 300 steps."""
    a, h = np.array([[1.0, 0.1, 0.005], [0, 1, 0.1], [0, 0, 1]]), np.array([[1.0, 0, 0]])
    q, r = 0.01 * np.eye(3), np.array([[0.5]])
    x, p = np.zeros((3, 1)), np.eye(3)
    for step in range(300):
        x = a @ x
        p = a @ p @ a.T + q
        s = h @ p @ h.T + r
        k = p @ h.T / s
        x = x + k * (0.01 * step - (h @ x))
        p = (np.eye(3) - k @ h) @ p
    return x


def life(np: Any) -> Any:
    """64 x 64 cells, 100 generations."""
    i = np.arange(64)
    z = ((i[:, None] * 7 + i[None, :] * 13) % 5 < 2).astype(np.int64)
    for _ in range(100):
        n = (
            z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2] + z[1:-1, 2:] + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
        )  # fmt: skip
        born = (n == 3) & (z[1:-1, 1:-1] == 0)
        stays = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][born | stays] = 1
    return z


ROWS: dict[str, Callable[[Any], Any]] = {
    "Jacobi 64^2": jacobi, "pressure 41^2": pressure, "100 bodies": bodies, "RK4 of 3 equations": runge_kutta,
    "Kalman 3x3": kalman, "Life 64^2": life,
}  # fmt: skip


def best(program: Callable[[Any], Any], library: Any, wait: Callable[[], Any], times: int = 4) -> float:
    """Least wall time of some runs, to the end of what a device does."""
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        result = program(library)
        if library is offarray:
            offarray.evaluate(result)
        wait()
        found = min(found, time.perf_counter() - start)
    return found


def on_device(options: Any, told: dict[str, Any]) -> None:
    """Every row beside CuPy."""
    import cupy

    from offarray.runtime import cuda

    print(f"{'program':<20} {'numpy':>9} {'cupy':>9} {'offarray':>9} {'ratio':>6} {'all on device':>13} {'ratio':>6}")
    for name, program in ROWS.items():
        if options.only not in name:
            continue
        row: dict[str, Any] = {"name": name, "numpy": best(program, numpy, lambda: None)}
        try:
            cupy.asnumpy(program(cupy))
            row["cupy"] = best(program, cupy, cupy.cuda.Device().synchronize)
        except Exception as error:
            row["cupy failed"] = repr(error)[:200]
        for label, eager in (("offarray", offarray.config.get("eager_size")), ("all on device", 0)):
            with offarray.config(eager_size=eager):
                numpy.testing.assert_allclose(numpy.asarray(program(offarray)), program(numpy), rtol=1e-9, atol=1e-9)
                row[label] = best(program, offarray, cuda.device().synchronize)
        told["rows"].append(row)
        peer = row.get("cupy", float("nan"))
        cells = [f"{measure.duration(row[k]):>9}" if k in row else " " * 9 for k in ("numpy", "cupy", "offarray")]
        last = f"{measure.duration(row['all on device']):>13} {row['all on device'] / peer:>6.2f}"
        print(f"{name:<20} {' '.join(cells)} {row['offarray'] / peer:>6.2f} {last}", flush=True)
    for label in ("offarray", "all on device"):
        ratios = [row[label] / row["cupy"] for row in told["rows"] if "cupy" in row]
        told[f"geomean {label}"] = measure.geomean(ratios)
        print(f"geometric mean of {label} / CuPy: {told[f'geomean {label}']:.3f}")


def main() -> None:
    """Measure every row and tell."""
    options = measure.arguments(__doc__ or "")
    told: dict[str, Any] = {
        "benchmark": "small loops", "machine": measure.machine([]),
        "settings": measure.apply_settings(options.settings), "rows": [],
    }  # fmt: skip
    measure.header(told)
    if str(told["settings"]["device"]).startswith("cuda"):
        on_device(options, told)
        measure.write(options.json, told)
        return
    print(f"{'program':<20} {'numpy':>9} {'offarray':>9} {'ratio':>6} {'kernels':>8}")
    for name, program in ROWS.items():
        if options.only not in name:
            continue
        want, got = program(numpy), numpy.asarray(program(offarray))
        numpy.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        before = trace.stats()["kernels"]
        offarray.evaluate(program(offarray))
        kernels = trace.stats()["kernels"] - before
        times = {numpy: float("inf"), offarray: float("inf")}
        for _ in range(5):
            for library in times:
                start = time.thread_time()
                offarray.evaluate(program(library))
                times[library] = min(times[library], time.thread_time() - start)
        theirs, mine = times[numpy], times[offarray]
        told["rows"].append(
            {"name": name, "numpy": theirs, "offarray": mine, "ratio": mine / theirs, "kernels": kernels}
        )
        print(
            f"{name:<20} {measure.duration(theirs):>9} {measure.duration(mine):>9} {mine / theirs:>6.2f} {kernels:>8}",
            flush=True,
        )
    told["geomean"] = measure.geomean([row["ratio"] for row in told["rows"]])
    print(f"geometric mean of the ratios: {told['geomean']:.2f}")
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
