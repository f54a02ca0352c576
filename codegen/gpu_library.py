"""libdevice's functions, as the rules for devices call them."""

from __future__ import annotations

import math

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
    """Root of the sum of squares, rounded as well as the C library's: f4 through f8, f8 with its error taken off."""
    if dtype == "f4":
        wide = [code.op(f"fpext float {v} to double") for v in (x, y)]
        squares = [code.op(f"fmul double {v}, {v}") for v in wide]
        root = code.intrinsic("sqrt", "f8", code.op(f"fadd double {squares[0]}, {squares[1]}"))
        found = code.op(f"fptrunc double {root} to float")
    else:
        found = _hypot(code, *(magnitude(code, "f8", v) for v in (x, y)))
    endless = [compare(code, "oeq", dtype, magnitude(code, dtype, v), math.inf) for v in (x, y)]
    return choose(code, code.op(f"or i1 {endless[0]}, {endless[1]}"), dtype, math.inf, found)


def _hypot(code: Code, x: str, y: str) -> str:
    """Of magnitudes, scaled into range; the root's error is found by fused operations (Borges 2020)."""
    more = compare(code, "ogt", "f8", x, y)
    large, small = choose(code, more, "f8", x, y), choose(code, more, "f8", y, x)
    far, near = compare(code, "ogt", "f8", large, 2.0**500), compare(code, "olt", "f8", small, 2.0**-450)
    scale = choose(code, far, "f8", 2.0**-600, choose(code, near, "f8", 2.0**600, 1.0))
    back = choose(code, far, "f8", 2.0**600, choose(code, near, "f8", 2.0**-600, 1.0))
    a, b = (code.op(f"fmul double {v}, {scale}") for v in (large, small))
    root = code.intrinsic("sqrt", "f8", code.intrinsic("fma", "f8", a, a, code.op(f"fmul double {b}, {b}")))
    square, first = code.op(f"fmul double {root}, {root}"), code.op(f"fmul double {a}, {a}")
    less = [code.op(f"fneg double {v}") for v in (b, square, first)]
    error = code.intrinsic("fma", "f8", less[0], b, code.op(f"fsub double {square}, {first}"))
    error = code.op(f"fadd double {error}, {code.intrinsic('fma', 'f8', root, root, less[1])}")
    error = code.op(f"fsub double {error}, {code.intrinsic('fma', 'f8', a, a, less[2])}")
    twice = code.op(f"fadd double {root}, {root}")
    better = code.op(f"fsub double {root}, {code.op(f'fdiv double {error}, {twice}')}")
    # where one is nothing beside the other, as with a scale that does not suit both, the root is the larger one
    alone = compare(code, "ole", "f8", small, code.op(f"fmul double {large}, {code.const('f8', 2.0**-54)}"))
    result = code.op(f"fmul double {better}, {back}")
    return choose(code, alone, "f8", code.op(f"fadd double {large}, {small}"), result)
