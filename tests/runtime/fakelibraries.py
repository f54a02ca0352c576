"""NVIDIA's libraries made of NumPy and SciPy on host memory, with the bindings' own signatures.

Addresses, leading dimensions and strides are followed as the libraries do, so a wrong one gives wrong results.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy
import scipy.linalg.lapack as lapack

from offarray import _library, _library_linalg
from offarray.runtime import cudalib, cudalib_sort

from . import fakedevice

KINDS = {0: "f4", 1: "f8", 2: "f2", 4: "c8", 5: "c16"}
LETTERS = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}


def memory(address: int, dtype: Any, count: int) -> Any:
    """`count` elements at an address."""
    dtype = numpy.dtype(dtype)
    block = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return numpy.frombuffer(block, dtype, count)


def strided(address: int, dtype: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """Elements at an address, `steps` in elements."""
    dtype = numpy.dtype(dtype)
    reach = 1 + sum((e - 1) * s for e, s in zip(shape, steps, strict=True))
    flat = memory(address, dtype, reach)
    return numpy.lib.stride_tricks.as_strided(flat, shape, tuple(s * dtype.itemsize for s in steps))


def column_major(address: int, dtype: Any, rows: int, columns: int, leading: int) -> Any:
    """A matrix stored by columns."""
    assert leading >= max(rows, 1)
    return strided(address, dtype, (rows, columns), (1, leading))


def applied(matrix: Any, op: int) -> Any:
    return matrix if op == 0 else matrix.T if op == 1 else matrix.conj().T


class Blas:
    """cuBLAS."""

    def __init__(self) -> None:
        self.modes: list[int] = []

    def create(self) -> int:
        return 77

    def set_stream(self, handle: int, stream_id: int) -> None:
        assert handle == 77

    def set_workspace(self, handle: int, workspace: int, workspace_size_in_bytes: int) -> None:
        assert workspace and workspace_size_in_bytes

    def set_math_mode(self, handle: int, mode: int) -> None:
        self.modes.append(mode)

    def set_pointer_mode(self, handle: int, mode: int) -> None:
        assert mode == 0

    def gemm_strided_batched_ex_64(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int,
        stride_a: int, b: int, btype: int, ldb: int, stride_b: int, beta: int, c: int, ctype: int, ldc: int,
        stride_c: int, batch_count: int, compute_type: int, algo: int,
    ) -> None:  # fmt: skip
        assert handle == 77 and {atype, btype, ctype} == {atype} and min(m, n, k, batch_count) > 0
        dtype = KINDS[atype]
        scale = {"f2": "f4"}.get(dtype, dtype)
        assert compute_type == {"f2": 68, "f4": 68, "c8": 68, "f8": 70, "c16": 70}[dtype]
        assert memory(alpha, scale, 1)[0] == 1 and memory(beta, scale, 1)[0] == 0
        size = numpy.dtype(dtype).itemsize
        for i in range(batch_count):
            x = column_major(a + i * stride_a * size, dtype, *((m, k) if transa == 0 else (k, m)), lda)
            y = column_major(b + i * stride_b * size, dtype, *((k, n) if transb == 0 else (n, k)), ldb)
            z = column_major(c + i * stride_c * size, dtype, m, n, ldc)
            with numpy.errstate(all="ignore"):  # a device has no flags
                z[...] = applied(x, transa).astype(scale) @ applied(y, transb).astype(scale)

    def _gemv(
        self, handle: int, trans: int, m: int, n: int, alpha: int, a: int, lda: int, stride_a: int, x: int, incx: int,
        stridex: int, beta: int, y: int, incy: int, stridey: int, batch_count: int, *, dtype: str = "",
    ) -> None:  # fmt: skip
        assert handle == 77 and incx > 0 and incy > 0 and min(m, n, batch_count) > 0
        assert memory(alpha, dtype, 1)[0] == 1 and memory(beta, dtype, 1)[0] == 0
        size = numpy.dtype(dtype).itemsize
        taken, made = (n, m) if trans == 0 else (m, n)
        for i in range(batch_count):
            matrix = column_major(a + i * stride_a * size, dtype, m, n, lda)
            vector = strided(x + i * stridex * size, dtype, (taken,), (incx,))
            out = strided(y + i * stridey * size, dtype, (made,), (incy,))
            with numpy.errstate(all="ignore"):
                out[...] = applied(matrix, trans) @ vector

    def _getrf(
        self, handle: int, n: int, a: int, lda: int, p: int, info: int, batch_size: int, *, dtype: str = ""
    ) -> None:
        for i, at in enumerate(memory(a, "u8", batch_size)):
            matrix = column_major(int(at), dtype, n, n, lda)
            lu, pivots, failed = lapack.get_lapack_funcs("getrf", dtype=numpy.dtype(dtype))(matrix)
            matrix[...] = lu
            memory(p, "i4", n * batch_size)[i * n : (i + 1) * n] = pivots + 1
            memory(info, "i4", batch_size)[i] = failed

    def _getrs(
        self, handle: int, trans: int, n: int, nrhs: int, aarray: int, lda: int, dev_ipiv: int, barray: int, ldb: int,
        info: int, batch_size: int, *, dtype: str = "",
    ) -> None:  # fmt: skip
        memory(info, "i4", 1)[0] = 0
        for i in range(batch_size):
            matrix = column_major(int(memory(aarray, "u8", batch_size)[i]), dtype, n, n, lda)
            side = column_major(int(memory(barray, "u8", batch_size)[i]), dtype, n, nrhs, ldb)
            pivots = memory(dev_ipiv, "i4", n * batch_size)[i * n : (i + 1) * n] - 1
            solve = lapack.get_lapack_funcs("getrs", dtype=numpy.dtype(dtype))
            side[...] = solve(matrix, pivots, side, trans=trans)[0]

    def __getattr__(self, name: str) -> Any:
        known = {
            "gemv_strided_batched_64": self._gemv, "getrf_batched": self._getrf, "getrs_batched": self._getrs,
        }  # fmt: skip
        run, dtype = known[name[1:]], LETTERS[name[0]]
        return lambda *args: run(*args, dtype=dtype)


TRANSFORMS = {
    41: ("c8", "c8"), 42: ("f4", "c8"), 44: ("c8", "f4"), 105: ("c16", "c16"), 106: ("f8", "c16"), 108: ("c16", "f8"),
}  # fmt: skip


class Fft:
    """cuFFT."""

    def __init__(self) -> None:
        self.plans: dict[int, Any] = {}
        self.made = 0

    def create(self) -> int:
        self.made += 1
        self.plans[self.made] = SimpleNamespace(automatic=True, area=0)
        return self.made

    def destroy(self, plan: int) -> None:
        del self.plans[plan]

    def set_auto_allocation(self, plan: int, auto_allocate: int) -> None:
        self.plans[plan].automatic = bool(auto_allocate)

    def make_plan_many64(
        self, plan: int, rank: int, n: Any, inembed: Any, istride: int, idist: int, onembed: Any, ostride: int,
        odist: int, type: int, batch: int,
    ) -> int:  # fmt: skip
        assert rank == len(n) == len(inembed) == len(onembed) and not self.plans[plan].automatic
        assert rank == 1 or (istride == ostride == 1 and idist == numpy.prod(inembed) and odist == numpy.prod(onembed))
        vars(self.plans[plan]).update(n=n, source=(istride, idist), target=(ostride, odist), type=type, batch=batch)
        return 64

    def set_stream(self, plan: int, stream: int) -> None:
        pass

    def set_work_area(self, plan: int, work_area: int) -> None:
        assert work_area
        self.plans[plan].area = work_area

    def _exec(self, plan: int, idata: int, odata: int, direction: int = 0) -> None:
        p = self.plans[plan]
        assert p.area
        source, target = TRANSFORMS[p.type]
        if len(p.n) > 1:
            self._exec_several(p, idata, odata, direction)
            return
        n = p.n[0]
        taken = n // 2 + 1 if target[0] == "f" else n
        made = n // 2 + 1 if source[0] == "f" else n
        x = strided(idata, source, (p.batch, taken), (p.source[1], p.source[0]))
        y = strided(odata, target, (p.batch, made), (p.target[1], p.target[0]))
        if source[0] == "f":
            y[...] = numpy.fft.rfft(x, n)
        elif target[0] == "f":
            assert not numpy.any(x[:, 0].imag) and (n % 2 or not numpy.any(x[:, n // 2].imag))
            y[...] = numpy.fft.irfft(x, n) * n
            x[...] = -77  # the library overwrites its input here
        else:
            y[...] = numpy.fft.fft(x) if direction == -1 else numpy.fft.ifft(x) * n

    def _exec_several(self, p: Any, idata: int, odata: int, direction: int) -> None:
        source, target = TRANSFORMS[p.type]
        axes = tuple(range(1, len(p.n) + 1))
        x = memory(idata, source, p.batch * p.source[1]).reshape(p.batch, *p.n)
        last = p.n[-1] // 2 + 1 if source[0] == "f" else p.n[-1]
        y = memory(odata, target, p.batch * p.target[1]).reshape(p.batch, *p.n[:-1], last)
        if source[0] == "f":
            y[...] = numpy.fft.rfftn(x, axes=axes)
        else:
            y[...] = (
                numpy.fft.fftn(x, axes=axes) if direction == -1 else numpy.fft.ifftn(x, axes=axes) * numpy.prod(p.n)
            )

    exec_c2c = exec_z2z = exec_r2c = exec_d2z = exec_c2r = exec_z2d = _exec


class Solver:
    """cuSOLVER."""

    def create(self) -> int:
        return 55

    def set_stream(self, handle: int, stream_id: int) -> None:
        assert handle == 55

    def create_params(self) -> int:
        return 56

    def xgetrf_buffer_size(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int
    ) -> tuple[int, int]:
        return 32, 0

    def xgetrf(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, ipiv: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        assert buffer_on_device and workspace_in_bytes_on_device == 32
        dtype = numpy.dtype(KINDS[data_type_a])
        matrix = column_major(a, dtype, m, n, lda)
        matrix[...], pivots, memory(info, "i4", 1)[0] = lapack.get_lapack_funcs("getrf", dtype=dtype)(matrix)
        memory(ipiv, "i8", n)[...] = pivots + 1

    def xgetrs(
        self, handle: int, params: int, trans: int, n: int, nrhs: int, data_type_a: int, a: int, lda: int, ipiv: int,
        data_type_b: int, b: int, ldb: int, info: int,
    ) -> None:  # fmt: skip
        dtype = numpy.dtype(KINDS[data_type_a])
        side = column_major(b, dtype, n, nrhs, ldb)
        pivots = memory(ipiv, "i8", n).astype("i4") - 1
        solve = lapack.get_lapack_funcs("getrs", dtype=dtype)
        side[...] = solve(column_major(a, dtype, n, n, lda), pivots, side, trans=trans)[0]

    def xpotrf_buffer_size(
        self, handle: int, params: int, uplo: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int
    ) -> tuple[int, int]:
        return 32, 8

    def xpotrf(
        self, handle: int, params: int, uplo: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int,
        buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int, workspace_in_bytes_on_host: int,
        info: int,
    ) -> None:  # fmt: skip
        assert workspace_in_bytes_on_host == 8
        self._potrf(KINDS[data_type_a], uplo, n, a, lda, memory(info, "i4", 1))

    def _potrf(self, dtype: str, uplo: int, n: int, a: int, lda: int, info: Any) -> None:
        matrix = column_major(a, dtype, n, n, lda)
        factor, info[0] = lapack.get_lapack_funcs("potrf", dtype=numpy.dtype(dtype))(matrix, lower=uplo == 0, clean=0)
        matrix[...] = factor

    def dpotrf_batched(
        self, handle: int, uplo: int, n: int, aarray: int, lda: int, info_array: int, batch_size: int
    ) -> None:
        self._potrf_batched("f8", uplo, n, aarray, lda, info_array, batch_size)

    def zpotrf_batched(
        self, handle: int, uplo: int, n: int, aarray: int, lda: int, info_array: int, batch_size: int
    ) -> None:
        self._potrf_batched("c16", uplo, n, aarray, lda, info_array, batch_size)

    def _potrf_batched(self, dtype: str, uplo: int, n: int, rows: int, lda: int, info: int, count: int) -> None:
        for i in range(count):
            self._potrf(dtype, uplo, n, int(memory(rows, "u8", count)[i]), lda, memory(info, "i4", count)[i : i + 1])

    def xgeqrf_buffer_size(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, data_type_tau: int,
        tau: int, compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        return 32, 0

    def xgeqrf(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, data_type_tau: int,
        tau: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        dtype = numpy.dtype(KINDS[data_type_a])
        matrix = column_major(a, dtype, m, n, lda)
        qr, factors, _, memory(info, "i4", 1)[0] = lapack.get_lapack_funcs("geqrf", dtype=dtype)(matrix)
        matrix[...] = qr
        memory(tau, dtype, min(m, n))[...] = factors

    def dorgqr_buffer_size(self, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int) -> int:
        return 9

    zungqr_buffer_size = dorgqr_buffer_size

    def dorgqr(
        self, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, lwork: int, info: int
    ) -> None:
        self._orgqr("f8", m, n, k, a, lda, tau, lwork, info)

    def zungqr(
        self, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, lwork: int, info: int
    ) -> None:
        self._orgqr("c16", m, n, k, a, lda, tau, lwork, info)

    def _orgqr(self, dtype: str, m: int, n: int, k: int, a: int, lda: int, tau: int, lwork: int, info: int) -> None:
        assert lwork == 9 and n >= k and m >= n
        name = "orgqr" if dtype == "f8" else "ungqr"
        matrix = column_major(a, dtype, m, n, lda)
        run = lapack.get_lapack_funcs(name, dtype=numpy.dtype(dtype))
        matrix[...], _, memory(info, "i4", 1)[0] = run(matrix, memory(tau, dtype, k))

    def xgesvd_buffer_size(
        self, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_vt: int, vt: int, ldvt: int,
        compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        return 32, 0

    def xgesvd(
        self, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_vt: int, vt: int, ldvt: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        assert m >= n and jobu == jobvt
        dtype, job = KINDS[data_type_a], chr(jobu)
        matrix = column_major(a, dtype, m, n, lda)
        made = numpy.linalg.svd(matrix, full_matrices=job == "A")
        memory(s, KINDS[data_type_s], n)[...] = made.S
        if job != "N":
            column_major(u, dtype, *made.U.shape, ldu)[...] = made.U
            column_major(vt, dtype, n, n, ldvt)[...] = made.Vh
        matrix[...] = -77
        memory(info, "i4", 1)[0] = 0

    def xgesvdp_buffer_size(
        self, handle: int, params: int, jobz: int, econ: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_v: int, v: int, ldv: int,
        compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        return 32, 0

    def xgesvdp(
        self, handle: int, params: int, jobz: int, econ: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_v: int, v: int, ldv: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, d_info: int,
    ) -> float:  # fmt: skip
        assert m >= n and jobz == 1  # the library's values are wrong otherwise
        dtype = KINDS[data_type_a]
        matrix = column_major(a, dtype, m, n, lda)
        made = numpy.linalg.svd(matrix, full_matrices=not econ)
        matrix[...] = -77
        if made.S[-1] < 1e-10 * made.S[0]:
            return 1e-3  # what it would have left is of no use
        memory(s, KINDS[data_type_s], n)[...] = made.S
        if jobz:
            column_major(u, dtype, *made.U.shape, ldu)[...] = made.U
            column_major(v, dtype, n, n, ldv)[...] = made.Vh.conj().T
        memory(d_info, "i4", 1)[0] = 0
        return 0.0

    def xsyevd_buffer_size(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        return 32, 0

    def xsyevd(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int,
        buffer_on_host: int, workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        matrix = column_major(a, KINDS[data_type_a], n, n, lda)
        values, vectors = numpy.linalg.eigh(matrix, "LU"[uplo])
        memory(w, KINDS[data_type_w], n)[...] = values
        matrix[...] = vectors if jobz else -77
        memory(info, "i4", 1)[0] = 0

    def xsyev_batched_buffer_size(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, batch_size: int,
    ) -> tuple[int, int]:  # fmt: skip
        return 32, 0

    def xsyev_batched(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int,
        buffer_on_host: int, workspace_in_bytes_on_host: int, info: int, batch_size: int,
    ) -> None:  # fmt: skip
        size, real = numpy.dtype(KINDS[data_type_a]).itemsize, numpy.dtype(KINDS[data_type_w]).itemsize
        for i in range(batch_size):
            self.xsyevd(
                handle, params, jobz, uplo, n, data_type_a, a + i * n * n * size, lda, data_type_w, w + i * n * real,
                compute_type, 0, 0, 0, 0, info + 4 * i,
            )  # fmt: skip


class Order(enum.Enum):
    ASCENDING = 0


class Compute:
    """cuda.compute."""

    SortOrder = Order

    def make_radix_sort(
        self, *, d_in_keys: Any, d_out_keys: Any, d_in_values: Any, d_out_values: Any, order: Any
    ) -> Any:
        assert order is Order.ASCENDING
        types = [None if v is None else v.dtype for v in (d_in_keys, d_out_keys, d_in_values, d_out_values)]

        def run(
            *, temp_storage: Any, d_in_keys: Any, d_out_keys: Any, d_in_values: Any, d_out_values: Any, num_items: int,
            begin_bit: int, end_bit: int, stream: Any,
        ) -> int:  # fmt: skip
            assert stream.__cuda_stream__()[0] == 0
            given = (d_in_keys, d_out_keys, d_in_values, d_out_values)
            assert [None if v is None else v.dtype for v in given] == types
            if temp_storage is None:
                return 48
            assert temp_storage.nbytes >= 48
            keys = content(d_in_keys).copy()
            assert len(keys) == num_items and keys.dtype.kind == "u"
            part = (keys >> begin_bit) & keys.dtype.type((1 << (end_bit - begin_bit)) - 1)
            places = numpy.argsort(part, kind="stable")
            content(d_out_keys)[...] = keys[places]
            if d_in_values is not None:
                content(d_out_values)[...] = content(d_in_values)[places]
            return 48

        return run

    OpKind = SimpleNamespace(PLUS="plus")

    def make_segmented_reduce(
        self, *, d_in: Any, d_out: Any, start_offsets_in: Any, end_offsets_in: Any, op: Any, h_init: Any
    ) -> Any:
        def run(
            *, temp_storage: Any, d_in: Any, d_out: Any, num_segments: int, start_offsets_in: Any, end_offsets_in: Any,
            op: Any, h_init: Any, stream: Any,
        ) -> int:  # fmt: skip
            assert op == "plus" and h_init == [0.0] and d_in.dtype == h_init.dtype
            if temp_storage is not None:
                values = content(d_in)
                pairs = zip(content(start_offsets_in), content(end_offsets_in), strict=True)
                content(d_out)[...] = [values[a:b].sum() for a, b in pairs]
            return 16

        return run

    def make_lower_bound(self, *, d_data: Any, d_values: Any, d_out: Any) -> Any:
        dtype = d_data.dtype

        def run(
            *, d_data: Any, num_items: int, d_values: Any, num_values: int, d_out: Any, comp: Any, stream: Any
        ) -> None:
            data, values = content(d_data), content(d_values)
            assert len(data) == num_items and len(values) == num_values and d_out.dtype == "u8"
            assert data.dtype == values.dtype == dtype and comp is None and (data[:-1] <= data[1:]).all()
            content(d_out)[...] = numpy.searchsorted(data, values)

        return run


def content(array: Any) -> Any:
    """The elements of an array that the package was given."""
    assert array.__cuda_array_interface__["data"][0] == array.data.ptr and array.shape == (array.size,)
    return memory(array.data.ptr, array.dtype, array.size)


@contextmanager
def installed(rates: Any = None) -> Iterator[Any]:
    """The fake device, with these libraries on it; with `rates` the setting `device` is "auto".

    Factorisations of matrices of any size are the libraries'.
    """
    quicker = dict(_library_linalg.HOST)
    _library_linalg.HOST.update(dict.fromkeys(quicker, 0))
    made = {"cublas": Blas(), "cufft": Fft(), "cusolverDn": Solver()}
    former = cudalib.module, cudalib_sort.compute
    package = Compute()
    placed = _library.placed
    with fakedevice.installed(rates) as device:
        _library.placed = placed
        device.stream, device.enter = 0, lambda: None  # type: ignore[attr-defined]
        cudalib.module = made.__getitem__  # type: ignore[assignment]
        cudalib_sort.compute = lambda: package  # type: ignore[assignment]
        try:
            yield SimpleNamespace(device=device, **made)
        finally:
            cudalib.module, cudalib_sort.compute = former
            _library_linalg.HOST.update(quicker)
