"""A pytest plugin: the test modules of the installed NumPy get offarray wherever they import NumPy.

They run as a script does under `python -m offarray`: with builtins whose `__import__` answers `numpy` and its public
modules with offarray.  `NUMPY_SUITE_MODULE=numpy` leaves them as they are.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any

import hypothesis
import numpy
import pytest

ON_NUMPY = os.environ.get("NUMPY_SUITE_MODULE") == "numpy"
_outcomes: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis look at the same examples each time."""
    hypothesis.settings.register_profile(
        "suite", derandomize=True, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    hypothesis.settings.load_profile("suite")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start NumPy's global random numbers anew for each test."""
    numpy.random.seed(sum(item.nodeid.encode()) % 2**32)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the functions that the runner named."""
    place = os.environ.get("NUMPY_SUITE_LEFT_OUT")
    if place:
        with open(place, encoding="utf-8") as file:
            left_out = set(json.load(file))
        items[:] = [item for item in items if item.nodeid.split("[")[0] not in left_out]


def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> Any:
    """Collect a module through `Replaced`."""
    return None if ON_NUMPY else Replaced.from_parent(parent, path=module_path)


class Replaced(pytest.Module):
    """A test module of NumPy's that has offarray for NumPy."""

    def _getobj(self) -> Any:
        from offarray._import import _names

        inside = self.path.with_suffix("").relative_to(os.path.dirname(numpy.__file__))
        name = ".".join(("numpy", *inside.parts))
        __import__(name.rpartition(".")[0])
        loader = importlib.machinery.SourceFileLoader(name, str(self.path))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["__builtins__"] = _names()
        sys.modules[name] = module
        loader.exec_module(module)
        return module


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a test; a failure anywhere in it counts."""
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if _outcomes.get(report.nodeid) != "failed":
            _outcomes[report.nodeid] = outcome


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported has failed as a whole."""
    if report.outcome == "failed":
        _outcomes[report.nodeid] = "failed"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes to the file that the runner named."""
    place = os.environ.get("NUMPY_SUITE_OUT")
    if place and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(place, "w", encoding="utf-8") as file:
            json.dump(_outcomes, file)
