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
from typing import Any

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import offarray as np  # noqa: E402
from offarray.runtime import trace  # noqa: E402
from offarray.runtime.config import config  # noqa: E402
from tests.runtime import librarycases as table  # noqa: E402

PARTS: dict[str, Any] = {
    "products": table.PRODUCTS, "einsums": dict(table.einsums()), "transforms": dict(table.transforms()),
    "linalg": table.LINALG, "orders": dict(table.orders()), "selections": table.SELECTIONS, "refused": table.REFUSED,
}  # fmt: skip
PARTS["draws"] = {f"{n} {d}": d for n, d in enumerate(table.DRAWS)}
SHOWN = 6  # tracebacks


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


CHECKS: dict[str, Any] = {"refused": refuses, "draws": draws}


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
