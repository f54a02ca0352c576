"""Views of arrays that have no base yet: they follow the owner when it gets one."""

from __future__ import annotations

import gc
from typing import Any

import numpy
import pytest

import offarray as np
from offarray import _views
from offarray.runtime.config import config

from .compare import same


def test_views_and_owner_share_one_base_later() -> None:
    a = np.arange(20.0)
    b, c = a[2:], a[::2]
    d = b[1:]
    assert [x._at for x in (a, b, c, d)] == [True] * 4
    base = d._base
    assert all(x._base is base for x in (a, b, c, d))
    assert [x._offset for x in (a, b, c, d)] == [0, 16, 0, 24]
    assert d.base is a


@pytest.mark.parametrize("written", ["owner", "view", "view of a view"])
def test_lazy_writes_reach_views_made_before(written: str) -> None:
    results = []
    for module in (numpy, np):
        a = module.arange(3000.0)
        b = a[10:]
        c = b[::2]
        target = {"owner": a, "view": b, "view of a view": c}[written]
        before = a * 3
        with config(eager_size=0):
            target += before[: target.size]
            target *= 2
            after = a + 1
        results.append((a, b, c, before, after))
    same(results[1], results[0])


def test_many_dead_views_are_forgotten() -> None:
    a = np.arange(10.0)
    kept = a[3:]
    for i in range(1000):
        a[i % 5 :]
    assert len(a._loose) < 200
    gc.collect()
    with config(eager_size=0):
        a += 1
    same(kept, numpy.arange(10.0)[3:] + 1)


def test_views_outlive_their_owner() -> None:
    def view() -> Any:
        return np.arange(6.0).reshape(2, 3).T

    v = view()
    gc.collect()
    with config(eager_size=0):
        v += 1
        same(v * 2, (numpy.arange(6.0).reshape(2, 3).T + 1) * 2)
    assert v.base is not None


def test_resize_refuses_while_a_view_lives() -> None:
    a = np.arange(4)
    v = a[1:]
    with pytest.raises(ValueError, match="references"):
        a.resize(9)
    del v
    a.resize(5)
    assert a.tolist() == [0, 1, 2, 3, 0]


def test_views_keep_their_memory_when_the_owner_starts_afresh() -> None:
    a = np.arange(4000.0)
    v = a[10:20]
    a.resize(9000, refcheck=False)
    with config(eager_size=0):
        a += 1
        same(v * 1, numpy.arange(10.0, 20.0))
        v += 5
    same(v, numpy.arange(15.0, 25.0))
    assert a[15] == 16


@pytest.mark.parametrize(
    "shapes", [((300, 1), (1, 300)), ((300, 1, 3), (1, 300, 3)), ((200,), (200, 1)), ((2, 1, 300), (300, 1))]
)
def test_small_operands_with_a_large_result_are_recorded(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = numpy.random.default_rng(1)
    x, y = (rng.random(s) for s in shapes)
    for call in (
        lambda np, a, b: a - b, lambda np, a, b: a < b, lambda np, a, b: np.maximum(a, b),
        lambda np, a, b: np.clip(a, b, 1.0), lambda np, a, b: np.where(a < b, a, b),
    ):  # fmt: skip
        with config(eager_size=32768, faults="deferred"):
            got = call(np, np.array(x), np.array(y))
            assert _views.is_pending(got)
        assert (numpy.asarray(got) == call(numpy, x, y)).all()


def test_small_operands_with_a_small_result_are_not() -> None:
    a, row = np.array(numpy.ones((100, 100))), np.array(numpy.ones(100))
    with config(eager_size=32768):
        for made in (a + row, row - a, a < row, np.hypot(a, row), np.clip(a, row, 2.0), a + np.array(1.0)):
            assert not _views.is_pending(made)
