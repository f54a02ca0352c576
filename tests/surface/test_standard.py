"""What the array API standard asks for and NumPy has not, with the standard's values, small and recorded."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray
from offarray import _standard
from offarray.runtime import cuda
from offarray.runtime.config import config

from .compare import same

DESCENDING = "descending" in inspect.signature(numpy.sort).parameters  # NumPy 2.5


@pytest.fixture(params=["small", "recorded"], autouse=True)
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which an operation can run."""
    with config(eager_size=500 if request.param == "small" else 0):
        yield


# --- the namespace ----------------------------------------------------------------------------------------------------


def test_version() -> None:
    assert offarray.__array_api_version__ == "2025.12"
    x = offarray.ones(3)
    for version in (None, "2022.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is offarray
    for wrong in ("2020.01", "x", 2025):
        with pytest.raises(Exception) as theirs:
            numpy.ones(3).__array_namespace__(api_version=wrong)
        with pytest.raises(type(theirs.value)) as ours:
            x.__array_namespace__(api_version=wrong)
        assert str(ours.value) == str(theirs.value)


def test_scalars_name_the_namespace() -> None:
    total = (offarray.ones(600) + 1).sum()
    assert total.__array_namespace__() is (offarray if type(total) is not numpy.float64 else numpy)
    with pytest.raises(ValueError, match="2020"):
        total.__array_namespace__(api_version="2020.01")


def test_namespace_info(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "available", lambda: 0)
    info = offarray.__array_namespace_info__()
    assert isinstance(info, numpy.__array_namespace_info__)
    assert isinstance(info.devices(), tuple)
    assert list(info.devices()) == list(numpy.__array_namespace_info__().devices())
    assert info.devices() == numpy.__array_namespace_info__().devices()  # a list before NumPy 2.5
    assert info.devices() != ["gpu"]
    assert hash(info.devices()) == hash(("cpu",))
    with config(device="auto"):
        assert info.default_device() in info.devices()
    assert info.capabilities()["max dimensions"] == 64
    assert info.dtypes(kind="bool") == {"bool": numpy.dtype("bool")}
    assert info.default_dtypes()["indexing"] == numpy.dtype("int64")


def test_namespace_info_with_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "available", lambda: 2)
    info = offarray.__array_namespace_info__()
    assert tuple(info.devices()) == ("cpu", "cuda:0", "cuda:1")
    for device in ("cuda:1", "cuda", "cpu", None):
        assert info.dtypes(device=device, kind="integral") == numpy.__array_namespace_info__().dtypes(kind="integral")
        assert info.default_dtypes(device=device) == numpy.__array_namespace_info__().default_dtypes()
    with config(device="auto"):
        assert info.default_device() == "cpu"
    for setting in ("cuda", "cuda:1"):
        with config(device=setting):
            assert info.default_device() == ("cuda:0" if setting == "cuda" else setting)
    for form in (info.dtypes, info.default_dtypes):
        with pytest.raises(ValueError) as ours:
            form(device="cuda:2")
        with pytest.raises(ValueError) as theirs:
            getattr(numpy.__array_namespace_info__(), form.__name__)(device="cuda:2")
        assert str(ours.value) == str(theirs.value)


# --- limits -----------------------------------------------------------------------------------------------------------

ATTRIBUTES = ("eps", "max", "min", "smallest_normal", "tiny", "epsneg", "resolution", "smallest_subnormal")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "g"])
def test_finfo_is_numpys(dtype: str) -> None:
    ours, theirs = offarray.finfo(dtype), numpy.finfo(dtype)
    assert isinstance(ours, numpy.finfo)
    assert isinstance(ours, offarray.finfo)
    assert ours is offarray.finfo(numpy.dtype(dtype))
    assert ours.dtype == theirs.dtype
    assert (repr(ours), str(ours)) == (repr(theirs), str(theirs))
    for name in (*ATTRIBUTES, "bits", "iexp", "machep", "maxexp", "minexp", "negep", "nexp", "nmant", "precision"):
        value = getattr(ours, name)
        assert value == getattr(theirs, name)
        assert isinstance(value, type(getattr(theirs, name)))
    assert pickle.loads(pickle.dumps(ours)) is ours


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_finfo_gives_floats(dtype: str) -> None:
    x = offarray.ones(600, dtype)
    for given in (dtype, x, x + x, x.dtype, x.dtype.type):
        found = offarray.finfo(given)
        assert found.bits == (32 if dtype in ("float32", "complex64") else 64)
        for name in ATTRIBUTES[:4]:
            assert isinstance(getattr(found, name), float), name
    assert offarray.finfo(dtype).eps == math.ldexp(1, -23 if found.bits == 32 else -52)


