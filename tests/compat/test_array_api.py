"""The list of tests of the array API's suite that may fail, and, where the suite is at hand, the suite itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import array_api
from .array_api import Allowed, allowed, complaints

SUITE = os.environ.get("OFFARRAY_ARRAY_API_TESTS", "")


def test_what_is_listed() -> None:
    newest = allowed("2.5.0")
    assert len({a.test for a in newest}) == len(newest)
    assert all(a.how in ("always", "drawn") and len(a.reason.split()) > 5 for a in newest)
    assert len([a for a in newest if a.how == "always"]) <= 24
    assert len([a for a in newest if a.how == "drawn"]) <= 2
    older = {a.test for a in allowed("2.4.9")} - {a.test for a in newest}
    assert older == {"array_api_tests/test_linalg.py::test_eig", "array_api_tests/test_linalg.py::test_eigvals"}


def test_what_is_complained_about() -> None:
    listed = [Allowed("a", "always", ""), Allowed("d", "drawn", ""), Allowed("gone", "always", "")]
    assert complaints({"a": "failed", "d": "failed", "x": "passed", "s": "skipped"}, listed) == []
    assert complaints({"a": "failed", "d": "passed", "x": "passed"}, listed) == []
    assert complaints({"a": "failed", "x": "failed"}, listed) == ["fails, and is not listed: x"]
    assert complaints({"a": "passed"}, listed) == ["passes, and is listed as failing: a"]
    assert complaints({"a": "skipped"}, listed) == ["is listed, and was skipped: a"]


def test_outcomes_of_a_run(tmp_path: Path) -> None:
    inner = tmp_path / "array_api_tests"
    inner.mkdir()
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--disable-deadline', action='store_true')\n"
        "    parser.addoption('--max-examples')\n"
    )
    (inner / "test_x.py").write_text(
        "import os, pytest, offarray\n"
        "def test_good(): assert os.environ['ARRAY_API_TESTS_MODULE'] == 'offarray'\n"
        "def test_bad(): assert 0\n"
        "@pytest.mark.skip\ndef test_left(): pass\n"
        "@pytest.fixture\ndef broken(): 1 / 0\n"
        "def test_broken(broken): pass\n"
    )
    status, outcomes = array_api.run(tmp_path, ["--max-examples=1"])
    names = {test.partition("::")[2]: outcome for test, outcome in outcomes.items()}
    assert status == 1
    assert names == {"test_good": "passed", "test_bad": "failed", "test_left": "skipped", "test_broken": "failed"}
    assert array_api.main([str(tmp_path)]) == 1
    assert array_api.main([str(tmp_path), "-k", "good"]) == 0
    assert array_api.main([str(tmp_path), "-k", "nothing"]) == 2


@pytest.mark.skipif(not SUITE, reason="OFFARRAY_ARRAY_API_TESTS names no checkout of data-apis/array-api-tests")
@pytest.mark.parametrize("eager_size", ["", "0"], ids=["default", "recorded"])
def test_suite(eager_size: str) -> None:
    environment = {**os.environ, **({"OFFARRAY_EAGER_SIZE": eager_size} if eager_size else {})}
    command = [sys.executable, "-m", "tests.compat.array_api", SUITE, "--max-examples=10"]
    done = subprocess.run(
        command, cwd=array_api.ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
