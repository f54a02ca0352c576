"""The calls of `librarycases` on a real device, compared with NumPy: `python tests/runtime/on_device.py [part ...]`.

Prints what differs, the first tracebacks in full, and how long the parts took; the exit status tells whether all agree.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import offarray as np  # noqa: E402
from offarray import _library_linalg  # noqa: E402
from offarray.runtime import trace  # noqa: E402
from offarray.runtime.config import config  # noqa: E402
from tests.runtime import librarycases as table  # noqa: E402
from tests.runtime.libraryedges import EDGES  # noqa: E402

PARTS: dict[str, Any] = {
    "products": table.PRODUCTS, "einsums": dict(table.einsums()), "transforms": dict(table.transforms()),
    "linalg": table.LINALG, "orders": dict(table.orders()), "selections": table.SELECTIONS,
    "refused": table.REFUSED, "edges": EDGES,
}  # fmt: skip
big = numpy.random.default_rng(5)


def large() -> Iterator[tuple[str, Any]]:
    """Sizes at which the libraries divide the work."""
    for n, m, k in ((1000, 777, 513), (2048, 2048, 2048), (1, 5000, 3000), (4097, 3, 129)):
        for t in ("f4", "f8", "c8", "c16"):
            a, b = big.standard_normal((n, k)).astype(t), big.standard_normal((k, m)).astype(t)
            yield f"product {n} {m} {k} {t}", lambda np, d, a=a, b=b: d(a) @ d(b)
            yield f"product of views {n} {m} {k} {t}", lambda np, d, a=a, b=b: d(a)[::2, 1:] @ d(b.T.copy()).T[1:]
    for n in (1009, 4096, 30030, 1 << 18, 1 << 20):
        x = big.standard_normal((4, n))
        for name in ("fft", "rfft", "irfft", "ifft"):
            yield f"{name} {n}", lambda np, d, x=x, name=name: getattr(np.fft, name)(d(x))
    image = big.standard_normal((3, 500, 360))
    for name in ("fft2", "rfft2", "irfft2", "ifftn"):
        yield f"{name} {image.shape}", lambda np, d, name=name: getattr(np.fft, name)(d(image))
    a = big.standard_normal((700, 700)) + 30 * numpy.eye(700)
    stack = big.standard_normal((500, 20, 20)) + 9 * numpy.eye(20)
    b = big.standard_normal((700, 5))
    for label, x, y in (("one", a, b), ("stack", stack, stack[:, :, :2].copy())):
        yield f"solve {label}", lambda np, d, x=x, y=y: np.linalg.solve(d(x), d(y))
        yield f"inv {label}", lambda np, d, x=x: np.linalg.inv(d(x))
        yield f"slogdet {label}", lambda np, d, x=x: tuple(np.linalg.slogdet(d(x)))
        yield f"cholesky {label}", lambda np, d, x=x: np.linalg.cholesky(d(x @ x.swapaxes(-1, -2)))
        yield f"eigh {label}", table.own_vectors(x + x.swapaxes(-1, -2), "L")
    yield "svd 300 x 200", table.rebuilt(a[:300, :200].copy(), False)
    yield "svd 200 x 300", table.rebuilt(a[:200, :300].copy(), True)
    yield "qr 700 x 300", table.factors(a[:, :300].copy(), "reduced")
    yield "lstsq 700 x 300", lambda np, d: tuple(np.linalg.lstsq(d(a[:, :300].copy()), d(b)))


def large_orders() -> Iterator[tuple[str, Any]]:
    """The same for orders, selections and draws."""
    for t in ("f8", "f4", "f2", "i8", "i4", "u1", "c16"):
        v = (big.standard_normal(1_000_003) * 50).astype(t)
        w = v[:999_999].reshape(333, 3003)
        yield f"sort {t}", lambda np, d, v=v: np.sort(d(v))
        yield f"argsort {t}", lambda np, d, v=v: np.argsort(d(v), kind="stable")
        yield f"sort rows {t}", lambda np, d, w=w: np.sort(d(w))
        yield f"sort columns {t}", lambda np, d, w=w: np.sort(d(w), axis=0)
        yield f"mask {t}", lambda np, d, v=v: d(v)[d(v.real > 3)]
        if t != "c16":
            for options in ({}, {"return_inverse": True, "return_counts": True, "return_index": True}):
                yield f"unique {t} {options}", lambda np, d, v=v, options=options: np.unique(d(v), **options)
            q = numpy.sort(v[::7])
            yield f"searchsorted {t}", lambda np, d, v=v, q=q: np.searchsorted(d(q), d(v), "right")
            yield f"histogram {t}", lambda np, d, v=v: np.histogram(d(v), 77)
            yield f"percentile {t}", lambda np, d, v=v: np.percentile(d(v), [1, 33, 99])
    counts = big.integers(0, 5000, 1_000_000)
    yield "bincount", lambda np, d: np.bincount(d(counts))
    yield "random 10^6", lambda np, d: np.random.default_rng(4).random(1_000_000)
    yield "integers 10^6", lambda np, d: np.random.default_rng(4).integers(0, 1_000_000, 1_000_000)
    yield "philox 10^6", lambda np, d: np.random.Generator(np.random.Philox(4)).random(1_000_000)


PARTS["draws"] = {f"{n} {d}": d for n, d in enumerate(table.DRAWS)}
PARTS["large"] = dict(large()) if "large" in sys.argv else {}
PARTS["orders_large"] = dict(large_orders()) if "orders_large" in sys.argv else {}
SHOWN = 6  # tracebacks
_library_linalg.HOST.update(dict.fromkeys(_library_linalg.HOST, 0))  # small matrices too


def agrees(name: str, case: Any) -> None:
    """Raise unless the device's result agrees with NumPy's, made by a library step."""
    want = case(numpy, lambda x: x)
    trace.reset()
    got = case(np, np.array)
    if (trace.counters["library_steps"] > 0) != (name not in table.HOSTED):
        raise AssertionError("no library step")
    table.compare(got, want)


def draws(name: str, draw: Any) -> None:
    """Raise unless numbers and states are NumPy's, bit for bit, also after another draw."""
    for bits in ("PCG64", "Philox"):
        _draws(bits, draw)