def test_single_precision_limits_stay_single() -> None:
    eps = offarray.finfo("f4").eps
    assert isinstance(eps, numpy.float32)
    assert eps.dtype == numpy.float32
    assert repr(eps) == repr(numpy.finfo("f4").eps)
    assert type(eps * 2) is type(2.0 * eps) is type(-eps) is type(pickle.loads(pickle.dumps(eps))) is numpy.float32
    assert copy.deepcopy(eps) == eps == float(eps)
    assert numpy.dtype(type(eps)) == numpy.float32
    for kind in ("f2", "f4", "f8", "i4", "c8"):
        same(offarray.ones(600, kind) * eps, numpy.ones(600, kind) * numpy.finfo("f4").eps)
        same(offarray.ones(600, kind) + eps, numpy.ones(600, kind) + numpy.finfo("f4").eps)
    same(offarray.asarray([eps, eps]), numpy.asarray([eps, eps]))
    same(offarray.full(600, eps), numpy.full(600, numpy.finfo("f4").eps))


@pytest.mark.parametrize("bad", ["i4", int, "?", "U3", object])
def test_limits_of_what_has_none(bad: Any) -> None:
    with pytest.raises(ValueError) as theirs:
        numpy.finfo(bad)
    with pytest.raises(ValueError) as ours:
        offarray.finfo(bad)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_iinfo_of_arrays(dtype: str) -> None:
    x = offarray.ones(600, dtype)
    for given in (x, x + x):
        found = offarray.iinfo(given)
        assert (found.bits, found.min, found.max) == (
            x.dtype.itemsize * 8, numpy.iinfo(dtype).min, numpy.iinfo(dtype).max,
        )  # fmt: skip


# --- sorting ----------------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
ORDERS: list[tuple[Any, str, list[int]]] = [
    ([3, 1, 3, 2], "int8", [0, 2, 3, 1]),
    ([0, 255, 7, 255], "uint8", [1, 3, 2, 0]),
    ([-(2**63), 2**63 - 1, 0, -(2**63)], "int64", [1, 2, 0, 3]),
    ([0, 2**64 - 1, 1], "uint64", [1, 2, 0]),
    ([3, 1, 3, 2], ">i4", [0, 2, 3, 1]),
    ([True, False, True], "bool", [0, 2, 1]),
    ([3, NAN, 1, -0.0, 0.0, 2, NAN, INF, -INF], "float64", [7, 0, 5, 2, 3, 4, 8, 1, 6]),
    ([3, NAN, 1, -0.0, 0.0, 2], "float32", [0, 5, 2, 3, 4, 1]),
    ([3, NAN, 1, -0.0, 0.0, 2], "float16", [0, 5, 2, 3, 4, 1]),
    ([1 + 2j, complex(NAN, 1), 1 + 3j, complex(1, NAN), 1 + 2j], "complex128", [2, 0, 4, 3, 1]),
    (["a", "c", "b", "c"], "U1", [1, 3, 2, 0]),
    ([b"a", b"c", b"b"], "S1", [1, 2, 0]),
    (["2020", "NaT", "2021"], "M8[Y]", [2, 0, 1]),
    ([1, "NaT", 5, 1], "m8[s]", [2, 0, 3, 1]),
]


