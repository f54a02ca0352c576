"""What all tests share: hypothesis profiles, settings put back after each test, and a code cache of their own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

# Before offarray is imported, so that worker processes and child processes see it too.
_OWNER = "OFFARRAY_CACHE_DIR" not in os.environ
if _OWNER:
    os.environ["OFFARRAY_CACHE_DIR"] = tempfile.mkdtemp(prefix="offarray-tests-")

from offarray.codegen import host  # noqa: E402
from offarray.fusion import kept  # noqa: E402
from offarray.runtime import trace  # noqa: E402
from offarray.runtime.config import config  # noqa: E402

# Every profile is deterministic; `--hypothesis-profile=thorough` looks further.
hypothesis.settings.register_profile(
    "default", derandomize=True, database=None, deadline=None, max_examples=40, print_blob=False
)
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("default"), max_examples=1000)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("default"), max_examples=20)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


host.QUICK = host.OPT  # tests run the code that stays; those of code made quickly say so
kept.LIMIT = 0  # tests plan for themselves; those of recipes on disk have processes of their own


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the code cache; only the process that made it does."""
    if _OWNER and not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["OFFARRAY_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _settings_restored() -> Iterator[None]:
    """No test leaves settings changed for the next one."""
    with config(**config.get()):
        yield


@pytest.fixture
def counters() -> dict[str, int]:
    """The live counters, from zero."""
    trace.reset()
    return trace.counters


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    """Captured output, with the debug ladder at level 1."""
    with config(debug=1):
        yield capfd
