"""Many short programs, as text: each sees the same with NumPy and with the module under test.

`texts/*.txt` hold blocks, each under a line `### name`, with `ulp=N` where results may differ by N units in the last
place of the largest.  `r(...)` keeps values for the comparison, `E(call)` the value of a call or the exception that it
raises, text included.  What is printed and warned of is compared too.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests import twice

BLOCKS = {
    f"{path.stem}: {block.partition(chr(10))[0]}": block.partition("\n")[2]
    for path in sorted((Path(__file__).parent / "texts").glob("*.txt"))
    for block in re.split(r"^### ", path.read_text(), flags=re.MULTILINE)[1:]
}


def plain(text: str) -> str:
    """A message without what differs between two runs of one program."""
    return re.sub(r"0x[0-9a-f]+", "0x", text).replace(twice.MODULE.__name__, "numpy")


def kept(x: Any) -> Any:
    """`x` taken apart into what is compared."""
    if isinstance(x, BaseException):
        public = next(k.__name__ for k in type(x).__mro__ if not k.__name__.startswith("_"))
        return "raised", public, plain(str(x))
    if isinstance(x, numpy.ma.MaskedArray):
        return "masked", str(x.dtype), repr(x)
    if twice.is_array(x):
        kind = "array" if type(x) in (numpy.ndarray, twice.MODULE.ndarray) else type(x).__name__
        flags = x.flags
        return kind, str(x.dtype), (flags.c_contiguous, flags.f_contiguous, flags.writeable), numpy.array(x)
    if isinstance(x, numpy.generic):
        return "scalar", x.__class__.__name__, numpy.asarray(x)
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, *map(kept, x))
    if isinstance(x, dict):
        return ("dict", *((kept(k), kept(v)) for k, v in x.items()))
    if isinstance(x, (bool, int, float, complex)):
        return type(x).__name__, numpy.asarray(x) if not isinstance(x, int) else x
    return type(x).__name__ if not isinstance(x, type) else x.__name__, plain(repr(x))


def equal(got: numpy.ndarray, want: numpy.ndarray, ulp: int) -> bool:
    """Equal values, signs of zero included, or within `ulp` units in the last place of the largest."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind not in "fc":
        return plain(repr(got.tolist())) == repr(want.tolist())
    parts = [(got.real, want.real), (got.imag, want.imag)] if want.dtype.kind == "c" else [(got, want)]
    if all(numpy.array_equal(g, w, equal_nan=True) for g, w in parts):
        return all(bool((numpy.signbit(g) == numpy.signbit(w))[w == 0].all()) for g, w in parts)
    with numpy.errstate(all="ignore"):
        finite = numpy.abs(want[numpy.isfinite(want)])
        bound = ulp * float(numpy.finfo(want.dtype).eps) * float(finite.max(initial=0))
        return bool(numpy.allclose(got, want, rtol=0, atol=bound, equal_nan=True))


def differ(got: Any, want: Any, ulp: int) -> bool:
    """Whether two kept values differ."""
    if isinstance(want, numpy.ndarray):
        return not (isinstance(got, numpy.ndarray) and equal(got, want, ulp))
    if type(want) is tuple and type(got) is tuple:
        return len(got) != len(want) or any(differ(g, w, ulp) for g, w in zip(got, want, strict=True))
    return bool(got != want)


def run(code: Any, np: Any) -> tuple[list[Any], set[tuple[str, str]]]:
    """What a block keeps and prints, and its warnings."""
    found: list[Any] = []

    def keep(*values: Any) -> None:
        found.extend(map(kept, values))

    def attempt(call: Callable[[], Any]) -> Any:
        try:
            value = call()
        except Exception as error:
            keep(error)
            return None
        keep(value)
        return value

    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as given, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        exec(code, {"np": np, "r": keep, "E": attempt, "__name__": "block"})
    found.append(plain(printed.getvalue()))
    return found, {(w.category.__name__, plain(str(w.message))) for w in given}


@pytest.mark.parametrize("mode", ["default", "statement", "interpret"])
@pytest.mark.parametrize("name", BLOCKS)
def test_block(name: str, mode: str) -> None:
    code = compile(BLOCKS[name], name, "exec")
    bound = re.search(r"ulp=(\d+)", name)
    want, wanted = run(code, numpy)
    with twice.settings(**{**twice.MODES[mode].settings, "faults": "auto"}):
        got, given = run(code, twice.MODULE)
    assert len(got) == len(want)
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        assert not differ(g, w, int(bound.group(1)) if bound else 4), f"value {n}: {g!r} instead of {w!r}"
    assert given == wanted
