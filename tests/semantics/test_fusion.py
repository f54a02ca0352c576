"""How much one kernel does: counts of kernels, compilations and fallbacks for programs that must fuse."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from offarray.fusion import tape
from offarray.runtime.config import settings
from tests import twice
from tests.semantics.measure import peak
from tests.twice import MODULE as np

pytestmark = pytest.mark.skipif(twice.SELF, reason="NumPy fuses nothing")

N = 1_000_000


@pytest.fixture(autouse=True)
def deferred() -> Iterator[None]:
    with np.config(faults="deferred", eager_size=2000):
        yield


def floats(*shape: int) -> numpy.ndarray:
    return numpy.random.default_rng(5).random(shape or (N,))


def check(got: Any, want: Any, rtol: float = 1e-12) -> None:
    """Values within rounding; dtype and shape exactly."""
    got = numpy.asarray(got)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    numpy.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)


def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(np: Any, x: Any) -> Any:
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * 1.5 + 0.5


def gelu(np: Any, x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def interior(np: Any, u: Any) -> Any:
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


# name -> body, operands, kernels
ONE: dict[str, tuple[Callable[..., Any], tuple[numpy.ndarray, ...]]] = {
    "five operations": (lambda np, a, b: (a * 2 + b) * a - b / 3, (floats(), floats())),
    "functions": (lambda np, a: np.exp(-a) * np.sin(a) + np.sqrt(a), (floats(),)),
    "select": (lambda np, a: np.where(a > 0.5, a * 2, -a) + 1, (floats(),)),
    "softmax": (softmax, (floats(512, 1024),)),
    "layer norm": (layer_norm, (floats(512, 1024),)),
    "gelu": (gelu, (floats(),)),
    "dot": (lambda np, a, b: (a * b).sum(), (floats(), floats())),
    "columns": (lambda np, a: (a * 2).sum(axis=0), (floats(1000, 1000),)),
    "rows": (lambda np, a: (a * a).sum(axis=1), (floats(1000, 1000),)),
    "maximum": (lambda np, a: np.abs(a - 0.5).max(), (floats(),)),
    "argmax": (lambda np, a: (a * -1).argmax(), (floats(),)),
    "stencil": (interior, (floats(1000, 1000),)),
    "broadcast": (lambda np, a, b: (a[:, None] - b[None, :]) * 2, (floats(1000), floats(1000))),
    "transposed": (lambda np, a: a.T * 2 + a.T, (floats(1000, 1000),)),
    "strided": (lambda np, a: a[::2] * 2 + a[1::2], (floats(),)),
    "reversed": (lambda np, a: a[::-1] - a, (floats(),)),
    "cast": (lambda np, a: (a.astype("f4") * 2).astype("f8") + a, (floats(),)),
    "compare": (lambda np, a: (a > 0.25) & (a < 0.75), (floats(),)),
    "count": (lambda np, a: (a > 0.25).sum(), (floats(),)),
    "mean": (lambda np, a: a.mean(), (floats(),)),
    "integers": (lambda np, a: (a.astype("i8") * 3 + 1) % 7, (floats() * 100,)),
    "clip": (lambda np, a: np.clip(a * 2, 0.1, 0.9), (floats(),)),
    "ravel": (lambda np, a: (a.ravel() * 2).reshape(1000, 1000) + a, (floats(1000, 1000),)),
}


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    body, data = ONE[name]
    operands = [np.array(d) for d in data]
    with np.expect(kernels=1, fallbacks=0):
        got = body(np, *operands)
        np.evaluate(got)
    check(got, body(numpy, *data), 1e-10)


def test_expect_is_strict() -> None:
    a = np.array(floats())
    with pytest.raises(AssertionError), np.expect(kernels=2):
        np.evaluate(a + 1)


def test_outputs_of_one_shape_share_a_kernel() -> None:
    data = floats()
    a = np.array(data)
    x, y, z = a * 2 + 1, a - 1, (a - 1) * (a * 2 + 1)
    with np.expect(kernels=1, fallbacks=0):
        np.evaluate(x, y, z)
    check(x, data * 2 + 1)
    check(y, data - 1)
    check(z, (data - 1) * (data * 2 + 1))


def test_live_intermediate_and_result() -> None:
    data = floats()
    a = np.array(data)
    p = a * 2 + 1
    q = p * p
    with np.expect(kernels=1, fallbacks=0):
        np.evaluate(p, q)
    check(p, data * 2 + 1)
    check(q, (data * 2 + 1) ** 2)


def test_whole_updates_in_place() -> None:
    data = floats()
    x = np.array(data)
    with np.expect(kernels=1, fallbacks=0):
        x += 1
        x *= 2
        x -= 0.5
        np.evaluate(x)
    check(x, (data + 1) * 2 - 0.5)


def test_axpy_in_place_takes_no_memory() -> None:
    data = floats()
    x, y = np.array(data), np.array(data)
    np.evaluate(x, y)

    def axpy() -> None:
        nonlocal y
        y += 2 * x
        np.evaluate(y)

    axpy()  # on a device the arrays have been brought there now
    with np.expect(kernels=1, fallbacks=0):
        _, taken = peak(axpy)
    assert taken == 0
    check(y, data + 2 * data + 2 * data)


def test_interior_update_in_place() -> None:
    data = floats(600, 600)
    u, want = np.array(data), data.copy()
    with np.expect(fallbacks=0):
        for _ in range(3):
            u[1:-1, 1:-1] += 0.1 * (interior(np, u) - u[1:-1, 1:-1])
        np.evaluate(u)
    for _ in range(3):
        want[1:-1, 1:-1] += 0.1 * (interior(numpy, want) - want[1:-1, 1:-1])
    check(u, want)


def test_expression_is_evaluated_once() -> None:
    a = np.array(floats())
    y = np.exp(a) + 1
    with np.expect(kernels=1):
        float(y[0])
        float(y[1])
        str(y)
        numpy.asarray(y)


def test_nothing_runs_before_it_is_needed() -> None:
    a = np.array(floats())
    with np.expect(kernels=0, fallbacks=0):
        y = np.exp(a) * 2
        z = y + a
        w = z.sum()
        assert z.shape == (N,)
        assert z.dtype == numpy.float64
        v = z[1:].reshape(-1, 1).T
        assert v.shape == (1, N - 1)
    del y, z, w, v


def test_a_dropped_value_is_never_computed() -> None:
    a = np.array(floats())
    with np.expect(kernels=1):
        waste = np.exp(a)
        del waste
        np.evaluate(a * 2)


def compiles(action: Callable[[], Any]) -> int:
    """Kernels built by `action()`, from the disk cache or anew."""
    before = np.stats()
    action()
    after = np.stats()
    return sum(after[k] - before[k] for k in ("compiles", "cache_hits"))


def settled(body: Callable[..., None], first: tuple[Any, ...], others: tuple[tuple[Any, ...], ...]) -> int:
    """Kernels built for `others` when `first` has been run.

    On a device each class of extents has a form of its own, which is built when it is first needed: there the others
    have been run before as well, and nothing may depend on more than their class.
    """
    body(*first)
    if settings.device.startswith("cuda"):
        for values in others:
            body(*values)
    return compiles(lambda: [body(*values) for values in others])


def test_new_sizes_and_scalars_build_nothing() -> None:
    def body(n: int, s: float) -> None:
        data = floats(n)
        got = (np.array(data) * s + 1) / (s + 2)
        np.evaluate(got)
        check(got, (data * s + 1) / (s + 2))

    others = ((10_001, 2.5), (40_000, -0.0), (5_003, 1e300), (777_777, 3.0))
    assert settled(body, (10_000, 1.5), others) == 0
    assert compiles(lambda: body(777_779, 4.5)) == 0


def test_new_shapes_build_nothing() -> None:
    def body(n: int, m: int) -> None:
        data = floats(n, m)
        got = softmax(np, np.array(data))
        np.evaluate(got)
        check(got, softmax(numpy, data))

    assert settled(body, (100, 200), ((101, 203), (50, 1000), (300, 64))) == 0


def test_a_loop_builds_its_kernels_once() -> None:
    x = np.array(floats())

    def body() -> None:
        nonlocal x
        for _ in range(20):
            x = np.sqrt(x * x + 1) * 0.5
            np.evaluate(x)

    body()
    assert compiles(body) == 0


BAD: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "shapes": (ValueError, lambda a: a + np.ones(7)),
    "matmul": (ValueError, lambda a: a @ np.ones(7)),
    "index": (IndexError, lambda a: a[N]),
    "index array": (IndexError, lambda a: a[np.arange(N) + 1]),
    "axis": (numpy.exceptions.AxisError, lambda a: a.sum(axis=1)),
    "reshape": (ValueError, lambda a: a.reshape(3, 7)),
    "cast": (TypeError, lambda a: np.add(a, 1, out=np.zeros(N, "i4"))),
    "type": (TypeError, lambda a: np.invert(a)),
    "keyword": (TypeError, lambda a: np.exp(a, nonsense=1)),
    "attribute": (AttributeError, lambda a: a.nonsense),
    "mask": (IndexError, lambda a: a[np.ones(7, bool)]),
    "assignment": (ValueError, lambda a: a.__setitem__(slice(0, 5), np.ones(7))),
    "truth": (ValueError, lambda a: bool(a > 1)),
    "empty maximum": (ValueError, lambda a: a[:0].max()),
    "broadcast": (ValueError, lambda a: np.broadcast_to(a, (3, 7))),
    "join": (ValueError, lambda a: np.concatenate([a, a.reshape(1, -1)])),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_at_the_statement(name: str) -> None:
    kind, action = BAD[name]
    data = floats()
    pending = np.array(data) * 2
    with pytest.raises(kind):
        action(pending)
    check(pending, data * 2)


def test_fallback_is_counted_and_refused() -> None:
    a = np.array(floats(5000))
    before = np.stats()["fallbacks"]
    text = np.array(["a", "b"])
    assert np.char.upper(text).tolist() == ["A", "B"]
    assert np.stats()["fallbacks"] >= before
    with np.config(fallback="raise"), np.expect(fallbacks=0):
        check(a * 2 + 1, numpy.array(floats(5000)) * 2 + 1)


FOLD_FAULTS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda np: np.array([1e308] * 3000).sum(),
    "rows": lambda np: np.array([1e308] * 3000).reshape(1000, 3).sum(axis=1),
    "columns": lambda np: np.array([1e308] * 3000).reshape(1000, 3).sum(axis=0),
    "product": lambda np: np.array([1e200] * 3000).prod(),
    "infinities": lambda np: np.array([np.inf, -np.inf] * 1500).sum(),
    "infinite and quiet": lambda np: np.array([np.inf] * 3000).sum(),
    "mean": lambda np: np.array([1e308] * 3000).mean(),
    "halves": lambda np: np.array([60000] * 3000, "f2").sum(),
    "square first": lambda np: (np.array([1e300] * 3000) ** 2).sum(),
}


@pytest.mark.parametrize("name", FOLD_FAULTS)
def test_reductions_warn_as_numpy(name: str) -> None:
    def heard(module: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            numpy.asarray(FOLD_FAULTS[name](module)).ravel()[0].item()
        return [str(w.message) for w in caught]

    with np.config(eager_size=0, faults="auto"):
        assert heard(np) == heard(numpy)


POSITIONAL: dict[str, Callable[[Any], Any]] = {
    "outer": lambda np: np.outer(np.arange(60.0), np.arange(70.0)),
    "none": lambda np: np.add(np.arange(900.0), 1, None),
    "out": lambda np: np.subtract(np.arange(900.0), 0.5, np.zeros(900)),
    "unary": lambda np: np.exp(np.arange(900.0) / 900, np.zeros(900)),
}


@pytest.mark.parametrize("name", POSITIONAL)
def test_out_by_position_is_recorded(name: str) -> None:
    with np.config(eager_size=0), np.expect(fallbacks=0):
        got = POSITIONAL[name](np)
        np.evaluate(got)
    check(got, POSITIONAL[name](numpy))


def test_two_outputs_written_together() -> None:
    a = np.arange(900.0) + 1
    with np.config(eager_size=0), np.expect(fallbacks=0):
        low, high = np.divmod(a, 7, out=(np.zeros(900), a))
        np.evaluate(low, high)
    want = numpy.divmod(numpy.arange(900.0) + 1, 7)
    assert high is a
    check(low, want[0])
    check(a, want[1])


def test_errors_of_numpy_are_no_fallbacks() -> None:
    with np.config(eager_size=0, fallback="raise"):
        i = np.arange(900)
        wrong: tuple[Callable[[], Any], ...] = (
            lambda: np.add(i, 0.5, out=i), lambda: i**-1, lambda: i + np.zeros(7), lambda: np.sin(i, out=i),
            lambda: operator.iadd(i, np.ones((2, 900), int)), lambda: operator.itruediv(i, 2),
        )  # fmt: skip
        for call in wrong:
            with pytest.raises((TypeError, ValueError)):
                call()
        assert int((np.array(2) * np.array(3)) + 1) == 7


def test_too_many_outputs_are_refused() -> None:
    with np.config(eager_size=0), pytest.raises(TypeError):
        np.add(np.arange(900.0), 1, np.zeros(900), np.zeros(900))


@pytest.mark.parametrize("shape", [(1,), (5000, 1), (1, 5000), (1, 1, 300), (300, 2)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "f2"])
def test_no_sum_is_negative_zero(shape: tuple[int, ...], dtype: str) -> None:
    """Sums begin with 0.0, those of one element too; scans, products and maxima keep the sign."""
    with np.config(eager_size=0):
        for axis in (None, *range(len(shape))):
            for name in ("sum", "mean", "prod", "max", "cumsum"):
                if name == "max" and dtype == "c16":
                    continue
                want = numpy.asarray(getattr(numpy.zeros(shape, dtype) * -1.0, name)(axis=axis))
                got = numpy.asarray(getattr(np.zeros(shape, dtype) * -1.0, name)(axis=axis))
                assert got.dtype == want.dtype
                assert (numpy.signbit(got.real) == numpy.signbit(want.real)).all(), (axis, name)
                assert (numpy.signbit(got.imag) == numpy.signbit(want.imag)).all(), (axis, name)


@pytest.mark.parametrize("text", ["i,j->ij", "i,i->i", "ij,j->ij"])
def test_einsum_without_a_sum_begins_with_zero(text: str) -> None:
    """NumPy adds the products to zeros: none is -0.0."""
    first, second = text.split("->")[0].split(",")
    with np.config(eager_size=0):
        a, b = (np.full((30,) * len(first), -1.0) * 1, np.zeros((30,) * len(second)) * 1)
        found = numpy.asarray(np.einsum(text, a, b))
    want = numpy.einsum(text, numpy.full((30,) * len(first), -1.0), numpy.zeros((30,) * len(second)))
    assert found.tobytes() == want.tobytes()


def test_what_came_before_a_loop_does_not_hide_its_boundary() -> None:
    """The tape is flushed where the loop comes round, though an older node is first on it."""
    n = 64
    with np.config(bound=12, eager_size=0):
        a, b = np.array(numpy.linspace(0, 1, n)), np.array(numpy.linspace(1, 2, n))
        before = a * 0.5 + b
        longest = 0
        for _ in range(60):
            a = a * 0.5 + b
            longest = max(longest, len(tape.nodes))
        assert longest <= 16
        check(before, numpy.linspace(0, 1, n) * 0.5 + numpy.linspace(1, 2, n))


def test_a_long_body_is_cut_where_its_loop_begins() -> None:
    with np.config(bound=6, eager_size=0):
        a = np.array(numpy.linspace(0, 1, 64))
        other = a + 3.0
        most: list[int] = []
        for _ in range(6):
            b = a * 2.0
            most.append(len(tape.nodes))  # of the tape, when the second node of the body is recorded
            c = b + 1.0
            d = c * c - b
            e = d / (c + 4.0)
            f = e - d
            a = f * 0.25 + e * 0.5
        assert most[2:] == [most[2]] * 4 and most[2] <= 3
        assert float(other[0]) == 3.0
