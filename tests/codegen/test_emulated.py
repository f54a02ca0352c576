"""Every example as a device would run it, by the host: against the interpreter, and with the same bits each time."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import offarray as np
from offarray import _evaluate, _reductions
from offarray.codegen import gpu_plan
from offarray.runtime.target import Target

from . import device, emulate
from .device import run
from .kernels import Builder

pytestmark = pytest.mark.skipif(not emulate.possible(), reason="needs a C compiler and an x86-64 processor")


def close(got: Any, want: Any, limit: float) -> None:
    """Within some units of the largest element."""
    if want.dtype.names:
        for name in want.dtype.names:
            close(got[name], want[name], limit)
    elif want.dtype.kind in "fc":
        got, want = (numpy.nan_to_num(v, nan=-3.0) for v in (got, want))
        scale = float(numpy.abs(want).max(initial=1))
        assert float(numpy.abs(got - want).max(initial=0)) <= limit * scale * numpy.finfo(want.dtype).eps
    else:
        assert (got == want).all()


def compare(make: Any, limit: float, role: str = "") -> None:
    """Run an example on the emulated device; `role`: what its first launch has to be."""
    first, truth = make(), make()
    if role:
        assert device.passes(first)[0].variant.role == role
    with emulate.installed():
        run(first, _evaluate._targets["cuda"])
    truth.run(Target("interpret", "", "", 16))
    for a, b in zip(first.arrays, truth.arrays, strict=True):
        close(a, b, limit)


@pytest.mark.parametrize(("dtype", "monoid"), [("i8", "add"), ("f8", "maximum"), ("f4", "add"), ("c16", "add")])
def test_scans_of_many_tiles(dtype: str, monoid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one supergroup of 1024 tiles, and several rows."""
    monkeypatch.setattr(gpu_plan, "SCAN", 8)
    monkeypatch.setattr(gpu_plan, "THREADS", 32 if dtype == "f4" else 64)
    compare(lambda: device.scanned((2, 70_001), (1,), monoid, dtype), 1e4, "scan")


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_variance_at_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All elements read once: NumPy's accuracy for ordinary data, and little less where every sample misleads."""
    monkeypatch.setattr(_reductions, "MANY", 1 << 12)
    monkeypatch.setattr(_reductions, "SAMPLES", 64)
    rng = numpy.random.default_rng(0)
    n = 64 * 300
    spikes = rng.standard_normal(n)
    spikes[::300] = 1e6
    cases = [
        rng.random(n), rng.standard_normal((100, 301)) + 1e3, numpy.arange(n) * 1.0, numpy.full(n, 0.1), spikes,
        numpy.where(numpy.arange(n) == 5, numpy.inf, 1.0), numpy.full(n, numpy.nan),
    ]  # fmt: skip
    settings = np.config(eager_size=0, faults="deferred", bound=1000)
    with emulate.installed() as fake, numpy.errstate(all="ignore"), settings:
        for case in cases:
            given = case.astype(dtype)
            a, true = np.evaluate(np.array(given) + 0), given.astype("f8").var(ddof=1)
            fake.ran.clear()
            got = np.evaluate(a.var(ddof=1))
            assert len(fake.ran) == 1 and got.dtype == dtype
            numpy.testing.assert_allclose(float(got), true, rtol=1e-11 if dtype == "f8" else 1e-6, atol=1e-30)
            assert a.std(keepdims=True).shape == (1,) * case.ndim


def test_boxes_of_one_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows side by side without several of them one behind the other."""
    monkeypatch.setattr(gpu_plan, "ROWS", 1)
    compare(device.EXAMPLES["stencil in boxes"], 100)


@pytest.mark.parametrize(
    ("name", "tall"), [("stencil in boxes", 2), ("stencil in wide boxes", 2), ("stencil in wide boxes", 4)]
)
def test_boxes_of_several_rows(name: str, tall: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread takes several rows side by side, at the edges too."""
    monkeypatch.setattr(gpu_plan, "TALL", tall)
    monkeypatch.setattr(gpu_plan, "ROWS", 2)
    compare(device.EXAMPLES[name], 100)


