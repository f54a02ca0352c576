"""Calls by which coverage.py finds out how a function runs: patterns for most, calls of their own for the others."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy

Call = Callable[[Any, Any], Any]


def operands(np: Any) -> Any:
    """Arrays: vectors x, y, w; matrices m, s (positive), t (a stack); k, j of whole numbers; b of bools; z complex."""
    rng = numpy.random.default_rng(5)
    x, y = rng.random(400) + 0.5, rng.random(400) + 0.5
    m = rng.random((20, 20))
    plain = {
        "x": x, "y": y, "m": m, "s": m @ m.T + 20 * numpy.eye(20), "k": rng.integers(0, 20, 400),
        "j": rng.integers(1, 9, 400), "b": x > 1, "z": x + 1j * y, "t": rng.random((4, 10, 10)) + numpy.eye(10),
        "w": rng.random(10000),
    }  # fmt: skip
    return types.SimpleNamespace(**{name: np.array(a) for name, a in plain.items()})


def patterns() -> Iterator[Call]:
    """Arguments that many functions take, in the order in which they are tried."""
    yield lambda np, o: (o.x,)
    yield lambda np, o: (o.x, o.y)
    yield lambda np, o: (o.s,)
    yield lambda np, o: (o.k,)
    yield lambda np, o: (o.k, o.j)
    yield lambda np, o: (o.s, o.m)
    yield lambda np, o: (o.x, 2)
    yield lambda np, o: (o.b, o.x)
    yield lambda np, o: (o.k, 3)
    yield lambda np, o: ([o.x, o.y],)
    yield lambda np, o: (o.t,)
    yield lambda np, o: (400,)


CALLS: dict[str, tuple[Call, ...]] = {
    name: (call,) if callable(call) else call
    for name, call in {
        "append": lambda np, o: np.append(o.x + 1, o.y),
        "column_stack": lambda np, o: np.column_stack([o.x + 1, o.y]),
        "dstack": lambda np, o: np.dstack([o.m + 1, o.m]),
        "hstack": lambda np, o: np.hstack([o.x + 1, o.y]),
        "vstack": lambda np, o: np.vstack([o.x + 1, o.y]),
        "row_stack": lambda np, o: np.row_stack([o.x + 1, o.y]),
        "stack": lambda np, o: np.stack([o.x + 1, o.y]),
        "unpackbits": lambda np, o: np.unpackbits(o.j.astype("u1")),
        "indices": lambda np, o: np.indices((20, 20)),
        "kaiser": lambda np, o: np.kaiser(400, 2.0),
        "random.choice": lambda np, o: np.random.choice(o.x, 400),
        ".conj": lambda np, o: o.z.conj(),
        ".conjugate": lambda np, o: o.z.conjugate(),
        "apply_along_axis": lambda np, o: np.apply_along_axis(lambda r: r.sum(), 0, o.m),
        "apply_over_axes": lambda np, o: np.apply_over_axes(np.sum, o.m, [0]),
        "arange": lambda np, o: np.arange(400.0),
        "array_split": lambda np, o: np.array_split(o.x, 4),
        "bincount": lambda np, o: np.bincount(o.k),
        "block": lambda np, o: np.block([[o.m + 1, o.m], [o.m, o.m]]),
        "broadcast_to": lambda np, o: np.broadcast_to(o.x, (2, 400)),
        "choose": lambda np, o: np.choose(o.k % 2, [o.x, o.y]),
        "clip": lambda np, o: np.clip(o.x, 0.7, 0.9),
        "compress": lambda np, o: np.compress(o.b, o.x),
        "concatenate": lambda np, o: np.concatenate([o.x + 1, o.y]),
        "concat": lambda np, o: np.concat([o.x + 1, o.y]),
        "convolve": lambda np, o: np.convolve(o.x, o.y[:5]),
        "copyto": lambda np, o: np.copyto(o.x, o.y + 1),
        "correlate": lambda np, o: np.correlate(o.x, o.y[:5]),
        "cross": lambda np, o: np.cross(o.m[:, :3] + 1, o.m[:, 3:6]),
        "delete": lambda np, o: np.delete(o.x, 3),
        "digitize": lambda np, o: np.digitize(o.x, [0.6, 0.9]),
        "dsplit": lambda np, o: np.dsplit(o.t, 2),
        "einsum": lambda np, o: np.einsum("ij,ij->i", o.m, o.s),
        "einsum_path": lambda np, o: np.einsum_path("ij,jk->ik", o.m, o.s),
        "expand_dims": lambda np, o: np.expand_dims(o.x, 0),
        "extract": lambda np, o: np.extract(o.b, o.x),
        "eye": lambda np, o: np.eye(20),
        "fill_diagonal": lambda np, o: np.fill_diagonal(o.m, 1.0),
        "fromfunction": lambda np, o: np.fromfunction(lambda i, j: i + j, (20, 20)),
        "full": lambda np, o: np.full(400, 2.0),
        "full_like": lambda np, o: np.full_like(o.x, 2.0),
        "geomspace": lambda np, o: np.geomspace(1.0, 2.0, 400),
        "histogram": lambda np, o: np.histogram(o.x, 9),
        "histogram2d": lambda np, o: np.histogram2d(o.x, o.y),
        "histogramdd": lambda np, o: np.histogramdd([o.x, o.y]),
        "hsplit": lambda np, o: np.hsplit(o.m, 2),
        "insert": lambda np, o: np.insert(o.x, 3, 1.0),
        "interp": lambda np, o: np.interp(o.x, [0.5, 1.0, 1.5], [1.0, 2.0, 4.0]),
        "isin": lambda np, o: np.isin(o.k, o.j),
        "ix_": lambda np, o: np.ix_(o.k, o.j),
        "kron": lambda np, o: np.kron(o.m + 1, o.m[:2, :2]),
        "linspace": lambda np, o: np.linspace(0.0, 1.0, 400),
        "logspace": lambda np, o: np.logspace(0.0, 1.0, 400),
        "lexsort": lambda np, o: np.lexsort((o.x, o.k)),
        "mask_indices": lambda np, o: np.mask_indices(20, np.triu),
        "meshgrid": lambda np, o: [a + 1 for a in np.meshgrid(o.x, o.y)],
        "moveaxis": lambda np, o: np.moveaxis(o.m, 0, 1),
        "nan_to_num": lambda np, o: np.nan_to_num(o.x),
        "outer": lambda np, o: np.outer(o.x + 1, o.y),
        "partition": lambda np, o: np.partition(o.x, 5),
        "argpartition": lambda np, o: np.argpartition(o.x, 5),
        "pad": lambda np, o: np.pad(o.m + 1, 2),
        "percentile": lambda np, o: np.percentile(o.w, 30),
        "median": lambda np, o: np.median(o.w),
        "nanmedian": lambda np, o: np.nanmedian(o.w),
        "nanpercentile": lambda np, o: np.nanpercentile(o.x, 30),
        "nanquantile": lambda np, o: np.nanquantile(o.x, 0.3),
        "quantile": lambda np, o: np.quantile(o.w, 0.3),
        "piecewise": lambda np, o: np.piecewise(o.x, [o.x < 1, o.x >= 1], [1.0, 2.0]),
        "place": lambda np, o: np.place(o.x, o.b, 2.0),
        "poly1d": lambda np, o: np.poly1d([1, 2]),
        "polyfit": lambda np, o: np.polyfit(o.x, o.y, 2),
        "polyval": lambda np, o: np.polyval([1.0, 2.0], o.x),
        "put": lambda np, o: np.put(o.x, o.k, o.y),
        "put_along_axis": lambda np, o: np.put_along_axis(o.x, o.k, o.y, 0),
        "putmask": lambda np, o: np.putmask(o.x, o.b, o.y),
        "ravel_multi_index": lambda np, o: np.ravel_multi_index((o.k, o.j), (20, 20)),
        "repeat": lambda np, o: np.repeat(o.x, 3),
        "reshape": lambda np, o: np.reshape(o.x, (20, 20)),
        "resize": lambda np, o: np.resize(o.x + 1, 600),
        "roll": lambda np, o: np.roll(o.x + 1, 3),
        "rollaxis": lambda np, o: np.rollaxis(o.m, 1),
        "searchsorted": lambda np, o: np.searchsorted(np.sort(o.x), o.y),
        "select": lambda np, o: np.select([o.x < 1, o.x > 1.2], [o.x, o.y]),
        "split": lambda np, o: np.split(o.x, 4),
        "swapaxes": lambda np, o: np.swapaxes(o.m, 0, 1),
        "take": lambda np, o: np.take(o.x, o.k),
        "take_along_axis": lambda np, o: np.take_along_axis(o.x, o.k, 0),
        "tensordot": lambda np, o: np.tensordot(o.m, o.s, 1),
        "tile": lambda np, o: np.tile(o.x + 1, 3),
        "tri": lambda np, o: np.tri(20),
        "tril_indices": lambda np, o: np.tril_indices(20),
        "triu_indices": lambda np, o: np.triu_indices(20),
        "unravel_index": lambda np, o: np.unravel_index(o.k, (20, 20)),
        "unstack": lambda np, o: np.unstack(o.m),
        "vander": lambda np, o: np.vander(o.x, 3),
        "vsplit": lambda np, o: np.vsplit(o.m, 2),
        "where": lambda np, o: np.where(o.b, o.x, o.y),
        "identity": lambda np, o: np.identity(20),
        "ones": lambda np, o: np.ones(400),
        "trim_zeros": lambda np, o: np.trim_zeros(o.x + 0.0),
        "ldexp": lambda np, o: np.ldexp(o.x, o.j),
        "linalg.solve": lambda np, o: np.linalg.solve(o.s, o.x[:20]),
        "linalg.cross": lambda np, o: np.linalg.cross(o.m[:, :3] + 1, o.m[:, 3:6]),
        "linalg.lstsq": lambda np, o: np.linalg.lstsq(o.s, o.x[:20]),
        "linalg.matrix_power": lambda np, o: np.linalg.matrix_power(o.s, 3),
        "linalg.multi_dot": lambda np, o: np.linalg.multi_dot([o.m, o.s, o.m]),
        "linalg.tensordot": lambda np, o: np.linalg.tensordot(o.m, o.s, axes=1),
        "linalg.tensorinv": lambda np, o: np.linalg.tensorinv(o.s.reshape(4, 5, 20), ind=2),
        "linalg.tensorsolve": lambda np, o: np.linalg.tensorsolve(o.s, o.x[:20]),
        ".argpartition": lambda np, o: o.x.argpartition(4),
        ".astype": lambda np, o: o.x.astype("f4"),
        ".choose": lambda np, o: (o.k % 2).choose([o.x, o.y]),
        ".clip": lambda np, o: o.x.clip(0.7, 0.9),
        ".compress": lambda np, o: o.x.compress(o.b),
        ".dot": lambda np, o: o.x.dot(o.y),
        ".fill": lambda np, o: o.x.fill(2.0),
        ".partition": lambda np, o: o.x.partition(4),
        ".put": lambda np, o: o.x.put(o.k, o.y),
        ".repeat": lambda np, o: o.x.repeat(3),
        ".reshape": lambda np, o: o.x.reshape(20, 20),
        ".searchsorted": lambda np, o: np.sort(o.x).searchsorted(o.y),
        ".swapaxes": lambda np, o: o.m.swapaxes(0, 1),
        ".take": lambda np, o: o.x.take(o.k),
        ".setfield": lambda np, o: o.x.setfield(o.y, "f8"),
    }.items()
}  # fmt: skip


def _drawn(name: str) -> Call:
    """A drawing function with arguments that fit its parameters' number."""

    def call(np: Any, o: Any) -> Any:
        rng = np.random.default_rng(1)
        return _arguments(getattr(rng, name), o)

    return call


