"""Programs that break a careless lazy NumPy: shared memory, recomputation, graphs that look alike."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy

from tests.twice import Programs, caught

program = Programs()
N = 3000  # more than runs at once


def line(np: Any, n: int = N, dtype: str = "f8") -> Any:
    return np.arange(n).astype(dtype)


# -- exported and foreign memory ---------------------------------------------------------------------------------------


@program
def export_then_write_through_it(np: Any) -> Any:
    x = line(np)
    v = numpy.asarray(x)
    y = x + 1
    v[0] = 9
    return y, x, v


@program
def export_of_a_pending_value(np: Any) -> Any:
    x = line(np) * 2
    v = numpy.asarray(x)
    v[::2] = -1
    z = x + 1
    x[1] = 7
    return z, x, v


@program
def export_of_a_view(np: Any) -> Any:
    x = line(np) + 0.5
    v = numpy.asarray(x[10:20][::-1])
    x += 1
    v *= 2
    return x, v


@program
def export_outlives_the_array(np: Any) -> Any:
    x = line(np) + 1
    v = numpy.asarray(x)
    y = x * 2
    del x
    v[:] = 0
    z = y + line(np)
    return v, y, z


@program
def export_ends_and_the_array_is_private_again(np: Any) -> Any:
    x = line(np)
    v = numpy.asarray(x)
    v[3] = -3
    del v
    y = x + 1
    x *= 2
    x += y
    return x, y


@program
def read_only_export(np: Any) -> Any:
    x = line(np)
    v = numpy.asarray(x)[...]
    v.flags.writeable = False
    y = x + 1
    x[0] = 5
    return v, y, x


@program
def copying_export(np: Any) -> Any:
    x = line(np)
    v = numpy.array(x)
    x += 1
    v[1] = 50
    return v, x


@program
def frombuffer_is_written(np: Any) -> Any:
    buf = bytearray(N)
    x = np.frombuffer(buf, "u1")
    x += 1
    x[:7] *= 3
    return bytes(buf)


@program
def frombuffer_sees_writes(np: Any) -> Any:
    buf = bytearray(N)
    x = np.frombuffer(buf, "u1")
    y = x + 1
    buf[0] = 200
    z = x + 1
    return y, z


@program
def frombuffer_of_bytes_is_read_only(np: Any) -> Any:
    x = np.frombuffer(b"\1\2\3\4" * N, "u1")

    def write() -> None:
        x[0] = 1

    return caught(write), caught(lambda: np.add(x, 1, out=x)), x.flags.writeable, x


@program
def memmap_is_written(np: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m")
        mm = np.memmap(path, "f8", "w+", shape=(N,))
        mm[:] = line(np) * 2
        mm += 1
        mm.flush()
        del mm
        return numpy.fromfile(path)


@program
def asarray_of_foreign_memory(np: Any) -> Any:
    r = numpy.arange(float(N))
    x = np.asarray(r)
    y = x * 2
    r[0] = 100
    x[1] = -1
    z = x * 2
    x -= 1
    return r, y, z, x


@program
def array_of_foreign_memory_is_a_copy(np: Any) -> Any:
    r = numpy.arange(float(N))
    x = np.array(r)
    y = x * 2
    r[0] = 100
    x[1] = -1
    return r, x, y


@program
def dlpack_shares(np: Any) -> Any:
    x = line(np) + 1
    v = numpy.from_dlpack(x)
    y = x + 1
    x[0] = 77
    return v.copy(), y, x


@program
def dlpack_in(np: Any) -> Any:
    r = numpy.arange(float(N))
    x = np.from_dlpack(r)
    y = x + 1
    r[0] = 55
    z = x + 1
    return y, z


@program
def memoryview_of_data(np: Any) -> Any:
    x = line(np)
    m = memoryview(x.data)
    y = x + 1
    x[0] = 5
    x *= 2
    return m[0], m[1], y, x


@program
def out_into_foreign_memory(np: Any) -> Any:
    r = numpy.zeros(N)
    x = line(np)
    np.multiply(x, 3, out=np.asarray(r))
    x += 1
    return r, x


@program
def numpy_operand_is_read_at_the_statement(np: Any) -> Any:
    r = numpy.arange(float(N))
    x = line(np)
    y = x + np.asarray(r)
    z = np.add(x, r)
    r[:] = 0
    return y, z


# -- recomputation, donation -------------------------------------------------------------------------------------------


@program
def recompute_after_donation(np: Any) -> Any:
    a = line(np)[::-1].copy()
    p = np.sort(a) + 1
    q = p * 2
    first = q.copy()
    return first, q, p


@program
def diamond(np: Any) -> Any:
    a = line(np)
    p = a + 1
    q = p * p
    r = p - q
    del a
    s = q + r
    del q
    return s, p, r


@program
def middle_of_a_chain_is_read_last(np: Any) -> Any:
    a = line(np) + 1
    b = a * 2
    c = b - 3
    d = c * c
    total = float(d.sum())
    del a, d
    return total, c, b


@program
def rebinding_loop(np: Any) -> Any:
    x = line(np)
    for _ in range(20):
        x = x * 0.5 + 1
    return x


@program
def rebinding_with_history(np: Any) -> Any:
    x = line(np)
    kept = []
    for k in range(12):
        x = x * 0.5 + k
        if k % 4 == 0:
            kept.append(x)
    return x, kept


# -- keys: two graphs that look alike ----------------------------------------------------------------------------------


@program
def shared_and_equal_subgraphs(np: Any) -> Any:
    a, b, c, d = (line(np) + k for k in range(4))
    t = a + b
    return t * t, (a + b) * (c + d), (a + b) * (a + b)


@program
def same_and_different_operands(np: Any) -> Any:
    a, b = line(np), line(np) + 5
    return a - a, a - b, b - a, a * a + b, a * b + a


@program
def shift_by_k(np: Any) -> Any:
    results = []
    for k in (0, 1, 2, 0, 7):
        u = line(np)
        n = u.shape[0]
        u[k:] += u[: n - k]
        results.append(u)
    return results


@program
def shift_back_by_k(np: Any) -> Any:
    results = []
    for k in (0, 1, 3):
        u = line(np)
        u[: N - k] += u[k:]
        results.append(u)
    return results


@program
def liveness_changes_between_equal_graphs(np: Any) -> Any:
    results = []
    for keep in (False, True, False):
        a = line(np) + 1
        b = a * 3
        c = b - a
        if not keep:
            del a, b
        results.append(c)
        if keep:
            results.extend([a, b])
    return results


@program
def literals_that_compare_equal(np: Any) -> Any:
    a, i, b = line(np), line(np, dtype="i4"), line(np) > 5
    return [x * s for s in (1, True, 1.0, 0.0, -0.0, 1 + 0j) for x in (a, i, b)]


@program
def zero_signs(np: Any) -> Any:
    a = np.zeros(N)
    return a * -1.0, a + 0.0, a - 0.0, (a * -1.0) + 0, (a * -1.0) - 0.0, -a, np.copysign(np.ones(N), a * -1.0)


@program
def zero_signs_of_sums_and_scans(np: Any) -> Any:
    a = np.zeros((60, 50)) * -1.0
    return [f(a, axis=axis) for f in (np.cumsum, np.sum, np.cumprod) for axis in (None, 0, 1)]


@program
def not_identities(np: Any) -> Any:
    a = line(np)
    a[0], a[1], a[2] = np.inf, np.nan, -0.0
    with np.errstate(all="ignore"):
        return a * 0, a - a, a + 0, a / a, a * 1, np.negative(-a)


@program
def broadcast_patterns(np: Any) -> Any:
    a = line(np, 3600).reshape(60, 60)
    r, c, one, s = a[:1], a[:, :1], a[:1, :1], np.array(3.0)
    return a + r, a + c, a + one, a + s, r + c, c * r - a, one + s, r + r, a + a[0], a + a[:, 0]


@program
def zero_size(np: Any) -> Any:
    a = np.zeros((0, 4))
    b = np.zeros((60, 0))
    c = (a + 1) * np.arange(4)
    errors = caught(lambda: b.max()), caught(lambda: b.max(1))
    return c, c.sum(), c.sum(0), c.sum(1), b.sum(1), b.prod(1), errors, b.T @ b


@program
def weak_and_strong_scalars(np: Any) -> Any:
    a = line(np, dtype="f4")
    i = line(np, dtype="i2")
    return (
        a * 2.5, a * np.float64(2.5), a * np.float32(2.5), a + 1, a * True, i + 1, i + np.int64(1), i * 2.0,
        i + np.array(1), a + np.array(1.0), caught(lambda: i + 100000), caught(lambda: line(np, dtype="u1") + -1),
    )  # fmt: skip


@program
def powers(np: Any) -> Any:
    a = line(np) / 8
    i = line(np, dtype="i8")
    return a**2, a**0.5, a**1, a**0, (a + 1) ** -1, i**2, i**0, i**1, i**3, caught(lambda: i**-1), np.square(a)


@program.ulp(4)
def general_powers(np: Any) -> Any:
    a = line(np) / 8
    return a**3, a**1.5, (a + 1) ** -2.5, 2.0 ** (a / 1000), a ** (a / 1000)