@pytest.mark.parametrize(("values", "dtype", "order"), ORDERS, ids=[o[1] for o in ORDERS])
def test_descending(values: Any, dtype: str, order: list[int]) -> None:
    want = numpy.array(values, dtype)
    x = offarray.array(values, dtype=dtype)
    same(offarray.argsort(x, descending=True), numpy.array(order))
    same(offarray.argsort(x, descending=True, stable=True), numpy.array(order))
    got = offarray.sort(x, descending=True)
    same(got, want[order])
    if want.dtype.kind == "f":
        assert numpy.array_equal(numpy.signbit(numpy.asarray(got)), numpy.signbit(want[order]))
    same(x, want)  # as it was
    for no in (False, None):
        same(offarray.sort(x, descending=no), numpy.sort(want))
    both = offarray.array([values, values[::-1]], dtype=dtype)
    pair = numpy.array([values, values[::-1]], dtype)
    for axis in (0, 1, -1, None):
        index = numpy.asarray(offarray.argsort(both, axis=axis, descending=True))
        want = numpy.take_along_axis(pair if axis is not None else pair.ravel(), index, axis or 0)
        same(offarray.sort(both, axis=axis, descending=True), want)


def test_descending_pending() -> None:
    a = numpy.arange(1000.0) % 37
    x = offarray.arange(1000.0) % 37
    same(offarray.sort(x * 2, descending=True), -numpy.sort(-a * 2))
    same(offarray.argsort(x + 1, descending=True), numpy.argsort(-a, kind="stable"))
    same(offarray.sort([3, 1, 2], descending=True), numpy.array([3, 2, 1]))
    same(offarray.sort(numpy.array([3, 1, 2]), descending=True), numpy.array([3, 2, 1]))


@pytest.mark.parametrize(
    ("values", "dtype", "options", "error"),
    [
        ([3, 1], "i4", {"kind": "stable"}, ValueError),
        ([3, 1], "i4", {"kind": "nosort"}, ValueError),
        ([3, 1], "i4", {"order": "f"}, ValueError),
        ([3, 1], "i4", {"axis": 1}, numpy.exceptions.AxisError),
        ([3, 1], "i4", {"axis": 0.5}, TypeError),
        (["b", "a"], "U1", {"axis": 3}, numpy.exceptions.AxisError),
        ([3, 1], object, {}, TypeError),
        ([(3, 1)], "i4,i4", {}, TypeError),
        (["b", "a"], numpy.dtypes.StringDType(), {}, RuntimeError),
        (3, "i4", {}, numpy.exceptions.AxisError),
        ("a", "U1", {}, numpy.exceptions.AxisError),
    ],
)
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_descending_refused(name: str, values: Any, dtype: Any, options: dict[str, Any], error: Any) -> None:
    if name == "argsort" and not isinstance(values, list):
        pytest.skip("NumPy sorts the indices of a single element")
    if DESCENDING:
        with pytest.raises(error):
            getattr(numpy, name)(numpy.array(values, dtype), descending=True, **options)
    with pytest.raises(error):
        getattr(offarray, name)(offarray.array(values, dtype=dtype), descending=True, **options)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8", "?", "c8", "f2", ">i4"])
@pytest.mark.parametrize("size", [17, 400, 12_000])
def test_argsort_is_stable(dtype: str, size: int) -> None:
    a = (numpy.arange(size) * 7919 % 13 % 5).astype(dtype)
    if a.dtype.kind == "f":
        a[::7] = NAN
        a[a == 0] *= numpy.where(numpy.arange((a == 0).sum()) % 2, -1, 1)
    for v in (a, numpy.zeros_like(a), numpy.arange(size).astype(dtype)[::-1].copy()):
        same(offarray.argsort(offarray.asarray(v)), numpy.argsort(v, kind="stable"))
        same(offarray.argsort(offarray.asarray(v).reshape(1, -1)), numpy.argsort(v.reshape(1, -1), kind="stable"))
    same(offarray.argsort(offarray.asarray(a), stable=True), numpy.argsort(a, stable=True))


