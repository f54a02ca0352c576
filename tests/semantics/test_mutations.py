"""Mistakes of the planner, made on purpose: the random steps must notice each of them.

A harness that never fails proves nothing; this says how much the state machine sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import twice
from tests.semantics.test_machine import RUN, drive

pytestmark = pytest.mark.skipif(twice.SELF, reason="NumPy plans nothing")

SEEDS = 150
LAZY: dict[str, Any] = {"eager_size": 0, "faults": "deferred"}


def answer(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


class Careless:
    """Lifetimes that give away whatever a step reads last, alive or not."""

    def __new__(cls, *args: Any) -> Any:
        from offarray.fusion.memory import Lifetimes

        made = Lifetimes(*args)
        made.free = set(made.last)
        return made


# name -> (module, attribute, replacement): what is forgotten
MUTANTS: dict[str, tuple[str, str, Any]] = {
    "readers of the version that is overwritten": ("offarray._record", "pending_readers", answer(False)),
    "live values below a write": ("offarray._record", "lasting", answer(())),
    "readers before NumPy writes": ("offarray._record", "unread", answer(True)),
    "overlap of a write with what it reads": ("offarray.fusion.memory", "_harmless", answer(True)),
    "memory that others see": ("offarray.runtime.buffer.Buffer", "shared", property(answer(False))),
    "who is alive": ("offarray._evaluate", "Lifetimes", Careless),
    "borrows": ("offarray._record", "borrowers", answer(None)),
    "order of axes": ("offarray._record", "memory_order", lambda ndim, operands: tuple(range(ndim))),
    "elements outside a write": ("offarray.fusion.memory", "copy_rest", answer(None)),
    "which memory a replayed graph has": ("offarray.fusion.replay", "key_of", answer((1,))),
}


@pytest.fixture(autouse=True)
def no_wrong_recipes() -> Iterator[None]:
    """What a mutant has planned is replayed by nobody else."""
    from offarray.fusion import replay

    replay.recipes.clear()
    yield
    replay.recipes.clear()


@pytest.mark.parametrize("forgotten", MUTANTS)
def test_mistake_is_noticed(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, replacement = MUTANTS[forgotten]
    try:
        monkeypatch.setattr(f"{module}.{name}", replacement)
    except TypeError:
        pytest.skip("compiled classes cannot be changed")
    with twice.settings(**LAZY, device="cpu" if "overlap" in forgotten else "interpret"):
        for seed in range(SEEDS):
            try:
                drive(seed, RUN, Counter())
            except Exception:
                return
    pytest.fail(f"nobody notices that {forgotten} are forgotten")
