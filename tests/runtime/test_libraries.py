"""Library steps on a device made of host memory: every form agrees with NumPy, and runs on the device."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from scipy import stats

import offarray as np
from offarray import _lazy, _library_device, _library_linalg, _library_philox, _library_streams
from offarray.runtime import cudalib, cudalib_blas, cudalib_sort, placement, trace
from offarray.runtime.config import config
from offarray.runtime.errors import FallbackError, MissingLibraryError

from ..surface.compare import told
from . import fakelibraries
from .librarycases import CASES, DRAWS, HOSTED, REFUSED, REFUSED_DRAWS, compare, draw_of
from .libraryedges import EDGES


@pytest.fixture(scope="module")
def libraries() -> Iterator[Any]:
    with fakelibraries.installed() as found, config(eager_size=0):
        yield found


@pytest.mark.parametrize("name", CASES)
def test_forms_agree_with_numpy(libraries: Any, name: str) -> None:
    case = CASES[name]
    want = case(numpy, lambda x: x)
    trace.reset()
    got = case(np, np.array)
    assert (trace.counters["library_steps"] > 0) == (name not in HOSTED)
    compare(got, want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EDGES)
def test_unusual_calls_agree_with_numpy(libraries: Any, name: str) -> None:
    results: list[Any] = []
    for space, door in ((numpy, lambda x: x), (np, np.array)):
        try:
            results.append(EDGES[name](space, door))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}")
    if isinstance(results[0], str):
        assert results[1] == results[0]
    else:
        compare(results[1], results[0])


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(libraries: Any, name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(Exception) as want:
        case(numpy, lambda x: x)
    with pytest.raises(want.type) as got:
        case(np, np.array)
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("bits", ["PCG64", "Philox"])
@pytest.mark.parametrize("seed", range(4))
def test_random_numbers_and_states_are_numpys(libraries: Any, seed: int, bits: str) -> None:
    theirs, ours = (m.random.Generator(getattr(m.random, bits)(seed)) for m in (numpy, np))
    trace.reset()
    for k in numpy.random.default_rng(seed + 100).integers(0, len(DRAWS), 30):
        want, got = draw_of(theirs, DRAWS[k]), draw_of(ours, DRAWS[k])
        compare(got, want)
        assert (numpy.asarray(got) == numpy.asarray(want)).all(), DRAWS[k]
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state), DRAWS[k]
    assert trace.counters["library_steps"] > 10


@pytest.mark.parametrize("draw", REFUSED_DRAWS, ids=str)
def test_draws_that_numpy_refuses_are_refused(libraries: Any, draw: Any) -> None:
    theirs, ours = numpy.random.default_rng(1), np.random.default_rng(1)
    with pytest.raises(Exception) as want:
        draw_of(theirs, draw)
    with pytest.raises(want.type) as got:
        draw_of(ours, draw)
    assert str(got.value) == str(want.value)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_philox_gives_the_published_numbers(libraries: Any) -> None:
    places = _library_streams.places_of(1)
    zero = _library_device.op("multiply", places, 0)
    ones = _library_device.op("add", zero, 0xFFFFFFFF)
    for word, key, want in (
        (zero, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ones, (0xFFFFFFFF, 0xFFFFFFFF), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ):
        made = _library_philox.philox((word, word, word, word), key)
        assert tuple(int(numpy.asarray(_lazy.pending(w, (1,), (0,)))[0]) for w in made) == want


DISTRIBUTIONS: dict[str, tuple[tuple[float, ...], Any]] = {
    "standard_normal": ((), stats.norm()), "normal": ((3, 2), stats.norm(3, 2)),
    "gumbel": ((1, 2), stats.gumbel_r(1, 2)),
    "lognormal": ((0, 0.5), stats.lognorm(0.5)), "exponential": ((2,), stats.expon(scale=2)),
    "standard_exponential": ((), stats.expon()), "rayleigh": ((2,), stats.rayleigh(scale=2)),
    "weibull": ((1.5,), stats.weibull_min(1.5)), "pareto": ((3,), stats.lomax(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_fast_numbers_have_the_distribution(libraries: Any, name: str) -> None:
    args, law = DISTRIBUTIONS[name]
    with config(random="fast"):
        rng, again = np.random.default_rng(11), np.random.default_rng(11)
        first, second = (numpy.asarray(getattr(rng, name)(*args, size=(100, 200))) for _ in range(2))
        assert (numpy.asarray(getattr(again, name)(*args, size=(100, 200))) == first).all()
    assert first.shape == (100, 200) and (first != second).all()
    assert stats.kstest(first.ravel(), law.cdf).pvalue > 1e-3
    assert abs(numpy.corrcoef(first.ravel()[:-1], first.ravel()[1:])[0, 1]) < 0.03
    with config(random="numpy"):
        slow = np.random.default_rng(11)
        want = getattr(numpy.random.default_rng(11), name)(*args, size=7)
        assert (numpy.asarray(getattr(slow, name)(*args, size=7)) == want).all()


def test_auto_asks_the_model() -> None:
    big = numpy.random.default_rng(0).standard_normal((400, 400))
    slow = placement.Rates(h2d=1e3, d2h=1e3, launch=10.0)
    for rates, steps in (
        (placement.Rates(device_flops=1e15, h2d=1e12, d2h=1e12, launch=0.0, transfer=0.0), 3),
        (slow, 0),
    ):
        with fakelibraries.installed(rates):
            trace.reset()
            x = np.array(big)
            compare(x @ x, big @ big)
            compare(np.linalg.solve(x, x[:, :2]), numpy.linalg.solve(big, big[:, :2]))
            compare(np.fft.fft(x), numpy.fft.fft(big))
            assert (trace.counters["library_steps"] >= steps) if steps else not trace.counters["library_steps"]


def test_results_stay_on_the_device(libraries: Any) -> None:
    x = np.evaluate(np.array(numpy.eye(50) + 1) * 2)
    trace.reset()
    y = np.evaluate(np.fft.fft((x @ x.T + 1) @ x[:, :3], axis=0) * 2)
    z = np.evaluate(np.sort(np.abs(y), axis=0) - 1)
    assert trace.counters["d2h_bytes"] == trace.counters["h2d_bytes"] == 0
    assert z.shape == (50, 3) and trace.counters["library_steps"] == 4


@pytest.mark.parametrize("dtype", "efdFD")
def test_products_of_one_term_are_sums(libraries: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin with 0.0, so that none is -0.0; cuBLAS, which leaves -0.0 there, is not asked."""
    monkeypatch.setattr(cudalib_blas, "gemm", None)
    monkeypatch.setattr(cudalib_blas, "gemv", None)
    for form in (
        lambda m, a, b: a @ b, lambda m, a, b: m.dot(a, b), lambda m, a, b: m.einsum("ij,jk->ik", a, b),
        lambda m, a, b: m.tensordot(a, b, 1), lambda m, a, b: m.inner(a, b.T), lambda m, a, b: (a * 1) @ (a * 0).T,
        lambda m, a, b: m.stack([a, a]) @ b,
    ):  # fmt: skip
        signs = []
        for module in (numpy, np):
            a, b = module.full((40, 1), -1, dtype), module.zeros((1, 30), dtype)
            made = numpy.asarray(form(module, a, b))
            signs.append((made.dtype, numpy.signbit(made.real).any(), numpy.signbit(made.imag).any()))
        assert signs[0] == signs[1]


