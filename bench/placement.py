"""Transfers, placement and short memory on a machine with a device.

    python bench/placement.py [--json FILE] [--only rates,looks,loops,limits] [--gib N]

*rates*: bytes a second of 1 GiB, from and to pinned memory by the driver alone, pageable memory, fresh pages, and an
array under `pin`.  *looks*: seconds and bytes of small looks at a matrix on the device.  *loops*: seconds of whole
programs under each setting of `device`, first transfer and last look included, with the bytes that moved.  *limits*:
working sets of three times the memory that arrays may take (`--gib` is the limit).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import measure
import numpy

Row = dict[str, Any]
SIZE = 1 << 30


def seconds(run: Callable[[], Any], finish: Callable[[], Any], times: int = 9) -> list[float]:
    """What calls take, one after another, the least first; one more call, the first, is not counted."""
    found = []
    for _ in range(times + 1):
        finish()
        begin = time.perf_counter()
        run()
        finish()
        found.append(time.perf_counter() - begin)
    return sorted(found[1:])


def rates() -> Row:
    """Bytes a second, by kind of memory and direction: least, median and most; what measuring the machine takes."""
    import offarray as np
    from offarray.runtime import cuda, placement

    device = cuda.device()
    begin = time.perf_counter()
    model = placement.measure(device)
    told: Row = {"calibration seconds": time.perf_counter() - begin, "model": model._asdict()}
    memory, pinned = device.allocate(SIZE), device.pinned(SIZE)
    pageable = numpy.ones(SIZE, numpy.uint8)
    address = pageable.ctypes.data

    def rate(name: str, run: Callable[[], Any], times: int = 9) -> None:
        found = [round(SIZE / each / 1e9, 2) for each in seconds(run, device.synchronize, times)]
        told[name] = {"least": found[-1], "median": found[len(found) // 2], "most": found[0]}

    def fresh() -> None:
        pages = numpy.empty(SIZE, numpy.uint8)
        device.download(pages.ctypes.data, memory, SIZE)

    rate("pinned to device", lambda: cuda.call("cuMemcpyHtoDAsync", memory, pinned, SIZE, device.stream))
    rate("pinned from device", lambda: cuda.call("cuMemcpyDtoHAsync", pinned, memory, SIZE, device.stream))
    rate("pageable to device", lambda: device.upload(memory, address, SIZE), 25)
    rate("pageable from device", lambda: device.download(address, memory, SIZE), 25)
    rate("fresh pages from device", fresh)
    for way in ("to", "from"):
        told[f"pageable {way} device, of pinned"] = (
            told[f"pageable {way} device"]["median"] / told[f"pinned {way} device"]["median"]
        )
    begin = time.perf_counter()
    device.register(address, SIZE)
    told["seconds to pin"] = time.perf_counter() - begin
    rate("pin to device", lambda: device.upload(memory, address, SIZE))
    rate("pin from device", lambda: device.download(address, memory, SIZE))
    device.unregister(address)
    device.free(memory)
    cuda.call("cuMemFreeHost", pinned)
    told["an array"] = arrays(np)
    return told


def arrays(np: Any) -> Row:
    """Median bytes a second of an array of 1 GiB there, and of a result back, through the interface of arrays."""
    times: dict[str, list[float]] = {"there": [], "back": []}
    with np.config(device="cuda"):
        x = np.array(numpy.ones(SIZE // 8))
        for _ in range(9):
            x[0] = 1.0  # the host writes: the device has to get it anew
            begin = time.perf_counter()
            y = np.evaluate(x * 2.0)
            middle = time.perf_counter()
            numpy.asarray(y)
            times["there"].append(middle - begin)
            times["back"].append(time.perf_counter() - middle)
            del y
    return {way: round(SIZE / sorted(found)[4] / 1e9, 2) for way, found in times.items()}


def looks() -> Row:
    """(seconds, bytes) of small looks at a matrix of 128 MiB that only the device has."""
    import offarray as np

    with np.config(device="cuda"):
        m = np.array(numpy.random.default_rng(0).random((4096, 4096)))
        kinds: dict[str, Callable[[Any], Any]] = {
            "element": lambda y: y[5, 5], "row": lambda y: y[7].tolist(), "column": lambda y: y[:, 9].tolist(),
            "corner": lambda y: y[:10, :10].tolist(), "text": repr, "sum": lambda y: float(y.sum()),
        }  # fmt: skip
        told: Row = {}
        for name, look in kinds.items():
            for _ in range(2):  # the second has its kernels
                y = np.evaluate(m * 2.0)
                before = np.stats()["d2h_bytes"]
                begin = time.perf_counter()
                look(y)
                told[name] = time.perf_counter() - begin, np.stats()["d2h_bytes"] - before
        return told


def heat(np: Any, n: int, steps: int) -> Any:
    """A stencil in place."""
    u = np.array(numpy.linspace(0.0, 1.0, n * n).reshape(n, n))
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (around - 4.0 * u[1:-1, 1:-1])
    return numpy.asarray(u)


def relax(np: Any, n: int, steps: int) -> Any:
    """A new array in each step."""
    u = np.array(numpy.linspace(0.0, 1.0, n * n).reshape(n, n))
    for _ in range(steps):
        u = u + 0.1 * (np.sin(u) - u)
    return numpy.asarray(u)


def once(np: Any, n: int, steps: int) -> Any:
    """One pass over what the host has."""
    return numpy.asarray(np.array(numpy.linspace(0.0, 1.0, n * n)) * 2.0 + 1.0)


def elsewhere(np: Any, n: int, steps: int) -> Any:
    """Somebody else sorts the result of each step on the host."""
    x = np.array(numpy.random.default_rng(0).random(n * n))
    for _ in range(steps):
        theirs = numpy.asarray(x * 1.5 + 1.0)
        theirs.sort()
        x = np.array(theirs)
    return numpy.asarray(x)


LOOPS = {
    "stencil in place, 4096 x 4096, 100 steps": (heat, 4096, 100),
    "stencil in place, 256 x 256, 200 steps": (heat, 256, 200),
    "new array each step, 4096 x 4096, 100 steps": (relax, 4096, 100),
    "one pass, 4096 x 4096": (once, 4096, 1),
    "sorted elsewhere each step, 2048 x 2048, 5 steps": (elsewhere, 2048, 5),
}


def loops() -> Row:
    """(seconds, bytes to the device, bytes back) of each loop under each setting, the second time that it runs."""
    import offarray as np

    told: Row = {}
    for name, (program, n, steps) in LOOPS.items():
        told[name] = {}
        for device in ("cpu", "cuda", "auto"):
            with np.config(device=device):
                for _ in range(2):
                    before = np.stats()
                    begin = time.perf_counter()
                    program(np, n, steps)
                    spent, after = time.perf_counter() - begin, np.stats()
                moved = [after[key] - before[key] for key in ("h2d_bytes", "d2h_bytes")]
                told[name][device] = spent, *moved
    return told


def limits(gib: int) -> Row:
    """Working sets of three times the limit: seconds with all transfers, evictions, steps in pieces, bytes moved."""
    import offarray as np

    size = 3 * gib << 30
    a, b, c = (numpy.full(size // 32, k + 1.0) for k in range(3))
    rows = numpy.full((size // 24 // 128, 128), 0.5)

    def chain(a: Any, b: Any, c: Any) -> Any:
        return [numpy.asarray((a * b + c) / (a + 1.0))[:: size // 64]]

    def softmax(m: Any) -> Any:
        e = np.exp(m - m.max(axis=1, keepdims=True))
        return [numpy.asarray(e / e.sum(axis=1, keepdims=True))[:: size // 4096]]

    def cycle() -> Any:
        blocks = [np.evaluate(np.zeros(size // 96) + float(k)) for k in range(12)]
        for _ in range(6):
            blocks = [np.evaluate(block * 0.5 + 1.0) for block in blocks]
        return [numpy.array([float(block[5]) for block in blocks])]

    told: Row = {}
    names = ("evictions", "split_steps", "h2d_bytes", "d2h_bytes")
    wanted = {
        "chain": [(a * b + c)[:: size // 64] / (a + 1.0)[:: size // 64]], "softmax": [numpy.full((1, 128), 1 / 128)],
        "cycle": [numpy.array([2 + (k - 2) / 64 for k in range(12)])],
    }  # fmt: skip
    with np.config(device="cuda"), np.memory_limit(gib << 30):
        for program, given in ((chain, (a, b, c)), (softmax, (rows,)), (cycle, ())):
            operands = [np.array(x) for x in given]
            before = np.stats()
            times = []
            for _ in range(3):
                begin = time.perf_counter()
                found = program(*operands)
                times.append(time.perf_counter() - begin)
            after = np.stats()
            right = all(numpy.allclose(x, y, rtol=1e-12) for x, y in zip(found, wanted[program.__name__], strict=True))
            moved = {key: (after[key] - before[key]) // 3 for key in names}
            told[program.__name__] = {"right": right, "seconds": [round(t, 3) for t in times], **moved}
    return told


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--only", default="rates,looks,loops,limits")
    parser.add_argument("--gib", type=int, default=2)
    options = parser.parse_args()
    parts: dict[str, Callable[[], Row]] = {
        "rates": rates, "looks": looks, "loops": loops, "limits": lambda: limits(options.gib),
    }  # fmt: skip
    from offarray.runtime import config, cuda

    settings = config.config.get()
    told: Row = {"machine": measure.machine(["offarray", "cuda-bindings"]), "settings": settings}
    told["machine"]["device"] = cuda.device().name
    for name in options.only.split(","):
        told[name] = parts[name]()
        print(name, *(f"  {key}: {value}" for key, value in told[name].items()), sep="\n", flush=True)
    measure.write(options.json, told)


if __name__ == "__main__":
    main()
