"""Recipes on disk: another process neither plans nor compiles, every difference of graphs is noticed, and nothing that
stands in the cache gives a wrong value."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import offarray as np
from offarray import _evaluate as pipeline
from offarray.codegen.compile import _files as compile_files
from offarray.codegen.compile import host_target
from offarray.fusion import kept, replay
from offarray.runtime import cache
from offarray.runtime.config import config

N = 40_000

HEAD = f"""
import json, os, sys
import numpy
import offarray as np
from offarray import _evaluate
from offarray.runtime import trace
np.config(device="cpu", eager_size=0)
planned = []
plain = _evaluate.plan
def counted(*args):
    planned.append(1)
    return plain(*args)
_evaluate.plan = counted
A, B = numpy.linspace(0.5, 3.0, {N}), numpy.linspace(-2.0, 2.0, {N})
def check(np, found, want):
    assert numpy.array_equal(numpy.asarray(found), numpy.asarray(want)), (found, want)
def both(f):
    check(np, f(np, np.array(A), np.array(B)), f(numpy, A.copy(), B.copy()))
"""
TAIL = """
print(json.dumps([len(planned), trace.counters["compiles"], trace.counters["cache_hits"]]))
"""

# What two processes do one after the other; each evaluates a few graphs.
PROGRAMS = {
    "arithmetic": "both(lambda np, a, b: (a * 2.0 + b) * a - b * 0.5)",
    "other scalars": "k = float(os.environ['TURN']) + 1.5\nboth(lambda np, a, b: (a * k + b) / (k + 1.0))",
    "faults": "with numpy.errstate(all='ignore'):\n    both(lambda np, a, b: np.floor(a / (b - b)) + a % b)",
    "whole numbers": "both(lambda np, a, b: ((a * 100).astype('i8') + 3 - (b * 7).astype('i4')) * 2)",
    "a row and a sum": "both(lambda np, a, b: (a[:400].reshape(20, 20).max(axis=1, keepdims=True) * b[:20]).T)",
    "views": "both(lambda np, a, b: a[::-1] * 2.0 + b[1:-1:2].repeat(2)[:1].sum() + np.roll(b, 3))",
    "joined": "both(lambda np, a, b: np.concatenate([a + 1.0, b * 2.0]))",
    "a write": """
        def program(np, a, b):
            a[1000:-1000] = (a + b)[1000:-1000] * 2.0
            return a + b
        both(program)""",
    "several that are alive": """
        def program(np, a, b):
            c = a * b
            d = c + a
            e = d * 2.0 - c
            return np.stack([c, d, e])
        both(program)""",
    "memory taken over": """
        def program(np, a, b):
            for k in range(4):
                a = a * 1.5 + b
                if np is not numpy:
                    np.evaluate(a)
            return a
        both(program)""",
}  # fmt: skip


def run(program: str, place: Path, turn: int = 0, tail: str = TAIL, **environment: str) -> list[int]:
    """Numbers of plans, compilations and kernels from disk of a process."""
    script = HEAD + textwrap.dedent(program) + tail
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(place), "TURN": str(turn), **environment}
    done = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_process_does_not_plan(name: str, tmp_path: Path) -> None:
    plans, built, _ = run(PROGRAMS[name], tmp_path)
    assert plans and built
    again = run(PROGRAMS[name], tmp_path, 1)
    assert again[1] == 0 and again[2] > 0
    # copies beside a launch are planned anew, as are graphs with values that are no plain numbers
    assert again[0] == (1 if name == "a write" else 0) or again[0] < plans
    assert run(PROGRAMS[name], tmp_path, 2) == again


def test_processes_that_begin_at_once(tmp_path: Path) -> None:
    script = HEAD + "\n".join(textwrap.dedent(p) for p in PROGRAMS.values())
    given = {**os.environ, "OFFARRAY_CACHE_DIR": str(tmp_path), "TURN": "0"}
    for _ in range(2):
        started = [subprocess.Popen([sys.executable, "-c", script], env=given) for _ in range(3)]
        assert [process.wait(120) for process in started] == [0, 0, 0]


def test_forked_children_use_and_keep_them(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    program = """
        import warnings
        warnings.simplefilter("ignore")
        f = lambda np, a, b: (a * 2.0 + b) * a
        child = os.fork()
        both(f)
        if not child:
            sys.exit(0)  # keeps what it found, as its parent does
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0"""
    assert run(program, tmp_path)[:2] == [1, 1]
    assert run(program, tmp_path)[:2] == [0, 0]


def test_nothing_is_kept_without_a_cache(tmp_path: Path) -> None:
    program = PROGRAMS["arithmetic"]
    for _ in range(2):
        assert run(program, tmp_path, OFFARRAY_CACHE="0")[:2] == [1, 1]
    assert not any(tmp_path.iterdir())


def test_a_kernel_that_is_gone_is_built_for_its_recipe(tmp_path: Path) -> None:
    program = PROGRAMS["arithmetic"]
    run(program, tmp_path)
    gone = [path for path in tmp_path.iterdir() if b"image" in path.read_bytes() or b"object" in path.read_bytes()]
    assert gone
    for path in gone:
        path.unlink()
    assert run(program, tmp_path)[:2] == [0, 1]


def test_no_more_than_the_first_graphs_are_kept(tmp_path: Path) -> None:
    program = "for n in range(1, 60):\n    both(lambda np, a, b: a[:n] * 2.0 + b[:n])"
    plans = run(program, tmp_path)[0]
    assert plans == 59
    assert run(program, tmp_path)[0] == plans - 32


# ---------------------------------------------------------------------- in this process
Make = Callable[[Any, Any], Any]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Make], list[str]]:
    """The names of the graphs that a program evaluates."""
    found: list[str] = []
    plain = kept.name_of

    def noted(*args: Any) -> Any:
        name = plain(*args)
        found.append(name)
        return name

    monkeypatch.setattr(kept, "name_of", noted)
    monkeypatch.setattr(kept, "LIMIT", 1 << 30)
    monkeypatch.setattr(kept, "_new", {})
    config(device="cpu", eager_size=0, faults="deferred", cache=True, cache_dir=tmp_path)

    def of(make: Make) -> list[str]:
        replay.recipes.clear()
        del found[:]
        a, b = np.array(numpy.linspace(0.5, 3.0, 1000)), np.array(numpy.linspace(-2.0, 2.0, 1000))
        made = make(a, b)
        np.evaluate(*made) if type(made) is tuple else np.evaluate(made)
        return list(found)

    return of


def _kept_alive(a: Any, b: Any) -> Any:
    c = a * 2.0
    return c + b, c


def _not_donated(a: Any, b: Any) -> Any:
    with config(donate=False):
        made = a * 2.0 + b
        np.evaluate(made)
    return made


def _owned(a: Any, b: Any) -> Any:
    c = a + b
    np.evaluate(c)
    d = c * 2.0 + b
    del c
    return d


def _named(a: Any, b: Any) -> Any:
    c = a + b
    np.evaluate(c)
    d = c * 2.0 + b
    np.evaluate(d)
    return d if c is not None else None


def _seen(a: Any, b: Any) -> Any:
    seen = numpy.asarray(a)
    made = a * 2.0 + b
    np.evaluate(made)
    return made if seen is not None else None


def _quiet(a: Any, b: Any) -> Any:
    with numpy.errstate(all="ignore"):
        return a * 2.0 + b


DIFFERENT: dict[str, Make] = {
    "sum": lambda a, b: a * 2.0 + b,
    "other operation": lambda a, b: a * 2.0 - b,
    "other operand": lambda a, b: a * 2.0 + a,
    "other order": lambda a, b: b + a * 2.0,
    "other type": lambda a, b: a.astype("f4") * 2.0 + b,
    "whole number": lambda a, b: a.astype("i8") * 2 + b,
    "complex": lambda a, b: a * 2.0j + b,
    "shorter": lambda a, b: a[:999] * 2.0 + b[:999],
    "offset": lambda a, b: a[1:] * 2.0 + b[1:],
    "other offset": lambda a, b: a[1:] * 2.0 + b[:-1],
    "backwards": lambda a, b: a[::-1] * 2.0 + b,
    "square": lambda a, b: a.reshape(10, 100) * 2.0 + b.reshape(10, 100),
    "total": lambda a, b: (a * 2.0 + b).sum(),
    "greatest": lambda a, b: (a * 2.0 + b).max(),
    "totals": lambda a, b: (a * 2.0 + b).reshape(10, 100).sum(axis=0),
    "other totals": lambda a, b: (a * 2.0 + b).reshape(10, 100).sum(axis=1),
    "running": lambda a, b: (a * 2.0 + b).cumsum(),
    "alive": _kept_alive,
    "not donated": _not_donated,
    "quiet": _quiet,
}


def test_every_difference_has_a_name_of_its_own(names: Callable[[Make], list[str]]) -> None:
    found: dict[str, str] = {}
    for what, make in DIFFERENT.items():
        name = names(make)[-1]
        assert name and name not in found, f"{what} is taken for {found.get(name)}"
        found[name] = what
        assert names(make)[-1] == name, f"{what} has another name when it is seen again"
    assert names(_seen)[0] not in found, "memory that is seen from outside"
    owned, named = names(_owned)[1], names(_named)[1]
    assert owned and named and owned != named, "memory that may be taken over"
    assert names(lambda a, b: a * 3.0 + b) == names(DIFFERENT["sum"]), "values of scalars are filled in"


def test_what_planning_depends_on_beside_the_graph_is_in_the_name(
    names: Callable[[Make], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = names(DIFFERENT["sum"])
    monkeypatch.setattr(kept, "PACKAGE", "of other files")
    assert names(DIFFERENT["sum"]) != first
    monkeypatch.undo()


def test_the_files_that_plan_and_launch_are_looked_at() -> None:
    for folder, name, some in (
        ("codegen", "", "kernel schedule emit compile"), ("fusion", "", "plan lower memory order view kept scan stage"),
        ("runtime", "program", "program"), ("", "_evaluate", "_evaluate"),
    ):  # fmt: skip
        found = {file.partition(".")[0] for file, size, time in compile_files(folder, name)}
        assert set(some.split()) <= found, folder
    assert compile_files("no such folder") == []


WRONG: dict[str, Any] = {
    "nothing": b"", "no marshal": b"\xff" * 40, "a number": marshal.dumps(3, 2),
    "too little": marshal.dumps(((), ()), 2),
    "stages of another form": marshal.dumps(([(1, 2)], (), 0), 2),
    "a kernel of another form": marshal.dumps(([("k", (1, 2), (), (), (), (), (), ())], (), 0), 2),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_recipe_is_planned_anew(
    what: str, names: Callable[[Make], list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []

    def both(a: Any, b: Any) -> Any:
        made.append(a * 2.0 + b)
        return made[-1]

    (name,) = names(both)
    cache.store(name, WRONG[what])
    kept._new.clear()
    with config(debug=1):
        assert names(both) == [name]
    assert "a recipe on disk is made anew" in capfd.readouterr().err
    assert numpy.array_equal(*map(numpy.asarray, made))
    assert list(kept._new) == [name]  # to be kept in its place


def test_arguments_that_are_no_plain_numbers_are_left_out() -> None:
    for value in (numpy.float64(1.0), numpy.int64(1), object(), [1], (1, (2, numpy.bool_(True)))):
        with pytest.raises(TypeError):
            kept._plain(value)
    assert kept._plain((1, 2.5, "a", None, True, (3,))) == (1, 2.5, "a", None, True, (3,))


def test_only_code_of_this_processor_is_kept(names: Callable[[Make], list[str]]) -> None:
    with config(device="interpret"):
        replay.recipes.clear()
        a = np.array(numpy.ones(100))
        assert pipeline.target("interpret") != host_target()
        assert float(numpy.asarray(a + 1.0)[0]) == 2.0
    assert kept._new == {}