def test_memory_of_steps_is_given_back(libraries: Any) -> None:
    x = np.array(numpy.random.default_rng(0).standard_normal((30, 30)))
    np.evaluate(*np.linalg.svd(x), np.sort(x), x @ x, np.fft.fft(x))
    gc.collect()
    np.synchronize()  # which also forgets what nobody asks for any more
    before = len(libraries.device.blocks)
    for _ in range(3):
        np.evaluate(*np.linalg.svd(x), np.sort(x), x @ x, np.fft.fft(x))
    gc.collect()
    np.synchronize()
    assert len(libraries.device.blocks) <= before


def test_plans_are_kept_and_thrown_away(libraries: Any) -> None:
    x = np.array(numpy.random.default_rng(0).standard_normal(400))
    made = libraries.cufft.made
    for _ in range(3):
        np.fft.fft(x)
    assert libraries.cufft.made <= made + 1
    for n in range(2, 100):
        np.fft.fft(x[:n])
    assert len(libraries.cufft.plans) <= 64


def test_no_reduced_precision_is_asked_for(libraries: Any) -> None:
    np.array(numpy.eye(8, dtype="f4")) @ np.array(numpy.eye(8, dtype="f4"))
    assert set(libraries.cublas.modes) == {0}


def test_a_missing_library_is_told_and_the_host_computes() -> None:
    x = numpy.random.default_rng(0).standard_normal((9, 9))
    with fakelibraries.installed(), config(eager_size=0):
        gone = MissingLibraryError("nvmath-python is not installed")
        cudalib.module = lambda name: cudalib.needed(gone)
        cudalib_sort.compute = lambda: cudalib.needed(gone)
        y = np.array(x)
        trace.reset()
        for run in (
            lambda np, y: y @ y, lambda np, y: np.linalg.solve(y, y[:, 0]), lambda np, y: np.fft.fft(y),
            lambda np, y: np.sort(y), lambda np, y: y[y > 0], lambda np, y: np.unique(y),
            lambda np, y: np.linalg.qr(y).R,
        ):  # fmt: skip
            compare(run(np, y), run(numpy, x))
        y.sort()
        compare(y, numpy.sort(x))
        assert trace.counters["fallbacks"] >= 7 and not trace.counters["library_steps"]
        rng = np.random.default_rng(1)
        assert (numpy.asarray(rng.integers(0, 100, 500)) == numpy.random.default_rng(1).integers(0, 100, 500)).all()
        with config(fallback="raise"), pytest.raises(FallbackError, match="nvmath-python is not installed"):
            np.array(x) @ np.array(x)


