"""Warnings name the line that asked for the work: done at once or recorded, by operator, method or function."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests import twice

STATEMENTS: list[Callable[[Any], Any]] = [
    lambda np: np.zeros(3) / 0,
    lambda np: 1 / np.zeros(3),
    lambda np: np.divide(1.0, np.zeros(3)),
    lambda np: np.log(np.zeros(3)),
    lambda np: np.zeros(3) // 0,
    lambda np: np.zeros(3) % 0,
    lambda np: divmod(np.ones(3), 0),
    lambda np: np.array([1, 2]) // 0,
    lambda np: np.array([1, 2]) % 0,
    lambda np: np.array([1e300]) * 1e300,
    lambda np: np.array([1e300]) ** 2,
    lambda np: np.exp(np.array([1e4])),
    lambda np: np.sqrt(np.array([-1.0])),
    lambda np: np.arccos(np.array([3.0])),
    lambda np: np.float64(1) / np.float64(0),
    lambda np: np.zeros(3)[0] / np.zeros(3)[1],
    lambda np: np.array([1.0, 2]).__itruediv__(0),
    lambda np: np.divide(np.ones(3), 0, out=np.ones(3)),
    lambda np: np.divide(np.ones(3), 0, where=np.array([1, 0, 1], bool), out=np.zeros(3)),
    lambda np: np.add.reduce(np.array([1e308, 1e308])),
    lambda np: np.multiply.reduce(np.array([1e308, 1e308])),
    lambda np: np.add.accumulate(np.array([1e308, 1e308])),
    lambda np: np.add.reduceat(np.array([1e308, 1e308]), [0]),
    lambda np: np.multiply.outer(np.array([1e308]), np.array([1e308])),
    lambda np: np.divide.at(np.ones(3), [0], 0.0),
    lambda np: np.array([1e308, 1e308]).sum(),
    lambda np: np.array([1e308, 1e308]).prod(),
    lambda np: np.array([1e308, 1e308]).cumsum(),
    lambda np: np.array([1e308, 1e308]).cumprod(),
    lambda np: np.sum(np.array([1e308, 1e308])),
    lambda np: np.prod(np.array([1e308, 1e308])),
    lambda np: np.cumsum(np.array([1e308, 1e308])),
    lambda np: np.array([]).mean(),
    lambda np: np.mean(np.array([])),
    lambda np: np.array([]).std(),
    lambda np: np.std(np.array([])),
    lambda np: np.array([]).var(ddof=1),
    lambda np: np.nanmean(np.array([np.nan])),
    lambda np: np.nanmax(np.array([np.nan])),
    lambda np: np.nanmin(np.array([[np.nan, np.nan]]), axis=1),
    lambda np: np.nanvar(np.array([np.nan])),
    lambda np: np.nanmedian(np.array([np.nan])),
    lambda np: np.median(np.array([])),
    lambda np: np.average(np.array([])),
    lambda np: np.array([1e300]).astype("f4"),
    lambda np: np.array([np.nan]).astype("i4"),
    lambda np: np.array([1e300]).astype(np.float16),
    lambda np: np.array([1 + 2j]).astype(float),
    lambda np: np.array([1e10], "f4").astype("f2"),
    lambda np: np.array([1.0]) + np.float16(6e4) * np.float16(2),
    lambda np: np.array([1e300, -1e300]) @ np.array([1e300, 1e300]),
    lambda np: np.dot(np.array([1e300]), np.array([1e300])),
    lambda np: np.array([1e300]).dot(np.array([1e300])),
    lambda np: np.linalg.norm(np.array([1e300, 1e300])),
    lambda np: np.corrcoef(np.array([[1.0, 1.0], [2.0, 3.0]])),
    lambda np: np.cov(np.array([1.0])),
    lambda np: np.array([np.inf]) - np.inf,
    lambda np: np.subtract(np.inf, np.array([np.inf])),
    lambda np: np.sin(np.array([np.inf])),
    lambda np: np.mod(np.array([1.0]), 0),
    lambda np: np.fmod(np.array([1.0]), 0),
    lambda np: np.floor_divide(np.array([1.0]), 0),
    lambda np: np.power(np.array([0.0]), -1),
    lambda np: np.array([0.0]) ** -1,
    lambda np: np.reciprocal(np.array([0.0])),
    lambda np: np.reciprocal(np.array([0])),
    lambda np: np.arctanh(np.array([1.0])),
    lambda np: np.log1p(np.array([-1.0])),
    lambda np: np.log2(np.array([0.0])),
    lambda np: np.float32(1e38) * np.float32(1e38),
    lambda np: np.array([1, 2], "f4") * np.float32(3e38),
    lambda np: np.array([1, 2], "f2") * 40000,
    lambda np: np.ldexp(np.array([1.0]), 5000),
    lambda np: np.array([1 + 1j]) / 0,
    lambda np: np.array([1e200 + 1e200j]) * (1e200 + 1e200j),
    lambda np: np.array([1e200 + 1e200j]) ** 2,
    lambda np: np.exp(np.array([1000 + 1j])),
    lambda np: np.linspace(0, np.inf, 3),
    lambda np: np.diff(np.array([np.inf, np.inf])),
    lambda np: np.gradient(np.array([np.inf, np.inf, 1])),
    lambda np: np.trapezoid(np.array([np.inf, -np.inf])),
    lambda np: np.cross(np.array([1e308, 1, 1]), np.array([1e308, 1, 1e308])),
    lambda np: np.outer(np.array([1e308]), np.array([1e308])),
    lambda np: np.array([0.0]).__ipow__(-1),
    lambda np: np.zeros(3).__ifloordiv__(0),
    lambda np: np.zeros(3).__imod__(0),
    lambda np: np.array([1e300], "f8").__imul__(1e300),
    lambda np: np.array([0, 1]).__ifloordiv__(0),
    lambda np: np.array([1.0, 2.0], "f4").__setitem__(0, 1e300),
    lambda np: np.array([1.0, 2.0], "f4").__setitem__(slice(None), np.array([1e300, 1])),
    lambda np: np.copyto(np.zeros(1, "f4"), np.array([1e300]), casting="unsafe"),
    lambda np: np.full(3, 1e300, dtype="f4"),
    lambda np: np.array([1, 2], "i4").__setitem__(slice(None), np.array([np.nan, 1])),
    lambda np: np.arange(3).reshape(3, 1) / np.zeros(3),
    lambda np: np.zeros((3, 3)) / np.zeros(3),
    lambda np: np.round(np.array([1e308]), 5),
    lambda np: np.array([1e308]).round(5),
    lambda np: np.sum(np.array([6e4, 6e4], "f2")),
    lambda np: np.array([6e4, 6e4], "f2").sum(),
    lambda np: np.array([6e4, 6e4], "f2").mean() / 0,
    lambda np: np.sinc(np.array([np.inf])),
    lambda np: np.unwrap(np.array([np.inf, 0])),
    lambda np: np.true_divide(np.array([1]), np.array([0])),
    lambda np: 1 // np.array([0, 1]),
    lambda np: 1 % np.array([0, 1]),
    lambda np: 2.0 ** np.array([5000.0]),
    lambda np: np.array(1.0) / 0,
    lambda np: np.array(0.0) ** -1,
    lambda np: np.sum(np.array([1.0, np.inf, -np.inf])),
    lambda np: np.mean(np.array([np.inf, -np.inf])),
    lambda np: np.std(np.array([np.inf, 1])),
    lambda np: np.var(np.array([np.inf, 1])),
    lambda np: np.array([np.inf, 1]).std(),
    lambda np: np.array([np.inf, 1]).var(axis=0),
    lambda np: np.cumprod(np.array([1e308, 1e308])),
    lambda np: np.float16(6e4) * np.float16(6e4),
    lambda np: np.linalg.det(np.array([[1e200, 0], [0, 1e200]])),
    lambda np: np.linalg.matrix_power(np.array([[1e200]]), 2),
    lambda np: np.divide.reduce(np.array([1.0, 0.0])),
    lambda np: np.divide.accumulate(np.array([1.0, 0.0])),
    lambda np: np.array([1, 2]) < np.array([1 + np.nan * 1j, 2]),
    lambda np: np.polyval([np.inf, 1.0], np.array([0.0])),
    lambda np: np.std(np.array([[1.0]]), ddof=1),
    lambda np: np.std(np.array([[1.0]]), ddof=2),
    lambda np: np.nanstd(np.array([[1.0]]), ddof=1),
    lambda np: np.cov(np.array([[1.0, 2.0]]), ddof=2),
    lambda np: np.nansum(np.array([1e308, 1e308])),
    lambda np: np.nanprod(np.array([1e308, 1e308])),
    lambda np: np.nancumsum(np.array([1e308, 1e308])),
    lambda np: np.quantile(np.array([np.inf, -np.inf]), 0.5),
    lambda np: np.matmul(np.array([[1e200]]), np.array([[1e200]])),
    lambda np: np.inner(np.array([1e200]), np.array([1e200])),
    lambda np: np.tensordot(np.array([[1e200]]), np.array([[1e200]]), 1),
    lambda np: np.kron(np.array([[1e200]]), np.array([[1e200]])),
    lambda np: np.trace(np.array([[1e308, 0], [0, 1e308]])),
    lambda np: np.array([[1e308, 0], [0, 1e308]]).trace(),
    lambda np: np.add(np.array([1e308]), 1e308, dtype="f4"),
    lambda np: np.add(np.array([1e308]), 1, dtype="f4", casting="unsafe"),
    lambda np: np.sum(np.array([1e308]), dtype="f4"),
    lambda np: np.array([1e308]).sum(dtype="f4"),
    lambda np: np.array([1e308]).mean(dtype="f4"),
    lambda np: np.asarray([1e300], dtype="f4"),
    lambda np: np.array([np.float64(1e300)], dtype="f4"),
    lambda np: np.array([1, 2], dtype="f2") + 70000,
    lambda np: np.array([1, 2], dtype="f4") + 10**39,
]


def given(statement: Callable[[Any], Any], module: Any) -> set[tuple[str, str, str]]:
    """The warnings of a statement: category, text, and "here", "numpy" or another file."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = statement(module)
        twice.real(made) if twice.is_array(made) else str(made)
    line = statement.__code__.co_firstlineno
    found = set()
    for w in seen:
        if w.filename == __file__:
            assert w.lineno == line
        where = "here" if w.filename == __file__ else "numpy" if "numpy" in Path(w.filename).parts else w.filename
        found.add((w.category.__name__, str(w.message), where))
    return found


