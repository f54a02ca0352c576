"""How each public name of NumPy runs here: what the dispatch tables state, checked by a run that counts.

    python -m tests.compat.coverage > docs/coverage.md

Every function is called once on operands that are no small work; `offarray.stats()` tells what ran.  A statement that
the run contradicts is an error.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy

import offarray
from offarray import _dispatch, _namespace, _reach, _sorting
from offarray._promotion import loop_of
from offarray.runtime.config import config

from .coverage_calls import CALLS, LEFT, operands, patterns

KERNEL, COMPOSED, LIBRARY, VIEW, HOST, NEUTRAL = "kernel", "composition", "library", "view", "host", "neutral"
RUN = (KERNEL, COMPOSED, LIBRARY)
AT_HAND = frozenset("dot inner vdot ndarray.dot linalg.norm".split())  # of floats at hand; what is pending is recorded
ROUTINES = ("_choosing", "_counting", "_sorting", "_statistics")  # modules whose forms only the host has


class Name(NamedTuple):
    """A public function, method or attribute."""

    title: str  # as a user writes it
    key: str  # as the dispatch tables have it
    real: Any
    place: str  # heading in the table


class Row(NamedTuple):
    """What is stated of a name, and what its call showed; `seen` is "" where nothing is called."""

    name: Name
    stated: str
    cuda: str
    seen: str


def names() -> Iterator[Name]:
    """All of them, in the order of the table."""
    for place, module, prefix in (
        ("numpy", numpy, ""), ("numpy.linalg", numpy.linalg, "linalg."), ("numpy.fft", numpy.fft, "fft."),
        ("numpy.random", numpy.random, "random."),
    ):  # fmt: skip
        for name in sorted(module.__all__, key=str.lower):
            real = getattr(module, name)
            if callable(real) and not isinstance(real, type):
                own = getattr(real, "__name__", name)
                yield Name(f"{prefix}{name}", prefix + own, real, place)
    for name in _public(numpy.random.Generator):
        yield Name(
            f"Generator.{name}", "random." + name, getattr(numpy.random.Generator, name), "numpy.random.Generator"
        )
    for name in _public(numpy.ndarray):
        yield Name(name, "ndarray." + name, getattr(numpy.ndarray, name), "numpy.ndarray")


def _public(cls: type) -> list[str]:
    return [n for n in dir(cls) if not n.startswith("_")]


# ---------------------------------------------------------------------- what the tables say
def stated(name: Name) -> str:
    """How the dispatch tables run a name."""
    if isinstance(name.real, numpy.ufunc):
        return _of_ufunc(name.real)
    key, short = name.key, name.key.rpartition(".")[2]
    if name.place == "numpy.random" and not isinstance(getattr(name.real, "__self__", None), numpy.random.RandomState):
        return NEUTRAL
    if name.place == "numpy.random.Generator":
        return NEUTRAL if short in ("bit_generator", "spawn") else LIBRARY
    if name.place == "numpy.ndarray":
        return _of_method(key, short)
    if short in ("get_state", "set_state", "seed", "get_bit_generator", "set_bit_generator"):
        return NEUTRAL
    if key in _dispatch.NEUTRAL or short in _namespace.OWN or key in LEFT:
        return NEUTRAL
    if key in _reach.LIGHT:
        return VIEW
    if key in AT_HAND:
        return LIBRARY
    if key in _dispatch.NATIVE:
        return KERNEL
    if key in _dispatch.COMPOSED or key in _dispatch.CALLBACKS:
        return COMPOSED
    if key in _dispatch.LIBRARY or key.startswith(_dispatch._LIBRARIES):
        return LIBRARY
    return HOST


def _of_ufunc(real: numpy.ufunc) -> str:
    if real.signature is not None:
        return LIBRARY
    for char in "dq?":
        if loop_of(real, (numpy.dtype(char),) * real.nin) is not None:
            return KERNEL
    return HOST


def _of_method(key: str, short: str) -> str:
    if not callable(getattr(numpy.ndarray, short)) or key in LEFT or short in _dispatch.NEUTRAL:
        return NEUTRAL
    if short in _reach.LIGHT:
        return VIEW
    if key in _dispatch.NATIVE and key not in AT_HAND:
        return KERNEL
    return LIBRARY if short in _dispatch.LIBRARY else HOST


def on_device(name: Name, found: str) -> str:
    """Where a device does the same; the tests of devices check it."""
    key = name.key
    if found in (NEUTRAL, VIEW):
        return ""
    if key in _dispatch.DEVICE or isinstance(name.real, numpy.ufunc) and name.real.signature is not None:
        return "library"
    if key.startswith("random."):
        return "kernel or host"
    if found in (KERNEL, COMPOSED) or key in AT_HAND:
        call = _dispatch.NATIVE.get(key)
        module = getattr(inspect.getmodule(call), "__name__", "") if call is not None else ""
        return "host" if module.endswith(ROUTINES) else "kernel"
    return "host"


# ---------------------------------------------------------------------- what a call shows
def called(name: Name) -> str:
    """What ran when the name was called: "" where no call is known."""
    for call in CALLS.get(name.title if name.place != "numpy.ndarray" else "." + name.title, ()) or _guesses(name):
        try:
            with numpy.errstate(all="ignore"):
                call(numpy, operands(numpy))
        except Exception:  # not a call that NumPy takes
            continue
        given = operands(offarray)
        before = offarray.stats()
        with numpy.errstate(all="ignore"):
            _finish(call(offarray, given), given)
        return _told({k: v - before[k] for k, v in offarray.stats().items() if v != before[k]})
    return ""


def _guesses(name: Name) -> Iterator[Callable[[Any, Any], Any]]:
    if name.key in LEFT or name.place in ("numpy.random", "numpy.random.Generator"):
        return
    if name.place == "numpy.ndarray":
        short = name.title
        if not callable(getattr(numpy.ndarray, short)):
            yield lambda np, o: getattr(o.m, short)
            return
        for pattern in patterns():
            yield lambda np, o, p=pattern: getattr(p(np, o)[0], short)(*p(np, o)[1:])
        return
    head, _, short = name.title.rpartition(".")
    for pattern in patterns():
        yield lambda np, o, p=pattern: getattr(getattr(np, head) if head else np, short)(*p(np, o))


def _finish(value: Any, given: Any) -> None:
    """Evaluate results, and operands that were written."""
    for x in value if isinstance(value, (tuple, list)) else (value,):
        offarray.evaluate(x)
    offarray.evaluate(*[x for x in vars(given).values() if isinstance(x, offarray.ndarray)])


def _told(counted: dict[str, int]) -> str:
    if counted.get("fallbacks"):
        return HOST
    parts = [KERNEL] if counted.get("kernels") else []
    if counted.get("library_bytes") or counted.get("library_steps"):
        parts.append(LIBRARY)
    return " and ".join(parts) or "no work"


# What may be seen of each statement.
_FITS = {
    KERNEL: {KERNEL}, COMPOSED: {KERNEL, f"{KERNEL} and {LIBRARY}", "no work"},
    LIBRARY: {LIBRARY, f"{KERNEL} and {LIBRARY}", KERNEL, "no work"}, HOST: {HOST, KERNEL, "no work"},
    VIEW: {"no work"},
    NEUTRAL: {"no work", KERNEL, LIBRARY, f"{KERNEL} and {LIBRARY}"},
}  # fmt: skip


def rows() -> list[Row]:
    """Every name, with what is stated and seen."""
    found = []
    before = dict(_sorting._faster)
    _sorting._faster.update(dict.fromkeys("ilqILQfd", True))  # nothing is left to NumPy because it is faster here
    with config(eager_size=0, fallback="allow", device="cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names():
            say = stated(name)
            found.append(Row(name, say, on_device(name, say), called(name)))
    _sorting._faster.clear()
    _sorting._faster.update(before)
    return found


def contradictions(table: list[Row]) -> list[str]:
    """Statements that their calls do not bear out, or that no call bears out."""
    wrong = [f"{r.name.title}: {r.stated}, but {r.seen}" for r in table if r.seen and r.seen not in _FITS[r.stated]]
    silent = [f"{r.name.title}: {r.stated}, but never called" for r in table if not r.seen and r.stated in RUN]
    return wrong + silent


def counts(table: list[Row]) -> dict[str, int]:
    """Names by statement."""
    return {say: sum(r.stated == say for r in table) for say in (KERNEL, COMPOSED, LIBRARY, VIEW, HOST, NEUTRAL)}


_HEAD = """# Coverage