@pytest.mark.parametrize("side", [20, 40])
@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "det", "slogdet", "cholesky"])
def test_small_matrices_are_factored_where_that_is_quicker(libraries: Any, name: str, side: int) -> None:
    _library_linalg.HOST.update(dict.fromkeys(_library_linalg.HOST, 30))
    x = numpy.random.default_rng(2).standard_normal((side, side))
    x = x @ x.T / side + numpy.eye(side)
    given = np.array(x) * 1.0
    np.evaluate(given)
    trace.reset()
    made, want = getattr(np.linalg, name)(given), getattr(numpy.linalg, name)(x)
    assert (trace.counters["library_steps"] > 0) == (side > 30)
    assert not trace.counters["fallbacks"]
    if name in ("svd", "eigh"):
        made, want = (made.S, want.S) if name == "svd" else (made.eigenvalues, want.eigenvalues)
    compare(made, want)


@pytest.mark.parametrize("nbytes", [0, 8])
def test_host_memory_of_a_library_lives_until_the_device_is_done(libraries: Any, nbytes: int) -> None:
    with cudalib.Step() as step:
        device, before = step.device, step.device.waits
        address = step.room(nbytes)
        assert bool(address) == (nbytes > 0)
        assert [(room.ctypes.data, room.nbytes) for room in step._rooms] == [(address, nbytes)][: nbytes > 0]
    assert device.waits - before == (nbytes > 0)