def _legacy(name: str) -> Call:
    return lambda np, o: _arguments(getattr(np.random, name), o)


def _arguments(draw: Any, o: Any) -> Any:
    for given in (
        {"size": 400}, {"a": 2.0, "size": 400}, {"a": 2.0, "b": 3.0, "size": 400}, {"df": 5.0, "size": 400},
        {"n": 9, "p": 0.3, "size": 400}, {"p": 0.3, "size": 400}, {"low": 0, "high": 9, "size": 400},
        {"dfnum": 4.0, "dfden": 5.0, "size": 400}, {"df": 4.0, "nonc": 0.3, "size": 400},
        {"dfnum": 4.0, "dfden": 5.0, "nonc": 0.3, "size": 400}, {"shape": 2.0, "size": 400}, {"lam": 2.0, "size": 400},
        {"left": 0.0, "mode": 1.0, "right": 2.0, "size": 400}, {"mean": 1.0, "scale": 2.0, "size": 400},
        {"mu": 0.0, "kappa": 1.0, "size": 400}, {"alpha": [1.0, 2.0], "size": 400},
        {"mean": [0.0, 0.0], "cov": [[1.0, 0.0], [0.0, 1.0]], "size": 400}, {"n": 9, "pvals": [0.4, 0.6], "size": 400},
        {"ngood": 9, "nbad": 8, "nsample": 5, "size": 400}, {"colors": [9, 8], "nsample": 5, "size": 400},
    ):  # fmt: skip
        try:
            return draw(**given)
        except TypeError:
            continue
    for args in ((400,), (20, 20), (o.x,), (o.x + 0.0,)):
        try:
            return draw(*args)
        except TypeError:
            continue
    return draw(400, 0.5)


