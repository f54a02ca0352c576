"""In-place and overlapping writes: NumPy's order of effects, whatever is evaluated when."""

from __future__ import annotations

from typing import Any

from tests.twice import Programs, caught

program = Programs()
N = 3000


def line(np: Any, n: int = N, dtype: str = "f8") -> Any:
    return np.arange(n).astype(dtype)


def grid(np: Any, n: int = 60, m: int = 60, dtype: str = "f8") -> Any:
    return np.arange(n * m).reshape(n, m).astype(dtype)


# -- a write between record and evaluation -----------------------------------------------------------------------------


@program
def write_after_read(np: Any) -> Any:
    x = line(np)
    y = x + 1
    x[0] = 9
    x[10:20] = -1
    z = x + 1
    return y, z, x


@program
def write_after_read_of_a_view(np: Any) -> Any:
    x = grid(np)
    row, column, block = x[3] * 2, x[:, 4] * 2, x[5:9, ::2] * 2
    x[3] = 0
    x[:, 4] = 1
    x *= 3
    return row, column, block, x


@program
def many_versions(np: Any) -> Any:
    x = line(np)
    seen = []
    for k in range(8):
        seen.append(x * k)
        x[k :: k + 1] += k
    return seen, x


@program
def view_follows_its_base(np: Any) -> Any:
    x = line(np)
    v = x[5:50:3]
    before = v + 0
    x += 1
    after = v + 0
    v[:] = -1
    return before, after, v, x


@program
def whole_updates(np: Any) -> Any:
    x = line(np)
    y = x
    x += 1
    x *= 2
    x -= x
    x += 3
    x /= 4
    return x, y is x


@program
def fill_and_copyto(np: Any) -> Any:
    x, y = line(np), line(np)
    z = x + y
    x.fill(4)
    np.copyto(y, x * 2, where=y > 5)
    x[...] = y
    y[:] = 1
    return x, y, z


@program
def live_value_of_the_very_elements(np: Any) -> Any:
    results = []
    for start in (10, N - 500):
        x = line(np) + 1
        v = x[start:]
        w = np.maximum(v, 20) + v
        v -= w
        u = v * 2
        v[...] = u
        t = v + 1
        np.multiply(t, v, out=v)
        results.append((x, w, u, t))
    return results


# -- overlap -----------------------------------------------------------------------------------------------------------


@program
def shifted_slices(np: Any) -> Any:
    results = []
    for to, source in [(slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))]:
        for op in ("set", "add", "sub"):
            x = line(np) ** 2
            if op == "set":
                x[to] = x[source]
            elif op == "add":
                x[to] += x[source]
            else:
                x[to] -= x[source] * 2
            results.append(x)
    return results


@program
def repeated_shifts(np: Any) -> Any:
    x = line(np)
    for _ in range(5):
        x[1:] = x[:-1] + 1
        x[:-2] -= x[2:]
    return x


@program
def reversed_onto_itself(np: Any) -> Any:
    x, y, z = line(np), line(np), line(np)
    x[:] = x[::-1]
    y += y[::-1]
    z[::-1] = z * 2
    return x, y, z


