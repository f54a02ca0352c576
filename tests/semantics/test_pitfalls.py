"""Every program of programs_*.py gives NumPy's results in every mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import twice
from tests.semantics import programs_holes, programs_memory, programs_views, programs_writes

PROGRAMS = [
    body for source in (programs_holes, programs_memory, programs_writes, programs_views) for body in source.program
]
PROMPT = programs_holes.program.prompts


@pytest.mark.parametrize(("body", "ulp"), PROGRAMS, ids=[body.__name__ for body, _ in PROGRAMS])
def test_program(body: twice.Body, ulp: int, mode: str) -> None:
    twice.same(body, mode, ulp, **({"faults": "auto"} if body.__name__ in PROMPT else {}))


def test_names_are_unique() -> None:
    names = [body.__name__ for body, _ in PROGRAMS]
    assert len(set(names)) == len(names)


PLAIN = """
import numpy
from tests import twice
from tests.semantics.test_pitfalls import PROGRAMS
for body, ulp in PROGRAMS:
    for values in ({}, {"eager_size": 0}):
        want = twice.seen(twice.caught(lambda: body(numpy)))
        with twice.settings(**values):
            got = twice.seen(twice.caught(lambda: body(twice.MODULE)))
        problem = twice.differ(got, want, ulp)
        if problem:
            print(body.__name__, values, problem)
"""


def test_programs_outside_pytest() -> None:
    """Python's own warning filters: here work is recorded although errstate says "warn"."""
    run = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, env=os.environ, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""


LATE = """\
import MODULE as np
z = np.zeros(100_000)
y = 1 / z
w = np.log(z - 1)
unused = z / z
total = float(y[5]), float(w[3])
print(total)
"""


@pytest.mark.skipif(twice.SELF, reason="NumPy's warnings are never late")
def test_late_warnings_name_the_users_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    found = []
    for module in ("numpy", "offarray"):
        script.write_text(LATE.replace("MODULE", module))
        run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=os.environ, timeout=100)
        assert run.returncode == 0, run.stderr
        assert run.stdout == "(inf, nan)\n"
        found.append({line for line in run.stderr.splitlines() if "RuntimeWarning" in line and ":5:" not in line})
    assert found[0] == found[1]
    assert len(found[0]) == 2
