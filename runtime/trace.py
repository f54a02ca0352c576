"""What happened: counters, the debug ladder on stderr, and the event list of a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from .config import settings
from .tuples import NamedTuple

NAMES = (
    "kernels", "kernel_bytes", "host_bytes", "library_bytes", "eager_bytes", "h2d_bytes", "d2h_bytes", "fallbacks",
    "compiles", "cache_hits", "engine_links", "evaluations", "operations", "cuts", "library_steps", "evictions",
    "split_steps",
)  # fmt: skip

counters: dict[str, int] = dict.fromkeys(NAMES, 0)


class Event(NamedTuple):
    """One entry of the event list; `site` is what a node keeps as its site."""

    kind: str
    site: Any
    time: float  # seconds, of time.perf_counter
    fields: dict[str, Any]


events: list[Event] | None = None  # a list while a report is being made
locate: Callable[[], Any] | None = None  # gives the user's line that is running, as a site


def count(name: str, n: int = 1) -> None:
    """Add `n` to a counter."""
    counters[name] += n  # no call stands between read and write: no other thread gets in under CPython's lock


def stats() -> dict[str, int]:
    """A copy of all counters."""
    return dict(counters)


def reset() -> None:
    """Set every counter to zero."""
    for name in NAMES:
        counters[name] = 0


def log(level: int, message: str) -> None:
    """Tell `message` on stderr when the setting `debug` is at least `level`."""
    if settings.debug >= level:
        sys.stderr.write(f"offarray {level}: {message}\n")


def record(on: bool = True) -> list[Event] | None:
    """Start the event list afresh, or end it; gives back the list as it was."""
    global events
    former, events = events, [] if on else None
    return former


def emit(kind: str, site: Any = None, **fields: Any) -> None:
    """Add an event, if events are recorded."""
    if events is not None:
        events.append(Event(kind, site, time.perf_counter(), fields))
