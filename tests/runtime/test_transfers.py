"""The programs of bench/transfers.py move no byte more than they must, on a device made of host memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from offarray.runtime.config import config

from . import fakedevice

_PATH = Path(__file__).resolve().parents[2] / "bench" / "transfers.py"
_spec = importlib.util.spec_from_file_location("offarray_bench_transfers", _PATH)
assert _spec is not None and _spec.loader is not None
bench: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)


@pytest.mark.parametrize("name", bench.PROGRAMS)
def test_least_transfers(name: str) -> None:
    with fakedevice.installed(), config(eager_size=0):
        right, moved, least = bench.measured(name, 20_000)
    assert right
    assert moved == least
