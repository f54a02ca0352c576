"""One body, two libraries: run `f(np)` with NumPy and with the module under test and compare what can be observed.

`same(f)` compares the returned values (bit for bit, or within `ulp` units in the last place), dtypes, shapes, the order
of strides, the kind of each returned object, exceptions by class, and warnings by category and text.  Effects through
views and errors in the middle are made visible by the body: it returns what it wants compared, `caught(...)` included.

TWICE_MODULE names the module under test (default offarray); with `TWICE_MODULE=numpy` the bodies test themselves.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy

MODULE = importlib.import_module(os.environ.get("TWICE_MODULE", "offarray"))
SELF = MODULE is numpy  # the bodies run against themselves

Body = Callable[[Any], Any]


class Mode(NamedTuple):
    """Settings of the library under which a body runs."""

    settings: dict[str, Any]
    thread: bool = False


_LAZY: dict[str, Any] = {"eager_size": 0, "faults": "deferred"}
MODES: dict[str, Mode] = {
    "default": Mode({}),
    "statement": Mode({"eager_size": 0, "faults": "statement"}),
    "lazy": Mode(_LAZY),
    "bound1": Mode({**_LAZY, "bound": 1}),
    "bound3": Mode({**_LAZY, "bound": 3}),
    "kept": Mode({**_LAZY, "donate": False}),
    "thread": Mode(_LAZY, thread=True),
    "check": Mode({**_LAZY, "check": 1}),
    "interpret": Mode({**_LAZY, "device": "interpret"}),
}


def settings(**values: Any) -> contextlib.AbstractContextManager[Any]:
    """`offarray.config(**values)`, or nothing where NumPy stands in."""
    return contextlib.nullcontext() if SELF else MODULE.config(**values)


class Raised(NamedTuple):
    """An exception as a value."""

    kind: type[BaseException]
    trace: str = ""


def caught(action: Callable[[], Any]) -> Any:
    """The value of `action()`, or the exception that it raised, as a value to compare."""
    try:
        return action()
    except Exception as error:
        return Raised(type(error), traceback.format_exc())


class Seen(NamedTuple):
    """All that can be observed of a returned object."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    order: tuple[Any, ...] = ()
    value: Any = None
    trace: str = ""  # of a raised exception, to be shown


def is_array(x: Any) -> bool:
    """Whether `x` is an array of NumPy or of the module under test."""
    return isinstance(x, (numpy.ndarray, MODULE.ndarray))


def order(x: Any) -> tuple[Any, ...]:
    """The strides class: C and F contiguity, and the order and direction of the axes longer than one."""
    long = [a for a in range(x.ndim) if x.shape[a] > 1] if x.size else []
    ranks = tuple(sorted(long, key=lambda a: -abs(x.strides[a])))
    signs = tuple((x.strides[a] > 0) - (x.strides[a] < 0) for a in long)
    return bool(x.flags.c_contiguous), bool(x.flags.f_contiguous), ranks, signs


def real(x: Any) -> Any:
    """A NumPy copy of an array of either library."""
    # by type: a handle may well claim to be an instance of NumPy's class
    return x.copy() if issubclass(type(x), numpy.ndarray) else numpy.array(x, copy=True)


def seen(x: Any) -> Any:
    """`x` taken apart into comparable pieces; containers are walked."""
    if isinstance(x, Raised):
        public = next(k for k in x.kind.__mro__ if not k.__name__.startswith("_"))
        return Seen("raised", value=public, trace=x.trace)
    if is_array(x):
        kind = "array" if type(x) in (numpy.ndarray, MODULE.ndarray) else type(x).__name__
        return Seen(kind, str(x.dtype), x.shape, order(x), real(x))
    if isinstance(x, numpy.generic) or isinstance(getattr(x, "dtype", None), numpy.dtype):
        return Seen(x.__class__.__name__, str(x.dtype), (), (), numpy.asarray(x))
    if isinstance(x, tuple):
        return ("tuple", *map(seen, x))
    if isinstance(x, list):
        return ["list", *map(seen, x)]
    if isinstance(x, dict):
        return {k: seen(v) for k, v in x.items()}
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes, bytearray, type, numpy.dtype, slice)):
        return Seen(type(x).__name__, value=x)
    raise TypeError(f"a body returned {type(x)!r}: return something that can be compared")


def _integers(x: numpy.ndarray) -> numpy.ndarray:
    """Floats as integers whose difference counts units in the last place."""
    bits = x.view(f"i{x.dtype.itemsize}").astype("i8" if x.dtype.itemsize < 8 else object)
    return numpy.where(bits < 0, -(1 << (8 * x.dtype.itemsize - 1)) - bits, bits)


