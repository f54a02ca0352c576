"""libdevice's functions, as the rules for devices call them."""

from __future__ import annotations

from .numerics_float import choose, compare, magnitude
from .text import SCALARS, Code

LIBRARY = {  # ufunc -> function of libdevice
    **{name: name for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot cbrt".split()},
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "power": "pow", "float_power": "pow", "nextafter": "nextafter",
}  # fmt: skip


def library(code: Code, name: str, dtype: str, *args: str) -> str:
    """Call of libdevice's function for one lane."""
    t = SCALARS[dtype]
    return code.call(t, f"__nv_{name}{'f' if dtype == 'f4' else ''}", *((t, a) for a in args))


def hypot(code: Code, dtype: str, x: str, y: str) -> str:
    """libdevice's, scaled down where it would overflow too early."""
    t = code.type(dtype)
    limit, down = (2.0**1000, 2.0**-600) if dtype == "f8" else (2.0**120, 2.0**-60)
    some = [compare(code, "ogt", dtype, magnitude(code, dtype, v), limit) for v in (x, y)]
    far = code.op(f"or {code.type('b1')} {some[0]}, {some[1]}")
    scale, back = choose(code, far, dtype, down, 1.0), choose(code, far, dtype, 1 / down, 1.0)
    scaled = [code.op(f"fmul {t} {v}, {scale}") for v in (x, y)]
    return code.op(f"fmul {t} {library(code, 'hypot', dtype, *scaled)}, {back}")
