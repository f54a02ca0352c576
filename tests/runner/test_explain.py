"""`explain`: the plan as text."""

from __future__ import annotations

import re

import pytest

import offarray as np
from offarray._explain import explain
from offarray.runtime import trace
from offarray.runtime.config import config


@pytest.fixture(autouse=True)
def _lazy() -> None:
    config(faults="deferred")


def test_chain_is_one_kernel() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    np.evaluate(x)
    text = explain(np.sqrt(x) * 2.0 + 1.0)
    assert text.startswith("1 kernel\n\nkernel 1 over 100000\n")
    assert "reads  float64 100000: 800,000 bytes" in text
    assert "writes float64 100000: 800,000 bytes" in text
    assert re.search(r"test_explain.py:\d+: sqrt, multiply, add$", text)


def test_nothing_is_evaluated() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    y = x * 2.0
    before = trace.stats()["kernels"]
    first = explain(y)
    assert explain(y) == first
    assert trace.stats()["kernels"] == before
    assert float(y[-1]) == 2.0


def test_number_of_kernels_is_kept() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    np.evaluate(x)
    y = np.cumsum(x * 2.0)
    z = y[::-1] + 1.0
    said = int(explain(z).split()[0])
    before = trace.stats()["kernels"]
    np.evaluate(z)
    assert trace.stats()["kernels"] - before == said


def test_cuts_have_reasons() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    text = explain(np.cumsum(x + 1.0)[::-1] * 2.0)
    assert re.search(r"cut after scan add at test_explain.py:\d+: scan", text)


def test_fold_and_lazy_scalar() -> None:
    x = np.linspace(0.0, 1.0, 100_000)
    total = (x * x).sum()
    text = explain(total)
    assert "writes float64 scalar: 8 bytes" in text
    assert "multiply, fold add" in text


def test_what_is_in_memory_needs_nothing() -> None:
    x = np.arange(10.0)
    y = np.arange(100_000.0) * 2
    np.evaluate(y)
    assert explain(x, y, 3, "text") == "in memory: nothing to evaluate"


def test_long_kernels_are_cut_short() -> None:
    x = np.evaluate(np.linspace(0.0, 1.0, 100_000))
    namespace = {"x": x}
    with config(bound=1000):
        exec("\n".join("x = x + 1.0" for _ in range(30)), namespace)
        text = explain(namespace["x"])
        assert "... and 18 more lines" in text
        np.evaluate(namespace["x"])  # sites on the tape keep the namespace, and it the array
