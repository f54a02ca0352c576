"""Arrays that are updated in turn, each from the others, stay where they are: values that died are no readers."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import offarray as np
from offarray import config
from offarray.fusion import memory, tape
from offarray.runtime import trace

N = 240


def fields(library: Any) -> list[Any]:
    rng = numpy.random.default_rng(3)
    return [library.array(rng.random((N, N))) for _ in range(3)]


def step(e: Any, h: Any, g: Any) -> None:
    h[:, :-1] -= 0.5 * (e[:, 1:] - e[:, :-1])
    g[:-1, :] += 0.5 * (e[1:, :] - e[:-1, :])
    e[1:-1, 1:-1] += 0.5 * (g[1:-1, 1:-1] - g[:-2, 1:-1] - h[1:-1, 1:-1] + h[1:-1, :-2])


def test_updates_in_turn_move_nothing() -> None:
    ours, theirs = fields(np), fields(numpy)
    with config(device="cpu", eager_size=0, faults="deferred"):
        for _ in range(3):
            step(*ours)
            step(*theirs)
        places = [x._base.node.buffer.address for x in ours]
        before = trace.stats()["host_bytes"]
        for _ in range(3):
            step(*ours)
            step(*theirs)
        assert [x._base.node.buffer.address for x in ours] == places
        assert trace.stats()["host_bytes"] == before
    for a, b in zip(ours, theirs, strict=True):
        assert numpy.array_equal(a, b)


@pytest.mark.parametrize("kept", ["source", "value"])
def test_what_can_still_be_asked_for_is_read_before(kept: str) -> None:
    with config(device="cpu", eager_size=0, faults="deferred"):
        x, e = np.array(numpy.arange(float(N))), np.array(numpy.ones(N))
        old = numpy.array(x)
        value = x[1:] * 2.0 if kept == "value" else x[1:]
        x[:-1] += e[1:]
        wanted = old[1:] * 2.0 if kept == "value" else numpy.append(old[1:-1] + 1.0, old[-1])
        assert numpy.array_equal(value, wanted)


def test_a_chain_of_dead_values_is_idle_as_a_whole() -> None:
    with config(device="cpu", eager_size=0, faults="deferred"):
        tape.compact(thorough=True)
        before = len(tape.nodes)
        x = np.array(numpy.ones(N))
        y = 0.5 * (-x + x * 3.0)
        assert len(tape.nodes) == before + 4
        del y
        assert len(memory.idle(tape.nodes)) == 4
        tape.compact(thorough=True)
        assert len(tape.nodes) == before


def test_values_between_that_nobody_holds_are_not_asked_for() -> None:
    with config(device="cpu", eager_size=0, faults="deferred"):
        tape.compact(thorough=True)
        x = np.array(numpy.arange(6.0 * N).reshape(6, N))
        z, whole = x * 1.5, numpy.arange(6.0 * N).reshape(6, N) * 1.5
        for _ in range(5):  # through conditions, windows, other types and folds: none of the former values is wanted
            z = np.where(z[1:] > z[:-1], z[1:] + 1, z[:-1].astype("f4") * 2.0)
            whole = numpy.where(whole[1:] > whole[:-1], whole[1:] + 1, whole[:-1].astype("f4") * 2.0)
            z, whole = np.concatenate([z, x[:1]]), numpy.concatenate([whole, numpy.asarray(x)[:1]])
        kept = z * 2.0
        held = [node for node in tape.wanted() if node is z._base.node or node is kept._base.node]
        assert len(held) == len(tape.wanted())
        assert numpy.array_equal(kept, whole * 2.0)
        assert numpy.array_equal(z, whole)


@pytest.mark.parametrize(
    "make", [lambda x: np.where(x > 1, x, 0.0), lambda x: x + np.ones(N), lambda x: -x.sum(axis=0)]
)
def test_a_result_in_c_order_is_the_whole_of_its_base(make: Any) -> None:
    with config(device="cpu", eager_size=0, faults="deferred"):
        made = make(np.array(numpy.arange(6.0 * N).reshape(6, N)))
        assert made._base.node.shape is made._shape


def test_a_field_that_waits_is_kept_where_its_source_is_overwritten() -> None:
    """No copy of the base: what was recorded from its old value is computed beside the write."""

    def step(h: Any, e: Any) -> None:
        h -= 0.5 * (e[1:] - e[:-1])  # all of a base: recorded
        e[1:-1] = 0.9 * e[1:-1] + 0.5 * (h[:-1] - h[1:])

    start = numpy.sin(numpy.arange(2.0 * N))
    theirs = [start[: N - 1].copy(), start[N:].copy()]
    with config(device="cpu", eager_size=0, faults="deferred"):
        ours = [np.array(a) for a in theirs]
        for _ in range(3):
            step(*ours)
            step(*theirs)
        places, before = [x._base.node.buffer.address for x in ours], trace.stats()
        for _ in range(5):
            step(*ours)
            step(*theirs)
        assert [x._base.node.buffer.address for x in ours] == places
        after = trace.stats()
        assert after["host_bytes"] == before["host_bytes"]
        assert after["kernels"] - before["kernels"] <= 5 * 3
    for a, b in zip(ours, theirs, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-13)
