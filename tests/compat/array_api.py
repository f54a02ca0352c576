"""The array API standard's test suite (data-apis/array-api-tests) run against offarray.

    python -m tests.compat.array_api PATH [options of pytest ...]

PATH is a checkout of the suite with its submodule `array-api`; `ndindex` and `pytest-json-report` have to be installed.
It fails when a test fails that array_api.toml does not list, and when a test passes that it lists.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy
import pytest

LIST = Path(__file__).with_suffix(".toml")
ROOT = Path(__file__).parents[2]
VERSION = "2025.12"
REPORT = "OFFARRAY_ARRAY_API_OUTCOMES"  # where the plugin writes


class Allowed(NamedTuple):
    """A test that may fail."""

    test: str
    how: str  # "always" | "drawn"
    reason: str


def allowed(numpy_version: str = numpy.__version__) -> list[Allowed]:
    """The tests that may fail with a version of NumPy."""
    found = []
    for entry in tomllib.loads(LIST.read_text())["allowed"]:
        bound = entry.get("numpy")
        if bound is None or _numbers(numpy_version) < _numbers(bound.removeprefix("<")):
            found += [Allowed(test, entry["how"], entry["reason"]) for test in entry["tests"]]
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def complaints(outcomes: Mapping[str, str], listed: Iterable[Allowed]) -> list[str]:
    """What is wrong with the outcomes of the tests that were run."""
    may = {a.test: a for a in listed}
    wrong = [f"fails, and is not listed: {t}" for t, o in sorted(outcomes.items()) if o == "failed" and t not in may]
    for test, entry in may.items():
        if outcomes.get(test) == "passed" and entry.how == "always":
            wrong.append(f"passes, and is listed as failing: {test}")
        elif outcomes.get(test) == "skipped":
            wrong.append(f"is listed, and was skipped: {test}")
    return wrong


def run(suite: Path, options: list[str]) -> tuple[int, dict[str, str]]:
    """Run the suite; pytest's exit status and the outcome of each test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "outcomes")
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {
            **os.environ, "PYTHONPATH": path, REPORT: str(report), "ARRAY_API_TESTS_MODULE": "offarray",
            "ARRAY_API_TESTS_VERSION": VERSION,
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-p", "tests.compat.array_api", "-p", "no:cacheprovider", "-q"]
        command += ["--disable-deadline", "-W", "ignore", *options]
        if not any(o.startswith("array_api_tests") for o in options):
            command.append("array_api_tests")
        status = subprocess.run(command, cwd=suite, env=environment, check=False).returncode
        lines = report.read_text().splitlines() if report.exists() else []
    pairs = (line.partition(" ") for line in lines)
    return status, {test: outcome for outcome, _, test in pairs}


def main(arguments: list[str] | None = None) -> int:
    """Run the suite and say what is not as listed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat.array_api", description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path, help="a checkout of data-apis/array-api-tests with its submodule")
    parser.add_argument("--max-examples", type=int, default=50)
    known, options = parser.parse_known_args(arguments)
    status, outcomes = run(known.path, [f"--max-examples={known.max_examples}", *options])
    if status not in (0, 1) or not outcomes:
        print(f"the suite did not run: pytest ended with {status}")
        return 2
    wrong = complaints(outcomes, allowed())
    counts = collections.Counter(outcomes.values())
    print(*(f"{n} {what}" for what, n in sorted(counts.items())), sep=", ")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


# --- the plugin: in the process that runs the suite -------------------------------------------------------------------

_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a test ended; an error before or after it is a failure."""
    if report.when == "call" or report.outcome != "passed":
        if _outcomes.get(report.nodeid) != "failed":
            _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes for the process that asked; workers leave that to the first process."""
    if REPORT in os.environ and not hasattr(session.config, "workerinput"):
        Path(os.environ[REPORT]).write_text("".join(f"{o} {t}\n" for t, o in _outcomes.items()))


if __name__ == "__main__":
    sys.exit(main())
