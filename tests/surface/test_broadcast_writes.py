"""Arrays of `broadcast_arrays`: reading them is silent, writing them warns once, and flags say what NumPy's say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import offarray
from offarray.runtime.config import config

Program = Callable[[Any, Any, Any], Any]
READS: list[Program] = [
    lambda np, u, v: u + v, lambda np, u, v: u.sum(), lambda np, u, v: u[:, 1:] * 2, lambda np, u, v: u.T.copy(),
    lambda np, u, v: memoryview(u).readonly, lambda np, u, v: u.__array_interface__["data"][1],
    lambda np, u, v: numpy.asarray(u) * 2, lambda np, u, v: memoryview(u.T).readonly,
    lambda np, u, v: u.copy().__iadd__(1),
    lambda np, u, v: u.flags.writeable, lambda np, u, v: u.flags.num & 0x400, lambda np, u, v: u.setflags(write=True),
    lambda np, u, v: (u.setflags(write=True), u.__iadd__(1))[1],
    lambda np, u, v: (u.setflags(write=False), u.flags.writeable),
]  # fmt: skip
WRITES: list[Program] = [
    lambda np, u, v: u.__iadd__(v), lambda np, u, v: u.__isub__(1), lambda np, u, v: np.add(u, v, out=u),
    lambda np, u, v: u.__setitem__(Ellipsis, 3), lambda np, u, v: u.__setitem__((0,), v[0]),
    lambda np, u, v: u.__setitem__(u > 0, 1), lambda np, u, v: u.__setitem__(([0], [1]), 5), lambda np, u, v: u.fill(3),
    lambda np, u, v: u.T.fill(3), lambda np, u, v: np.copyto(u, v), lambda np, u, v: u.put(0, 1),
    lambda np, u, v: u.sort(),
    lambda np, u, v: np.cumsum(v, axis=0, out=u), lambda np, u, v: np.sum(v, axis=0, out=u[0]),
    lambda np, u, v: u.flat.__setitem__(0, 1), lambda np, u, v: setattr(u, "flat", 1),
    lambda np, u, v: u[0].__iadd__(1),
    lambda np, u, v: (u.__iadd__(1), u.__iadd__(1)), lambda np, u, v: np.add.at(u, 0, 1),
    lambda np, u, v: np.putmask(u, u > 1, 0),
    lambda np, u, v: np.place(u, u > 1, [0]), lambda np, u, v: u.clip(0, 1, out=u), lambda np, u, v: u.partition(1),
]  # fmt: skip


def outcome(np: Any, count: int, program: Program) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        u, v = np.broadcast_arrays(np.arange(count), np.arange(count * 2).reshape(2, count))
        result = program(np, u, v)
        if not isinstance(result, bool | int | None):
            result = numpy.asarray(result).tolist()
        told = list(told)
        lost = [w for w in told if "broadcast_array" in str(w.message) and w.filename.startswith(offarray.__path__[0])]
    return result, numpy.asarray(u).tolist(), [(w.category, str(w.message)) for w in told], len(lost)


@pytest.mark.parametrize(("count", "eager_size"), [(3, 8192), (3, 0), (9000, 8192)])
@pytest.mark.parametrize("program", READS + WRITES)
def test_told_as_numpy_tells(program: Program, count: int, eager_size: int) -> None:
    with config(eager_size=eager_size):
        got = outcome(offarray, count, program)
    assert got == outcome(numpy, count, program)