def equal(got: numpy.ndarray, want: numpy.ndarray, ulp: int = 0) -> bool:
    """Bit for bit (any NaN is NaN, -0.0 is not 0.0), or within `ulp` units in the last place."""
    if want.dtype.kind == "c":
        return equal(got.real, want.real, ulp) and equal(got.imag, want.imag, ulp)
    if want.dtype.kind != "f":
        return bool(numpy.array_equal(got, want)) if want.dtype != object else list(got.flat) == list(want.flat)
    with numpy.errstate(all="ignore"):
        nan = numpy.isnan(want)
        if not numpy.array_equal(nan, numpy.isnan(got)):
            return False
        got, want = numpy.ascontiguousarray(got[~nan]), numpy.ascontiguousarray(want[~nan])
    if want.dtype.itemsize > 8:
        return bool(numpy.array_equal(got, want))
    if not ulp:
        kind = f"u{want.dtype.itemsize}"
        return bool(numpy.array_equal(got.view(kind), want.view(kind)))
    return got.size == 0 or int(abs(_integers(got) - _integers(want)).max()) <= ulp


def differ(got: Any, want: Any, ulp: int = 0, where: str = "result") -> str:
    """The first difference between two `seen` pieces, or ''."""
    if isinstance(got, Seen) and got.kind == "raised" != getattr(want, "kind", ""):
        return f"{where}: raised {got.value} instead of {want!r}\n{got.trace}"
    if type(got) is not type(want) or (isinstance(got, (list, dict)) or type(got) is tuple) and len(got) != len(want):
        return f"{where}: {got!r} instead of {want!r}"
    if isinstance(want, dict):
        return next(filter(None, (differ(got.get(k), v, ulp, f"{where}[{k!r}]") for k, v in want.items())), "")
    if not isinstance(want, Seen):
        if not isinstance(want, (tuple, list)):
            return "" if got == want else f"{where}: {got!r} instead of {want!r}"
        pairs = enumerate(zip(got, want, strict=True))
        return next(filter(None, (differ(g, w, ulp, f"{where}[{i - 1}]") for i, (g, w) in pairs)), "")
    if want.kind == "raised" == got.kind:
        fits = issubclass(got.value, want.value)
        return "" if fits else f"{where}: raised {got.value} instead of {want.value}\n{got.trace}"
    if got[:4] != want[:4]:
        return f"{where}: {got} instead of {want}"
    if isinstance(want.value, numpy.ndarray):
        text = f"{where}: values\n{got.value!r}\ninstead of\n{want.value!r}"
        return "" if equal(got.value, want.value, ulp) else text
    same_value = got.value == want.value or (got.value != got.value and want.value != want.value)
    return "" if same_value else f"{where}: {got.value!r} instead of {want.value!r}"


class Outcome(NamedTuple):
    """What a body did: what it returned or raised, and the warnings it gave."""

    result: Any
    warnings: list[tuple[str, str]]


def outcome(body: Body, module: Any, mode: Mode = MODES["default"]) -> Outcome:
    """Run `body(module)` and everything it left to be evaluated; its own thread if the mode asks for one."""
    box: list[Outcome] = []

    def work() -> None:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            with contextlib.nullcontext() if module is numpy else settings(**mode.settings):
                result = seen(caught(lambda: body(module)))
        box.append(Outcome(result, sorted((w.category.__name__, str(w.message)) for w in given)))

    if mode.thread:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    assert box, "the body's thread died"
    return box[0]


def same(body: Body, mode: str = "default", ulp: int = 0, **more: Any) -> None:
    """Assert that `body` cannot tell the module under test from NumPy; `more` are settings on top of the mode's."""
    chosen = MODES[mode]._replace(settings={**MODES[mode].settings, **more})
    want = outcome(body, numpy)
    got = outcome(body, MODULE, chosen)
    problem = differ(got.result, want.result, ulp)
    assert not problem, f"[{mode}] {problem}"
    if chosen.settings.get("faults") == "deferred":
        late = set(got.warnings) - set(want.warnings)  # a warning of a value that nobody looks at is never given
        assert not late, f"[{mode}] warnings NumPy does not give: {sorted(late)}"
    else:
        assert set(got.warnings) == set(want.warnings), f"[{mode}] warnings {got.warnings} instead of {want.warnings}"


class Programs:
    """A list of bodies, filled by decoration, for one parametrised test."""

    def __init__(self) -> None:
        self.bodies: list[tuple[Body, int]] = []
        self.prompts: set[str] = set()

    def __call__(self, body: Body) -> Body:
        self.bodies.append((body, 0))
        return body

    def ulp(self, bound: int) -> Callable[[Body], Body]:
        """A body whose values may differ by `bound` units in the last place (library functions, sums)."""

        def add(body: Body) -> Body:
            self.bodies.append((body, bound))
            return body

        return add

    def prompt(self, body: Body) -> Body:
        """A body that watches when a warning comes: never run with `faults="deferred"`."""
        self.prompts.add(body.__name__)
        return self(body)

    def __iter__(self) -> Iterator[tuple[Body, int]]:
        return iter(self.bodies)

    @property
    def names(self) -> list[str]:
        """Names of the bodies, for test identifiers."""
        return [body.__name__ for body, _ in self.bodies]
