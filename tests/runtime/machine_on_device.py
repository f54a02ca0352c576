"""The state machine of tests/semantics on a device with its own kernels and libraries: many processes, many steps.

    python tests/runtime/machine_on_device.py [--steps 20000] [--processes N] [--seconds S] [--first SEED] [--json FILE]

Each process runs populations of 120 steps in turn, with as many small looks: plainly, with an eviction at every third
time that memory is taken, with memory for parts of buffers alone, and in a memory so small that steps run in pieces, or
on the host where that does not help.
Kernels are kept on disk, where the other processes find them.  What differs from NumPy is printed with the steps before
it; the exit status tells whether everything agreed and all steps were run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from offarray import _place  # noqa: E402
from offarray.runtime import copies, cuda, placement, supply, trace  # noqa: E402
from offarray.runtime.config import config  # noqa: E402
from tests.runtime import fakedevice, looks  # noqa: E402
from tests.semantics.test_machine import drive  # noqa: E402

RUN = 120
WAYS = ("plain", "evictions", "parts", "small")
COUNTED = ("kernels", "library_steps", "h2d_bytes", "d2h_bytes", "evictions", "split_steps")
SMALL = 4000  # bytes that arrays may take together, for "small"
LOOKED = 17_000  # for its small looks


@contextlib.contextmanager
def way_of(way: str) -> Iterator[None]:
    """The settings and replacements of one way."""
    take, whole, line, decide, least = supply.take, copies.WHOLE, copies.LINE, placement.decide, placement.SMALL
    count = 0

    def crowded(where: Any, nbytes: int) -> int:
        nonlocal count
        count += 1
        if count % 3 == 0:
            supply.evict(where)
        return take(where, nbytes)

    if way == "evictions":
        supply.take = crowded
    if way == "parts":
        copies.WHOLE, copies.LINE = 0, 8
    more: dict[str, Any] = {}
    if way == "small":
        placement.decide = lambda key, work: True  # type: ignore[assignment]
        placement.SMALL = _place.SMALL = 0
        more = {"device": "auto", "device_memory": SMALL}
    try:
        with config(eager_size=0, faults="deferred", **more):
            yield
    finally:
        supply.take, copies.WHOLE, copies.LINE, placement.decide = take, whole, line, decide
        placement.SMALL = _place.SMALL = least


def population(way: str, seed: int, fake: bool) -> dict[str, Any]:
    """One population; what was counted, and the traceback of what went wrong."""
    told: dict[str, Any] = {"way": way, "seed": seed, "problem": ""}
    before = dict(trace.counters)
    begun = time.perf_counter()
    with contextlib.ExitStack() as stack:
        rates = placement.Rates() if way == "small" else None
        stack.enter_context(fakedevice.installed(rates) if fake else config(device="cuda"))
        told["device"] = cuda.device().name if not placement.lost else "none"
        try:
            if placement.lost:
                raise RuntimeError(f"an earlier population has lost the device: {placement.lost}")
            stack.enter_context(way_of(way))
            drive(seed, RUN, Counter())
            with config(device_memory=LOOKED if way == "small" else 0):  # it asks for arrays on the device by name
                looks.drive(seed, RUN)
        except Exception:
            told["problem"] = traceback.format_exc()[-6000:]
    told["seconds"] = time.perf_counter() - begun
    return {**told, **{name: trace.counters[name] - before[name] for name in COUNTED}}


def main() -> int:
    """Share the populations among processes; tell what they found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=600.0, help="no population begins later")
    parser.add_argument("--first", type=int, default=200_000, help="the first seed")
    parser.add_argument("--fake", action="store_true", help="on a device made of host memory")
    parser.add_argument("--json", help="file for what was counted")
    options = parser.parse_args()
    begun = time.perf_counter()
    jobs = [(WAYS[k % len(WAYS)], options.first + k, options.fake) for k in range(-(-options.steps // RUN))]
    done: Counter[str] = Counter()
    problems: list[dict[str, Any]] = []
    ended = ""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.processes, context) as pool:
        waiting = iter(jobs)
        running = {pool.submit(population, *job) for _, job in zip(range(options.processes), waiting, strict=False)}
        while running:
            ready, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                try:
                    told = future.result()
                except concurrent.futures.process.BrokenProcessPool as error:
                    ended = ended or f"a process ended: {error}"
                    continue
                done.update({name: told[name] for name in COUNTED})
                done.update({"steps": RUN, "looks": RUN, f"steps {told['way']}": RUN} if not told["problem"] else {})
                if told["problem"]:
                    problems.append(told)
                    print(f"WRONG: {told['way']}, seed {told['seed']}\n{told['problem']}", flush=True)
                job = next(waiting, None) if time.perf_counter() - begun < options.seconds and not ended else None
                if job is not None:
                    running.add(pool.submit(population, *job))
    spent = round(time.perf_counter() - begun, 1)
    print(f"{done['steps']} of {options.steps} steps in {spent} s by {options.processes} processes, {dict(done)}")
    print(f"{len(problems)} populations went wrong", ended)
    if options.json:
        told = {"counted": dict(done), "seconds": spent, "wrong": [(p["way"], p["seed"]) for p in problems]}
        pathlib.Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return 0 if done["steps"] >= options.steps and not problems and not ended else 1


if __name__ == "__main__":
    sys.exit(main())