@pytest.mark.parametrize("eager", (True, False), ids=("at once", "recorded"))
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: str(s.__code__.co_firstlineno - 19))
def test_line(statement: Callable[[Any], Any], eager: bool) -> None:
    want = given(statement, numpy)
    assert want
    with twice.settings(**({} if eager else {"eager_size": 0})):
        got = given(statement, twice.MODULE)
    # what NumPy's own Python code warns of in its own name may be said of the line that asked for it
    norms = {"overflow encountered in dot", "overflow encountered in multiply"}
    for kind, text, where in want - got:
        assert where == "numpy", (kind, text, where)
        assert (kind, text, "here") in got or any(t in norms and w == "here" for _, t, w in got)
    assert {t for _, t, _ in got} - norms == {t for _, t, _ in want} - norms
    assert {w for _, _, w in got} <= {"here", "numpy"}


SCRIPT = """\
import warnings
import MODULE as np
for _ in range(3):
    np.ones(3) / 0
    np.log(np.zeros(3))
x = np.full(3, 1e200)
x *= 1e200
x -= x
print(x)
warnings.simplefilter("error")
for act in (lambda: np.ones(3) / 0, lambda: x.__itruediv__(0), lambda: np.array([1j]).astype(float)):
    try:
        act()
    except Warning as w:
        print(type(w), w, w.__context__)
print(x)
"""


@pytest.mark.skipif(twice.SELF, reason="NumPy against itself")
def test_filters_by_place(tmp_path: Path) -> None:
    """Python's own filters: once for each line; an "error" is raised after what was to be done."""
    script, found = tmp_path / "script.py", []
    for module in ("numpy", "offarray"):
        script.write_text(SCRIPT.replace("MODULE", module))
        run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
        assert run.returncode == 0, run.stderr
        found.append((run.stdout, run.stderr))
    assert found[1] == found[0]
    assert found[0][1].count("RuntimeWarning") == 4