@pytest.mark.parametrize("shape", [(7, 7), (3, 6, 6), (9, 5), (5, 9), (1, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_factors_of_matrices_of_any_shape(libraries: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = numpy.random.default_rng(3).standard_normal(shape).astype(dtype)
    if x.dtype.kind == "c":
        x += 1j * numpy.random.default_rng(4).standard_normal(shape).astype(x.real.dtype)
    for mode in ("reduced", "complete", "r", "raw"):
        if mode == "raw" and x.ndim > 2:
            continue
        for got, want in zip(np.linalg.qr(np.array(x), mode=mode), numpy.linalg.qr(x, mode=mode), strict=True):
            compare(got, want)


def test_stored_results_keep_their_order(libraries: Any) -> None:
    x = numpy.arange(16.0).reshape(4, 4)
    for turn in (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-1]):
        made, out = np.array(x) + 0, np.zeros((4, 4))
        np.evaluate(made)
        seen = out[:]
        _library_device.store(out, turn(made))
        assert (numpy.asarray(out) == turn(x)).all() and (numpy.asarray(seen) == turn(x)).all()


@pytest.mark.parametrize("values", [[1e200], [numpy.inf, -numpy.inf], [numpy.inf, 0.0], [1.0]])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_warnings_of_products_have_numpys_names(libraries: Any, values: list[float], dtype: str) -> None:
    x = numpy.resize(numpy.array(values, dtype), 60)
    for call in (
        lambda np, x: np.dot(x, x[::-1]), lambda np, x: np.inner(x, x), lambda np, x: np.vdot(x, x),
        lambda np, x: np.einsum("i,i->", x, x), lambda np, x: x @ x, lambda np, x: np.vecdot(x, x),
    ):  # fmt: skip
        said = told(call, x)
        if dtype == "f8":
            assert said[0] == said[1]
        else:  # which of several kinds a complex product meets is the processor's matter
            assert {w.split()[-1] for w in said[1]} <= {"dot", "matmul", "vecdot"}


def test_products_refused_name_the_first_cause(libraries: Any) -> None:
    x, fixed = numpy.ones((3, 4)), numpy.zeros((3, 3))
    fixed.flags.writeable = False
    for out in (None, numpy.zeros((3, 3), int), fixed, numpy.zeros((3, 3))):
        causes = []
        for module in (numpy, np):
            with pytest.raises((TypeError, ValueError)) as caught:
                module.matmul(module.array(x), module.array(x), out=None if out is None else module.asarray(out))
            causes.append((caught.type, str(caught.value)))
        assert causes[0] == causes[1]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "by columns": lambda a: a.T, "reversed": lambda a: a[::-1, :, ::-1], "middle first": lambda a: a.transpose(1, 0, 2),
    "last in the middle": lambda a: a.transpose(0, 2, 1), "parts": lambda a: a[:, ::2].transpose(2, 0, 1),
    "one element": lambda a: a[:, :1].transpose(1, 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorted_arrays_lie_in_memory_as_their_operands(libraries: Any, layout: str, axis: int | None) -> None:
    base = numpy.random.default_rng(2).integers(0, 99, (5, 6, 7))
    n, x = LAYOUTS[layout](base), LAYOUTS[layout](np.evaluate(np.array(base) + 0))
    for call in (
        lambda m, a: m.sort(a, axis),
        lambda m, a: m.argsort(a, axis, kind="stable"),
        lambda m, a: m.partition(a, range(len(a)), axis) if axis == 0 else m.sort(a * 1, axis),
    ):
        trace.reset()
        want, got = call(numpy, n), call(np, x)
        assert trace.counters["library_steps"]
        compare(got, want)
        far = [k for k, extent in enumerate(want.shape) if extent > 1]
        assert [got.strides[k] for k in far] == [want.strides[k] for k in far] and got.base is None
        assert got.flags.f_contiguous == want.flags.f_contiguous


@pytest.mark.parametrize("call", ["product", "sort", "argsort", "mask", "transform", "solve", "in place", "median"])
def test_under_auto_the_host_does_what_does_not_fit(
    call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library step for which the device has no memory, or which fails there, is the host's."""
    a = numpy.random.default_rng(3).standard_normal((60, 60))
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "product": lambda m, x: x @ x, "sort": lambda m, x: m.sort(x), "mask": lambda m, x: x[x > 0],
        "argsort": lambda m, x: m.argsort(x, kind="stable"), "transform": lambda m, x: m.fft.fft2(x),
        "solve": lambda m, x: m.linalg.solve(x, x[0]), "in place": lambda m, x: (x.sort(axis=0), x)[1],
        "median": lambda m, x: m.median(x, axis=0),
    }  # fmt: skip
    monkeypatch.setattr(placement, "decide", lambda key, work: True)
    monkeypatch.setattr(placement, "SMALL", 0)
    with fakelibraries.installed(placement.Rates()), config(eager_size=0, faults="deferred", debug=1):
        with config(device_memory=a.nbytes // 2):
            x = np.array(a)
            compare(calls[call](np, x), calls[call](numpy, a.copy()))
            compare(x, a if call != "in place" else numpy.sort(a, axis=0))
    assert "the host goes on" in capsys.readouterr().err
