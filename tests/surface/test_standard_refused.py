"""Bad input to the functions of the standard: NumPy's class of error and its statement, small and recorded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import offarray
from offarray.runtime.config import config

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan "
    "log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan "
    "tanh trunc cbrt rint"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow remainder subtract matmul vecdot heaviside fmod divmod"
).split()
FOLDS = (
    "all any max min mean prod std sum var argmax argmin cumulative_sum cumulative_prod count_nonzero median ptp "
    "average add.reduce maximum.reduce add.accumulate"
).split()
OPERATORS = "+ - * / // % ** & | ^ << >> @ < <= == != >".split()

# What each kind of function is called with; `x` is 3 by 4 and pending where work is recorded.
FORMS = {
    "unary": (UNARY, """
        F(s)|F(o)|F(rec)|F(None)|F('a')|F([x, v])|F(m8)|F(x, out=v)|F(x, out=i)|F(x, out=3)|F(x, out=(x, x))|F()|F(b)
        F(x, dtype='x')|F(x, dtype='i4')|F(x, dtype='U3')|F(x, casting='no', dtype='f4')|F(x, casting='bad')|F(b, out=b)
        F(x, where=v2)|F(x, where=x)|F(x, order='Z')|F(x, bad=1)|F(x, x, x, x)|F(x, signature='dd->d')|F(x, subok=3)
        F(ro + 0, out=ro)|F(c, out=x)|F(x, subok=None)"""),
    "binary": (BINARY, """
        F(x, v2)|F(x, s)|F(x, rec)|F(x, None)|F(x, 'a')|F(x, x[:, :3])|F(x, m8)|F(x, [1, 2])|F(x, {})|F(v2, x)|F(x.T, x)
        F(None, x)|F(o, x)|F(x)|F(x, x, out=v)|F(x, x, out=i)|F(x, x, v)|F(x, x, dtype='i4')|F(i, x, casting='no')
        F(x, x, casting='bad')|F(x, x, where=v2)|F(x, x, where=3.5)|F(x, x, bad=1)|F(x, x, out=ro)|F(b, b)|F(i, 300)
        F(i8, 300)|F(u8, -1)|F(i, 2**70)|F(i, 2**63)|F(c, c)|F(u64, i)|F(x, x, x, out=x)|F(x, x, subok=3)|F(b, 2**63)
        F(i, -(2**63) - 1)"""),
    "fold": (FOLDS, """
        F(x, axis=2)|F(x, axis=-3)|F(x, axis=(0, 0))|F(x, axis=(0, 2))|F(x, axis=1.0)|F(x, axis='a')|F(x, axis=v)|F(s)
        F(rec)|F(None)|F(e)|F(e0)|F(o)|F(m8)|F('a')|F([x, v])|F(x, out=v3)|F(x, axis=0, out=i4)|F(x, axis=0, out=ro)
        F(x, axis=0, out=3)|F(x, dtype='x')|F(x, dtype='U3')|F(x, keepdims='a')|F(x, keepdims=1.0)|F(x, keepdims=None)
        F(x, keepdims=[1])|F(x, keepdims=1)|F(x, bad=1)|F()|F(x, where=v2)|F(x, where=x)|F(x, initial='a')|F(z, axis=0)
        F(z, axis=1)|F(x, ddof='a')|F(x, correction=1, ddof=1)|F(x, weights=v2)|F(c, dtype='f8')|F(x, dtype='i4', out=i)
        F(x, keepdims=bool_)"""),
    "operator": (OPERATORS, """
        x F v2|x F s|x F None|x F 'a'|x F x.T|x F m8|x F rec|x F {}|x F [1, 2]|i F 2**70|i F c|i8 F 300|u8 F -1|None F x
        s F x|b F b|z F v2"""),
}  # fmt: skip
OTHERS = """
np.reshape(x, 5)|np.reshape(x, (-1, -1))|np.reshape(x, 'a')|np.reshape(x, (2.0, 6))|x.reshape()|x.reshape(5)
x.reshape('a')|np.concat([x, v])|np.concat([x, v2], axis=1)|np.concat([])|np.concat([x, x], axis=2)
np.concat([x, x], axis='a')|np.stack([x, v])|np.stack([])|np.stack([x, x], axis=4)|np.expand_dims(x, 5)
np.expand_dims(x, (0, 0))|np.squeeze(x, axis=0)|np.broadcast_to(x, (3, 5))|np.broadcast_arrays(x, v2)
np.permute_dims(x, (0, 0))|np.permute_dims(x, (0,))|v.mT|z.mT|np.matrix_transpose(v)|np.moveaxis(x, 0, 5)
np.flip(x, axis=3)|np.roll(x, 1, axis=3)|np.roll(x, 'a')|np.repeat(x, -1)|np.repeat(x, [1, 2])|np.tile(x, 'a')
np.unstack(z)|np.tril(z)|np.zeros(-1)|np.zeros('a')|np.ones(-1)|np.ones(2.5)|np.ones(700, dtype='x')
np.ones(700, device='gpu')|np.full(700, 1j, dtype='f8')|np.full(700, 2**70, dtype='i8')|np.full(3)
np.full(700, 'a', dtype='f8')|np.arange()|np.arange(0, 700, 0)|np.arange('a')|np.arange(700, step='a')
np.arange(700, bad=1)|np.linspace(0, 1, -1)|np.linspace(0, 1, 2.5)|np.linspace(0, 'a')|np.eye('a')|np.eye(2.5)
np.eye(30, k='a')|np.eye(30, k=1.5)|np.full_like(x)|np.full_like(i, 1j)|np.zeros_like(x, dtype='x')
np.ones_like(x, shape='a')|np.asarray(x, dtype='x')|np.asarray([[1], [1, 2]])
np.asarray(x, dtype='i4', copy=False)|np.asarray(s, dtype='f8')|np.meshgrid(v, v, indexing='a')|np.take(x, [9])
np.take(x, [0.5])|np.take(x, [0], axis=3)|np.take_along_axis(x, v, 1)|np.take_along_axis(x, i + 9, 1)|x[9]
x[0, 0, 0]|x['a']|x[1.5]|x[v]|x[[9]]|x[i]|x[-i]|x[[0, 9, -9, 11]]|x[b[:2]]|x[0, b]|x[..., ...]|x[::0]|z[0]
x[2**70]|x[:, [4]]|x[[0, 1], [0, 1, 2]]|x.astype('x')|x.astype('i4', casting='safe')
x.astype('f4', casting='no')|s.astype('f8')|x.astype('i4', casting='bad')|np.astype(x, 'x')|bool(x)|int(x)
float(x)|x.__index__()|len(z)|list(z)|x.item()|x.item(99)|x @ x|x @ v2|x @ 3|np.matmul(z, x)|np.tensordot(x, x)
np.tensordot(x, v2, 1)|np.vecdot(x, v2)|np.cross(x, x)|np.outer(x)|np.linalg.inv(x)|np.linalg.inv(v)
np.linalg.inv(sq0)|np.linalg.solve(x, v)|np.linalg.det(x)|np.linalg.cholesky(-sq)|np.linalg.eigh(x)
np.linalg.svd(v)|np.linalg.qr(x, mode='a')|np.linalg.norm(x, ord='a')|np.linalg.norm(x, axis=5)
np.linalg.vector_norm(x, axis=5)|np.linalg.matrix_norm(v)|np.linalg.matrix_power(x, 2)|np.linalg.eigvals(v)
np.fft.fft(x, n=0)|np.fft.fft(x, axis=5)|np.fft.fft(z)|np.fft.fft(s)|np.fft.fft(x, norm='a')|np.fft.rfft(c)
np.fft.fftn(x, s=(3,), axes=(0, 1))|np.fft.fftshift(x, axes=5)|np.fft.fftfreq('a')|np.fft.fftfreq(0)
np.fft.rfftfreq(2.5)|np.where(b, x)|np.where(v2, x, x)|np.where(b, x, v2)|np.where(b, x, rec)
np.searchsorted(x, 1)|np.nonzero(z)|np.size(x, 5)|np.searchsorted(v, 1, side='a')|np.count_nonzero(x, axis=5)
np.argmax(e0)|np.argmax(x, out=v)|np.isin(x)|np.size(x, -3)|np.sort(x, axis=5)|np.sort(x, kind='a')|np.sort(z)
np.sort(x, stable=True, kind='stable')|np.sort(mixed)|np.argsort(mixed)|np.argsort(x, axis=5)
np.argsort(x, kind='a')|np.argsort(x, axis='a')|np.argsort(x, order='a')|np.argsort(z, axis=1)
np.argsort(x, stable=True, kind='stable')|np.sort()|np.argsort()|np.sort(x, axis=1.5)|np.size(x, 'a')
np.clip(x, v2, 1)|np.clip(x, 1, 2, out=v)|np.clip(s, 1, 2)|np.clip(x, 'a', 2)|np.clip(i8, 0, 300)
np.clip(u8, -1, 3)|np.clip()|np.clip(x, c, c)|np.clip(x, 1, 2, where=v2)|np.clip(i, 0, 2**70)|np.round(x, 'a')
np.round(x, 1, out=i)|np.diff(x, n=-1)|np.diff(x, axis=5)|np.diff(z)|np.result_type()
np.isdtype('f8', 'real floating')|np.iinfo('f4')|np.can_cast('f8', 'f4', casting='a')
np.broadcast_shapes((3,), (4,))|x.__array_namespace__(api_version='1')|np.cumulative_sum(x)
""".strip().replace("\n", "|").split("|")  # fmt: skip
WRITES = """
x[9] = 1|x[0] = v2|x[:] = "a"|x[0] = None|i[0] = None|x[:] = c|x[0, 0] = v|ro[0] = 1|x[b] = [1, 2]|x[b[:2]] = 1
x[[9]] = 1|x[1.5] = 1|z[0] = 1|i8[:] = 300|u8[0] = -1|i[0] = 2**70|x[:] = x[:, :3]|x[:] = s|x[x > 0] = v2
x[i + 9] = 1|x[0] = x|x.shape = (5,)|x.shape = "a"|x.nothing.y = 1|x.ndim = 1|x.flat = "a"|x += v2|i += x|v += x
ro += x|i8 += 300|x += c|b += x|i //= x|x @= x|u8 -= -1|i <<= x|x &= x
""".strip().replace("\n", "|").split("|")  # fmt: skip


OPERANDS = {
    "x": "np.arange(12.0).reshape(3, 4) + 0", "v": "np.arange(4.0) + 0", "v2": "np.arange(5.0) + 0",
    "v3": "np.zeros(3)",
    "i": "np.arange(12).reshape(3, 4) + 0", "i4": "np.arange(4) + 0", "s": "np.array([['a', 'b', 'c', 'd']] * 3)",
    "o": "np.array([None, 'a', 3], object)", "rec": "np.zeros((3, 4), 'i4,f8')", "e": "np.zeros((0, 3))",
    "e0": "np.zeros(0)", "z": "np.array(2.0) + 0", "m8": "np.ones((3, 4), 'm8[s]')", "i8": "np.ones((3, 4), 'i1') + 0",
    "u8": "np.ones((3, 4), 'u1')", "u64": "np.ones((3, 4), 'u8')", "sq": "np.eye(3) * 2 + 0", "sq0": "np.zeros((3, 3))",
    "bool_": "np.True_", "mixed": "np.array([1, 'a', None], object)", "b": "x > 3", "c": "x * 1j",
}  # fmt: skip


class Space(dict[str, Any]):
    """The names of a piece of code, each made when it is asked for."""

    def __missing__(self, name: str) -> Any:
        if name == "ro":
            self[name] = self["np"].ones((3, 4)) + 0
            self[name].flags.writeable = False
        else:
            self[name] = eval(OPERANDS[name], {}, self)
        return self[name]


def outcome(np: Any, code: str, write: bool) -> Any:
    """What a piece of code does: an error as class and text, else the type and shape of the result."""
    space = Space(np=np)
    try:
        result = exec(code, {}, space) if write else eval(code, {}, space)
        for value in (result, *space.values()):
            if isinstance(value, np.ndarray):
                value.tolist()
    except Exception as error:
        text = str(error).replace("offarray", "numpy")
        return type(error), re.sub("0x[0-9a-f]+", "", re.sub(r"(?<!numpy\.)\bndarray\b", "numpy.ndarray", text))
    return str(getattr(result, "dtype", "")), getattr(result, "shape", None)


@pytest.fixture(params=["small", "recorded"], autouse=True)
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which an operation can run; a warning is not what is asked about here."""
    with config(eager_size=500 if request.param == "small" else 0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def compared(codes: list[str], write: bool = False) -> None:
    """Assert that every piece of code is refused, or not, as NumPy does it."""
    wrong = {}
    for code in dict.fromkeys(c.strip() for c in codes):
        theirs, ours = outcome(numpy, code, write), outcome(offarray, code, write)
        if ours != theirs:
            wrong[code] = (theirs, ours)
    assert not wrong, "\n".join(f"{code}\n    {a}\n    {b}" for code, (a, b) in wrong.items())


@pytest.mark.parametrize("kind", FORMS)
def test_refused(kind: str) -> None:
    names, forms = FORMS[kind]
    patterns = [form.strip() for form in forms.strip().replace("\n", "|").split("|")]
    spelled = ((n, n if kind == "operator" else "np." + n) for n in names)
    codes = [re.sub(r"\bF\b", full, form) for _, full in spelled for form in patterns]
    compared(codes)


def test_other_functions_refused() -> None:
    compared(OTHERS)


def test_writes_refused() -> None:
    compared(WRITES, write=True)