def _draws(bits: str, draw: Any) -> None:
    theirs, ours = (m.random.Generator(getattr(m.random, bits)(3)) for m in (numpy, np))
    trace.reset()
    for one in (draw, table.DRAWS[2], draw):
        want, got = table.draw_of(theirs, one), table.draw_of(ours, one)
        table.compare(got, want)
        if not (numpy.asarray(got) == numpy.asarray(want)).all():
            raise AssertionError(f"{one}: {numpy.asarray(got).ravel()[:4]} is not {numpy.asarray(want).ravel()[:4]}")
        if str(theirs.bit_generator.state) != str(ours.bit_generator.state):
            raise AssertionError(f"{one}: {ours.bit_generator.state} is not {theirs.bit_generator.state}")
    if not trace.counters["library_steps"]:
        raise AssertionError("no library step")


def edges(name: str, case: Any) -> None:
    """Raise unless both give the same, result or error."""
    found: list[Any] = []
    for space, door in ((numpy, lambda x: x), (np, np.array)):
        try:
            found.append(case(space, door))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    if isinstance(found[0], str):
        if found[1] != found[0]:
            raise AssertionError(f"{found[0]!r} is not {found[1]!r}")
    else:
        table.compare(found[1], found[0])


def refuses(name: str, case: Any) -> None:
    """Raise unless both raise the same error."""
    raised = []
    for space, door in ((numpy, lambda x: x), (np, np.array)):
        try:
            case(space, door)
            raised.append("nothing")
        except Exception as error:
            raised.append(f"{type(error).__name__}: {error}")
    if raised[0] != raised[1]:
        raise AssertionError(f"{raised[0]!r} is not {raised[1]!r}")


CHECKS: dict[str, Any] = {"refused": refuses, "draws": draws, "edges": edges}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--json")
    options = parser.parse_args()
    failed: dict[str, str] = {}
    times: dict[str, float] = {}
    with config(device="cuda", eager_size=0):
        for part in options.parts:
            begun, good = time.perf_counter(), 0
            for name, case in PARTS[part].items():
                start = time.perf_counter()
                try:
                    CHECKS.get(part, agrees)(name, case)
                    good += 1
                except Exception as error:
                    failed[f"{part}: {name}"] = f"{type(error).__name__}: {str(error)[:300]}"
                    print("FAILED", part, name, "".join(str(error).split("\n")[:6])[:300])
                    if len(failed) <= SHOWN:
                        traceback.print_exc()
                spent = time.perf_counter() - start
                if spent > 0.5:
                    print(f"  {name}: {spent:.2f} s")
            times[part] = round(time.perf_counter() - begun, 2)
            print(f"{part}: {good} of {len(PARTS[part])} agree, {times[part]} s")
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps({"failed": failed, "seconds": times}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
