"""Writes through views, types and parts, and loops that write in place."""

from __future__ import annotations

from typing import Any

import numpy

from tests.twice import Programs, caught

program = Programs()
N = 3000


def line(np: Any, n: int = N, dtype: str = "f8") -> Any:
    return np.arange(n).astype(dtype)


def grid(np: Any, n: int = 60, m: int = 60, dtype: str = "f8") -> Any:
    return np.arange(n * m).reshape(n, m).astype(dtype)


# -- views of views, reshape, ravel, diagonal, parts, other types ------------------------------------------------------


@program
def chain_of_views(np: Any) -> Any:
    x = line(np, 3600)
    v = x.reshape(60, 60)[::-1, 5:].T[3::2]
    y = v + 1
    v[2:, ::3] = -1
    w = v[1:][::-1]
    w *= 2
    return x, v, w, y


@program
def write_through_reshape_and_ravel(np: Any) -> Any:
    x = grid(np)
    y = x * 1
    x.reshape(-1)[::7] = -1
    x.ravel()[3] = 50
    x.T.ravel()[4] = 60  # a copy: x stays
    x.reshape(30, 120)[2, 2:5] += 5
    np.ravel(x)[8] = 70
    x.flat[9] = 80
    x.T.reshape(3600)[0] = 99  # a copy
    return x, y


@program
def write_through_shape(np: Any) -> Any:
    x = line(np, 3600) + 1
    v = x.view()
    v.shape = (60, 60)
    v[3] = 0
    w = x[None, :, None]
    w[0, 5, 0] = -5
    np.squeeze(w)[6] = -6
    np.expand_dims(x, 0)[0, 7] = -7
    return x, v


@program
def write_through_axes(np: Any) -> Any:
    x = np.arange(3600.0).reshape(4, 30, 30)
    np.swapaxes(x, 0, 2)[1] = -1
    np.moveaxis(x, 0, -1)[2, 2] += 100
    x.transpose(2, 0, 1)[5, :, 5] *= 2
    np.flip(x, 1)[0, 0] = 7
    np.rot90(x[0])[1] = 8
    for part in np.split(x, 2):
        part[0, 0, 0] = 123
    return x


@program
def write_through_diagonal(np: Any) -> Any:
    x, y = grid(np), grid(np) + 1
    np.fill_diagonal(x, 0)
    z = y * 2
    y[np.arange(60), np.arange(60)] = -1
    np.einsum("ii->i", y)[...] += 3
    x.reshape(-1)[::61] = 5
    d = np.diagonal(y)
    return x, y, z, d, d.flags.writeable


@program
def write_through_parts(np: Any) -> Any:
    x = line(np) + 1j * line(np)[::-1]
    y = x * 2
    x.real[5:] = 1
    x.imag *= -1
    x.real += x.imag
    x[::2].imag = 7
    r = x.real
    x += 1
    return x, y, r


@program
def write_through_another_type(np: Any) -> Any:
    x = line(np)
    y = x + 1
    bits = x.view("u8")
    bits[1:] ^= np.uint64(1 << 63)
    x += 1
    x.view("i4")[::2] |= 1
    x.view("u1").reshape(-1, 8)[3] = 0
    z = x.view("c16")
    z *= 2
    return x, y, z, bits


@program
def bool_bytes(np: Any) -> Any:
    m = line(np) % 3 == 0
    n = m.view("u1") + 1
    m.view("i1")[1] = 1
    m ^= True
    return m, n, m.sum()


@program
def structured_fields(np: Any) -> Any:
    x = np.zeros(N, [("a", "f8"), ("b", "i4")])
    x["a"] = line(np) * 2
    x["b"][::2] = 5
    y = x["a"] + 1
    x["a"] += x["b"]
    return x["a"] + 0, x["b"] + 0, y


@program
def real_of_real_is_a_view(np: Any) -> Any:
    x = line(np)
    x.real[3] = 9
    np.real(x)[4] = 8
    return x, x.imag, np.imag(x)[2], caught(lambda: x.imag.__setitem__(0, 1))


# -- in place with types and broadcasting ------------------------------------------------------------------------------


@program
def in_place_types(np: Any) -> Any:
    i, f, u = line(np, dtype="i2"), line(np, dtype="f4"), line(np, dtype="u1")
    i += 5
    f += i
    f *= np.float64(1.5)
    u += 200
    i //= 2
    u >>= 1

    def floats() -> None:
        nonlocal i
        i *= 0.5

    return i, f, u, caught(floats), i


