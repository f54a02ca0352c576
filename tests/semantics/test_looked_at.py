"""Writes into small arrays whose memory was, or still is, handed out: each statement's effect, seen from everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from .. import twice

WRITES = (
    "e += 1.0",
    "e -= f",
    "e *= f[0]",
    "e /= e",
    "e **= 2",
    "e //= 0.5",
    "e[1:-1] += f[1:-1]",
    "e[1:-1] *= 2.0 * f[1:-1] - e[1:-1]",
    "e[:, 1:-1] += 0.5 * (e[:, 2:] - 2.0 * e[:, 1:-1] + e[:, :-2])",
    "e.T[1:] += f[1:]",
    "v += 1.0",
    "v *= e[::2]",
    "e[m] = 0.0",
    "e[m] += 1.0",
    "e[m] = f[m]",
    "e[i] = 2.0",
    "e[i] -= f[i]",
    "np.add(e, f, out=e)",
    "np.multiply(f, f, out=e)",
    "np.exp(f, out=e)",
    "np.subtract(f[::2], 1.0, out=v)",
    "e[...] = e.T",
    "e += e.T",
    # values that need the old contents and are asked for afterwards
    "t = e[2:] * 0.5; e[1:-1] = t; kept.append(t)",
    "t = e[2:] * 0.5; e[1:-1] += t; kept.append(t)",
    "t = [e[2:] - f[:-2]]; e[1:-1] -= t[0]; kept += t",
    "t = e * 2.0; e[1:-1] = t[2:]; kept.append(t)",
    "t = e * 2.0; u = t[2:]; del t; e[1:-1] = u + 1.0; kept.append(u)",
    "t = e[1:-1] - 1.0; e[1:-1] = t + e[2:]; kept.append(t * 1.0)",
    "t = e[1:-1] * 3.0; e[1:-1] *= t; e[2:] -= t; kept.append(t)",
    "kept.append(e[1:-1] * 3.0); e[1:-1] = kept[-1] + e[:-2]",
    "e[1:-1] = (e[2:] + e[:-2]) * 0.5",
    "e[1:-1, 1:-1] = e[1:-1, 1:-1] + 0.1 * (e[2:, 1:-1] - f[1:-1, 1:-1])",
)


def memory(np: Any, statement: str, how: str) -> list[Any]:
    """What every name for the memory shows after three runs of a statement."""
    e = np.array([[0.5 + ((7 * r + 3 * c) % 11) / 11 for c in range(6)] for r in range(6)])
    f = e * 0.5 + 0.25
    v = e[::2]
    kept: list[Any] = []
    names = {"np": np, "e": e, "f": f, "v": v, "m": e > 0.9, "i": np.array([4, 1]), "kept": kept}
    if how != "never":
        kept += [numpy.asarray(x) for x in (e, f, v)]
    if how == "once":
        kept.clear()
    for _ in range(3):
        pending = f + e  # reads what is written next
        exec(statement, names)
        seen = [pending, names["e"], e, names["v"], v, e[1], f, *kept]
    return [numpy.array(x) for x in seen]


@pytest.mark.parametrize("how", ("never", "once", "still"))
@pytest.mark.parametrize("statement", WRITES)
def test_writes(statement: str, how: str, setting: Callable[[], Any]) -> None:
    with setting():
        got = memory(twice.MODULE, statement, how)
    for a, b in zip(got, memory(numpy, statement, how), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.fixture(params=({}, {"eager_size": 0}, {"wait_size": 0}, {"wait_size": 1 << 40}), ids=str)
def setting(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return lambda: twice.settings(**request.param)


@pytest.mark.parametrize("how", ("never", "once", "still"))
@pytest.mark.parametrize(
    "write", ("x[9] = 1", "x[9] = y[0]", "x[9] = y[0] * 2.0 + 1.0", "x[9] += 1", "x[[9]] = 1", "x[m] = 1")
)
def test_read_only_is_said_first(write: str, how: str, setting: Callable[[], Any]) -> None:
    """Of an array that may not be written, before anybody looks at the index or the value."""

    def body(np: Any) -> Any:
        x, y = np.arange(12.0).reshape(4, 3), np.ones((4, 3))
        kept = numpy.asarray(x) if how != "never" else None
        if how == "once":
            del kept
        x.flags.writeable = False
        names = {"x": x, "y": y, "m": np.zeros((7, 7), bool)}
        return [twice.caught(lambda: exec(write, names)) for _ in range(4)], x

    with setting():
        twice.same(body)


@pytest.mark.parametrize(
    "write", ("x[:, 2:] = x[:, 1:-1]", "x[1:] += x[:-1]", "x[:-1] = y[1:] * x[1:]", "x[:, 0] = x[:, 1] + y[0, 0]")
)
def test_what_is_looked_at_later_stays_where_it_is(write: str, setting: Callable[[], Any]) -> None:
    """A write that was planned for memory that nobody else saw is planned anew where somebody does, and back."""

    def body(np: Any) -> Any:
        x = np.array([[float((5 * r + 3 * c) % 13) for c in range(11)] for r in range(12)])
        names, kept = {"x": x, "y": x * 0.25}, []
        for k in range(6):
            exec(write, names)
            if k in (1, 4):
                kept.append(numpy.asarray(x))  # its own memory, also after the next writes
            if k == 3:
                kept.clear()
        return [numpy.array(a) for a in (x, *kept)]

    with setting():
        twice.same(body)