Made by `python -m tests.compat.coverage > docs/coverage.md` with NumPy {version};
`tests/compat/test_coverage.py` compares.

How a call runs whose operands are pending or no small work:

* *kernel*: compiled for the processor, fused where it is recorded
* *composition*: NumPy's own Python code over such kernels
* *library*: NumPy's compiled routine, at its statement, which is the processor's library
* *view*: the same memory seen otherwise
* *host*: NumPy, counted as a fallback
* *neutral*: conversion, text, files and questions, no work for a kernel

*cuda* says what a graphics processor does.  *seen* is what `offarray.stats()` counted when each was called for this
table: a library's function may be composed of kernels, and some calls have no work that is counted.

{summary}
"""


def text(table: list[Row]) -> str:
    """The document."""
    many = counts(table)
    run = sum(many[say] for say in (*RUN, VIEW))
    summary = ", ".join(f"{n} {say}" for say, n in many.items())
    lines = [_HEAD.format(version=numpy.__version__, summary=f"{run} of {len(table)} names run here: {summary}.")]
    for place in dict.fromkeys(r.name.place for r in table):
        lines.append(f"## {place}\n\n| name | runs as | cuda | seen |\n| --- | --- | --- | --- |")
        lines += [f"| {r.name.title} | {r.stated} | {r.cuda} | {r.seen} |" for r in table if r.name.place == place]
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Print the document; contradictions go to stderr."""
    table = rows()
    problems = contradictions(table)
    sys.stdout.write(text(table))
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
