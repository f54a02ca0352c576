"""`--compare`: the script on NumPy in a process of its own, and how far the two runs' global arrays differ."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple, TextIO

import numpy

from . import _script


class Oracle(NamedTuple):
    """What the script did on NumPy."""

    seconds: float
    status: int
    values: dict[str, numpy.ndarray[Any, Any]]
    stderr: str


def oracle(job: _script.Job) -> Oracle:
    """Run `job` on NumPy, its output thrown away."""
    handle, path = tempfile.mkstemp(suffix=".pickle")
    os.close(handle)
    try:
        command = [sys.executable, _script.__file__, path, job.kind, job.target, *job.args]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        said = done.stderr.decode(errors="replace")
        with open(path, "rb") as file:
            data = file.read()
        left: dict[str, Any] = pickle.loads(data) if data else {"seconds": float("nan"), "values": {}}
        return Oracle(left["seconds"], done.returncode, left["values"], said)
    finally:
        os.unlink(path)


class Difference(NamedTuple):
    """How far one global of the script is from NumPy's."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    absolute: float
    relative: float
    ulp: float
    note: str  # what else is wrong, "" if nothing


def ulps(a: numpy.ndarray[Any, Any], b: numpy.ndarray[Any, Any]) -> float:
    """Largest distance of `a` from `b` in units of the last place of `b`."""
    if a.dtype.kind == "c":
        return max(ulps(a.real, b.real), ulps(a.imag, b.imag))
    unequal = (a != b) & numpy.isfinite(a) & numpy.isfinite(b)
    if not unequal.any():
        return 0.0
    if a.dtype.kind != "f":
        return float("inf")
    x, y = a[unequal], b[unequal]
    with numpy.errstate(all="ignore"):
        return float((numpy.abs(x - y) / numpy.abs(numpy.spacing(y))).max())


def difference(name: str, mine: numpy.ndarray[Any, Any], theirs: numpy.ndarray[Any, Any]) -> Difference:
    """Distance of `mine` from NumPy's `theirs`."""
    said = (name, theirs.dtype.name, theirs.shape)
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        note = f"offarray has {mine.dtype.name} {mine.shape}"
        return Difference(*said, float("nan"), float("nan"), float("nan"), note)
    if theirs.dtype.kind in "SUmM":
        wrong = int((mine != theirs).sum()) - (
            int((numpy.isnat(mine) & numpy.isnat(theirs)).sum()) if theirs.dtype.kind in "mM" else 0
        )
        return Difference(*said, 0.0, 0.0, 0.0, f"{wrong} elements differ" if wrong else "")
    if theirs.dtype.kind == "b":
        mine, theirs = mine.view("u1"), theirs.view("u1")
    both = numpy.isfinite(mine) & numpy.isfinite(theirs)
    special = ~both & ~((mine == theirs) | (numpy.isnan(mine) & numpy.isnan(theirs)))
    note = f"{int(special.sum())} infinities or NaNs differ" if special.any() else ""
    wide = "c16" if theirs.dtype.kind == "c" else "f8"
    x, y = mine[both].astype(wide), theirs[both].astype(wide)
    gap = numpy.abs(x - y)
    with numpy.errstate(all="ignore"):
        relative = numpy.where(gap > 0, gap / numpy.abs(y), 0.0)
    absolute, relative_most = float(gap.max(initial=0.0)), float(relative.max(initial=0.0))
    return Difference(*said, absolute, relative_most, ulps(mine, theirs), note)


def _value(value: Any) -> numpy.ndarray[Any, Any] | None:
    """A global of the script as a NumPy array, if it is one that is compared."""
    if isinstance(value, (float, complex)) or (hasattr(value, "__array__") and not isinstance(value, type)):
        return numpy.asarray(value)
    return None


def differences(known: Oracle, seconds: float, mine: dict[str, Any]) -> dict[str, Any]:
    """The comparison as plain data."""
    found = []
    for name, theirs in sorted(known.values.items()):
        value = _value(mine.get(name))
        if value is None:
            nan = float("nan")
            found.append(Difference(name, theirs.dtype.name, theirs.shape, nan, nan, nan, "offarray has none"))
        else:
            found.append(difference(name, value, theirs))
    return {
        "numpy_seconds": known.seconds,
        "offarray_seconds": seconds,
        "ratio": known.seconds / seconds if seconds else float("nan"),
        "numpy_status": known.status,
        "numpy_stderr": known.stderr[-4000:] if known.status else "",
        "arrays": [d._asdict() for d in found],
    }


def show(told: dict[str, Any], out: TextIO) -> None:
    """Print the comparison."""
    out.write(
        f"\nNumPy {told['numpy_seconds']:.3f} s, offarray {told['offarray_seconds']:.3f} s: "
        f"{told['ratio']:.2f} times NumPy's speed\n"
    )
    if told["numpy_status"]:
        out.write(f"on NumPy the script ended with status {told['numpy_status']}\n{told['numpy_stderr']}")
    if not told["arrays"]:
        out.write("no global arrays to compare\n")
        return
    equal = [d["name"] for d in told["arrays"] if not (d["absolute"] or d["note"] or d["ulp"])]
    if equal:
        out.write(f"equal: {', '.join(equal)}\n")
    different = [d for d in told["arrays"] if d["name"] not in equal]
    if different:
        out.write(f"{'different':<24} {'type':<10} {'shape':<18} {'absolute':>10} {'relative':>10} {'ulp':>10}\n")
    for d in different:
        shape = "x".join(map(str, d["shape"])) or "scalar"
        out.write(
            f"{d['name'][:24]:<24} {d['dtype']:<10} {shape:<18} "
            f"{d['absolute']:>10.3g} {d['relative']:>10.3g} {d['ulp']:>10.3g} {d['note']}".rstrip()
            + "\n"
        )