@program
def halves(np: Any) -> Any:
    x, y = line(np), line(np)
    x[: N // 2], x[N // 2 :] = x[N // 2 :].copy(), x[: N // 2].copy()
    y[: N // 2] = y[N // 2 :]
    y[::2] = y[1::2]
    y[1::2] += y[::2]
    return x, y


@program
def swap_of_views_by_tuple(np: Any) -> Any:
    x = grid(np)
    x[0], x[1] = x[1], x[0]  # NumPy's well known surprise: views, not copies
    x[:, 2], x[:, 3] = x[:, 3] + 0, x[:, 2] + 0
    x[[4, 5]] = x[[5, 4]]
    return x


@program
def transpose_onto_itself(np: Any) -> Any:
    x, y, z = grid(np), grid(np), grid(np)
    x += x.T
    y[...] = y.T
    z.T[1:] -= z[:, 1:].T * 2
    return x, y, z


@program
def double_transpose_buffers(np: Any) -> Any:
    u = grid(np)
    v = np.empty_like(u)
    for _ in range(4):
        np.add(u, u.T, out=v)
        u, v = v, u
    return u, v


@program
def stencil_in_place(np: Any) -> Any:
    u = grid(np) % 7
    for _ in range(4):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


@program
def stencil_with_residual(np: Any) -> Any:
    u = grid(np) % 5
    residuals = []
    for _ in range(3):
        new = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        residuals.append(np.abs(new - u[1:-1, 1:-1]).max())
        u[1:-1, 1:-1] = new
    return u, residuals, new


@program
def boundaries_after_the_interior(np: Any) -> Any:
    u = grid(np)
    for _ in range(3):
        v = u.copy()
        u[1:-1, 1:-1] += 0.5 * (v[2:, 1:-1] - v[:-2, 1:-1])
        u[0, :] = u[1, :]
        u[-1, :] = 0
        u[:, 0] = u[:, -2]
        u[:, -1] = u[:, 1]
    return u, v


@program
def cumulative_by_slices(np: Any) -> Any:
    x = grid(np)
    for k in range(1, 20):
        x[k] += x[k - 1]
    return x


@program
def out_overlaps_an_input(np: Any) -> Any:
    x, y, z, w = line(np), line(np), line(np), grid(np)
    a = np.add(x[1:], x[:-1], out=x[1:])
    np.multiply(y, 2, out=y[::-1])
    np.subtract(z[::-1], z, out=z)
    np.add(w, w.T, out=w.T)
    return a, x, y, z, w


@program
def out_of_another_type(np: Any) -> Any:
    i, f = line(np, dtype="i4"), np.zeros(N, "f4")
    np.add(i, 1, out=f)
    np.multiply(f, 2.5, out=f)
    error = caught(lambda: np.multiply(f, 1, out=i))
    np.add(i, 0.75, out=i, casting="unsafe")
    return i, f, error


@program
def where_overlaps(np: Any) -> Any:
    x = line(np) % 10
    np.add(x, 100, out=x, where=x > 4)
    np.negative(x, out=x, where=x[::-1] > 4)
    mask = x > 0
    np.multiply(mask, 2, out=x, where=mask)
    return x, mask


@program
def mask_is_written_later(np: Any) -> Any:
    x, mask = line(np), line(np) % 3 == 0
    y = np.where(mask, x, -x)
    x[mask] = 0
    mask[:] = False
    x[mask] = 5
    mask |= x == 1
    x[mask] += 10
    return x, y, mask


@program
def index_array_is_written_later(np: Any) -> Any:
    x = line(np)
    idx = (line(np, dtype="i8") * 7) % N
    y = x[idx]
    x[idx] = y[::-1]
    idx[:] = 0
    x[idx[:1]] += 1
    z = x[idx]
    return x, y, z


@program
def repeated_indices(np: Any) -> Any:
    x, y, z = np.zeros(10), np.zeros(10), np.zeros(10)
    idx = np.arange(N) % 10
    x[idx] += 1
    y[idx] = line(np)
    np.add.at(z, idx, 1)
    return x, y, z


@program
def gather_from_itself(np: Any) -> Any:
    x = line(np)
    idx = (np.arange(N) * 11 + 3) % N
    x[:] = x[idx]
    x += x[idx]
    x[idx] = x
    x[::2] = x[idx][::2]
    return x


@program
def boolean_row_writes(np: Any) -> Any:
    x = grid(np)
    rows = x[:, 0] % 120 == 0
    x[rows] = -1
    x[~rows, 2] *= 2
    x[x < 0] += 0.5
    x[1:3][x[1:3] > 70] = 9
    return x, x[rows], x[rows, 1]