for _name in dir(numpy.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        CALLS["Generator." + _name] = (_drawn(_name),)
CALLS["Generator.choice"] = (lambda np, o: np.random.default_rng(1).choice(o.x, 400),)
for _name in numpy.random.__all__:
    if isinstance(getattr(getattr(numpy.random, _name), "__self__", None), numpy.random.RandomState):
        CALLS.setdefault("random." + _name, (_legacy(_name),))

# Not called: files, text, the interpreter's own things, and what changes the state of the process.
LEFT = frozenset(
    """
    save savez savez_compressed savetxt load loadtxt genfromtxt fromregex fromfile fromstring frombuffer fromiter
    from_dlpack memmap open_memmap info show_config show_runtime test seterr geterr seterrcall geterrcall setbufsize
    getbufsize set_printoptions get_printoptions get_include frompyfunc vectorize iterable nested_iters printoptions
    errstate typename mintypecode issubdtype isdtype require asarray_chkfinite base_repr binary_repr
    format_float_positional format_float_scientific array2string array_repr array_str broadcast_shapes result_type
    promote_types can_cast min_scalar_type bmat asmatrix busday_count busday_offset is_busday datetime_as_string
    datetime_data isnat astype random.seed random.get_state random.set_state random.get_bit_generator
    random.set_bit_generator random.default_rng ndarray.tofile ndarray.dump ndarray.dumps ndarray.tobytes ndarray.tolist
    ndarray.item ndarray.resize ndarray.setflags ndarray.to_device ndarray.view ndarray.getfield ndarray.byteswap
    """.split()
)