@pytest.mark.parametrize("dtype", ["i4", "u8", "f4", "f8"])
def test_stable_by_the_fastest_sort(dtype: str) -> None:
    step = numpy.arange(20_000)
    for a in (step * 7919 % 20_011, step * 7919 % 11, step * 0, step // 2, -step // 3, step * 31 % 19_990):
        v = a.astype(dtype)
        if v.dtype.kind == "f":
            v[::1000] = NAN
            v[::300] = INF
            v[::301] = -INF
        found = _standard._stable(v, -1, None)
        assert found.dtype == numpy.intp
        assert numpy.array_equal(found, numpy.argsort(v, kind="stable"))


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_clip() -> None:
    a = numpy.arange(600.0)
    x = offarray.asarray(a)
    names = list(inspect.signature(offarray.clip).parameters)
    assert names[1:3] == ["min", "max"]
    want = numpy.clip(a, 10, 20)
    same(offarray.clip(x, 10, 20), want)
    same(offarray.clip(x, min=10, max=20), want)
    same(offarray.clip(x, 10, max=20), want)
    same(offarray.clip(x + 0, 10, max=20), want)
    same(offarray.clip(a.tolist(), 10, max=20), want)
    same(offarray.clip(x, a_min=10, a_max=20), want)
    same(offarray.clip(x, max=20), numpy.clip(a, None, 20))
    same(offarray.clip(x, None, max=20), numpy.clip(a, None, 20))
    same(offarray.clip(x), a)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((2,), {}), ((), {"a_max": 2}), ((), {"a_min": 2}), ((2, 10), {"max": 3}), ((2, 10), {"min": 3}),
     ((2,), {"a_min": 3, "max": 3}), ((2,), {"maxi": 3}), ((), {"a_min": 2, "a_max": 10, "min": 2, "max": 10})],
)  # fmt: skip
@pytest.mark.parametrize("size", [7, 600])
def test_clip_refused(args: Any, kwargs: Any, size: int) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        numpy.clip(numpy.arange(size), *args, **kwargs)
    with pytest.raises(type(theirs.value)) as ours:
        offarray.clip(offarray.arange(size), *args, **kwargs)
    if not isinstance(theirs.value, TypeError) or "missing" in str(theirs.value):
        assert str(ours.value) == str(theirs.value)


# --- frequencies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 1001])
def test_frequencies(name: str, n: int) -> None:
    ours, theirs = getattr(offarray.fft, name), getattr(numpy.fft, name)
    same(ours(n, 0.3), theirs(n, 0.3))
    same(ours(n, d=0.3, device="cpu"), theirs(n, 0.3))
    same(ours(n, 0.3, "cpu", dtype=None), theirs(n, 0.3))
    for dtype in ("f2", "f4", "f8", numpy.float32):
        same(ours(n, 0.3, dtype=dtype), theirs(n, 0.3).astype(dtype))
    longer = ours(n, numpy.longdouble("0.3"), dtype="g")
    assert longer.dtype == numpy.longdouble


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("dtype", ["i4", "c8", "?", object])
def test_frequencies_refused(name: str, dtype: Any) -> None:
    with pytest.raises(ValueError, match="real-valued floating-point"):
        getattr(offarray.fft, name)(8, dtype=dtype)
    with pytest.raises(ValueError, match="n should be an integer"):
        getattr(offarray.fft, name)(8.5)


# --- integers that no kernel holds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 3, -3, 39, 40, 41, -29, -30, -31, 2**63, -(2**63), 2**70, -(2**70)])
def test_diagonals_far_outside(k: int) -> None:
    same(offarray.eye(30, 40, k=k), numpy.eye(30, 40, k=k))
    same(offarray.eye(30, k=k, dtype="i1"), numpy.eye(30, k=k, dtype="i1"))


def test_the_standards_own_names() -> None:
    """Functions of the standard take NumPy's objects and give offarray's under both names."""
    for name, more in (("sort", ()), ("argsort", ()), ("clip", (0, 1))):
        assert type(getattr(numpy, name)(offarray.arange(3), *more)) is offarray.ndarray
        assert pickle.loads(pickle.dumps(getattr(offarray, name))) is getattr(offarray, name)
