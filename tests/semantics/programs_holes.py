"""Programs that break a careless lazy NumPy: faults, identity, scalars, effects."""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from typing import Any

import numpy

from tests.twice import Programs, caught

program = Programs()
N = 3000  # more than runs at once


def line(np: Any, n: int = N, dtype: str = "f8") -> Any:
    return np.arange(n).astype(dtype)


# -- faults and exceptions stay in their block -------------------------------------------------------------------------


@program
def index_error_at_the_statement(np: Any) -> Any:
    a = line(np)
    idx = np.arange(N) + 1
    return caught(lambda: a[idx]), caught(lambda: a[idx - 1]), caught(lambda: a[idx - N - 3]), caught(lambda: a[N])


@program
def failed_index_write_changes_nothing(np: Any) -> Any:
    a = line(np)
    idx = np.arange(N) + 1

    def write() -> None:
        a[idx] = 7

    def add() -> None:
        a[idx] += 7

    return caught(write), caught(add), a


@program
def failed_operations_change_nothing(np: Any) -> Any:
    a, b, i = line(np) + 1, line(np, 7), line(np, dtype="i4")
    y = a * 2

    def in_place_shape() -> None:
        nonlocal a
        a += b

    def in_place_cast() -> None:
        nonlocal i
        i += 0.5

    errors = [
        caught(in_place_shape), caught(in_place_cast), caught(lambda: a.reshape(7)), caught(lambda: a + b),
        caught(lambda: np.add(a, a, out=i)), caught(lambda: a.sum(axis=1)), caught(lambda: np.transpose(a, (1, 0))),
        caught(lambda: a[:, 0]), caught(lambda: np.concatenate([a, a.reshape(60, 50)])), caught(lambda: a @ b),
    ]  # fmt: skip
    return errors, a, b, i, y


@program
def errstate_raise(np: Any) -> Any:
    z = np.zeros(N)
    with np.errstate(all="raise"):
        first = caught(lambda: 1 / z)
        second = caught(lambda: np.sqrt(z - 1))
        third = caught(lambda: np.ones(N) * 1e308 * 10)
        fine = z + 1
    return first, second, third, fine


@program
def errstate_is_the_recording_statements(np: Any) -> Any:
    z = np.zeros(N)
    with np.errstate(all="ignore"):
        y = 1 / z
    with np.errstate(all="raise"):
        w = y + 1
        v = y * 2 + w
    return y, w, v


@program
def errstate_call(np: Any) -> Any:
    calls = []
    z = np.zeros(N)
    with np.errstate(all="call", call=lambda kind, flag: calls.append((kind, flag))):
        y = 1 / z
        calls.append("after the division")
        w = np.sqrt(y * 0 - 1)
    return calls, y, w


@program.prompt
def warnings_in_their_block(np: Any) -> Any:
    z = np.zeros(N)
    with warnings.catch_warnings(record=True) as first:
        warnings.simplefilter("always")
        y = 1 / z
    with warnings.catch_warnings(record=True) as second:
        warnings.simplefilter("always")
        w = y + 1
        text = str(w[0])
    return [(str(g.message), g.category) for g in first], len(second), text


