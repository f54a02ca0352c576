"""Every program of programs_*.py gives NumPy's results in every mode."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import twice
from tests.semantics import programs_holes, programs_memory, programs_views, programs_writes

PROGRAMS = [
    body for source in (programs_holes, programs_memory, programs_writes, programs_views) for body in source.program
]


@pytest.mark.parametrize(("body", "ulp"), PROGRAMS, ids=[body.__name__ for body, _ in PROGRAMS])
def test_program(body: twice.Body, ulp: int, mode: str) -> None:
    twice.same(body, mode, ulp)


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