def test_quotients_by_one_number_are_rounded_right() -> None:
    """Rows divided by their maximum: NumPy's bits, whatever the magnitudes."""
    rng = numpy.random.default_rng(3)
    rows, columns = 40, 256
    a = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-30, 30, (rows, columns))
    a[10:20] *= 2.0 ** rng.integers(-1000, 900, (10, columns))
    a[20:30, ::3] *= 2.0**-1060
    a[5, :4] = 0.0, -0.0, numpy.inf, numpy.nan
    a[6, :2] = numpy.inf, 5e-324
    k = Builder(rows, columns)
    x = k.load(a, 0, 1)
    out = numpy.zeros_like(a)
    k.store(out, k.op("divide", "f8", x, k.fold("fmax", (1,), x)), 0, 1)
    assert device.passes(k)[0].variant.keep > 1
    with emulate.installed():
        run(k, _evaluate._targets["cuda"])
    with numpy.errstate(all="ignore"):
        want = a / numpy.fmax.reduce(a, axis=1, keepdims=True)
    fine = ~numpy.isnan(want)
    assert (numpy.isnan(out) == ~fine).all()
    assert out[fine].tobytes() == want[fine].tobytes()


@pytest.mark.parametrize("name", ["rows of 16", "rows of 7", "rows of 40"])
def test_groups_take_several_units(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_plan, "BLOCKS", 1)
    assert device.passes(device.EXAMPLES[name]())[0].variant.stack > 1
    compare(device.EXAMPLES[name], 100)


@pytest.mark.parametrize("name", sorted(device.EXAMPLES))
def test_examples(name: str) -> None:
    make = device.EXAMPLES[name]
    first, truth = make(), make()
    second = make() if sum(a.size for a in first.arrays) < 1 << 20 else first
    with emulate.installed() as fake:
        faults = run(first, _evaluate._targets["cuda"])
        assert fake.ran
        if second is not first:
            run(second, _evaluate._targets["cuda"])
    wanted = truth.run(Target("interpret", "", "", 16))
    for a, b, c in zip(first.arrays, second.arrays, truth.arrays, strict=True):
        assert a.tobytes() == b.tobytes()
        close(a, c, 2000 if "scan" in name else 600)
    assert faults[: len(wanted)] == wanted


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_roots_several_at_a_time(dtype: str, special: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances that are whole numbers once rounded, so that their sum tells every bit; some are not ordinary."""
    monkeypatch.setattr(gpu_plan, "THREADS", 64)
    rng = numpy.random.default_rng(5)
    n, m, unit = 300, 200, 2.0 ** {"f8": 52, "f4": 23}[dtype]
    x, y = ((rng.random((k, 3)) * unit).astype(dtype) for k in (n, m))
    x[:, 0] += numpy.array(unit, dtype) * 1.1
    if special:
        x[:5], x[5] = y[:5], 0
        y[7], y[9], y[11] = 0, 2.0 ** {"f8": -520, "f4": -66}[dtype], 2.0 ** {"f8": -400, "f4": -52}[dtype]
    k = Builder(n, m, 3)
    d = k.op("subtract", dtype, k.load(x, 0, 2), k.load(y, 1, 2))
    square = k.fold("add", (2,), k.op("multiply", dtype, d, d, fault=device.KINDS), fault=10)
    root, total = k.op("sqrt", dtype, square, fault=device.KINDS), numpy.zeros((), "i8")
    k.store(total, k.fold("add", (0, 1), k.op("cast", "i8", root)))
    assert device.passes(k)[0].variant.square and device.passes(k)[0].variant.stack > 1
    with emulate.installed():
        faults = run(k, _evaluate._targets["cuda"])
    with numpy.errstate(all="ignore"):
        squares = numpy.square(x[:, None] - y[None])
        want = numpy.sqrt(squares[..., 0] + squares[..., 1] + squares[..., 2])
    assert total == want.astype("i8").sum()
    assert not any(faults)
