"""A state machine over pairs of arrays, driven by hypothesis (which shrinks) and by seeded dice (which are fast).

OFFARRAY_MACHINE_STEPS sets the number of random steps for each way of running; a failure prints the steps before it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests import twice
from tests.semantics.machine import STATES, Machine
from tests.semantics.operations import OPERATIONS, create
from tests.semantics.operations_more import collect, freeze

STEPS = int(os.environ.get("OFFARRAY_MACHINE_STEPS", "400"))
RUN = 120  # steps of one population of pairs

WRITES_NEED = ("ready", "view of ready", "read", "view of read", "pending", "view of pending", "shared", "borrowed")
REACHABLE = {(name, state) for name in OPERATIONS for state in STATES}
REACHABLE -= {("export_write", s) for s in STATES if s not in ("shared", "borrowed")}
REACHABLE -= {("export_end", s) for s in STATES if s not in ("shared", "borrowed")}
REACHABLE -= {(f.__name__, "moved") for f in (collect, freeze)} | {("freeze", "borrowed")}
REACHABLE -= {("move", s) for s in STATES if s.startswith("view")}

WAYS: dict[str, dict[str, Any]] = {
    "cpu": {"eager_size": 0, "faults": "deferred"},
    "interpret": {"eager_size": 0, "faults": "deferred", "device": "interpret"},
    "bound3": {"eager_size": 0, "faults": "deferred", "bound": 3, "device": "interpret"},
    "kept": {"eager_size": 0, "faults": "deferred", "donate": False, "device": "interpret"},
    "eager": {"eager_size": 200, "device": "interpret"},
    "waiting": {"eager_size": 4096, "wait_size": 0, "faults": "deferred", "device": "cpu"},
    "check": {"eager_size": 0, "faults": "deferred", "check": 1, "device": "interpret"},
}


def apply(m: Machine, name: str, p: Any) -> None:
    """One operation on one pair."""
    step = OPERATIONS[name](m, p)
    if step is not None and step.operands:
        m.run(name, step)


def guided(m: Machine, rng: random.Random) -> tuple[str, Any]:
    """An operation and a pair, often of a combination not seen yet."""
    if rng.random() < 0.5:
        for p in rng.sample(m.pairs, len(m.pairs)):
            state = m.state(p)
            fresh = [name for name in OPERATIONS if not m.counts[name, state] and (name, state) in REACHABLE]
            if fresh:
                return rng.choice(fresh), p
    return rng.choice(list(OPERATIONS)), rng.choice(m.pairs)


def drive(seed: int, steps: int, counts: Counter[tuple[str, str]]) -> None:
    """One population of pairs through `steps` random steps."""
    rng = random.Random(seed)
    m = Machine(lambda n: rng.randrange(n), counts)
    try:
        for _ in range(steps):
            if len(m.pairs) < 3 or rng.random() < 0.08:
                create(m)
            elif rng.random() < 0.08:
                m.compare(rng.choice(m.pairs))  # no variable: it would keep a dropped pair alive
            else:
                apply(m, *guided(m, rng))
        m.compare_all()
    except Exception as error:
        error.add_note(f"seed {seed}, after:\n" + "\n".join(m.log))
        raise


@pytest.mark.parametrize("way", WAYS)
def test_random_steps(way: str) -> None:
    done = 0
    with twice.settings(**WAYS[way]):
        for seed in range(0, STEPS, RUN):
            counts: Counter[tuple[str, str]] = Counter()  # afresh: the seed alone tells what happens
            drive(seed, min(RUN, STEPS - seed), counts)
            done += sum(counts.values())
    assert done > STEPS // 4


@pytest.mark.skipif(twice.SELF, reason="NumPy has no pending arrays")
def test_combinations_of_operation_and_state() -> None:
    """Nearly every declared combination is met; the rest is listed."""
    counts: Counter[tuple[str, str]] = Counter()
    with twice.settings(**WAYS["interpret"]):
        for seed in range(10_000, 10_040):
            drive(seed, RUN, counts)
            missing = sorted(pair for pair in REACHABLE if not counts[pair])
            if len(missing) <= 0.02 * len(REACHABLE):
                break
    print(f"{len(REACHABLE) - len(missing)} of {len(REACHABLE)} combinations; missing: {missing}")
    assert len(missing) <= 0.05 * len(REACHABLE), missing


def machine_of(**values: Any) -> type[RuleBasedStateMachine]:
    """The rules as a hypothesis machine that runs under the given settings."""

    def start(self: Any) -> None:
        RuleBasedStateMachine.__init__(self)
        self.config = twice.settings(**values)
        self.config.__enter__()
        self.machine = Machine(lambda n: 0)

    def bind(self: Any, data: Any) -> Machine:
        self.machine.choose = lambda n: data.draw(strategies.integers(0, n - 1))
        machine: Machine = self.machine
        return machine

    def maker(name: str) -> Any:
        @precondition(lambda self: self.machine.pairs)
        @rule(data=strategies.data())
        def step(self: Any, data: Any) -> None:
            m = bind(self, data)
            apply(m, name, m.pick(m.pairs))

        step.__name__ = name
        return step

    @rule(data=strategies.data())
    def new(self: Any, data: Any) -> None:
        create(bind(self, data))

    @precondition(lambda self: self.machine.pairs)
    @rule(data=strategies.data())
    def compare(self: Any, data: Any) -> None:
        m = bind(self, data)
        m.compare(m.pick(m.pairs))

    def teardown(self: Any) -> None:
        try:
            self.machine.compare_all()
        finally:
            self.config.__exit__(None, None, None)

    rules = {f"do_{name}": maker(name) for name in OPERATIONS}
    body = {"__init__": start, "teardown": teardown, "new": new, "compare": compare, **rules}
    return type("Arrays", (RuleBasedStateMachine,), body)


@pytest.mark.parametrize("way", ["interpret", "cpu", "waiting"])
def test_hypothesis(way: str) -> None:
    run_state_machine_as_test(
        lambda: machine_of(**WAYS[way])(),
        settings=settings(
            max_examples=max(STEPS // 30, 10),
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
