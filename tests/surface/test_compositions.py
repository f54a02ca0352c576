"""NumPy's Python functions over recorded arrays: same values as NumPy's, small, large and pending."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import offarray as np
from offarray.runtime.config import config

from .compare import same

SIZES = {"small": 12, "large": 60}

NAN = "nansum nanprod nanmean nanvar nanstd nanmax nanmin nanmedian nanargmax nancumsum nancumprod".split()
PAD = "constant edge linear_ramp maximum mean minimum reflect symmetric wrap".split()

CASES: dict[str, Any] = {
    "gradient": lambda np, m, v: (np.gradient(v), np.gradient(m), np.gradient(m, 2.0, axis=1, edge_order=2)),
    "diff": lambda np, m, v: (np.diff(v, n=2), np.diff(m, axis=0, prepend=0)),
    "trapezoid": lambda np, m, v: (np.trapezoid(v, dx=0.1), np.trapezoid(m, axis=0)),
    "average": lambda np, m, v: (np.average(v), np.average(m, axis=1, weights=np.arange(1.0, m.shape[1] + 1))),
    "cov": lambda np, m, v: (np.cov(m), np.corrcoef(m[:4])),
    "order": lambda np, m, v: (np.rot90(m), np.flip(m), np.fliplr(m), np.flipud(m), np.moveaxis(m, 0, 1)),
    "roll": lambda np, m, v: (np.roll(v, 7), np.roll(m, 3), np.roll(m, (1, -2), (0, 1)), np.rollaxis(m, 1)),
    "triangles": lambda np, m, v: (np.tril(m), np.triu(m, 2), np.tri(20), np.vander(v[:20], 8)),
    "products": lambda np, m, v: (np.kron(m[:5, :5], np.eye(2)), np.outer(v[:40], v[:50]), np.meshgrid(v[:60], v[:70])),
    "cross": lambda np, m, v: np.cross(v[: v.size // 3 * 3].reshape(-1, 3), v[: v.size // 3 * 3].reshape(-1, 3)[::-1]),
    "stacks": lambda np, m, v: (np.stack([m, m * 2]), np.hstack([m, m]), np.vstack([m, m + 2]), np.dstack([m, m])),
    "joins": lambda np, m, v: (np.column_stack([v, v]), np.append(v, 1.0), np.block([[m, m], [m, m]])),
    "splits": lambda np, m, v: (np.array_split(v, 3), np.hsplit(m, 2), np.expand_dims(m, (0, 2)), np.tile(m, (2, 3))),
    "close": lambda np, m, v: (np.isclose(v, v + 1e-9), np.allclose(v, v), np.array_equal(m, m), np.array_equiv(m, 1)),
    "polynomials": lambda np, m, v: (np.polyval([1, 2, 3.0], v), np.polynomial.polynomial.polyval(v, [1, 2.0])),
    "floats": lambda np, m, v: (np.unwrap(v * 3), np.nan_to_num(v), np.sinc(v), np.i0(v), np.ediff1d(v), np.fix(v)),
    "signs": lambda np, m, v: (np.isneginf(v), np.isposinf(v), np.angle(v + 1j), np.real_if_close(v + 0j)),
    "select": lambda np, m, v: np.select([v < 0, v > 1], [v, v * 2], 5.0),
    "lines": lambda np, m, v: (np.linspace(v[:50], v[:50] + 1, 60), np.linspace(0, 1, 3000), np.geomspace(1, 9, 3000)),
    "edits": lambda np, m, v: (
        np.insert(v, 3, 1.5), np.insert(v, [1, 5], [2.0, 3.0]), np.insert(m, 2, v[: m.shape[1]], axis=0),
        np.delete(v, 3), np.delete(v, [1, 5]), np.delete(m, 1, axis=0), np.delete(v, slice(2, 9, 2)),
        np.resize(v, 5000),
        np.diag(m), np.diag(v[:30], 1), np.diagflat(v[:30]), np.trim_zeros(np.append([0.0, 0.0], v)),
    ),
    "along": lambda np, m, v: (
        np.take_along_axis(m, np.argsort(m, axis=1, kind="stable"), axis=1),
        np.put_along_axis(m, m.argmax(1)[:, None], 2, 1),
        m, np.nanargmax(_holes(np, v)), np.nanargmin(_holes(np, m), axis=1),
    ),
    "sets": lambda np, m, v: [
        f(v.round(1), (v[::3] * 2).round(1)) for f in (np.intersect1d, np.setdiff1d, np.setxor1d, np.union1d, np.isin)
    ],
    "coefficients": lambda np, m, v: (
        np.polyadd(v, v[:9]), np.polysub(v[:9], v), np.polymul(v, v[:9]), np.polyder(v[:9], 2), np.polyint(v),
        np.poly(v[:5]),
    ),
    "indices": lambda np, m, v: (
        np.ix_(v > 0, v[:4] > 0), np.tril_indices_from(m[:, : len(m)]), np.triu_indices_from(m[:, : len(m)], 2),
        np.histogramdd([v, v * v], bins=4)[0], np.histogram_bin_edges(v, 7), np.histogram2d(v, v * v, bins=[3, 4]),
    ),
    "norms": lambda np, m, v: (
        np.linalg.norm(v), np.linalg.norm(m, axis=0), np.linalg.norm(m, 1), np.linalg.norm(m, "fro"),
        np.linalg.norm(m, 2), np.linalg.norm(v, 3),
        np.linalg.norm(m, np.inf, axis=1), np.linalg.vector_norm(v, ord=1), np.linalg.norm(m),
    ),
    "shifts": lambda np, m, v: (np.fft.fftshift(m), np.fft.ifftshift(v)),
    "callbacks": lambda np, m, v: (
        np.apply_along_axis(lambda r: r.max() - r.min(), 1, m), np.apply_over_axes(np.sum, m, [0]),
        np.piecewise(v, [v < 0, v >= 0], [lambda w: w - 1, lambda w: w * w]),
        np.fromfunction(lambda i, j: i + 2 * j, (7, 8)),
    ),
    "library": lambda np, m, v: (
        np.median(v), np.quantile(v, [0.1, 0.5]), np.percentile(m, 30, axis=0), np.histogram(v, 30),
        np.unique(v.round(1)), np.digitize(v, [0, 1.0]), np.interp(v, [0, 1], [3, 4.0]), np.convolve(v, [1, 2, 1.0]),
        np.repeat(v, 2),
        np.insert(v, 3, 5.0), np.delete(v, [1, 2]), np.trace(m), np.diag(m), np.take_along_axis(m, np.argsort(m, 1), 1),
        np.fft.fft(v), np.linalg.svd(m)[1], np.linalg.solve(m[:10, :10] + 9 * np.eye(10), v[:10]),
    ),
}  # fmt: skip
for _name in NAN:
    CASES[_name] = lambda np, m, v, f=_name: (getattr(np, f)(_holes(np, v)), getattr(np, f)(_holes(np, m), axis=1))
for _mode in PAD:
    CASES["pad " + _mode] = lambda np, m, v, mode=_mode: np.pad(m, ((2, 1), (3, 0)), mode=mode)


def _holes(np: Any, a: Any) -> Any:
    flat = a.ravel().copy()
    flat[::7] = np.nan
    return flat.reshape(a.shape)


def _operands(module: Any, n: int, pending: bool) -> tuple[Any, Any]:
    rng = numpy.random.default_rng(5)
    m, v = module.array(rng.normal(size=(n, n + n % 2))), module.array(rng.normal(size=n * n))
    return (m + 0.5, v * 2) if pending else (m, v)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name: str, size: str) -> None:
    for pending in (False, True):
        want = CASES[name](numpy, *_operands(numpy, SIZES[size], pending))
        same(CASES[name](np, *_operands(np, SIZES[size], pending)), want, 1e-9)


@pytest.mark.parametrize("name", ["gradient", "nanmean", "stacks", "norms", "select", "pad wrap"])
def test_compositions_fall_back_nowhere(name: str) -> None:
    if name == "norms":
        body = lambda np, m, v: np.linalg.norm(m, axis=0)  # noqa: E731
    else:
        body = CASES[name]
    m, v = _operands(np, 60, True)
    with config(fallback="raise"):
        body(np, m, v)


@pytest.mark.parametrize("size", [30, 3000])
def test_warnings_of_compositions_name_the_users_line(size: int) -> None:
    x = np.full(size, np.nan).reshape(3, -1) * 1
    with pytest.warns(RuntimeWarning, match="Mean of empty slice") as caught:
        np.nanmean(x, axis=1)
    assert caught[0].filename == __file__


def test_questions_about_shape_leave_arrays_pending() -> None:
    x = np.arange(5000.0) * 2
    before = np.stats()["evaluations"]
    assert np.shape(x) == (5000,)
    assert np.ndim(x) == 1
    assert np.size(x) == 5000
    assert np.result_type(x, np.float32) == np.float64
    assert not np.iscomplexobj(x)
    assert np.zeros_like(x).shape == (5000,)
    assert np.empty_like(x).dtype == np.float64
    assert np.asarray(x) is x
    assert len(x) == 5000
    assert x.nbytes == 40000
    assert np.stats()["evaluations"] == before