@program.prompt
def warnings_as_errors(np: Any) -> Any:
    z = np.zeros(N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return caught(lambda: z / z), caught(lambda: np.log(z)), caught(lambda: z + 1)


@program
def faults_of_masked_lanes(np: Any) -> Any:
    a = line(np)
    safe = np.divide(1.0, a, out=np.zeros(N), where=a > 0)
    with np.errstate(all="raise"):
        again = np.divide(1.0, a, out=np.ones(N), where=a > 0)
        bad = caught(lambda: np.divide(1.0, a, out=np.ones(N), where=a >= 0))
    return safe, again, bad


@program
def infinities_are_no_faults(np: Any) -> Any:
    a = np.array([np.inf, -np.inf, np.nan] * 1000)
    with np.errstate(all="raise"):
        return [
            np.exp(a) > 0, np.tanh(a) > 0, np.arctan(a) > 0, np.expm1(a) > 0, np.exp2(a) > 0, np.cosh(a) > 0,
            np.log1p(np.abs(a)) > 0, a + 1, a * 2, 1 / a, np.sqrt(np.abs(a)),
        ]  # fmt: skip


@program
def integer_division(np: Any) -> Any:
    low = np.full(N, np.iinfo("i8").min)
    a = line(np, dtype="i8") - 5
    return a // 0, a % 0, low // -1, low % -1, 7 // a, -7 % a, a // -3, a % -3, np.divmod(a, 4)


@program
def integer_division_raises(np: Any) -> Any:
    a = line(np, dtype="i4")
    with np.errstate(divide="raise"):
        return caught(lambda: a // 0), caught(lambda: 5 % a), caught(lambda: a // 2)


# -- live named intermediates ------------------------------------------------------------------------------------------


@program
def live_laplacian(np: Any) -> Any:
    u, dt = line(np) ** 2, 0.125
    for _ in range(6):
        lap = u[:-2] + u[2:] - 2 * u[1:-1]
        u[1:-1] += dt * lap
    return u, lap


@program
def live_laplacian_is_read_after_the_write(np: Any) -> Any:
    u = line(np)[::-1] ** 2
    lap = u[:-2] + u[2:] - 2 * u[1:-1]
    scaled = lap * 0.5
    u[1:-1] += scaled
    u[1:-1] += lap
    return scaled, lap, u


@program
def value_evaluated_twice(np: Any) -> Any:
    a = line(np)
    p = a * 2
    y = p + 1
    first = float(y[5])
    z = p - y
    second = float(z[5])
    a[5] = 100
    return first, second, p, y, z


# -- identity ----------------------------------------------------------------------------------------------------------


@program
def identity(np: Any) -> Any:
    a = line(np) + 1
    b = a[1:]
    c = b[1:]
    d = np.zeros(N)
    e = a
    e += 1
    same = [
        b.base is a, c.base is a, a.base is None, weakref.ref(a)() is a, np.asarray(a) is a, e is a, a.T.base is a,
        np.add(a, 1, out=d) is d, (a := a.__iadd__(1)) is e, a.reshape(60, 50).base is a, np.asarray(b) is b,
        np.ascontiguousarray(a) is a, a.ravel().base is a, a.copy().base is None, (a + 1).base is None,
        np.may_share_memory(a, b), np.shares_memory(a[::2], a[1::2]), a[...] is a, a[...].base is a,
        a.astype("f8", copy=False) is a, a.view().base is a,
    ]  # fmt: skip
    return same, a


@program
def equal_expressions_are_two_arrays(np: Any) -> Any:
    a, b = line(np), line(np) + 1
    x = a + b
    y = a + b
    x += 1
    y[0] = -1
    return x, y, a


@program
def is_and_truth(np: Any) -> Any:
    a = line(np)
    return caught(lambda: bool(a)), bool((a == a).all()), a is not a.view(), caught(lambda: hash(a)), 3.0 in a, -1 in a


# -- scalars -----------------------------------------------------------------------------------------------------------


@program
def scalars(np: Any) -> Any:
    a = line(np)
    s = a.sum()
    return (
        s, isinstance(s, float), isinstance(s, numpy.float64), float(s), int(s), f"{s:.2f}", str(s), repr(s),
        hash(s) == hash(float(s)), s == float(s), {s: 1}[float(s)], s + 1, 1 + s, s * a[:5], a[:5] * s, -s, abs(s),
        s > 3, bool(s), s.dtype, s.shape, s.ndim, s.item(), round(s, 1), divmod(s, 7), s // 2, s % 7, s**2,
        np.sqrt(s * s),
    )  # fmt: skip


@program
def scalars_of_integers(np: Any) -> Any:
    i = line(np, dtype="i8")
    m = i.argmax()
    r = list(range(i[:60].size)[: int(i[:4].sum())])
    return i.sum(), m, r, [10, 20, 30][(i[:3] * 0).sum()], i.max() + 1, i.any(), i.min() == 0, (i > 5).sum(), i[m]


@program
def element_access(np: Any) -> Any:
    a = line(np).reshape(60, 50)
    b = a + 1
    names = [type(v).__name__ for v in b[0, :3]]
    return a[1, 2], b[3, 4], b[-1, -1], b[2][3], b.item(5), b[0, 0] + 1, names, b[1, 1].dtype


@program
def normalise(np: Any) -> Any:
    x = line(np)
    x[...] = 3.0
    y = x / np.sqrt((x * x).sum() / N)
    s = (x * x).sum()
    x[0] = 1e6
    return y, s


@program
def zero_dimensions(np: Any) -> Any:
    a = np.array(3.0)
    b = a + 1
    a += 1
    c = np.array([1.0, 2.0]).sum(keepdims=True)
    return a, b, a[()], a[...], a.shape, np.asarray(5), c, np.array(7).item(), np.add(a, 1, out=np.array(0.0))


@program
def constant_without_axes_is_an_array(np: Any) -> Any:
    c = np.full((), 3)
    a = line(np)
    first = a + c
    c += 4
    second = a * c
    np.multiply(a, c, out=a)
    return first, second, a, c, a.astype("f4") + c, np.where(a > 5, c, a)


# -- effects other than writes -----------------------------------------------------------------------------------------


@program
def draws_come_in_order(np: Any) -> Any:
    rng = np.random.default_rng(7)
    a = rng.random(N)
    state = rng.bit_generator.state["state"]["state"]
    b = rng.standard_normal(N)
    c = a + b
    d = rng.integers(0, 10, N)
    return a, b, c, d, state, rng.bit_generator.state["state"]["state"]


@program
def host_calls_run_at_the_statement(np: Any) -> Any:
    calls = []
    f = np.vectorize(lambda v: calls.append(float(v)) or v + 1, otypes=["f8"])
    a = line(np, 5)
    y = f(a)
    calls.append("after")
    g = np.fromfunction(lambda i, j: (calls.append("called"), i + j)[1], (60, 50))
    calls.append("end")
    return y, g, calls


@program
def file_is_written_at_the_statement(np: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.npy")
        a = line(np) * 2
        np.save(path, a)
        a += 1
        b = np.load(path)
        a.tofile(path)
        return a, b, numpy.fromfile(path)


@program
def overlapping_destination(np: Any) -> Any:
    w = np.lib.stride_tricks.as_strided(b := np.zeros(8), (4, 4), (8, 8))
    w[...] = line(np, 16).reshape(4, 4)
    return b, w


@program
def overlapping_destination_in_place(np: Any) -> Any:
    base = line(np)
    w = np.lib.stride_tricks.as_strided(base, (N - 2, 3), (8, 8))
    w += 1
    return base, w.sum(1)


@program
def broadcast_view_is_read_only(np: Any) -> Any:
    b = np.broadcast_to(line(np, 3), (4, 3))

    def write() -> None:
        b[0, 0] = 1

    return caught(write), b, b.flags.writeable, b.strides


@program
def exception_keeps_the_frame_alive(np: Any) -> Any:
    def fail() -> None:
        local = line(np) + 1
        y = local * 2
        y[0] = 5
        raise KeyError(y)

    try:
        fail()
    except KeyError as error:
        y = error.args[0]
        z = y + 1
        y += 1
    return y, z


@program
def generator_holds_an_array(np: Any) -> Any:
    def steps() -> Any:
        u = line(np)
        while True:
            v = u * 0.5
            yield v
            u = v + 1

    g = steps()
    first, second, third = next(g), next(g), next(g)
    first += 100
    return first, second, third, next(g)


@program
def closure_and_cycle(np: Any) -> Any:
    a = line(np) + 1
    box = [a]
    box.append(box)
    f = lambda: box[0] * 2  # noqa: E731
    b = f()
    a += 1
    del a
    c = f()
    return b, c


@program
def hessian_like_dictionary(np: Any) -> Any:
    state = {"x": line(np), "v": np.ones(N)}
    for _ in range(5):
        state["v"] -= 0.5 * state["x"]
        state["x"] += 0.5 * state["v"]
    return state