@program
def in_place_broadcast(np: Any) -> Any:
    x = grid(np)
    x += x[0]
    x -= x[:, :1]
    x *= x[5, 5]
    x[:] = x[3]
    x[:, 1:] += x[:, :1]

    def grow() -> None:
        y = x[0]
        y += x

    return x, caught(grow)


@program
def setitem_broadcasts_and_casts(np: Any) -> Any:
    x = grid(np, dtype="i4")
    x[2] = 7.9
    x[:, 3] = line(np, 60) + 0.5
    x[4:6] = [[1], [2]]
    x[7] = True
    x[8, ::2] = np.arange(30) * 1.5

    def bad() -> None:
        x[9] = np.arange(7)

    return x, caught(bad)


@program
def scalar_of_an_array_used_in_place(np: Any) -> Any:
    x = line(np) + 1
    x /= x[1]
    x -= x.max()
    x *= x.min()
    x[0] = x[5:].sum()
    x[1:] += x[0]
    return x


@program
def reduction_before_the_write(np: Any) -> Any:
    x = grid(np)
    total, rows, best = x.sum(), x.sum(1), x.max(0)
    x[:] = 0
    x += rows[:, None]
    best += 1
    return total, rows, best, x


@program
def reduction_into_itself(np: Any) -> Any:
    x = grid(np) % 11
    np.sum(x, axis=1, out=x[:, 0])
    np.add.reduce(x[:, 1:], axis=0, out=x[0, 1:])
    np.cumsum(x, axis=1, out=x)
    return x


@program
def accumulate_in_a_loop(np: Any) -> Any:
    total, a = np.zeros(N), line(np)
    for k in range(10):
        term = a * k
        total += term
        term += 1
        a += term * 0
    return total, a, term


@program
def time_series_rows(np: Any) -> Any:
    history = np.zeros((20, 300))
    state = line(np, 300)
    for k in range(20):
        state = state * 0.5 + k
        history[k] = state
    return history, state, history[-1] - history[0]


@program
def ping_pong(np: Any) -> Any:
    a, b = line(np), np.zeros(N)
    for _ in range(7):
        b[1:-1] = a[:-2] + a[2:]
        b[0] = b[-1] = 1
        a, b = b, a
        a %= 1000
    return a, b


@program
def leapfrog(np: Any) -> Any:
    old, now = line(np) % 17, line(np) % 17
    for _ in range(5):
        new = 2 * now - old
        new[1:-1] += 0.25 * (now[2:] + now[:-2] - 2 * now[1:-1])
        old, now = now, new
    return old, now


@program
def n_body_like(np: Any) -> Any:
    p = (line(np, 180) % 13).reshape(60, 3)
    v = np.zeros_like(p)
    for _ in range(3):
        d = p[:, None] - p[None]
        r = (d * d).sum(-1)
        np.fill_diagonal(r, 1)
        v -= (d * (1 / 4096.0)).sum(1) * (r[0, 0] + 1)
        p += v
    return p, v, r


@program
def delete_the_owner(np: Any) -> Any:
    x = line(np)
    v = x[10:200]
    y = v + 1
    del x
    v += 1
    w = v[::-1]
    del v
    w *= 2
    return w, y


@program
def exception_in_the_middle(np: Any) -> Any:
    x = line(np)
    try:
        x += 1
        x[5:] *= 2
        x[1.5] = 0
        x += 100
    except IndexError:
        x -= 3
    finally:
        y = x * 2
        x[0] = 0
    return x, y


@program
def same_array_on_both_sides(np: Any) -> Any:
    x = line(np)
    np.add(x, x, out=x)
    np.multiply(x, x, x)
    x **= 2
    x[:] = x
    x[1:] = x[1:]
    np.copyto(x[:-1], x[1:])
    return x


@program
def two_outputs(np: Any) -> Any:
    x = line(np) / 8
    y, z = np.zeros(N), np.zeros(N)
    np.modf(x, out=(y, z))
    q, r = np.divmod(x, 3)
    np.modf(x, out=(x, y))
    m, e = np.frexp(z + 1)
    return x, y, z, q, r, m, e


@program
def as_strided_windows(np: Any) -> Any:
    x = line(np)
    w = np.lib.stride_tricks.sliding_window_view(x, 4)
    y = w.sum(1)
    x[2] = 100
    z = w.max(1)
    return y, z, w[0], numpy.shape(w)


@program
def fortran_order(np: Any) -> Any:
    x = np.asfortranarray(grid(np))
    y = x + x
    x += 1
    x[:, 3] = x[3, :]
    z = np.add(x, grid(np))
    return x, y, z, x.T + x.T, x.ravel("K"), x.ravel(), x.copy(), x.copy("K"), np.empty_like(x).shape
