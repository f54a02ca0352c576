"""`expect`: an assertion on what a block of code costs."""

from __future__ import annotations

import os
from typing import Any

from ._site import line
from .runtime import trace
from .runtime.errors import OffarrayError

_SHOWN = 12  # reasons in one message


class ExpectationError(OffarrayError, AssertionError):
    """A block of code did not cost what `expect` was told; the message says what did, and at which lines."""


class expect:
    """Assert that a block runs with so many kernels, fallbacks, compilations and transferred bytes.

    Only what happens inside the block counts: pending work must be looked at (or evaluated) in it to be counted.

    Parameters
    ----------
    kernels : int, optional
        Kernels launched.
    fallbacks : int, optional
        Calls that NumPy had to run because offarray has no form of its own for them.
    compiles : int, optional
        Kernels compiled; one that was found in memory or on disk is not.
    h2d_bytes, d2h_bytes : int, optional
        Bytes sent to a device, and fetched from one.

    Raises
    ------
    ExpectationError
        At the end of the block, if a counter differs.  It is an `AssertionError`; an exception raised in the block
        goes first.

    Notes
    -----
    The counters are those of the process: other threads that compute at the same time are counted too.

    Examples
    --------
    >>> import offarray as np
    >>> x = np.linspace(0.0, 1.0, 100_000)
    >>> with np.expect(kernels=1, fallbacks=0):
    ...     y = np.evaluate(np.sqrt(x) * 2.0 + 1.0)
    """

    def __init__(
        self,
        *,
        kernels: int | None = None,
        fallbacks: int | None = None,
        compiles: int | None = None,
        h2d_bytes: int | None = None,
        d2h_bytes: int | None = None,
    ) -> None:
        given = {
            "kernels": kernels, "fallbacks": fallbacks, "compiles": compiles, "h2d_bytes": h2d_bytes,
            "d2h_bytes": d2h_bytes,
        }  # fmt: skip
        self.wanted = {name: number for name, number in given.items() if number is not None}
        self._before: dict[str, int] = {}
        self._first = 0
        self._own = False

    def __enter__(self) -> expect:
        self._own = trace.events is None
        if self._own:
            trace.record(True)
        self._first = len(trace.events or ())
        self._before = trace.stats()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        now = trace.stats()
        events = (trace.events or [])[self._first :]
        if self._own:
            trace.record(False)
        if kind is not None:
            return
        found = {name: now[name] - self._before[name] for name in self.wanted}
        wrong = [name for name, number in self.wanted.items() if found[name] != number]
        if wrong:
            raise ExpectationError(
                "\n".join([_told(name, self.wanted[name], found[name]) for name in wrong] + _why(events))
            )


def _told(name: str, wanted: int, found: int) -> str:
    return f"{name}: expected {wanted}, found {found}"


def _why(events: list[trace.Event]) -> list[str]:
    """The kernels, cuts and fallbacks, by line, each once with its number."""
    reasons: dict[str, int] = {}
    for event in events:
        if event.kind == "step":
            text = f"  kernel at {where(event.site)}"
        elif event.kind in ("h2d_bytes", "d2h_bytes"):
            way = "sent to the device" if event.kind == "h2d_bytes" else "fetched"
            text = f"  {event.fields['nbytes']} bytes {way} at {where(event.site)}"
        elif event.kind in ("cut", "fallback"):
            text = f"  {event.kind} at {where(event.site)}: {reason(event)}"
        else:
            continue
        reasons[text] = reasons.get(text, 0) + 1
    texts = [f"{text} ({n} times)" if n > 1 else text for text, n in reasons.items()]
    return texts[:_SHOWN] + ([f"  ... and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else [])


def where(site: Any) -> str:
    """A site as "file:line"."""
    if site is None:
        return "an unknown line"
    found = line(site)
    return f"{os.path.basename(found.filename)}:{found.lineno}"


def reason(event: trace.Event) -> str:
    """The reason that an event carries, with the name of the operation or function."""
    fields = event.fields
    what = str(fields.get("op") or fields.get("name") or "")
    why = str(fields.get("reason") or "")
    return f"{what}: {why}" if what and why else what or why or "no reason given"
