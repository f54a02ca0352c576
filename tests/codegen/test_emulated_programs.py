"""Whole programs on a device run by the host, whose work waits until somebody waits for it: NumPy's results."""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray as np
from tests import twice
from tests.semantics import programs_memory, programs_views, programs_writes

from . import emulate

pytestmark = pytest.mark.skipif(not emulate.possible(), reason="needs a C compiler and an x86-64 processor")

# What uses a device's libraries, which are not emulated.
LIBRARY = set(
    "mask_is_written_later index_array_is_written_later repeated_indices gather_from_itself boolean_row_writes"
    " recompute_after_donation".split()
)


def programs(module: types.ModuleType) -> dict[str, Callable[[Any], Any]]:
    """The functions of a module that take NumPy and nothing else."""
    return {
        name: f for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and list(inspect.signature(f).parameters) == ["np"]
        and name not in LIBRARY
    }  # fmt: skip


@pytest.mark.parametrize("module", [programs_views, programs_writes, programs_memory], ids=lambda m: m.__name__[15:])
def test_programs(module: types.ModuleType) -> None:
    found = programs(module)
    assert len(found) > 10
    wrong = []
    settings = np.config(eager_size=0, faults="deferred")
    with emulate.installed() as device, settings, warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        device.lazy = True
        for name, program in found.items():
            got = twice.outcome(lambda _, program=program: program(np), numpy)
            want = twice.outcome(lambda _, program=program: program(numpy), numpy)
            difference = twice.differ(got.result, want.result, 4)
            if difference:
                wrong.append(f"{name}: {str(difference)[:200]}")
        assert device.ran
    assert not wrong, "\n".join(wrong)
