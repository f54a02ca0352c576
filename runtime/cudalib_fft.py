"""cuFFT: transforms along one axis or the last few, from plans that are kept.

in: addresses, extents, strides in elements; out: launches on the stream, in scratch memory of the step's.
"""

from __future__ import annotations

from typing import Any

from . import cudalib
from .cudalib import Step
from .tuples import NamedTuple

# (character of the input, character of the output) -> the library's type, and the function that runs it
KINDS: dict[tuple[str, str], tuple[int, str]] = {
    ("F", "F"): (41, "exec_c2c"), ("f", "F"): (42, "exec_r2c"), ("F", "f"): (44, "exec_c2r"),
    ("D", "D"): (105, "exec_z2z"), ("d", "D"): (106, "exec_d2z"), ("D", "d"): (108, "exec_z2d"),
}  # fmt: skip
FORWARD, BACKWARD = -1, 1
PLANS = 64  # kept for each device; the one used longest ago goes first


class Layout(NamedTuple):
    """Where the members of a batch lie: extents in memory, stride between elements, distance between members."""

    embed: tuple[int, ...]
    stride: int
    distance: int


def _plan(step: Step, kind: int, n: tuple[int, ...], source: Layout, target: Layout, batch: int) -> tuple[int, int]:
    plans: dict[Any, tuple[int, int]] = cudalib.handle(step.device, "cufft", lambda _: {})
    key = (kind, n, source, target, batch)
    found = plans.pop(key, None)
    if found is None:
        while len(plans) >= PLANS:
            cudalib.call("cufft", "destroy", plans.pop(next(iter(plans)))[0])
        plan = cudalib.call("cufft", "create")
        cudalib.call("cufft", "set_auto_allocation", plan, 0)
        size = cudalib.call(
            "cufft", "make_plan_many64", plan, len(n), n, source.embed, source.stride, source.distance,
            target.embed, target.stride, target.distance, kind, batch,
        )  # fmt: skip
        cudalib.call("cufft", "set_stream", plan, step.stream)
        found = plan, int(size)
    plans[key] = found
    return found


def transform(
    step: Step, chars: tuple[str, str], n: tuple[int, ...], source: tuple[int, Layout], target: tuple[int, Layout],
    batch: int, direction: int,
) -> None:  # fmt: skip
    """Transform a batch from one address to another; a complex source of real results may be overwritten."""
    kind, run = KINDS[chars]
    plan, size = _plan(step, kind, n, source[1], target[1], batch)
    cudalib.call("cufft", "set_work_area", plan, step.scratch(max(size, 16)))
    extra = (direction,) if chars[0] == chars[1] else ()
    cudalib.call("cufft", run, plan, source[0], target[0], *extra)
