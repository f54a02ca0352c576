"""Views from NumPy's functions stay views, operands written by NumPy stay what pending readers saw."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import offarray as np

from .compare import same

N = 60  # 60 x 60 elements are more than small work

VIEWS = {
    "einsum diagonal": lambda np, a: np.einsum("ii->i", a),
    "einsum transpose": lambda np, a: np.einsum("ij->ji", a),
    "diagonal of a copy": lambda np, a: np.lib.stride_tricks.as_strided(a, (N,), (a.strides[0] + a.strides[1],)),
    "split": lambda np, a: np.split(a, 3)[1],
    "hsplit": lambda np, a: np.hsplit(a, 2)[0],
    "unstack": lambda np, a: np.unstack(a)[1],
    "ravel": lambda np, a: np.ravel(a),
    "reshape": lambda np, a: a.reshape(N * 2, -1),
    "transpose": lambda np, a: np.transpose(a),
    "swapaxes": lambda np, a: a.swapaxes(0, 1),
    "squeeze": lambda np, a: a[None].squeeze(0),
    "rot90": lambda np, a: np.rot90(a),
    "flip": lambda np, a: np.flip(a, 1),
    "atleast_3d": lambda np, a: np.atleast_3d(a),
    "expand_dims": lambda np, a: np.expand_dims(a, 1),
    "moveaxis": lambda np, a: np.moveaxis(a, 0, 1),
    "view of bytes": lambda np, a: a.view("i8"),
    "newaxis": lambda np, a: a[:, None, ::-2],
    "part of the real": lambda np, a: a.real,
    "windows": lambda np, a: np.lib.stride_tricks.sliding_window_view(a, 3, axis=1, writeable=True)[:, ::3],
    "asarray": lambda np, a: np.asarray(a),
    "nothing to copy": lambda np, a: np.array(a, copy=False),
    "broadcast arrays": lambda np, a: np.broadcast_arrays(a, a)[0],
    "dlpack": lambda np, a: np.from_dlpack(a),
}  # fmt: skip


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_writes_go_through(name: str, pending: bool) -> None:
    view = VIEWS[name]
    results = []
    for module in (numpy, np):
        a = module.arange(float(N * N)).reshape(N, N)
        if pending:
            a = a * 2
        v = view(module, a)
        if name == "broadcast arrays":
            v = v.view()
            v.flags.writeable = True
        v[...] = 7
        v[-1] = 3
        results.append((a, a + 1))
    same(results[1], results[0])


def test_base_is_the_users_array() -> None:
    a = np.arange(12.0)
    b = a[2:]
    assert b.base is a
    assert b[1:].base is a
    assert b.reshape(2, 5).base is a
    assert np.broadcast_to(a, (2, 12)).base is a
    assert a.base is None
    assert not np.broadcast_to(a, (2, 12)).flags.writeable


@pytest.mark.parametrize(
    "call",
    [
        lambda np, a, o: np.add(a, 1, out=o),
        lambda np, a, o: np.add(a, 1, o),
        lambda np, a, o: np.sqrt(a, out=o, where=a > 5),
        lambda np, a, o: np.cumsum(a, axis=1, out=o),
        lambda np, a, o: np.clip(a, 1, 9, out=o),
        lambda np, a, o: np.take(a, np.arange(N), axis=0, out=o),
        lambda np, a, o: np.matmul(a, a, out=o),
        lambda np, a, o: np.dot(a, a, out=o),
        lambda np, a, o: np.einsum("ij,jk->ik", a, a, out=o),
        lambda np, a, o: np.round(a, out=o),
        lambda np, a, o: np.concatenate([a[:5], a[5:]], out=o),
        lambda np, a, o: np.compress(np.ones(N, bool), a, axis=0, out=o),
        lambda np, a, o: a.dot(a, out=o),
        lambda np, a, o: np.sum(a[None], axis=0, out=o),
        lambda np, a, o: a[None].sum(0, None, o),
    ],
)
def test_out_is_written_and_returned(call: Any) -> None:
    results = []
    for module in (numpy, np):
        a = module.arange(float(N * N)).reshape(N, N) / 100
        whole = module.zeros((N, 2 * N))
        for o in (module.zeros((N, N)), module.ones((N, N)) * 3, whole[:, ::2]):
            before = o + 0
            if o.base is whole and "dot" in call.__code__.co_names:
                with pytest.raises(ValueError, match="not acceptable"):
                    call(module, a, o)
            else:
                assert call(module, a, o) is o
            results.append((o, before))
        results.append((whole,))
    half = len(results) // 2
    for got, want in zip(results[half:], results[:half], strict=True):
        same(got, want, 1e-12)


WRITERS = {
    "put": lambda np, a: np.put(a, [0, 5], [-1, -2]),
    "copyto": lambda np, a: np.copyto(a, 4.0, where=a > 100),
    "fill_diagonal": lambda np, a: np.fill_diagonal(a, -7),
    "place": lambda np, a: np.place(a, a > 50, [1, 2]),
    "putmask": lambda np, a: np.putmask(a, a < 9, [5.0, 6]),
    "put_along_axis": lambda np, a: np.put_along_axis(a, np.argsort(a, axis=1)[:, :1], 99, axis=1),
    "sort": lambda np, a: a[:, ::-1].sort(axis=1),
    "partition": lambda np, a: a.partition(3, axis=0),
    "fill": lambda np, a: a[::2].fill(8),
    "add.at": lambda np, a: np.add.at(a, ([0, 0, 1], [1, 1, 2]), 1),
    "byteswap": lambda np, a: a.byteswap(inplace=True),
    "nan_to_num": lambda np, a: np.nan_to_num(a, copy=False),
    "shuffle": lambda np, a: np.random.default_rng(3).shuffle(a),
    "random out": lambda np, a: np.random.default_rng(3).random(out=a),
    "legacy shuffle": lambda np, a: np.random.RandomState(3).shuffle(a),
    "flat": lambda np, a: a.flat.__setitem__(slice(3, 9), -1),
    "setfield": lambda np, a: a.setfield(1, "u1"),
    "boolean index": lambda np, a: a.__setitem__(a > 70, 0),
    "fancy index": lambda np, a: a.__setitem__([1, 1, 2], np.arange(3.0)[:, None]),
    "median": lambda np, a: np.median(a, axis=0, overwrite_input=True),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_pending_readers_see_the_old_values(name: str) -> None:
    results = []
    for module in (numpy, np):
        a = module.arange(float(N * N)).reshape(N, N) % 97
        a = a + 1
        before = a * 2 + 1
        view = a[3:, 1:]
        WRITERS[name](module, a)
        after = a * 2
        results.append((after, view + 0) if name == "median" else (before, after, view + 0))
    if name == "median":
        results = [(numpy.sort(numpy.asarray(r[0]), axis=0),) for r in results]
        numpy.testing.assert_array_equal(results[0][0], results[1][0])
        return
    same(results[1], results[0])
